/* report.js - draws the page of `espalier report`, with what report_base.js offers. */

/* ---- the head --------------------------------------------------------------------------- */

const fact = (name, ...value) => el("p", null, el("b", null, name), " ", value);
const tile = (name, value, ...facts) => el("div", { class: "tile " + name }, el("h3", null, name),
  el("p", { class: "big" }, value), facts);
const bad = (text) => el("em", { class: "bad" }, text);

/* What the plans said of a quantity, and how far reality was from it. */
function predictions(was, format, least, what) {
  return plans.map((p, i) => {
    const { mean, sd, p95 } = what(p, i), off = (was - mean) / mean * 100;
    if (i > 0 && i + 1 < plans.length)
      return "";
    return fact(plans.length === 1 ? "plan" : i === 0 ? "first plan" : "last plan", format(mean),
      sd > least && `, sd ${format(sd)}, p95 ${format(p95)}`, known(off) && mean > 0 &&
      !data.running && [" ", el("em", null, `(actual ${off > -0.05 ? "+" : ""}${
        (Math.abs(off) < 0.05 ? 0 : off).toFixed(1)} %)`)]);
  });
}
function limit(name, value, most, text, ended, otherwise) {
  return known(most) && fact(name, text, value > most * 1.000001 &&
    [" ", bad(totals.status === ended ? "reached" : otherwise)]);
}
/* The end, the cost and the best as they are expected, each with its band of 80 %. */
function outlook(f) {
  const clock = (s) => new Date((f.zero_s + s) * 1000)
    .toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit" });
  const when = (s) => f.zero_s ? clock(s) : seconds(s);
  const part = (x) => x >= 1 ? "100 % or more" : `${Number((100 * x).toPrecision(2))} %`;
  const chance = (x) => `${Number((100 * x).toPrecision(2))} %`;
  const band = (b, format) => `${format(b.mid)} (80 %: ${format(b.low)} to ${format(b.high)})`;
  return tile("Forecast", when(f.ends_s.mid), fact("ends", band(f.ends_s, when)),
    f.cost_usd.high > 0 && fact("costs", band(f.cost_usd, money)),
    known(f.best.mid) && fact("best at the end", band(f.best, metric)),
    known(f.keeps_deadline) && fact("before the deadline", chance(f.keeps_deadline)),
    known(f.keeps_budget) && fact("within the budget", chance(f.keeps_budget)),
    known(f.past.gain) &&
      fact(`the last ${seconds(f.past.s)} improved the best by`, part(f.past.gain)),
    known(f.rest.gain) && fact("the rest is expected to bring", part(f.rest.gain)));
}
function tiles() {
  const so = data.running ? " so far" : "", t = totals;
  return el("div", { class: "tiles" },
    t.forecast && outlook(t.forecast),
    tile("Time" + so, seconds(t.jct_s),
      predictions(t.jct_s, seconds, 1e-3,
        (p) => ({ mean: p.ends_s, sd: p.ends_sd_s, p95: p.ends_p95_s })),
      fixed && fact("static plan", seconds(fixed.jct_s)),
      limit("deadline", t.jct_s, t.deadline_s, seconds(t.deadline_s), "deadline", "missed")),
    priced && tile("Cost" + so, money(t.cost_usd),
      predictions(t.cost_usd, money, 1e-6, (p, i) => {
        const before = i > 0 ? spentBy(p.at_s) : 0;
        return { mean: before + p.cost_usd, sd: p.cost_sd_usd, p95: before + p.cost_p95_usd };
      }),
      fixed && fact("static plan", money(fixed.cost_usd)),
      limit("budget", t.cost_usd, t.budget_usd, money(t.budget_usd), "budget", "exceeded"),
      t.refunded_usd > 0 && fact("refunded", money(t.refunded_usd), " more, ",
        (t.gpu_s > 0 ? 100 * t.refunded_gpu_s / t.gpu_s : 0).toFixed(0),
        "% of the time held")),
    !pool && tile("Best", t.best < 0 ? "none" : metric(t.best_metric) + spread(t), t.best >= 0 &&
      [el("p", null, cut(t.metric, 60), t.seeds > 1 ? `, mean of ${t.best_counted} of the trials ` +
        `${t.best_first} to ${t.best_first + t.seeds - 1} at iteration ${t.best_iteration}`
        : `, trial ${t.best} at iteration ${t.best_iteration}`),
        el("p", { class: "pa" }, parameters(t.best_params, data.searches.length > 0
          ? data.searches[0].importance.shares : [])),
        t.confirmation && el("p", null, t.confirmation),
        el("p", null, bestEver(t))]),
    tile("Trials", t.trials, fact("completed", t.completed),
      t.early > 0 && fact("stopped early", t.early), t.paused > 0 && fact("paused", t.paused),
      t.failed > 0 && fact("failed", bad(t.failed)),
      t.failed_attempts > 0 && fact("failed attempts", t.failed_attempts),
      t.unfinished > 0 && fact("unfinished", t.unfinished),
      (data.running || t.running + t.waiting > 0) &&
        [fact("running", t.running), fact("waiting", t.waiting)],
      fact("resizes", t.resizes), fact("moves", t.moves)),
    t.jobs > 0 && tile("Jobs", t.jobs, fact("done", t.jobs_done),
      t.jobs_failed > 0 && fact("failed", bad(t.jobs_failed)),
      t.jobs_cancelled > 0 && fact("cancelled", t.jobs_cancelled)),
    tile(totals.on_cpu ? "Slots busy" : "GPUs busy",
      `${(t.gpu_s > 0 ? 100 * t.busy_gpu_s / t.gpu_s : 0).toFixed(0)} %`,
      fact(`${unit()} time used`, seconds(t.busy_gpu_s)), fact("held", seconds(t.gpu_s)),
      fact("peak nodes", t.nodes_peak), t.nodes_leaked > 0 && fact("leaked", bad(t.nodes_leaked))));
}
function head() {
  const chip = (name, text) => el("span", { class: "chip " + name }, text);
  return [el("header", null, el("h1", null, cut(totals.experiment, 100)),
    chip(chipColor(totals.outcome), cut(totals.status, 20)),
    totals.simulated ? chip("mid", "simulated") : "",
    el("p", { class: "sub" }, objects(data.meta)
      .map((m) => [el("span", null, m.key, " ", cut(String(m.value), 60)), " "])),
    el("p", { class: "answer" }, cut(totals.sentence, 600)),
    totals.text &&
      el("p", { class: totals.status === "done" ? "sub" : "why" }, cut(totals.text, 600))),
  tiles(),
  plans.length > 1 &&
    note(`The plan was changed ${plural(plans.length - 1, "time")} during the run.`),
  data.fixed && data.fixed.why_not &&
    note(`There is no static plan to compare with: ${cut(data.fixed.why_not, 300)}`)];
}

