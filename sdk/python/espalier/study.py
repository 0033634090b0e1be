"""Ask and tell: espalier chooses trials, Python evaluates them (docs/ask-and-tell.md)."""

import collections
import json
import math
import operator
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from types import TracebackType
from typing import (IO, Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple,
                    Type, Union, cast, overload)

from espalier import config as _config
from espalier import program
from espalier.results import Run
from espalier.running import Error

Path = Union[str, "os.PathLike[str]"]

_RESTARTS = 5      # of the process that drives the search, while one request waits
_HELD = 100000     # trials that `hold` may name: a request has at most 1 MiB
_AT_ONCE = 1000    # pending requests: their answers fit into buffers
_PIECE = 1 << 16   # bytes to read at once
_serving: List["subprocess.Popen[bytes]"] = []    # processes that still serve other clients
_studies: "weakref.WeakSet[Study]" = weakref.WeakSet()


class Verdict(NamedTuple):
    """What happens to a trial after a result."""

    verdict: str             # "continue", "pause" (it may be handed out again) or "stop"
    state: str               # "running", "paused", "completed", "stopped early", "unfinished", "failed", ...
    until: Optional[int]     # the iteration to train up to, if it continues
    save: bool               # keep its state: another trial may start from it

    @property
    def end(self) -> bool:
        """True if the trial is not to be trained further now."""
        return self.verdict != "continue"


class Trial:
    """A configuration to evaluate: train `params` from `iteration` (already done) to `until`."""

    def __init__(self, given: Mapping[str, Any], study: "Study"):
        self._study: Optional["weakref.ref[Study]"] = weakref.ref(study)
        self.id: int = given["trial"]
        self.params: Dict[str, Any] = given["params"]
        self.iteration: int = given["iteration"]       # told so far
        self.until: int = given["until"]
        self.source: int = given.get("source", self.id)    # the trial whose state to begin from
        # with experiment.seeds: by what it differs from the other trials of the configuration
        self.seed: Optional[int] = given.get("seed")
        self.configuration: Optional[int] = given.get("configuration")
        self.fold: int = given.get("fold", 0)  # with experiment.confirm: from 1, of the trials that confirm
        self.state = "running"
        self._thread = threading.get_ident()

    def __repr__(self) -> str:
        return "<Trial %d: %s, iteration %d to %d>" % (self.id, self.params, self.iteration, self.until)

    def note(self, key: str, text: str) -> None:
        """Attaches a text to this trial; see Study.note()."""
        study = self._study() if self._study else None
        if study is None:
            raise RuntimeError("trial %d is without its study here: use study.note(%d, ...)" % (self.id, self.id))
        study.note(self, key, text)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_study": None}    # in another process, or copied

    def iterations(self) -> Iterator[int]:
        """Yields the iterations to train, until a result that is told ends the trial."""
        iteration = self.iteration
        while self.state == "running" and iteration < self.until:
            iteration += 1
            yield iteration


class Best(NamedTuple):
    """What minimize() and maximize() found."""

    params: Dict[str, Any]
    value: float
    trial: int


