#!/usr/bin/env python3
"""Runs allocator spottune in simulation on recorded spot prices, beside fixed choices.

    reproduce.py PRICES THROUGHPUTS [ESPALIER] [-o PAGE.md] [--starts N] [--only TEXT] [--parallel N]

PRICES is aws-gpu-spot.csv or .csv.gz of stanford-futuredata/training_on_a_dime (prices of AWS spot machines with GPUs, December 2019
to March 2020), THROUGHPUTS simulation_throughputs.json or .json.xz of Gavel.  ESPALIER is the program (default: $ESPALIER, else
the one in PATH).  Sixteen trials, each a search of its own in a pool, so that each has its own speeds; the page goes to standard
output.  Each row is 20 runs, and 20 with three times the interruptions, of a fifth of a second each; --only makes the rows with
TEXT in their names, and no other table.  Those of MANY are made once more with five times the starts, and those of OTHER with ten sets
of trials that are like those of another simulator.  The networks among the predictors take some minutes of one core each.
"""
import argparse
import concurrent.futures
import csv
import datetime
import gzip
import json
import lzma
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

TRIALS, STARTUP, SAVE = 16, 90, 30
TYPES = {"p2.xlarge": ("K80", 0.90, 0.175), "p3.2xlarge": ("V100", 3.06, 0.02)}
ZONES = "bcd"
MODERN, P0 = 'use = "spottune";', 'use = "spottune"; mode = "paper"; predictor = "never"; max_price = "on_demand";'
# Name, allocator, types of spot machines, is there a refund (2: it counts in Eq. 2 but is never paid), deadline as a multiple,
# and theta if it is not 1: trials end when the best can be selected
ROWS = [
    ("only p2.xlarge", MODERN, ["p2.xlarge"], 0, 0),
    ("only p3.2xlarge", MODERN, ["p3.2xlarge"], 0, 0),
    ("on demand, the best type for each trial", 'use = "spottune"; on_demand = "compare";', [], 0, 0),
    ("paper, p = 0", P0, list(TYPES), 0, 0),
    ("paper, Eq. 2 with the true p, nothing refunded", 'use = "spottune"; mode = "paper"; predictor = "hazard"; max_price = "on_demand";',
     list(TYPES), 2, 0),
    ("**modern**", MODERN, list(TYPES), 0, 0),
    ("modern, deadline 1.1 x the fastest", MODERN, list(TYPES), 0, 1.1),
    ("modern, deadline 1.25 x", MODERN, list(TYPES), 0, 1.25),
    ("modern, deadline 1.5 x", MODERN, list(TYPES), 0, 1.5),
    ("modern, deadline 2 x", MODERN, list(TYPES), 0, 2.0),
    ("refund: paper, p = 0", P0, list(TYPES), 1, 0),
    ("refund: paper, Eq. 2 with the true p", 'use = "spottune"; mode = "paper"; predictor = "hazard"; max_price = "on_demand";',
     list(TYPES), 1, 0),
    ("refund: paper's margins, p = 0", 'use = "spottune"; mode = "paper"; predictor = "never";', list(TYPES), 1, 0),
    ("refund: paper's margins, predictor empirical", 'use = "spottune"; mode = "paper";', list(TYPES), 1, 0),
    ("refund: paper's margins, predictor adaptive", 'use = "spottune"; mode = "paper"; predictor = "adaptive";', list(TYPES), 1, 0),
    ("refund: modern", MODERN, list(TYPES), 1, 0),
    ("refund: modern with refund = true", 'use = "spottune"; refund = true;', list(TYPES), 1, 0),
    ("theta = 0.7: paper, p = 0", P0, list(TYPES), 0, 0, 0.7),
    ("theta = 0.7: **modern**", MODERN, list(TYPES), 0, 0, 0.7),
    ("theta = 0.7, refund: paper, p = 0", P0, list(TYPES), 1, 0, 0.7),
    ("theta = 0.7, refund: paper, Eq. 2 with the true p", 'use = "spottune"; mode = "paper"; predictor = "hazard"; max_price = "on_demand";',
     list(TYPES), 1, 0, 0.7),
]
CHEAPEST, FASTEST, DEMAND = ROWS[0][0], ROWS[1][0], ROWS[2][0]
MANY = (CHEAPEST, DEMAND, "paper, p = 0", "**modern**", "modern, deadline 1.25 x")

