// Browsers start no worker for a page opened from a disk. The search then runs in a hidden frame instead, with the worker's interface.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = source => new Promise(done => {
        const script = this.inner.document.createElement("script");
        script.src = source;
        script.onload = done;
        this.inner.document.body.append(script);
      });
      this.inner.importScripts = (...sources) => Promise.all(sources.map(load));
      this.ready = load(url);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
