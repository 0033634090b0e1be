#!/usr/bin/env python3
"""quality.py - how well the algorithms search, beside the same algorithms elsewhere.

    quality.py [--seeds N] [--methods A,B] [--problems P,Q] [--table FILE] [--json FILE]

Runs `espalier simulate` for each problem, algorithm and seed, and compares the mean regret at budgets of 8, 32
and 84 R with that of other implementations (reference.csv: their own code on the same problems, 20 seeds each).
ESPALIER names the program.  Exit status 1: worse than the bars, which are said at the end; 2: a run failed.

A budget is counted as the references' was.  restart: an evaluation at iteration z costs z; resume: what it adds
to the trial's one before.  The incumbent is the lowest loss observed among observations at the highest iteration seen
so far (the first of equals); at a budget, the one before the first observation that would exceed it.  Its regret is
that of the configuration without noise, at R.  "Not worse" is mean <= mean of the reference + 2 standard errors of
the difference.
"""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

import problems

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST = 2       # seeds whose own results are kept in the JSON, to be held against (page.py)
REPORT = re.compile(rb'"trial": (\d+), "iteration": (\d+), "metric": ([^,]+), "metrics": \{(?:"loss": [^,}]+, '
                    rb'"regret": ([^,}]+))?')
BUDGET = re.compile(rb'"trial": (\d+), "what": .*?"budget": (\d+)')


class Failed(Exception):
    """A run that did not end as it should: its text is what is to be said."""


def number(text):
    return math.nan if text in (b"null", None) else float(text)


def events(config, seed):
    """The lines of one simulated run."""
    espalier = os.environ.get("ESPALIER", "espalier")
    done = subprocess.run([espalier, "simulate", config, "--seed", str(seed), "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Failed("%s, seed %d: exit status %d: %s" % (os.path.basename(config), seed, done.returncode,
                                                          done.stderr.decode(errors="replace").strip()))
    return done.stdout.split(b"\n")