/* ---- nodes and trials: stages as planned and as they ran, above the nodes and their gangs ---- */

/* A strip of boxes, in rows of those that do not overlap; `place` has the room and what is left. */
function strip(name, boxes, place) {
  const ROW = 19, ends = [], shown = [];
  for (const b of boxes.sort((a, b) => a.from_s - b.from_s)) {
    let row = ends.findIndex((at) => at <= b.from_s + end / 1500);
    row = row < 0 ? ends.length : row;
    if (row >= 10) {
      place.left_out++;
      continue;
    }
    ends[row] = b.to_s;
    const from = time(b.from_s), room = time(b.to_s) - from, y = place.y + row * ROW;
    const text = b.labels.find((l) => l.length * 6.1 + 8 <= room);
    shown.push(el("g", null, tip(...b.tip),
      rect(b.name, from + 0.5, y, room - 1, ROW - 3), text && label("st", from + 5, y + 12, text)));
  }
  if (shown.length > 0) {
    shown.push(label("ln", LEFT - 7, place.y + 12, name));
    place.y += ends.length * ROW + 3;
  }
  return shown;
}
const isSpan = (b) => known(b.from_s) && known(b.to_s) && b.from_s <= b.to_s;
function spanText(name, what, from, to, usd) {
  return `${name}, ${what}: ${seconds(from)} to ${seconds(to)}` +
    (priced && known(usd) ? ", " + money(usd) : "");
}
function planStrip(name, rows, place) {
  return strip(name, rows.map((r) => ({ from_s: r.starts_s, to_s: r.ends_s,
    name: "pl " + color(r.stage),
    labels: [`${rowName(r)}: ${r.trials} \u00d7 ${r.gpus_per_trial} ${unit(r.gpus_per_trial)}, ${
      plural(r.nodes, "node")}`, rowName(r), String(r.stage)],
    tip: [spanText(rowName(r), name, r.starts_s, r.ends_s, r.cost_usd),
      `${r.trials} trials for ${r.iterations} iterations, ${r.gpus_per_trial} ${
        unit(r.gpus_per_trial)} each, on ${r.nodes} nodes of ${cut(r.offer, 60)}`] }))
    .filter(isSpan), place);
}
function strips(place) {
  const stageBoxes = stages.map((s) => ({ from_s: s.begun_s, to_s: or(s.ended_s, now),
    name: "re " + color(s.number),
    labels: [`${stageName(s.n)}: ${plural(s.trials, "trial")}`, stageName(s.n),
      String(declared ? s.number : s.budget)],
    tip: [spanText(stageName(s.n), "actual", s.begun_s, or(s.ended_s, now), s.cost_usd),
      `${s.trials} trials on ${s.nodes} different nodes`] })).filter(isSpan);
  return [
    plans.length > 0 && planStrip(firstName, planned.filter(isFirst), place),
    plans.length > 1 && planStrip("re-planned", planned.filter((r) => !isFirst(r) &&
      lastPlanned(r.bracket, r.stage) === r), place),
    strip("actual", stageBoxes, place)];
}

