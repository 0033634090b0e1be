#!/usr/bin/env python3
"""curves.py - how well the algorithms search real learning curves, beside random search.

    curves.py DATA [--seeds N] [--methods A,B] [--only TASK,...] [--table FILE] [--json FILE]

DATA holds published curves as they were published: taskset/*.csv.xz, deepcave/*/run_*, hpo_nmt/nmtlc.jsonl.xz
(docs/curves.md tells where from).  Each is made a file of curves with examples/curves/convert.py, and searched
with 4 workers.  What is compared is the best value seen when so many times R, the longest training, has been spent.
Rungs are those of asha for all that have rungs.  A comparison, not a verdict: on curves whose beginnings mislead, stopping early costs.  Exit status 2: a run failed.
"""
import argparse
import csv
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import problems
import quality

CONVERT = os.path.join(quality.HERE, "..", "..", "..", "examples", "curves", "convert.py")
MARKS = (4, 16, 64)
METRIC = re.compile(rb'"trial": (\d+), "iteration": (\d+), "metric": ([^,]+),')
METHODS = {
    "random": 'use = "random"; iterations_max = %(max)d;',
    "asha-promotion": 'use = "asha"; iterations_min = %(min)d; iterations_max = %(max)d; eta = 3;',
    "asha-stopping": 'use = "asha"; mode = "stopping"; iterations_min = %(min)d; iterations_max = %(max)d; eta = 3;',
    "hyperband": 'use = "hyperband"; iterations_min = %(min)d; iterations_max = %(max)d; eta = 3; passes = 0; '
                 'order = "overlap"; rungs = "anchored";',
    "bohb": 'use = "bohb"; iterations_min = %(min)d; iterations_max = %(max)d; eta = 3; passes = 0; rungs = "anchored";',
    "tpe": 'use = "tpe"; iterations_max = %(max)d;',
}


def tasks(data):
    """(name, arguments of the converter, metric, goal, first rung, R)"""
    for path in sorted(glob.glob(os.path.join(data, "taskset", "*.csv.xz"))):
        name = re.sub(r"^FixedTextRNNClassification_|\.csv\.xz$", "", os.path.basename(path))
        yield "taskset/" + name, ["taskset", path], "valid_loss", "minimize", 2, 50
    for path in sorted(glob.glob(os.path.join(data, "deepcave", "*", "run_*"))):
        folder, run = path.split(os.sep)[-2:]
        first, most = (10, 100) if folder.startswith("digits") else (1, 3)
        yield "deepcave/%s/%s" % (folder, run), ["deepcave", path], None, None, first, most
    path = os.path.join(data, "hpo_nmt", "nmtlc.jsonl.xz")
    if os.path.exists(path):
        asked = subprocess.run([sys.executable, CONVERT, "nmt", path, "--select", "?"], capture_output=True, text=True)
        for name, count in re.findall(r"(\S+) \((\d+)\)", asked.stderr):
            if int(count) >= 150:
                yield "nmt/" + name, ["nmt", path, "--select", name], "perplexity", "minimize", 1, 27


def objective(arguments):
    """The first objective of a DeepCAVE run, and whether less of it is better."""
    with open(os.path.join(arguments[1], "meta.json"), encoding="utf-8") as file:
        first = json.load(file)["objectives"][0]
    return re.sub(r"[^A-Za-z0-9_]", "_", first["name"]), "minimize" if first["optimize"] == "lower" else "maximize"


