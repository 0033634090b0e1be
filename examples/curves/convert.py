#!/usr/bin/env python3
"""Turns published learning curves into the CSV that `espalier simulate` replays (trial.curves).

    convert.py taskset    FILE.csv|FILE.json            TaskSet: losses of 1,000 Adams on a task
    convert.py deepcave   DIR                           a run recorded by DeepCAVE
    convert.py hpbandster DIR                           a run recorded by HpBandSter
    convert.py nmt        nmtlc.jsonl --select NAME     hpo_nmt: perplexities of translation systems
    convert.py algoperf   curves.csv hparams.jsonl --select WORKLOAD[/SUBMISSION]

Files may be compressed (.xz, .gz).  -o names the CSV (else standard output), --space a file that
gets a matching `space` group.  The format is described in docs/curves.md.
"""
import argparse
import csv
import gzip
import io
import json
import lzma
import math
import os
import re
import sys


class Wrong(Exception):
    """The user's mistake: its text is all they need."""


def open_text(path):
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(os.path.splitext(path)[1], open)
    return io.TextIOWrapper(opener(path, "rb"), encoding="utf-8", newline="")


def identifier(name):
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return name if not name[:1].isdigit() else "_" + name


class Table:
    """Configurations with their points: what is written in the end."""

    def __init__(self):
        self.configs = {}       # name -> {parameter: value}
        self.points = {}        # name -> {iteration: {metric: value}}
        self.when = {}          # parameter -> {parameter: [values]}

    def config(self, name, params):
        self.configs[name] = {identifier(k): v for k, v in params.items() if v is not None}
        self.points.setdefault(name, {})

    def point(self, name, iteration, metrics):
        self.points[name][iteration] = {identifier(k): v for k, v in metrics.items()}

    def names(self, rows, first=()):
        found = list(first)
        for row in rows:
            found.extend(k for k in row if k not in found)
        return found

    def write(self, file):
        params = self.names(self.configs.values())
        metrics = self.names(p for points in self.points.values() for p in points.values())
        if "seconds" in metrics:                # the format wants it nowhere else
            metrics.remove("seconds")
            metrics.append("seconds")
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["config"] + params + ["iteration"] + metrics)
        for name, points in self.points.items():
            config = [cell(self.configs[name].get(p)) for p in params]
            for iteration in sorted(points):
                values = [cell(points[iteration].get(m)) for m in metrics]
                out.writerow([name] + config + [iteration] + values)

    def write_space(self, file):
        file.write("space = {\n")
        for name in self.names(self.configs.values()):
            values = [c[name] for c in self.configs.values() if name in c]
            when = "".join(" %s = ( %s );" % (k, ", ".join(map(literal, v)))
                           for k, v in self.when.get(name, {}).items())
            file.write("\t%s = %s;\n" % (name, describe(values, when)))
        file.write("};\n")


