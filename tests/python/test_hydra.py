"""hydra-espalier-sweeper with the real Hydra, where it is installed."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = importlib.util.find_spec("hydra") is not None
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python")
APP = """
import json, math, sys
import hydra
from omegaconf import OmegaConf

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config):
    with open(config.log, "a") as log:
        log.write(json.dumps(OmegaConf.to_container(config)) + "\\n")
    if config.mode == "none" or config.mode == "third" and len(open(config.log).readlines()) == 3:
        return None
    if config.mode == "all" or config.mode == "some" and config.optimizer.lr > 0.01:
        raise RuntimeError("out of memory")
    return (math.log10(config.optimizer.lr) + 2.5) ** 2 + config["weight-decay"] + abs(config.layers - 3)

main()
"""
CONFIG = """
log: %s
mode: fine
optimizer: {lr: 0.1, name: sgd}
weight-decay: 0.5
layers: 2
words: [a]
"""


@unittest.skipUnless(HERE, "hydra-core is not here")
class SweeperTest(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.dir = kept.name
        os.mkdir(os.path.join(self.dir, "conf"))
        self.write("app.py", APP)
        self.write("conf/config.yaml", CONFIG % os.path.join(self.dir, "log"))

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as file:
            file.write(text)

    def sweep(self, *arguments):
        """Its exit status, what it printed, what the jobs were given."""
        path = os.pathsep.join([SOURCE, os.path.join(SOURCE, "hydra-sweeper"), os.environ.get("PYTHONPATH", "")])
        ended = subprocess.run([sys.executable, "app.py", "--multirun", "hydra/sweeper=espalier", "hydra.sweep.dir=out",
                                *arguments], cwd=self.dir, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, universal_newlines=True, timeout=300)
        try:
            with open(os.path.join(self.dir, "log")) as log:
                jobs = [json.loads(line) for line in log]
        except FileNotFoundError:
            jobs = []
        return ended.returncode, ended.stdout, jobs

    def best(self):
        from omegaconf import OmegaConf
        return OmegaConf.load(os.path.join(self.dir, "out", "optimization_results.yaml"))

    def test_names_and_values_as_hydra_writes_them(self):
        status, text, jobs = self.sweep(
            "hydra.sweeper.trials=12", "hydra.sweeper.seed=1", "optimizer.lr=tag(log,interval(1e-4,1e-1))",
            "weight-decay=interval(0,1)", "layers=range(1,10,step=2)", "optimizer.name=adam,'a b',sgd", "words=[x,y]")
        self.assertEqual(status, 0, text)
        self.assertEqual(len(jobs), 12)
        self.assertLessEqual({job["layers"] for job in jobs}, {1, 3, 5, 7, 9})
        self.assertLessEqual({job["optimizer"]["name"] for job in jobs}, {"adam", "a b", "sgd"})
        self.assertTrue(all(job["words"] == ["x", "y"] and type(job["weight-decay"]) is float for job in jobs))
        self.assertTrue(all(1e-4 <= job["optimizer"]["lr"] <= 1e-1 for job in jobs))
        best = self.best()
        self.assertEqual(set(best.best_params), {"optimizer.lr", "weight-decay", "layers", "optimizer.name"})
        self.assertIn("best value: %s" % best.best_value, text)

    def test_texts_that_need_quotes(self):
        status, text, jobs = self.sweep("hydra.sweeper.algorithm=grid", "optimizer.name=choice('a&b','1e-6','null','x y',\"it's\",plain)")
        self.assertEqual(status, 0, text)
        self.assertEqual(sorted(job["optimizer"]["name"] for job in jobs), sorted(["a&b", "1e-6", "null", "x y", "it's", "plain"]))
        os.remove(os.path.join(self.dir, "log"))
        self.write("conf/config.yaml", CONFIG % os.path.join(self.dir, "log") + """
hydra:
  sweeper:
    algorithm: grid
    params:
      optimizer.name: ["a&b", "1e-6", 1.0e-6, null, [1, "2"], {a: [true]}]
