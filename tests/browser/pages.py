"""pages.py FOLDER [SHOTS]: looks at the pages of the runs in a folder (runs.py names them) in a browser.

Prints a line a test, "pass NAME" or "fail NAME", and puts pictures of the pages into SHOTS.
"""
import os, pathlib, sys
from browser import Browser

folder, shots = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else None
SEARCH = {"Optimization history", "Learning curves", "Parameter importance", "Parallel coordinates", "Slices", "Contour", "Trials"}
USE = {"Nodes and trials", "GPUs over time", "Cost over time", "Use of each GPU", "Stages"}
# What each page must have, and what it must not have.
SECTIONS = {
    "few": (SEARCH | USE, {"Failures"}),
    "some": (SEARCH | USE, {"Failures"}),
    "many": (SEARCH | USE, set()),
    "one": ((SEARCH | USE) - {"Parameter importance", "Contour", "Cost over time"}, {"Parameter importance", "Contour", "Cost over time"}),
    "wide": (SEARCH | USE, set()),
    "faulty": (SEARCH | USE | {"Failures"}, set()),
    "hopeless": ({"Failures", "Trials", "Nodes and trials"}, {"Optimization history", "Parallel coordinates", "Slices", "Contour"}),
    "pool": ({"Experiments and jobs", "Plain jobs", "Optimization history of plum (experiment 2)", "Slices of plum (experiment 2)",
              "Trials of pear (experiment 1)", "Use by experiment"}, {"Cost over time", "Parameter importance of plum (experiment 2)"}),
}
# Labels that a reader cannot read: beyond the edge of their drawing, or over one another on an axis.
CUT_OFF = """[...document.querySelectorAll("svg text")].filter((t) => { const a = t.getBoundingClientRect(),
  b = t.ownerSVGElement.getBoundingClientRect(); return a.width > 0 && (a.left < b.left - 1 || a.right > b.right + 1 ||
  a.top < b.top - 1.5 || a.bottom > b.bottom + 1.5); }).map((t) => t.textContent)"""
OVERLAP = """[...document.querySelectorAll("svg")].flatMap((s) => ["tm", "vl", "rl", "ln"].flatMap((name) => {
  const boxes = [...s.querySelectorAll("text." + name)].map((t) => [t.getBoundingClientRect(), t.textContent]);
  return boxes.filter(([a], i) => boxes.some(([b], j) => j < i && a.left < b.right - 1 && b.left < a.right - 1 &&
    a.top < b.bottom - 4 && b.top < a.bottom - 4)).map(([, text]) => text); }))"""


def check(name, good, *why):
    print("pass" if good else "fail", name, *(why if not good else ()), flush=True)


def section(title):
    return "[...document.querySelectorAll('section')].find((s) => s.querySelector('h2').textContent === %r)" % title


def button(title, text):
    return "[...%s.querySelectorAll('button')].find((b) => b.textContent.trim() === %r)" % (section(title), text)


def column(page, number, title="Trials"):
    return page.js("[...%s.querySelectorAll('tbody tr')].map((r) => r.cells[%d].textContent)" % (section(title), number))


def heads(page):
    return page.js("[...%s.querySelectorAll('th')].map((h) => h.textContent.replace(/ [^\\w]$/, ''))" % section("Trials"))


def look(page, name):
    """What holds of every page, in both widths."""
    address = (folder / name / "report.html").as_uri()
    wanted, unwanted = SECTIONS[name]
    for width in (1280, 390):
        page.size(width)
        page.problems, page.asked = [], []
        took = page.open(address)
        print("# %s at %d px: %.1f s, %d bytes" % (name, width, took, (folder / name / "report.html").stat().st_size), flush=True)
        has = set(page.js("[...document.querySelectorAll('h2')].map((h) => h.textContent)"))
        check("%s at %d px: nothing is wrong, nothing is fetched" % (name, width), not page.problems and page.asked == [address], page.problems, page.asked)
        check("%s at %d px: its sections" % (name, width), wanted <= has and not unwanted & has, wanted - has, unwanted & has)
        check("%s at %d px: nothing beyond the edge of the window" % (name, width), page.js("document.documentElement.scrollWidth") == width)
        check("%s at %d px: no label is cut off" % (name, width), not page.js(CUT_OFF), page.js(CUT_OFF))
        check("%s at %d px: no labels overlap" % (name, width), not page.js(OVERLAP), page.js(OVERLAP))
        if shots:
            page.shot(os.path.join(shots, "%s-%d.png" % (name, width)))


def try_history(page):
    history, shown = "Optimization history", lambda: page.js(section(history) + ".querySelector('.axis').textContent")
    before = page.js(section(history) + ".querySelector('path.lr').getAttribute('d')")
    page.click(button(history, "dollars"))
    ticks = page.js("[...%s.querySelectorAll('.tm')].map((t) => t.textContent)" % section(history))
    check("history against dollars", "dollars spent" in shown() and all(t.startswith("$") for t in ticks) and len(ticks) > 3, ticks)
    check("the line is another", before != page.js(section(history) + ".querySelector('path.lr').getAttribute('d')"))
    page.click(button(history, "GPU hours"))
    check("history against GPU hours", "GPU hours held" in shown())
    page.click(button(history, "log"))
    ticks = page.js("[...%s.querySelectorAll('.vl')].map((t) => Number(t.textContent))" % section(history))
    check("history on a logarithmic axis", 0 < min(ticks) and max(ticks) / min(ticks) >= 100, ticks)
    check("the pressed button says so", page.js(button(history, "log") + ".getAttribute('aria-pressed')") == "true")
    page.click(button(history, "time"))
    check("and back to time", "against time" in shown())


