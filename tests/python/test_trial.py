"""The helper where torch.distributed is in use: every rank gets rank 0's verdict."""

import collections
import os
import re
import tempfile
import unittest

import espalier

# What the helper uses of torch.distributed, with files for a store.
TORCH = """
import fcntl, os, types
folder = os.path.join(os.environ["ESPALIER_RUN"], "store-" + os.environ["ESPALIER_GANG"])
os.makedirs(folder, exist_ok=True)
class Store:
    def set(self, key, value):
        with open(os.path.join(folder, key.replace("/", "-")), "w") as f:
            f.write(value)
    def get(self, key):
        with open(os.path.join(folder, key.replace("/", "-")), "rb") as f:
            return f.read()
    def add(self, key, more):
        with open(os.path.join(folder, key.replace("/", "-")), "a+") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            f.seek(0)
            value = int(f.read() or 0) + more
            f.truncate(0)
            f.write(str(value))
        return value
store = Store()
is_available = is_initialized = lambda: True
distributed_c10d = types.SimpleNamespace(_get_default_store=lambda: store)
"""
TRAIN = """
import os
import espalier.trial
import torch.distributed
run = espalier.trial.start()
for i in run.iterations():
    verdict = run.report(i, {"loss": run.params["x"] + run.rank})
    print(" ".join(map(str, ("rank", run.rank, "iteration", i, *verdict))) + chr(10), end="", flush=True)
    if verdict.save and run.rank == 0:
        open(os.path.join(run.save, "model"), "w").close()
        run.saved(i)
"""
SEARCH = {
    "experiment": {"name": "ranks", "metric": "loss", "goal": "minimize"},
    "trial": {"command": ["python3", "train.py"], "gpus_min": 2, "gpus_max": 2, "retries": 0},
    "space": {"x": {"type": "real", "low": 0.0, "high": 1.0}},
    "algorithm": {"use": "sha", "trials": 3, "iterations_min": 2, "iterations_max": 6},
    "allocator": {"use": "static", "gpus": 2},
    "cloud": {"use": "local", "device": "cpu", "gpus": 2},
}


class Ranks(unittest.TestCase):
    def test_same_verdict(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            self.addCleanup(os.chdir, "/")
            os.mkdir("torch")
            for name, text in (("torch/__init__.py", ""), ("torch/distributed.py", TORCH), ("train.py", TRAIN)):
                with open(name, "w") as file:
                    file.write(text)
            run = espalier.run(SEARCH, "run", progress=False)
            self.assertEqual((run.meta()["status"], run.best()["iteration"]), ("done", 6))
            self.assertLess(run.best()["metric"], 1)        # rank 0's
            for trial in range(3):
                with open("run/trials/%d/log" % trial) as file:
                    said = re.findall(r"rank (\d) (iteration \d+ .*)", file.read())
                self.assertGreaterEqual(len(said), 4)
                self.assertEqual(set(collections.Counter(line for _, line in said).values()), {2}, said)


if __name__ == "__main__":
    unittest.main()
