/* report_params.js - parameters: their importance, slices, contours, and parallel coordinates. */

/* ---- where a value of a parameter lies, from 0 to 1 ------------------------------------------ */

const within = (part) => (part > 0 ? Math.min(1, part) : 0);
function placeNumber(p, v) {
  const { low, high } = p;
  if (!known(v))
    return null;
  if (!(low < high))
    return 0.5;
  return within(p.log ? Math.log(v / low) / Math.log(high / low)
    : p.reverse ? 1 - Math.log((low + high - v) / low) / Math.log(high / low)
    : (v - low) / (high - low));
}
function numberTicks(p) {
  const { low, high } = p, decades = p.log ? Math.log10(high / low) : 0, ticks = [];
  if (!(low < high))
    return [low];
  if (p.reverse || (p.log && decades < 1.5))
    return [low, high];
  if (p.log)
    for (let power = Math.ceil(Math.log10(low) - 1e-9), i = 0; i < 12 && 10 ** power <=
      high * (1 + 1e-9); power += Math.ceil(decades / 5), i++)
      ticks.push(10 ** power);
  else
    for (let step = roundUp((high - low) / 5), i = 0, at = Math.ceil(low / step - 1e-9); i < 12 &&
      (at + i) * step <= high + step * 1e-9; i++)
      ticks.push(Math.abs((at + i) * step) < step / 1e6 ? 0 : (at + i) * step);
  return ticks;
}
function parameterOf(given, at) {
  const p = { at, name: String(given.name), numeric: given.type === "real" || given.type === "int",
    low: given.low, high: given.high };
  const log = known(p.low) && known(p.high) && p.low > 0 && p.high > p.low;
  p.log = log && given.scale === "log";
  p.reverse = log && given.scale === "reverse-log";
  p.labels = p.numeric ? [] : list(given.values).map(String);
  if (p.numeric) {
    p.place = (v) => placeNumber(p, v);
    p.ticks = numberTicks(p).map((v) => [p.place(v), short(v, 4)]);
  } else {
    const index = new Map(p.labels.map((text, i) => [text, (i + 0.5) / p.labels.length]));
    const every = Math.ceil(p.labels.length / 16);
    p.place = (v) => (index.has(String(v)) ? index.get(String(v)) : null);
    p.ticks = p.labels.map((text) => [index.get(text), cut(text, 12)])
      .filter((tick, i) => i % every === 0);
  }
  p.kind = p.log ? ", logarithmic" : p.reverse ? ", logarithmic from its end" : "";
  return p;
}
const placeOf = (p, t) => p.place(t.values[p.at]);
/* The parameters, the most important first. */
function byImportance(search) {
  const shares = new Map(search.importance.shares);
  return [...search.params].sort((a, b) => or(shares.get(b.name), 0) - or(shares.get(a.name), 0) ||
    a.at - b.at);
}
/* The most important ones of many, unless all are asked for. */
function foremost(search, name, most) {
  const all = byImportance(search);
  return all.length <= most || choice(name, "which", "most") === "all" ? all : all.slice(0, most);
}
const whichSwitch = (search, name, most) => search.params.length > most &&
  switches(name, "which", choice(name, "which", "most"), "which parameters",
    [["most", `${most} most important`], ["all", `all ${search.params.length}`]]);
function shadeLegend(search) {
  const { ranked } = search;
  const first = Array.from({ length: 8 }, (_, i) => ranked.find((t) => t.shade === "q" + i));
  return el("p", { class: "legend" }, search.metric, ", from better to worse: ",
    first.map((t, i) => t && swatch("q" + i, tickText(t.metric, 6))));
}

/* ---- importance ------------------------------------------------------------------------------ */

function importance(search) {
  const { shares, trials, iteration } = search.importance, ROW = 20, MOST = 30;
  const X = narrow ? 140 : 240;
  const shown = shares.slice(0, MOST), x = axis(0, Math.max(...shown.map((s) => s[1]), 1e-9), X,
    RIGHT - 60);
  return shares.length > 1 && searchSection(search, "Parameter importance",
    svg(shown.length * ROW + 4, "The importance of each parameter", shown.map(([name, share], i) =>
      el("g", null, tip(`${cut(name, 120)}: ${(100 * share).toFixed(1)} %`),
        rect("ab", X, i * ROW + 3, x(share) - X, ROW - 6),
        label("st", x(share) + 6, i * ROW + ROW / 2 + 4, `${(100 * share).toFixed(1)} %`),
        label("ln st", X - 7, i * ROW + ROW / 2 + 4, cutName(name, narrow ? 17 : 34))))),
    note("How much of the variance of the metric each parameter explains by itself (fANOVA over " +
      `a forest of 64 trees). ${plural(trials, "trial")} are compared at iteration ${iteration
      }, the last that half of the trials reached.`, trials < 30 &&
      " From so few trials this is a rough estimate.", shares.length > MOST &&
      ` ${shares.length - MOST} less important ones are omitted.`,
    " The numbers: espalier export DIR --table importance"));
}

