/* report_trials.js - what the search found: history, learning curves, trials; the controls. */

/* ---- controls -------------------------------------------------------------------------------- */

/* What the reader chose, by "part key"; it outlives a redraw. */
const chosen = new Map();
function choice(name, key, otherwise) {
  const value = chosen.get(`${name} ${key}`);
  return value === undefined ? otherwise : value;
}
/* A part of the page that can be drawn again by itself. */
const parts = new Map();
function part(name, make) {
  parts.set(name, make);
  return el("div", { "data-part": name }, make());
}
/* Buttons of which one is pressed; `options` are [value, text]. */
function switches(name, key, pressed, what, options) {
  return el("span", { class: "switch", role: "group", "aria-label": what },
    options.filter((o) => o).map(([value, text]) => el("button", { type: "button", "data-of": name,
      "data-key": key, "data-value": value, "aria-pressed": String(value === pressed) }, text)));
}
function selector(name, key, selected, what, options) {
  return el("label", null, what, " ", el("select", { "data-of": name, "data-key": key },
    options.map(([value, text]) => el("option", value === selected
      ? { value, selected: "selected" } : { value }, text))), " ");
}
const button = (name, key, value, text) => el("button", { type: "button", "data-of": name,
  "data-key": key, "data-value": value }, text);

/* Sections are known by their heading, parts by their name; what else is equal in kind. */
const keyOf = (node) => (node.nodeName === "SECTION" && node.querySelector("h2")
  ? `SECTION ${node.querySelector("h2").textContent}`
  : `${node.nodeName} ${(node.dataset && node.dataset.part) || ""}`);
function updateAttributes(old, fresh) {
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name))
      old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value)
      old.setAttribute(name, value);
}
/* Makes the old node like the fresh one, by as few changes as possible: what has the focus, is
 * open, scrolled or under the pointer stays the element that it was. */
function update(old, fresh) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== fresh.nodeValue)
      old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.isEqualNode(fresh))
    return;
  updateAttributes(old, fresh);
  updateInside(old, fresh);
  if (old.nodeName === "SELECT" && old !== document.activeElement)
    old.value = fresh.value;
}
function updateInside(old, fresh) {
  let at = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    let same = at;
    while (same && keyOf(same) !== keyOf(node))
      same = same.nextSibling;
    if (!same) {
      old.insertBefore(node, at);
      continue;
    }
    while (at !== same) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
    at = same.nextSibling;
    update(same, node);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}
/* Puts new markup in its place. */
function replace(place, inside) {
  if (!place.firstElementChild) {
    place.innerHTML = markup(inside);
    return;
  }
  const fresh = document.createElement("template");
  fresh.innerHTML = `<div>${markup(inside)}</div>`;
  updateInside(place, fresh.content.firstChild);
}
function redraw(name) {
  const place = [...document.querySelectorAll("[data-part]")]
    .find((one) => one.dataset.part === name);
  if (place && parts.has(name))
    replace(place, parts.get(name)());
}
function choose({ of, key, value }) {
  chosen.set(`${of} ${key}`, value);
  redraw(of);
  const same = [...document.querySelectorAll("[data-of]")].find((e) => e.dataset.of === of &&
    e.dataset.key === key && (e.value === value || e.dataset.value === value));
  if (same)
    same.focus({ preventScroll: true });
}
function listen(page) {
  page.addEventListener("click", (event) => {
    const pressed = event.target.closest("button[data-of]");
    if (pressed && pressed.dataset.key === "clear")
      clearBrushes(pressed.dataset.value);
    else if (pressed)
      choose(pressed.dataset);
  });
  page.addEventListener("change", ({ target }) => {
    if (target.matches("select[data-of]"))
      choose({ of: target.dataset.of, key: target.dataset.key, value: target.value });
  });
  page.addEventListener("pointerdown", startBrush);
}

/* ---- searches: of a pool one for each experiment --------------------------------------------- */

