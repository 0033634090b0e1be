"""control.py ADDRESS-FILE [SHOTS]: the buttons of `espalier serve --control` in a browser, on the pool of write_pool."""
import re, sys
from browser import Browser
from hostile_pages import check

url = re.search(r"http://\S+", open(sys.argv[1]).read()).group(0)
# The report has a table of jobs too: rows of the queue alone.
ROWS = "[...[...document.querySelectorAll('section')].find((s) => s.querySelector('h2').textContent === 'Queue').querySelectorAll('tr')]"
STATUS = ROWS + ".filter((r) => r.cells[1].textContent === %r).map((r) => r.cells[2].textContent)[0]"
BUTTON = "[...document.querySelectorAll('button')].find((b) => b.textContent === %r)"
ANSWER = "document.querySelector('.answer').textContent"


def press_cancel(page):
    button = ROWS + ".find((r) => r.cells[1].textContent === 'two').querySelector('button')"
    page.click(button)
    page.wait("true")
    check("a question that is answered no changes nothing", page.js(ANSWER) == "" and page.js(STATUS % "two") in ("running", "waiting"), page.js(ANSWER))
    page.problems = []  # the question that was not expected
    page.expected = ["Cancel two?"]
    page.click(button)
    page.wait(ANSWER + ".includes('cancelled: two')")
    page.wait("/cancelled/.test(%s)" % (STATUS % "two"))
    check("a job is cancelled, and the queue shows it", True)
    check("it has no button any more", page.js(button) is None)


def submit(page):
    page.js("document.querySelector('input[name=file]').value = 'missing.cfg'")
    page.click(BUTTON % "Submit")
    page.wait(ANSWER + ".includes('missing.cfg')")
    check("what fails says why", "submitted" not in page.js(ANSWER))
    page.problems = []  # the browser notes the answer's status
    page.js("document.querySelector('input[name=file]').value = 'fig.cfg'")
    page.click(BUTTON % "Submit")
    page.wait(ANSWER + ".includes('submitted')")
    page.wait(STATUS % "plum")
    check("an experiment is submitted, and the queue shows it", True)


def stop(page):
    page.expected = ["Stop this run?  It can be resumed."]
    page.click(BUTTON % "Stop")
    page.wait("document.querySelector('#live .chip').textContent !== 'running'")
    page.wait("!%s" % (BUTTON % "Stop"))
    check("a run is stopped, and the page shows it", page.js("document.querySelector('#live .chip').textContent") == "interrupted",
          page.js("document.querySelector('#live').textContent"))


with Browser() as browser:
    page = browser.page()
    page.open(url)
    page.wait("document.querySelectorAll('tbody a').length === 1")
    page.click("document.querySelector('tbody a')")
    page.wait("%s && document.querySelectorAll('tr').length > 3" % (BUTTON % "Submit"))
    page.wait("['running', 'waiting'].includes(%s)" % (STATUS % "two"))
    page.problems = []
    press_cancel(page)
    submit(page)
    if len(sys.argv) > 2:
        for width in (1280, 390):
            page.size(width)
            page.shot("%s/control-%d.png" % (sys.argv[2], width))
        page.size(1280)
    stop(page)
    check("nothing went wrong meanwhile", not page.problems, page.problems)
