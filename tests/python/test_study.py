"""Ask and tell from Python: threads, processes, and processes that are killed."""

import concurrent.futures
import errno
import glob
import json
import multiprocessing
import os
import pathlib
import pickle
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import espalier
from espalier import program

SEARCH = {
    "experiment": {"name": "pear", "metric": "loss", "goal": "minimize", "seed": 3},
    "space": {"x": {"type": "real", "low": -1.0, "high": 1.0}, "word": {"type": "choice", "values": ['a"b', "c"]}},
    "algorithm": {"use": "random", "trials": 40, "iterations_max": 1},
}
HALVING = {"use": "sha", "trials": 4, "iterations_min": 1, "iterations_max": 4, "eta": 2}


def square(params):
    return params["x"] ** 2


def evaluate(study, most=1000):
    """What was asked and answered."""
    log = []
    for trial in study:
        for iteration in trial.iterations():
            log.append((trial.id, iteration, sorted(trial.params.items())))
            study.tell(trial, square(trial.params) + 1 / iteration, iteration)
        if len(log) >= most:
            break
    return log


def worker(directory):
    with espalier.open(directory) as study:
        return [trial[0] for trial in evaluate(study)]


def children(pid):
    """Its processes."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                    yield int(path.split("/")[2])
        except OSError:                        # it has ended
            pass


def diary(directory, path):
    """Evaluates; each result is noted when tell() has returned."""
    with espalier.open(directory) as study, open(path, "a") as file:
        for trial in study:
            for iteration in trial.iterations():
                time.sleep(0.04)
                study.tell(trial, square(trial.params) + 1 / iteration, iteration)
                os.write(file.fileno(), b"%d %d\n" % (trial.id, iteration))


def evaluated(trial):
    time.sleep(0.1)
    return trial, square(trial.params)


def tell(study, trial):
    return study.tell(*evaluated(trial)).verdict


class Scalar:
    """A number as NumPy's are: no int, no float."""

    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value

    def __index__(self):
        return self.value


def kill(study):
    os.kill(study._process.pid, signal.SIGKILL)


def drive(config, restart=lambda step: None):
    """Two clients ask and tell by a schedule; what they were answered.  restart(step): "kill" the
    process that drives the search before this step, "close" the study, or None."""
    random_ = random.Random(2)
    folder = "study-%s" % random.random()
    clients, mine = [espalier.open(config, folder), espalier.open(folder)], [{}, {}]
    log = []
    while True:
        how = restart(len(log))
        if how == "kill":
            kill(clients[0])
            clients[0]._process.wait()
            for client in clients:             # they hold what they have
                client.status()
        elif how == "close":
            for client in reversed(clients):
                client.close()
            clients = [espalier.open(folder), espalier.open(folder)]
            order = sorted((trial.asked, number) for number in (0, 1) for trial in mine[number].values())
            mine = [{}, {}]
            for asked, number in order:        # they ask again for what they had
                trial = clients[number].ask(wait=False)
                trial.asked = asked
                mine[number][trial.id] = trial
        number = random_.randrange(2)
        choice, pick, most = random_.random(), random_.random(), random_.choice([1, 1, 2, 3, 5])
        if choice < 0.4 or not mine[number]:
            trials = clients[number].ask(most, wait=False)
            for position, trial in enumerate(trials):
                trial.asked = (len(log), position)
                mine[number][trial.id] = trial
            log.append([(trial.id, trial.iteration, trial.until, trial.source, trial.params) for trial in trials])
            if not trials and clients[number].status()["status"] != "running":
                break
        else:
            trial = mine[number][sorted(mine[number])[int(pick * len(mine[number]))]]
            if choice > 0.97:
                verdict = clients[number].fail(trial)
            else:
                iteration = trial.iteration + 1 if choice < 0.8 else trial.until
                verdict = clients[number].tell(trial, square(trial.params) + 1 / iteration, iteration)
            log.append((trial.id, trial.iteration, verdict))
            if verdict.end:
                del mine[number][trial.id]
    for client in reversed(clients):
        client.close()
    return log