# What another simulator of the same policies reports of the same prices, speeds and rates, with trials that it drew: cost, hours, and cost at
# three times the interruptions.  The first three rows have no choice, and the fourth is that of tests/runs/spot_replay.py: by these figures the
# trials are known, in part.
OTHER = {CHEAPEST: (47.0, 12.1, 48.0), FASTEST: (54.4, 10.8, 54.5), DEMAND: (96.3, 11.2, None), "paper, p = 0": (35.1, 11.6, 35.6),
         "paper, Eq. 2 with the true p, nothing refunded": (35.3, 11.6, 38.8), "**modern**": (34.3, 11.3, 35.3)}
KNOWN = (CHEAPEST, FASTEST, DEMAND, "paper, p = 0")
SETS, LIKE, RANDOM_SETS = 10, 0.01, 4000


# Of these predictors `espalier market` tells how good they are on the same prices, with the paper's margins.
MARGIN = "uniform:0.00001,0.2"
PREDICTORS = [("never", "never"), ("empirical", "empirical"), ("logistic", "logistic"), ("adaptive", "adaptive"),
              ("Tributary's network", "tributary"),
              ("RevPred's network, trained with the margins asked for", "revpred --train-margin same --log-margin")]


def read(path):
    opener = gzip.open if path.endswith(".gz") else lzma.open if path.endswith(".xz") else open
    with opener(path, "rt") as f:
        return f.read()


def speed_ratios(text):
    """V100 to K80, of single-GPU training that ran on both."""
    t = json.loads(text)
    found = [t["v100"][k]["null"] / v["null"] for k, v in t["k80"].items()
             if k.endswith(", 1)") and v.get("null") and t["v100"].get(k, {}).get("null")]
    return sorted(r for r in found if r < 10)


def write_prices(text, path):
    """The time from and until which all of the markets have prices."""
    rows = [r for r in csv.DictReader(text.splitlines()) if r["instance_type"] in TYPES and
            r["availability_zone"] in {"us-east-1" + z for z in ZONES}]
    with open(path, "w") as f:
        f.write("time,offer,zone,price\n")
        f.writelines(f"{r['timestamp']},{r['instance_type']},{r['availability_zone']},{r['spot_price']}\n" for r in rows)
    times = {}
    for r in rows:
        times.setdefault((r["instance_type"], r["availability_zone"]), []).append(r["timestamp"])
    return max(min(t) for t in times.values()), min(max(t) for t in times.values())


def offers(types, refund, hazard):
    made = []
    for name in types:
        gpu, fixed, rate = TYPES[name]
        for z in ZONES:
            terms = ['refund_before = "1h";'] if refund == 1 else ['refund_before = "1ns";'] if refund == 2 else []
            made.append(f'{{ name = "{name}"; market = "spot-{z}"; zone = "us-east-1{z}"; gpus = 1; gpu_type = "{gpu}"; '
                        f'revocable = true; notice = "120s"; minimum_charge = "60s"; fixed_price = {fixed}; '
                        f'hazard_hour = {rate * hazard}; {" ".join(terms)} }}')
    for name, (gpu, fixed, _) in TYPES.items():
        made.append(f'{{ name = "{name}"; gpus = 1; gpu_type = "{gpu}"; price = {fixed}; minimum_charge = "60s"; }}')
    return ",\n  ".join(made)


def fastest(trials):
    """Seconds until the last trial is done if each is alone on its faster type, never interrupted."""
    return max(STARTUP + n * 60 / max(1, r) + SAVE for n, r in trials)


def write_run(folder, row, trials, start, seed, hazard):
    _, allocator, types, refund, multiple, *theta = row
    trials = [(round(n * t), ratio) for n, ratio in trials for t in theta or [1]]
    os.makedirs(folder)
    limit = f'deadline = "{multiple * fastest(trials):.0f}s";' if multiple else ""
    for i, (n, ratio) in enumerate(trials):
        with open(f"{folder}/t{i}.cfg", "w") as f:
            f.write(f"""experiment = {{ name = "t{i}"; metric = "loss"; goal = "minimize"; seed = {seed + i}; {limit} }};
space = {{ lr = {{ type = "real"; low = 0.001; high = 1.0; }}; }};
algorithm = {{ use = "random"; trials = 1; iterations_max = {n}; }};
trial = {{ trainable = "quadratic"; gpus_max = 1; checkpoint_every = "0s"; profile = {{ iteration = "60s"; start = "{STARTUP - 30}s";
  checkpoint = "{SAVE}s"; restore = "30s"; speed = ( ("K80", 1.0), ("V100", {ratio:.6f}) ); }}; }};
""")
    with open(f"{folder}/pool.cfg", "w") as f:
        files = ", ".join(f'{{ file = "t{i}.cfg"; }}' for i in range(len(trials)))
        f.write(f"""experiment = {{ name = "pool"; seed = {seed}; }};
experiments = ( {files} );
allocator = {{ {allocator} }};
cloud = {{ use = "sim"; prices = "../../prices.csv"; start = "{start}"; offers = (
  {offers(types, refund, hazard)} ); }};
""")


