// What every page does with scripts: it says that there are some, and keeps a form from being sent twice by an impatient hand.
// The service would answer both alike; this only spares the second request.

document.documentElement.classList.add("scripted");

// Marks are attributes: a form with a field named dataset has no such property.
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  const button = /** @type {HTMLButtonElement | null} */ (/** @type {SubmitEvent} */ (event).submitter);
  if (form.hasAttribute("data-sent")) {
    event.preventDefault();
    return;
  }
  if (form.method === "post" && !button?.hasAttribute("hx-post")) {
    form.setAttribute("data-sent", "");
    button?.setAttribute("aria-disabled", "true");
  }
});

// A page that comes back from the browser's memory can be sent again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form")) {
    form.removeAttribute("data-sent");
    form.querySelector("[aria-disabled]")?.removeAttribute("aria-disabled");
  }
});

// A text that is there to be taken along gets a button for it, also in a part of the page that came later.
function copyable() {
  for (const source of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-copy]:not([data-copied])"))) {
    source.setAttribute("data-copied", "");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "no-print";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${source.dataset.copy}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(source.textContent?.trim() ?? "");
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    source.after(button);
  }
}
copyable();
document.addEventListener("htmx:afterSettle", copyable);
