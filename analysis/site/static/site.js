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

// Rows that contain every word of the box stay
function makeFilterable(table) {
  const label = document.createElement("label");
  const box = document.createElement("input");
  const count = document.createElement("output");
  label.className = "filter";
  box.type = "search";
  box.placeholder = "for instance: torch checkpoint";
  label.append("Filter ", box, count);
  const rows = [...table.tBodies[0].rows];
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  box.addEventListener("input", show);
  show();
  table.parentElement.before(label);
}

for (const table of document.querySelectorAll("table.data")) {
  if (table.hasAttribute("data-sort")) makeSortable(table);
  if (table.hasAttribute("data-filter")) makeFilterable(table);
}
