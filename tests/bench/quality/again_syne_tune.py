#!/usr/bin/env python3
"""again_syne_tune.py - Syne Tune's own ASHA on the benchmark's problems, over as many seeds as are asked for.

    again_syne_tune.py [--seeds N] [--first SEED] [--problem NAME] [--method promotion|random] [--centre] [--jobs N]

reference.csv holds 20 seeds of each; where they do not tell two methods apart, this measures more.  It wants the
version that still promotes, in a virtual environment outside the tree: pip install syne-tune==0.14.2.
Its schedulers are called as its Tuner calls them: 4 workers, asynchronous, an iteration takes one unit of time,
reports at 1, 3, 9, 27, 81 only; results that come at the same time are told before the workers free are given work.
Budget, incumbent and regret are quality.py's, cost: resume.
--centre: its default, the first configuration tried is the middle of the space; without, all are drawn.
"""
import argparse
import concurrent.futures
import heapq
import logging
import math
import os
import random
import sys
import warnings
from datetime import datetime

import problems
import quality

WORKERS = 4
RUNGS = (1, 3, 9, 27, 81)
MOST = RUNGS[-1]

HEIGHT = (1.0, 1.2, 3.0, 3.2)
WIDTH = ((10, 3, 17, 3.5, 1.7, 8), (.05, 10, 17, .1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, .05, 10, .1, 14))
CENTRE = ((1312, 1696, 5569, 124, 8283, 5886), (2329, 4135, 8307, 3736, 1004, 9991),
          (2348, 1451, 3522, 2883, 3047, 6650), (4047, 8828, 8732, 5743, 1091, 381))


def hartmann6(x, less):
    return -sum((height - less) * math.exp(-sum(w * (v - 1e-4 * c) ** 2 for w, v, c in zip(width, x, centre)))
                for height, width, centre in zip(HEIGHT, WIDTH, CENTRE))


def noisy_hartmann6(bias, noise):
    def tell(config, iteration, rng):
        x = [config["x%d" % i] for i in range(6)]
        far = 1 - math.log(iteration) / math.log(MOST)
        return (hartmann6(x, bias * far) + abs(rng.gauss(0, 1)) * noise * far, hartmann6(x, 0) + 3.322368011415515)
    return tell


def exact_branin(x1, x2, far):
    square = x2 - (5.1 / (4 * math.pi ** 2) - .01 * far) * x1 ** 2 + (5 / math.pi - .1 * far) * x1 - 6
    return square ** 2 + 10 * (1 - 1 / (8 * math.pi) - .005 * far) * math.cos(x1) + 10


def noisy_branin(config, iteration, rng):
    x1, x2, far = config["x1"], config["x2"], 1 - iteration / MOST
    return (exact_branin(x1, x2, far) + math.sqrt(.05) * far * rng.gauss(0, 1),
            exact_branin(x1, x2, 0) - 0.39788735772973816)


def counting_ones(count):
    def tell(config, iteration, rng):
        ones, throws = sum(config["c%d" % i] for i in range(count)), 9 * iteration
        coins = [config["x%d" % i] for i in range(count)]
        seen = sum(sum(rng.random() < mean for _ in range(throws)) / throws for mean in coins)
        return -(ones + seen), 1 - (ones + sum(coins)) / (2 * count)
    return tell


def ones(count):
    return {**{"c%d" % i: ("choice", [0, 1]) for i in range(count)},
            **{"x%d" % i: ("uniform", 0.0, 1.0) for i in range(count)}}


HARTMANN = {"x%d" % i: ("uniform", 0.0, 1.0) for i in range(6)}
# name -> what tells (loss, regret) of (configuration, iteration, random stream), and the space
PROBLEMS = {
    "countingones_4_4": (counting_ones(4), ones(4)),
    "countingones_8_8": (counting_ones(8), ones(8)),
    "mfbranin": (noisy_branin, {"x1": ("uniform", -5.0, 10.0), "x2": ("uniform", 0.0, 15.0)}),
    "mfh6_good": (noisy_hartmann6(2.5, 2.0), HARTMANN),
    "mfh6_terrible": (noisy_hartmann6(4.0, 5.0), HARTMANN),
}


