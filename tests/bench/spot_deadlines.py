#!/usr/bin/env python3
"""Deadlines on spot machines: what the policies of allocator spottune pay, and who is late.

    tests/bench/spot_deadlines.py ESPALIER BENCH_DEADLINE [--traces FOLDER] [--count N] [-o PAGE.md]

Simulates jobs and searches on spot capacity that is there and not there in turns: drawn on/off
processes, and with --traces the public logs of capacity in FOLDER (docs/results/spot-deadlines.md
says where they are published).  BENCH_DEADLINE is tests/bench/bench_deadline, which knows what a
policy that knows the future would pay.  Needs Python's standard library alone.  --count is the
number of drawn processes for each restart time (200: about an hour of one core).
"""
import argparse
import collections
import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor

SPOT, DEMAND = 0.918, 3.06	# dollars per hour
POLICIES = ["exact", "greedy", "uniform", "rule"]
STEP = 60	# seconds of an iteration

World = collections.namedtuple("World", "zones work_s deadline_s start_s seed sd trials algorithm extra")
# zones: of each the intervals (from, to) with capacity, in seconds


def world(zones, work_s, deadline_s, start_s, seed=1, sd=0, trials=1, algorithm=None, extra=""):
    return World(zones, work_s, deadline_s, start_s, seed, sd, trials, algorithm, extra)


def draw(rng, lost, back, seconds):
    """Intervals with capacity of an on/off process with these rates an hour."""
    there, now, found = rng.random() < back / (lost + back), 0, []
    while now < seconds:
        after = now + rng.expovariate(lost if there else back) * 3600
        if there:
            found.append((now, after))
        now, there = after, not there
    return found


