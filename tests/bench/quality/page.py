#!/usr/bin/env python3
"""page.py - writes docs/results/algorithms.md, or checks it.

    page.py [--take PART FILE]...      writes the page from page.md and figures.json
    page.py --check [--data FOLDER] [--page FILE]
                                       is the page what they make, and do searches still give these figures?

--take puts what a script measured into figures.json first: `quality`, `terrible` (mfh6_terrible over more seeds), `curves` and `peers`
are the JSON files of quality.py, curves.py and peers.py, `cost` is what bench_algorithms printed.  --check runs the first seeds of one
problem again, and with --data (the published curves) those of one task.  ESPALIER names the program.
Exit status 1: the page, or a search, differs.
"""
import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import types

import curves
import problems
import quality

sys.path.append(os.path.join(quality.HERE, "..", "peers"))
import peers  # noqa: E402  (beside this folder)

TOP = os.path.realpath(os.path.join(quality.HERE, "..", "..", ".."))
PAGE = os.path.join(TOP, "docs", "results", "algorithms.md")
FIGURES = os.path.join(quality.HERE, "figures.json")
PARTS = ("quality", "terrible", "curves", "cost", "peers")
# again_syne_tune.py's, 128 seeds: random search and promotion.
SYNE_TUNE = ((1.741, 0.049), (2.018, 0.049))
PROBLEM, TASK = "mfbranin", "imdb_patch32_IRNN64"       # those that --check runs again


def load():
    with open(FIGURES, encoding="utf-8") as file:
        return json.load(file)


def take(part, path):
    with open(path, encoding="utf-8") as file:
        if part == "cost":
            return [json.loads(line) for line in file if line.startswith("{")]
        return json.load(file)


def marks(of):
    """JSON has no numbers as keys, and no tuples."""
    return {int(mark): tuple(value) if isinstance(value, list) and len(value) == 2 else value for mark, value in of.items()}


def quality_results(figures):
    return {method: {name: {cost: marks(of) for cost, of in costs.items()} for name, costs in names.items()}
            for method, names in figures["results"].items()}


def text_of(write, *arguments):
    out = io.StringIO()
    write(*arguments, out)
    return out.getvalue().strip()


def quality_words(figures, more):
    results, reference = quality_results(figures), quality.load_reference()
    rows, pbt_wrong = quality.judge_pbt({method: marks(of) for method, of in figures["pbt"].items()})
    counted, over, doubtful, wrong = quality.judge(results, reference)
    lines = ["%d cells, %d of them above 2%s" % (counted, len(over), ":" if over else "")]
    lines += over + doubtful + wrong + pbt_wrong
    own = quality_results(more)
    cell = "%.3f ± %.3f"
    terrible = ["| %d seeds | random search | promotion |" % more["seeds"], "|---|---:|---:|",
                "| espalier | " + " | ".join(cell % own[method]["mfh6_terrible"]["resume"][32]
                                             for method in ("random-4", "asha-promotion")) + " |",
                "| Syne Tune 0.14.2 | " + " | ".join(cell % of for of in SYNE_TUNE) + " |"]
    return {"quality_seeds": str(figures["seeds"]), "quality_verdict": "\n".join("- " + line for line in lines),
            "terrible": "\n".join(terrible), "quality": text_of(quality.table, results, reference, rows, figures["seeds"])}


def curves_words(figures):
    results = {task: {method: marks(of) for method, of in methods.items()} for task, methods in figures["results"].items()}
    return {"curves_verdict": "\n".join("- " + line for line in curves.verdict(results)),
            "curves": text_of(curves.show, results, figures["seeds"])}


