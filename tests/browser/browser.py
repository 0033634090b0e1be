"""browser.py: drives headless Chromium by its DevTools protocol over a pipe, with Python's standard library alone."""
import base64, json, os, select, shutil, signal, subprocess, tempfile, time

LIMIT_S = 120  # of any wait: a loaded machine is slow


def find():
    """The program: CHROMIUM, or the first in PATH; None: there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="browser-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def place():  # what the browser reads is its descriptor 3, what it writes is 4
            high = [os.dup2(fd, 40 + i) for i, fd in enumerate((theirs_in, theirs_out))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            os.closerange(5, 64)

        self.process = subprocess.Popen(
            [find(), "--headless", "--remote-debugging-pipe", "--user-data-dir=" + self.folder, "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-extensions", "--disable-sync", "--password-store=basic", "--hide-scrollbars", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(os.path.join(self.folder, "stderr"), "w"),
            preexec_fn=place, close_fds=False, start_new_session=True, env={**os.environ, "HOME": self.folder})
        os.close(theirs_in)
        os.close(theirs_out)
        self.reader, self.writer = ours_in, ours_out
        self.rest, self.count, self.answers, self.pages = b"", 0, {}, {}

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.reader)
        os.close(self.writer)
        for i in range(50):  # helpers of the browser may still be writing
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                return
            time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self.close()

    def take(self, for_s):
        """Reads what has come, for at most so long; events go to their page."""
        if not select.select([self.reader], [], [], for_s)[0]:
            return
        more = os.read(self.reader, 1 << 20)
        if not more:
            raise RuntimeError("the browser has ended: " + open(os.path.join(self.folder, "stderr")).read()[-2000:])
        *messages, self.rest = (self.rest + more).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].note(message["method"], message["params"])

    def send(self, method, session=None, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writer, data):]
        return self.count

    def call(self, method, session=None, **params):
        number, end = self.send(method, session, **params), time.monotonic() + LIMIT_S
        while number not in self.answers:
            if time.monotonic() > end:
                raise TimeoutError(method)
            self.take(1)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError("%s: %s" % (method, answer["error"]))
        return answer["result"]

    def page(self, width=1280, height=900):
        return Page(self, width, height)


class Page:
    """problems: what a reader would find in the console; asked: the addresses that were fetched; expected: questions to say yes to."""

    def __init__(self, browser, width, height):
        self.browser, self.problems, self.asked, self.loaded, self.width, self.expected = browser, [], [], 0, width, []
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.size(width, height)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def note(self, method, params):
        if method == "Page.loadEventFired":
            self.loaded += 1
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            if params["message"] not in self.expected:
                self.problems.append("a dialog: " + params["message"])
            self.browser.send("Page.handleJavaScriptDialog", self.session, accept=params["message"] in self.expected)

    def size(self, width, height=900):
        """A phone below 700."""
        self.width = width
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)

    def open(self, address):
        """Waits until the page has run its scripts; returns the seconds that took."""
        before, began = self.loaded, time.monotonic()
        self.call("Page.navigate", url=address)
        while self.loaded == before:
            if time.monotonic() > began + LIMIT_S:
                raise TimeoutError(address)
            self.browser.take(1)
        self.js("1")
        return time.monotonic() - began

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError("%s: %s" % (expression, answer["exceptionDetails"]["exception"].get("description")))
        return answer["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + LIMIT_S
        while not self.js(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            self.browser.take(0.05)

    def shot(self, file):
        """The whole page as a PNG file."""
        height = self.js("document.documentElement.scrollHeight")
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1})["data"]
        with open(file, "wb") as to:
            to.write(base64.b64decode(data))

    def place(self, element):
        """The middle of an element, an expression, within the window, after scrolling to it."""
        box = self.js("(() => { const e = %s; e.scrollIntoView({ block: 'center', inline: 'center' });"
                      " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()" % element)
        return box[0] + box[2] / 2, box[1] + box[3] / 2

    def mouse(self, kind, x, y, down=1):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=down, clickCount=1)

    def click(self, element):
        x, y = self.place(element)
        self.mouse("mouseMoved", x, y, 0)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y, 0)

    def drag(self, element, from_part, to_part):
        """From one height of an element to another, as parts of it from its top."""
        x, y = self.place(element)
        height = self.js(element + ".getBoundingClientRect().height")
        first, last = (y + (part - 0.5) * height for part in (from_part, to_part))
        self.mouse("mouseMoved", x, first, 0)
        self.mouse("mousePressed", x, first)
        for i in range(1, 5):
            self.mouse("mouseMoved", x, first + (last - first) * i / 4)
        self.mouse("mouseReleased", x, last, 0)

    def choose(self, element, value):
        """An option of a select, as a reader chooses it."""
        self.js("(() => { const e = %s; e.value = %s; e.dispatchEvent(new Event('change', { bubbles: true })); })()"
                % (element, json.dumps(value)))
