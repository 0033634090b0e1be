"""Searches run from Python, and what is read from them."""

import concurrent.futures
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import espalier
from espalier import config, program, running

TRAIN = """
import espalier.trial
run = espalier.trial.start()
for i in run.iterations():
    run.report(i, {"loss": abs(run.params["x"] - 3) / i, "speed": 2 * i})
"""
SEARCH = {
    "experiment": {"name": "apple", "metric": "loss", "goal": "minimize", "seed": 3},
    "trial": {"command": ["python3", "train.py"], "gpus_max": 1, "checkpoint": False},
    "space": {"x": {"type": "real", "low": 0.0, "high": 10.0},
              "word": {"type": "choice", "values": ['a"b', "c\\d", "e\nf", "\u00e4"]}},
    "algorithm": {"use": "random", "trials": 3, "iterations_max": 2},
    "allocator": {"use": "fair"},
    "cloud": {"use": "local", "device": "cpu", "gpus": 2},
}
try:
    import pandas
except ImportError:
    pandas = None


class Config(unittest.TestCase):
    def test_values(self):
        self.assertEqual(config.text({"a": {"b": [1, 2], "c": (1, "x"), "d": {"e": [{"f": 1e-9}], "h": {}}}, "g": True}),
                         'a = {\n  b = [ 1, 2 ];\n  c = ( 1, "x" );\n  d = {\n    e = ( { f = 1e-09; } );\n'
                         '    h = {\n    };\n  };\n};\ng = true;\n')
        self.assertEqual(config.value_text({"d": [1, 2.5]}), "{ d = ( 1, 2.5 ); }")
        self.assertEqual(config.text({"trial": {"env": {"A": "1", "RANK": None}}}),
                         'trial = {\n  env = {\n    A = "1";\n    RANK = (  );\n  };\n};\n')
        self.assertEqual(config.sets({"trial.env.RANK": None, "trial.env": {"B": None}}),
                         ["--set", "trial.env.RANK=(  )", "--set", "trial.env={ B = (  ); }"])
        with self.assertRaises(TypeError):     # nowhere else
            config.text({"trial": {"gpus_max": None}})
        self.assertEqual(config.value_text({"a b": 1, "true": 2}), '{ "a b" = 1; "true" = 2; }')
        self.assertEqual(config.value_text(3.0), "3.0")
        self.assertEqual(config.value_text('a"\\\n'), '"a\\"\\\\\\x0a"')
        for wrong in (float("nan"), "a\0b", {"": 1}, {3: 1}):
            with self.assertRaises(ValueError):
                config.value_text(wrong)