/* ---- slices: the metric against each parameter ----------------------------------------------- */

function drawSlice(search, p, y) {
  const W = 340, H = 220, L = 46, R = W - 18, TOP = 8, BOTTOM = H - 36;
  const x = (part) => L + 6 + (R - L - 12) * part, colors = new Map();
  let missing = 0;
  for (const t of search.ranked) {
    const at = placeOf(p, t), color = stageColor(t.stage);
    if (at === null)
      missing++;
    else
      colors.set(color, [...(colors.get(color) || []), [x(at), y(t.metric), t]]);
  }
  const marks = metricTicks(y, 4).map((v) => [line("gd", L, y(v), R, y(v)),
    label("vl", L - 5, y(v) + 3.5, tickText(v, 3))]);
  return el("div", { class: "small" }, el("svg", { role: "img", viewBox: `0 0 ${W} ${H}`,
    "aria-label": `The metric against ${cut(p.name, 60)}` }, marks,
  p.ticks.map(([at, text], i) => [line("gd", x(at), TOP, x(at), BOTTOM),
    i % Math.ceil(p.ticks.length / 6) === 0 &&
      label("tm", x(at), BOTTOM + 13, cut(text, Math.ceil(44 / Math.min(6, p.ticks.length))))]),
  [...colors].map(([color, places]) => dots("sc " + color, places, search)),
  label("tm st", (L + R) / 2, H - 6, cutName(p.name, 40) + p.kind +
    (missing > 0 ? ` (${missing} inactive)` : ""))));
}
function drawSlices(search, name) {
  const MOST = 8, { sign, ranked } = search, metrics = ranked.map((t) => t.metric);
  const y = metricAxis(name, metrics, metrics[0], sign, 184, 8);
  const outside = metrics.filter((v) => isOutside(y, v)).length;
  return [controls(whichSwitch(search, name, MOST), axisSwitches(name, y)),
    el("p", { class: "axis" }, search.metric, " against each parameter"),
    el("div", { class: "smalls" },
      foremost(search, name, MOST).map((p) => drawSlice(search, p, y))),
    note("A dot is the last value of a trial",
      stages.length > 1 && !pool && `, in the color of the last ${reachedWord()} that it reached`,
      ".",
      outside > 0 && ` ${plural(outside, "value")} beyond the frame ${outside === 1 ? "is" : "are"
      } drawn on its edge.`, sampleNote(search))];
}
function slices(search) {
  const name = `slices ${search.n}`;
  return search.params.length > 0 && search.ranked.length > 0 &&
    searchSection(search, "Slices", part(name, () => drawSlices(search, name)));
}

/* ---- contours: two parameters ---------------------------------------------------------------- */

