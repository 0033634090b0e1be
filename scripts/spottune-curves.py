#!/usr/bin/env python3
"""Writes docs/results/spottune-curves.md: how well the ends of published learning curves are predicted.

    scripts/spottune-curves.py DATA [-o PAGE.md]

DATA is a folder with `learning-curves` (taskset/*.csv.xz, algoperf/curves.csv.xz and
hparams.jsonl.xz, hpo_nmt/nmtlc.jsonl.xz, deepcave/) and `scaling-profiles/pollux`; where they are
published is in docs/results/spottune-curves.md.  espalier is $ESPALIER or the one in PATH.  Needs
Python's standard library alone; takes half a minute.  What is not found in DATA is left out.
"""
import argparse
import csv
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ESPALIER = os.environ.get("ESPALIER", "espalier")
KINDS = [("last", "last value"),
         ("earlycurve,xi=0.5,eps=0.01", "EarlyCurve as published"),
         ("earlycurve", "EarlyCurve, xi = 0.1, eps = 0.05"),
         ("earlycurve,weights=recent,anchor=last", "the same, `weights=recent,anchor=last`"),
         ("slaq", "SLAQ"),
         ("power", "power law, recent weights"),
         ("power,weights=uniform", "power law, uniform weights"),
         ("damped", "damped (default)")]
SHARES = [0.3, 0.5, 0.7, 0.9]
CEILINGS = {"fastmri": 1, "imagenet_resnet": 1, "imagenet_vit": 1, "ogbg": 1, "wmt": 100}


def convert(folder, name, *words):
    path = os.path.join(folder, name + ".csv")
    subprocess.run([sys.executable, os.path.join(TOP, "examples/curves/convert.py"), *words,
                    "-o", path], check=True)
    return path


def judge(path, metric=None, ceiling=None, kinds=None, shares=None):
    words = [ESPALIER, "curves", path, "--json"]
    for kind in kinds or [k for k, _ in KINDS]:
        words += ["--extrapolate", kind]
    for share in shares or SHARES:
        words += ["--at", str(share)]
    words += ["--metric", metric] if metric else []
    words += ["--ceiling", str(ceiling)] if ceiling else []
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def families(data, folder):
    """[(name, [answers of `espalier curves`, one a set])]"""
    curves = os.path.join(data, "learning-curves")
    found = []
    sets = []
    for path in sorted(glob.glob(curves + "/taskset/*.csv.xz")):
        table = convert(folder, os.path.basename(path)[:-7], "taskset", path)
        sets += [judge(table, "valid_loss"), judge(table, "train_loss")]
    found.append(("TaskSet", sets))
    logs = [curves + "/algoperf/curves.csv.xz", curves + "/algoperf/hparams.jsonl.xz"]
    loss, metric = [], []
    if os.path.exists(logs[0]):
        for workload in ("fastmri", "imagenet_resnet", "imagenet_vit", "librispeech_conformer",
                         "librispeech_deepspeech", "ogbg", "wmt"):
            table = convert(folder, workload, "algoperf", *logs, "--select", workload)
            loss.append(judge(table, "validation_loss"))
            metric.append(judge(table, "validation_metric", CEILINGS.get(workload)))
    found += [("AlgoPerf loss", loss), ("AlgoPerf metric", metric)]
    sets = []
    path = curves + "/hpo_nmt/nmtlc.jsonl.xz"
    if os.path.exists(path):
        for name in ("robust19-en-ja", "robust19-ja-en"):
            sets.append(judge(convert(folder, name, "nmt", path, "--select", name), "perplexity"))
    found.append(("NMT robust19", sets))
    sets = []
    for path in sorted(glob.glob(curves + "/deepcave/digits_sklearn/run_*")):
        table = convert(folder, os.path.basename(path), "deepcave", path)
        with open(table) as file:
            header = next(csv.reader(file))
        name = header[header.index("iteration") + 1]
        sets.append(judge(table, name))
    found.append(("DeepCAVE digits", sets))
    return [(name, sets) for name, sets in found if sets]


def mean(sets, kind, share, key):
    values = [r[key] for s in sets for r in s["results"]
              if r["extrapolator"] == kind and r["at"] == share and r[key] is not None]
    return sum(values) / len(values) if values else None


def form(value, format):
    return "-" if value is None else format % value


def rows(head, lines):
    return ["| %s |" % " | ".join(head), "| %s |" % " | ".join("---" for _ in head)] + \
        ["| %s |" % " | ".join(line) for line in lines] + [""]


