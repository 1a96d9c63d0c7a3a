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
const whole = (mib) => number(Math.ceil(mib)); // what is needed is rounded up, so that a budget of it does fit
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

function link(row) {
  return made("a", { href: row.href }, made("code", {}, row.strategy));
}

function speed(group, row) {
  return row.rate === undefined ? "not timed" : `${rated(row.rate)} ${group.unit}/s`;
}

function strong(text) {
  return made("strong", {}, text);
}

function sentence(group, budget) {
  const fits = group.rows.filter((row) => row.needs <= budget);
  const within = budget === Infinity ? "Without a limit" : `Within ${number(budget)} MiB`;
  const quick = fastest(group, fits);
  const lean = [...group.rows].sort((a, b) => a.needs - b.needs)[0];
  const size = strong(`${whole(lean.needs)} MiB`);
  const least = [`${lean.framework} with `, link(lean), " needs least, ", size, `, ${speed(group, lean)}.`];
  if (!fits.length) return [`Nothing that was measured needs ${number(budget)} MiB or less. `, ...least];
  if (!quick) return [`${within}, ${fits.length} of ${group.rows.length} measured cases fit. None of them was timed. `, ...least];
  const first = [`${within}, `, strong(quick.framework), " with ", link(quick), " is the fastest measured: "];
  return [...first, strong(speed(group, quick)), `, and needs ${whole(quick.needs)} MiB. `, ...least];
}

function share(group, row) {
  return `${number(row.share * 100)}% of ${group.whole}`;
}

function cell(group, row, title, otherwise) {
  if (!row) return made("td", { "data-title": title }, made("span", { class: "none" }, otherwise));
  const lines = [link(row), made("br"), `${whole(row.needs)} MiB, ${speed(group, row)}`];
  const price = row.rate === undefined || !row.cost ? "" : `, ${row.cost}`;
  if (!row.base) lines.push(made("br"), made("span", { class: "none" }, share(group, row) + price));
  return made("td", { "data-title": title }, ...lines);
}

function line(group, framework, budget, titles) {
  const rows = group.rows.filter((row) => row.framework === framework);
  const fits = rows.filter((row) => row.needs <= budget);
  const lean = rows.find((row) => row.least);
  return made("tr", {}, made("th", { scope: "row", class: framework }, framework),
    cell(group, rows.find((row) => row.base), titles[0], "not measured"),
    cell(group, fastest(group, fits), titles[1], "none that was timed"),
    cell(group, lean, titles[2], rows.length > 1 ? "nothing below the baseline" : "baseline only"));
}

function table(group, budget) {
  const titles = ["baseline", budget === Infinity ? "fastest" : `fastest within ${number(budget)} MiB`, "least memory"];
  const heads = ["framework", ...titles].map((head) => made("th", { scope: "col" }, head));
  const lines = present(group).map((framework) => line(group, framework, budget, titles));
  return made("table", { class: "answers" }, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...lines));
}

function present(group) {
  return FRAMEWORKS.filter((framework) => group.rows.some((row) => row.framework === framework));
}

// ---- the chart: what is needed against throughput, what was not timed in lanes below

const LEFT = 72, RIGHT = 22, TOP = 14, LANE = 20, BOTTOM = 44;
const STEPS = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1]]; // of the ticks in a decade, by how much room there is

// Logarithmic; as many ticks as have room
function scale(values, start, end) {
  const low = Math.log(Math.min(...values) / 1.12);
  const high = Math.log(Math.max(...values) * 1.12);
  const at = (value) => start + ((Math.log(value) - low) / (high - low)) * (end - start);
  const decades = [...Array(14).keys()].map((power) => 10 ** (power - 4));
  const inside = (tick) => Math.log(tick) >= low && Math.log(tick) <= high;
  const choices = STEPS.map((steps) => decades.flatMap((decade) => steps.map((step) => step * decade)).filter(inside));
  const room = Math.max(3, Math.abs(end - start) / 55);
  return { at, ticks: choices.find((ticks) => ticks.length <= room) || choices[2] };
}

function tip(group, row) {
  const parts = [`${row.framework}, ${row.strategy}: needs ${number(row.needs, 1)} MiB`, share(group, row), `peak ${number(row.peak, 1)} MiB`];
  if (row.rate === undefined) return [...parts, "not timed"].join("; ");
  const range = ranged(row) ? ` (${rated(row.range[0])} to ${rated(row.range[1])})` : "";
  return [...parts, `${rated(row.rate)} ${group.unit}/s${range}`, row.cost].filter(Boolean).join("; ");
}

function ranged(row) {
  return row.rate !== undefined && row.range.every(Number.isFinite);
}

// Where things are: scales, the line between timed and not timed, and the foot of the plot
function layout(group, budget, width) {
  const timed = group.rows.filter((row) => row.rate !== undefined);
  const lanes = present(group).filter((name) => group.rows.some((row) => row.framework === name && row.rate === undefined));
  const floor = TOP + (timed.length ? Math.min(380, Math.max(240, width * 0.5)) : 0);
  const foot = floor + (lanes.length ? lanes.length * LANE + 8 : 0);
  const sizes = [...group.rows.map((row) => row.needs), ...(Number.isFinite(budget) ? [budget] : [])];
  const rates = timed.flatMap((row) => [row.rate, ...(ranged(row) ? row.range : [])]);
  return { width, lanes, floor, foot, x: scale(sizes, LEFT, width - RIGHT), y: rates.length ? scale(rates, floor - 6, TOP) : null };
}