def cell(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "nan" if not math.isfinite(value) else repr(value)
    return str(value)


def literal(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 2**31 else "%dL" % value
    if isinstance(value, float):
        text = repr(value)
        return text if re.search(r"[.e]", text) else text + ".0"
    return json.dumps(str(value), ensure_ascii=False)


def describe(values, when):
    """A parameter that holds all these values."""
    tail = " when = {%s };" % when if when else ""
    distinct = list(dict.fromkeys(values))
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    if len(distinct) == 1 and not when:
        return literal(distinct[0])
    if not numbers or len(distinct) <= 8:
        kind = "ordinal" if numbers else "choice"
        distinct = sorted(distinct) if numbers else distinct
        return '{ type = "%s"; values = ( %s );%s }' % (
            kind, ", ".join(map(literal, distinct)), tail)
    low, high, scale = min(values), max(values), "linear"
    if low > 0 and high / low >= 50:
        # The median tells which end is crowded, if any: it lies at the mean of a linear scale, at
        # the geometric mean of a logarithmic one.
        middle, mean, root = sorted(values)[len(values) // 2], (low + high) / 2, (low * high) ** 0.5
        for name, at in (("log", middle), ("reverse-log", low + high - middle)):
            if abs(math.log(at / root)) < abs(math.log(at / mean)):
                scale = name
    whole = all(isinstance(v, int) for v in values)
    scale = "" if scale == "linear" else ' scale = "%s";' % scale
    if not whole:
        low, high = float(low), float(high)
    return '{ type = "%s"; low = %s; high = %s;%s%s }' % (
        "int" if whole else "real", literal(low), literal(high), scale, tail)


def convert_taskset(paths, options):
    """e0 is the loss before training: iteration k is ek."""
    table = Table()
    with open_text(paths[0]) as file:
        if re.search(r"\.json(\.|$)", paths[0]):
            rows = ((str(i), o["hp"], {s: o[s]["loss"] for s in ("train", "valid")})
                    for i, o in enumerate(json.load(file)))
        else:
            rows = taskset_rows(csv.DictReader(file))
        for name, params, curves in rows:
            table.config(name, {k: float(v) for k, v in params.items()})
            for i in range(1, len(curves["valid"])):
                table.point(name, i, {"valid_loss": float(curves["valid"][i]),
                                      "train_loss": float(curves["train"][i])})
    return table


def taskset_rows(lines):
    curves = {}
    for line in lines:
        name = line["config"]
        losses = [line[k] for k in line if re.fullmatch(r"e\d+", k)]
        params = {k: v for k, v in line.items()
                  if k not in ("config", "split") and not re.fullmatch(r"e\d+", k)}
        curves.setdefault(name, (params, {}))[1][line["split"]] = losses
    return ((name, params, c) for name, (params, c) in curves.items())


def convert_deepcave(paths, options):
    load = lambda name: json.load(open_text(os.path.join(paths[0], name)))
    meta, space = load("meta.json"), load("configspace.json")
    objectives = [o["name"] for o in meta["objectives"]]
    iteration = iterations_of([b for b in meta["budgets"] if b is not None])
    table = Table()
    for name, params in load("configs.json").items():
        table.config(name, params)
    rows = []
    with open_text(os.path.join(paths[0], "history.jsonl")) as file:
        for line in file:
            config, budget, _, values, start, end, status, _ = json.loads(line)
            if budget is not None:
                rows.append((str(config), iteration[budget], values, end - start, status))
    scratch = trained_from_scratch([(name, i, s) for name, i, _, s, status in rows if status == 1])
    before = {}
    for name, i, values, seconds, status in sorted(rows, key=lambda r: (int(r[0]), r[1])):
        span = i if scratch else i - before.get(name, 0)
        before[name] = i
        metrics = {o: v for o, v in zip(objectives, values)}
        metrics = {o: math.nan if v is None or status != 1 else v for o, v in metrics.items()}
        metrics["seconds"] = seconds / span if span > 0 and status == 1 else None
        table.point(name, i, metrics)
    for condition in space.get("conditions", []):
        add_condition(table, condition)
    return table


def add_condition(table, condition):
    if condition["type"] not in ("EQ", "IN"):
        print("convert.py: condition of type %s is left out" % condition["type"], file=sys.stderr)
        return
    values = condition.get("values", [condition.get("value")])
    table.when.setdefault(identifier(condition["child"]), {})[identifier(condition["parent"])] = values


def iterations_of(budgets):
    """Whole numbers as they are; fractions as multiples of the smallest, if they are such."""
    budgets = sorted(set(budgets))
    if not budgets:
        raise Wrong("the run has no budgets, hence no curves")
    if all(float(b).is_integer() and b > 0 for b in budgets):
        return {b: int(b) for b in budgets}
    multiples = [round(b / budgets[0]) for b in budgets]
    if len(set(multiples)) == len(budgets) and multiples[0] > 0:
        return dict(zip(budgets, multiples))
    return {b: i + 1 for i, b in enumerate(budgets)}


def trained_from_scratch(rows):
    """Did an evaluation at a larger budget start anew?  Then its length grows with the budget."""
    times = {}
    for name, iteration, seconds in rows:
        times.setdefault(name, {})[iteration] = seconds
    grow = []
    for of in times.values():
        low, high = min(of), max(of)
        if low < high and of[low] > 0:
            # 1 if the length is that of all iterations, 0 if it is that of the further ones
            anew, on = high / low, (high - max(i for i in of if i < high)) / low
            grow.append(abs(of[high] / of[low] - anew) < abs(of[high] / of[low] - on))
    return sum(grow) * 2 > len(grow)


def convert_hpbandster(paths, options):
    table = Table()
    with open_text(os.path.join(paths[0], "configs.json")) as file:
        for line in file:
            key, params, _ = json.loads(line)
            table.config("-".join(map(str, key)), params)
    results = []
    with open_text(os.path.join(paths[0], "results.json")) as file:
        for line in file:
            results.append(json.loads(line))
    iteration = iterations_of([r[1] for r in results])
    for key, budget, times, result, _ in results:
        i = iteration[budget]
        metrics = {"loss": math.nan}
        if result is not None:
            info = result.get("info")
            metrics = {k: float(v) for k, v in info.items()
                       if isinstance(v, (int, float))} if isinstance(info, dict) else {}
            metrics["loss"] = float(result["loss"])
        metrics["seconds"] = (times["finished"] - times["started"]) / i
        table.point("-".join(map(str, key)), i, metrics)
    table.configs = {k: v for k, v in table.configs.items() if table.points[k]}
    return table


def convert_nmt(paths, options):
    table, seen = Table(), {}
    with open_text(paths[0]) as file:
        for number, line in enumerate(file):
            o = json.loads(line)
            seen[o["dataset_name"]] = seen.get(o["dataset_name"], 0) + 1
            if o["dataset_name"] != options.select:
                continue
            name = str(number)
            table.config(name, o["hyperparams"])
            bleu = o.get("bleu_curve") or []
            for i, perplexity in enumerate(o["perplexity_curve"]):
                metrics = {"perplexity": float(perplexity)}
                if i < len(bleu):
                    metrics["bleu"] = float(bleu[i])
                table.point(name, i + 1, metrics)
    if not table.configs:
        raise Wrong("--select: one of " + ", ".join("%s (%d)" % s for s in sorted(seen.items())))
    return table


def convert_algoperf(paths, options):
    """An iteration is one evaluation; a configuration one trial of one study.  Of all submissions
    to a workload only their names are parameters: each has others."""
    if len(paths) != 2:
        raise Wrong("algoperf needs two files: curves.csv and hparams.jsonl")
    table, seen = Table(), set()
    whole = "/" not in (options.select or "/")
    chosen = lambda o: options.select == (
        o["workload"] if whole else "%s/%s" % (o["workload"], o["submission"]))
    key = lambda o: "%s%s-%s" % (o["submission"] + "-" if whole else "", o["study"], o["trial"])
    with open_text(paths[1]) as file:
        for line in file:
            o = json.loads(line)
            seen.add("%s/%s" % (o["workload"], o["submission"]))
            if chosen(o):
                params = {k: v for k, v in o["hparams"].items() if not isinstance(v, (dict, list))}
                if whole:
                    params = {"submission": o["submission"], "trial": int(o["trial"])}
                table.config(key(o), dict(params, study=int(o["study"])))
    if not table.configs:
        raise Wrong("--select: one of " + ", ".join(sorted(seen)))
    before = {}
    with open_text(paths[0]) as file:
        for row in csv.DictReader(file):
            name = key(row)
            if not chosen(row) or name not in table.points:
                continue
            metrics = {m: float(row[m]) if row[m] else None
                       for m in ("validation_metric", "validation_loss", "train_loss")}
            now = float(row["train_time_s"]) if row["train_time_s"] else None
            if now is not None:
                metrics["seconds"] = max(0.0, now - before.get(name, 0.0))
                before[name] = now
            table.point(name, len(table.points[name]) + 1, metrics)
    return table


SOURCES = {"taskset": convert_taskset, "deepcave": convert_deepcave, "nmt": convert_nmt,
           "hpbandster": convert_hpbandster, "algoperf": convert_algoperf}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=sorted(SOURCES))
    parser.add_argument("paths", nargs="+", metavar="FILE")
    parser.add_argument("--select", help="nmt: data set; algoperf: WORKLOAD[/SUBMISSION]")
    parser.add_argument("-o", "--output", help="the CSV; standard output if absent")
    parser.add_argument("--space", help="write a matching space group to this file")
    options = parser.parse_args()
    try:
        table = SOURCES[options.source](options.paths, options)
        if options.output:
            with open(options.output, "w", encoding="utf-8", newline="") as file:
                table.write(file)
        else:
            table.write(sys.stdout)
        if options.space:
            with open(options.space, "w", encoding="utf-8") as file:
                table.write_space(file)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Wrong, OSError, EOFError, lzma.LZMAError, KeyError, ValueError, TypeError) as error:
        what = "has no" if isinstance(error, KeyError) else "error:"
        print("convert.py: %s: %s %s" % (options.paths[0], what, error), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
