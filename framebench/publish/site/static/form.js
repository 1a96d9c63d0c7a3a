"use strict";
// The form of the first page: a question from lists, its answer, and a chart to point at. `data.js` has the data:
// PLACES, the GROUPS of rows that are compared, the QUESTIONS that can be asked of a device, the SIZES by name,
// and which workloads a number of parameters describes (DESCRIBED).
// Which strategy needs least was decided there; here only what a budget leaves out, and what is the fastest of the rest.

const FRAMEWORKS = ["PyTorch", "JAX", "Jittor"];
const LISTS = ["place", "workload", "size", "scenario", "batch"];
const KINDS = { predicted: "predicted, not measured", measured: "measured" };

const form = document.getElementById("question");
const number = (value, digits = 0) => value.toLocaleString("en", { maximumFractionDigits: digits });
const whole = (mib) => number(Math.ceil(mib)); // what is needed is rounded up, so that a budget of it does fit
// what no search has run is a guess: as much as other strategies keep
const needed = (row) => `${row.atLeast ? "up to " : ""}${whole(row.needs)} MiB`;
const rated = (value) => number(value, value < 100 ? 1 : 0);

// An element with attributes and children; text is never markup
function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// ---- the question: each list offers what there is of the lists before it

function asked() {
  return Object.fromEntries([...LISTS, "own", "budget"].map((name) => [name, form.elements[name].value]));
}

function offerPlaces(chosen) {
  const groups = Object.entries(KINDS).map(([kind, label]) => {
    const places = PLACES.filter((place) => place.kind === kind);
    const options = places.map((place) => new Option(place.title, place.name, false, place.name === chosen.name));
    return made("optgroup", { label }, ...options);
  });
  form.elements.place.replaceChildren(...groups.filter((group) => group.children.length));
}

// A number of parameters as `framebench advise` takes it for a size, such as 2.7B; undefined for anything else
function readOwn(text) {
  return /^\d+(\.\d+)?[MB]$/.exec((text || "").replace(/\s/g, "").toUpperCase())?.[0];
}

// What can be asked: of a machine what it measured, of a device everything, whether it was predicted or not
function offer(wanted) {
  const place = PLACES.find((one) => one.name === wanted.place) || PLACES[0];
  offerPlaces(place);
  const groups = GROUPS.filter((group) => group.place === place.name);
  let left = place.kind === "measured" ? groups : [...groups, ...QUESTIONS];
  for (const name of LISTS.slice(1)) {
    const values = [...new Set(left.map((one) => one[name]))];
    const wish = (name === "size" && readOwn(wanted.own)) || wanted[name];
    const chosen = values.includes(wish) ? wish : values.includes(wanted[name]) ? wanted[name] : values[0];
    const title = (value) => (name === "size" && SIZES[`${left[0].workload}/${value}`]) || value;
    form.elements[name].replaceChildren(...values.map((value) => new Option(title(value), value, false, value === chosen)));
    left = left.filter((one) => one[name] === chosen);
  }
  const group = left.find((one) => one.rows);
  const question = left.find((one) => one.cases);
  const isDescribed = place.kind === "predicted" && DESCRIBED.includes(left[0].workload);
  document.getElementById("own").hidden = !isDescribed;
  const own = isDescribed ? readOwn(wanted.own) : undefined;
  if (!own || own === left[0].size) return { place, group, question };
  return { place, question: { cases: question.cases.replace(/[^/]+$/, own) } }; // nothing is published of this size
}

// ---- the answer

