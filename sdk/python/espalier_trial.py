"""espalier_trial - the trial protocol of espalier for Python programs, in one file.

    import espalier_trial as et

    run = et.start(params={"lr": 0.1}, iterations=10)   # defaults, for running it by hand
    model = load(run.checkpoint) if run.checkpoint else make(run.params, seed=run.seed)
    for i in run.iterations():
        accuracy = train_one_epoch(model)
        verdict = run.report(i, {"val_accuracy": accuracy})
        if verdict.save:
            model.write(os.path.join(run.save, "model"))
            run.saved(i)

The loop ends when the trial is paused, stopped or at its budget; then exit normally.  Outside
espalier the reports are printed and the program runs to its own number of iterations.  It needs
Python 3.6 or later and only the standard library.  trial-protocol.md describes the protocol itself.
You may copy this file into the directory of your program.
"""

import atexit
import collections
import json
import math
import os
import select
import signal
import socket
import sys
import threading
import time

__all__ = ["start", "Run", "Verdict"]

#: What to do after a report.  save: write a checkpoint into run.save, then call run.saved(i).
#: end: leave the loop (after saving, if that is asked too) and exit with status 0.
#: budget: train up to this iteration.  A tuple, so that it can be sent to the other ranks.
Verdict = collections.namedtuple("Verdict", ["save", "end", "budget"])


def _number(name, default):
    text = os.environ.get(name, "")
    return int(text) if text else default