/* Failures and notices; drawn last, above the bars. */
const MARKS_MAX = 400;
const crosses = { x: "M-3-3L3 3M3-3L-3 3", k: "M-4-4L4 4M4-4L-4 4", n: "M-5-4H5L0 4Z" };
function mark(marks, name, x, y, text) {
  marks.count++;
  if (marks.count <= MARKS_MAX)
    marks.list.push(el("g", { class: "mk " + name,
      transform: `translate(${coordinate(x)} ${coordinate(y)})` },
    el("path", { d: crosses[name] }), tip(text)));
}
function drawLease(n, top, bottom, marks) {
  const to = time(or(n.ended_s, now)), ready = known(n.ready_s) ? time(n.ready_s) : to;
  const booting = known(n.booting_s) ? time(n.booting_s) : ready, from = time(n.requested_s);
  const told = ["booting", "ready", "notice"].filter((what) => known(n[what + "_s"]))
    .map((what) => `, ${what} at ${seconds(n[what + "_s"])}`).join("");
  if (known(n.notice_s))
    mark(marks, "n", time(n.notice_s), top,
      `node ${n.id} got an interruption notice at ${seconds(n.notice_s)}`);
  if (known(n.ended_s) && n.why && n.why !== "released" && n.why !== "ended")
    mark(marks, "k", to, (top + bottom) / 2,
      `node ${n.id} at ${seconds(n.ended_s)}: ${cut(n.why, 120)}`);
  return el("g", { class: "ls" },
    tip(`node ${n.id}: ${cut(n.offer, 60)}, ${cut(n.market, 30)}, ${n.gpus} ${unit(n.gpus)}`,
      `requested at ${seconds(n.requested_s)}${told}` + (known(n.ended_s)
        ? `, ended at ${seconds(n.ended_s)} (${cut(n.why, 80)})` : ""),
      priced && money(n.charged_usd)),
    booting > from && rect("rq", from, top, booting - from, bottom - top),
    ready > booting && rect("bo", booting, top, ready - booting, bottom - top),
    rect("rd", ready, top, to - ready, bottom - top),
    (bottom - top >= 9 || n.n % 2 === 0) &&
      label("ln", LEFT - 7, (top + bottom) / 2 + 3.5, `node ${n.id}`));
}
/* The rows of one stay, which has a part for each stage that it worked for. */
function stays() {
  const list = [];
  for (const part of objects(data.stays)) {
    const last = list[list.length - 1];
    if (last && last.gang === part.gang && last.number === part.number) {
      last.parts.push(part);
      last.until_s = part.until_s;
    } else {
      list.push(Object.assign({ parts: [part] }, part, { slots: JSON.parse(part.slots)
        .filter((s) => Array.isArray(s) && s.length === 2 && s.every((v) => v >= 0)) }));
    }
  }
  return list;
}
function gangTip(g) {
  const trial = `trial ${trialName(g.trial)}, gang ${g.gang}`, [first, ...others] = g.parts;
  return tip(trial + (stageName(first.stage) && ", " + stageName(first.stage)) + others
    .map((p) => `, from ${seconds(p.from_s)} ${stageName(p.stage)}`).join(""),
  `${seconds(g.from_s)} to ${g.over ? seconds(g.until_s) : "now"} on ` + (g.packing > 1
    ? `1/${g.packing} of a ${unit()}` : `${g.gpus} ${unit(g.gpus)}`) +
    (g.number > 0 ? ", resized in place" : "") +
    (g.running_s > g.from_s ? `, running after ${seconds(g.running_s - g.from_s)}` : ""),
  cut(g.text, 120));
}
/* One stretch of GPUs: the start pale, then each stage in its color. */
function drawStretch(g, y, height) {
  const from = time(g.from_s), to = time(g.until_s), name = trialName(g.trial);
  const bars = [], up = "up " + stageColor(g.parts[0].stage);
  if (!known(g.running_s))
    return rect(up, from, y, to - from, height);
  const running = time(g.running_s) - from > 0.4 ? g.running_s : g.from_s;
  if (running > g.from_s)
    bars.push(rect(up, from, y, time(running) - from, height));
  g.parts.forEach((p, i) => {
    const begin = Math.max(running, p.from_s);
    if (p.until_s > begin || i + 1 === g.parts.length)
      bars.push(rect(stageColor(p.stage), time(begin), y, time(p.until_s) - time(begin) - 0.3,
        height));
  });
  if (height >= 8.5 && to - from > 6 + 5.6 * name.length)
    bars.push(label("bt", (from + to) / 2, y + height / 2 + 3.2, name));
  return bars;
}
/* A row of a node for each GPU; trials that share one take the first part that is free. */
function drawGang(g, lanes, marks) {
  const bars = [];
  let y = 0, height = 0;
  for (let i = 0, n; i < g.slots.length; i += n) {
    const [node, gpu] = g.slots[i], lane = lanes.get(node);
    for (n = 1; i + n < g.slots.length && g.slots[i + n][0] === node &&
      g.slots[i + n][1] === gpu + n; n++)
      ;
    if (!lane || gpu >= lane.gpus)
      continue;
    height = lane.row * Math.min(n, lane.gpus - gpu);
    y = lane.top + gpu * lane.row;
    if (g.packing > 1) {
      const seats = lane.seats[gpu] = lane.seats[gpu] || [];
      let seat = 0;
      while (seat < g.packing - 1 && seats[seat] > g.from_s + 1e-9)
        seat++;
      seats[seat] = g.until_s;
      height = lane.row / g.packing;
      y += seat * height;
    }
    bars.push(drawStretch(g, y + 0.3, height - 0.6));
  }
  if (g.text && g.over && bars.length > 0)
    mark(marks, "x", time(g.until_s), y + height / 2,
      `trial ${trialName(g.trial)}, gang ${g.gang} at ${seconds(g.until_s)}: ${cut(g.text, 120)}`);
  return el("g", { class: "gang" }, gangTip(g), bars);
}
function drawLanes(place, marks) {
  const GAP = 5, lanes = new Map();
  const leases = nodes.map((n) => {
    const height = Math.max(11, facts.row * n.gpus), top = place.y;
    lanes.set(n.id, { top, row: height / n.gpus, gpus: n.gpus, seats: [] });
    place.y += height + GAP;
    return drawLease(n, top, top + height, marks);
  });
  return [leases, gangs.map((g) => drawGang(g, lanes, marks)), marks.list];
}
/* Many nodes or gangs: lanes of nodes, colored by how busy they were. */
function drawDensity(place) {
  const lanes = Math.ceil(nodes.length / facts.each), shades = new Map();
  const height = Math.min(22, 1000 / lanes), names = [];
  const every = Math.max(1, Math.ceil(11 / height));
  for (const r of objects(data.grid)) {
    const x = time(r.bin * facts.bin_s), shade = r.color === null ? "rd" : `${r.color} ${r.level}`;
    shades.set(shade, (shades.get(shade) || "") + `M${coordinate(x)} ${
      coordinate(place.y + (r.lane + 0.5) * height)}h${
      coordinate(time((r.bin + r.bins) * facts.bin_s) - x)}`);
  }
  for (let lane = 0; lane < lanes; lane += every) {
    const first = nodes[lane * facts.each];
    const last = nodes[Math.min(nodes.length, (lane + 1) * facts.each) - 1];
    names.push(label("ln", LEFT - 7, place.y + (lane + 0.5) * height + 3.5,
      first === last ? `node ${first.id}` : `nodes ${first.id}\u2013${last.id}`));
  }
  place.y += height * lanes + 4;
  return [[...shades].map(([shade, d]) => {
    const [number, level] = shade.split(" ");
    return el("path", { class: shade === "rd" ? "de rd" : "de s" + number,
      "stroke-width": height * 0.84, opacity: shade === "rd" ? 1 : 0.4 + 0.2 * level, d });
  }), names];
}
function stageLegend() {
  const seen = new Set();
  return stages.filter((s) => !seen.has(color(s.number)) && seen.add(color(s.number)))
    .map((s) => swatch(color(s.number), declared && !pool
      ? `stage ${s.number}${data.brackets ? " of each bracket" : ""}` : stageName(s.n)));
}
function gantt() {
  if (nodes.length === 0 && stages.length === 0)
    return "";
  const TOP = 4, place = { y: 14, left_out: 0 }, marks = { list: [], count: 0 };
  const above = strips(place), at = time(totals.deadline_s);
  place.y += 6;
  const body = nodes.length > 0 &&
    (facts.row > 0 ? drawLanes(place, marks) : drawDensity(place));
  return section("Nodes and trials",
    svg(place.y + 18, "Planned and actual stages, above the use of each node",
      timeGrid(TOP, place.y), above, body, known(totals.deadline_s) && totals.deadline_s <= end &&
      [line("dl", at, TOP, at, place.y), label("dt", at - 4, TOP + 6, "deadline")]),
    el("p", { class: "legend" }, stageLegend(), facts.row > 0
      ? [swatch("rq", "requested"), swatch("bo", "booting"), swatch("rd", "held, idle"),
        swatch("s0 up", "gang starts"), swatch("mx", "failed or lost", "\u00d7"),
        swatch("mn", "notice", "\u25bc")] : swatch("rd", "held, idle")),
    facts.row === 0 && note(`${nodes.length} nodes and ${facts.stays} gangs are too many to draw ` +
      `individually. The color is that of the stage that used most ${unit(0)}; a paler color ` +
      `means that more of the held ${unit(0)} were idle.`),
    place.left_out > 0 && note(`${place.left_out} stages that ran at the same time as ten others ` +
      "are not drawn."),
    marks.count > MARKS_MAX &&
      note(`${marks.count - MARKS_MAX} more failures and notices are not marked.`));
}

