// Help with names in the text area: columns and words of SQL that begin like the word under the cursor.
// The keyboard is the browser's until an arrow chooses from the list: Tab leaves the field, Enter starts a line.

const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "COUNT(*)", "COUNT(DISTINCT ", "SUM(", "AVG(", "MIN(", "MAX(", "MEDIAN(", "AND", "OR", "BETWEEN", "IN (", "AS", "HAVING", "ORDER BY", "CASE WHEN"];

/**
 * @param {HTMLTextAreaElement} area
 * @param {string[]} columns
 */
export function completion(area, columns) {
  const list = document.createElement("ul");
  list.id = "suggestions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Names that fit");
  list.hidden = true;
  area.after(list);
  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", list.id);
  let chosen = -1;

  const word = () => /[A-Za-z_][\w]*$/.exec(area.value.slice(0, area.selectionStart))?.[0] ?? "";
  const options = () => /** @type {HTMLElement[]} */ ([...list.children]);

  function close() {
    list.hidden = true;
    chosen = -1;
    area.removeAttribute("aria-activedescendant");
  }

  function open() {
    const begun = word();
    const small = begun.toLowerCase();
    const found = begun.length < 2 ? [] : [
      ...columns.map((name) => [name, "column"]), ...WORDS.map((name) => [name, ""]),
    ].filter(([name]) => name.toLowerCase().startsWith(small) && name.toLowerCase() !== small).slice(0, 8);
    list.replaceChildren(...found.map(([name, kind], place) => {
      const option = document.createElement("li");
      option.id = `suggestion-${place}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.name = name;
      option.textContent = name;
      if (kind) {
        const about = document.createElement("small");
        about.textContent = kind;
        option.append(about);
      }
      option.addEventListener("mousedown", (event) => { event.preventDefault(); take(place); });
      return option;
    }));
    if (found.length) { list.hidden = false; choose(-1); } else close();
  }

  /** @param {number} place */
  function choose(place) {
    chosen = place;
    options().forEach((option, at) => option.setAttribute("aria-selected", String(at === place)));
    if (place < 0) area.removeAttribute("aria-activedescendant");
    else {
      area.setAttribute("aria-activedescendant", `suggestion-${place}`);
      options()[place].scrollIntoView({ block: "nearest" });
    }
  }

  /** @param {number} place */
  function take(place) {
    const end = area.selectionStart;
    area.setRangeText(options()[place].dataset.name ?? "", end - word().length, end, "end");
    close();
    area.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  }

  area.addEventListener("input", open);
  area.addEventListener("blur", close);
  area.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const many = options().length;
    if (event.key === "ArrowDown") { event.preventDefault(); choose((chosen + 1) % many); }
    else if (event.key === "ArrowUp") { event.preventDefault(); choose((chosen + many - 1) % many); }
    else if (event.key === "Escape") { event.preventDefault(); close(); }
    else if (event.key === "Enter" && chosen >= 0) { event.preventDefault(); take(chosen); }
  });
}
