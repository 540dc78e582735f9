// The page that asks: prices fetched once, then a slider and a wanted error that move each other without a request; help with names.
import { intervals } from "./charts.js";
import { completion } from "./completion.js";
import { chance, significant } from "./numbers.js";

/**
 * @typedef {{errors: Record<string, number>, charge: Record<string, number>, cost: {upper: number}, fits: boolean, approval: boolean, confidence: number, delta: number}} Price
 */

const form = /** @type {HTMLFormElement | null} */ (document.querySelector("#ask"));
if (form) start(form);

/** @param {HTMLFormElement} form */
function start(form) {
  const find = (/** @type {string} */ name) => /** @type {any} */ (form.querySelector(name));
  const sql = find("#f-sql");
  const slider = /** @type {HTMLInputElement | null} */ (find("#slider"));
  completion(sql, [...form.querySelectorAll("[data-column]")].map((place) => /** @type {HTMLElement} */ (place).dataset.column ?? ""));
  insertable(form, sql);
  find("#f-dataset").addEventListener("change", elsewhere);
  find("#f-purpose").addEventListener("change", elsewhere);
  if (!slider) return;

  // by attribute: the form has a field named dataset, which hides the property
  const steps = (form.getAttribute("data-steps") ?? "").split(" ");
  const currency = form.getAttribute("data-currency") ?? "epsilon";
  const epsilon = /** @type {HTMLSelectElement} */ (find("#f-epsilon"));
  const within = /** @type {HTMLInputElement} */ (find("#f-within"));
  const figure = /** @type {HTMLSelectElement} */ (find("#f-figure"));
  epsilon.hidden = true;
  /** @type {Price[]} */
  let curve = [];
  let left = 0;
  let asked = "";
  let number = 0;

  /** Another data set or purpose has other columns and another budget: the page is made again, with the question in it. */
  function elsewhere() {
    const there = new URLSearchParams({ dataset: find("#f-dataset").value, purpose: find("#f-purpose").value, sql: sql.value });
    location.assign(`/ask?${there}`);
  }

  /** Fetch the prices of this question, once. */
  async function fetchCurve() {
    const text = sql.value.trim();
    const rows = Number(find("#f-rows").value.replaceAll(",", "")) || 1000;
    const wanted = JSON.stringify([text, rows]);
    if (!text || wanted === asked) return;
    asked = wanted;
    const mine = ++number;
    const token = /** @type {HTMLMetaElement} */ (document.querySelector('meta[name="tacit-form"]')).content;
    const body = { dataset: find("#f-dataset").value, purpose: find("#f-purpose").value, sql: text, rows, [`${currency}s`]: steps };
    let found, good;
    try {
      const answer = await fetch("/v1/price", {
        method: "POST", headers: { "content-type": "application/json", "x-tacit-form": token }, body: JSON.stringify(body),
      });
      good = answer.ok;
      found = await answer.json();
    } catch {
      good = false;
      found = { title: "The service cannot be reached", fix: "try again in a moment" };
    }
    if (mine !== number) return;
    const fault = find("#sql-error");
    fault.hidden = good;
    find("#live").hidden = !good;
    if (!good) {
      asked = "";
      curve = [];
      const place = document.createElement("p");
      place.textContent = found.detail ?? found.title;
      const fix = document.createElement("p");
      fix.textContent = `What to do: ${found.fix}.`;
      fault.replaceChildren(place, fix);
      return;
    }
    curve = found.prices;
    left = (currency === "mu" ? Math.sqrt(found.left.mu2 ?? 0) : found.left[currency]) ?? 0;
    const names = Object.keys(curve[0].errors);
    const kept = names.includes(figure.value) ? figure.value : names[0];
    figure.replaceChildren(...names.map((name) => new Option(name, name, false, name === kept)));
    const wish = Number(within.value);
    if (find("#f-by-accuracy").checked && wish > 0) byAccuracy(); else byEpsilon(Number(slider?.value));
    if (sql.dataset.checked !== text) {
      sql.dataset.checked = text;
      /** @type {any} */ (globalThis).htmx?.trigger(find("#check"), "click");
    }
  }

  /** @param {number} place */
  function byEpsilon(place) {
    find("#f-by-epsilon").checked = true;
    epsilon.value = steps[place];
    if (!curve.length) return;
    within.value = plain(curve[place].errors[figure.value]);
    show(curve[place].errors, Number(steps[place]));
  }

  /** The cheapest price that is as exact as is wanted: between two of the curve, on the straight line of their logarithms. */
  function byAccuracy() {
    find("#f-by-accuracy").checked = true;
    const wish = Number(within.value.replaceAll(",", ""));
    if (!curve.length || !(wish > 0)) return;
    const wanted = curve.map((price) => price.errors[figure.value]);
    let place = wanted.findIndex((error) => error <= wish);
    const beyond = place < 0;
    if (beyond) place = wanted.length - 1;
    if (slider) slider.value = String(place);
    epsilon.value = steps[place];
    const before = curve[place - 1]?.errors;
    const between = before !== undefined && !beyond && before[figure.value] > wanted[place];
    const share = between ? Math.log(before[figure.value] / wish) / Math.log(before[figure.value] / wanted[place]) : 1;
    const cost = between ? Number(steps[place - 1]) * (Number(steps[place]) / Number(steps[place - 1])) ** share : Number(steps[place]);
    const errors = Object.fromEntries(Object.entries(curve[place].errors).map(
      ([name, error]) => [name, between && error > 0 ? before[name] * (error / before[name]) ** share : error],
    ));
    show(errors, cost, beyond ? "That is more exact than what is left allows." : "");
  }

  /**
   * @param {Record<string, number>} errors
   * @param {number} cost
   * @param {string} [note]
   */
  function show(errors, cost, note = "") {
    const names = Object.entries(errors);
    // as wide as at the lowest price: the noise fills the whole range, and the figure would say nothing
    const empty = (/** @type {string} */ name) => errors[name] >= curve[0].errors[name] && curve[0].errors[name] > curve[curve.length - 1].errors[name]
      && curve[1].errors[name] === curve[0].errors[name];
    const told = names.map(([name, error]) => (empty(name) ? `${name} says nothing at this price` : `${name} within ${significant(error)}`)).join(", ");
    find("#sentence").textContent = `${note ? `${note} Nearest: ` : ""}${told}, 19 times in 20.`;
    find("#p-cost").textContent = significant(cost, 3);
    // the squares of mu add up
    const after = currency === "mu" ? Math.sqrt(Math.max(0, left ** 2 - cost ** 2)) : Math.max(0, left - cost);
    find("#p-left").textContent = significant(left, 3);
    find("#p-after").textContent = significant(after, 3);
    const nearest = curve[Number(slider?.value)];
    // a guess is bounded by epsilon: for a budget in rho or mu, by that of the nearest price, which is not below
    find("#p-chance").textContent = chance(currency === "epsilon" ? cost : nearest.cost.upper);
    const delta = nearest?.delta;
    find("#p-delta").textContent = delta ? `1 in ${significant(1 / delta)}` : "none";
    const above = form.getAttribute("data-approve");
    find("#p-approval").hidden = !(currency === "epsilon" ? above && cost > Number(above) : nearest.approval);
    find("#p-high").hidden = cost < Number(steps[steps.length - 1]) * 0.5;
    slider?.setAttribute("aria-valuetext", `${currency} ${significant(cost, 3)}: ${told}`);
    const usual = curve[Number(form.getAttribute("data-start"))].errors;
    // each figure against its width where the slider starts, so that figures in different units share one picture
    const drawn = names.map(([name, error]) => {
      const width = Math.min(2, usual[name] ? error / usual[name] : 1);
      return { label: name, value: 0, low: -width, high: width, text: empty(name) ? "says nothing" : `± ${significant(error)}` };
    });
    intervals(find("#intervals"), drawn, { name: `Expected intervals: ${told}`, domain: [-2, 2], zero: true, ticks: false });
    find("#interval-rows").replaceChildren(...names.map(([name, error]) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      const wide = document.createElement("td");
      wide.className = "n";
      wide.textContent = empty(name) ? "says nothing" : `± ${significant(error)}`;
      const first = document.createElement("td");
      first.className = "n";
      first.textContent = `± ${significant(curve[0].errors[name])}`;
      const last = document.createElement("td");
      last.className = "n";
      last.textContent = `± ${significant(curve[curve.length - 1].errors[name])}`;
      row.append(head, wide, first, last);
      return row;
    }));
  }

  slider.addEventListener("input", () => byEpsilon(Number(slider.value)));
  within.addEventListener("input", byAccuracy);
  figure.addEventListener("change", () => (find("#f-by-accuracy").checked ? byAccuracy() : byEpsilon(Number(slider.value))));
  find("#f-by-accuracy").addEventListener("change", () => { within.focus(); byAccuracy(); });
  find("#f-by-epsilon").addEventListener("change", () => byEpsilon(Number(slider.value)));
  let pause = 0;
  const soon = () => { clearTimeout(pause); pause = window.setTimeout(fetchCurve, 700); };
  sql.addEventListener("input", soon);
  sql.addEventListener("change", fetchCurve);
  find("#f-rows").addEventListener("change", fetchCurve);
  window.addEventListener("resize", () => { if (curve.length) byEpsilonOrAccuracy(); });
  const byEpsilonOrAccuracy = () => (find("#f-by-accuracy").checked ? byAccuracy() : byEpsilon(Number(slider.value)));
  const place = steps.indexOf(epsilon.value);
  if (place >= 0) slider.value = String(place);
  fetchCurve();
}

/** A number as a person types it. @param {number} value */
function plain(value) {
  return String(Number(value.toPrecision(2)));
}

/**
 * Columns at the side become buttons that write their name into the question.
 * @param {HTMLFormElement} form
 * @param {HTMLTextAreaElement} sql
 */
function insertable(form, sql) {
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-column]"))) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "name";
    button.textContent = place.dataset.column ?? "";
    button.title = "Write this name into the question";
    button.addEventListener("click", () => {
      sql.focus();
      sql.setRangeText(place.dataset.column ?? "", sql.selectionStart, sql.selectionEnd, "end");
      sql.dispatchEvent(new Event("input", { bubbles: true }));
    });
    place.replaceChildren(button);
  }
}