/* ---- over time: GPUs held and busy, money spent; beside them the plan's ------------------- */

/* The levels of a sum of spans [from, to, amount]: [from_s, level], each until the next. */
function levels(spans) {
  const changes = [], list = [];
  let sum = 0;
  for (const [from, to, amount] of spans)
    if (to > from && amount > 0)
      changes.push([from, amount], [to, -amount]);
  for (const [at, change] of changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    sum += change;
    if (list.length === 0 || list[list.length - 1][0] < at)
      list.push([at, 0]);
    list[list.length - 1][1] = Math.max(0, sum < 1e-9 ? 0 : sum);
  }
  return list;
}
/* Means over bins, in the place of more levels than can be seen. */
function thin(list) {
  const BINS = 500, each = end / BINS;
  const means = Array.from({ length: BINS }, (_, i) => [i * each, 0]);
  if (list.length <= 1500)
    return list;
  list.forEach(([from, level], i) => {
    const to = Math.min(end, i + 1 < list.length ? list[i + 1][0] : end);
    for (let bin = Math.floor(from / each); bin < BINS && bin * each < to; bin++)
      means[bin][1] += level *
        Math.max(0, Math.min(to, (bin + 1) * each) - Math.max(from, bin * each)) / each;
  });
  return [...means, [end, 0]];
}
function drawLevels(name, list, y) {
  if (list.length === 0)
    return "";
  let d = `M${coordinate(time(list[0][0]))} ${coordinate(y(0))}`;
  list.forEach(([from, level], i) => {
    const to = i + 1 < list.length ? list[i + 1][0] : from;
    d += `V${coordinate(y(level))}H${coordinate(time(to))}`;
  });
  return el("path", { class: name, d });
}
const LINES_TOP = 10, LINES_BOTTOM = 180;
function gpusOverTime() {
  if (nodes.length === 0)
    return "";
  const held = levels(nodes.filter((n) => known(n.ready_s))
    .map((n) => [n.ready_s, or(n.ended_s, now), n.gpus]));
  const meanBusy = new Map(data.busy.rows), busy = facts.row > 0
    ? levels(gangs.map((g) => [g.from_s, g.until_s, g.gpus / g.packing]))
    : Array.from({ length: 250 }, (_, i) => [i * facts.bin_s, meanBusy.get(i) || 0]);
  const plan = levels(planned.filter((r) => isFirst(r) && known(r.starts_s) && r.gpus < 1e8)
    .map((r) => [r.starts_s, r.ends_s, r.gpus]));
  const most = [...held, ...busy, ...plan].reduce((m, p) => Math.max(m, p[1]), 0);
  const y = axis(0, most > 0 ? most * 1.08 : 1, LINES_BOTTOM, LINES_TOP);
  return section(`${totals.on_cpu ? "Slots" : "GPUs"} over time`,
    svg(LINES_BOTTOM + 18, `Held and busy ${unit(0)} over time`, timeGrid(LINES_TOP, LINES_BOTTOM),
      valueGrid(y, "GPUs"), drawLevels("ah", thin(held), y), drawLevels("ab", thin(busy), y),
      drawLevels("lp", plan, y)),
    el("p", { class: "legend" }, swatch("ah", "held (ready)"), swatch("ab", "busy"),
      plan.length > 0 && key("lp", firstName)));
}
/* Spending as planned: base dollars at begin_s, and stages [from, to, dollars]. */
function drawPlanned(name, p, y) {
  const by = (at) => p.stages.reduce((usd, [from, to, cost]) => usd + (at >= to ? cost
    : at <= from ? 0 : cost * (at - from) / (to - from)), p.base);
  return path(name, Array.from({ length: 241 }, (_, i) => {
    const at = p.begin_s + (p.end_s - p.begin_s) * i / 240;
    return [time(at), y(by(at))];
  }));
}
function spending(begin_s, base, parts) {
  const list = parts.filter(([from, to, usd]) => known(from) && known(usd) && to >= from);
  return { begin_s, base, stages: list, end_s: list.reduce((e, s) => Math.max(e, s[1]), begin_s),
    most: list.reduce((usd, s) => usd + s[2], base) };
}
function planSpending(p, i) {
  const begin = Math.max(0, p.at_s);
  return spending(begin, i > 0 ? spentBy(begin) : 0,
    rowsOf(p).map((r) => [r.starts_s, r.ends_s, r.cost_usd]));
}
function costOverTime() {
  const lines = [plans.length > 0 && ["lp", firstName, planSpending(plans[0], 0)],
    plans.length > 1 && ["lq", "last plan", planSpending(plans[plans.length - 1], 1)],
    fixed && ["lf", "cheapest static plan", spending(0, 0, fixed.stages)]]
    .filter((l) => l && l[2].stages.length > 0);
  const most = Math.max(spentBy(now), ...lines.map((l) => l[2].most)), budget = totals.budget_usd;
  if (!(most > 0))
    return "";
  const near = known(budget) && budget > most && budget < most * 1.5;
  const y = axis(0, near ? budget * 1.03 : most * 1.05, LINES_BOTTOM, LINES_TOP);
  const actual = spent.length <= 1500 ? spent : Array.from({ length: 500 },
    (_, i) => [now * i / 499, spentBy(now * i / 499)]);
  return section("Cost over time",
    svg(LINES_BOTTOM + 18, "Dollars spent, over time", timeGrid(LINES_TOP, LINES_BOTTOM),
      valueGrid(y, "$"), [...lines].reverse().map(([name, , p]) => drawPlanned(name, p, y)),
      path("lr", actual.map(([at, usd]) => [time(at), y(usd)])),
      known(budget) && budget <= y.high && [line("dl", LEFT, y(budget), RIGHT, y(budget)),
        label("dt", RIGHT - 4, y(budget) + 12, "budget")]),
    el("p", { class: "legend" }, key("lr", "actual"),
      lines.map(([name, text]) => key(name, text))));
}