function word(text, attributes) {
  return drawn("text", { class: "tick", ...attributes }, text);
}

function rule(x1, x2, y1, y2, kind = "") {
  return drawn("line", { class: kind, x1, x2, y1, y2 });
}

function* axes(group, { width, lanes, floor, foot, x, y }) {
  const end = width - RIGHT;
  for (const tick of x.ticks) {
    yield rule(x.at(tick), x.at(tick), TOP, foot);
    yield word(number(tick, 2), { x: x.at(tick), y: foot + 16, "text-anchor": "middle" });
  }
  for (const tick of y ? y.ticks : []) {
    yield rule(LEFT, end, y.at(tick), y.at(tick));
    yield word(number(tick, 2), { x: LEFT - 6, y: y.at(tick) + 4, "text-anchor": "end" });
  }
  yield word(group.axis, { x: width - 2, y: foot + 36, "text-anchor": "end" });
  if (y) yield word(`${group.unit} per second`, { x: -(TOP + floor) / 2, y: 12, transform: "rotate(-90)", "text-anchor": "middle" });
  if (lanes.length) yield rule(LEFT, end, floor + 4, floor + 4, "floor");
  if (lanes.length) yield word("not timed", { x: 2, y: floor + 20 });
}

function* limit(budget, { foot, x }) {
  if (!Number.isFinite(budget)) return;
  yield rule(x.at(budget), x.at(budget), TOP, foot, "budget");
  yield word("budget", { x: x.at(budget) + 4, y: TOP + 10 });
}

function chart(group, budget, width) {
  const place = layout(group, budget, width);
  const lane = (row) => place.floor + 8 + (place.lanes.indexOf(row.framework) + 0.5) * LANE;
  const height = (row) => (row.rate === undefined ? lane(row) : place.y.at(row.rate));
  const points = group.rows.map((row) => ({ row, x: place.x.at(row.needs), y: height(row) }));
  const bars = points.filter(({ row }) => ranged(row));
  const size = { width, height: place.foot + BOTTOM, viewBox: `0 0 ${width} ${place.foot + BOTTOM}` };
  return drawn("svg", { ...size, role: "group", "aria-label": "Needed memory against throughput of every measured strategy" },
    ...axes(group, place), ...limit(budget, place),
    ...bars.map(({ row, x }) => rule(x, x, ...row.range.map(place.y.at), `bar ${row.framework}`)),
    ...points.map((point) => dot(group, point, budget)),
    ...labels(points.filter(({ row }) => row.rate !== undefined), place));
}

function dot(group, { row, x, y }, budget) {
  const shape = drawn("path", { d: SHAPES[row.family], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
  const kind = `dot ${row.framework}${row.needs > budget ? " over" : ""}`;
  const said = tip(group, row);
  return drawn("a", { href: row.href, class: kind, "aria-label": said }, drawn("title", {}, said), shape);
}

// Names where they cover neither a point, a bar nor each other: the baselines first, then what nothing beats in its framework
function labels(points, place) {
  const better = (one, other) => one.framework === other.framework && one.needs <= other.needs && one.rate > other.rate;
  const beaten = ({ row }) => points.some((point) => better(point.row, row));
  const order = [...points].sort((a, b) => b.row.base - a.row.base || beaten(a) - beaten(b));
  const taken = points.flatMap(({ row, x, y }) => [box(x, y, 7, 7), ...(ranged(row) ? [barred(row, x, place)] : [])]);
  return order.map((point) => name(point, taken, place)).filter(Boolean);
}

function box(x, y, across, up) {
  return { left: x - across, right: x + across, top: y - up, bottom: y + up };
}

function barred(row, x, place) {
  const [bottom, top] = row.range.map(place.y.at);
  return { left: x - 2, right: x + 2, top, bottom };
}

// The name in the first place around the point that is free, which is then taken; nothing where none is
function name({ row, x, y }, taken, { width, floor }) {
  const half = row.strategy.length * 3.4; // a letter of 12 pixels is at most so wide on average, twice
  const places = [["start", 9, 0], ["end", -9, 0], ["middle", 0, -14], ["middle", 0, 14], ["start", 7, -12], ["start", 7, 12]];
  const middles = { start: half, middle: 0, end: -half };
  const tried = places.map(([anchor, dx, dy]) => ({ anchor, dx, dy, ...box(x + dx + middles[anchor], y + dy, half, 7) }));
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  const inside = (one) => one.left > LEFT && one.right < width && one.top > 0 && one.bottom < floor + 4;
  const found = tried.find((one) => inside(one) && taken.every((other) => apart(one, other)));
  if (!found) return null;
  taken.push(found);
  const where = { x: x + found.dx, y: y + found.dy + 4, "text-anchor": found.anchor };
  return drawn("text", { class: "name", ...where, "aria-hidden": "true" }, row.strategy);
}

function legend(group) {
  const sign = (d) => drawn("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, drawn("path", { d }));
  const colours = present(group).map((framework) => made("li", { class: `dot ${framework}` }, sign(SHAPES.precision), framework));
  const families = Object.keys(SHAPES).filter((family) => group.rows.some((row) => row.family === family));
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