class Studies(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        before = os.getcwd()
        os.chdir(self.folder.name)
        self.addCleanup(os.chdir, before)

    def test_results(self):
        with espalier.open(SEARCH, "s", set={"algorithm.trials": 5}) as study:
            self.assertEqual((study.metric, study.goal, study.seed), ("loss", "minimize", 3))
            first = study.ask()
            self.assertEqual(sorted(first.params), ["word", "x"])
            verdict = study.tell(first, 0.5, metrics={"seconds": 2})
            self.assertEqual((verdict.end, verdict.state, first.state), (True, "completed", "completed"))
            others = study.ask(3)
            self.assertEqual([trial.id for trial in others], [1, 2, 3])
            study.tell_all((trial, 1 + trial.id) for trial in others)
            self.assertEqual(study.fail(study.ask().id, "no memory").state, "failed")
            self.assertIsNone(study.ask())
            self.assertEqual(study.best(), {"trial": 0, "metric": 0.5, "iteration": 1, "params": first.params})
            self.assertEqual([row["metric"] for row in study.trials()], [0.5, 2, 3, 4, None])
            self.assertEqual(study.status()["failed"], 1)
        rows = study.results().rows("trials")
        self.assertEqual([row["state"] for row in rows], ["completed"] * 4 + ["failed"])
        self.assertEqual(os.listdir("."), ["s"])
        with self.assertRaisesRegex(ValueError, "closed"):
            study.ask()

    def test_rows(self):
        with espalier.open({**SEARCH, "algorithm": {"use": "random", "trials": 4000, "iterations_max": 1}}, "s") as study:
            for part in range(4):
                trials = study.ask(500)
                study.tell_all((trial, 1.0) for trial in trials)
            self.assertEqual([row["trial"] for row in study.trials()], list(range(2000)))
            self.assertEqual(study.status()["trials"], 2000)
        self.assertEqual(len(study.results().rows("trials")), 2000)

    def test_iterations(self):
        with espalier.open({**SEARCH, "algorithm": HALVING}) as study:
            log = evaluate(study)
            self.assertEqual(len(log), 4 + 2 + 2)
            self.assertEqual(study.best()["iteration"], 4)
            self.assertTrue(os.path.basename(study.directory).startswith("pear-"))

    def test_parameters_of_any_name(self):
        names = ["true", "a b", "optimizer.lr", "größe", 'say "x"', "a\\b", "3"]
        with espalier.open({**SEARCH, "space": {name: (0, 1) for name in names}}, "s") as study:
            self.assertEqual(sorted(study.ask().params), sorted(names))

    def test_refusals(self):
        for name in (3, "", " x", "{x}"):
            with self.assertRaisesRegex((ValueError, espalier.Error), "name"):
                espalier.open({**SEARCH, "space": {name: (0, 1)}}, "t")
        with espalier.open(SEARCH, "s") as study:
            trial = study.ask()
            for value in ("low", None, [1.0], 10 ** 400):
                with self.assertRaisesRegex(TypeError, "the value must be a number, not "):
                    study.tell(trial, value)
            for wrong, words in ((lambda: study.tell(trial, 1, metrics=[1]), "metrics must be a dict .*, not .1.$"),
                                 (lambda: study.tell(trial, 1, metrics={"a": None}), "a must be a number, not None"),
                                 (lambda: study.tell(trial, 1, iteration=1.5), "iteration must be a whole number, not 1.5"),
                                 (lambda: study.tell([trial], 1), "trial must be what ask.. returned, or its number, not"),
                                 (lambda: study.fail(None), "trial must be what ask.. returned, or its number, not None"),
                                 (lambda: study.tell_all([trial]), r"a result is a tuple \(trial, value\).*, not <Trial 0"),
                                 (lambda: espalier.open(None), "config must be a file, a dict or the directory.*, not None"),
                                 (lambda: espalier.open(SEARCH, 3), "dir must be a path, not 3"),
                                 (lambda: espalier.open(SEARCH, "t", set=[1]), "set must be a dict .*, not .1.$"),
                                 (lambda: espalier.run(None), "config must be a file or a dict, not None"),
                                 (lambda: espalier.run(SEARCH, 3), "dir must be a path, not 3"),
                                 (lambda: espalier.resume(None), "dir must be a path, not None"),
                                 (lambda: espalier.load(None), "directory must be a path, not None")):
                with self.assertRaisesRegex(TypeError, words):
                    wrong()
            with self.assertRaisesRegex(ValueError, "no such trial: 99"):
                study.tell(99, 1)
            with self.assertRaisesRegex(ValueError, "the request is longer than 1048576 bytes"):
                study.tell(trial, 1, metrics={"m%d" % number: number for number in range(70000)})
            with self.assertRaisesRegex(ValueError, "until iteration 1, not 2"):
                study.tell(trial, 1, iteration=2)
            self.assertEqual(study.tell(trial, float("nan")).state, "completed")
            with self.assertRaisesRegex(ValueError, "not open: it is completed"):
                study.tell(trial, 1)
            self.assertIsNone(study.best())
            self.assertIsNone(study.results().best())
            others = study.ask(3)
            with self.assertRaisesRegex(ValueError, "no such trial: 99"):
                study.tell_all([(others[0], 1), (99, 1), (others[1], 2)])
            self.assertEqual([trial.state for trial in others], ["completed", "completed", "running"])
        self.assertIn("1 waiting", subprocess.run(program.command("status", "s"), stdout=subprocess.PIPE, text=True).stdout)
        for config, words in (({**SEARCH, "algorithm": {"use": "rondom"}}, "^algorithm.use: error: .*\n.* mean 'random'"),
                              ({**SEARCH, "space": {"x": (2.0, 1.0)}}, "^space.x.low: error: low of 'x' is not below"),
                              ({**SEARCH, "experiment": "x"}, "^experiment: error: 'experiment' must be a group"),
                              ({"space": {}}, "^the configuration: error: the group 'experiment' is missing"),
                              ({**SEARCH, "space": {}}, "space is empty"), ("absent.cfg", "absent.cfg")):
            with self.assertRaisesRegex(espalier.Error, words):
                espalier.open(config, "t")
        with self.assertRaisesRegex(espalier.Error, "seed differs"):
            espalier.open(SEARCH, "s", set={"experiment.seed": 4})

    def test_numbers(self):
        space = {"x": (Scalar(-1), Scalar(1)), "word": [Scalar(2), Scalar(3)]}
        with espalier.open({**SEARCH, "space": space, "algorithm": {**HALVING, "trials": Scalar(4)}}, "s") as study:
            trials = study.ask(Scalar(4))
            self.assertTrue(all(isinstance(value, int) for trial in trials for value in trial.params.values()))
            self.assertEqual(study.tell(trials[0], Scalar(1), Scalar(1)).verdict, "pause")
            self.assertEqual(trials[0].iteration, 1)
            study.tell(trials[1], float("inf"), metrics={"perplexity": float("inf")})
            study.tell(trials[2], float("nan"))
            study.tell(trials[3], 2)
            self.assertEqual([trial.id for trial in study.ask(2)], [0, 3])
        infinite = [row for row in study.results().rows("reports") if row["trial"] == 1]
        self.assertEqual(infinite[0]["metric"], float("inf"))
        warm = {"from": pathlib.Path("absent")}
        with self.assertRaisesRegex(espalier.Error, "absent"):
            espalier.open({**SEARCH, "experiment": {**SEARCH["experiment"], "warm_start": warm}}, "t")
        for wrong, words in (((1,), "space.x: .* is neither"), (["\udcff", "a"], "space.x.values: .* not valid Unicode"), (("a", "b"), "a choice is a list"), ((1, 8, "log", 2), "neither"),
                             (None, "None cannot be written"), ([None, None], "space.x.*: error: duplicate value 'null'")):
            with self.assertRaisesRegex((TypeError, ValueError, espalier.Error), words):
                espalier.open({**SEARCH, "space": {"x": wrong}}, "t")

    def test_failures(self):
        with espalier.open(SEARCH, "s") as study:
            self.assertEqual(study.fail(study.ask(), "a\0\udcff" + 9000 * "\u00e4").state, "failed")
            self.assertEqual(study.fail(study.ask(), OSError("no memory")).state, "failed")
            study.tell(study.ask(), 1)
        with espalier.open("s") as study:      # replayed from the journal
            self.assertEqual([trial["state"] for trial in study.trials()[:3]], ["failed", "failed", "completed"])
            self.assertEqual(len(evaluate(study)), 37)

    def test_interrupts(self):
        with espalier.open(SEARCH, "s") as study:
            mine = study.ask()
            engine = study._process.pid
            os.kill(engine, signal.SIGSTOP)
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                with self.assertRaises(KeyboardInterrupt):
                    study.ask()
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with self.assertRaises(KeyboardInterrupt):
                    study.status()
            finally:
                os.kill(engine, signal.SIGCONT)
            self.assertEqual(study.tell(mine, 0.5).state, "completed")
            self.assertEqual(study._process.pid, engine)    # or slow ones would start again and again
            study._let_go()                    # as if it was interrupted while it is started again
            self.assertEqual(study.status()["completed"], 1)
            self.assertEqual([trial[0] for trial in evaluate(study)], list(range(1, 40)))

    def test_interrupts_without_end(self):
        calling, more = False, True

        def interrupt(*_):
            nonlocal calling
            if calling:
                calling = False
                raise KeyboardInterrupt

        with espalier.open(SEARCH, "s") as study:
            engine = study._process.pid
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
            while more:
                blocked = None
                try:
                    try:
                        calling = True
                        trial = study.ask()
                        if trial is not None:
                            study.tell(trial, square(trial.params))
                        more, calling = trial is not None, False
                    except RuntimeError as error:      # interrupted when it had a trial
                        calling, blocked = False, error
                except KeyboardInterrupt:
                    pass
                if blocked:
                    self.assertRegex(str(blocked), "until open ones are told")
                    for number in list(study._open):
                        study.tell(number, 1)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.assertEqual((study.status()["completed"], study._process.pid), (40, engine))
        self.assertEqual([row["state"] for row in espalier.load("s").rows("trials")], 40 * ["completed"])

    def test_a_fork_that_lives_on(self):
        with espalier.open(SEARCH, "s") as study:
            read, write = os.pipe()
            child = os.fork()
            if child == 0:                     # as the workers of a pool or of a data loader
                os.close(write)
                select.select([read], [], [], 20)
                os._exit(0)
            os.close(read)
            before = time.monotonic()
            self.assertEqual(study.tell(study.ask(), 1).state, "completed")
            study.close()
            self.assertLess(time.monotonic() - before, 15)
            os.close(write)
            os.waitpid(child, 0)

    def test_a_fork_while_a_thread_waits(self):
        with espalier.open(SEARCH, "s") as study, concurrent.futures.ThreadPoolExecutor() as pool:
            os.kill(study._process.pid, signal.SIGSTOP)
            asked = pool.submit(study.ask)
            time.sleep(0.2)
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(study.ask().id)
            os.kill(study._process.pid, signal.SIGCONT)
            self.assertEqual(os.waitpid(child, 0)[1] >> 8, 1 - asked.result(20).id)

    def test_waiting(self):
        with espalier.open({**SEARCH, "algorithm": HALVING}, "s") as study:
            trials = study.ask(9)
            self.assertEqual(len(trials), 4)
            self.assertIsNone(study.ask(wait=False))
            with self.assertRaisesRegex(RuntimeError, "until open ones are told: 0, 1, 2, 3"):
                study.ask()
            with concurrent.futures.ThreadPoolExecutor() as pool:
                for trial in trials[1:]:
                    study.tell(trial, trial.id)
                later = pool.submit(study.ask)
                time.sleep(0.2)
                self.assertFalse(later.done())
                study.tell(trials[0], 0)
                self.assertEqual(later.result(20).until, 2)
        # What another Study of this thread has, as one of an interrupted cell that a traceback keeps.
        with espalier.open({**SEARCH, "algorithm": HALVING}, "t") as study, espalier.open("t") as other:
            study.tell_all((trial, 1) for trial in study.ask(3))
            self.assertEqual(other.ask().id, 3)
            self.assertEqual(study.ask().id, 3)
            with self.assertRaisesRegex(RuntimeError, "until open ones are told: 3 "):
                study.ask()
            self.assertEqual(other.status()["waiting"], 0)
        with espalier.open("t") as study:      # one thread asks, and others evaluate
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                jobs = [pool.submit(self.late, study, trial) for trial in study]
        self.assertEqual([job.result().verdict for job in jobs][-1], "stop")
        with espalier.open({**SEARCH, "algorithm": HALVING}, "u") as study, multiprocessing.get_context("fork").Pool(2) as pool:
            for trial, value in pool.imap_unordered(evaluated, study):    # a thread of the pool asks
                study.tell(trial, value)
            self.assertEqual(study.status()["status"], "done")
        with espalier.open({**SEARCH, "algorithm": HALVING}, "v") as study, multiprocessing.get_context("fork").Pool(2) as pool:
            jobs = [pool.apply_async(tell, (study, trial)) for trial in study]    # processes tell
            self.assertEqual(jobs[-1].get(20), "stop")

    @staticmethod
    def late(study, trial):
        time.sleep(0.1)
        return study.tell(trial, square(trial.params))

    def test_the_same_seed(self):
        config = {**SEARCH, "algorithm": {"use": "tpe", "trials": 25, "iterations_max": 1}}
        with espalier.open(config, "a") as study:
            whole = evaluate(study)
        with espalier.open(config, "b") as study:
            parts = evaluate(study, 12)
        with espalier.open("b") as study:
            parts += evaluate(study, 5)
            kill(study)                        # and it is started again
            parts += evaluate(study)
        self.assertEqual(whole, parts)

    def test_the_same_order(self):
        rungs = {"iterations_min": 1, "iterations_max": 4, "eta": 2}
        for algorithm in ({"use": "asha", "trials": 7, **rungs}, {"use": "sha", "trials": 8, **rungs},
                          {"use": "hyperband", **rungs}, {"use": "bohb", "trials": 10, **rungs},
                          {"use": "pbt", "population": 4, "interval": 2, "iterations_max": 6},
                          {"use": "median", "trials": 5, "iterations_max": 4}):
            config = {**SEARCH, "algorithm": algorithm}
            whole = drive(config)
            for first in (1, 2):               # a restart before each step: in one run this kind, in one that
                with self.subTest(algorithm=algorithm["use"], first=first):
                    self.assertEqual(drive(config, lambda step: ("kill", "close")[(step + first) % 2]), whole)

    def test_killed(self):
        with espalier.open(SEARCH, "s") as study:
            for number in range(4):
                trials = study.ask(5)
                study.tell(trials[0], number)
                if number % 2:
                    kill(study)
                study.tell_all((trial, number) for trial in trials[1:])
                kill(study)
            self.assertEqual(study.status()["completed"], 20)
            self.assertEqual(len(evaluate(study)), 20)
            self.assertEqual(study.status()["completed"], 40)

    def test_killed_as_it_opens(self):
        with open("once", "w") as file:
            file.write("#!/bin/sh\nif mkdir begun 2>/dev/null; then kill -9 $$; fi\n"
                       "if mkdir again 2>/dev/null; then exit 4; fi\nexec '%s' \"$@\"\n" % program.find())
        os.chmod("once", 0o755)
        with mock.patch.dict(os.environ, ESPALIER=os.path.abspath("once")):
            with espalier.open(SEARCH, "s") as study:
                self.assertEqual(len(evaluate(study)), 40)
            self.assertTrue(os.path.isdir("again"))
            os.environ["ESPALIER"] = "/bin/false"
            with self.assertRaisesRegex(espalier.Error, "ended with status 1"):
                espalier.open(SEARCH, "t")

    def test_killed_before_the_answer(self):
        with espalier.open({**SEARCH, "algorithm": HALVING}, "s") as study:
            trials = study.ask(4)
            study.tell_all((trial, trial.id) for trial in trials[1:])
            study._send(b'{"op": "tell", "trial": 0, "value": 0}\n')
            self.assertIn(b'"pause"', study._process.stdout.readline())
            kill(study)                        # when it has been promoted
            self.assertEqual(study.tell(trials[0], 0).verdict, "pause")
            self.assertEqual([(trial.id, trial.until) for trial in study.ask(3)], [(0, 2), (1, 2)])
        population = {"use": "pbt", "population": 4, "interval": 2, "iterations_max": 6}
        with espalier.open({**SEARCH, "algorithm": population}, "p") as study:
            answer, trials = {}, study.ask(4)
            for iteration in (1, 2):
                for trial in trials:
                    if not answer.get("save"):
                        told = {"op": "tell", "trial": trial.id, "iteration": iteration, "value": trial.id}
                        study._send(json.dumps(told).encode() + b"\n")
                        answer = json.loads(study._process.stdout.readline())
            self.assertTrue(answer["save"])
            kill(study)
            self.assertTrue(study.tell(answer["trial"], answer["trial"], 2).save)

    def test_killed_where_signals_do_something_else(self):
        # A broken pipe then ends the process, and nobody knows how a child ended.
        for number, action in ((signal.SIGCHLD, signal.SIG_IGN), (signal.SIGPIPE, signal.SIG_DFL)):
            before = signal.signal(number, action)
            try:
                with self.subTest(number), espalier.open(SEARCH, "s%d" % number) as study:
                    trial = study.ask()
                    kill(study)
                    study._process.wait()
                    self.assertEqual(study.tell(trial, 1).state, "completed")
            finally:
                signal.signal(number, before)

    def test_killed_where_its_directory_is_gone(self):
        with espalier.open(SEARCH, "s") as study:
            os.mkdir("gone")
            os.chdir("gone")
            os.rmdir("../gone")
            kill(study)
            self.assertEqual(study.status()["status"], "running")
            os.chdir(self.folder.name)

    def test_without_its_journal(self):
        with espalier.open(SEARCH, "s") as study:
            study.tell(study.ask(), 1)
        os.rename("s/journal", "kept")
        with self.assertRaisesRegex(espalier.Error, "the journal in 's' is missing"):
            espalier.open("s")
        with self.assertRaisesRegex(espalier.Error, "the journal in 's' is missing"):
            espalier.open(SEARCH, "s")
        self.assertEqual([row["trial"] for row in espalier.load("s").rows("reports")], [0])
        os.rename("kept", "s/journal")
        with espalier.open("s") as study:
            self.assertEqual(study.status()["completed"], 1)
            os.unlink("s/journal")
            with self.assertRaisesRegex(espalier.Error, "the journal in '.*/s' was deleted"):
                study.tell(study.ask(), 1)

    def test_several_clients(self):
        with espalier.open(SEARCH, "s") as study, espalier.open("s") as other:
            mine = study.ask()
            other.tell(mine.id, 0.5)           # as one does to whom it was handed out, too
            self.assertEqual(study.tell(mine, 0.6).state, "completed")
            with self.assertRaisesRegex(ValueError, "not open: it is completed"):
                study.tell(mine, 0.7)
            relay = other._process.pid         # finds a request and the end of the other process at once
            os.kill(relay, signal.SIGSTOP)
            kill(study)
            study._process.wait()
            threading.Timer(0.3, os.kill, (relay, signal.SIGCONT)).start()
            self.assertEqual(other.best()["metric"], 0.5)
        error = pickle.loads(pickle.dumps(espalier.Error("words", 3)))
        self.assertEqual((str(error), error.status), ("words", 3))

    def test_a_client_that_is_killed(self):
        with espalier.open(SEARCH, "s") as study:
            other = subprocess.Popen([sys.executable, "-c", "import espalier, time\nstudy = espalier.open('s')\n"
                                      "print(study.ask().id, flush=True)\ntime.sleep(60)"], stdout=subprocess.PIPE)
            self.assertEqual(other.stdout.readline(), b"0\n")
            other.kill()
            other.wait()
            other.stdout.close()
            time.sleep(0.3)
            self.assertEqual(study.ask().id, 0)

    def test_processes(self):
        with espalier.open(SEARCH, "s") as study:
            with pickle.loads(pickle.dumps(study)) as same:
                self.assertEqual(same.directory, study.directory)
            with multiprocessing.get_context("fork").Pool(8) as pool:
                told = pool.map(worker, ["s"] * 8, chunksize=1)
            self.assertEqual(sorted(sum(told, [])), list(range(40)))
            self.assertEqual(study.status()["completed"], 40)

    def test_processes_that_are_killed(self):
        random_, context, kills = random.Random(5), multiprocessing.get_context("fork"), 0
        asha = {"use": "asha", "trials": 60, "iterations_min": 1, "iterations_max": 9, "eta": 3}
        espalier.open({**SEARCH, "algorithm": asha}, "s").close()
        clients = [None] * 8
        while any(client is None or client.exitcode != 0 for client in clients):
            for number, client in enumerate(clients):
                if client is None or client.exitcode not in (None, 0):
                    clients[number] = context.Process(target=diary, args=("s", "diary-%d" % number))
                    clients[number].start()
            time.sleep(0.07 * random_.random())
            victim = random_.choice(clients).pid
            if random_.random() < 0.5:         # its engine, or its way to the engine of another one
                victim = next(children(victim), None)
            if victim and kills < 40:
                kills += 1
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        noted = set()
        for number in range(8):
            with open("diary-%d" % number) as file:
                noted.update(tuple(map(int, line.split())) for line in file)
        kept = {(row["trial"], row["iteration"]) for row in espalier.load("s").rows("reports")}
        self.assertEqual(noted - kept, set())
        self.assertGreater(len(noted), 100)

    def test_a_fork(self):
        with espalier.open(SEARCH, "s") as study:
            mine = study.ask()
            child = os.fork()
            if child == 0:
                os._exit(0 if study.ask().id == 1 else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(study.tell(mine, 1).state, "completed")

    def test_a_name_that_is_not_utf8(self):
        for arguments in ((SEARCH, b"\xe9"), (b"\xe9",)):
            with espalier.open(*arguments) as study:
                trial = study.ask()
                kill(study)
                self.assertEqual(study.tell(trial, 1).state, "completed")
        self.assertEqual(len(study.results().rows("reports")), 2)

    def test_a_short_space(self):
        short = {**SEARCH, "space": {"x": (-1.0, 1.0), "word": ['a"b', "c"]}}
        with espalier.open(SEARCH, "long") as long, espalier.open(short, "short") as study:
            self.assertEqual([t.params for t in long.ask(9)], [t.params for t in study.ask(9)])

    def test_where_nothing_can_be_written(self):
        opened = os.open

        def refuse(path, *more, **named):
            if os.path.dirname(path) == os.getcwd():
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return opened(path, *more, **named)

        with mock.patch("espalier.config.os.open", refuse):
            self.assertEqual(espalier.minimize(lambda params: 1, {"x": (0, 9)}, trials=2).value, 1)
        self.assertEqual(os.listdir("."), [])

    def test_ends_by_what_it_has_found(self):
        calls = []

        def count(params):
            calls.append(params)
            return len(calls) if len(calls) != 4 else 0.5

        best = espalier.minimize(count, {"x": (-1.0, 1.0)}, trials=30, target=0.5)
        self.assertEqual((len(calls), best.value, best.trial), (4, 0.5, 3))
        del calls[:]
        best = espalier.minimize(count, {"x": (-1.0, 1.0)}, trials=30, patience=5)
        self.assertEqual((len(calls), best.value), (4 + 5, 0.5))
        del calls[:]
        best = espalier.maximize(count, {"x": (-1.0, 1.0)}, trials=30, target=6)
        self.assertEqual((len(calls), best.value), (6, 6))
        with self.assertRaisesRegex(espalier.Error, "experiment.patience: .*below its minimum 1"):
            espalier.minimize(count, {"x": (-1.0, 1.0)}, patience=0)

    def test_trials_that_are_out_when_the_target_is_reached(self):
        given = {**SEARCH, "experiment": {**SEARCH["experiment"], "target": 0.5}}
        with espalier.open(given, "found") as study:
            first, second, third = study.ask(3)
            self.assertFalse(first.state == "unfinished")
            study.tell(first, 0.5, iteration=1)
            verdict = study.tell(second, 0.1, iteration=1)
            self.assertEqual((verdict.verdict, verdict.state), ("stop", "unfinished"))
            self.assertEqual(study.fail(third, "too late").state, "unfinished")
            self.assertIsNone(study.ask())
            self.assertEqual(study.status()["reason"], "the target 0.5 was reached by trial 0 at iteration 1")
            self.assertEqual((study.best()["trial"], study.best()["metric"]), (0, 0.5))

    def test_empty_values_of_choices(self):
        values, seen = [None, (), [1], {}, [[]], ""], []
        with tempfile.TemporaryDirectory() as folder:
            espalier.minimize(lambda p: seen.append(p["hidden"]) or 1.0, {"hidden": values}, trials=6, dir=os.path.join(folder, "x"), algorithm="random")
        self.assertEqual(sorted(map(repr, seen)), sorted(map(repr, values)))

    def test_values_of_any_kind(self):
        space = {"hidden": [(64, 64), [128], "x"], "most": [None, "sqrt", 0.5], "d": [{"a": [1, None]}, {"a": 2}]}
        wanted, seen = {"hidden": (64, 64), "most": None, "d": {"a": [1, None]}}, []

        def distance(params):
            seen.append(params)
            return sum(repr(params[name]) != repr(value) for name, value in wanted.items())

        first = {"hidden": (64, 64), "most": None, "d": {"a": 2}}
        best = espalier.minimize(distance, space, algorithm="grid", dir="kinds")
        self.assertEqual((best.value, best.params, len(seen)), (0, wanted, 18))
        self.assertEqual(espalier.load("kinds").best()["params"], {"hidden": [64, 64], "most": None, "d": {"a": [1, None]}})
        espalier.minimize(distance, space, trials=3, first=[first])
        self.assertEqual(repr(seen[18]), repr(first))

    def test_trials_of_any_algorithm(self):
        for algorithm, trials, calls in (("grid", None, 9), ("grid", 4, 4), ({"use": "tpe"}, 7, 7), ({"use": "grid"}, None, 9),
                                         ({"use": "random", "trials": 5}, 7, 5)):
            seen = []
            espalier.minimize(lambda params: seen.append(params) or 1.0, {"a": [1, 2, 3], "b": ["x", "y", "z"]},
                              algorithm=algorithm, trials=trials)
            self.assertEqual(len(seen), calls, algorithm)

    def test_functions(self):
        self.assertIs(type(espalier.minimize(lambda params: 1, {"x": (0, 9)}, trials=2).value), float)
        best = espalier.minimize(square, {"x": (-1.0, 1.0)}, trials=30, seed=1)
        self.assertLess(best.value, 0.1)
        self.assertAlmostEqual(best.value, square(best.params), 14)
        best = espalier.maximize(lambda params: params["n"] + (params["c"] == "b"), {
            "n": (1, 9), "c": ["a", "b"], "s": (1e-3, 1.0, "log")}, trials=5, algorithm="random",
            first=[{"n": 9, "c": "b", "s": 0.1}], dir="kept")
        self.assertEqual((best.value, best.trial), (10, 0))
        self.assertEqual(len(espalier.load("kept").rows("trials")), 5)

        def picky(params):
            return 1 / (params["n"] > 1)

        with self.assertRaises(ZeroDivisionError):
            espalier.minimize(picky, {"n": (0, 4)}, trials=20)
        self.assertEqual(espalier.minimize(picky, {"n": (0, 4)}, trials=20, catch=(ZeroDivisionError,)).value, 1)


if __name__ == "__main__":
    unittest.main()
