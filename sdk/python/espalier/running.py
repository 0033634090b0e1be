"""Runs a search and shows its progress on the terminal or in the notebook."""

import collections
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from espalier import config as _config
from espalier import program
from espalier.results import Run

Path = Union[str, "os.PathLike[str]"]
Callback = Callable[[Dict[str, Any]], Any]


class Error(RuntimeError):
    """The program failed; status is its exit status (docs/cli.md)."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> Tuple[Any, ...]:
        return Error, (str(self), self.status)  # pickled: from a worker of a pool


def run(config: Union[Path, Mapping[str, Any]], dir: Optional[Path] = None, *,
        set: Optional[Mapping[str, Any]] = None, progress: bool = True,
        on_report: Optional[Callback] = None, on_end: Optional[Callback] = None) -> Run:
    """Runs a search to its end and returns its results.

    config is a configuration file, or a dict of the same structure (its space may also be written
    as for minimize()).  Relative paths in a dict are relative to the working directory.  dir is the
    run directory (default: the experiment's or the file's name, and the time).  set overrides
    values, for example {"algorithm.trials": 9}.  on_report is called with a dict for each report of
    a trial, on_end for each trial that has ended: docs/python.md.  If it is interrupted (Ctrl-C, the notebook's stop
    button) the run stops cleanly, and resume(dir) continues it."""
    written = _config.File(config, "search-") if isinstance(config, Mapping) else None
    made = None
    try:
        if isinstance(config, Mapping):
            experiment = config.get("experiment")
            name = str(experiment.get("name", "run")) if isinstance(experiment, Mapping) else "run"
        else:
            file = _config.path_text("config", config, "a file or a dict")
            name = os.path.splitext(os.path.basename(file))[0]
        made = _make_directory(name) if dir is None else None
        if written is not None:
            file = written.write()
        dir = made or _config.path_text("dir", dir)
        return _follow(["run", file, "--dir", dir, *_config.sets(set)], dir, progress, written, on_report, on_end)
    finally:
        if written is not None:
            written.remove()
        if made:
            try:
                os.rmdir(made)                 # nothing was begun
            except OSError:
                pass


def _make_directory(name: str) -> str:
    """A new directory with this name and the time, also if others are made at the same moment."""
    stem = made = "%s-%s" % (name, time.strftime("%Y%m%d-%H%M%S"))
    number = 1
    while True:
        try:
            os.mkdir(made, 0o700)
            return made
        except FileExistsError:
            number += 1
            made = "%s-%d" % (stem, number)
        except OSError:                        # the program says what is wrong with it
            return made


def _failed(dir: str) -> bool:
    """How a run ended, where its status is not known."""
    try:
        return bool(Run(dir).meta()["status"] == "failed")
    except (FileNotFoundError, ValueError):
        return True


def resume(dir: Path, *, trials: Union[int, str, None] = None, progress: bool = True,
           on_report: Optional[Callback] = None, on_end: Optional[Callback] = None) -> Run:
    """Continues a run that was stopped or killed.

    trials gives it, also if it is complete, so many trials in all, or with "+50" 50 more.
    on_report and on_end are as for run(), and called for what is new."""
    dir = _config.path_text("dir", dir)
    more = [] if trials is None else ["--trials", str(trials)]
    return _follow(["resume", dir, *more], dir, progress, None, on_report, on_end)


def _follow(arguments: List[str], dir: str, progress: bool, written: Optional[_config.File],
            on_report: Optional[Callback], on_end: Optional[Callback]) -> Run:
    notebook = _in_notebook()
    board = _Board() if notebook and progress else None
    watch = _Watch(dir, on_report, on_end) if on_report or on_end else None
    events = [take for take in (board and board.take, watch and watch.take) if take]
    option = ["--json"] if events else [] if progress else ["--quiet"]
    shown = progress and not board
    with tempfile.TemporaryFile() as errors:
        # We and our processes may be interrupted together (a terminal) or not (kill, a notebook):
        # the program ignores SIGINT, and is told by us alone.
        child = subprocess.Popen(program.command(*arguments, *option), env=program.environment(),
                                 preexec_fn=_ignore_interrupts, stdin=subprocess.DEVNULL, start_new_session=notebook,
                                 stdout=subprocess.PIPE if events else None if progress else subprocess.DEVNULL,
                                 stderr=None if shown and not written else subprocess.PIPE if shown else errors)
        pump = _Pump(child.stderr, written) if written and child.stderr else None
        interrupted = False
        while True:
            try:
                for line in child.stdout or ():
                    event = json.loads(line)
                    for take in events:
                        take(event)
                if board:
                    board.show()
                status = child.wait()
                break
            except KeyboardInterrupt:
                interrupted = True
                child.send_signal(signal.SIGTERM)
            except BaseException:
                child.terminate()
                while child.stdout and child.stdout.read(65536):
                    pass                       # with a full pipe the program could not end
                child.wait()
                if child.stdout:
                    child.stdout.close()
                raise
        if child.stdout:
            child.stdout.close()
        errors.seek(0)
        message = pump.end() if pump else errors.read().decode(errors="replace").strip()
    if status == 0 and signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN and _failed(dir):
        status = 1
    if status == 4 and interrupted:
        raise KeyboardInterrupt("stopped; espalier.resume(%r) continues" % dir)
    if status != 0:
        message = message or "espalier %s ended with status %d" % (arguments[0], status)
        raise Error(written.named(message) if written else message, status)
    return Run(dir)


class _Pump(threading.Thread):
    """Shows what the program says about a dict, with its keys in place of lines of a file."""

    def __init__(self, stream: IO[bytes], written: _config.File):
        super().__init__(daemon=True)
        self._stream, self._written = stream, written
        self._error: List[str] = []            # its last lines, if they are an error and its hints
        self.start()

    def run(self) -> None:
        for line in self._stream:
            text = self._written.named(line.decode(errors="replace"))
            if re.match(r"(\S.*: )?error: ", text):
                self._error = [text]
            elif self._error and re.match(r"\s*hint: ", text):
                self._error.append(text)
            sys.stderr.write(text)
            sys.stderr.flush()

    def end(self) -> str:
        """What went wrong, if anything did."""
        self.join(1)                           # a process that outlives the program may hold its end
        if not self.is_alive():
            self._stream.close()
        return "".join(self._error).strip()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_notebook() -> bool:
    """Is this the kernel of a notebook?"""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


class _Watch:
    """Calls a user's functions with what happens to trials."""

    _ends = ("completed", "stopped early", "unfinished", "failed")

    def __init__(self, dir: str, on_report: Optional[Callback], on_end: Optional[Callback]):
        self._dir, self._on_report, self._on_end = dir, on_report, on_end
        self._params: Optional[Dict[Any, Any]] = None
        self._last: Dict[Any, Any] = {}        # of a trial: what it reported last

    def take(self, event: Dict[str, Any]) -> None:
        trial = event.get("experiment"), event.get("trial")
        if event["event"] == "trial" and "params" in event:
            self._known()[trial] = event["params"]
        if event["event"] == "report":
            self._last[trial] = event
            if self._on_report:
                self._on_report(self._about(event, "iteration", "metric", "metrics", "at_s"))
        elif event["event"] == "trial" and event["what"] == event["state"] in self._ends and self._on_end:
            last = self._last.pop(trial, {})
            self._on_end({**self._about(event, "state", "iteration", "at_s"), "metric": last.get("metric")})

    def _about(self, event: Dict[str, Any], *names: str) -> Dict[str, Any]:
        known = {name: event[name] for name in ("experiment", "trial", *names) if name in event}
        return {**known, "params": self._known().get((event.get("experiment"), event["trial"]), {})}

    def _known(self) -> Dict[Any, Any]:
        """The parameters of each trial, those of an earlier part of the run included."""
        if self._params is None:
            self._params = {}
            try:
                for row in Run(self._dir).rows("trials"):
                    self._params[None, row["id"]] = json.loads(row["params"])
            except (FileNotFoundError, ValueError, KeyError):
                pass
        return self._params


