/* live.js - keeps the pages of `espalier serve` up to date.
 *
 * The server says by an event that something has changed; what it is, is fetched.  All that comes
 * from runs enters the page as text, never as markup; report.js escapes what it draws.
 */
(() => {
const setting = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
history.replaceState(null, "", location.pathname + location.hash);	/* without the token */

/* ---- elements and words ----------------------------------------------------------------- */

function make(name, attributes, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (typeof value === "function")
      element.addEventListener(key, value);
    else if (value !== null && value !== false)
      element.setAttribute(key, value);
  element.append(...inside.flat(3).filter((x) => x !== null && x !== undefined && x !== false)
    .map((x) => (typeof x === "object" ? x : clean(x))));
  return element;
}
const chip = (status, outcome) => make("span", { class: "chip " + chipColor(outcome) }, status);
/* The clock of a run that is running goes on between two events. */
const age = (row) => (row.status === "running" && !row.simulated
  ? row.jct_s + (performance.now() - row.received) / 1000 : row.jct_s);
const bestText = (row) => (row.best && known(row.best.metric)
  ? `${cut(row.metric || "best", 24)} ${metric(row.best.metric)}` : "-");
/* A run that has no status cannot be read; one that has may have failed, and says why as well. */
const isRead = (row) => typeof row.status === "string";
const why = (row) => row.error + (row.hint ? `; ${row.hint}` : "");
const section = (title, ...inside) => make("section", null, make("h2", null, title), inside);
function table(heads, rows) {
  const cells = (list, tag) => make("tr", null, list.map((c) => (Array.isArray(c)
    ? make(tag, { class: c[0] }, c.slice(1)) : make(tag, null, c))));
  return make("div", { class: "scroll" }, make("table", null,
    make("thead", null, cells(heads, "th")),
    make("tbody", null, rows.map((r) => cells(r, "td")))));
}

/* ---- talking to the server -------------------------------------------------------------- */

const state = make("span", { role: "status" });
function listen(path, heard) {
  let source = null;
  const open = () => {
    if (source || document.hidden)	/* a browser has few connections for all its tabs */
      return;
    source = new EventSource(path);
    source.onopen = () => { state.textContent = ""; };
    source.onmessage = (event) => heard(JSON.parse(event.data));
    /* A server that refuses is another one: room and token are those of one process. */
    source.onerror = () => {
      state.textContent = source.readyState === 2
        ? "espalier serve was restarted: open the address that it printed"
        : "no connection to espalier serve; trying again";
    };
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) {
      source.close();
      source = null;
    }
    open();
  });
  open();
}
async function ask(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok && answer.status !== 409)
    throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer;
}
/* One at a time; asked for again meanwhile, it runs once more. */
function single(work) {
  let busy = false, again = false;
  return async () => {
    again = true;
    if (busy)
      return;
    busy = true;
    while (again) {
      again = false;
      try {
        await work();
      } catch (problem) {
        state.textContent = problem.message;
      }
    }
    busy = false;
  };
}

/* ---- the list of runs ------------------------------------------------------------------- */

/* The runs to compare, in the address, so that a page that is loaded again has them. */
const COMPARED_MAX = 8;
const compared = new Set(location.hash.slice(1).split(",").filter((n) => /^[0-9]+$/.test(n))
  .map(Number));
const heading = make("header"), list = make("div"), comparison = make("div");
let rows = [], taken = new Map();	/* by run: what takeRun made of it */

function compareBox(row) {
  const box = make("input", { type: "checkbox", "aria-label": `compare ${row.dir}`,
    change: () => {
      if (box.checked)
        compared.add(row.run);
      else
        compared.delete(row.run);
      history.replaceState(null, "", location.pathname +
        (compared.size > 0 ? "#" + [...compared] : ""));
      showRuns();
      compare();
    } });
  box.checked = compared.has(row.run);
  box.disabled = !box.checked && compared.size >= COMPARED_MAX;
  return box;
}
function runCells(row) {
  const link = ["w", make("a", { href: `${row.run}/` }, row.dir)];
  if (!isRead(row))
    return ["", link, ["w", chip("unreadable", "bad")], ["w pa", why(row)], "", "", "", "",
      ""];
  return [compareBox(row), link,
    ["w", chip(row.status, row.outcome), row.simulated ? " simulated" : ""],
    ["w pa", row.experiment || "",
      row.error ? make("span", { class: "bad" }, ` ${row.error}`) : ""],
    `${row.finished} of ${row.trials}`,
    row.failed > 0 ? make("span", { class: "bad" }, row.failed) : "0", bestText(row),
    money(row.cost_usd), seconds(age(row))];
}
function showRuns() {
  heading.replaceChildren(make("h1", null, "Runs"), make("p", { class: "sub" },
    `${plural(rows.length, "run")}, ${rows.filter((r) => r.status === "running").length} running `),
  state);
  const focused = list.contains(document.activeElement) && document.activeElement;
  const mark = focused && (focused.getAttribute("aria-label") || focused.getAttribute("href"));
  list.replaceChildren(rows.length === 0
    ? section("Nothing yet", "There are no runs in these directories yet.")
    : make("section", null, table(["", ["w", "run"], ["w", "status"], ["w", "experiment"],
      "finished", "failed", "best", "cost", "time"], rows.map(runCells)),
    make("p", { class: "note" }, `Choose up to ${COMPARED_MAX} runs to compare them.`)));
  const again = mark && [...list.querySelectorAll("input, a")].find((e) =>
    e.getAttribute("aria-label") === mark || e.getAttribute("href") === mark);
  if (again)
    again.focus({ preventScroll: true });
}
/* Have its data changed?  They are large, so not every report is waited for. */
const isStale = (row, before) => performance.now() - before.at > 4000 &&
  (before.running || before.totals.reports !== row.reports);