def simulate(program, folder):
    done = subprocess.run([program, "simulate", f"{folder}/pool.cfg", "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 3, 5, 6):
        sys.exit(f"reproduce.py: {folder}: {done.stderr.strip()}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    summary = [e for e in events if e["event"] == "summary"][-1]
    if not summary["experiments"] or summary["failed"]:
        sys.exit(f"reproduce.py: {folder}: {done.stderr.strip()}")
    return {"cost": summary["cost_usd"], "hours": summary["jct_s"] / 3600, "refunded": summary.get("refunded_usd", 0),
            "free": summary.get("refunded_gpu_s", 0) / summary["gpu_s"],
            "missed": any(e["status"] != "done" for e in summary["experiments"])}


def draw_starts(first, last, count, ratios):
    form = "%Y-%m-%dT%H:%M:%S.%fZ"
    a, b = (datetime.datetime.strptime(t, form) for t in (first, last))
    rng = random.Random(1)
    for i in range(count):
        at = a + datetime.timedelta(days=3) + (b - a - datetime.timedelta(days=6)) * i / count
        trials = [(round(rng.uniform(240, 720)), rng.choice(ratios)) for _ in range(TRIALS)]
        yield at.strftime("%Y-%m-%dT%H:%M:%SZ"), 1000 * i, trials


def estimate(trials, price):
    """Of a set of trials: cost and hours of single types, of the best on demand, and of the choice between the types, without interruptions."""
    k80, v100 = [n / 60 for n, _ in trials], [n / 60 / r for n, r in trials]
    found = {CHEAPEST: (sum(k80) * price[0], max(k80)), FASTEST: (sum(v100) * price[1], max(v100))}
    for name, (slow, fast) in ((DEMAND, (TYPES["p2.xlarge"][1], TYPES["p3.2xlarge"][1])), ("", price)):
        chosen = [(a * slow, a) if a * slow <= b * fast else (b * fast, b) for a, b in zip(k80, v100)]
        found[name] = sum(c for c, _ in chosen), max(h for _, h in chosen)
    return found


class Estimator:
    """Its factors of the costs, and the hours that are added, make it right in the mean of the trials that were simulated."""
    def __init__(self, starts, means):
        sets = [trials for _, _, trials in starts]
        hours = [estimate(t, (1, 1)) for t in sets]
        self.price = tuple(means[name, 1]["cost"] / statistics.fmean(h[name][0] for h in hours) for name in (CHEAPEST, FASTEST))
        raw = [estimate(t, self.price) for t in sets]
        self.rows = {}
        for name in OTHER:
            like = name if name in raw[0] else ""
            cost, took = (statistics.fmean(r[like][k] for r in raw) for k in (0, 1))
            self.rows[name] = like, means[name, 1]["cost"] / cost, means[name, 1]["hours"] - took

    def figures(self, trials):
        raw = estimate(trials, self.price)
        return {name: (raw[like][0] * factor, raw[like][1] + more) for name, (like, factor, more) in self.rows.items()}


def draw_hours(rng):
    return [round(rng.uniform(240, 720)) for _ in range(TRIALS)]


def draw_like(rng, estimator, ratios):
    """Sets of trials whose figures of KNOWN are those of OTHER; the other policies are not looked at."""
    def agrees(trials, names):
        ours = estimator.figures(trials)
        return all(abs(ours[n][k] / OTHER[n][k] - 1) <= LIKE for n in names for k in (0, 1))

    while True:
        minutes = draw_hours(rng)
        if not agrees([(n, 1) for n in minutes], [CHEAPEST]):
            continue
        for _ in range(20000):
            trials = [(n, rng.choice(ratios)) for n in minutes]
            if agrees(trials, KNOWN):
                yield trials
                break


def make_other(args, work, starts, ratios, means):
    """Beside the other simulator's figures: what sets of sixteen trials vary by, and sets that are like its own."""
    estimator, rng = Estimator(starts, means), random.Random(2)
    drawn = [estimator.figures([(n, rng.choice(ratios)) for n in draw_hours(rng)]) for _ in range(RANDOM_SETS)]
    spread = ["| policy | cost: other | 90 % of our sets | sets below it | hours: other | 90 % of our sets | sets below it |", "|---|---|---|---|---|---|---|"]
    for name, other in OTHER.items():
        cells = []
        for k in (0, 1):
            values = sorted(d[name][k] for d in drawn)
            below = sum(v < other[k] for v in values) / len(values)
            cells += [f"{other[k]}", f"{values[len(values) // 20]:.1f} to {values[-len(values) // 20]:.1f}", f"{100 * below:.0f} %"]
        spread.append(f"| {name} | " + " | ".join(cells) + " |")
    saved = [tuple(1 - d["**modern**"][0] / d[name][0] for name in (CHEAPEST, DEMAND)) for d in drawn]
    enough = [f"{100 * sum(v[k] >= least for v in saved) / len(saved):.0f} %" for k, least in ((0, 0.25), (1, 0.6))]
    spread.append(f"\nModern is at least 25 % cheaper than only p2.xlarge in {enough[0]} of these sets, and at least 60 % cheaper than machines on "
                  f"demand in {enough[1]}.")
    like = draw_like(rng, estimator, ratios)
    alike = [(start, seed + 17 + 100000 * i, trials) for i, trials in enumerate(next(like) for _ in range(SETS))
             for start, seed, _ in starts]
    found = {}
    make_table(args, work, alike, [row for row in ROWS if row[0] in OTHER], found)
    lines = ["| policy | cost: other | ours | | hours: other | ours | | at 3 x hazard, cost: other | ours | |", "|---" * 10 + "|"]
    worst = {}
    for name, other in OTHER.items():
        cells = []
        for k, (what, hazard, figure) in enumerate((("cost", 1, "cost"), ("hours", 1, "hours"), ("cost at three times the interruptions", 3, "cost"))):
            of_sets = [statistics.fmean(run[figure] for run in found[name, hazard]["runs"][i:i + len(starts)])
                       for i in range(0, len(alike), len(starts))]
            if other[k]:
                differs = statistics.fmean(of_sets) / other[k] - 1
                cells.append(f"{other[k]} | {statistics.fmean(of_sets):.1f} ({min(of_sets):.1f} to {max(of_sets):.1f}) | {100 * differs:+.1f} %")
                worst[what] = max(worst.get(what, (0, "")), (abs(differs), name.replace("*", "")))
            else:
                cells.append("| | ")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    said = [f"{what} {100 * share:.1f} % ({name})" for what, (share, name) in worst.items()]
    return "\n".join(spread), "\n".join(lines), f"The largest differences are: {', '.join(said)}."


def make_accuracy(args, prices):
    """Of all markets together, weighted by their minutes."""
    lines = ["| predictor | markets | accuracy | always the majority | F1 | log loss | Brier | training rate: log loss | Brier |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, words in PREDICTORS:
        done = subprocess.run([args.espalier, "market", prices, "--margin", MARGIN, "--json", "--predictor", *words.split()],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"reproduce.py: {done.stderr.strip()}")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        rows = [r for r in rows if r["event"] == "market" and r["minutes"] and r["log_loss"] is not None]
        minutes = sum(r["minutes"] for r in rows)
        m = {k: sum(r[k] * r["minutes"] for r in rows) / minutes
             for k in ("accuracy", "majority", "f1", "log_loss", "brier", "rate_log_loss", "rate_brier")}
        lines.append(f"| {name} | {len(rows)} | {m['accuracy']:.4f} | {m['majority']:.4f} | {m['f1']:.3f} | {m['log_loss']:.4f} | {m['brier']:.5f} | "
                     f"{m['rate_log_loss']:.4f} | {m['rate_brier']:.5f} |")
    return "\n".join(lines)


# By theta: the columns, and for each figure that of the paper.
PAPER = {
    "1": (
        {"p = 0, no refund": "paper, p = 0", "true p, refund": "refund: paper, Eq. 2 with the true p",
         "margins, adaptive, refund": "refund: paper's margins, predictor adaptive", "modern, no refund": "**modern**"},
        ("-41.5 %", "-86.0 %", "1.55 times as fast", "2.65", "3.36", "not reported")),
    "0.7": (
        {"p = 0, no refund": "theta = 0.7: paper, p = 0", "p = 0, refund": "theta = 0.7, refund: paper, p = 0",
         "true p, refund": "theta = 0.7, refund: paper, Eq. 2 with the true p", "modern, no refund": "theta = 0.7: **modern**"},
        ("-75.6 %", "-94.2 %", "2.14 times as fast", "13.11 (8.8 by the rows above)", "16.61 (11.1)", "78 %"))}


def make_comparison(means, theta):
    """The paper's figures beside ours; single types always train to the end."""
    cheap, fast = means[CHEAPEST, 1], means[FASTEST, 1]
    columns, papers = PAPER[theta]
    ours = [means[name, 1] for name in columns.values()]

    def pcr(m, base):
        return f"{base['cost'] * base['hours'] / (m['cost'] * m['hours']):.2f}"

    rows = {"cost, to the cheapest single type": [f"{100 * (m['cost'] / cheap['cost'] - 1):+.1f} %" for m in ours],
            "cost, to the fastest single type": [f"{100 * (m['cost'] / fast['cost'] - 1):+.1f} %" for m in ours],
            "completion time, to the cheapest": [f"{cheap['hours'] / m['hours']:.2f} times as fast" for m in ours],
            "PCR, to the cheapest": [pcr(m, cheap) for m in ours], "PCR, to the fastest": [pcr(m, fast) for m in ours],
            "free steps": [f"{100 * m['free']:.0f} %" for m in ours]}
    lines = [f"| theta = {theta} | paper | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    lines += [f"| {name} | {paper} | " + " | ".join(cells) + " |" for (name, cells), paper in zip(rows.items(), papers)]
    return "\n".join(lines)


def make_savings(means):
    """What the modern policy saves, at both rates of interruptions."""
    said = []
    for hazard in (1, 3):
        ours = means["**modern**", hazard]["cost"]
        less = [f"{100 * (1 - ours / means[name, hazard]['cost']):.0f} %" for name in (CHEAPEST, DEMAND)]
        said.append(f"{less[0]} less than the cheapest single type and {less[1]} less than machines on demand")
    return f"Modern costs {said[0]}; with three times the interruptions, {said[1]}."


def make_table(args, work, starts, rows, means):
    jobs = {}
    with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        for r, row in enumerate(rows):
            for hazard in (1, 3):
                for s, (start, seed, trials) in enumerate(starts):
                    folder = f"{work}/{r}-{hazard}-{s}"
                    write_run(folder, row, trials, start, seed, hazard)
                    jobs.setdefault((r, hazard), []).append(pool.submit(simulate, args.espalier, folder))
    lines = ["| policy | cost | hours | free | gross | missed | at 3 x hazard: cost | hours | missed |", "|---|---|---|---|---|---|---|---|---|"]
    for r, row in enumerate(rows):
        cells = []
        for hazard in (1, 3):
            runs = [j.result() for j in jobs[r, hazard]]
            m = {k: statistics.fmean(x[k] for x in runs) for k in runs[0]}
            m["runs"] = runs
            means[row[0], hazard] = m
            missed = f"{sum(x['missed'] for x in runs)} of {len(runs)}" if row[4] else ""
            cells += [f"{m['cost']:.1f}", f"{m['hours']:.1f}"]
            if hazard == 1:
                cells += [f"{100 * m['free']:.0f} %", f"{m['cost'] + m['refunded']:.1f}"]
            cells.append(missed)
        lines.append(f"| {row[0]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prices")
    parser.add_argument("throughputs")
    parser.add_argument("espalier", nargs="?", default=os.environ.get("ESPALIER", "espalier"))
    parser.add_argument("-o", dest="page")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--parallel", type=int, default=2)
    args = parser.parse_args()
    means = {}
    with tempfile.TemporaryDirectory() as work:
        first, last = write_prices(read(args.prices), f"{work}/prices.csv")
        ratios = speed_ratios(read(args.throughputs))
        table = make_table(args, f"{work}/all", list(draw_starts(first, last, args.starts, ratios)),
                           [row for row in ROWS if args.only in row[0]], means)
        if args.only:
            print(table)
            return
        comparison = "\n\n".join(make_comparison(means, theta) for theta in PAPER)
        of_many = {}
        many = make_table(args, f"{work}/many", list(draw_starts(first, last, 5 * args.starts, ratios)),
                          [row for row in ROWS if row[0] in MANY], of_many)
        spread, other, agreement = make_other(args, f"{work}/other", list(draw_starts(first, last, args.starts, ratios)), ratios, means)
        accuracy = make_accuracy(args, f"{work}/prices.csv")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.md")) as f:
        page = re.sub(r"@TABLE@", lambda _: table, f.read()).replace("@MANY@", many)
    page = page.replace("@ACCURACY@", accuracy).replace("@PAPER@", comparison).replace("@SAVINGS@", make_savings(of_many))
    page = page.replace("@SPREAD@", spread).replace("@OTHER@", other).replace("@SETS@", str(SETS)).replace("@AGREEMENT@", agreement)
    page = page.replace("@STARTS@", str(args.starts))
    if args.page:
        with open(args.page, "w") as f:
            f.write(page)
    else:
        print(page, end="")


main()
