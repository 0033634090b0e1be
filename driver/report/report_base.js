/* report_base.js - the data of the page of `espalier report`, text, stages, money, shapes and axes.
 *
 * `draw(data)` in report.js draws the page from the data of report_html.c; what is derived from
 * them stands in the variables below, which `take` sets.
 *
 * All text and all numbers of the data are untrusted: `el` escapes what it is given, and an axis
 * takes any number.
 */
"use strict";
let data, totals, facts, now, end, pool, declared, nodes, plans, planned, stages, charges, fixed;
let stageOf, firstName, spent, held, time, gangs, members, priced;

/* {columns, rows} as objects. */
function objects(table) {
  return table.rows
    .map((row) => Object.fromEntries(table.columns.map((name, i) => [name, row[i]])));
}
function take(given) {
  data = given;
  totals = data.totals;
  facts = objects(data.facts)[0];
  now = facts.now;
  end = facts.end_s;
  pool = facts.kind === "pool";
  declared = pool || facts.kind === "declared";
  [nodes, plans, planned, stages, charges] =
    ["nodes", "plans", "planned", "stages", "charges"].map((name) => objects(data[name]));
  fixed = data.fixed && !data.fixed.why_not ? data.fixed : null;
  priced = totals.cost_usd > 0 || nodes.some((n) => n.price_hour > 0) ||
    planned.some((r) => r.cost_usd > 0);
  stageOf = new Map(stages.map((s) => [s.n, s]));
  firstName = plans.length > 1 ? "first plan" : "plan";
  spent = sumCharges();
  held = sumHeld();
  costStages();
  fitWindow();
  time = axis(0, end, LEFT, RIGHT);
}

/* ---- text ------------------------------------------------------------------------------- */