const compare = single(async () => {
  const chosen = rows.filter((r) => compared.has(r.run) && isRead(r)), next = new Map();
  for (const row of chosen) {
    const before = taken.get(row.run);
    if (before && !isStale(row, before)) {
      next.set(row.run, before);
      continue;
    }
    const answer = await (await ask(`${row.run}/data`)).json();
    if (answer.report)
      next.set(row.run, Object.assign(takeRun(row.run, row.dir, answer.report),
        { at: performance.now() }));
  }
  taken = next;
  again();
});
function watchRuns() {
  const update = single(async () => {
    rows = (await (await ask("runs")).json()).rows;
    rows.forEach((r) => { r.received = performance.now(); });
    showRuns();
    compare();
  });
  again = () => {
    const runs = [...taken.values()].sort((a, b) => a.run - b.run);
    fitWindow();
    replace(comparison, runs.length === 0 ? "" : part("compare", () => drawComparison(runs)));
  };
  document.title = "Runs - espalier";
  page.replaceChildren(heading, list, comparison);
  listen("events", update);
  setInterval(() => {
    if (document.hidden)
      return;
    if (rows.some((r) => r.status === "running"))
      showRuns();
    if (rows.some((r) => taken.has(r.run) && isStale(r, taken.get(r.run))))
      compare();
  }, 5000);
}

/* ---- what changes a run ----------------------------------------------------------------- */

async function command(path, value, question, answer) {
  if (question && !confirm(question))
    return;
  answer.textContent = "...";
  try {
    const result = await (await ask(path, { method: "POST",
      headers: { "X-Espalier-Control": setting.control },
      body: new URLSearchParams({ value }) })).json();
    answer.textContent = result.text.trim() || (result.done ? "done" : "failed");
  } catch (problem) {
    answer.textContent = problem.message;
  }
}

/* ---- one run ---------------------------------------------------------------------------- */

const bar = make("div"), more = make("main", { id: "more" });
const barName = make("b"), barChip = make("span");
const barLine = make("span", { class: "line" });
const stopAnswer = make("span"), queueAnswer = make("p", { class: "answer" });
const stop = setting.control && make("button", { class: "bad", type: "button",
  click: () => command("stop", "", "Stop this run?  It can be resumed.", stopAnswer) }, "Stop");
function showBar(row) {
  const line = !isRead(row) ? why(row)
    : (row.error ? `${row.error} \u00b7 ` : "") +
      `${row.experiment || ""}: ${row.finished} of ${plural(row.trials, "trial")} finished` +
      (row.running > 0 ? `, ${row.running} running` : "") +
      (row.failed > 0 ? `, ${row.failed} failed` : "") +
      (row.best ? ` \u00b7 ${bestText(row)}` : "") +
      ` \u00b7 ${money(row.cost_usd)} \u00b7 ${seconds(age(row))}`;
  /* The link and the button stay the elements that they are: one may have the focus. */
  if (bar.children.length === 0)
    bar.append(make("a", { href: "../" }, "All runs"), barName, barChip, barLine, state,
      stopAnswer, ...(stop ? [stop] : []));
  barName.textContent = clean(row.dir);
  barLine.textContent = clean(line);
  barChip.replaceChildren(chip(isRead(row) ? row.status : "unreadable",
    isRead(row) ? row.outcome : "bad"));
  if (stop)
    stop.hidden = row.status !== "running";
  document.title = `${row.dir} - espalier`;
}

/* What a reader holds, has just chosen or is about to copy stays. */
let held = 0;
const hold = (ms) => () => { held = performance.now() + ms; };
function isHeld() {
  const selected = getSelection();
  return performance.now() < held ||
    (!selected.isCollapsed && page.contains(selected.anchorNode));
}
function problem(text, hint) {
  page.replaceChildren(section("This run cannot be shown", make("p", { class: "why" }, text),
    hint ? make("p", { class: "note" }, hint) : ""));
}