class _Board:
    """The progress of a run in a notebook: two lines that change in place."""

    def __init__(self) -> None:
        display: Any = importlib.import_module("IPython.display").display
        self._shown = display({"text/plain": "starting"}, raw=True, display_id=True)
        self._shown_at = 0.0
        self._clock = 0.0
        self._states: Dict[Any, str] = {}
        self._params: Dict[Any, Any] = {}
        self._end: Dict[str, int] = {}         # from the summary, counts of the states
        self._best: Optional[Dict[str, Any]] = None

    def take(self, event: Dict[str, Any]) -> None:
        self._count(event)
        if time.monotonic() - self._shown_at >= 0.5:
            self.show()

    def _count(self, event: Dict[str, Any]) -> None:
        self._clock = event.get("at_s", self._clock)
        trial = event.get("experiment"), event.get("trial")
        if event["event"] == "trial":
            self._states[trial] = event["state"]
            if "params" in event:
                self._params[trial] = event["params"]
        elif event["event"] == "report" and event["best"]:
            self._best = event
        elif event["event"] == "summary":
            self._clock, early = event["jct_s"] or self._clock, event["stopped_early"]
            self._end = {"completed": event["completed"], "stopped early": early, "failed": event["failed"]}

    def text(self) -> str:
        counts = self._end or collections.Counter(self._states.values())
        lines = ["%.0f s  %d trials: %s" % (self._clock, len(self._states), ", ".join(
            "%d %s" % (number, state) for state, number in sorted(counts.items()) if number))]
        if self._best is not None:
            best = self._best
            params = self._params.get((best.get("experiment"), best["trial"]), {})
            lines.append("best trial %d: %.6g at iteration %d  %s" % (
                best["trial"], best["metric"], best["iteration"],
                "  ".join("%s=%s" % (name, "%.6g" % value if isinstance(value, float) else value)
                          for name, value in params.items())))
        return "\n".join(lines)

    def show(self) -> None:
        self._shown_at = time.monotonic()
        self._shown.update({"text/plain": self.text()}, raw=True)