/* ---- use of each GPU ---------------------------------------------------------------------- */

const ratio = (part, whole) => (whole > 0 && part > 0 ? Math.min(1, part / whole) : 0);
function gpuUse() {
  if (nodes.length === 0 || facts.stays === 0)
    return "";
  const ROWS_MAX = 64, ROW = 15, TOP = 6, each = facts.each_gpu;
  const x = axis(0, 1, Math.max(LEFT, 90), RIGHT - 44);
  const used = new Map(objects(data.use).map((u) => [`${u.node} ${u.gpu}`, u]));
  const none = { used_s: 0, share_s: 0, gangs: 0 }, rows = [], all = { held: 0, used: 0, share: 0 };
  for (const n of nodes) {
    const lease = known(n.ready_s) ? Math.max(0, or(n.ended_s, now) - n.ready_s) : 0;
    for (let gpu = 0; gpu < (each ? n.gpus : 1); gpu++) {
      const u = used.get(`${n.n} ${gpu}`) || none, held = each ? lease : lease * n.gpus;
      const part = ratio(u.used_s, held), y = TOP + rows.length * ROW;
      const name = `node ${n.id}` + (each ? `, ${unit()} ${gpu}` : "");
      all.held += held;
      all.used += u.used_s;
      all.share += u.share_s;
      if (rows.length < ROWS_MAX)
        rows.push(el("g", { class: "gu" },
          tip(`${name}: ${seconds(u.used_s)} of ${seconds(held)}, ${plural(u.gangs, "gang")}`),
          rect("ah", x.from, y, x.to - x.from, ROW - 3),
          part > 0 && rect("ab", x.from, y, x(part) - x.from, ROW - 3),
          label("st", x.to + 6, y + ROW - 5.5, `${(100 * part).toFixed(0)} %`),
          label("ln", x.from - 7, y + ROW - 5.5, name)));
    }
  }
  return section(`Use of each ${unit()}`,
    svg(TOP + rows.length * ROW, `Fraction of the time that each ${unit()} was in use`, rows),
    el("p", { class: "legend" }, swatch("ah", "held (ready)"),
      swatch("ab", "used by at least one trial")),
    note(`${(100 * ratio(all.used, all.held)).toFixed(1)} % of the time of all ${unit(0)} was in ` +
      `use: ${seconds(all.used)} of ${seconds(all.held)}` + (all.share < all.used * (1 - 1e-7)
      ? `; the trials' shares sum to ${seconds(all.share)}` : "") + ". Which trial used which " +
      "slot, and when: espalier export DIR --format csv --table gpu_map"),
    !each && nodes.length > ROWS_MAX &&
      note(`Showing the first ${ROWS_MAX} of ${nodes.length} nodes.`));
}

