"use strict";
// Sorting and filtering of the tables. Without this file the pages are the same, in the order of the records.

// "1,234.5 tokens/s" is 1234.5; "never" is after every number; NaN has no place of its own
function value(cell) {
  const text = cell.textContent.trim();
  if (text === "never") return Infinity;
  const found = text.match(/^[+-]?\d[\d,]*\.?\d*(e[+-]?\d+)?/i);
  return found ? Number(found[0].replaceAll(",", "")) : NaN;
}

// Cells without a value stay at the end in both directions
function compare(a, b, numeric, direction) {
  const absent = (cell) => cell.textContent.trim() === "-" || (numeric && Number.isNaN(value(cell)));
  if (absent(a) || absent(b)) return absent(a) - absent(b);
  const order = numeric ? value(a) - value(b) || 0 : a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  return direction * order;
}

function sort(table, column, head) {
  const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  const numeric = head.classList.contains("number");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compare(a.cells[column], b.cells[column], numeric, direction));
  table.tBodies[0].append(...rows);
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column, head));
    head.append(button);
  });
}

// Rows that contain every word of the box and have what is chosen stay
function makeFilterable(table) {
  const label = document.createElement("div");
  const box = document.createElement("input");
  const count = document.createElement("output");
  const rows = [...table.tBodies[0].rows];
  label.className = "filter";
  box.type = "search";
  box.placeholder = "for instance: torch checkpoint";
  const chosen = choices(table, rows, () => show());
  const lost = rows.filter((row) => row.querySelector(".badge.unsupported"));
  const unsupported = document.createElement("input");
  unsupported.type = "checkbox";
  unsupported.addEventListener("change", () => show());
  label.append(...chosen.map((choice) => choice.label), labelled("Filter", box), ...(lost.length ? [labelled("with unsupported", unsupported)] : []), count);
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const fits = chosen.every((choice) => choice.fits(row));
      row.hidden = !fits || (!unsupported.checked && lost.includes(row)) || !words.every((word) => row.textContent.toLowerCase().includes(word));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  box.addEventListener("input", show);
  show();
  (table.closest(".box") || table).before(label);
}

function labelled(text, input) {
  const label = document.createElement("label");
  label.append(`${text} `, input);
  return label;
}

// A list for each column that the table names: the values of its first row are chosen, and the columns themselves go. A later
// list offers what there is of the earlier ones
function choices(table, rows, changed) {
  const names = (table.dataset.choose || "").split(" ").filter(Boolean);
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
  const made = [];
  for (const name of names) {
    const place = heads.indexOf(name);
    const select = document.createElement("select");
    const before = [...made];
    const text = (row) => row.cells[place].textContent.trim();
    const offer = () => {
      const old = select.value;
      const found = [...new Set(rows.filter((row) => before.every((choice) => choice.fits(row))).map(text))];
      select.replaceChildren(...found.map((value) => new Option(value, value)));
      if (found.includes(old)) select.value = old;
    };
    offer();
    select.addEventListener("change", () => {
      for (const choice of made) if (!before.includes(choice) && choice.select !== select) choice.offer();
      changed();
    });
    for (const row of [table.tHead.rows[0], ...rows]) row.cells[place].hidden = true;
    made.push({ label: labelled(name, select), select, offer, fits: (row) => text(row) === select.value });
  }
  return made;
}

for (const table of document.querySelectorAll("table.data")) {
  if (table.hasAttribute("data-sort")) makeSortable(table);
  if (table.hasAttribute("data-filter") || table.hasAttribute("data-choose")) makeFilterable(table);
}