/* In each cell the mean place of the trials near it (0 the best); null where there is none near. */
function smooth(points, columns, rows) {
  const REACH = 0.07, cells = new Array(columns * rows).fill(null);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      const u = (column + 0.5) / columns, v = (row + 0.5) / rows;
      let weight = 0, sum = 0;
      for (const [x, y, place] of points) {
        const far = ((x - u) ** 2 + (y - v) ** 2) / REACH ** 2;
        if (far < 6) {
          const w = Math.exp(-far);
          weight += w;
          sum += w * place;
        }
      }
      if (weight > 0.15)
        cells[row * columns + column] = sum / weight;
    }
  return cells;
}
function drawSurface(points, box) {
  const COLUMNS = 84, ROWS = 40, cells = smooth(points, COLUMNS, ROWS), bars = [];
  const w = (box.right - box.left) / COLUMNS, h = (box.bottom - box.top) / ROWS;
  const shadeAt = (row, column) => {
    const place = cells[row * COLUMNS + column];
    return place === null ? -1 : Math.min(7, Math.floor(8 * place));
  };
  for (let row = 0; row < ROWS; row++)
    for (let from = 0, to; from < COLUMNS; from = to) {
      const shade = shadeAt(row, from);
      for (to = from + 1; to < COLUMNS && shadeAt(row, to) === shade; to++)
        ;
      if (shade >= 0)
        bars.push(rect("q" + shade, box.left + from * w, box.bottom - (row + 1) * h,
          (to - from) * w, h));
    }
  return el("g", { class: "cn" }, bars);
}
function drawContour(search, name) {
  const all = byImportance(search), options = all.map((p) => [String(p.at), cut(p.name, 40)]);
  const pick = (key, otherwise) => all.find((p) => String(p.at) === choice(name, key, "")) ||
    otherwise;
  const a = pick("x", all[0]), b = pick("y", all[1] === a ? all[0] : all[1]);
  const box = { left: narrow ? 64 : 130, right: RIGHT - 10, top: 10,
    bottom: narrow ? 300 : 400 };
  const x = (v) => box.left + v * (box.right - box.left);
  const y = (v) => box.bottom - v * (box.bottom - box.top), shades = new Map(), points = [];
  for (const t of search.ranked) {
    const u = placeOf(a, t), v = placeOf(b, t);
    if (u === null || v === null)
      continue;
    points.push([u, v, t.place]);
    shades.set(t.shade, [...(shades.get(t.shade) || []), [x(u), y(v), t]]);
  }
  const some = points.filter((p, i) => i % Math.ceil(points.length / 1500) === 0);
  return [controls(selector(name, "x", String(a.at), "across", options),
    selector(name, "y", String(b.at), "up", options)),
  svg(box.bottom + 34, "The metric by two parameters", drawSurface(some, box),
    a.ticks.map(([at, text], i) => [line("gd", x(at), box.top, x(at), box.bottom),
      i % Math.ceil(a.ticks.length / (narrow ? 5 : 12)) === 0 &&
        label("tm", x(at), box.bottom + 13, cut(text, narrow ? 8 : 12))]),
    b.ticks.map(([at, text]) => [line("gd", box.left, y(at), box.right, y(at)),
      label("vl", box.left - 6, y(at) + 3.5, cut(text, narrow ? 6 : 12))]),
    [...shades].reverse().map(([shade, places]) => dots("ct " + shade, places, search)),
    label("tm st", (box.left + box.right) / 2, box.bottom + 28, cutName(a.name, 40) + a.kind),
    el("text", { class: "tm st", transform:
      `translate(${narrow ? 12 : 16} ${(box.top + box.bottom) / 2}) rotate(-90)` },
    cutName(b.name, 30) + b.kind)),
  shadeLegend(search),
  note("A dot is the last value of a trial; the area is the mean rank of the trials near it, and " +
    "is empty where none is near.", points.length < search.ranked.length &&
    ` ${search.ranked.length - points.length} trials lack one of the two parameters.`,
  sampleNote(search))];
}
function contour(search) {
  const name = `contour ${search.n}`;
  return search.params.length > 1 && search.ranked.length > 0 &&
    searchSection(search, "Contour", part(name, () => drawContour(search, name)));
}

/* ---- parallel coordinates -------------------------------------------------------------------- */

