"""live.py ADDRESS-FILE [SHOTS]: the pages of `espalier serve` in a browser, of the runs that 62-browser.test makes."""
import re, sys
from browser import Browser
from hostile_pages import STRANGE, check, examine

url = re.search(r"http://\S+", open(sys.argv[1]).read()).group(0)
base = url.split("?")[0]
shots = sys.argv[2] if len(sys.argv) > 2 else None
ROW = "[...document.querySelectorAll('tbody tr')].find((r) => r.cells[1] && r.cells[1].textContent === %r)"
COMPARISON = "[...document.querySelectorAll('section')].find((s) => s.querySelector('h2') && s.querySelector('h2').textContent === 'Comparison')"


def shoot(page, name):
    if shots:
        page.shot("%s/%s-%d.png" % (shots, name, page.width))


def is_calm(page):
    """Nothing ran, nothing was refused, nothing else was asked for."""
    return page.js("window.hit === undefined") and not page.problems and all(a.startswith((base, "data:,")) for a in page.asked)


def look_at_list(page):
    page.open(url)
    page.wait("document.querySelectorAll('tbody tr').length > 5")
    cells = lambda name: page.js("[...%s.cells].map((c) => c.textContent)" % (ROW % name))
    check("the list has the runs", cells("few")[2].startswith("done") and cells("few")[4] == "5 of 5" and cells("few")[7].startswith("$"), cells("few"))
    check("a run that failed says so, and why", cells("hopeless")[2].startswith("failed") and "ended before their first report" in cells("hopeless")[3])
    check("one that cannot be read says why", cells("<img src=x onerror=window.hit=1>")[2] == "unreadable")
    check("the token is not in the address", page.js("location.href") == base)
    check("the list: no element came from text", not page.js(STRANGE) and page.js("document.scripts.length") == 3, page.js(STRANGE))
    shoot(page, "list")


def look_at_progress(page):
    """Of the run that is running, in the list: its numbers grow without the page being loaded again."""
    page.wait("%s && /running/.test(%s.cells[2].textContent)" % (ROW % "real", ROW % "real"))
    page.js("window.same = true")
    page.wait("/^[1-9] of/.test(%s.cells[4].textContent)" % (ROW % "real"))
    check("the list grows while a run is running", page.js("window.same"))


def compare(page):
    box = lambda name: "document.querySelector('input[aria-label=\"compare %s\"]')" % name
    lines = COMPARISON + ".querySelectorAll('.cv path').length"
    for name in ("few", "some"):
        page.click(box(name))
    page.wait("%s && %s === 2" % (COMPARISON, lines))
    check("two chosen runs have two lines", page.js("[...%s.querySelectorAll('.legend span')].map((e) => e.textContent)" % COMPARISON) == ["few", "some"])
    row = page.js("[...%s.querySelectorAll('tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))" % COMPARISON)
    check("and two rows with their best values", [r[0] for r in row] == ["few", "some"] and all(float(r[6]) > 0 for r in row) and float(row[0][7]) > 0, row)
    page.click("[...%s.querySelectorAll('button')].find((b) => b.textContent === 'dollars')" % COMPARISON)
    check("against dollars", "dollars spent" in page.js(COMPARISON + ".textContent") and "best by $" in page.js(COMPARISON + ".textContent"))
    shoot(page, "compare")
    page.size(390)
    page.wait(COMPARISON + ".querySelector('svg').viewBox.baseVal.width < 500")
    check("on a phone too", page.js("document.documentElement.scrollWidth") == 390 and page.js(lines) == 2)
    shoot(page, "compare")
    page.size(1280)


def keep_choice(page):
    page.call("Page.reload")
    page.wait("document.readyState === 'complete' && %s && %s.querySelectorAll('tbody tr').length === 2" % (COMPARISON, COMPARISON))
    chosen = "[...document.querySelectorAll('input:checked')].map((e) => e.getAttribute('aria-label'))"
    check("a page that is loaded again has the chosen runs", page.js(chosen) == ["compare few", "compare some"])
    page.click("document.querySelector('input:checked')")
    page.click("document.querySelector('input:checked')")
    page.wait("!(%s)" % COMPARISON)
    check("runs that are chosen no more are gone", page.js("location.hash") == "" and page.js(chosen) == [])


def follow(page):
    """The page of the run that is running: drawn again as it progresses; a log that would be a script."""
    page.click("[...document.querySelectorAll('a')].find((a) => a.textContent === 'real')")
    page.wait("document.querySelectorAll('section h2').length > 5")
    before = page.js("document.querySelector('#page').innerHTML.length")
    page.js("window.same = true")
    page.wait("document.querySelector('#page').innerHTML.length !== %d" % before)
    check("the page of a run is drawn again while it is running", page.js("window.same"))
    page.wait("document.querySelectorAll('#trials option').length > 0")
    check("it offers the trials that are running, to choose a log", page.js("/^[0-9]$/.test(document.querySelector('#trials option').value)"))
    page.js("document.querySelector('input[aria-label=trial]').value = '3'")
    page.click("[...document.querySelectorAll('form button')].find((b) => b.textContent === 'Show')")
    page.wait("document.querySelector('#log').textContent.includes('<script>window.hit=1')")
    check("a log is text", is_calm(page), page.problems, page.asked[-5:])
    page.wait("document.querySelector('#live .chip').textContent === 'done'")
    page.wait("document.querySelector('header .chip').textContent === 'done'")
    check("it says when it is done", page.js("window.same") and is_calm(page), page.problems)
    shoot(page, "run")
    page.size(390)
    page.wait("document.querySelector('svg').viewBox.baseVal.width < 500")
    check("on a phone too: the page of a run", page.js("document.documentElement.scrollWidth") == 390)
    shoot(page, "run")
    page.size(1280)


def open_hostile(page, name):
    page.open(base)
    page.wait("document.querySelectorAll('tbody tr').length > 5")
    page.click("[...document.querySelectorAll('a')].find((a) => a.textContent === %r)" % name)
    page.wait("document.querySelectorAll('section h2').length > 5")
    page.problems = []


with Browser() as browser:
    page = browser.page()
    look_at_list(page)
    look_at_progress(page)
    compare(page)
    keep_choice(page)
    check("the list: nothing ran, nothing else was fetched", is_calm(page), page.problems, page.asked)
    follow(page)
    for name in ("evil", "evil-pool"):
        open_hostile(page, name)
        examine(page, name + ", live", 3)
        check(name + ", live: nothing ran, nothing else was fetched", is_calm(page), page.problems)
        page.size(1280)