class Run:
    """One start of a trial on this rank; returned by start()."""

    def __init__(self, params, iterations):
        path = os.environ.get("ESPALIER_PARAMS")
        self.params = dict(params or {})       #: the configuration: name -> number or word
        if path:
            with open(path, encoding="utf-8") as f:
                self.params = json.load(f)
        self.trial = _number("ESPALIER_TRIAL", 0)
        self.rank = _number("RANK", 0)
        self.world = _number("WORLD_SIZE", 1)
        self.local_rank = _number("LOCAL_RANK", 0)
        self.attempt = _number("ESPALIER_ATTEMPT", 0)
        #: the same at every start of this trial; 64 bits: numpy.random.seed wants seed % 2**32
        self.seed = _number("ESPALIER_SEED", 0)
        self.fold = _number("ESPALIER_FOLD", 0)
        self.iteration = _number("ESPALIER_ITERATION", 0)  #: done so far
        self.budget = _number("ESPALIER_BUDGET", iterations)  #: train up to this one
        self.iterations_max = _number("ESPALIER_ITERATIONS_MAX", iterations)
        self.checkpoint = os.environ.get("ESPALIER_CHECKPOINT", "")  #: folder; '' fresh
        self.scratch = os.environ.get("ESPALIER_SCRATCH", "")
        self.output = os.environ.get("ESPALIER_OUTPUT", os.getcwd())  #: kept: TensorBoard, predictions
        self.experiment = os.environ.get("ESPALIER_EXPERIMENT", "")
        self.name = os.environ.get("ESPALIER_TRIAL_NAME", "by-hand")  #: "EXPERIMENT-trial-7"
        self.directory = os.environ.get("ESPALIER_RUN", "")  #: of the run
        self.ended = False
        self._reported = 0                     # the last iteration; 0: none since the start
        self._save = os.environ.get("ESPALIER_SAVE", "")
        self._sealing = False
        self._store = None                     # that of torch.distributed, once it was used
        self._inbox = b""
        self._terminated = False
        self._wake = None
        self._pid = os.getpid()
        self._turn = threading.RLock()
        self._listeners = []
        self._socket = _report_socket()
        if self.inside and threading.current_thread() is threading.main_thread():
            self._wake = socket.socketpair()
            for end in self._wake:
                end.setblocking(False)
            signal.signal(signal.SIGTERM, self._on_term)

    @property
    def inside(self):
        """True under espalier, False when run by hand."""
        return "ESPALIER_TRIAL" in os.environ

    @property
    def save(self):
        """The directory to write a checkpoint into; it is empty."""
        if not self.inside and not self._save:
            self._save = os.path.join(os.getcwd(), "checkpoint")
            os.makedirs(self._save, exist_ok=True)
        while self._sealing and not self._empty():
            time.sleep(0.002)                  # the previous checkpoint is being moved
        self._sealing = False
        return self._save

    def _empty(self):
        try:
            return not os.listdir(self._save)
        except FileNotFoundError:
            return False

    def _on_term(self, _number, _frame):
        """Handles a request to end soon: on rank 0 the next verdict is to save and to end."""
        if os.getpid() != self._pid:
            self._on_term_forked()
            return
        self._terminated = True
        try:
            self._wake[1].send(b"x")
        except OSError:
            pass

    def _drain(self):
        try:
            while self._wake[0].recv(64):
                pass
        except OSError:
            pass

    def _on_term_forked(self):
        """A process forked from this one, such as a data loader, has this handler, too.  If its
        parent gets SIGTERM as well, it stays: the parent needs it until the end of the iteration.
        If it alone gets SIGTERM (Process.terminate), it ends, as any process does."""
        until, most = time.monotonic() + 0.1, time.monotonic() + 10
        try:
            # The parent's notice to itself; only once, and not one from before the fork.
            while not self._terminated and time.monotonic() < until:
                if _ready([self._wake[0]], 0.02):
                    self._terminated = True
                    return
                if _has_term(self._pid):       # it has not got to it yet
                    until = min(time.monotonic() + 0.5, most)
        except (OSError, ValueError):          # closed here
            pass
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def iterations(self):
        """Yields the iterations to train, up to the budget, which may grow meanwhile."""
        while not self.ended and self.iteration < self.budget:
            before = self.iteration
            yield before + 1
            if self.iteration == before:       # not reported (another rank than 0)
                self.iteration += 1

    def listen(self, listener):
        """Makes rank 0 call listener(iteration, metrics) before each report."""
        self._listeners.append(listener)

    def report(self, iteration, metrics, finished=False):
        """Reports the metrics of an iteration and returns what to do next.

        Waits for the answer.  Iterations increase: one that is not above the last that this process
        reported is an error.  finished=True: the trial is complete before its budget.  Only rank
        0's metrics count.  If torch.distributed is initialized, the other ranks call this, too, and
        get rank 0's verdict. Otherwise send it to them yourself (for example with MPI), and call
        follow() there.
        """
        with self._turn:                       # one thread after the other: each gets its own answer
            return self._report(iteration, metrics, finished)

    def _report(self, iteration, metrics, finished):
        iteration = _whole(iteration)
        if not hasattr(metrics, "items"):
            raise TypeError('metrics must be a dict like {"loss": 0.5}, not %r' % (metrics,))
        if iteration < self._reported or (iteration == self._reported and not finished):
            raise ValueError("iteration %d is reported after iteration %d: report each iteration once, with all "
                             "its metrics, by the number that run.iterations() gives" % (iteration, self._reported))
        self.iteration = self._reported = iteration
        self._store = _torch_store() if self.inside and self.world > 1 else None
        if self._store is not None and self.rank != 0:
            return self.follow(self._fetch(iteration))
        if self.rank == 0:
            for listener in self._listeners:
                listener(iteration, metrics)
        if self._socket is None:
            if self.inside and self.rank == 0:
                raise RuntimeError("rank 0 has no report socket: trial.metrics of the configuration reads "
                                   "the metrics from the output; remove it, and run.report() reports them")
            if not self.inside and self.rank == 0:
                print("iteration %d: %s" % (iteration, ", ".join(
                    "%s %.6g" % (k, float(_plain(k, v))) for k, v in metrics.items())), flush=True)
            return Verdict(False, finished or (not self.inside and iteration >= self.budget),
                           self.budget)
        line = {"iteration": iteration, "metrics": {str(k): _plain(k, v) for k, v in metrics.items()}}
        if finished:
            line["finished"] = True
        self._send(line)
        answer = "pause" if self._terminated else self._answer()
        if self._terminated:                   # the notice is taken: what is forked may end now
            self._drain()
        verdict = self.follow(self._verdict(answer, finished))
        if self._store is not None:
            self._store.set("espalier/verdict/%d" % iteration, json.dumps(verdict))
            self._store.add("espalier/reported/%d" % iteration, 1)
            if verdict.end:
                atexit.register(self._linger)
        return verdict

    def _fetch(self, iteration):
        """Polls for rank 0's verdict: a trial at its budget may wait for hours, longer than the
        timeout of a store or of a collective operation."""
        pause = 0.001
        while self._store.add("espalier/reported/%d" % iteration, 0) == 0:
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
        return Verdict(*json.loads(self._store.get("espalier/verdict/%d" % iteration).decode()))

    def _linger(self):
        """Waits until the other ranks have fetched the last verdict, since the store ends with rank 0."""
        until = time.monotonic() + 5
        while self._store.add("espalier/ended", 0) < self.world - 1 and time.monotonic() < until:
            time.sleep(0.01)

    def follow(self, verdict):
        """Applies a verdict that rank 0 received, and returns it."""
        self.budget = verdict.budget
        if verdict.end and not self.ended and self.rank != 0:
            self._store = self._store or _torch_store()
            if self._store is not None:
                self._store.add("espalier/ended", 1)
        self.ended = self.ended or verdict.end
        return verdict

    def saved(self, iteration):
        """Says that run.save holds the complete checkpoint of this iteration (rank 0)."""
        if self._socket is not None:
            self._send({"saved": _whole(iteration)})
            self._sealing = True
        elif not self.inside:
            print("saved iteration %d in %s" % (iteration, self._save), flush=True)

    def note(self, key, text):
        """Attaches a text to the trial, under a name; one of that name is replaced (rank 0).

        The name has at most 64 bytes, the text 4096, a trial 64 notes: what is beyond is dropped,
        with a warning of espalier.  Nothing is waited for."""
        key, text = (str(word).replace("\0", " ").encode(errors="replace").decode() for word in (key, text))
        if self._socket is not None:
            with self._turn:
                self._send({"notes": {key[:100]: text[:4200]}})
        elif not self.inside and self.rank == 0:
            print("note %s: %s" % (key, text), flush=True)

    def _verdict(self, answer, finished):
        words = answer.split()
        word = words[0] if words else ""
        budget = self.budget
        if word == "continue" and len(words) == 2:
            budget = int(words[1])
        elif len(words) != 1 or word not in ("continue", "checkpoint", "pause", "stop"):
            raise RuntimeError("espalier answered %r" % answer)
        return Verdict(word in ("checkpoint", "pause"), word in ("pause", "stop") or finished, budget)

    def _send(self, what):
        self._socket.sendall(json.dumps(what, allow_nan=False).encode() + b"\n")

    def _answer(self):
        watched = [self._socket] + ([self._wake[0]] if self._wake else [])
        while b"\n" not in self._inbox:
            ready = _ready(watched)
            if self._terminated:
                return "pause"
            if self._socket in ready:
                got = self._socket.recv(4096)
                if not got:
                    raise EOFError("the connection to espalier was closed")
                self._inbox += got
        line, self._inbox = self._inbox.split(b"\n", 1)
        return line.decode()