class Study:
    """An open search.  Several threads may use it, and several processes may open it."""

    def __init__(self, arguments: Sequence[str], environment: Optional[Mapping[str, str]] = None,
                 space: Any = None):
        self._originals = _config.originals(space)
        self._environment = dict(environment or program.environment())
        self._lock = threading.RLock()
        self._closed = False
        self._open: Dict[int, Trial] = {}
        self._told = self._told_elsewhere = False    # a result, and by another thread than asked
        self._in_step = True                   # False: answers may be on their way that no one waits for
        self._resyncs = 0
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._rest: List[bytes] = []           # of what was read: the beginning of a line
        self._lines: Deque[bytes] = collections.deque()    # ... and whole ones before it
        _studies.add(self)
        self._arguments = list(arguments)
        self._start(arguments)
        about = self._request({"op": "about"})
        self.directory: str = about["dir"]
        if not os.path.isdir(self.directory):  # its name is not UTF-8
            self.directory = os.path.abspath(arguments[2] if "--dir" in arguments else arguments[0])
        self._arguments = [self.directory]     # from now on
        self.experiment: str = about["experiment"]
        self.metric: str = about["metric"]
        self.goal: str = about["goal"]
        self.algorithm: str = about["algorithm"]
        self.seed: int = about["seed"]

    # ---- trials

    @overload
    def ask(self, n: None = None, *, wait: bool = True) -> Optional[Trial]: ...

    @overload
    def ask(self, n: int, *, wait: bool = True) -> List[Trial]: ...

    def ask(self, n: Optional[int] = None, *, wait: bool = True) -> Union[Trial, List[Trial], None]:
        """Returns the next trial, or up to n of them; None (or an empty list) when the search is
        complete.

        An algorithm may need results of open trials before it can choose another one.  With `wait`
        this waits until other processes and threads have told theirs; otherwise it returns None or
        what there is."""
        delay = 0.001
        while True:
            reply = self._request({"op": "ask", "n": 1 if n is None else n})
            trials: List[Trial] = reply["trials"]
            if trials or reply["status"] != "waiting" or not wait:
                break
            self._check_blocked(reply["open"])
            time.sleep(delay)
            delay = min(2 * delay, 0.1)
        return trials if n is not None else trials[0] if trials else None

    def _check_blocked(self, everywhere: int) -> None:
        """Raises an error if this thread waits for what only itself can tell.  What another Study of
        this thread has is handed out again: that of a cell that was interrupted, for example."""
        mine = _studies_of(self.directory)
        own = [trial for study in mine for trial in list(study._open.values())]
        if len(own) < everywhere or any(trial._thread != threading.get_ident() for trial in own):
            return
        if self._told_elsewhere or not self._told and _others_work():
            return
        others_of_mine = [study for study in mine if study is not self and study._open]
        for study in others_of_mine:
            study._give_back()
        if others_of_mine:
            return
        raise RuntimeError("the algorithm has no trial until open ones are told: %s (tell or fail them, or open "
                           "the study again)" % ", ".join(str(trial.id) for trial in own[:10]))

    def _give_back(self) -> None:
        """Leaves its trials to others; it is opened again when it is used."""
        with self._lock:
            self._open = {}
            self._let_go()

    def __iter__(self) -> Iterator[Trial]:
        """Yields trials until the search is complete."""
        while True:
            trial = self.ask()
            if trial is None:
                return
            yield trial

    def tell(self, trial: Union[Trial, int], value: Any, iteration: Optional[int] = None,
             metrics: Optional[Mapping[str, Any]] = None) -> Verdict:
        """Tells the result of a trial at an iteration (by default trial.until).

        The result is on disk when this returns.  value is the metric of the study; NaN counts as
        the worst result.  metrics holds other metrics."""
        return self.tell_all([(trial, value, iteration, metrics)])[0]

    def tell_all(self, results: Iterable[Tuple[Any, ...]]) -> List[Verdict]:
        """Tells several results, each a tuple of arguments of tell(): much faster than one by one."""
        told = [_result(result) for result in results]
        requests = [self._dated(_report(*result), result[0]) for result in told]
        self._count_thread(requests)
        replies = self._requests(requests)
        verdicts = []
        for (trial, *_), request, reply in zip(told, requests, replies):
            if "error" not in reply:
                for known in (self._open.get(_id(trial)), trial):
                    if isinstance(known, Trial):
                        known.iteration = request.get("iteration", known.until)
                        known.until = reply.get("until") or known.until
                verdicts.append(self._settle(trial, reply))
        _check(replies)                        # those that were accepted are settled
        return verdicts

    def _dated(self, request: Dict[str, Any], trial: Union[Trial, int]) -> Dict[str, Any]:
        """With its iteration: said again, a request without one would be about a later iteration if
        the trial was promoted meanwhile."""
        known = trial if isinstance(trial, Trial) else self._open.get(request["trial"])
        return {"iteration": known.until, **request} if known else request

    def fail(self, trial: Union[Trial, int], text: str = "") -> Verdict:
        """Says that the trial cannot be evaluated, and why."""
        request = {"op": "fail", "trial": _id(trial), "text": _text(text or "failed")[:4000]}
        self._count_thread([request])
        return self._settle(trial, self._request(request))

    def note(self, trial: Union[Trial, int], key: str, text: str) -> None:
        """Attaches a text to a trial, under a name of at most 64 bytes; one of that name is replaced.

        A trial has at most 64, of at most 4096 bytes each; what is beyond that is dropped, with a
        warning.  The trial may have ended, but not the search."""
        reply = self._request({"op": "note", "trial": _id(trial), "notes": {str(key): _text(text)}})
        if reply.get("dropped"):
            warnings.warn("note %r of trial %d is beyond the limits: a name has at most 64 bytes, a text 4096, "
                          "a trial 64 notes" % (key, _id(trial)), stacklevel=2)

    def _count_thread(self, requests: Sequence[Mapping[str, Any]]) -> None:
        """Do threads tell what others have asked for?"""
        for request in requests:
            known = self._open.get(request["trial"])
            self._told = True
            self._told_elsewhere |= known is not None and known._thread != threading.get_ident()

    def _settle(self, trial: Union[Trial, int], reply: Mapping[str, Any]) -> Verdict:
        verdict = Verdict(reply["verdict"], reply["state"], reply.get("until"), reply.get("save", False))
        if isinstance(trial, Trial):
            trial.state = "running" if not verdict.end else verdict.state if verdict.state != "running" else "paused"
        return verdict

    def _restore(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """With the values of choices as they were given: JSON has no tuples."""
        for name, pairs in self._originals.items():
            for plain, value in pairs:
                if name in params and params[name] == plain:
                    params = {**params, name: value}
                    break
        return params

    # ---- what is known

    def best(self) -> Optional[Dict[str, Any]]:
        """The best trial so far: trial, metric, iteration, params; None if there is no result."""
        best = cast(Optional[Dict[str, Any]], self._request({"op": "best"})["best"])
        return best if best is None else {**best, "metric": _real(best["metric"]),
                                          "params": self._restore(best["params"])}

    def trials(self) -> List[Dict[str, Any]]:
        """All trials: trial, state, iteration, metric (None if there is none, or it is NaN), params, and
        notes, a dict, where there are any."""
        found: List[Dict[str, Any]] = []
        while True:
            page = self._request({"op": "trials", "from": found[-1]["trial"] + 1 if found else 0, "n": 1000})["trials"]
            found += [{**trial, "metric": _real(trial["metric"]), "params": self._restore(trial["params"])}
                      for trial in page]
            if len(page) < 1000:
                return found

    def status(self) -> Dict[str, Any]:
        """The numbers of `espalier status --json`."""
        return self._request({"op": "status"})

    def results(self) -> Run:
        """The results as espalier.load() returns them: pandas, figures.  Complete after close()."""
        return Run(self.directory)

    # ---- the process

    def _start(self, arguments: Sequence[str]) -> None:
        for old in list(_serving):
            if old.poll() is not None:
                _serving.remove(old)
        self._owner = os.getpid()
        self._rest, self._lines = [], collections.deque()
        # Unbuffered: a buffer has a lock, which a fork may find locked by a thread that it lacks.
        self._errors: IO[bytes] = tempfile.TemporaryFile(buffering=0)
        self._requests_to, theirs = socket.socketpair()    # no SIGPIPE, which may end this process
        # A session of its own: Ctrl-C is for us, and other clients may need it longer than we do.
        with theirs:
            self._process = subprocess.Popen(
                program.command("ask", *arguments), bufsize=0, env=self._environment, stdin=theirs.fileno(),
                stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True)

    def _let_go(self) -> None:
        process, self._process = self._process, None
        if process is None or process.stdout is None:
            return
        for stream in (self._requests_to, process.stdout, self._errors):
            try:
                stream.close()
            except OSError:
                pass
        if self._owner == os.getpid() and process.poll() is None:
            _serving.append(process)
        process.returncode = process.returncode or 0    # no warning: it is not ours to wait for

    def _request(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        replies = self._requests([request])
        _check(replies)
        return replies[0]

    def _requests(self, requests: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        replies: List[Dict[str, Any]] = []
        with self._lock:
            restarts = 0
            if self._closed:
                raise ValueError("the study is closed")
            if self._owner != os.getpid():
                self._open = {}                # the parent's
                self._let_go()
            while len(replies) < len(requests):
                if self._process is None:      # it was killed, or this is a fork
                    self._in_step = False
                    self._start(self._arguments)
                if self._in_step or self._resync(requests[len(replies):]):
                    part = requests[len(replies):len(replies) + _AT_ONCE]
                    # What was on its way when the process was killed may have been taken.
                    replies += self._exchange([{**request, "again": True} if request["op"] in ("tell", "fail") and
                                               (restarts or self._is_new(request)) else request for request in part])
                if len(replies) < len(requests) and self._process and self._process.poll() is not None:
                    restarts += 1
                    self._check_killed(restarts)
                    self._let_go()
        return replies

    def _is_new(self, request: Mapping[str, Any]) -> bool:
        """Is this our first report of this iteration?  Then it is not an error if another client,
        which got our trial when the process that drives the search was killed, has already told
        it."""
        trial = self._open.get(request.get("trial", -1))
        return trial is not None and request.get("iteration", trial.until) > trial.iteration

    def _is_last(self, request: Mapping[str, Any]) -> bool:
        """Does our trial end with this report?"""
        trial = self._open.get(request.get("trial", -1))
        return trial is not None and (request["op"] == "fail" or request.get("iteration", trial.until) >= trial.until)

    def _exchange(self, requests: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        """Returns the answers; fewer if the process has ended meanwhile."""
        replies: List[Dict[str, Any]] = []
        self._in_step = False                  # until all is read: an interrupt leaves answers behind
        self._send(b"".join(json.dumps(request, default=operator.index).encode() + b"\n" for request in requests))
        for request in requests:
            line = self._receive()
            if line is None:
                return replies
            reply = json.loads(line)
            if request["op"] == "ask" and "trials" in reply:
                reply["trials"] = [Trial({**given, "params": self._restore(given["params"])}, self)
                                   for given in reply["trials"]]
                self._open.update((trial.id, trial) for trial in reply["trials"])
            elif reply.get("verdict", "continue") != "continue":
                self._open.pop(request["trial"], None)
            replies.append(reply)
        self._in_step = True
        return replies

    def _resync(self, pending: Sequence[Mapping[str, Any]]) -> bool:
        """After an interrupt, or with a new process: skips the answers that no call waits for, and
        says which trials this client has.  Returns False if the process has ended."""
        # Not those that end with what it is about to say again: if that was heard before, it may
        # have been promoted since, and is handed out in its turn.
        ends = {request["trial"] for request in pending if self._is_last(request)}
        self._resyncs += 1
        hold = {"op": "hold", "trials": [trial for trial in self._open if trial not in ends][-_HELD:],
                "number": self._resyncs}
        self._send(b"\n" + json.dumps(hold).encode() + b"\n")    # \n: a request may have been cut off
        while not self._in_step:
            line = self._receive()
            if line is None:
                return False
            try:
                self._in_step = json.loads(line).get("number") == self._resyncs
            except ValueError:                 # of this answer the beginning was read already
                pass
        return True

    def _send(self, lines: bytes) -> None:
        try:
            self._requests_to.sendall(lines, socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _receive(self) -> Optional[bytes]:
        """Reads a line; returns None if the process has ended."""
        assert self._process is not None and self._process.stdout is not None
        while not self._lines:
            piece = self._process.stdout.read(_PIECE)
            if not piece:
                self._process.wait()
                return None
            first, *others = piece.split(b"\n")
            self._rest.append(first)
            if others:
                self._lines.extend([b"".join(self._rest), *others[:-1]])
                self._rest = others[-1:]
        return self._lines.popleft()

    def _check_killed(self, restarts: int) -> None:
        """Raises an error unless the process was killed and may be started again."""
        assert self._process is not None
        status = self._process.returncode
        self._errors.seek(0)
        message = self._errors.read().decode(errors="replace").strip()
        # 0: nobody knows how it ended, where SIGCHLD is ignored; it ends by itself after its input.
        if restarts > _RESTARTS or status > 0 and status != 4:
            self._let_go()
            raise Error(message or "espalier ask ended with status %d" % status, status)

    def close(self) -> None:
        """Leaves the study.  Trials that were asked for but not told are handed out again."""
        with self._lock:
            self._closed = True
            self._leave()
            self._let_go()

    def _leave(self) -> None:
        process = self._process
        if process is None or self._owner != os.getpid() or process.stdout is None:
            return
        self._requests_to.close()
        process.stdout.read()                  # its end: all is written, or others are served
        try:
            process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            pass

    def __enter__(self) -> "Study":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self._let_go()

    def __reduce__(self) -> Tuple[Any, ...]:
        return open, (self.directory,)         # in another process: opened again

    def __repr__(self) -> str:
        return "<espalier.Study %s: %s %s, %s>" % (self.experiment, self.goal, self.metric, self.directory)


def _studies_of(directory: str) -> List[Study]:
    """Those of this process that have the study in this directory open."""
    try:
        known = list(_studies)
    except RuntimeError:                       # another thread opens one just now
        return []
    return [study for study in known if getattr(study, "directory", None) == directory and
            not study._closed and study._owner == os.getpid()]


def _others_work() -> bool:
    """May another thread, or a process of a pool, tell the results of what this thread asked for?
    Before the first result nothing else is known."""
    processes = sys.modules.get("multiprocessing")
    return any(not thread.daemon and thread is not threading.current_thread() for thread in threading.enumerate()) or (
        processes is not None and bool(processes.active_children()))


def _forked() -> None:
    """Lets go of its parent's pipes and locks in a child process."""
    for study in list(_studies):
        study._lock = threading.RLock()
        process = study._process
        if process is None or process.stdout is None or process.stdout.closed:
            continue
        nothing = os.open(os.devnull, os.O_RDWR)
        if study._requests_to.fileno() >= 0:
            os.dup2(nothing, study._requests_to.fileno(), inheritable=False)
        os.dup2(nothing, process.stdout.fileno(), inheritable=False)
        os.close(nothing)


os.register_at_fork(after_in_child=_forked)


def _id(trial: Union[Trial, int]) -> int:
    if isinstance(trial, Trial):
        return trial.id
    try:
        return operator.index(trial)
    except TypeError:
        raise TypeError("trial must be what ask() returned, or its number, not %r" % (trial,)) from None


def _text(text: Any) -> str:
    return str(text).replace("\0", " ").encode(errors="replace").decode()


def _real(number: Union[int, float, None]) -> Optional[float]:
    """JSON does not tell 1.0 from 1."""
    return float(number) if number is not None else None


def _check(replies: Iterable[Mapping[str, Any]]) -> None:
    for reply in replies:
        if "error" in reply:
            raise ValueError(reply["error"])


def _number(name: str, value: Any) -> Union[float, str]:
    """A number of any library as a float, or as a string if JSON cannot express it."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("%s must be a number, not %r" % (name, value)) from None
    return number if math.isfinite(number) else str(number)


def _result(given: Any) -> Tuple[Any, ...]:
    """The arguments of tell() for one of the results of tell_all()."""
    if not isinstance(given, (tuple, list)) or not 2 <= len(given) <= 4:
        raise TypeError("a result is a tuple (trial, value), (trial, value, iteration) or (trial, value, iteration, "
                        "metrics), not %r" % (given,))
    return tuple(given)


def _report(trial: Union[Trial, int], value: Any, iteration: Optional[int] = None,
            metrics: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    request: Dict[str, Any] = {"op": "tell", "trial": _id(trial), "value": _number("the value", value)}
    if iteration is not None:
        try:
            request["iteration"] = operator.index(iteration)
        except TypeError:
            raise TypeError("iteration must be a whole number, not %r" % (iteration,)) from None
    if metrics is not None:
        if not hasattr(metrics, "items"):
            raise TypeError('metrics must be a dict like {"seconds": 2.5}, not %r' % (metrics,))
        request["metrics"] = {name: _number(name, number) for name, number in metrics.items()}
    return request


def open(config: Union[Path, Mapping[str, Any]], dir: Optional[Path] = None, *,
         set: Optional[Mapping[str, Any]] = None) -> Study:
    """Opens a search for ask and tell.

    config is a configuration file, a dict of the same structure (its space may also be written as
    for minimize()), or the directory of a study.  dir is the run directory (default: a new one,
    named after the experiment and the time); if it exists, the study in it is continued.  set
    overrides values, for example {"algorithm.trials": 9}."""
    written = _config.File(config, "study-") if isinstance(config, Mapping) else None
    try:
        arguments = [written.write() if written else
                     _config.path_text("config", config, "a file, a dict or the directory of a study")]
        if dir is not None:
            arguments += ["--dir", _config.path_text("dir", dir)]
        return Study(arguments + _config.sets(set), space=config.get("space") if isinstance(config, Mapping) else None)
    except Error as error:
        if written is None:
            raise
        raise Error(written.named(str(error)), error.status) from None
    finally:
        if written is not None:
            written.remove()


def _optimize(goal: str, f: Callable[[Dict[str, Any]], Any], space: Mapping[str, Any], trials: Optional[int],
              algorithm: Union[str, Mapping[str, Any]], seed: int, first: Sequence[Mapping[str, Any]],
              dir: Optional[Path], catch: Tuple[Type[BaseException], ...], target: Optional[float],
              patience: Optional[int], forbid: Sequence[str], require: Sequence[str],
              seeds: int) -> Best:
    experiment: Dict[str, Any] = {"name": getattr(f, "__name__", "function").strip("<>"), "metric": "value",
                                  "goal": goal, "seed": seed}
    if first:
        experiment["first"] = tuple(first)
    if target is not None:
        experiment["target"] = float(target)
    if patience is not None:
        experiment["patience"] = patience
    if forbid:
        experiment["forbid"] = tuple(forbid)
    if seeds != 1:
        experiment["seeds"] = seeds
    if require:
        experiment["require"] = tuple(require)
    if algorithm == "auto":
        algorithm = {"use": "random", "sampler": "auto", "iterations_max": 1}
    elif isinstance(algorithm, str):
        algorithm = {"use": algorithm, "iterations_max": 1}
    grid = algorithm.get("use") == "grid"      # it has an end of its own
    if not grid and "trials" not in algorithm:
        algorithm = {**algorithm, "trials": 100 if trials is None else trials}
    config = {"experiment": experiment, "space": space, "algorithm": algorithm}
    kept = dir if dir is not None else os.path.join(tempfile.mkdtemp(prefix="espalier-"), "study")
    try:
        with open(config, kept) as study:
            for called, trial in enumerate(study):
                if grid and trials is not None and called >= trials:
                    break
                try:
                    value = f(trial.params)
                except catch as failure:
                    study.fail(trial, repr(failure))
                else:
                    if isinstance(value, Mapping):
                        study.tell(trial, value["value"], metrics={k: v for k, v in value.items() if k != "value"})
                    else:
                        study.tell(trial, value)
            best = study.best()
    finally:
        if dir is None:
            shutil.rmtree(os.path.dirname(kept), ignore_errors=True)
    if best is None or best["metric"] is None:
        raise RuntimeError("no call of the function returned a finite number" +
                           (" and met what is required" if require else ""))
    return Best(best["params"], best["metric"], best["trial"])


def minimize(f: Callable[[Dict[str, Any]], Any], space: Mapping[str, Any], *, trials: Optional[int] = None,
             algorithm: Union[str, Mapping[str, Any]] = "auto", seed: int = 0,
             first: Sequence[Mapping[str, Any]] = (), dir: Optional[Path] = None,
             catch: Tuple[Type[BaseException], ...] = (), target: Optional[float] = None,
             patience: Optional[int] = None, forbid: Sequence[str] = (), require: Sequence[str] = (),
             seeds: int = 1) -> Best:
    """Finds the parameters for which f(params) is lowest.

    space: {"lr": (1e-4, 1e-1, "log"), "layers": (1, 4), "optimizer": ["sgd", "adam"]}, or groups as
    in a configuration file.  The values of a choice may also be None, lists, tuples and dicts.
    trials: calls of f, by default 100 (grid: all of its points).
    algorithm: its name, or its group as in a configuration file; "auto" is random search with the
    sampler of that name.  With dir, the study is kept in that directory, and continued if it
    exists.  A trial fails if f raises one of `catch`; any other exception ends the search.  The
    search ends before all `trials` when f has returned a value at least as good as `target`, or
    after `patience` calls in a row that were no better than the best before.
    forbid: conditions that no params meet, such as "layers > 8 and optimizer = 'sgd'".
    require: conditions on what f returns, such as "latency < 20": then it returns a dict of numbers,
    "value" among them, and the best is one that meets them all.
    seeds: how often f is called with the same params; their mean is what counts, and each call is
    a trial of its own."""
    return _optimize("minimize", f, space, trials, algorithm, seed, first, dir, catch, target, patience, forbid,
                     require, seeds)


def maximize(f: Callable[[Dict[str, Any]], Any], space: Mapping[str, Any], *, trials: Optional[int] = None,
             algorithm: Union[str, Mapping[str, Any]] = "auto", seed: int = 0,
             first: Sequence[Mapping[str, Any]] = (), dir: Optional[Path] = None,
             catch: Tuple[Type[BaseException], ...] = (), target: Optional[float] = None,
             patience: Optional[int] = None, forbid: Sequence[str] = (), require: Sequence[str] = (),
             seeds: int = 1) -> Best:
    """Finds the parameters for which f(params) is highest; see minimize()."""
    return _optimize("maximize", f, space, trials, algorithm, seed, first, dir, catch, target, patience, forbid,
                     require, seeds)
