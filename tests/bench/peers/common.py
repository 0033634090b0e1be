"""common.py - the ask/tell loop that all peers are put through; bench_algorithms.c runs the same.

Of 16 trials that train, one at random tells its result at its next rung (1, 3, 9, 27, 81 iterations), a cheap
function of its configuration and some noise.  A peer is an object with

    ask()                     the next job, or None while there is none
    tell(job, iteration, loss) -> does the job go on?

and a job has config (a dict), begun (iterations it has done) and fresh (is it a new trial?).
"""
import json
import random
import sys
import time

SLOTS = 16
RUNGS = (1, 3, 9, 27, 81)
# name: ("real", low, high), ("log", low, high), ("int", low, high), ("choice", labels)
FIVE = {"a": ("real", 0.0, 1.0), "b": ("real", 0.0, 1.0), "lr": ("log", 1e-5, 1.0), "n": ("int", 1, 100),
        "c": ("choice", ["p", "q", "r", "s"])}
TEN = {**{name: ("real", 0.0, 1.0) for name in "abdef"}, **{name: ("log", 1e-5, 1.0) for name in "gh"},
       "n": ("int", 1, 100), "c": ("choice", ["p", "q", "r", "s"]), "k": ("choice", ["p", "q", "r"])}
MODELS = ("tpe", "bohb")


class Job:
    __slots__ = ("config", "begun", "fresh", "own")

    def __init__(self, config, own, begun=0, fresh=True):
        self.config, self.own, self.begun, self.fresh = config, own, begun, fresh


def loss_of(config, iteration):
    total = random.random() / iteration
    for value in config.values():
        total += (value - 0.3) ** 2 if isinstance(value, float) else 0.1
    return total


def drive(peer, rungs, limit_s):
    """Runs the peer dry, or for so long; (trials, results, seconds of the processor, came it to its end?)."""
    running, trials, results, dry = [], 0, 0, False
    began = time.process_time()
    while True:
        while len(running) < SLOTS and not dry:
            job = peer.ask()
            if job is None:
                break
            trials += job.fresh
            running.append([job, job.begun])
        if not running:
            return trials, results, time.process_time() - began, True
        if results % 64 == 0 and time.process_time() - began > limit_s:
            return trials, results, time.process_time() - began, False
        at = random.randrange(len(running))
        job, done = running[at]
        iteration = next(r for r in rungs if r > done)
        results += 1
        if peer.tell(job, iteration, loss_of(job.config, iteration)):
            running[at][1] = iteration
        else:
            running[at] = running[-1]
            running.pop()


def main(name, version, loads):
    """PROGRAM LOAD TRIALS LIMIT: runs one load and prints what it took as JSON; without arguments the loads it has."""
    if len(sys.argv) != 4:
        print(json.dumps({"peer": name, "version": version, "loads": sorted(loads)}))
        return
    load, trials, limit_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    random.seed(1)
    peer = loads[load](TEN if load in MODELS else FIVE, trials)
    made, results, took, ended = drive(peer, (1,) if load in MODELS + ("random",) else RUNGS, limit_s)
    print(json.dumps({"peer": name, "version": version, "load": load, "trials": made, "results": results,
                      "ended": ended, "cpu_s": round(took, 4), "trials_per_s": made / took, "results_per_s": results / took}))
