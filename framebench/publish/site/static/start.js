"use strict";
// What starts the libraries: DataTables on tables, Vega on charts, both in the colours that the reader chose.

const root = document.documentElement;

function isDark() {
  return root.dataset.theme === "dark";
}

// Without `ast` Vega would make functions of text
function embedChart(place, spec) {
  const columns = place.clientWidth < 500 ? 3 : 6;
  const legend = { orient: "bottom", columns, layout: { bottom: { direction: "vertical" } } };
  const config = { background: "transparent", view: { stroke: "transparent" }, legend };
  const options = { actions: false, ast: true, renderer: "svg", theme: isDark() ? "dark" : undefined, config };
  return vegaEmbed(place, spec, options);
}

function drawCharts() {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    embedChart(figure.querySelector(".vega"), spec);
  }
}

for (const table of document.querySelectorAll("table.sortable")) {
  new DataTable(table, { paging: false, order: [], autoWidth: false, layout: { topStart: "info", topEnd: "search", bottomStart: null, bottomEnd: null } });
}

// DataTables looks at a class of its own
function applyTheme() {
  root.classList.toggle("dark", isDark());
  drawCharts();
}

applyTheme();
new MutationObserver(() => {
  applyTheme();
  document.dispatchEvent(new Event("themechange"));
}).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
