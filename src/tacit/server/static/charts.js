// Charts with Observable Plot. Each has its table beside it, so a chart is a picture with a name, and nothing is in it alone.

/**
 * One figure of an answer, or one that is foretold.
 * @typedef {{label: string, value: number, low: number, high: number, text?: string}} Interval
 */

/** @type {any} */
const plot = () => /** @type {any} */ (globalThis).Plot;

/**
 * Put a picture into the page. Plot adds a style element, which the page's policy forbids; its rules are in tacit.css.
 * @param {HTMLElement} host
 * @param {any} options
 * @param {string} name
 */
function put(host, options, name) {
  const svg = plot().plot({ ...options, ariaLabel: name, style: undefined });
  const found = svg.matches("svg") ? svg : svg.querySelector("svg");
  for (const style of svg.querySelectorAll("style")) style.remove();
  // a picture has one name; those of its parts, which have no role, would be out of place
  for (const part of svg.querySelectorAll("g[aria-label], g[aria-description]")) {
    part.removeAttribute("aria-label");
    part.removeAttribute("aria-description");
  }
  found.setAttribute("role", "img");
  found.setAttribute("aria-label", name);
  host.replaceChildren(svg);
}

/**
 * Figures with their intervals, one line each.
 * @param {HTMLElement} host
 * @param {Interval[]} rows
 * @param {{name: string, domain?: [number, number], zero?: boolean, ticks?: boolean}} about
 */
export function intervals(host, rows, about) {
  if (!plot()) return;
  const longest = Math.max(...rows.map((row) => row.label.length), 4);
  const width = Math.max(200, Math.min(900, host.clientWidth || 600));
  const left = Math.min(width * 0.4, 14 + longest * 7.8);
  const marks = [
    plot().ruleY(rows, { y: "label", x1: "low", x2: "high", stroke: "var(--mark)", strokeWidth: 5, strokeOpacity: 0.45, strokeLinecap: "round" }),
    plot().dot(rows, { y: "label", x: "value", r: 4.5, fill: "var(--mark)" }),
  ];
  if (about.zero) marks.unshift(plot().ruleX([0], { stroke: "currentColor", strokeOpacity: 0.4 }));
  if (rows.some((row) => row.text)) {
    marks.push(plot().text(rows, { y: "label", x: "value", text: "text", dy: -13, fill: "currentColor", stroke: "var(--card)", strokeWidth: 4 }));
  }
  put(host, {
    width, height: (about.ticks === false ? 24 : 52) + rows.length * (rows.some((row) => row.text) ? 42 : 28), marginLeft: left, marginRight: 24, marginTop: 18,
    x: { label: null, domain: about.domain, grid: about.ticks !== false, nice: !about.domain, clamp: true, axis: about.ticks === false ? null : undefined, ticks: Math.max(2, Math.floor((width - left) / 90)) },
    y: { label: null, domain: rows.map((row) => row.label) },
    marks,
  }, about.name);
}

/**
 * What was spent over time, the budget above it, and where it goes at the present pace.
 * @param {HTMLElement} host
 * @param {{spent: [number, number][], budget: number, forecast: [number, number][], name: string}} found
 */
export function burnDown(host, found) {
  if (!plot()) return;
  const point = (/** @type {[number, number]} */ [time, value]) => ({ time: new Date(time * 1000), value });
  put(host, {
    width: Math.max(200, Math.min(900, host.clientWidth || 600)), height: 240, marginLeft: 48, marginRight: 16, marginTop: 22,
    x: { label: null, type: "utc", ticks: Math.max(2, Math.floor((host.clientWidth || 600) / 130)) },
    y: { label: "epsilon spent", domain: [0, found.budget * 1.08], grid: true },
    marks: [
      plot().ruleY([found.budget], { stroke: "var(--bad)", strokeDasharray: "6 4" }),
      plot().text([found.budget], { y: (/** @type {number} */ d) => d, frameAnchor: "left", dx: 6, dy: -8, text: () => "budget", fill: "var(--bad)" }),
      plot().areaY(found.spent.map(point), { x: "time", y: "value", curve: "step-after", fill: "var(--mark)", fillOpacity: 0.15 }),
      plot().lineY(found.spent.map(point), { x: "time", y: "value", curve: "step-after", stroke: "var(--mark)", strokeWidth: 2.5 }),
      plot().lineY(found.forecast.map(point), { x: "time", y: "value", stroke: "currentColor", strokeDasharray: "3 4" }),
    ],
  }, found.name);
}

/** Draw what the page holds as data: `data-intervals` and `data-burn-down` have JSON. */
export function drawAll() {
  for (const host of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-intervals]"))) {
    const found = JSON.parse(host.dataset.intervals ?? "{}");
    intervals(host, found.rows, found);
  }
  for (const host of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-burn-down]"))) {
    burnDown(host, JSON.parse(host.dataset.burnDown ?? "{}"));
  }
}