/* ---- tables ------------------------------------------------------------------------------- */

/* A cell is a value, or [class, value]; so is a heading. */
function row(name, cells, tag = "td") {
  return el("tr", name ? { class: name } : null, cells.map((c) => (Array.isArray(c)
    ? el(tag, { class: c[0] }, c.slice(1)) : el(tag, null, c))));
}
const table = (heads, rows) => el("div", { class: "scroll" }, el("table", null,
  el("thead", null, row("", heads, "th")), el("tbody", null, rows)));
const left = (...inside) => ["w", ...inside];

function resizes() {
  const list = objects(data.resizes), s = list[0];
  if (!s)
    return "";
  const sooner = (v, yes, no) => `${seconds(Math.abs(v))} ${v < 0 ? no : yes}`;
  return section("Resizes while training",
    table(["at", "trial", unit(0), "then", left("how"), "paused", "iteration before", "after",
      "iterations", "gained", `more ${unit()} time`], list.map((r) => row("rz", [seconds(r.at_s),
      trialName(r.trial), unitNumber(r.gpus_before, r.packing_before),
      unitNumber(r.gpus, r.packing), left(r.in_place ? "in place" : "by checkpoint"),
      seconds(r.pause_s),
      seconds(r.iteration_before_s), seconds(r.iteration_s), r.iterations || 0,
      seconds(r.gained_s), seconds(r.more_gpu_s)]))),
    note(`Of ${plural(totals.resizes, "resize")} ${s.all_count} took place while the trial was ` +
      `training, ${s.all_in_place} of them in place; these trials paused for ${
        seconds(s.all_pause_s)} in total. Trials that grew finished ${
        sooner(s.all_sooner_s, "sooner", "later")} than at their previous pace and used ${
        seconds(s.all_more_s)} more ${unit()} time; trials that shrank finished ${
        sooner(s.all_later_s, "later", "sooner")} and freed ${seconds(s.all_less_s)} of it for ` +
      "others."),
    s.all_count > list.length && note(`Showing the first ${list.length}. For all, use espalier ` +
      "export DIR --format csv --table resizes"));
}