def write(w, folder):
    """search.cfg, faults.cfg and log.csv: capacity that goes is an interruption, and a refusal until it is back."""
    faults, rows, offers = [], [], []
    for z, intervals in enumerate(w.zones):
        name, now = "spot%d" % z, 0
        offers.append('{ name = "%s"; gpus = 1; gpu_type = "V"; price = %g; market = "spot"; notice = "2m"; }' % (name, SPOT))
        rows.append((-1, name, 0))
        for start, end in intervals + [(2 * w.deadline_s, None)]:
            if start > now:
                faults.append('{ kind = "no-capacity"; offer = "%s"; from = "%.3fs"; to = "%.3fs"; retry_after = "60s"; }' % (name, now, start))
                if now > 0:
                    rows.append((now, name, 1))
            now = end
    rows.sort()
    offers.append('{ name = "demand"; gpus = 1; gpu_type = "V"; price = %g; }' % DEMAND)
    iteration = '{ dist = "lognormal"; mean = "%ds"; sd = "%gs"; }' % (STEP, w.sd) if w.sd else '"%ds"' % STEP
    algorithm = w.algorithm or 'use = "random"; trials = %d; iterations_max = %d;' % (w.trials, w.work_s // STEP)
    with open(os.path.join(folder, "search.cfg"), "w") as file:
        file.write("""experiment = { name = "deadline"; metric = "loss"; goal = "minimize"; deadline = "%ds"; seed = %d; };
trial = { trainable = "quadratic"; gpus_max = 1; profile = { iteration = %s; start = "%ds"; checkpoint = "0s"; restore = "0s"; }; };
space = { lr = { type = "real"; low = 0.001; high = 1.0; }; };
algorithm = { %s };
allocator = { use = "spottune"; };
cloud = { use = "sim"; interruptions = "log.csv"; offers = ( %s ); };
%s""" % (w.deadline_s, w.seed, iteration, w.start_s, algorithm, ",\n  ".join(offers), w.extra))
    with open(os.path.join(folder, "log.csv"), "w") as file:
        file.write("time,offer,nodes,interrupted\n" + "".join("%.3f,%s,1,%d\n" % row for row in rows))
    with open(os.path.join(folder, "faults.cfg"), "w") as file:
        file.write("faults = (\n" + ",\n".join(faults) + "\n);\n")


def simulate(w, policy, options):
    """The summary of one run."""
    with tempfile.TemporaryDirectory() as folder:
        write(w, folder)
        words = [options.espalier, "simulate", "search.cfg", "--json", "--set", "allocator.policy=" + policy]
        if os.path.getsize(os.path.join(folder, "faults.cfg")) > 20:
            words += ["--faults", "faults.cfg"]
        run = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        lines = run.stdout.splitlines()
        if not lines or '"summary"' not in lines[-1]:
            sys.exit("%s: exit status %d: %s" % (" ".join(words), run.returncode, run.stderr))
        return json.loads(lines[-1])


def omniscient(w, options):
    """What it costs if the future is known, with one machine and the capacity of all zones."""
    points = sorted((a, b) for zone in w.zones for a, b in zone)
    united = []
    for a, b in points:
        if united and a <= united[-1][1]:
            united[-1][1] = max(united[-1][1], b)
        else:
            united.append([a, b])
    line = "%g %g %g %g %g %d " % (w.work_s, w.start_s, w.deadline_s, SPOT, DEMAND, len(united))
    line += " ".join("%.3f %.3f" % tuple(x) for x in united)
    run = subprocess.run([options.bench, "omniscient"], input=line + "\n", stdout=subprocess.PIPE,
                         universal_newlines=True, check=True)
    return float(run.stdout)


Row = collections.namedtuple("Row", "name worlds policies known")


def play(rows, options):
    """{row name: {policy: [(cost share of all on demand, late)]}}; known: beside who knows the future."""
    def one(task):
        w, policy = task
        full = DEMAND * (w.work_s * w.trials + w.start_s * w.trials) / 3600
        if policy == "omniscient":
            return omniscient(w, options) / full, False
        summary = simulate(w, policy, options)
        return summary["cost_usd"] / full, summary["status"] != "done" or summary["jct_s"] > w.deadline_s

    found = {}
    with ThreadPoolExecutor(options.parallel) as pool:
        for row in rows:
            policies = row.policies + (["omniscient"] if row.known else [])
            tasks = [(w, p) for p in policies for w in row.worlds]
            answers = list(pool.map(one, tasks))
            size = len(row.worlds)
            found[row.name] = {p: answers[k * size:(k + 1) * size] for k, p in enumerate(policies)}
            print(summarize(row.name, found[row.name]), file=sys.stderr)
    return found


def mean(answers):
    return sum(a[0] for a in answers) / len(answers)


def summarize(name, by_policy):
    return name + ": " + ", ".join("%s %.3f (%d late)" % (p, mean(a), sum(x[1] for x in a))
                                   for p, a in by_policy.items()) + " of %d" % len(next(iter(by_policy.values())))


# ---- worlds ---------------------------------------------------------------------------------

def drawn_worlds(count, start_s, low, high, **more):
    """Rates 0.05 to 1.5 an hour, 24 to 96 h of work, the slack a share of it."""
    found = []
    for seed in range(count):
        rng = random.Random("%g %g %d" % (low, high, seed))
        lost, back = 0.05 * 30 ** rng.random(), 0.05 * 30 ** rng.random()
        work_s = STEP * round(rng.uniform(24, 96) * 3600 / STEP)
        deadline_s = work_s * (1 + rng.uniform(low, high))
        zones = [draw(rng, lost, back, 2 * deadline_s) for _ in range(more.get("zones", 1))]
        found.append(world(zones, work_s, int(deadline_s), start_s, seed=seed + 1,
                           **{k: v for k, v in more.items() if k != "zones"}))
    return found


SLACKS = [(0.04, 0.15), (0.15, 0.35), (0.35, 0.6)]


def drawn_rows(options):
    return [Row("drawn, start %d min, slack %d to %d %%" % (start, low * 100, high * 100),
                drawn_worlds(options.count // 3, start * 60, low, high), POLICIES, True)
            for start in options.starts for low, high in SLACKS]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("espalier")
    parser.add_argument("bench")
    parser.add_argument("--traces")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--starts", type=lambda s: [int(x) for x in s.split(",")], default=[1, 3, 12])
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    options.espalier = os.path.abspath(options.espalier)
    options.bench = os.path.abspath(options.bench)
    rows = drawn_rows(options)
    play([r for r in rows if re.search(options.only, r.name)], options)


if __name__ == "__main__":
    main()
