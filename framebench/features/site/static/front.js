"use strict";
// The front page: a question from lists, its answer, and a chart to point at. The data is GROUPS of data.js; which strategy
// needs least memory was decided there, and here only what a budget leaves out, and what is the fastest of the rest.

const FRAMEWORKS = ["PyTorch", "JAX", "Jittor"];
const LISTS = ["workload", "scenario", "batch", "machine"];
// markers within 5 pixels of 0, 0, those of docs/figures
const SHAPES = {
  "precision": "M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z", "recomputation": "M-4.4-4.4H4.4V4.4H-4.4Z", "batching": "M0-6L5 0L0 6L-5 0Z",
  "execution": "M0-5.5L5.5 4.5H-5.5Z", "collector": "M0 5.5L5.5-4.5H-5.5Z", "loading": "M5.5 0L-4.5 5.5V-5.5Z",
  "mode": "M0-5.5L5-2.7V2.7L0 5.5L-5 2.7V-2.7Z",
  "combination": "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z", "other settings": "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
};

const form = document.getElementById("question");
const SVG = document.querySelector("#chart svg").namespaceURI;
const number = (value, digits = 0) => value.toLocaleString("en", { maximumFractionDigits: digits });
const rated = (value) => number(value, value < 100 ? 1 : 0);

// An element with attributes and children; text is never markup
function made(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// ---- the question: each list offers what there is of the lists before it

function asked() {
  return Object.fromEntries([...LISTS, "budget"].map((name) => [name, form.elements[name].value]));
}

function offer(wanted) {
  let left = GROUPS;
  for (const name of LISTS) {
    const values = [...new Set(left.map((group) => group[name]))];
    const chosen = values.includes(wanted[name]) ? wanted[name] : values[0];
    form.elements[name].replaceChildren(...values.map((value) => new Option(value, value, false, value === chosen)));
    left = left.filter((group) => group[name] === chosen);
  }
  return left[0];
}

// ---- the answer

function fastest(group, rows) {
  const timed = rows.filter((row) => row.rate !== undefined);
  const slowness = (row) => (group.paired ? row.ratio : -row.rate);
  return timed.sort((a, b) => slowness(a) - slowness(b))[0];
}

function smallest(rows) {
  return [...rows].sort((a, b) => a.mib - b.mib)[0];
}

function link(row) {
  return made("a", { href: row.href }, made("code", {}, row.strategy));
}

function speed(group, row) {
  return row.rate === undefined ? "not timed" : `${rated(row.rate)} ${group.unit}/s`;
}

function sentence(group, budget) {
  const fits = group.rows.filter((row) => row.mib <= budget);
  const within = budget === Infinity ? "Without a limit" : `Within ${number(budget)} MiB`;
  const quick = fastest(group, fits);
  const lean = smallest(group.rows);
  const least = ["The least memory is ", made("strong", {}, `${number(lean.mib)} MiB`), `: ${lean.framework} with `, link(lean), `, ${speed(group, lean)}.`];
  if (!fits.length) return [`Nothing that was measured needs ${number(budget)} MiB or less. `, ...least];
  if (!quick) return [`${within}, ${fits.length} of ${group.rows.length} measured cases fit. None of them was timed. `, ...least];
  return [`${within}, `, made("strong", {}, quick.framework), " with ", link(quick), " is the fastest measured: ",
    made("strong", {}, speed(group, quick)), ` in ${number(quick.mib)} MiB. `, ...least];
}

function cell(group, row, title, otherwise) {
  if (!row) return made("td", { "data-title": title }, made("span", { class: "none" }, otherwise));
  const beside = row.base ? [] : [made("br"), made("span", { class: "none" }, [`${number(row.share * 100)}% of ${group.base}'s peak`, row.rate === undefined ? "" : row.cost].filter(Boolean).join(", "))];
  return made("td", { "data-title": title }, link(row), made("br"), `${number(row.mib)} MiB, ${speed(group, row)}`, ...beside);
}

function table(group, budget) {
  const heads = ["baseline", budget === Infinity ? "fastest" : `fastest within ${number(budget)} MiB`, "least memory"];
  const lines = FRAMEWORKS.map((framework) => [framework, group.rows.filter((row) => row.framework === framework)]).filter(([, rows]) => rows.length);
  const body = lines.map(([framework, rows]) => made("tr", {}, made("th", { scope: "row", class: framework }, framework),
    cell(group, rows.find((row) => row.base), heads[0], "not measured"),
    cell(group, fastest(group, rows.filter((row) => row.mib <= budget)), heads[1], "none that was timed"),
    cell(group, rows.find((row) => row.least), heads[2], rows.length > 1 ? "nothing below the baseline" : "baseline only")));
  return made("table", { class: "answers" }, made("thead", {}, made("tr", {}, ...["framework", ...heads].map((head) => made("th", { scope: "col" }, head)))), made("tbody", {}, ...body));
}

// ---- the chart: peak against throughput, what was not timed in lanes below

const MARGIN = { left: 62, right: 16, top: 14, lane: 20, bottom: 44 };

function scale(values, start, end) {
  const low = Math.log(Math.min(...values) / 1.12);
  const high = Math.log(Math.max(...values) * 1.12);
  const at = (value) => start + ((Math.log(value) - low) / (high - low)) * (end - start);
  const decades = [...Array(14).keys()].map((power) => 10 ** (power - 4));
  const several = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1]].map((steps) => decades.flatMap((decade) => steps.map((step) => step * decade)));
  const inside = several.map((all) => all.filter((tick) => Math.log(tick) >= low && Math.log(tick) <= high));
  return { at, ticks: inside.find((ticks) => ticks.length <= Math.max(3, Math.abs(end - start) / 55)) || inside[2] };
}