def observations(lines, counted, most):
    """(trial, iteration, loss, regret) of the reports that count, in order."""
    rungs = {most}
    while counted == "rungs" and min(rungs) > 1:
        rungs.add(max(1, min(rungs) // 3))
    budgets = {}
    for line in lines:
        if line.startswith(b'{"event": "trial"'):
            found = BUDGET.search(line)
            if found:
                budgets[found.group(1)] = int(found.group(2))
        elif line.startswith(b'{"event": "report"'):
            found = REPORT.search(line)
            trial, iteration = found.group(1), int(found.group(2))
            if iteration in rungs if counted == "rungs" else iteration == budgets[trial] or counted == "all":
                yield trial, iteration, number(found.group(3)), number(found.group(4))


def incumbents(seen, cost, most, marks):
    """The incumbent's regret at each mark; NaN where nothing was observed before it."""
    spent, furthest, best, regret, at, done = 0, 0, math.inf, math.nan, 0, {}
    values = []
    for trial, iteration, loss, exact in seen:
        spent += iteration - (done.get(trial, 0) if cost == "resume" else 0)
        done[trial] = iteration
        while at < len(marks) and spent > marks[at] * most:
            values.append(regret)
            at += 1
        if at == len(marks):
            return values
        if iteration > furthest:
            furthest, best, regret = iteration, math.inf, math.nan
        if loss < best and iteration == furthest:
            best, regret = loss, exact
    if spent < marks[-1] * most:
        raise Failed("the search ended after %.1f R, before the budget of %d R" % (spent / most, marks[-1]))
    return values + [regret] * (len(marks) - at)


def one_run(job):
    config, seed, counted, most, costs = job
    try:
        seen = list(observations(events(config, seed), counted, most))
        return {cost: incumbents(seen, cost, most, problems.MARKS) for cost in costs}
    except Failed as why:
        return str(why)


def best_run(job):
    """The lowest loss reported so far at each mark, whatever its iteration."""
    config, seed, most, marks = job
    try:
        seen = list(observations(events(config, seed), "all", most))
    except Failed as why:
        return str(why)
    best, values, at, spent, done = math.inf, [], 0, 0, {}
    for trial, iteration, loss, _ in seen:
        spent += max(1, iteration - done.get(trial, iteration - 1))
        done[trial] = iteration
        while at < len(marks) and spent > marks[at] * most:
            values.append(best)
            at += 1
        best = min(best, loss) if loss == loss else best
    return values + [best] * (len(marks) - at)


def in_bulk(run, jobs, workers, what):
    """All jobs; the first that failed ends it."""
    results = []
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        for result in pool.map(run, jobs, chunksize=2):
            if isinstance(result, str):
                pool.shutdown(cancel_futures=True)
                raise Failed("%s: %s" % (what, result))
            results.append(result)
    return results


def spread(values):
    """Mean and its standard error; not a number where a run had seen nothing yet."""
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < len(values) or not finite:
        return math.nan, math.nan
    se = statistics.stdev(finite) / math.sqrt(len(finite)) if len(finite) > 1 else math.nan
    return statistics.fmean(finite), se


def behind(ours, theirs):
    """By how many standard errors of the difference the first is the worse; nothing seen is worse than anything."""
    if math.isnan(ours[0]) or math.isnan(theirs[0]):
        return 0.0 if math.isnan(ours[0]) and math.isnan(theirs[0]) else math.copysign(math.inf, math.isnan(ours[0]) - 0.5)
    error = math.hypot(ours[1], theirs[1])
    return (ours[0] - theirs[0]) / error if error > 0 else 0.0 if ours[0] == theirs[0] else \
        math.copysign(math.inf, ours[0] - theirs[0])


def load_reference():
    with open(os.path.join(HERE, "reference.csv"), encoding="utf-8") as file:
        return {(r["problem"], r["impl"], r["method"], int(r["workers"]), r["cost_model"], int(r["budget_R"])):
                (float(r["mean"]), float(r["se"])) for r in csv.DictReader(file)}


def measure(options, folder, first):
    """method -> problem -> cost -> mark -> (mean, standard error).  first: the same -> cost -> [seed][mark]."""
    results = {}
    for method in options.methods:
        of = problems.METHODS[method]
        for name in options.problems:
            problem = problems.PROBLEMS[name]
            path = os.path.join(folder, "%s-%s.cfg" % (method, name))
            with open(path, "w", encoding="utf-8") as file:
                file.write(problems.config(problem, of["group"], of["workers"], problems.MARKS,
                                           slack=of.get("slack", 1)))
            costs = tuple(of["against"])
            jobs = [(path, seed, of["counted"], problem[3], costs) for seed in range(options.seeds)]
            runs = in_bulk(one_run, jobs, options.jobs, "%s on %s" % (method, name))
            first.setdefault(method, {})[name] = {cost: [run[cost] for run in runs[:FIRST]] for cost in costs}
            results.setdefault(method, {})[name] = {
                cost: {mark: spread([run[cost][i] for run in runs]) for i, mark in enumerate(problems.MARKS)}
                for cost in costs}
            print("%s on %s: %s" % (method, name, ", ".join(
                "%s %.4g" % (cost, results[method][name][cost][84][0]) for cost in costs)), file=sys.stderr)
    return results


def cells(results, reference):
    """One row for each mark that is judged: ours, the references, by how much we are behind."""
    for method, of in results.items():
        for name, costs in of.items():
            for cost, marks in costs.items():
                for mark in problems.JUDGED:
                    others = [(impl, kind, reference.get((name, impl, kind, workers, cost, mark)))
                              for impl, kind, workers in problems.METHODS[method]["against"][cost]]
                    yield method, name, cost, mark, marks[mark], [o for o in others if o[2] is not None]


def judge(results, reference):
    """What is held against the bars, and the sentences that say where it falls short."""
    counted, over, wrong = 0, [], []
    for method, name, cost, mark, ours, others in cells(results, reference):
        if method not in problems.DECIDING or not others:
            continue
        counted += 1
        z = behind(ours, others[0][2])
        if not z <= 2:
            over.append("%s on %s, %s, %d R: %.4g ± %.2g, %s %.4g ± %.2g, z = %.2f" % (
                method, name, cost, mark, ours[0], ours[1], others[0][0], others[0][2][0], others[0][2][1], z))
        if not z <= 3.5:
            wrong.append("a cell far behind: " + over[-1])
    if len(over) > 0.05 * counted:
        wrong.append("%d of %d cells are behind by more than 2 standard errors" % (len(over), counted))
    worse, doubtful = against_random(results, reference)
    return counted, over, doubtful, wrong + worse


def against_random(results, reference):
    """Where the algorithm is worse than random search and its reference is not: two lists of sentences.  The second
    holds those where the reference's 20 seeds do not tell its own distance from random search from ours."""
    wrong, doubtful = [], []
    for method, name, cost, mark, ours, others in cells(results, reference):
        base = problems.METHODS[method].get("random")
        if method not in problems.DECIDING or base not in results or name not in results[base] or not others:
            continue
        plain = results[base][name]["resume"][mark]
        theirs = reference.get((name, "hpbandster", "RandomSearch", 1, "resume", mark))
        if others[0][2][0] > theirs[0] or behind(ours, plain) <= 2:
            continue
        excess = ours[0] - plain[0], math.hypot(ours[1], plain[1])
        other = others[0][2][0] - theirs[0], math.hypot(others[0][2][1], theirs[1])
        said = "%s on %s, %s, %d R: worse than random search (%.4g against %.4g), unlike %s" % (
            method, name, cost, mark, ours[0], plain[0], others[0][0])
        if behind(excess, other) > 2:
            wrong.append(said)
        else:
            doubtful.append(said + "; its 20 seeds are too few (%.3g ± %.2g)" % other)
    return wrong, doubtful


def measure_pbt(options, folder):
    found = {}
    for method, group in problems.PBT.items():
        path = os.path.join(folder, method + ".cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(problems.config(problems.QUADRATIC, group, 10, problems.PBT_MARKS))
        jobs = [(path, seed, problems.QUADRATIC[3], problems.PBT_MARKS) for seed in range(options.seeds)]
        runs = in_bulk(best_run, jobs, options.jobs, method)
        found[method] = {mark: [run[i] for run in runs] for i, mark in enumerate(problems.PBT_MARKS)}
        print("%s on quadratic: median %.4g" % (method, statistics.median(found[method][40])), file=sys.stderr)
    return found


def judge_pbt(found):
    """The median, at each mark, against the reference's quartiles."""
    rows, wrong = [], []
    with open(os.path.join(HERE, "reference-pbt.csv"), encoding="utf-8") as file:
        reference = {(r["method"], int(r["budget_R"])): r for r in csv.DictReader(file)}
    for method, marks in found.items():
        for mark, values in marks.items():
            ref = reference["PBT" + method.split("-")[1], mark]
            middle = statistics.median(values)
            low, _, high = statistics.quantiles(values, n=4)
            rows.append((method, mark, middle, low, high, float(ref["median"]), float(ref["q25"]), float(ref["q75"])))
            if not middle <= float(ref["q75"]):
                wrong.append("%s on quadratic, %d R: median %.4g is above the reference's upper quartile %s" % (
                    method, mark, middle, ref["q75"]))
    return rows, wrong


def table(results, reference, pbt_rows, seeds, out):
    out.write("Mean regret ± standard error over %d seeds, compared with the reference's over 20, and by how many standard "
              "errors\nof the difference ours is above it (negative: better).\n" % seeds)
    for name in problems.PROBLEMS:
        rows = [c for c in cells(results, reference) if c[1] == name]
        if not rows:
            continue
        out.write("\n### %s\n\n| method | cost | %s |\n|---|---|%s\n" % (
            name, " | ".join("%d R | reference | z" % m for m in problems.JUDGED), "---:|---:|---:|" * len(problems.JUDGED)))
        lines = {}
        for method, _, cost, mark, ours, others in rows:
            if not others:
                others = [("", "", None)]
            for impl, kind, theirs in others:
                cell = "%.4g ± %.2g | " % ours
                cell += "– | –" if theirs is None else "%.4g ± %.2g | %+.1f" % (theirs + (behind(ours, theirs),))
                lines.setdefault((method, impl, kind, cost), {})[mark] = cell
        for (method, impl, kind, cost), marks in lines.items():
            label = method if not impl else "%s / %s %s" % (method, impl, kind)
            out.write("| %s | %s | %s |\n" % (label, cost, " | ".join(
                marks.get(m, "– | – | –") for m in problems.JUDGED)))
    if pbt_rows:
        out.write("\n### quadratic (population based training)\n\nLowest loss reported so far, 10 workers: median [quartiles]"
                  ".\n\n| method | budget | ours | Syne Tune 0.15 |\n|---|---:|---:|---:|\n")
        for method, mark, middle, low, high, theirs, q25, q75 in pbt_rows:
            out.write("| %s | %d R | %.4g [%.4g..%.4g] | %.4g [%.4g..%.4g] |\n" % (
                method, mark, middle, low, high, theirs, q25, q75))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32, help="runs of each (at least 2; default 32)")
    parser.add_argument("--methods", default=",".join(problems.METHODS) + ",pbt", help="comma-separated")
    parser.add_argument("--problems", default=",".join(problems.PROBLEMS), help="comma-separated")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    parser.add_argument("--table", help="write the tables to this file (Markdown)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    options.methods, options.problems = options.methods.split(","), options.problems.split(",")
    for name in options.methods:
        if name not in problems.METHODS and name != "pbt":
            parser.error("no method '%s': %s, pbt" % (name, ", ".join(problems.METHODS)))
    for name in options.problems:
        if name not in problems.PROBLEMS:
            parser.error("no problem '%s': %s" % (name, ", ".join(problems.PROBLEMS)))
    if options.seeds < 2 or options.jobs < 1:
        parser.error("at least 2 seeds, and 1 process")
    options.pbt = "pbt" in options.methods
    options.methods = [m for m in options.methods if m != "pbt"]
    return options


def main():
    options = arguments()
    reference = load_reference()
    first = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            results = measure(options, folder, first)
            pbt = measure_pbt(options, folder) if options.pbt else {}
        except (Failed, OSError) as why:
            print("quality.py: %s" % why, file=sys.stderr)
            return 2
    pbt_rows, pbt_wrong = judge_pbt(pbt)
    counted, over, doubtful, wrong = judge(results, reference)
    wrong += pbt_wrong
    with open(options.table, "w", encoding="utf-8") if options.table else os.fdopen(os.dup(1), "w") as out:
        table(results, reference, pbt_rows, options.seeds, out)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"seeds": options.seeds, "first": first, "results": results, "pbt": pbt, "cells": counted, "over": over, "doubtful": doubtful,
                       "wrong": wrong}, file, indent=1)
            file.write("\n")
    print("%d cells, %d of them more than 2 standard errors behind" % (counted, len(over)))
    for line in over + doubtful:
        print("  " + line)
    for line in wrong:
        print("WORSE: " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