def convert(arguments, folder, stem):
    """The file of curves, without times (an iteration is the unit of cost), and its space."""
    raw, table, space = (os.path.join(folder, stem + end) for end in (".raw", ".csv", "-space.cfg"))
    done = subprocess.run([sys.executable, CONVERT] + arguments + ["-o", raw, "--space", space], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise quality.Failed(done.stderr.strip())
    with open(raw, encoding="utf-8", newline="") as file, open(table, "w", encoding="utf-8", newline="") as out:
        reader = csv.reader(file)
        header = next(reader)
        keep = [i for i, name in enumerate(header) if name != "seconds"]
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([header[i] for i in keep])
        writer.writerows([row[i] for i in keep] for row in reader)
    os.remove(raw)
    return table, space


def best_of(table, metric, sign, most):
    """The best value that any curve has up to iteration R."""
    with open(table, encoding="utf-8", newline="") as file:
        values = (sign * float(r[metric]) for r in csv.DictReader(file)
                  if r[metric] not in ("", "nan") and 0 < int(r["iteration"]) <= most)
        return min(v for v in values if math.isfinite(v))


def above(value, least):
    """The difference, without what the last digit of a file leaves."""
    return value - least if value - least > 1e-12 * abs(least) else 0.0


def one_run(job):
    """How far above the best there is the best value seen is, at each mark."""
    path, seed, sign, most, least = job
    best, values, at, spent, done = math.inf, [], 0, 0, {}
    try:
        for line in quality.events(path, seed):
            if not line.startswith(b'{"event": "report"'):
                continue
            found = METRIC.search(line)
            trial, iteration, value = found.group(1), int(found.group(2)), sign * quality.number(found.group(3))
            spent += iteration - done.get(trial, 0)
            done[trial] = iteration
            while at < len(MARKS) and spent > MARKS[at] * most:
                values.append(above(best, least))
                at += 1
            best = min(best, value) if value == value else best
    except quality.Failed as why:
        return str(why)
    return values + [above(best, least)] * (len(MARKS) - at)


def config(task, method, table, space):
    """A configuration over the task's curves, with 4 workers; in the curves' own folder."""
    _, _, metric, goal, first, most = task
    group = METHODS[method].replace("%(min)d", str(first))
    return problems.config((None, None, '@include "%s"' % os.path.basename(space), most), group, 4, MARKS, metric, goal,
                           'curves = "%s";' % os.path.basename(table))


def measure(options, folder, first):
    """task -> method -> mark -> (mean, standard error).  first: task -> method -> [seed][mark]."""
    results = {}
    for number, task in enumerate(tasks(options.data)):
        name, arguments, metric, goal, _, most = task
        if options.only and not any(part in name for part in options.only.split(",")):
            continue
        if metric is None:
            metric, goal = objective(arguments)
            task = task[:2] + (metric, goal) + task[4:]
        sign = 1.0 if goal == "minimize" else -1.0
        table, space = convert(arguments, folder, "task%d" % number)
        least = best_of(table, metric, sign, most)
        for method in options.methods:
            path = os.path.join(folder, "task%d-%s.cfg" % (number, method))
            with open(path, "w", encoding="utf-8") as file:
                file.write(config(task, method, table, space))
            jobs = [(path, seed, sign, most, least) for seed in range(options.seeds)]
            runs = quality.in_bulk(one_run, jobs, options.jobs, "%s on %s" % (method, name))
            first.setdefault(name, {})[method] = runs[:quality.FIRST]
            results.setdefault(name, {})[method] = {
                mark: quality.spread([run[i] for run in runs]) for i, mark in enumerate(MARKS)}
            print("%s on %s: %.4g" % (method, name, results[name][method][MARKS[-1]][0]), file=sys.stderr)
    return results


def show(results, seeds, out):
    out.write("How far the best value seen is above the best there is, mean ± standard error over %d seeds; z: by how many"
              "\nstandard errors of the difference above random search (negative: better).\n\n" % seeds)
    out.write("| curves | method | %s |\n|---|---|%s\n" % (
        " | ".join("%d R | z" % m for m in MARKS), "---:|---:|" * len(MARKS)))
    for name, methods in results.items():
        for method, marks in methods.items():
            cells = []
            for mark in MARKS:
                z = "–" if method == "random" or "random" not in methods else \
                    "%+.1f" % quality.behind(marks[mark], methods["random"][mark])
                cells.append("%.4g ± %.2g | %s" % (marks[mark] + (z,)))
            out.write("| %s | %s | %s |\n" % (name, method, " | ".join(cells)))


def verdict(results):
    """A sentence for each method."""
    for method in METHODS:
        z = [quality.behind(of[method][mark], of["random"][mark]) for of in results.values() for mark in MARKS
             if method != "random" and method in of and "random" in of]
        if z:
            yield "%s: of %d cells %d better than random search by 2 standard errors, %d worse" % (
                method, len(z), sum(v < -2 for v in z), sum(v > 2 for v in z))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA", help="folder of the published curves")
    parser.add_argument("--seeds", type=int, default=32, help="runs of each (default 32)")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated")
    parser.add_argument("--only", help="tasks whose name holds one of these, comma-separated")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    parser.add_argument("--table", help="write the table to this file (Markdown)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    options.methods = options.methods.split(",")
    for name in options.methods:
        if name not in METHODS:
            parser.error("no method '%s': %s" % (name, ", ".join(METHODS)))
    return options


def main():
    options = arguments()
    first = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            results = measure(options, folder, first)
        except (quality.Failed, OSError, KeyError, ValueError) as why:
            print("curves.py: %s" % why, file=sys.stderr)
            return 2
    if not results:
        print("curves.py: no curves in '%s'" % options.data, file=sys.stderr)
        return 2
    with open(options.table, "w", encoding="utf-8") if options.table else os.fdopen(os.dup(1), "w") as out:
        show(results, options.seeds, out)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"seeds": options.seeds, "first": first, "results": results}, file, indent=1)
            file.write("\n")
    for line in verdict(results):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
