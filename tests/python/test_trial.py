"""The helper where torch.distributed is in use: every rank gets rank 0's verdict; and where threads report."""

import collections
import itertools
import json
import os
import re
import select
import signal
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import espalier
import espalier_trial

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


class Threads(unittest.TestCase):
    def test_each_gets_its_own_answer(self):
        driver, trial = socket.socketpair()
        self.addCleanup(driver.close)
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        with mock.patch.dict(os.environ, ESPALIER_TRIAL="0", ESPALIER_BUDGET="900",
                             ESPALIER_REPORT_FD=str(trial.detach())):
            run = espalier_trial.Run({}, 9)
            answers, numbers = [], itertools.count(1)

            def report():
                for iteration in itertools.islice(numbers, 50):
                    try:
                        answers.append((iteration, run.report(iteration, {"loss": 1}).budget - 1000))
                    except ValueError:         # the other thread has reported a later one
                        pass

            threads = [threading.Thread(target=report, daemon=True) for _ in range(2)]
            for thread in threads:
                thread.start()
            until = time.monotonic() + 20
            with driver.makefile("rb") as lines:
                while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
                    if select.select([driver], [], [], 0.1)[0]:
                        iteration = json.loads(lines.readline())["iteration"]
                        time.sleep(0.001)
                        driver.sendall(b"continue %d\n" % (1000 + iteration))
            for thread in threads:
                thread.join(10)
                self.assertFalse(thread.is_alive())
            self.assertGreater(len(answers), 20)
            self.assertEqual([iteration for iteration, _ in answers], [answer for _, answer in answers])


if __name__ == "__main__":
    unittest.main()