def error_table(found):
    head = ["median error at"] + ["%s .3 / .5 / .7 / .9" % name for name, _ in found]
    return rows(head, [[text] + [" / ".join(form(mean(sets, kind, share, "median_error"), "%.4f")
                                             for share in SHARES) for _, sets in found]
                       for kind, text in KINDS])


def rank_table(found):
    head = ["top-1 / top-3 / regret at .7"] + [name for name, _ in found]
    lines = []
    for kind, text in KINDS:
        lines.append([text] + ["%s / %s / %s" % (form(mean(sets, kind, .7, "top1"), "%.2f"),
                                                 form(mean(sets, kind, .7, "top3"), "%.2f"),
                                                 form(mean(sets, kind, .7, "regret"), "%.4f"))
                               for _, sets in found])
    return rows(head, lines)


def synthetic(folder, drop, noise):
    """150 curves of 100 steps; the second stage begins with a drop at step 30 to 50."""
    draw = random.Random("%s %s" % (drop, noise))
    path = os.path.join(folder, "stages-%s-%s.csv" % (drop, noise))
    with open(path, "w") as file:
        file.write("config,iteration,loss\n")
        for config in range(150):
            at = draw.randint(30, 50)
            slow, level, floor = draw.uniform(.003, .015), draw.uniform(.4, .6), draw.uniform(.2, .5)
            first = lambda k: 1 / (slow * k + level) + floor
            after, rate, share = first(at) * (1 - drop), draw.uniform(.02, .1), draw.uniform(.3, .6)
            for k in range(1, 101):
                y = first(k) if k < at else after * (1 - share + share / (1 + rate * (k - at)))
                if k < 100:     # the end is what is to be predicted
                    y *= 1 + draw.gauss(0, noise)
                file.write("%d,%d,%.17g\n" % (config, k, y))
    return path


def stage_table(folder):
    kinds = ["last", "earlycurve,xi=0.5,eps=0.01", "earlycurve", "earlycurve,step=global", "slaq",
             "damped"]
    lines, low, high = [], [], []
    for drop, noise in ((.65, 0), (.65, .002), (.65, .005), (.65, .02), (.4, .005)):
        answer = judge(synthetic(folder, drop, noise), kinds=kinds, shares=[.7])
        by = {r["extrapolator"]: r for r in answer["results"]}
        low.append(by[kinds[1]]["staged"])
        high.append(by["earlycurve"]["staged"])
        lines.append(["%d %%, %g %%" % (100 * drop, 100 * noise),
                      "%.2f / %.2f" % (by[kinds[1]]["staged"], by["earlycurve"]["staged"])] +
                     ["%.3f" % by[kind]["median_error"] for kind in kinds])
    return rows(["drop, noise", "found by .5 and .01 / by .1 and .05", "last value",
                 "EarlyCurve as published", "EarlyCurve", "EarlyCurve, `step=global`", "SLAQ",
                 "damped"], lines), (low, high)


def real_stages(data, folder):
    """Curves of staged learning-rate schedules: does Eq. 7 see them?"""
    paths = sorted(glob.glob(data + "/scaling-profiles/pollux/cifar10/validation-*.csv") +
                   glob.glob(data + "/scaling-profiles/pollux/imagenet/validation-*.csv"))
    if not paths:
        return []
    table = os.path.join(folder, "pollux.csv")
    with open(table, "w") as file:
        file.write("config,iteration,accuracy\n")
        for config, path in enumerate(paths):
            with open(path) as source:
                for k, row in enumerate(csv.DictReader(source), 1):
                    file.write("%d,%d,%s\n" % (config, k, row["metric"]))
    kinds = ["earlycurve,xi=0.5,eps=0.01", "earlycurve"]
    answer = judge(table, "accuracy", 1, kinds, [0.9])
    by = {r["extrapolator"]: round(r["staged"] * answer["curves"]) for r in answer["results"]}
    return ["In %d runs of cifar10 and imagenet with staged schedules (Pollux), the published constants find a second "
            "stage in %d, the constants 0.1 and 0.05 in %d." % (answer["curves"], by[kinds[0]], by[kinds[1]]), ""]


def listed(names):
    return ", ".join(names) or "none"