const causes = () => ({ in_use_s: `${unit(0)} were in use`, coming_s: "nodes were on their way",
  free_s: `${unit(0)} were free`, aside_s: `${unit(0)} were set aside`,
  no_nodes_s: "there were too few nodes" });
const waitText = (wait) => (wait ? Object.entries(causes()).filter(([key]) => wait[key] >= 0.05)
  .map(([key, text]) => `${seconds(wait[key])} ${text}`).join("; ") : "");
function queueSection(queue) {
  if (!queue)
    return [];
  const ended = (q) => !["running", "waiting", "to come"].includes(q.status);
  const list = queue.queue.slice(0, 500);
  return [section("Queue", table([["w", "kind"], ["w", "name"], ["w", "status"], "arrived",
    "waits for", ["w", "because"], "trials", unit(0), ""], list.map((q) => [["w", q.kind],
    ["w", q.name], ["w", q.status], seconds(q.arrived_s),
    seconds(known(q.waiting_since_s) ? queue.now_s - q.waiting_since_s : null),
    ["w pa", waitText(q.why)], q.trials, metric(q.gpus), setting.control && !ended(q)
      ? make("button", { type: "button", click: () => command("cancel", q.name,
        `Cancel ${q.name}?`, queueAnswer) }, "Cancel") : ""])),
  queue.queue.length > list.length ? make("p", { class: "note" },
    `Showing the first ${list.length} of ${queue.queue.length}.`) : "")];
}
const submitFile = make("input", { class: "wide", name: "file", required: "",
  "aria-label": "configuration file", placeholder: "FILE.cfg, on the machine of espalier serve" });
const submitForm = make("form", { submit: (event) => {
  event.preventDefault();
  command("submit", submitFile.value, "", queueAnswer);
} }, submitFile, make("button", null, "Submit"));

/* ---- logs ------------------------------------------------------------------------------- */

const log = make("pre", { id: "log", tabindex: "0", "aria-label": "log" });
const logNote = make("p", { class: "note" }), logChoice = make("datalist", { id: "trials" });
const logTrial = make("input", { list: "trials", size: "8", required: "", inputmode: "numeric",
  pattern: "[0-9]+(/[0-9]+)?", "aria-label": "trial", placeholder: "trial" });
let logShown = "";
const showLog = single(async () => {
  if (!logShown)
    return;
  const answer = await fetch(`log/${logShown}`);
  const text = (await answer.text()).replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  const end = log.scrollHeight - log.scrollTop - log.clientHeight < 8;
  logNote.textContent = answer.ok ? `Trial ${logShown}: the end of its log` +
    (text ? "" : ", which is empty") : text;
  if (!answer.ok)
    log.textContent = "";
  else if (log.textContent !== text) {
    log.textContent = text;
    if (end)
      log.scrollTop = log.scrollHeight;
  }
});
const logSection = section("Log of a trial", make("form", { submit: (event) => {
  event.preventDefault();
  logShown = logTrial.value;
  log.textContent = "";
  showLog();
} }, logTrial, logChoice, make("button", null, "Show")), log, logNote);
/* Forms stay where they are, as somebody may be writing in them. */
const queuePlace = make("div"), submitPlace = section("Submit an experiment", submitForm,
  queueAnswer);
submitPlace.hidden = logSection.hidden = true;
more.append(queuePlace, submitPlace, logSection);
/* The trials that are running or have failed, to choose from. */
function offerTrials(report) {
  const names = new Set();
  for (const trial of report.searches.flatMap((s) => objects(s.sample)))
    if (names.size < 200 && ["running", "failed"].includes(trial.state))
      names.add(trialName(trial.id));
  logChoice.replaceChildren(...[...names].map((name) => make("option", { value: name })));
}

function watchRun() {
  let row = null, shown = 0, wanted = 0;
  const update = single(async () => {
    if (shown > 0 && isHeld())
      return;	/* later: see below */
    const version = wanted, data = await (await ask("data")).json();
    shown = version;
    if (data.error) {
      problem(data.error, data.hint);
      return;
    }
    window.draw(data.report);	/* report.js */
    offerTrials(data.report);
    queuePlace.replaceChildren(...queueSection(data.queue));
    submitPlace.hidden = !data.queue || !setting.control;
    logSection.hidden = false;
  });
  page.addEventListener("pointerdown", hold(60000));
  for (const what of ["pointerup", "pointercancel", "keydown"])
    window.addEventListener(what, hold(3000));
  document.body.prepend(make("nav", { id: "live" }, bar));
  page.after(more);
  listen("events", (news) => {
    row = Object.assign(news.row, { received: performance.now() });
    wanted = Math.max(news.page, 1);
    showBar(row);
    if (wanted > shown)
      update();
  });
  setInterval(() => {
    if (!row || document.hidden)
      return;
    if (row.status === "running") {
      showBar(row);
      showLog();
    }
    if (wanted > shown)
      update();
  }, 2000);
}

if (setting.run === null)
  watchRuns();
else
  watchRun();
})();
