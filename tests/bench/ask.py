#!/usr/bin/env python3
"""Ask and tell in figures: trials a second through the Python package, beside Optuna if that is importable.

    ask.py [--trials N] | tee figures    one JSON object per line
    ask.py --table <figures              the table of docs/results/ask-and-tell.md

wall_s is by the clock; cpu_s is the processor time of this process and of the program, which depends less on
other load.  one_ms is what one more trial takes when `at` are known: the mean of the last 50."""

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time

LAST = 50
NAMES = ["a", "b", "c", "d", "e"]


def f(params):
    return sum((params[name] - 0.1 * i) ** 2 for i, name in enumerate(NAMES))


def cpu():
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def figure(tool, sampler, what, trials, wall, used, **more):
    print(json.dumps({"tool": tool, "sampler": sampler, "what": what, "trials": trials, "wall_s": round(wall, 4),
                      "cpu_s": round(used, 4), "per_s": round(trials / wall, 1), **more}), flush=True)


def one_by_one(study, count):
    """The time of all, and the mean of the last few."""
    begun = time.perf_counter()
    for number in range(count):
        if number == count - LAST:
            late = time.perf_counter()
        trial = study.ask()
        study.tell(trial, f(trial.params))
    now = time.perf_counter()
    return now - begun, (now - late) / LAST


def measure_espalier(count):
    import espalier

    config = {"experiment": {"name": "speed", "metric": "loss", "goal": "minimize", "seed": 1},
              "space": {name: {"type": "real", "low": -1.0, "high": 1.0} for name in NAMES}}

    def opened(folder, use):
        return espalier.open({**config, "algorithm": {"use": use, "trials": count, "iterations_max": 1}},
                             os.path.join(folder, "s"))

    def asks(study, each):
        begun = time.perf_counter()
        for _ in range(count // each):
            study.ask(each)
        return time.perf_counter() - begun

    def batches(study, each):
        begun = time.perf_counter()
        for _ in range(count // each):
            study.tell_all([(trial, f(trial.params)) for trial in study.ask(each)])
        return time.perf_counter() - begun

    for what, use, run in (("ask, one by one", "random", lambda s: asks(s, 1)),
                           ("ask, 1000 at once", "random", lambda s: asks(s, 1000)),
                           ("ask and tell, 1000 at once", "random", lambda s: batches(s, 1000)),
                           ("ask and tell", "random", None), ("ask and tell", "tpe", None)):
        before = cpu()
        with tempfile.TemporaryDirectory(dir=".") as folder:
            study = opened(folder, use)
            wall, late = one_by_one(study, count) if run is None else (run(study), 0.0)
            study.close()
        more = {} if run is not None else {"at": count, "one_ms": round(1e3 * late, 4)}
        figure("espalier", use, what, count, wall, cpu() - before, **more)


def measure_optuna(count):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: optuna.distributions.FloatDistribution(-1, 1) for name in NAMES}
    draw = __import__("random").Random(1)

    def known(number):
        for _ in range(number):
            params = {name: draw.uniform(-1, 1) for name in NAMES}
            yield optuna.trial.create_trial(params=params, distributions=space, value=f(params))

    def stored(folder, trials, sampler):
        """A study in a database on the disk that was filled in memory, which does not wait for the disk."""
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as memory:
            study = optuna.create_study(study_name="s", storage="sqlite:///%s/s.db" % memory)
            study.add_trials(list(trials))
            shutil.copy(memory + "/s.db", folder)
        return optuna.load_study(study_name="s", storage="sqlite:///%s/s.db" % folder, sampler=sampler)

    def evaluate(study, number):
        begun, before = time.perf_counter(), cpu()
        for _ in range(number):
            trial = study.ask(space)
            study.tell(trial, f(trial.params))
        return time.perf_counter() - begun, cpu() - before

    for name, sampler in (("random", optuna.samplers.RandomSampler), ("tpe", optuna.samplers.TPESampler)):
        study = optuna.create_study(sampler=sampler(seed=1))
        if name == "random":
            wall, used = evaluate(study, count)
            figure("optuna", name, "ask and tell, in memory", count, wall, used)
        else:                                  # all of them would take very long: what one more takes
            study.add_trials(list(known(count)))
            wall, used = evaluate(study, LAST)
            figure("optuna", name, "ask and tell, in memory, after %d" % count, LAST, wall, used, at=count,
                   one_ms=round(1e3 * wall / LAST, 4))
            with tempfile.TemporaryDirectory(dir=".") as folder:
                durable = stored(folder, known(count), sampler(seed=1))
                evaluate(durable, 2)           # what is read once
                wall, used = evaluate(durable, LAST)
            figure("optuna", name, "ask and tell, durable (SQLite), after %d" % count, LAST, wall, used, at=count,
                   one_ms=round(1e3 * wall / LAST, 4))
        with tempfile.TemporaryDirectory(dir=".") as folder:
            study = optuna.create_study(sampler=sampler(seed=1), storage="sqlite:///%s/s.db" % folder)
            wall, used = evaluate(study, LAST)
            figure("optuna", name, "ask and tell, durable (SQLite), the first %d" % LAST, LAST, wall, used)


def print_table(lines):
    print("| | algorithm | trials | per second | the last ones, each | processor time, each |\n" + 6 * "| --- " + "|")
    for row in map(json.loads, lines):
        late = "%.3g ms" % row["one_ms"] if "one_ms" in row else ""
        print("| %s: %s | `%s` | %s | %s | %s | %.3g ms |" % (
            row["tool"], row["what"], row["sampler"], format(row["trials"], ","), format(round(row["per_s"]), ","),
            late, 1e3 * row["cpu_s"] / row["trials"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10000)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print_table(sys.stdin)
        return
    measure_espalier(arguments.trials)
    try:
        import optuna
    except ImportError:
        print(json.dumps({"skipped": "optuna is not importable"}))
    else:
        print(json.dumps({"version": optuna.__version__}), file=sys.stderr)
        measure_optuna(arguments.trials)


if __name__ == "__main__":
    main()