class Markup {
  constructor(text) { this.text = text; }
}
const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
/* What turns the direction of its neighbors, or is no character, is replaced. */
function clean(text) {
  return String(text).replace(/[\t\r\n]/g, " ")
    .replace(/[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/g, "\ufffd");
}
function escape(text) {
  return clean(text).replace(/[&<>"']/g, (c) => entities[c]);
}
function markup(x) {
  return x instanceof Markup ? x.text : Array.isArray(x) ? x.map(markup).join("")
    : x === null || x === undefined || x === false ? "" : escape(x);
}
/* A coordinate: one decimal. */
function coordinate(v) {
  return Math.round(Math.max(-1e6, Math.min(1e6, v || 0)) * 10) / 10;
}
function el(name, attributes, ...inside) {
  let text = "<" + name;
  for (const [key, value] of Object.entries(attributes || {}))
    text += ` ${key}="${escape(typeof value === "number" ? coordinate(value) : value)}"`;
  return new Markup(`${text}>${markup(inside)}</${name}>`);
}
/* The text that appears under the pointer. */
function tip(...lines) {
  return el("title", null, new Markup(lines.filter((line) => line).map(escape).join("&#10;")));
}
/* Of a long text its start; of a name also its last characters, which tell it from others. */
function cut(text, most, last = 0) {
  const characters = Array.from(text || "");
  return characters.length > most ? characters.slice(0, most - last).join("") + "\u2026" +
    characters.slice(characters.length - last).join("") : text || "";
}
const cutName = (text, most) => cut(text, most, Math.floor(most / 3));
const known = (v) => typeof v === "number" && isFinite(v);
const or = (v, otherwise) => (known(v) ? v : otherwise);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const unit = (count = 1) => (totals.on_cpu ? "slot" : "GPU") + (count === 1 ? "" : "s");
const unitNumber = (gpus, packing) => (packing > 1 ? `1/${packing}` : gpus);

function seconds(s) {
  if (!known(s))
    return "-";
  const sign = s < 0 ? "-" : "", two = (n) => String(Math.floor(n)).padStart(2, "0");
  let v = Math.abs(s);
  if (v < 0.0005)
    return "0s";
  if (v > 8e9)
    return s.toPrecision(3) + "s";
  /* Rounded as it is shown, so that 59.96 s is not 59 s. */
  v = v >= 9.95 ? Math.round(v) : v >= 0.9995 ? Math.round(v * 10) / 10 : Math.round(v * 1e3) / 1e3;
  return sign + (v < 1 ? Math.round(v * 1e3) + "ms" : v < 10 ? v.toFixed(1) + "s"
    : v < 60 ? v + "s" : v < 3600 ? `${Math.floor(v / 60)}m${two(v % 60)}s`
    : v < 86400 ? `${Math.floor(v / 3600)}h${two(v % 3600 / 60)}m`
    : `${Math.floor(v / 86400)}d${two(v % 86400 / 3600)}h`);
}
function money(usd) {
  if (!known(usd))
    return "-";
  let digits = 2;
  for (let size = Math.abs(usd); size > 0 && size < 0.0995 && digits < 6; size *= 10)
    digits++;
  const size = Math.abs(usd);
  return (usd < 0 ? "-$" : "$") + (size < 1e12 ? size.toFixed(digits) : size.toExponential(2));
}
const short = (v, digits) => (known(v) ? String(Number(v.toPrecision(digits))) : "-");
/* The color of a run: is all of it well, or only a part? */
const chipColor = (outcome) => ({ good: "good", bad: "bad" }[outcome] || "mid");
/* The best value of all reports, where it is another than the best trial's. */
function bestEver(t) {
  return t.ever >= 0 && t.best >= 0 &&
    (t.maximize ? t.ever_metric > t.best_metric : t.ever_metric < t.best_metric) &&
    `${t.maximize ? "highest" : "lowest"} seen: ${metric(t.ever_metric)} (trial ${
      trialName(t.ever)} at iteration ${t.ever_iteration})`;
}
const metric = (v) => short(v, 6);
/* With experiment.seeds: how far the trials of the best configuration are apart. */
const spread = (t) => (t.seeds > 1 && t.best_counted > 1 ? ` ± ${short(t.best_spread, 3)}` : "");
function trialName(id) {
  const experiment = Math.floor(id / 2 ** 40);
  return experiment > 0 ? `${experiment}/${id % 2 ** 40}` : String(id);
}
/* Values of parameters in words; of many, those of the most important ones. */
function parameters(text, shares) {
  const MOST = 8, share = new Map(shares);
  let values = {};
  try {
    values = JSON.parse(text) || {};
  } catch (error) {	/* only the start of a long text is here */
    return cut(text, 300);
  }
  const list = Object.entries(values);
  if (list.length > MOST)
    list.sort(([a], [b]) => (share.get(b) || 0) - (share.get(a) || 0));
  return list.slice(0, MOST).map(([name, v]) => `${cutName(name, 40)}=${
    typeof v === "number" ? metric(v)
      : cut(typeof v === "object" ? JSON.stringify(v) : String(v), 60)}`).join(", ") +
    (list.length > MOST ? `, and ${list.length - MOST} more` : "");
}

/* ---- stages ----------------------------------------------------------------------------- */

const color = (number) => "s" + Math.abs(number || 0) % 8;
const stageColor = (n) => color(stageOf.has(n) ? stageOf.get(n).number : 0);
function rowName(row) {
  return (data.brackets ? `bracket ${row.bracket}, ` : "") + `stage ${row.stage}`;
}
function stageName(n) {
  const s = stageOf.get(n);
  return !s ? "" : pool ? (s.number > 0 ? `experiment ${s.number}` : "plain jobs")
    : declared ? rowName({ bracket: s.bracket, stage: s.number })
    : `up to iteration ${s.budget}`;
}
/* A stage as a plan had it, or as the last plan but the first that still had it to come. */
const sameStage = (bracket, number) => (r) => r.bracket === bracket && r.stage === number;
const rowsOf = (plan) => planned.filter((r) => r.plan === plan.number);
const isFirst = (r) => r.plan === plans[0].number;
function firstPlanned(bracket, number) {
  return planned.filter(isFirst).find(sameStage(bracket, number));
}
function lastPlanned(bracket, number) {
  return planned.filter((r) => !isFirst(r)).reverse().find(sameStage(bracket, number));
}

/* ---- money ------------------------------------------------------------------------------ */

/* What was spent by when: [seconds, dollars], rising.  Charges come when a node changes its state;
 * between two of them its cost grows evenly. */
function sumCharges() {
  const changes = [], limit = (at) => Math.max(0, Math.min(now, at || 0));
  const nodeOf = new Map(nodes.map((n) => [n.id, n]));
  const last = new Map(nodes.map((n) => [n.id, limit(or(n.billed_from_s, n.requested_s))]));
  let charged = 0;
  const spend = (from, to, usd) => {
    if (to - from > 1e-9 && usd > 0)
      changes.push([from, usd / (to - from), 0], [to, -usd / (to - from), 0]);
    else if (usd)	/* data, the first minute; or what was given back */
      changes.push([to, 0, usd]);
  };
  for (const c of charges.filter((c) => known(c.usd))) {
    const at = limit(c.at_s), from = nodeOf.has(c.node) ? last.get(c.node) : at;
    charged += c.usd;
    spend(from, at, c.usd);
    last.set(c.node, Math.max(at, from));
  }
  /* What nodes that are still held have cost since then. */
  const held = nodes.filter((n) => !known(n.ended_s) && n.price_hour > 0);
  const weigh = (n) => (now - last.get(n.id)) * n.price_hour;
  const rest = totals.cost_usd - charged, weight = held.reduce((sum, n) => sum + weigh(n), 0);
  if (rest > 1e-6 && weight > 0)
    held.forEach((n) => spend(last.get(n.id), now, rest * weigh(n) / weight));
  else if (rest > 1e-6)
    spend(now, now, rest);
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
  const points = [[0, 0]];
  let at = 0, usd = 0, rate = 0;
  for (const [when, more, jump] of changes) {
    if (when > at) {
      usd += rate * (when - at);
      points.push([at = when, usd]);
    }
    rate += more;
    usd += jump;
    if (jump)
      points.push([at, usd]);
  }
  if (now > at)
    points.push([now, usd]);
  return points;
}
/* The GPU seconds of ready nodes by when: [seconds, GPU seconds], rising. */
function sumHeld() {
  const changes = nodes.filter((n) => known(n.ready_s))
    .flatMap((n) => [[n.ready_s, n.gpus], [or(n.ended_s, now), -n.gpus]])
    .map(([at, gpus]) => [Math.max(0, Math.min(now, at)), gpus]).sort((a, b) => a[0] - b[0]);
  const points = [[0, 0]];
  let at = 0, sum = 0, gpus = 0;
  for (const [when, more] of [...changes, [now, 0]]) {
    if (when > at) {
      sum += gpus * (when - at);
      points.push([at = when, Math.max(0, sum)]);
    }
    gpus += more;
  }
  return points;
}
/* Where a line through points lies at `at`. */
function level(points, at) {
  let low = 0, high = points.length;
  while (low < high) {	/* the first point later than `at` */
    const middle = (low + high) >> 1;
    if (points[middle][0] <= at)
      low = middle + 1;
    else
      high = middle;
  }
  if (low === 0 || low === points.length)
    return low === 0 ? 0 : points[low - 1][1];
  const [from, before] = points[low - 1], [to, after] = points[low];
  return before + (after - before) * (at - from) / (to - from);
}
const spentBy = (at) => level(spent, at), heldBy = (at) => level(held, at);
/* A stage costs what was spent while it lasted.  Where stages ran in parallel, all is shared by the
 * GPU time that they used. */
function costStages() {
  const stageEnd = (s) => or(s.ended_s, now), busy = stages.reduce((b, s) => b + s.busy_gpu_s, 0);
  for (const s of stages) {
    s.shared = stages.some((o) => o !== s && known(o.begun_s) && o.begun_s < stageEnd(s) - 1e-9 &&
      stageEnd(o) > s.begun_s + 1e-9);
    s.cost_usd = known(s.begun_s) ? spentBy(stageEnd(s)) - spentBy(s.begun_s) : null;
  }
  if (!pool && !stages.some((s) => s.shared))
    return;
  for (const s of stages) {
    s.shared = true;
    s.cost_usd = busy > 0 ? spentBy(now) * s.busy_gpu_s / busy : s.cost_usd;
  }
}

/* ---- shapes and axes -------------------------------------------------------------------- */

/* Drawings have the window's proportions: a narrow one gets drawings that it can show whole. */
let narrow, WIDTH, LEFT, RIGHT;
const isNarrow = () => innerWidth < 700;
function fitWindow() {
  narrow = isNarrow();
  [WIDTH, LEFT, RIGHT] = narrow ? [376, 62, 358] : [1120, 104, 1104];
}
const rect = (name, x, y, width, height) => el("rect",	/* what was short is still there */
  { class: name, x, y, width: Math.max(0.3, width), height: Math.max(0.3, height) });
const line = (name, x1, y1, x2, y2) => el("line", { class: name, x1, y1, x2, y2 });
const label = (name, x, y, text) => el("text", { class: name, x, y }, text);
const through = (points) => "M" +
  points.map(([x, y]) => `${coordinate(x)} ${coordinate(y)}`).join("L");
const path = (name, points) => el("path", { class: name, d: through(points) });
function svg(height, what, ...inside) {
  return el("div", { class: "scroll" }, el("svg", { role: "img",
    viewBox: `0 0 ${WIDTH} ${Math.ceil(height)}`, "aria-label": what }, inside));
}
const note = (...inside) => el("p", { class: "note" }, inside);
const section = (title, ...inside) => el("section", null, el("h2", null, title), inside);
const swatch = (name, text, sign) => [el("span", null, el("i", { class: name }, sign), text), " "];
function key(name, text) {
  return [el("span", null, el("svg", { class: "key", viewBox: "0 0 26 10" },
    el("path", { class: name, d: "M1 5H25" })), text), " "];
}

/* Where a value lies, within from..to.  sym: logarithmic in both directions beyond this value. */
function axis(low, high, from, to, log = false, sym = 0) {
  const scale = (v) => (sym > 0 ? Math.asinh(v / sym) : !log ? v
    : v > 0 ? Math.log(v) : Math.log(low));
  const at = (v) => {
    const part = (scale(v) - scale(low)) / (scale(high) - scale(low));
    return from + (to - from) * (part > 0 ? Math.min(1, part) : 0);
  };
  return Object.assign(at, { low, high, from, to, log, sym });
}
/* The least of 1, 2, 5 * 10^k that is not below. */
function roundUp(v) {
  if (!(v > 1e-300 && v < 1e300))
    return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  return power * ([1, 2, 5].find((n) => v <= power * n * 1.000001) || 10);
}
/* How many labels have room below an axis. */
const room = (x) => (x.to - x.from) / (narrow ? 54 : 90);
function timeGrid(top, bottom, x = time) {
  const most = x.high / room(x), marks = [];
  const step = most < 1 ? roundUp(most)
    : [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
      172800, 604800].find((s) => s >= most) || 86400 * roundUp(most / 86400);
  for (let i = 0; i < 20 && step * i <= x.high; i++)	/* "2m" for "2m00s" */
    marks.push(line("gd", x(step * i), top, x(step * i), bottom),
      label("tm", x(step * i), bottom + 13,
        seconds(step * i).replace(/([mhd])00[smh]$|\.0(s)$/, "$1$2")));
  return marks;
}
/* A value at an axis: 1.5M for 1500000. */
function tickText(v, digits) {
  const [unit, name] = [[1e9, "G"], [1e6, "M"]].find(([u]) => Math.abs(v) >= u) || [1, ""];
  return Math.abs(v) >= 1e12 ? v.toExponential(0) : short(v / unit, digits) + name;
}
/* Of an axis that is logarithmic in both directions: 0 and powers of ten, where there is room. */
function symTicks(y, least) {
  const ticks = y.low <= 0 && y.high >= 0 ? [0] : [], top = Math.max(-y.low, y.high);
  for (let at = 10 ** Math.ceil(Math.log10(y.sym)), i = 0; i < 700 && at <= top; at *= 10, i++)
    for (const v of [at, -at])
      if (v >= y.low && v <= y.high && ticks.every((o) => Math.abs(y(o) - y(v)) >= least))
        ticks.push(v);
  return ticks;
}
/* About so many round values of the axis of a metric. */
function metricTicks(y, many) {
  const decades = y.log ? Math.log10(y.high / y.low) : 0, step = roundUp((y.high - y.low) / many);
  const list = [];
  if (y.sym > 0)
    return symTicks(y, Math.abs(y.to - y.from) / (2 * many));
  let at = y.log ? 10 ** Math.floor(Math.log10(y.low)) : Math.ceil(y.low / step - 1e-9) * step;
  for (let i = 0; i < 40 && at <= y.high; i++) {
    if (at >= y.low)
      list.push(!y.log && Math.abs(at) < step * 1e-6 ? 0 : at);
    at = !y.log ? at + step : decades > 2 ? at * 10 ** Math.ceil(decades / many)
      : roundUp(at * 1.5);
  }
  return list;
}
/* Round values, on a logarithmic axis 1, 2, 5, 10, ... or powers of ten. */
function valueGrid(y, sign) {
  const decades = y.log ? Math.log10(y.high / y.low) : 0, marks = [];
  const step = Math.max(sign === "GPUs" ? 1 : 0, roundUp((y.high - y.low) / 5));
  if (y.sym > 0)
    return symTicks(y, 16).map((v) => [line("gd", LEFT, y(v), RIGHT, y(v)),
      label("vl", LEFT - 7, y(v) + 3.5, tickText(v, 5))]);
  let at = y.log ? 10 ** Math.floor(Math.log10(y.low)) : Math.ceil(y.low / step - 1e-9) * step;
  for (let i = 0; i < 30 && at <= y.high + (y.high - y.low) * 1e-6; i++) {
    if (!y.log && Math.abs(at) < step * 1e-6)
      at = 0;
    if (at >= y.low)
      marks.push(line("gd", LEFT, y(at), RIGHT, y(at)), label("vl", LEFT - 7, y(at) + 3.5,
        sign === "$" && step < 1 ? money(at) : (sign === "$" ? "$" : "") + tickText(at, 5)));
    at = !y.log ? at + step : decades > 3 ? at * 10 ** Math.ceil(decades / 6) : roundUp(at * 1.5);
  }
  return marks;
}
/* Ticks at the rungs, and at round numbers where there is room. */
function iterationGrid(x, top, bottom, rungs) {
  const ROOM = 22, marks = [], step = Math.ceil(roundUp(x.high / room(x)));
  const tick = (v) => marks.push(line("gd", x(v), top, x(v), bottom),
    label("tm", x(v), bottom + 13, v < 1e6 ? v : short(v, 3)));
  let last = x.to + ROOM;
  for (const rung of [...rungs].reverse())	/* on an even axis the first ones crowd */
    if (last - x(rung) >= ROOM) {
      tick(rung);
      last = x(rung);
    }
  let at = x.log ? 1 : 0;
  for (let i = 0; i < 40 && at <= x.high * 1.000001; i++) {
    if (at >= x.low && rungs.every((rung) => Math.abs(x(rung) - x(at)) >= ROOM))
      tick(at);
    at = x.log ? roundUp(at * 1.5) : at + step;
  }
  return marks;
}