function tip(group, row) {
  const parts = [`${row.framework}, ${row.strategy}: ${number(row.mib, 1)} MiB`, `${number(row.share * 100)}% of ${group.base}'s peak`];
  if (row.rate === undefined) return [...parts, "not timed"].join("; ");
  const range = row.range.every(Number.isFinite) ? ` (${rated(row.range[0])} to ${rated(row.range[1])})` : "";
  return [...parts, `${rated(row.rate)} ${group.unit}/s${range}`, row.cost].filter(Boolean).join("; ");
}

function chart(group, budget, width) {
  const timed = group.rows.filter((row) => row.rate !== undefined);
  const lanes = FRAMEWORKS.filter((framework) => group.rows.some((row) => row.framework === framework && row.rate === undefined));
  const plot = timed.length ? Math.min(380, Math.max(240, width * 0.5)) : 0;
  const floor = MARGIN.top + plot;
  const foot = floor + lanes.length * MARGIN.lane + (lanes.length ? 8 : 0);
  const x = scale([...group.rows.map((row) => row.mib), ...(Number.isFinite(budget) ? [budget] : [])], MARGIN.left, width - MARGIN.right);
  const y = timed.length ? scale(timed.flatMap((row) => [row.rate, ...row.range.filter(Number.isFinite)]), floor - 6, MARGIN.top) : null;
  const height = (row) => (row.rate === undefined ? floor + 8 + (lanes.indexOf(row.framework) + 0.5) * MARGIN.lane : y.at(row.rate));
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${foot + MARGIN.bottom}`, width, height: foot + MARGIN.bottom, role: "group", "aria-label": "Peak memory against throughput of every measured strategy" });
  for (const tick of x.ticks) svg.append(drawn("line", { x1: x.at(tick), x2: x.at(tick), y1: MARGIN.top, y2: foot }), drawn("text", { class: "tick", x: x.at(tick), y: foot + 16, "text-anchor": "middle" }, number(tick, 2)));
  for (const tick of y ? y.ticks : []) svg.append(drawn("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y.at(tick), y2: y.at(tick) }), drawn("text", { class: "tick", x: MARGIN.left - 6, y: y.at(tick) + 4, "text-anchor": "end" }, number(tick, 2)));
  svg.append(drawn("text", { class: "tick", x: (MARGIN.left + width) / 2, y: foot + 36, "text-anchor": "middle" }, `peak memory of a step, MiB (${group.instrument})`));
  if (y) svg.append(drawn("text", { class: "tick", x: -(MARGIN.top + plot / 2), y: 14, transform: "rotate(-90)", "text-anchor": "middle" }, `${group.unit} per second`));
  if (lanes.length) svg.append(drawn("line", { class: "floor", x1: MARGIN.left, x2: width - MARGIN.right, y1: floor + 4, y2: floor + 4 }), drawn("text", { class: "tick", x: 2, y: floor + 20 }, "not timed"));
  if (Number.isFinite(budget)) svg.append(drawn("line", { class: "budget", x1: x.at(budget), x2: x.at(budget), y1: MARGIN.top, y2: foot }), drawn("text", { class: "tick", x: x.at(budget) + 4, y: MARGIN.top + 10 }, "budget"));
  const points = group.rows.map((row) => ({ row, x: x.at(row.mib), y: height(row) }));
  for (const point of points) if (point.row.rate !== undefined && point.row.range.every(Number.isFinite)) svg.append(drawn("line", { class: `bar ${point.row.framework}`, x1: point.x, x2: point.x, y1: y.at(point.row.range[0]), y2: y.at(point.row.range[1]) }));
  for (const point of points) svg.append(dot(group, point, budget));
  for (const label of labels(points.filter((point) => point.row.rate !== undefined), width)) svg.append(label);
  return svg;
}

function dot(group, { row, x, y }, budget) {
  const shape = drawn("path", { d: SHAPES[row.family], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
  const over = row.mib > budget ? " over" : "";
  return drawn("a", { href: row.href, class: `dot ${row.framework}${over}`, "aria-label": tip(group, row) }, drawn("title", {}, tip(group, row)), shape);
}

// Names where they cover neither a point nor each other: those that nothing beats in their framework first
function labels(points, width) {
  const beaten = ({ row }) => points.some(({ row: other }) => other.framework === row.framework && other.mib <= row.mib && other.rate > row.rate);
  const order = [...points].sort((a, b) => b.row.base - a.row.base || beaten(a) - beaten(b));
  const taken = points.map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 }));
  const kept = [];
  for (const point of order) {
    const long = point.row.strategy.length * 6.4;
    const places = [[8, 4], [-8 - long, 4], [-long / 2, -9], [-long / 2, 17]].map(([dx, dy]) => [point.x + dx, point.y + dy]);
    for (const [left, base] of places) {
      const box = { left, right: left + long, top: base - 10, bottom: base + 2 };
      const free = box.left > MARGIN.left && box.right < width && box.top > 0 && !taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
      if (!free) continue;
      taken.push(box);
      kept.push(drawn("text", { class: "name", x: left, y: base, "aria-hidden": "true" }, point.row.strategy));
      break;
    }
  }
  return kept;
}

function legend(group) {
  const families = Object.keys(SHAPES).filter((family) => group.rows.some((row) => row.family === family));
  const sign = (d) => drawn("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, drawn("path", { d }));
  const colours = FRAMEWORKS.filter((framework) => group.rows.some((row) => row.framework === framework)).map((framework) => made("li", { class: `dot ${framework}` }, sign(SHAPES.precision), framework));
  return made("ul", { class: "legend" }, ...colours, ...families.map((family) => made("li", {}, sign(SHAPES[family]), family)));
}

// ---- together

function draw(wanted) {
  const group = offer(wanted);
  const budget = Number(wanted.budget) > 0 ? Number(wanted.budget) : Infinity;
  document.getElementById("said").replaceChildren(...sentence(group, budget));
  document.getElementById("rows").replaceChildren(table(group, budget));
  const place = document.getElementById("chart");
  place.replaceChildren(legend(group), chart(group, budget, Math.max(320, place.clientWidth)));
}

function changed() {
  draw(asked());
  history.replaceState(null, "", `#${new URLSearchParams(asked())}`);
}

function start() {
  const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  form.elements.budget.value = wanted.budget || "";
  document.getElementById("explorer").hidden = false;
  document.getElementById("still").hidden = true;
  draw(wanted);
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("resize", () => draw(asked()));
}

if (GROUPS.length) start();