function list(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value : [];
  } catch (error) {	/* cut off */
    return [];
  }
}
function takeSearches() {
  data.searches.forEach((search, n) => {
    const { maximize, metric: name } = search.totals;
    search.n = n;
    search.sign = maximize ? -1 : 1;
    search.metric = cut(name, 60);
    search.params = objects(search.space).map(parameterOf);
    search.shown = objects(search.sample)
      .map((t) => Object.assign(t, { values: list(t.values), notes: list(t.notes) }));
    search.of = search.shown.length > 0 ? search.shown[0].of : 0;
    const ranked = search.shown.filter((t) => known(t.metric))
      .sort((a, b) => search.sign * (a.metric - b.metric));
    ranked.forEach((t, i) => {	/* where it stands: 0 the best, below 1 */
      t.place = i > 0 && t.metric === ranked[i - 1].metric ? ranked[i - 1].place
        : i / ranked.length;
      t.shade = "q" + Math.floor(8 * t.place);
    });
    search.ranked = ranked;
  });
}
/* What belongs to one experiment alone, whose metric is its own. */
function searchSection(search, what, ...inside) {
  const t = search.totals;
  return section(search.only < 0 ? what
    : `${what} of ${cut(t.experiment, 60)} (experiment ${search.only})`, inside);
}
const sampleNote = (search) => search.of > search.shown.length && ` Of ${search.of} trials, ${
  search.shown.length} are shown: the best third and an even sample of the others.`;
const valueText = (v) => (typeof v === "number" ? metric(v) : v === null || v === undefined ? ""
  : String(v));
function trialTip(search, t) {
  const values = search.params.map((p) => [p.name, t.values[p.at]])
    .filter(([, v]) => v !== null && v !== undefined).map(([name, v]) => `${name}=${valueText(v)}`);
  return [`trial ${trialName(t.id)}, ${cut(t.state, 16)}: ${search.metric} ${
    metric(t.metric)} at iteration ${t.iteration}`, cut(values.join(", "), 300)];
}
/* Dots [x, y, trial] of one color; where they are many, one path without tips. */
function dots(name, places, search) {
  return places.length <= 500
    ? el("g", { class: "do " + name }, places.map(([x, y, t]) =>
      el("circle", { r: 2.8, cx: x, cy: y }, tip(...trialTip(search, t)))))
    : el("path", { class: "dp " + name,
      d: places.map(([x, y]) => `M${coordinate(x)} ${coordinate(y)}h0`).join("") });
}
/* What metricAxis chose by itself: while values come, it changes its mind for a good reason. */
const scaled = new Map();
const quantile = (sorted, part) => sorted[Math.floor(part * (sorted.length - 1) + 0.5)];
/* Which scale the values ask for, unless the reader chose: logarithmic if most of them differ by
 * a factor of more than 30; in both directions where some are not positive. */
function metricScale(name, values, before) {
  const sizes = values.map(Math.abs).filter((v) => v > 0).sort((a, b) => a - b);
  const positive = values.every((v) => v > 0), folded = positive ? "log" : "symlog";
  const wide = sizes.length >= 10 &&
    quantile(sizes, 0.9) > (before.wide ? 10 : 30) * quantile(sizes, 0.1);
  const scale = choice(name, "scale", wide || (positive && data.log) ? folded : "linear");
  return { wide, positive, folded, foldable: positive || sizes.length > 1,
    scale: scale === "linear" ? scale : folded, sym: quantile(sizes, 0.1) || 1 };
}
/* The axis of a metric.  Values far worse than nearly all (beyond the median by more than three
 * times the distance of the quartiles) lie on the frame, unless all values are asked for. */
function metricAxis(name, values, best, sign, from, to) {
  const before = scaled.get(name) || {}, s = metricScale(name, values, before);
  const fold = { linear: (v) => v, log: Math.log, symlog: (v) => Math.asinh(v / s.sym) }[s.scale];
  const sorted = [...values].sort((a, b) => sign * (a - b)), low = sign * fold(best);
  const worst = sorted.map((v) => sign * fold(v)), last = worst[worst.length - 1];
  const bound = quantile(worst, 0.5) + 3 * (quantile(worst, 0.75) - quantile(worst, 0.25));
  const within = worst.filter((v) => v <= bound).length - 1, most = worst[Math.max(0, within)];
  const far = values.length >= 10 && last - low > (before.far ? 2 : 3) * (most - low);
  const all = !far || choice(name, "range", "most") === "all";
  const end = sorted[all ? sorted.length - 1 : Math.max(0, within)];
  const [least, greatest] = sign > 0 ? [best, end] : [end, best];
  scaled.set(name, { far, wide: s.wide });
  const room = greatest > least ? (greatest - least) * 0.04 : Math.abs(best) * 0.1 || 1;
  const y = s.scale === "log" ? axis(least / 1.15, greatest * 1.15, from, to, true)
    : s.scale === "symlog" ? axis(widen(least, -0.15, s.sym), widen(greatest, 0.15, s.sym), from,
      to, false, s.sym)
    : known(greatest - least + 2 * room) && greatest + room > least - room
      ? axis(least - room, greatest + room, from, to) : axis(-1, 1, from, to);
  return Object.assign(y, { far, all, scale: s.scale, folded: s.foldable && s.folded });
}
const widen = (v, by, sym) => sym * Math.sinh(Math.asinh(v / sym) + by);
const axisSwitches = (name, y) => [
  y.folded && switches(name, "scale", y.scale, "scale of the metric",
    [["linear", "linear"], [y.folded, y.folded]]),
  y.far && switches(name, "range", y.all ? "all" : "most", "range of the metric",
    [["most", "most values"], ["all", "all values"]])];