def scheduler_of(method, space, seed, centre):
    from syne_tune import config_space
    from syne_tune.optimizer.schedulers.legacy_fifo import LegacyFIFOScheduler
    from syne_tune.optimizer.schedulers.legacy_hyperband import LegacyHyperbandScheduler

    space = {name: getattr(config_space, kind)(*rest) for name, (kind, *rest) in space.items()}
    common = dict(searcher="random", metric="loss", mode="min", random_seed=seed,
                  points_to_evaluate=None if centre else [])
    if method == "random":
        return LegacyFIFOScheduler(space, **common)
    return LegacyHyperbandScheduler(space, type="promotion", resource_attr="epoch", max_t=MOST, grace_period=1,
                                    reduction_factor=3, brackets=1, **common)


def observations(scheduler, tell, rng, rungs):
    """(trial, iteration, loss, regret) without end, in order."""
    from syne_tune.backend.trial_status import Trial
    from syne_tune.optimizer.scheduler import SchedulerDecision

    trials, done, running, now, made = {}, {}, [], 0, 0

    def begin(trial):
        nonlocal made
        iteration = next(r for r in rungs if r > done[trial])
        heapq.heappush(running, (now + iteration - done[trial], made, trial, iteration))
        made += 1

    while True:
        while len(running) < WORKERS:
            suggestion = scheduler.suggest(len(trials))
            if suggestion.spawn_new_trial_id:
                trial = len(trials)
                trials[trial] = Trial(trial, suggestion.config, datetime.min)
                done[trial] = 0
                scheduler.on_trial_add(trials[trial])
            else:
                trial = suggestion.checkpoint_trial_id
            begin(trial)
        now, going = running[0][0], []
        while running and running[0][0] == now:
            _, _, trial, iteration = heapq.heappop(running)
            done[trial] = iteration
            loss, regret = tell(trials[trial].config, iteration, rng)
            yield trial, iteration, loss, regret
            result = {"loss": loss, "epoch": iteration}
            decision = scheduler.on_trial_result(trials[trial], result)
            if decision == SchedulerDecision.CONTINUE and iteration < MOST:
                going.append(trial)
            elif decision == SchedulerDecision.CONTINUE:
                scheduler.on_trial_complete(trials[trial], result)
            else:
                scheduler.on_trial_remove(trials[trial])
        for trial in going:
            begin(trial)


def one_run(job):
    problem, method, seed, centre = job
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    tell, space = PROBLEMS[problem]
    seen = observations(scheduler_of(method, space, seed, centre), tell, random.Random("%s %d" % (problem, seed)),
                        (MOST,) if method == "random" else RUNGS)
    return quality.incumbents(seen, "resume", MOST, problems.MARKS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=128, help="runs (at least 2; default 128)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--problem", choices=PROBLEMS, default="mfh6_terrible")
    parser.add_argument("--method", choices=("promotion", "random"), default="promotion")
    parser.add_argument("--centre", action="store_true", help="its default first configuration")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    options = parser.parse_args()
    if options.seeds < 2 or options.jobs < 1 or options.first < 0:
        parser.error("at least 2 seeds, none negative, and 1 process")
    try:
        import syne_tune
    except ImportError as why:
        print("again_syne_tune.py: %s: run it with a Python that has syne-tune==0.14.2" % why, file=sys.stderr)
        return 2
    if not syne_tune.__version__.startswith("0.14."):
        print("again_syne_tune.py: Syne Tune %s: what promotes is in 0.14.2" % syne_tune.__version__, file=sys.stderr)
        return 2
    jobs = [(options.problem, options.method, seed, options.centre)
            for seed in range(options.first, options.first + options.seeds)]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(one_run, jobs))
    print("%s, Syne Tune %s %s, %d seeds: mean regret ± standard error" % (
        options.problem, syne_tune.__version__, options.method, options.seeds))
    for at, mark in enumerate(problems.MARKS):
        if mark in problems.JUDGED:
            print("%2d R: %s" % (mark, "%.4f ± %.3f" % quality.spread([run[at] for run in runs])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
