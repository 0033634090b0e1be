"""hostile_pages.py REPORT...: nothing in a page of a run that hostile.py has changed may run as a script, whatever a reader does."""
import html.parser, pathlib, re, sys
from browser import Browser

# What is in the page that no drawing of ours makes.
STRANGE = """[...document.querySelectorAll("body *")].filter((e) => ["IMG", "IFRAME", "BASE", "OBJECT", "EMBED", "LINK", "FOREIGNOBJECT", "USE"]
  .includes(e.tagName.toUpperCase()) || [...e.attributes].some((a) => /^on/i.test(a.name) || /^\\s*javascript:/i.test(a.value)))
  .map((e) => e.outerHTML.slice(0, 200))"""
# Controls are pressed (of the table's headings every sixth), options chosen, every shape pointed at, links followed.
USE = """(async () => {
  const buttons = () => document.querySelectorAll("button"), selects = () => document.querySelectorAll("select");
  for (let i = 0; i < buttons().length; i++)
    if (buttons()[i].offsetParent && (!buttons()[i].closest("th") || i % 6 === 0))
      buttons()[i].click();
  for (let i = 0; i < selects().length; i++)
    for (let option = 0; option < selects()[i].options.length; option += 9) {
      selects()[i].selectedIndex = option;
      selects()[i].dispatchEvent(new Event("change", { bubbles: true }));
    }
  for (const kind of ["mouseover", "mouseenter", "focus", "pointerover"])
    for (const e of document.querySelectorAll("body *"))
      e.dispatchEvent(new Event(kind));
  document.querySelectorAll("main a").forEach((a) => a.click());
  await new Promise((done) => setTimeout(done, 200));
})()"""


def check(name, good, *why):
    print("pass" if good else "fail", name, *(why if not good else ()), flush=True)


def examine(page, name, scripts):
    check("%s: nothing of it ran when it opened" % name, page.js("window.hit === undefined") and not page.problems, page.problems)
    check("%s: it shows the text" % name, page.js("document.body.textContent.includes('window.hit=1')") and page.js("document.querySelectorAll('section').length") > 4)
    check("%s: no element came from the text" % name, not page.js(STRANGE) and page.js("document.scripts.length") == scripts, page.js(STRANGE))
    page.js(USE)
    check("%s: nothing ran when it was used" % name, page.js("window.hit === undefined") and not page.problems, page.problems)
    check("%s: no element came from the text then" % name, not page.js(STRANGE) and page.js("document.scripts.length") == scripts, page.js(STRANGE))
    page.size(390)
    check("%s: a phone shows it without scrolling sideways" % name, page.js("document.documentElement.scrollWidth") == 390)
    check("%s: no text turns the direction of its neighbors" % name, not page.js(r"/[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)"))


class Tags(html.parser.HTMLParser):
    """The elements of a page as one without scripts sees them."""
    def __init__(self):
        super().__init__()
        self.scripts, self.strange = 0, []

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        if tag in ("img", "iframe", "base", "a", "object", "link") or any(n.startswith("on") or n in ("href", "src") for n, v in attributes):
            self.strange.append((tag, attributes))


if __name__ == "__main__":
    with Browser() as browser:
        for file in map(pathlib.Path, sys.argv[1:]):
            tags = Tags()
            tags.feed(file.read_text(encoding="utf-8"))
            check("%s: without scripts, no element came from the text" % file.parent.name, tags.scripts == 2 and not tags.strange, tags.scripts, tags.strange[:3])
            page = browser.page()
            address = file.resolve().as_uri()
            page.open(address)
            examine(page, file.parent.name, 2)
            check("%s: nothing was fetched" % file.parent.name, set(page.asked) == {address}, page.asked)
            page.close()