function fastest(group, rows) {
  const timed = rows.filter((row) => row.rate !== undefined);
  const paired = timed.every((row) => row.ratio !== undefined); // all shared blocks with PyTorch's baseline
  const slowness = (row) => (paired ? row.ratio : -row.rate);
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

// all rows that need least; EQUAL in framebench/analysis/needs.py says when two are equal
const EQUAL = 1e-3;

function leasts(rows) {
  const needs = Math.min(...rows.map((row) => row.needs));
  return rows.filter((row) => row.needs <= needs * (1 + EQUAL));
}

function links(rows) {
  return rows.flatMap((row, index) => (index ? [index === rows.length - 1 ? " and " : ", ", link(row)] : [link(row)]));
}

// What README's sentences say too: describe_rivals in framebench/analysis/answers.py
function mayNeedLess(rows) {
  const rivals = rows.filter((row) => row.mayNeedLess).sort((a, b) => a.peak - b.peak);
  if (!rivals.length) return [];
  const names = rivals.flatMap((row, index) => (index ? [", ", link(row)] : [link(row)]));
  return [...names, ` may need less: no search has run ${rivals.length === 1 ? "it" : "them"}`];
}

function sentence(group, budget) {
  const fits = group.rows.filter((row) => row.needs <= budget);
  const within = budget === Infinity ? "Without a limit" : `Within ${number(budget)} MiB`;
  const quick = fastest(group, fits);
  const leans = leasts(group.rows);
  const names = leans.flatMap((row, index) => [`${index ? " and " : ""}${row.framework} with `, link(row)]);
  const verb = leans.length === 1 ? " needs least, " : " need least, equally: ";
  const open = group.rows.filter((row) => row.needs > budget && row.atLeast <= budget);
  const may = open.length ? `${open.length} may fit: no search has run them. ` : "";
  const rivals = mayNeedLess(group.rows.filter((row) => row.framework === leans[0].framework));
  const smallest = [may, ...names, verb, strong(needed(leans[0]))];
  if (leans.length === 1) smallest.push(`, ${speed(group, leans[0])}`);
  if (rivals.length) smallest.push("; ", ...rivals);
  smallest.push(".");
  if (!fits.length && open.length) return [`Nothing is known to fit ${number(budget)} MiB. `, ...smallest];
  if (!fits.length) return [`Nothing that was measured needs ${number(budget)} MiB or less. `, ...smallest];
  if (!quick) return [`${within}, ${fits.length} of ${group.rows.length} measured cases fit. None of them was timed. `, ...smallest];
  const first = [`${within}, `, strong(quick.framework), " with ", link(quick), " is the fastest measured: "];
  return [...first, strong(speed(group, quick)), `, and needs ${needed(quick)}. `, ...smallest];
}

// Frameworks are not compared: XLA's plan and a simulation of PyTorch count differently
function predictedSentence(place, group, budget) {
  const fits = group.rows.filter((row) => row.needs <= budget);
  const parts = [`Within ${number(budget)} MiB of one ${place.title}, ${fits.length} of ${group.rows.length} predicted cases fit at the upper end of the error. `];
  for (const framework of present(group)) {
    const rows = group.rows.filter((row) => row.framework === framework);
    const marked = rows.filter((row) => row.least);
    const leans = marked.length ? marked : leasts(rows);
    const equally = leans.length > 1 ? ", equally: " : ": ";
    parts.push(`${framework} needs least with `, ...links(leans), equally, strong(`${whole(leans[0].needs)} MiB`), ` (${leans[0].source}). `);
  }
  return parts;
}

function describeSource(place, group) {
  if (group.kind === "measured") return ["Measured on ", made("a", { href: place.href }, place.name), "."];
  const errors = present(group).map((framework) => {
    const rows = group.rows.filter((one) => one.framework === framework);
    const kinds = new Set(rows.map((row) => row.error));
    return `${framework} ${rows[0].source}, ${[...kinds].join(" or ")}`;
  });
  return [`Predicted, not measured: ${errors.join("; ")}. What is needed allows for that error and the largest CUDA context.`];
}

function unanswered(place, question, budget) {
  const command = `framebench advise '${question.cases}' --device ${place.name}`;
  const limit = Number.isFinite(budget) && budget !== place.memory ? ` --budget ${budget}MiB` : "";
  return ["No prediction is published for this. ", made("code", {}, command + limit), " answers in some minutes."];
}

function share(group, row) {
  return `${number(row.share * 100)}% of ${group.whole}`;
}

function cell(group, row, title, otherwise) {
  if (!row) return made("td", { "data-title": title }, made("span", { class: "none" }, otherwise));
  const numbers = group.kind === "measured" ? `${needed(row)}, ${speed(group, row)}` : needed(row);
  const lines = [link(row), made("br"), numbers];
  const price = row.rate === undefined || !row.cost ? "" : `, ${row.cost}`;
  if (!row.base && row.share) lines.push(made("br"), made("span", { class: "none" }, share(group, row) + price));
  return made("td", { "data-title": title }, ...lines);
}

function line(group, framework, budget, titles) {
  const rows = group.rows.filter((row) => row.framework === framework);
  const fits = rows.filter((row) => row.needs <= budget);
  const lean = rows.find((row) => row.least);
  const cells = [cell(group, rows.find((row) => row.base), titles[0], group.kind === "measured" ? "not measured" : "not predicted")];
  if (group.kind === "measured") cells.push(cell(group, fastest(group, fits), titles[1], "none that was timed"));
  const leanCell = cell(group, lean, titles.at(-1), rows.length > 1 ? "nothing below the baseline" : "baseline only");
  const equals = rows.filter((row) => row.least && row !== lean);
  if (equals.length) leanCell.append(made("br"), "as little with ", ...links(equals));
  const rivals = mayNeedLess(rows);
  if (rivals.length) leanCell.append(made("br"), ...rivals);
  cells.push(leanCell);
  return made("tr", {}, made("th", { scope: "row" }, framework), ...cells);
}

function table(group, budget) {
  const quick = budget === Infinity ? "fastest" : `fastest within ${number(budget)} MiB`;
  const titles = group.kind === "measured" ? ["baseline", quick, "least memory"] : ["baseline", "least memory"];
  const heads = ["framework", ...titles].map((head) => made("th", { scope: "col" }, head));
  const lines = present(group).map((framework) => line(group, framework, budget, titles));
  return made("table", { class: "table answers" }, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...lines));
}

