/* live_page.js REPORT.js LIVE.js DATA.json: what `espalier serve` writes below the page of a run, as text, one element a
 * line. The scripts run with as much of a page as they touch; DATA.json is what the server answers to `data`. */
"use strict";
const [report, live, data] = process.argv.slice(2).map((file) => require("fs").readFileSync(file, "utf8"));
const all = [];
function makeElement(name) {
  const element = { name, children: [], textContent: "", style: {}, dataset: {}, value: "",
    setAttribute() {}, addEventListener() {}, querySelectorAll: () => [], querySelector: () => null, contains: () => false,
    append(...inside) { element.children.push(...inside); },
    prepend(...inside) { element.children.unshift(...inside); },
    replaceChildren(...inside) { element.children = inside; },
    after(...inside) { all.push(...inside); } };
  return element;
}
const place = { data: makeElement("script"), page: makeElement("main") };
place.data.textContent = JSON.stringify({ run: 0, control: null });
const document = { getElementById: (id) => place[id], createElement: makeElement, addEventListener() {}, hidden: false,
  body: makeElement("body"), title: "" };
let heard = null;
const window = { document, innerWidth: 1280, addEventListener() {}, history: { replaceState() {} },
  location: { pathname: "/", hash: "" }, performance, setInterval() {}, setTimeout,
  getSelection: () => ({ isCollapsed: true }),
  fetch: async () => ({ ok: true, status: 200, json: async () => JSON.parse(data), text: async () => "" }),
  EventSource: class { set onmessage(f) { heard = f; } } };
window.window = window;
const context = require("vm").createContext(window);
require("vm").runInContext(report, context);
require("vm").runInContext(live, context);
const textOf = (e) => (typeof e === "object" ? e.textContent + e.children.map(textOf).join(" ") : String(e));
function show(e) {
  if (typeof e !== "object")
    return;
  if (["h2", "th", "td", "p"].includes(e.name))
    console.log(`${e.name}: ${textOf(e)}`);
  else
    e.children.forEach(show);
}
heard({ data: JSON.stringify({ page: 1, row: { status: "running", dir: "x", completed: 0, trials: 0, running: 0, failed: 0, cost_usd: 0, jct_s: 0 } }) });
setTimeout(() => all.forEach(show), 200);