const STAGES_MAX = 100;
/* From when, until when, how long, for how much. */
const spanCells = (from, to, usd, shared) => [seconds(from), seconds(to),
  seconds(known(from) && known(to) ? to - from : null),
  ...(priced ? [money(usd) + (shared && known(usd) ? " *" : "")] : [])];
const planLine = (r, what) => row("pr", ["", left(what), r.trials, r.iterations, r.gpus_per_trial,
  r.nodes, ...spanCells(r.starts_s, r.ends_s, r.cost_usd)]);
function stageLines(s) {
  const before = stages.filter((o) => o.bracket === s.bracket && o.budget < s.budget)
    .reduce((most, o) => Math.max(most, o.budget), 0);
  const first = firstPlanned(s.bracket, s.number), last = lastPlanned(s.bracket, s.number);
  const gpus = !s.gpus_least ? "-" : s.packing > 1 && s.gpus_most === 1 ? `1/${s.packing}`
    : s.gpus_least === s.gpus_most ? s.gpus_most : `${s.gpus_least}\u2013${s.gpus_most}`;
  return [row("sg", [left(el("i", { class: color(s.number) }), stageName(s.n),
    s.name && " " + cut(s.name, 40)), left(!known(s.ended_s) && data.running ? "so far" : "actual"),
  s.trials, (s.budget || 0) - before, gpus, s.nodes,
  ...spanCells(s.begun_s, or(s.ended_s, now), s.cost_usd, s.shared)]),
  first && planLine(first, firstName), last && planLine(last, "re-planned")];
}
/* Planned stages that have not started (the run ended before, or is still running). */
function stagesToCome() {
  const plan = plans[plans.length - 1];
  return (plan ? rowsOf(plan) : []).slice(0, STAGES_MAX)
    .filter((r) => !stages.some((s) => s.number === r.stage && s.bracket === r.bracket))
    .map((r) => [el("tr", { class: "sg" }, el("td", { class: "w" }, rowName(r)),
      el("td", { class: "w", colspan: priced ? 9 : 8 },
        `did not start${data.running ? " yet" : ""}`)),
    planLine(r, plans.length > 1 ? "re-planned" : "plan")]);
}
function stageTable() {
  if (stages.length === 0)
    return "";
  return section(pool ? "Use by experiment"
    : plans.length > 0 ? "Stages: plan and actual" : "Stages",
    table([left(pool ? "experiment" : "stage"), "", "trials", "iterations", `${unit(0)} per trial`,
      "nodes", "start", "end", "took", ...(priced ? ["cost"] : [])],
    [stages.slice(0, STAGES_MAX).map(stageLines), stagesToCome()]),
    stages.length > STAGES_MAX &&
      note(`Showing the first ${STAGES_MAX} of ${stages.length} stages.`),
    plans.length > 0 && note("The actual cost of a stage is its share of the nodes' bills, each " +
      "spread evenly over the time that the node was held; the planned cost counts charges when " +
      "they fall due. Only the totals are directly comparable."),
    priced && stages.some((s) => s.shared) &&
      note(`* ${pool ? "" : "Stages ran in parallel: "}the total cost is shared in proportion to ` +
        `the ${unit()} time used.`));
}
function failures() {
  const MOST = 20, list = objects(data.trouble);
  return list.length > 0 && section("Failures",
    table(["times", "trials", left("what"), "first", "last", left("reason")], list.slice(0, MOST)
      .map((f) => row("", [f.times, or(f.trials, ""), left({ failed: "failed attempt",
        lost: "lost or ended" }[f.kind] || f.kind), seconds(f.first_s), seconds(f.last_s),
      ["w pa", f.what]]))),
    list.length > MOST && note("Less frequent failures are omitted. For all, use espalier export " +
      "DIR --format csv --table gangs"));
}

