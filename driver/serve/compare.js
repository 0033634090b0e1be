/* compare.js - runs side by side, drawn with what report.js offers: the best value so far of each
 * against time, GPU hours or dollars, and a table.
 */
"use strict";

/* What is compared of a run: [{line of a search}, ...], and its row of the table. */
function takeRun(run, name, report) {
  take(report);
  takeSearches();
  const meta = Object.fromEntries(data.meta.rows), at = (s) => ({ time: s, gpu: heldBy(s) / 3600,
    usd: spentBy(s) });
  const lines = data.searches.filter((s) => s.history.rows.length > 0).map((s) => ({
    name: s.only < 0 ? name : `${name}: ${cut(s.totals.experiment, 60)}`,
    metric: s.metric, sign: s.sign, end: at(now),
    steps: objects(s.history).map((h) => Object.assign(at(h.at_s), { metric: h.metric })) }));
  return { run, name, lines, totals, meta, priced, running: data.running,
    best: parameters(totals.best_params, data.searches.length === 1
      ? data.searches[0].importance.shares : []) };
}
/* The best value by an amount of time, GPU hours or dollars. */
function bestBy(line, key, most) {
  const reached = line.steps.filter((s) => s[key] <= most * (1 + 1e-9));
  return reached.length > 0 ? reached[reached.length - 1].metric : null;
}
function drawLines(list, key) {
  const TOP = 14, BOTTOM = 240, { sign, metric: name } = list[0], way = ways[key];
  const values = list.flatMap((l) => l.steps.map((s) => s.metric));
  const x = axis(0, Math.max(...list.map((l) => l.end[key])) * 1.02 || 1, LEFT, RIGHT);
  const y = metricAxis("compare", values,
    values.reduce((b, v) => (sign * (v - b) < 0 ? v : b)), sign, BOTTOM, TOP);
  const lines = list.map((l) => {
    let d = "";
    l.steps.forEach((s, i) => {
      const at = coordinate(x(s[key])), level = coordinate(y(s.metric));
      d += i === 0 ? `M${at} ${level}` : `H${at}V${level}`;
    });
    return el("g", { class: `cv sv ${l.color}` }, tip(`${l.name}: ${name} ${
      metric(l.steps[l.steps.length - 1].metric)}`),
    el("path", { d: `${d}H${coordinate(x(l.end[key]))}` }));
  });
  return [controls(axisSwitches("compare", y)),
    el("p", { class: "axis" }, name, ` (${sign < 0 ? "higher" : "lower"} is better), against `,
      way.text()),
    svg(BOTTOM + 18, "The best value so far of each run", way.grid(x, TOP, BOTTOM),
      valueGrid(y, ""), lines),
    el("p", { class: "legend" }, list.map((l) => swatch(l.color, l.name)))];
}
function compareTable(runs, key) {
  const ends = runs.flatMap((r) => r.lines.map((l) => l.end[key])).filter((v) => v > 0);
  const least = ends.length > 0 ? Math.min(...ends) : 0;
  const amount = { time: seconds, gpu: (v) => `${short(v, 3)} ${unit()} hours`, usd: money }[key];
  const priced = runs.some((r) => r.priced);
  return table([left("run"), left("status"), left("algorithm"), left("allocator"), "trials",
    "failed", "best", "best ever", `best ever by ${amount(least)}`, "time", `${unit()} time`,
    ...(priced ? ["cost"] : []), left("parameters of the best")],
  runs.map((r) => row("", [left(r.lines.map((l) => el("i", { class: l.color })), cut(r.name, 60)),
    left(cut(r.totals.status, 20)), left(cut(r.meta.algorithm, 20)),
    left(cut(r.meta.allocator, 20)), r.totals.trials, r.totals.failed,
    r.totals.best >= 0 ? metric(r.totals.best_metric) : "-",
    r.totals.ever >= 0 ? metric(r.totals.ever_metric) : "-",
    r.lines.length === 1 ? metric(bestBy(r.lines[0], key, least)) : "-",
    seconds(r.totals.jct_s), seconds(r.totals.busy_gpu_s),
    ...(priced ? [money(r.totals.cost_usd)] : []), ["w pa", cut(r.best, 600)]])));
}
/* Runs of takeRun; those of one metric and goal share a drawing. */
function drawComparison(runs) {
  const groups = new Map(), priced = runs.some((r) => r.totals.cost_usd > 0);
  totals = (runs.find((r) => !r.totals.on_cpu) || runs[0]).totals;	/* GPUs, or slots alone? */
  const wanted = choice("compare", "x", "time");
  const key = wanted === "usd" && !priced ? "time" : wanted;
  runs.flatMap((r) => r.lines).forEach((line, i) => {
    const group = `${line.sign} ${line.metric}`;
    line.color = color(i);
    groups.set(group, [...(groups.get(group) || []), line]);
  });
  return section("Comparison",
    groups.size > 0 && controls(switches("compare", "x", key, "against", [["time", "time"],
      ["gpu", `${unit()} hours`], priced && ["usd", "dollars"]])),
    [...groups.values()].map((list) => drawLines(list, key)), compareTable(runs, key));
}
