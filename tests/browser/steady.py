"""steady.py ADDRESS-FILE: the page of a run that is running is updated in place: what has the focus, or is under the pointer, stays."""
import re, sys, time
from browser import Browser
from hostile_pages import check

url = re.search(r"http://\S+", open(sys.argv[1]).read()).group(0)
with Browser() as browser:
    page = browser.page()
    page.open(url)
    page.wait("[...document.querySelectorAll('a')].some((a) => a.textContent === 'real')")
    page.js("[...document.querySelectorAll('a')].find((a) => a.textContent === 'real').focus()")
    page.js("window.same = document.activeElement.textContent")
    time.sleep(6)
    check("the list keeps the focus", page.js("document.activeElement.textContent") == "real", page.js("document.activeElement.outerHTML"))
    page.click("[...document.querySelectorAll('a')].find((a) => a.textContent === 'real')")
    page.wait("document.querySelectorAll('#page section h2').length > 5")
    page.js("""window.changes = 0, window.was = document.querySelector('#page').textContent,
        setInterval(() => { const text = document.querySelector('#page').textContent; changes += text !== was; was = text; }, 200)""")
    for what in ("#page section .switch button", "#page .trials th button", "#live a"):
        page.js("(window.kept = document.querySelector(%r)).focus(), changes = 0" % what)
        page.wait("changes >= 2")
        check("it keeps the focus: " + what, page.js("kept.isConnected && document.activeElement === kept"),
              page.js("document.activeElement.outerHTML.slice(0, 200)"))
    page.js("window.kept = [document.querySelector('#page section'), document.querySelector('.gang'), document.querySelector('.trials')], changes = 0")
    page.wait("changes >= 2")
    check("what is under the pointer stays the element that it was", page.js("kept.every((e) => e && e.isConnected)"), page.js("kept.map((e) => e && e.isConnected)"))
    check("nothing was refused", not page.problems, page.problems)