/* ---- a pool: when each experiment and job came, why it waited, on how many GPUs it ran ------- */

function poolMembers() {
  const list = objects(data.members), shares = new Map(list.map((m) => [m.who, []]));
  for (const [who, at, more] of data.shares.rows) {
    const steps = shares.get(who), before = steps.length > 0 ? steps[steps.length - 1].gpus : 0;
    steps.push({ at, gpus: before + more });
  }
  for (const m of list) {
    m.steps = shares.get(m.who);
    m.most = m.steps.reduce((most, s) => Math.max(most, s.gpus), 0);
    m.until_s = or(m.ended_s, now);
    m.waited_s = (m.steps.length > 0 ? m.steps[0].at : m.until_s) - m.arrived_s;
  }
  return list;
}
function drawMember(m, most, y) {
  const ROW = 14, from = time(m.arrived_s);
  return el("g", { class: "gang" },
    tip(`${m.job ? "plain job" : "experiment"} ${m.id}: ${cut(m.name, 60)}, ${m.status}` +
      (m.text ? ": " + cut(m.text, 300) : ""),
      `waited ${seconds(m.waited_s)}${m.why ? ": " + cut(m.why, 400) : ""}`,
      `on up to ${short(m.most, 4)} ${unit(m.most)}`),
    rect("rq", from, y + 1, time(m.until_s) - from, ROW - 3),
    m.steps.map((s, i) => {
      const to = i + 1 < m.steps.length ? m.steps[i + 1].at : m.until_s;
      const height = s.gpus / most * (ROW - 3), x = time(s.at);
      return s.gpus > 1e-9 && to > s.at &&
        rect(m.job ? "s2" : "s0", x, y + ROW - 2 - height, time(to) - x, height);
    }),
    label("ln", LEFT - 6, y + ROW - 4, cutName(m.name, narrow ? 9 : 16)));
}
function memberTable(job) {
  const list = members.filter((m) => m.job === job);
  return (job ? list.length > 0 : list.some((m) => m.why)) &&
    section(job ? "Plain jobs" : "Waiting times of experiments",
      table([job ? "trial" : "number", left(job ? "job" : "experiment"), left("state"), "arrived",
        "waited", left("why"), "ended", "took", `peak ${unit(0)}`, `${unit()} time`],
      list.map((m) => row("", [m.id, left(cut(m.name, 60)), left(cut(m.status, 12)),
        seconds(m.arrived_s), seconds(m.waited_s), left(cut(m.why, 400)), seconds(m.ended_s),
        seconds(known(m.ended_s) ? m.ended_s - m.arrived_s : null), short(m.most, 4),
        seconds(m.gpu_s)]))),
      members.length < members[0].of && note("Only the first are shown. For all, use espalier " +
        `export DIR --format csv --table ${job ? "jobs" : "experiments"}`));
}
function poolParts() {
  const TOP = 22, bottom = TOP + members.length * 14;
  const most = members.reduce((m, o) => Math.max(m, o.most), 0);
  return [most > 0 && section("Experiments and jobs",
    svg(bottom + 18, "Arrival of each experiment and job, and its resources over time",
      timeGrid(TOP - 4, bottom), members.map((m, i) => drawMember(m, most, TOP + i * 14))),
    note("A frame spans the time from arrival to end; the filled part shows " +
      `its ${unit(0)}, with the full height being ${short(most, 4)}.`,
    members.length < members[0].of && ` ${members[0].of - members.length} more are omitted.`)),
  memberTable(0), memberTable(1)];
}

/* ---- the page ----------------------------------------------------------------------------- */

const page = document.getElementById("page");
/* Draws the page from the data, the JSON of report_html.c; again wherever there is newer data. */
function draw(given) {
  take(given);
  takeSearches();
  gangs = stays();
  members = poolMembers();
  parts.clear();
  const each = (...drawings) => data.searches.map((search) => drawings.map((d) => d(search)));
  const found = [each(bestSoFar, curves, importance, parallel, slices, contour)];
  const used = [gantt(), poolParts(), gpusOverTime(), costOverTime(), gpuUse(), resizes()];
  replace(page, [head(), pool ? used : found, pool ? found : used, stageTable(), failures(),
    each(trialTable), el("footer", null, `espalier ${data.version}, from results.db` +
      (data.running ? " while the run was in progress" : ""))]);
}
listen(page);
let again = () => data && draw(data);	/* what a page shows, in a window of another width */
addEventListener("resize", () => isNarrow() !== narrow && again());
draw(JSON.parse(document.getElementById("data").textContent));