""")
        status, text, jobs = self.sweep("hydra.sweep.dir=other")
        self.assertEqual(status, 0, text)
        self.assertEqual({repr(job["optimizer"]["name"]) for job in jobs}, {"'a&b'", "'1e-6'", "1e-06", "None", "[1, '2']", "{'a': [True]}"})

    def test_another_project_of_this_name(self):
        os.mkdir(os.path.join(self.dir, "espalier"))
        self.write("espalier/__init__.py", "")
        status, text, _ = self.sweep("layers=range(1,4)")
        self.assertNotEqual(status, 0)
        self.assertIn("is another project", text)

    def test_a_space_from_the_configuration_and_jobs_at_once(self):
        self.write("conf/config.yaml", CONFIG % os.path.join(self.dir, "log") + """
hydra:
  sweeper:
    trials: 5
    jobs: 2
    direction: maximize
    params:
      layers: range(1, 5)
      optimizer.lr: choice(0.01, 0.02)
""")
        status, text, jobs = self.sweep("optimizer.lr=0.05")
        self.assertEqual(status, 0, text)
        self.assertEqual([job["optimizer"]["lr"] for job in jobs], [0.05] * len(jobs))
        self.assertEqual(set(self.best().best_params), {"layers"})

    def test_jobs_that_fail(self):
        status, text, jobs = self.sweep("mode=some", "hydra.sweeper.trials=8", "optimizer.lr=tag(log,interval(1e-3,1e-1))")
        self.assertEqual(status, 0, text)
        self.assertEqual(len(jobs), 8)
        self.assertLess(self.best().best_params["optimizer.lr"], 0.01)

    def test_all_jobs_fail(self):
        status, text, jobs = self.sweep("mode=all", "hydra.sweeper.trials=100", "optimizer.lr=interval(0.1,0.2)")
        self.assertNotEqual(status, 0)
        self.assertIn("out of memory", text)
        self.assertLessEqual(len(jobs), 10)

    def test_a_job_that_returns_nothing(self):
        status, text, jobs = self.sweep("mode=none", "optimizer.lr=interval(0.1,0.2)")
        self.assertNotEqual(status, 0)
        self.assertIn("a job must return the number to minimize, not None", text)
        self.assertEqual(len(jobs), 1)

    def test_a_sweep_that_was_cut_short_is_continued(self):
        arguments = "hydra.sweeper.trials=6", "optimizer.lr=interval(0.001,0.2)", "weight-decay=0"
        self.assertNotEqual(self.sweep("mode=third", *arguments)[0], 0)
        logs = [os.path.join(self.dir, "out", str(job), ".hydra", "overrides.yaml") for job in range(2)]
        before = [open(log).read() for log in logs]
        status, text, jobs = self.sweep(*arguments)
        self.assertEqual(status, 0, text)
        self.assertEqual(len(jobs), 3 + 4)     # the third job again, and those that were left
        self.assertEqual([open(log).read() for log in logs], before)
        self.assertEqual(sorted(name for name in os.listdir(os.path.join(self.dir, "out")) if name.isdigit()),
                         sorted(map(str, range(6))))

    def test_a_grid(self):
        status, text, jobs = self.sweep("hydra.sweeper.algorithm=grid", "layers=1,2,3", "optimizer.name=adam,sgd")
        self.assertEqual(status, 0, text)
        self.assertEqual(len({(job["layers"], job["optimizer"]["name"]) for job in jobs}), 6)

    def test_what_is_wrong_is_said(self):
        for arguments, words in (((), "there is nothing to search"),
                                 (("layers=range(1,5)", "hydra.sweeper.direction=up"), "minimize or maximize"),
                                 (("layers=range(1,5)", "hydra.sweeper.algorithm=anneal"), "anneal")):
            status, text, _ = self.sweep(*arguments)
            self.assertNotEqual(status, 0)
            self.assertIn(words, re.sub(r"\s+", " ", text))


if __name__ == "__main__":
    unittest.main()