const isOutside = (y, v) => v < y.low || v > y.high;
const controls = (...inside) => el("p", { class: "controls" }, inside);

/* ---- optimization history -------------------------------------------------------------------- */

/* Round amounts below a drawing. */
function amountGrid(x, top, bottom, text) {
  const step = roundUp(x.high / room(x)), marks = [];
  for (let i = 0; i < 20 && step * i <= x.high; i++)
    marks.push(line("gd", x(step * i), top, x(step * i), bottom),
      label("tm", x(step * i), bottom + 13, text(step * i)));
  return marks;
}
const ways = {
  time: { text: () => "time", by: (at) => at, grid: (x, top, bottom) => timeGrid(top, bottom, x) },
  gpu: { text: () => `${unit()} hours held`, by: (at) => heldBy(at) / 3600,
    grid: (x, top, bottom) => amountGrid(x, top, bottom, (v) => short(v, 5)) },
  usd: { text: () => "dollars spent", by: (at) => spentBy(at),
    grid: (x, top, bottom) => amountGrid(x, top, bottom, money) },
};
function historyPoints(search, way, x, y) {
  const failed = [], others = [];
  for (const t of search.shown.filter((s) => known(s.at_s)))
    if (known(t.metric))
      others.push([x(way.by(t.at_s)), y(t.metric), t]);
    else if (t.state === "failed" || t.iteration > 0)
      failed.push([x(way.by(t.at_s)), search.sign > 0 ? y.to + 4 : y.from - 4, t]);
  return { others, failed, outside: others.filter(([, , t]) => isOutside(y, t.metric)).length };
}
function drawHistory(search, name) {
  const TOP = 14, BOTTOM = 240, { sign, totals: t } = search, steps = objects(search.history);
  const held = heldBy(now) > 0, key = choice(name, "x", "time");
  const way = ways[key], x = axis(0, way.by(now) > 0 ? way.by(now) * 1.02 : 1, LEFT, RIGHT);
  const values = [...search.ranked.map((s) => s.metric), ...steps.map((s) => s.metric)];
  const y = metricAxis(name, values, values.reduce((b, v) => (sign * (v - b) < 0 ? v : b)), sign,
    BOTTOM, TOP);
  const { others, failed, outside } = historyPoints(search, way, x, y);
  let d = "";
  steps.forEach((s, i) => {
    const at = `${coordinate(x(way.by(s.at_s)))}`, level = coordinate(y(s.metric));
    d += i === 0 ? `M${at} ${level}` : `H${at}V${level}`;
  });
  d += `H${coordinate(x(way.by(now)))}`;
  return [controls(switches(name, "x", key, "against", [["time", "time"],
    held && ["gpu", `${unit()} hours`], totals.cost_usd > 0 && ["usd", "dollars"]]),
  axisSwitches(name, y)),
  el("p", { class: "axis" }, search.metric, ` (${t.maximize ? "higher" : "lower"} is better), `,
    "against ", way.text(), pool && key !== "time" && " by the whole pool"),
  svg(BOTTOM + 18, "The best value so far, and the last value of each trial",
    way.grid(x, TOP, BOTTOM), valueGrid(y, ""), dots("hd", others, search),
    failed.length > 0 && el("path", { class: "nn", d: failed.map(([cx, cy]) =>
      `M${coordinate(cx - 3)} ${coordinate(cy - 3)}l6 6m-6 0l6 -6`).join("") }),
    el("path", { class: "lr", d })),
  note("The line is the best value reported so far, at any iteration; the best trial is the best ",
    "of those that trained longest, by its last value. A dot is the last value of a trial",
    failed.length > 0 && ", a cross a trial that has none", ".",
    outside > 0 && ` ${plural(outside, "value")} beyond the frame ${outside === 1 ? "is" : "are"
    } drawn on its edge.`, sampleNote(search))];
}
function bestSoFar(search) {
  const name = `history ${search.n}`;
  return search.history.rows.length > 0 &&
    searchSection(search, "Optimization history", part(name, () => drawHistory(search, name)));
}

/* ---- learning curves ------------------------------------------------------------------------- */