class Search(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.chdir(folder.name)
        cls.addClassCleanup(os.chdir, "/")
        with open("train.py", "w") as file:
            file.write(TRAIN)
        cls.run_ = espalier.run(SEARCH, "one", progress=False)

    def test_interrupts(self):
        code = ("import espalier, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
                "espalier.run(%r, 'long-%%s' %% sys.argv[1], progress=False, set={'algorithm.iterations_max': 10**5})")
        for number, words in ((signal.SIGINT, "espalier.resume('long-%d') continues"), (signal.SIGUSR1, "")):
            child = subprocess.Popen([sys.executable, "-c", code % SEARCH, str(int(number))], stderr=subprocess.PIPE, text=True)
            self.addCleanup(child.kill)
            dir = "long-%d" % number
            while not (os.path.exists(dir + "/results.db") and espalier.load(dir).best()):
                time.sleep(0.05)
            child.send_signal(number)          # it alone, not its processes
            self.assertIn(words % number if words else "", child.communicate(timeout=60)[1])
            self.assertEqual(espalier.load(dir).meta()["status"], "interrupted")

    def test_best(self):
        said = subprocess.run(program.command("best", "one", "--json"), stdout=subprocess.PIPE, check=True).stdout
        expected, best = json.loads(said)["best"], self.run_.best()
        self.assertAlmostEqual(best["metric"], expected["metric"], 12)
        for key in ("trial", "iteration", "params", "checkpoint"):
            self.assertEqual(best[key], expected[key])

    def test_callbacks(self):
        reports, ends = [], []
        run = espalier.run(SEARCH, "called", progress=False, on_report=reports.append, on_end=ends.append)
        rows = run.rows("reports")
        self.assertEqual(sorted((one["trial"], one["iteration"], one["metric"]) for one in reports),
                         sorted((row["trial"], row["iteration"], row["metric"]) for row in rows))
        params = {row["id"]: json.loads(row["params"]) for row in run.rows("trials")}
        for one in reports + ends:
            self.assertEqual(one["params"], params[one["trial"]])
        self.assertEqual(sorted((one["trial"], one["state"]) for one in ends),
                         sorted((row["id"], row["state"]) for row in run.rows("trials")))
        self.assertEqual({one["metrics"]["loss"] for one in reports}, {one["metric"] for one in reports})
        first = len(ends)
        espalier.resume("called", trials="+2", progress=False, on_end=ends.append)
        self.assertEqual(sorted(one["trial"] for one in ends[first:]), [3, 4])

    def test_a_callback_that_raises_stops_the_run(self):
        def stop(report):
            time.sleep(1)                      # meanwhile the program fills the pipe
            raise ZeroDivisionError
        with self.assertRaises(ZeroDivisionError):
            espalier.run(SEARCH, "raised", progress=False, set={"algorithm.iterations_max": 10**5}, on_report=stop)
        self.assertEqual(espalier.load("raised").meta()["status"], "interrupted")
        said = subprocess.run(program.command("status", "raised"), stdout=subprocess.PIPE, check=True).stdout
        self.assertNotRegex(said, rb"\d running")

    def test_rows(self):
        rows = self.run_.rows("trials")
        self.assertEqual([row["id"] for row in rows], [0, 1, 2])
        self.assertLessEqual({json.loads(row["params"])["word"] for row in rows},
                             set(SEARCH["space"]["word"]["values"]))
        self.assertEqual(len(self.run_.rows("report_metrics")), 12)
        with self.assertRaisesRegex(KeyError, "there are"):
            self.run_.rows("trials; DROP TABLE trials")

    def test_meta(self):
        meta = espalier.load("one").meta()
        self.assertEqual((meta["status"], meta["metric"], meta["goal"]), ("done", "loss", "minimize"))
        self.assertIn("apple: done, 3 trials, best trial", repr(self.run_))

    @unittest.skipIf(pandas is None, "no pandas")
    def test_frames(self):
        trials, curves = self.run_.trials(), self.run_.curves()
        self.assertEqual(len(trials), 3)
        self.assertEqual(trials.params_x.dtype, float)
        self.assertEqual(len(curves), 6)
        self.assertEqual(list(curves[curves.trial == 1].metrics_speed), [2, 4])
        best = trials.loc[trials.metric.idxmin()]
        self.assertEqual((best.id, best.params_x), (self.run_.best()["trial"], self.run_.best()["params"]["x"]))

    @unittest.skipIf(pandas is not None, "pandas is here")
    def test_no_pandas(self):
        with self.assertRaisesRegex(ImportError, r"espalier\[pandas\]"):
            self.run_.trials()

    def test_environment(self):
        code = ("import os, sys; print('loss %d' % len([name for name in ('RANK', 'MINE') if name in os.environ])); "
                "assert os.environ['THEIRS'] == 'a b'")
        search = {**SEARCH, "trial": {"command": [sys.executable, "-c", code], "metrics": {"pattern": "loss {loss}"},
                                      "gpus_max": 1, "torchrun": True, "env": {"MINE": None, "THEIRS": "a b"}},
                  "algorithm": {"use": "random", "trials": 1, "iterations_max": 1}}
        with mock.patch.dict(os.environ, MINE="1"):
            self.assertEqual(espalier.run(search, "env-1", progress=False).best()["metric"], 1)
            self.assertEqual(espalier.run(search, "env-2", progress=False, set={"trial.env.RANK": None}).best()["metric"], 0)
        search["trial"]["env"] = {"ESPALIER_RUN": None}
        with self.assertRaisesRegex(espalier.Error, "trial.env.ESPALIER_RUN: error: .*trial protocol"):
            espalier.run(search, "env-3", progress=False)

    def test_wrong(self):
        with self.assertRaisesRegex(espalier.Error, "did you mean 'random'") as caught:
            espalier.run(SEARCH, "wrong", set={"algorithm.use": "randon"}, progress=False)
        self.assertEqual(caught.exception.status, 2)
        with self.assertRaises(FileNotFoundError):
            espalier.load("wrong")
        self.assertFalse([name for name in os.listdir(".") if name.endswith(".cfg")])

    def test_damaged(self):
        with self.assertRaisesRegex(FileNotFoundError, "there is no directory .*/nowhere"):
            espalier.load("nowhere")
        with espalier.open({**SEARCH, "trial": {}}, "study") as study:
            study.tell(study.ask(), 1, 1)
        path = "study/results.db"
        for spoil, words in ((lambda: os.unlink(path), "has no results.db"), (lambda: os.truncate(path, 0), "has no tables"),
                             (lambda: os.truncate(path, 5000), "malformed.*if it is damaged"),
                             (lambda: open(path, "w").close() or os.truncate(path, 4096), "has no tables|not a database")):
            spoil()
            with self.assertRaisesRegex((FileNotFoundError, ValueError), words + ".*espalier.open.. that of a study"):
                espalier.load("study")
            espalier.open("study").close()
            self.assertEqual(len(espalier.load("study").rows("reports")), 1)

    def test_wrong_dict(self):
        before = set(os.listdir("."))
        named = {**SEARCH, "experiment": "apple"}, "experiment: error: 'experiment' must be a group, not a string"
        wrong = {**SEARCH, "space": {**SEARCH["space"], "x": (3, 1)}}, "space.x.low: error: low of 'x' is not below its high"
        for config_, words in (named, wrong):
            for progress in (False, True):
                shown = io.StringIO()
                with self.assertRaises(espalier.Error) as caught, contextlib.redirect_stderr(shown):
                    espalier.run(config_, progress=progress)
                self.assertEqual(str(caught.exception).splitlines()[0], words)
                self.assertEqual(words in shown.getvalue(), progress)
        with self.assertRaisesRegex(TypeError, "^experiment: None cannot be written"):
            espalier.run({"experiment": None})
        self.assertEqual(set(os.listdir(".")), before)

    def test_several_at_once(self):
        before = set(os.listdir("."))
        with concurrent.futures.ThreadPoolExecutor(3) as pool, mock.patch("time.strftime", return_value="now"):
            runs = [pool.submit(espalier.run, SEARCH, progress=False) for _ in range(3)]
            self.assertEqual({job.result().meta()["status"] for job in runs}, {"done"})
        self.assertEqual(set(os.listdir(".")) - before, {"apple-now", "apple-now-2", "apple-now-3"})

    def test_where_children_are_ignored(self):
        failing = {**SEARCH, "trial": {"command": ["false"], "gpus_max": 1}}
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            self.assertEqual(espalier.run(SEARCH, "ignored", progress=False).meta()["status"], "done")
            with self.assertRaisesRegex(espalier.Error, "the last failure: trial"):
                espalier.run(failing, "failing", progress=False)
            with self.assertRaisesRegex(espalier.Error, "did you mean"):
                espalier.run(SEARCH, set={"algorithm.use": "randon"}, progress=False)
        finally:
            signal.signal(signal.SIGCHLD, before)

    def test_notebook(self):
        shown = []
        handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
        display = types.SimpleNamespace(display=lambda data, raw, display_id: handle)
        modules = {"IPython": types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=1)),
                   "IPython.display": display}
        with mock.patch.dict(sys.modules, modules):
            run = espalier.run(SEARCH, "two")
        self.assertFalse(running._in_notebook())
        self.assertIn("3 trials: 3 completed", shown[-1])
        self.assertIn("best trial %d: %.6g at iteration 2" % (run.best()["trial"], run.best()["metric"]), shown[-1])


if __name__ == "__main__":
    unittest.main()