const PARALLEL = { top: 30, bottom: 300, none: 318, height: 332 };
/* The ranges marked on the axes, of each search: by the axis' key [low, high] in parts of it. */
const brushes = new Map();
const brushesOf = (search) => brushes.get(search.n) || new Map();
const isBrushed = (search) => brushesOf(search).size > 0;
function parallelAxes(search, name) {
  const metrics = search.ranked.map((t) => t.metric);
  const y = metricAxis(name, metrics, metrics[0], search.sign, 0, 1);
  const ticks = metricTicks(y, 6).map((v) => [y(v), tickText(v, 4)]);
  return { y, axes: [...foremost(search, name, 9).map((p) => ({ key: `p${p.at}`, name: p.name,
    ticks: p.ticks, place: (t) => placeOf(p, t) })), { key: "metric", name: search.metric, ticks,
    place: (t) => (known(t.metric) ? y(t.metric) : null) }] };
}
/* Does it lie within all the marked ranges? */
function isSelected(search, t) {
  return [...brushesOf(search)].every(([, { low, high, place }]) => {
    const at = place(t);
    return at !== null && at >= low && at <= high;
  });
}
const SHOWN_MAX = 1000;
function drawParallel(search, name) {
  const { y, axes } = parallelAxes(search, name), { top, bottom, none, height } = PARALLEL;
  const width = Math.max(WIDTH, (narrow ? 80 : 100) * axes.length + (narrow ? 40 : 100));
  const marked = brushesOf(search), first = narrow ? 34 : 60;
  const x = (i) => first + i * (width - first - (narrow ? 50 : 110)) / (axes.length - 1);
  const level = (v) => bottom - v * (bottom - top), { ranked } = search;
  const shown = ranked.filter((t, i) => ranked.length <= SHOWN_MAX || i < 300 ||
    (i - 300) % Math.ceil((ranked.length - 300) / (SHOWN_MAX - 300)) === 0);
  search.drawn = shown;
  const inactive = new Set();
  const lines = shown.map((t, i) => {
    const points = axes.map((a, n) => {
      const at = a.place(t);
      if (at === null)
        inactive.add(n);
      return [x(n), at === null ? none : level(at)];
    });
    return el("path", { class: `pc ${t.shade}${isSelected(search, t) ? "" : " off"}`,
      "data-i": String(i), d: through(points) }, tip(...trialTip(search, t)));
  }).reverse();
  const scaffold = axes.map((a, n) => {
    const brush = marked.get(a.key);
    return el("g", { class: "ax" }, line("al", x(n), top, x(n), bottom),
      a.ticks.map(([at, text]) => [line("al", x(n) - 3, level(at), x(n), level(at)),
        label("at", x(n) + 5, level(at) + 3.5, text)]),
      el("g", null, tip(a.name),
        label("rl st", x(n), top - 12, cutName(a.name, narrow ? 9 : 15))),
      inactive.has(n) && label("rl", x(n), none + 12, "inactive"),
      brush && rect("br", x(n) - 8, level(brush.high), 16, level(brush.low) - level(brush.high)),
      el("rect", { class: "bx", "data-brush": String(search.n), "data-axis": a.key, x: x(n) - 16,
        y: top - 4, width: 32, height: bottom - top + 8 }));
  });
  return [controls(whichSwitch(search, name, 9), axisSwitches(name, y), marked.size > 0 &&
    button(name, "clear", String(search.n), "clear the ranges")),
  el("div", { class: "scroll" }, el("svg", { role: "img", viewBox: `0 0 ${width} ${height}`,
    style: width > WIDTH ? `min-width:${width}px` : "",
    "aria-label": "Each trial as a line through its parameters and its metric" }, 
    el("g", { class: shown.length > 200 ? "dense" : "" }, lines), scaffold)),
  shadeLegend(search),
  note("Drag along an axis to mark a range: lines outside fade, and the table of trials shows " +
    "the others. A click on an axis clears it.", shown.length < ranked.length ||
    search.shown.length < search.of
    ? ` Of ${search.of} trials, ${shown.length} are drawn: the best and an even sample of ` +
      "the others that have a value." : ranked.length < search.of &&
      ` ${plural(search.of - ranked.length, "trial")} without a value ${
        search.of - ranked.length === 1 ? "is" : "are"} not drawn.`)];
}
function parallel(search) {
  const name = `parallel ${search.n}`;
  return search.params.length > 0 && search.ranked.length > 0 &&
    searchSection(search, "Parallel coordinates", part(name, () => drawParallel(search, name)));
}
function clearBrushes(n) {
  brushes.delete(Number(n));
  redraw(`parallel ${n}`);
  redraw(`trials ${n}`);
}
/* A press on an axis: marks a range until it is released. */
function startBrush(event) {
  const hit = event.target.closest("[data-brush]");
  if (!hit)
    return;
  const search = data.searches[Number(hit.dataset.brush)], key = hit.dataset.axis;
  const drawing = hit.ownerSVGElement, name = `parallel ${search.n}`;
  const { axes } = parallelAxes(search, name), { place } = axes.find((a) => a.key === key);
  const at = ({ clientY }) => {
    const box = drawing.getBoundingClientRect(), { top, bottom, height } = PARALLEL;
    return within((bottom - (clientY - box.top) * height / box.height) / (bottom - top));
  };
  const from = at(event), marks = new Map(brushesOf(search));
  const paths = [...drawing.querySelectorAll("[data-i]")];
  const mark = (to) => {
    marks.set(key, { low: Math.min(from, to), high: Math.max(from, to), place });
    brushes.set(search.n, marks);
  };
  const move = (moved) => {
    mark(at(moved));
    for (const one of paths)
      one.classList.toggle("off", !isSelected(search, search.drawn[Number(one.dataset.i)]));
  };
  const end = (ended) => {
    drawing.removeEventListener("pointermove", move);
    if (ended.type === "pointerup" && Math.abs(at(ended) - from) >= 0.01)
      mark(at(ended));
    else
      marks.delete(key);
    brushes.set(search.n, marks);
    redraw(name);
    redraw(`trials ${search.n}`);
  };
  event.preventDefault();
  hit.setPointerCapture(event.pointerId);
  drawing.addEventListener("pointermove", move);
  hit.addEventListener("pointerup", end, { once: true });
  hit.addEventListener("pointercancel", end, { once: true });
}