const reachedWord = () => (declared ? "stage" : "rung");
/* Did it come to the last stage of its bracket that there was? */
function survived(t) {
  const own = stageOf.get(t.stage);
  return own && !stages.some((s) => s.trials > 0 && s.bracket === own.bracket &&
    s.number > own.number);
}
function drawCurve(search, t, x, y) {
  const best = t.id === search.totals.best, at = t.points.map(([i, v]) => [x(i), y(v)]);
  const weight = best ? "best" : survived(t) ? "sv" : "dr";
  return el("g", { class: `cv ${weight} ${stageColor(t.stage)}` },
    tip(`trial ${trialName(t.id)}: ${cut(search.totals.metric, 40)} ${metric(t.metric)} at ` +
      `iteration ${t.iteration}` + (stageName(t.stage) && ", " + stageName(t.stage))),
    at.length > 1 ? path("", at) : el("circle", { r: 2.4, cx: at[0][0], cy: at[0][1] }));
}
function drawRungs(x, top, bottom) {
  let last = -100;
  return stages.filter((s) => !pool && s.budget > 0 && s.budget <= x.high &&
    s.bracket === stages[0].bracket).map((s) => {
    const at = x(s.budget), room = declared && at - last >= 52;
    last = room ? at : last;
    return [line("rg", at, top, at, bottom), room && label("rl", at, top - 6,
      data.brackets ? `up to ${s.budget}` : `stage ${s.number}`)];
  });
}
function curvesNote(curves, all, x, y) {
  const outside = curves.reduce((sum, c) => sum +
    c.points.filter((p) => isOutside(y, p[1])).length, 0);
  return note(pool ? "Each curve is a trial; a dot is a single report."
    : `Each curve is a trial, in the color of the last ${reachedWord()} that it ` +
      "reached; thick curves reached the last one; a dot is a single report.",
  all > 240 && ` Of ${all} trials, ${curves.length} are drawn: the 60 that trained longest and a ` +
    `sample of ${pool ? "the others" : declared ? "each stage" : "each rung"}; ${
      all - curves.length} are omitted.`,
  x.log ? (y.log ? " Both axes are logarithmic." : " The axis of iterations is logarithmic.")
    : (y.log || y.sym > 0) && " The axis of the metric is logarithmic.",
  outside > 0 && ` ${plural(outside, "point")} beyond the frame ${outside === 1 ? "is" : "are"
  } drawn on its edge.`);
}
function drawCurves(search, name, drawn, of) {
  const TOP = 20, BOTTOM = 350, t = search.totals, { sign } = search;
  const most = Math.max(1, ...drawn.map((r) => r.points[r.points.length - 1][0]));
  const log = most > 1 && choice(name, "x", data.log ? "log" : "linear") === "log";
  const x = axis(log ? 1 : 0, most, LEFT + 8, RIGHT - 72, log);
  const extremes = drawn.map((c) => c.points.reduce(([b, w], [, v]) =>
    [sign * (v - b) < 0 ? v : b, sign * (v - w) > 0 ? v : w], [c.points[0][1], c.points[0][1]]));
  const y = metricAxis(name, extremes.map(([, worst]) => worst), extremes
    .reduce((best, [b]) => (sign * (b - best) < 0 ? b : best), extremes[0][0]), sign, BOTTOM, TOP);
  const rungs = [...new Set(stages.map((s) => s.budget))].sort((a, b) => a - b)
    .filter((b) => !pool && b > 0 && b <= most).slice(0, 64);
  /* From the back to the front: the dropped, the survivors, the best. */
  const depth = (r) => (r.id === t.best ? 2 : survived(r) ? 1 : 0), back = [...drawn].reverse();
  const inOrder = [0, 1, 2].map((d) => back.filter((r) => depth(r) === d));
  const best = t.best >= 0 && known(t.best_metric) &&
    [el("circle", { class: "be", r: 4, cx: x(t.best_iteration), cy: y(t.best_metric) }),
      label("bl", x(t.best_iteration) + 8, y(t.best_metric) + 4, `trial ${trialName(t.best)}`)];
  return [controls(most > 1 && el("span", null, "iterations ", switches(name, "x",
    log ? "log" : "linear", "scale of the iterations", [["linear", "linear"], ["log", "log"]])),
  (y.folded || y.far) && el("span", null, "metric ", axisSwitches(name, y))),
  el("p", { class: "axis" }, search.metric,
    ` (${t.maximize ? "higher" : "lower"} is better), against the iteration`),
  svg(BOTTOM + 18, "The metric of each trial against its iterations",
    iterationGrid(x, TOP, BOTTOM, rungs), valueGrid(y, ""), drawRungs(x, TOP, BOTTOM),
    el("g", { class: drawn.filter(survived).length > 20 ? "many" : "" },
      inOrder.map((each) => each.map((r) => drawCurve(search, r, x, y)))), best),
  curvesNote(drawn, of, x, y)];
}
function curves(search) {
  const trials = objects(search.trials), name = `curves ${search.n}`;
  const byRank = new Map(trials.map((r) => [r.rank, Object.assign(r, { points: [] })]));
  for (const [rank, iteration, value] of search.points.rows)
    byRank.get(rank).points.push([iteration, value]);
  const drawn = trials.filter((r) => r.points.length > 0);
  return drawn.length > 0 && searchSection(search, "Learning curves",
    part(name, () => drawCurves(search, name, drawn, trials[0].of)));
}