def claims(found, stages):
    """The paper's claims, and what the figures say."""
    by = dict(found)
    lines = []
    published = "earlycurve,xi=0.5,eps=0.01"

    def pair(name, kind):
        return "%s: %s / %s" % (name, form(mean(by[name], kind, .7, "top1"), "%.2f"),
                                form(mean(by[name], kind, .7, "top3"), "%.2f"))

    names = [n for n in ("TaskSet", "NMT robust19", "DeepCAVE digits", "AlgoPerf loss",
                         "AlgoPerf metric") if n in by]
    lines.append(["With 70 % of the steps, nearly 70 % top-1 and 100 % top-3",
                  "EarlyCurve as published: " + "; ".join(pair(n, published) for n in names) +
                  ". The last value: " + "; ".join(pair(n, "last") for n in names),
                  "Holds (top-1 at least .65, top-3 at least .95) for %s. The last value has a higher "
                  "top-1 for %s" % (
                      listed(n for n in names if mean(by[n], published, .7, "top1") >= .65 and
                             mean(by[n], published, .7, "top3") >= .95),
                      listed(n for n in names if mean(by[n], "last", .7, "top1") >
                             mean(by[n], published, .7, "top1")))])
    early = {n: mean(by[n], published, .3, "top3") for n in names}
    lines.append(["theta of 0.2 to 0.4 gives a top-3 accuracy of 70 to 80 %",
                  "EarlyCurve as published at 0.3: " +
                  "; ".join("%s: %s" % (n, form(early[n], "%.2f")) for n in names) +
                  ". The last value: " + "; ".join(
                      "%s: %s" % (n, form(mean(by[n], "last", .3, "top3"), "%.2f")) for n in names),
                  "Holds for " + listed(n for n in names if early[n] >= .7)])
    ahead = [n for n in names if mean(by[n], published, .7, "median_error") <
             mean(by[n], "slaq", .7, "median_error")]
    lines.append(["EarlyCurve predicts better than SLAQ, and equally well where there is one stage",
                  "median error at .7, EarlyCurve / SLAQ: " +
                  "; ".join("%s: %.4f / %.4f" % (n, mean(by[n], published, .7, "median_error"),
                                                 mean(by[n], "slaq", .7, "median_error"))
                            for n in names),
                  "Holds for %s: an unweighted fit is ruled by the large first losses. For synthetic "
                  "stages it depends on the constants (below)" % listed(ahead)])
    low, high = stages
    lines.append(["A change above 0.5 after five below 0.01 separates stages",
                  "share of synthetic stages found without noise: %.2f, with 0.5 %% noise: %.2f; by "
                  "0.1 and 0.05: %.2f and %.2f" % (low[0], low[2], high[0], high[2]),
                  "Holds without noise alone" if low[0] >= .5 > low[2] else
                  "Does not hold" if low[0] < .5 else "Holds"])
    return rows(["the paper", "here", ""], lines)


PAGE_HEAD = """# Predicting the ends of learning curves

*For users of `spottune` and `espalier curves`: how well each method predicts and ranks published curves, and which claims of the paper hold.*

SpotTune (ICDCS 2020) trains all trials `theta` of the way, predicts where their curves end (EarlyCurve) and finishes the best. Its curves are not
published; these are others. The methods are described in [curves.md](../curves.md#extrapolation), the columns too. Each figure is the mean over the
sets of a family. `scripts/spottune-curves.py DATA` writes this page.
"""


def sources(found):
    about = {"TaskSet": "losses of text classifiers with 1,000 settings of Adam (DPL, Apache-2.0)",
             "AlgoPerf loss": "validation losses of 11 submissions (mlcommons/submissions_algorithms, Apache-2.0)",
             "AlgoPerf metric": "their metrics; of those that increase, 1 (wmt: 100) minus the metric",
             "NMT robust19": "perplexities of translation systems (Este1le/hpo_nmt, MIT)",
             "DeepCAVE digits": "200 settings of a perceptron (automl/DeepCAVE, Apache-2.0)"}
    return rows(["family", "sets", "curves", "left out", ""],
                [[name, "%d" % len(sets), "{:,}".format(sum(s["curves"] for s in sets)),
                  "{:,}".format(sum(s["left_out"] for s in sets)), about[name]]
                 for name, sets in found])


def page(data, folder):
    found = families(data, folder)
    table, stages = stage_table(folder)
    return "\n".join(
        [PAGE_HEAD] + sources(found) +
        ["## The paper's claims", ""] + claims(found, stages) +
        ["## Ranking", "",
         "Top-1 and top-3 in random groups of 16, and the mean relative regret. Compare each method with the last value: undamped "
         "fits prefer", "noisy trials, which a few times end far away.", ""] + rank_table(found) +
        ["## Errors", ""] + error_table(found) +
        ["## Stages", "",
         "Synthetic curves of two stages, the second with a drop at step 30 to 50 of 100, known to step 70: the share in which a "
         "second stage is found, and", "median errors.", ""] +
        table + real_stages(data, folder)).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("-o", "--output", help="the page; standard output if absent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = page(options.data, folder)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