def try_table(page):
    names = heads(page)
    by = names.index("x1")
    page.click(button("Trials", "x1"))
    up = [float(v) for v in column(page, by)]
    page.click(button("Trials", "x1 \u25b2"))
    down = [float(v) for v in column(page, by)]
    check("a click on a heading sorts by it", up == sorted(up) and len(up) == 50)
    check("another click reverses the order", down == sorted(down, reverse=True) and down[0] > up[-1])
    check("the heading says so", page.js(section("Trials") + ".querySelectorAll('th')[%d].getAttribute('aria-sort')" % by) == "descending")
    page.click(button("Trials", "kind"))
    check("text is sorted too", column(page, names.index("kind"))[0] == "odd")
    page.click(button("Trials", "show more"))
    check("more trials are shown on demand", len(column(page, 0)) == 200)
    page.click(button("Trials", "#"))
    check("and the best is the first again", column(page, 0)[:3] == ["1", "2", "3"])


def try_brush(page):
    parallel, lines = "Parallel coordinates", "%s.querySelectorAll('.pc%s').length"
    axis = section(parallel) + ".querySelector('[data-axis=\"p0\"]')"
    every = page.js(lines % (section(parallel), ""))
    page.drag(axis, 0.1, 0.4)  # x1 from -5 to 10: its upper part
    faded = page.js(lines % (section(parallel), ".off"))
    values = [float(v) for v in column(page, heads(page).index("x1"))]
    check("a range marked on an axis fades the lines outside", every == 500 and 0 < faded < every, faded)
    check("and the table shows the trials inside", len(values) == min(every - faded, 200) and 3 < min(values) and max(values) < 9, len(values), min(values), max(values))
    page.drag(section(parallel) + ".querySelector('[data-axis=\"metric\"]')", 0.5, 1)
    both = page.js(lines % (section(parallel), ".off"))
    check("two ranges fade more", faded < both < every, both)
    page.click(axis)
    check("a click on an axis clears its range", page.js(lines % (section(parallel), ".off")) < both)
    page.click(button(parallel, "clear the ranges"))
    check("a button clears all", page.js(lines % (section(parallel), ".off")) == 0)


def try_axes(page):
    contour, title = "Contour", lambda: page.js("[...%s.querySelectorAll('svg .tm.st')].map((t) => t.textContent)" % section("Contour"))
    first = title()
    page.choose(section(contour) + ".querySelector('[data-key=\"x\"]')", "2")
    check("the axes of the contour are chosen", first == ["x2", "x1"] and title() == ["kind", "x1"], first, title())
    page.choose(section(contour) + ".querySelector('[data-key=\"y\"]')", "1")
    check("both of them", title() == ["kind", "x2"], title())
    curves = "Learning curves"
    before = page.js(section(curves) + ".querySelector('.cv path').getAttribute('d')")
    page.click(button(curves, "log"))
    check("learning curves on a logarithmic axis", before != page.js(section(curves) + ".querySelector('.cv path').getAttribute('d')") and
          "logarithmic" in page.js(section(curves) + ".textContent"))
    page.size(390)
    page.wait("document.querySelector('svg').viewBox.baseVal.width < 500")
    check("a window that becomes narrow gets narrow drawings", page.js("document.documentElement.scrollWidth") == 390 and title() == ["kind", "x2"])
    page.size(1280)
    page.wait("document.querySelector('svg').viewBox.baseVal.width > 1000")
    check("and wide ones when it is wide again", page.js("document.querySelectorAll('section').length") > 10)


def try_wide(page):
    axes = "%s.querySelectorAll('.ax').length" % section("Parallel coordinates")
    few = page.js(axes)
    page.click(button("Parallel coordinates", "all 60"))
    check("sixty parameters: the most important ones first, all on demand", (few, page.js(axes)) == (10, 61))
    check("they can be scrolled to", page.js("(() => { const s = %s.querySelector('.scroll'); return s.scrollWidth > 2 * s.clientWidth; })()" % section("Parallel coordinates")))
    page.click(button("Slices", "all 60"))
    check("a slice for each", page.js("%s.querySelectorAll('.small').length" % section("Slices")) == 60)
    check("a column for each", len(heads(page)) >= 66 and len(set(heads(page))) == len(heads(page)))
    check("inactive values say so", "inactive" in page.js(section("Slices") + ".textContent"))


def try_faulty(page):
    table = heads(page)
    losses, states = column(page, table.index("loss")), column(page, table.index("state"))
    check("a trial without a value is not one of value 0", "failed" in states and "0" not in losses)
    crosses = page.js("(%s.querySelector('path.nn') || { getAttribute: () => '' }).getAttribute('d').split('M').length - 1" % section("Optimization history"))
    check("trials without a value are crosses", crosses > 0)
    page.click(button("Trials", "show more"))
    page.click(button("Trials", "loss"))
    losses = column(page, table.index("loss"))
    numbers = [float(v) for v in losses if v != "-"]
    check("values that are missing are the last", numbers == sorted(numbers) and losses == losses[:len(numbers)] + ["-"] * crosses, crosses, losses[-12:])


with Browser() as browser:
    page = browser.page()
    for name in SECTIONS:
        if (folder / name / "report.html").exists():
            look(page, name)
    page.size(1280)
    for name, tries in (("some", (try_history, try_table, try_brush, try_axes)), ("wide", (try_wide,)), ("faulty", (try_faulty,))):
        if not (folder / name / "report.html").exists():
            continue
        page.open((folder / name / "report.html").as_uri())
        page.problems = []
        for attempt in tries:
            attempt(page)
        check("%s: nothing went wrong meanwhile" % name, not page.problems, page.problems)