/* ---- the table of trials --------------------------------------------------------------------- */

/* A column has a heading, a value to sort by, and perhaps a cell: [class, inside]. */
function trialColumns(search) {
  const left = (head, value, cell) => ({ head, value, name: "w",
    cell: cell || ((t) => ["w", value(t)]) });
  const right = (head, value, cell) => ({ head, value, name: "", cell: cell || value });
  return [right("#", (t) => t.rank + 1), right("trial", (t) => t.id, (t) => trialName(t.id)),
    right(cut(search.totals.metric, 40), (t) => t.metric, (t) => metric(t.metric)),
    right("iterations", (t) => t.iteration), left("state", (t) => cut(t.state, 16)),
    stages.length > 0 && left(pool ? "of" : "stage", (t) => t.stage, (t) =>
      ["w", stageOf.has(t.stage) && el("i", { class: stageColor(t.stage) }), stageName(t.stage)]),
    right(`${unit()} time`, (t) => t.gpu_s, (t) => seconds(t.gpu_s)),
    priced && right("cost", (t) => t.cost_usd, (t) => money(t.cost_usd)),
    ...search.params.map((p) => {
      const value = (t) => t.values[p.at], cell = (t) => valueText(t.values[p.at]);
      return p.numeric ? right(cut(p.name, 40), value, cell)
        : left(cut(p.name, 40), value, (t) => ["w", cut(cell(t), 60)]);
    }),
    ...search.notes.rows.map(([key], n) => left(cut(key, 40), (t) => t.notes[n],
      (t) => ["w", cut(t.notes[n] || "", 80)]))].filter((c) => c);
}
/* Numbers in order, then text, then what is missing, which stays last in both directions. */
function compareBy(value, down) {
  const kind = (v) => (known(v) ? 0 : typeof v === "string" ? 1 : 2);
  return (a, b) => {
    const x = value(a), y = value(b), by = kind(x) - kind(y);
    if (by !== 0 || kind(x) === 2)
      return by || a.rank - b.rank;
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1) || a.rank - b.rank;
  };
}
function drawTrials(search, name) {
  const columns = trialColumns(search), [by, direction] = choice(name, "sort", "0 up").split(" ");
  const sorted = Math.min(Number(by), columns.length - 1), down = direction === "down";
  const brushed = isBrushed(search), all = search.shown.filter((t) => isSelected(search, t));
  const rows = Number(choice(name, "rows", "50"));
  all.sort(compareBy(columns[sorted].value, down));
  const heads = columns.map((c, i) => el("th", { class: c.name, "aria-sort": i !== sorted ? "none"
    : down ? "descending" : "ascending" }, button(name, "sort",
    `${i} ${i === sorted && !down ? "down" : "up"}`,
    c.head + (i !== sorted ? "" : down ? " \u25bc" : " \u25b2"))));
  return [brushed && controls(`${all.length} of ${search.shown.length} trials are in the ranges ` +
    "marked in the parallel coordinates. ", button(name, "clear", search.n, "clear")),
  el("div", { class: "scroll" }, el("table", { class: "trials" }, el("thead", null,
    el("tr", null, heads)), el("tbody", null, all.slice(0, rows).map((t) =>
    row(t.id === search.totals.best ? "first" : "", columns.map((c) => c.cell(t))))))),
  all.length > rows && controls(`Showing ${rows} of ${all.length}. `,
    button(name, "rows", String(rows * 4), "show more")),
  search.of > search.shown.length && note(sampleNote(search), " For all, use espalier export DIR ",
    "--format csv")];
}
function trialTable(search) {
  const name = `trials ${search.n}`;
  return search.shown.length > 0 &&
    searchSection(search, "Trials", part(name, () => drawTrials(search, name)));
}