def _report_socket():
    """Rank 0's socket; None on other ranks, and by hand."""
    text = os.environ.get("ESPALIER_REPORT_FD")
    if text is None:
        return None
    try:
        os.set_inheritable(int(text), False)   # children must not hold it
        made = socket.socket(fileno=int(text))
        made.setblocking(True)
        return made
    except (OSError, ValueError) as error:
        raise RuntimeError("ESPALIER_REPORT_FD=%s is not an open socket here (%s): a program between espalier "
                           "and this one must leave it open, as with subprocess.run(..., pass_fds=(%s,))"
                           % (text, error, text)) from None


def _torch_store():
    """The store that torch.distributed was initialized with; None if the program does not use it.
    Unlike a collective operation it needs no GPU, and not every rank has to take part."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist.distributed_c10d._get_default_store()


def _has_term(pid):
    """Is SIGTERM pending for that process?"""
    try:
        with open("/proc/%d/status" % pid) as status:
            words = [line.split() for line in status if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return False
    return any(int(word[1], 16) >> (signal.SIGTERM - 1) & 1 for word in words)


def _ready(sockets, seconds=None):
    """Waits until a socket can be read, and returns those that can.  select() does not work with
    descriptors above 1023."""
    poll = select.poll()
    for s in sockets:
        poll.register(s, select.POLLIN)
    found = {fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)}
    return [s for s in sockets if s.fileno() in found]


def _whole(value):
    """Checks and returns the number of an iteration."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number != value or number < 1:
        hint = " (pass epoch + 1)" if value == 0 else ""
        raise ValueError("iterations are numbered 1, 2, 3, ...: %r is not one%s" % (value, hint))
    return number


def _plain(name, value):
    """A metric as a value of strict JSON: a number that is not finite becomes a string."""
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("metric %r must be a number, not %r" % (name, value)) from None
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


_run = None     # keeps the socket open even if the program drops its Run


def start(params=None, iterations=10):
    """Reads the environment and returns the Run.  The arguments are used outside espalier only.
    Called again in a trial, it returns the same Run."""
    global _run
    if _run is None or not _run.inside:
        _run = Run(params, iterations)
    return _run


if __name__ == "__main__":
    sys.exit("espalier_trial is a module: import it in your training program")