def cost_words(lines):
    rows = ["| algorithm | decisions a second at 10^6 trials | trials a second | bytes a trial, the core's share included |",
            "|---|---:|---:|---:|"]
    rows += ["| %s | %s | %s | %.0f |" % (l["algorithm"], "{:,.0f}".format(round(l["decisions_per_s"], -3)),
                                          "{:,.0f}".format(round(l["trials_per_s"], -3)), l["bytes_per_trial"])
             for l in lines if l["bench"] == "algorithm-load"]
    rows += ["", "| algorithm | observations | a suggestion, after reporting one result: median | 95 % |", "|---|---:|---:|---:|"]
    rows += ["| %s | %s | %.0f us | %.0f us |" % (l["algorithm"], "{:,}".format(l["observations"]), l["suggestion_us"]["median"],
                                                  l["suggestion_us"]["p95"])
             for l in lines if l["bench"] == "algorithm-model"]
    return "\n".join(rows)


def page(figures):
    words = quality_words(figures["quality"], figures["terrible"])
    words.update(curves_words(figures["curves"]))
    words["cost"] = cost_words(figures["cost"])
    words["peers"] = text_of(peers.table, types.SimpleNamespace(trials=1000, observations=1000), figures["peers"]["ours"],
                             figures["peers"]["peers"])
    with open(os.path.join(quality.HERE, "page.md"), encoding="utf-8") as file:
        return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match.group(1)], file.read())


def same(kept, now):
    """To six digits: the last ones are the mathematical library's."""
    if isinstance(kept, (list, dict)):
        items = zip(kept, now) if isinstance(kept, list) else ((kept[k], now[k]) for k in kept)
        return len(kept) == len(now) and all(same(a, b) for a, b in items)
    return kept == now or (kept != kept and now != now) or abs(kept - now) <= 1e-6 * max(abs(kept), abs(now))


def again(script, arguments):
    """What the script measures now, over the first seeds."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        done = subprocess.run([sys.executable, "-B", os.path.join(quality.HERE, script), "--seeds", str(quality.FIRST), "--json", path]
                              + arguments, capture_output=True, text=True)
        if not os.path.exists(path):
            raise quality.Failed(done.stderr.strip())
        with open(path, encoding="utf-8") as file:
            return json.load(file)["first"]


def differences(figures, data, path):
    """Sentences."""
    with open(path, encoding="utf-8") as file:
        if file.read() != page(figures):
            yield path + " is not what page.py makes of page.md and figures.json"
    now = again("quality.py", ["--problems", PROBLEM, "--methods", ",".join(problems.METHODS)])
    for method in problems.METHODS:
        if not same(figures["quality"]["first"][method][PROBLEM], now[method][PROBLEM]):
            yield "%s on %s finds something else now: run quality.py again" % (method, PROBLEM)
    if data is None:
        return
    now = again("curves.py", [data, "--only", TASK])
    for task, methods in now.items():
        for method, of in methods.items():
            if not same(figures["curves"]["first"][task][method], of):
                yield "%s on %s finds something else now: run curves.py again" % (method, task)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", nargs=2, action="append", metavar=("PART", "FILE"), default=[], help="one of " + ", ".join(PARTS))
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--page", default=PAGE, metavar="FILE", help="default docs/results/algorithms.md")
    parser.add_argument("--data", metavar="FOLDER", help="of the published curves")
    options = parser.parse_args()
    if any(part not in PARTS for part, _ in options.take):
        parser.error("parts are " + ", ".join(PARTS))
    figures = load() if os.path.exists(FIGURES) else {}
    if options.check:
        wrong = list(differences(figures, options.data, options.page))
        for line in wrong:
            print("page.py: " + line, file=sys.stderr)
        return 1 if wrong else 0
    for part, path in options.take:
        figures[part] = take(part, path)
    if options.take:
        with open(FIGURES, "w", encoding="utf-8") as file:
            file.write("{\n%s\n}\n" % ",\n".join(
                '"%s": %s' % (part, json.dumps(figures[part], separators=(",", ":"))) for part in PARTS if part in figures))
    with open(options.page, "w", encoding="utf-8") as file:
        file.write(page(figures))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, KeyError, ValueError, quality.Failed) as why:
        print("page.py: error: %s" % why, file=sys.stderr)
        sys.exit(2)
