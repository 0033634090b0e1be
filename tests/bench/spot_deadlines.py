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


def repeat(intervals, length, seconds):
    """A log that is too short is played again from its beginning."""
    return [(a + k * length, b + k * length) for k in range(int(seconds / length) + 1) for a, b in intervals]


def read_polls(text):
    """{instance: (intervals, length)} of a log of one instance each that was asked for again and again."""
    from datetime import datetime
    seen = collections.defaultdict(list)
    for line in text.splitlines():
        m = re.match(r"\[(\S+?)Z?\] Instance (instance\d+) (running|not running)", line)
        if m:
            seen[m.group(2)].append((datetime.fromisoformat(m.group(1)).timestamp(), m.group(3) == "running"))
    found = {}
    for name, polls in seen.items():
        first, found_here, since = polls[0][0], [], None
        for at, there in polls:
            if there and since is None:
                since = at - first
            elif not there and since is not None:
                found_here.append((since, at - first))
                since = None
        length = polls[-1][0] - first
        if since is not None:
            found_here.append((since, length))
        found[name] = (found_here, length)
    return found


def read_counts(rows):
    """(seconds, nodes that could be had) -> [(intervals, length)]: of the nodes that were there 30 to 80 % of the time."""
    rows, found = sorted(rows), []
    first, length = rows[0][0], rows[-1][0] - rows[0][0]
    for least in sorted({count for _, count in rows}):
        intervals, since = [], None
        for at, count in rows:
            if count >= least and since is None:
                since = at - first
            elif count < least and since is not None:
                intervals.append((since, at - first))
                since = None
        if since is not None:
            intervals.append((since, length))
        if 0.3 <= sum(b - a for a, b in intervals) / length <= 0.8 and len(intervals) > 3:
            found.append((intervals, length))
    return found[:1] + found[len(found) // 2:len(found) // 2 + 1] if len(found) > 1 else found


def read_traces(folder):
    """[(name, intervals, length)]"""
    from datetime import datetime
    found = []
    for name in ("p3-trace.csv", "g4dn-trace.csv"):
        rows, count = [], 0
        for at, what, _ in csv.reader(open(os.path.join(folder, "bamboo", name))):
            count += 1 if what == "add" else -1
            rows.append((float(at) / 1000, count))
        found += [(name, *x) for x in read_counts(rows)]
    for name in ("gcloud-a100x1-east1b.txt", "gcloud-v100x1-east1c.txt"):
        rows = [(datetime.fromisoformat(day + "T" + time.strip()).timestamp(), int(count))
                for day, time, count in csv.reader(open(os.path.join(folder, "bamboo", name)))]
        found += [(name, *x) for x in read_counts(rows)]
    with tarfile.open(os.path.join(folder, "training_on_a_dime", "logs.tar.xz")) as tar:
        for member in tar.getmembers():
            if re.search(r"gcp/availability/.*\.out$", member.name):
                text = io.TextIOWrapper(tar.extractfile(member)).read()
                for name, (intervals, length) in sorted(read_polls(text).items()):
                    share = sum(b - a for a, b in intervals) / length if length > 0 else 0
                    if 0.1 <= share <= 0.95 and len(intervals) > 3 and length > 24 * 3600:
                        found.append((os.path.basename(member.name) + " " + name, intervals, length))
    return found


def trace_rows(options):
    traces = read_traces(options.traces)
    rows = []
    for start in [s for s in options.starts if s >= 3]:
        for low, high in SLACKS:
            worlds = []
            for k, (name, intervals, length) in enumerate(traces):
                rng = random.Random("%s %g %d" % (name, low, k))
                work_s = STEP * round(rng.uniform(24, 48) * 3600 / STEP)
                deadline_s = int(work_s * (1 + rng.uniform(low, high)))
                worlds.append(world([repeat(intervals, length, 2 * deadline_s)], work_s, deadline_s, start * 60, seed=k + 1))
            rows.append(Row("logs of capacity, start %d min, slack %d to %d %%" % (start, low * 100, high * 100),
                            worlds, POLICIES, True))
    return rows


SEARCHES = [("SHA, 16 trials, 4 left after 3 h, one after 12 h, of 48 h",
             'use = "sha"; trials = 16; iterations_min = 180; iterations_max = 2880; eta = 4;', 2880, 7200),
            ("16 trials of 24 h", 'use = "random"; trials = 16; iterations_max = 1440;', 1440, 23040)]


def search_rows(options):
    rows = []
    for name, algorithm, path, total in SEARCHES:
        worlds = []
        for k in range(max(options.count // 10, 2)):
            rng = random.Random("search %d" % k)
            lost, back = 0.05 * 30 ** rng.random(), 0.05 * 30 ** rng.random()
            deadline_s = int(path * STEP * (1 + rng.uniform(0.1, 0.5)) + 540)
            # the share is that of `total` iterations on demand
            worlds.append(world([draw(rng, lost, back, 2 * deadline_s)], path * STEP, deadline_s, 180, seed=k + 1,
                                algorithm=algorithm)._replace(trials=total / path))
        rows.append(Row(name, worlds, POLICIES, False))
    return rows


def other_rows(options):
    few = max(options.count // 10, 2)
    never = [w._replace(zones=[[]]) for w in drawn_worlds(few, 180, 0.15, 0.35)]
    return [Row("iterations with a spread of half their mean, slack 4 to 15 %",
                drawn_worlds(100 if options.count > 20 else options.count, 180, 0.04, 0.15, sd=STEP / 2), ["exact"], False),
            Row("two zones", drawn_worlds(few, 180, 0.15, 0.35, zones=2), POLICIES, False),
            Row("spot capacity never there", never, POLICIES, True)]


# ---- the page ---------------------------------------------------------------------------------

WORDS = {"exact": "`exact`", "greedy": "`greedy`", "uniform": "`uniform`", "rule": "`rule` (before)",
         "omniscient": "knows the future"}


def write_table(rows, found, known):
    policies = POLICIES + (["omniscient"] if known else [])
    lines = ["| | runs | " + " | ".join(WORDS[p] for p in policies) + (" | `exact` to that |" if known else " |"),
             "| --- | ---: |" + " ---: |" * (len(policies) + known)]
    for row in rows:
        cells = []
        for p in policies:
            if p not in found[row.name]:
                cells.append("")
                continue
            late = sum(x[1] for x in found[row.name][p])
            cells.append("%.3f%s" % (mean(found[row.name][p]), " (%d late)" % late if late else ""))
        if known:
            cells.append("%.3f" % (mean(found[row.name]["exact"]) / mean(found[row.name]["omniscient"])))
        lines.append("| %s | %d | %s |" % (row.name, len(row.worlds), " | ".join(cells)))
    return "\n".join(lines) + "\n"


def time_solves(options):
    run = subprocess.run([options.bench], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    return max(json.loads(line)["solve_ms"] for line in run.stdout.splitlines())


PAGE = """# Results: deadlines on spot machines

*For users of spot machines: what the policies of allocator [spottune](../spottune.md#deadlines-and-capacity) pay to be done in time where spot capacity comes and goes, beside
a policy that knows the future.*

Made by `tests/bench/spot_deadlines.py` in the simulator: one machine costs $%(spot)g an hour on spot and $%(demand)g on demand; while capacity is out,
requests for spot are refused and repeated every minute; when it ends, a machine is interrupted with a notice of two minutes. A cell is the mean
cost as a share of the same work all on demand, with its first start. *late*: runs that were not done at the deadline. `rule` is what `spottune` did before it
had policies.

## Drawn capacity

Capacity is there and not there for times that are drawn (exponential), with rates of loss and return from 0.05 to 1.5 an hour, log-uniform;
24 to 96 h of work. The policies know neither rate. *Knows the future* is the least possible cost on a grid of a minute.

%(drawn)s
## Public logs of capacity

%(trace_count)d series: requests and losses of single GPUs of Google Cloud in March 2020 ("Analysis and Exploitation of Dynamic Pricing in the Public Cloud for
ML Training", polled about every 15 minutes), and the sizes of spot fleets of AWS and Google Cloud published with Bamboo (NSDI 2023): of each, the
times at which a certain number of nodes were there, one that was there 30 to 80 %% of the time. 24 to 48 h of work; a log that is shorter is
played again.

%(traces)s
These logs have many turns of about ten minutes and a few of many hours, which two rates do not describe, and rates above those that are assumed at
first: `exact` is further from the least cost than with drawn capacity, and where another policy is cheaper in this table, that is why.

## Searches

All trials in one zone; share of all on demand.

%(searches)s
## What breaks a policy

%(others)s
The time to solve the problem of one experiment is at most %(solve)d ms on the machine that made this page, for 96 h of work and a slack of 60 %%.

## How far to trust it

* One price for each kind of machine; prices that move are tested, not measured here.
* Machines on demand can always be leased. Where they cannot, no policy keeps a deadline.
* Capacity is either there or not: for a search whose trials would be only partly served the shares may differ.
* `uniform` and `greedy` follow the published rules, and count slack as `exact` does (the work at an upper quantile), so they are a little more careful than published.
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("espalier")
    parser.add_argument("bench")
    parser.add_argument("--traces")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--starts", type=lambda s: [int(x) for x in s.split(",")], default=[1, 3, 12])
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose name has this pattern; no page")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    options.espalier = os.path.abspath(options.espalier)
    options.bench = os.path.abspath(options.bench)
    groups = {"drawn": drawn_rows(options), "traces": trace_rows(options) if options.traces else [],
              "searches": search_rows(options), "others": other_rows(options)}
    found = play([r for rows in groups.values() for r in rows if re.search(options.only, r.name)], options)
    if not options.output or options.only:
        return
    tables = {name: write_table(rows, found, name in ("drawn", "traces")) if rows else "Not played.\n"
              for name, rows in groups.items()}
    with open(options.output, "w") as file:
        file.write(PAGE % dict(tables, spot=SPOT, demand=DEMAND, solve=round(time_solves(options)),
                               trace_count=len(groups["traces"][0].worlds) if groups["traces"] else 0))


if __name__ == "__main__":
    main()