function present(group) {
  return FRAMEWORKS.filter((framework) => group.rows.some((row) => row.framework === framework));
}

// ---- the chart, which Vega draws

function tip(group, row) {
  const parts = [`${row.framework}, ${row.strategy}: needs ${row.atLeast ? "up to " : ""}${number(row.needs, 1)} MiB`];
  if (row.share) parts.push(share(group, row));
  if (group.kind === "predicted") return [...parts, `reserved ${number(row.peak, 1)} MiB`, row.source].join("; ");
  parts.push(`peak ${number(row.peak, 1)} MiB`);
  if (row.rate === undefined) return [...parts, "not timed"].join("; ");
  const range = row.range.every(Number.isFinite) ? ` (${rated(row.range[0])} to ${rated(row.range[1])})` : "";
  return [...parts, `${rated(row.rate)} ${group.unit}/s${range}`, row.cost].filter(Boolean).join("; ");
}

const HEIGHT = 320; // pixels
const ROW_HEIGHT = 22; // of a chart with a row for each strategy
// colours and markers are those of the figures: framebench/analysis/figures/page.py
const COLOURS = { PyTorch: "#d55e00", JAX: "#0173b2", Jittor: "#029e73" };
const SHAPES = {
  precision: "circle",
  recomputation: "square",
  batching: "diamond",
  execution: "triangle-up",
  collector: "triangle-down",
  loading: "triangle-right",
  mode: "M0,-.5L.43,-.25L.43,.25L0,.5L-.43,.25L-.43,-.25Z",
  combination: "cross",
  "other settings": "stroke",
};

function scaleOf(names) {
  return { domain: Object.keys(names), range: Object.values(names) };
}

function axis(field, title) {
  return { field, type: "quantitative", title, scale: { type: "log", nice: false, padding: 16 } };
}

function drawChart(group, budget) {
  const rows = group.rows.map((row) => ({ ...row, tip: tip(group, row), fits: row.needs <= budget }));
  const timed = rows.filter((row) => row.rate !== undefined);
  const drawn = timed.length ? timed : rows;
  const sort = { field: "needs", op: "min", order: "ascending" };
  const byStrategy = { field: "strategy", type: "nominal", title: null, sort };
  const points = {
    data: { values: drawn },
    mark: { type: "point", filled: true, size: 90 },
    encoding: {
      x: axis("needs", "memory that a job needs, MiB"),
      y: timed.length ? axis("rate", "throughput") : byStrategy,
      color: { field: "framework", type: "nominal", scale: scaleOf(COLOURS) },
      opacity: { condition: { test: "datum.fits", value: 0.9 }, value: 0.3 },
      href: { field: "href", type: "nominal" },
      tooltip: { field: "tip", type: "nominal" },
      description: { field: "tip", type: "nominal" },
    },
  };
  if (timed.length) points.encoding.shape = { field: "family", type: "nominal", scale: scaleOf(SHAPES) };
  const line = { data: { values: [{ at: budget }] }, mark: { type: "rule", strokeDash: [4, 4] }, encoding: { x: { field: "at", type: "quantitative" } } };
  const height = timed.length ? HEIGHT : ROW_HEIGHT * new Set(drawn.map((row) => row.strategy)).size;
  const layer = Number.isFinite(budget) ? [points, line] : [points];
  return embedChart(document.getElementById("chart"), { width: "container", height, layer });
}

// The same as the chart, for those who point at nothing
function listRows(group) {
  const items = group.rows.map((row) => made("li", {}, link(row), ` ${tip(group, row)}`));
  const summary = made("summary", {}, `All ${items.length} strategies in words`);
  return made("details", { class: "part" }, summary, made("ul", {}, ...items));
}

// ---- together

function draw(wanted) {
  const { place, group, question } = offer(wanted);
  const limit = Number(wanted.budget) > 0 ? Number(wanted.budget) : Infinity;
  const budget = Math.min(limit, place.memory || Infinity);
  const rows = document.getElementById("rows");
  const said = document.getElementById("said");
  const source = document.getElementById("source");
  document.getElementById("answers").hidden = !group;
  if (!group) {
    said.replaceChildren(...unanswered(place, question, budget));
    source.replaceChildren();
    return;
  }
  said.replaceChildren(...(group.kind === "measured" ? sentence(group, budget) : predictedSentence(place, group, budget)));
  source.replaceChildren(...describeSource(place, group));
  rows.replaceChildren(table(group, budget));
  document.getElementById("words").replaceChildren(listRows(group));
  drawChart(group, budget);
}

function changed() {
  draw(asked());
  history.replaceState(null, "", `#${new URLSearchParams(asked())}`);
}

function start() {
  const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  form.elements.budget.value = wanted.budget || "";
  form.elements.own.value = wanted.own || "";
  document.getElementById("explorer").hidden = false;
  document.getElementById("still").hidden = true;
  draw(wanted);
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("themechange", () => draw(asked()));
}

if (GROUPS.length) start();
