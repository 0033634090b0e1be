#!/usr/bin/env python3
"""Runs RubberBand's evaluation (EuroSys'21, tables 1 to 4, figures 9 to 12) through espalier.

    reproduce.py [ESPALIER] [-o FILE.md | --check FILE.md] [--quick] [--json FILE.json] [--only PART]...

Every number comes from `espalier plan` or `espalier simulate` over the configurations beside this
script; the text around them is that of report.md.  ESPALIER is the program (default: $ESPALIER,
else the one in PATH).  Without -o the report goes to standard output.  PART is a table or figure,
as in --only "figure 12": its tables alone.  --check writes nothing and says what FILE.md has
otherwise; with --quick, fewer rows of figure 9 are made, and rows alone are compared.  Exit status 1:
one of the checks fails that the report begins with, or FILE.md differs.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PRICE = 12.24                                   # dollars per node-hour in all but table 1
ROUNDING = 1e-9                                 # dollars


class Wrong(Exception):
    """What keeps the evaluation from being made: its text is all there is to say."""


class Espalier:
    """The program, how often it was asked, and how many of its best plans it could not prove."""

    def __init__(self, program):
        self.program, self.calls, self.unproven = program, 0, 0

    def ask(self, *arguments):
        try:
            p = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        except OSError as error:
            raise Wrong(f"{self.program}: {error.strerror}; name the program as first argument or "
                        "in ESPALIER") from error
        if p.returncode not in (0, 3):
            raise Wrong(f"espalier {' '.join(arguments)}:\n{p.stderr.strip()}")
        self.calls += 1
        return p.stdout

    def _file(self, verb, name, sets, *more):
        flags = [f"--set={path}={value}" for path, value in sets.items()]
        return self.ask(verb, os.path.join(HERE, name + ".cfg"), "--json", *flags, *more)

    def plan(self, name, allocator=None, gpus=None, **sets):
        """One answer of `plan`, by an allocator (and its options) or of a plan that is given."""
        sets = {path.replace("__", "."): value for path, value in sets.items()}
        if allocator:
            sets["allocator"] = "{ " + allocator + " }"
        more = ["--gpus=" + ",".join(map(str, gpus))] if gpus else []
        answer = json.loads(self._file("plan", name, sets, *more))
        if not answer["feasible"] and not gpus:
            raise Wrong(f"{name}.cfg: no plan of '{allocator}' keeps the deadline")
        self.unproven += "elastic-exact" in (allocator or "") and not answer["optimal"]
        return {"jct_s": answer["predicted"]["jct_s"]["mean"],
                "cost_usd": answer["predicted"]["cost_usd"]["mean"],
                "gpus": [s["gpus"] for s in answer["stages"]],
                "per_trial": [s["gpus_per_trial"] for s in answer["stages"]],
                "nodes": [s["nodes"] for s in answer["stages"]],
                "trials": [s["trials"] for s in answer["stages"]],
                "iterations": [s["iterations"] for s in answer["stages"]]}

    def simulate(self, name, allocator=None, **sets):
        """What the executor does on a virtual clock: its events, the summary last."""
        sets = {path.replace("__", "."): value for path, value in sets.items()}
        if allocator:
            sets["allocator"] = "{ " + allocator + " }"
        return [json.loads(line) for line in self._file("simulate", name, sets).splitlines()]


def policies(gpus_max):
    return {"static": f'use = "static"; gpus_max = {gpus_max};',
            "naive": f'use = "naive-elastic"; gpus_max = {gpus_max};',
            "literal": f'use = "elastic-greedy"; variant = "literal"; gpus_max = {gpus_max};',
            "greedy": f'use = "elastic-greedy"; gpus_max = {gpus_max};',
            "fair": f'use = "elastic-exact"; allocations = "fair"; gpus_max = {gpus_max};',
            "elastic": f'use = "elastic-exact"; gpus_max = {gpus_max};'}


# ---- words ---------------------------------------------------------------------------------------

def clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"


def seconds(text):
    minutes, rest = text.split(":")
    return int(minutes) * 60 + int(rest)


def usd(value):
    return f"{value:.2f}"


def off(ours, published):
    return f"{100 * (ours / published - 1):+.0f} %"


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def table(head, rows):
    return "\n".join([row(*head), row(*["---"] * len(head)), *rows])


def listed(numbers):
    return " ".join(map(str, numbers))


# ---- tables 1 to 4 -------------------------------------------------------------------------------

TABLE1 = {1: (749.58, 673.76), 2: (1480.07, 947.76), 4: (2773.04, 1209.51)}  # samples a second


def nodes_of_gangs(events):
    """Nodes of a gang by its GPUs, in the mean over all gangs."""
    spread = {}
    for event in events:
        if event["event"] == "gang" and event["state"] == "starting":
            spread.setdefault(event["gpus"], []).append(len({node for node, _ in event["slots"]}))
    return {gpus: sum(nodes) / len(nodes) for gpus, nodes in spread.items()}


def table1(espalier):
    near, far = [{g: v[i] for g, v in TABLE1.items()} for i in (0, 1)]
    slower = 60 * near[1] / far[1]
    speedups = ", ".join(f"({g}, {far[g] / far[1]:.4f})" for g in far)
    data = {
        "colocate": nodes_of_gangs(espalier.simulate("table1")),
        "scatter": nodes_of_gangs(espalier.simulate(
            "table1", trial__colocate="false", placer__use='"scatter"')),
        "plan_near": espalier.plan("table1", gpus=[32]),
        "plan_far": espalier.plan("table1", gpus=[32], trial__profile=(
            f'{{ iteration = "{slower:.4f}s"; scaling = ( {speedups} ); }}')),
    }
    rows = [row(g, f"{near[g]:.0f} ({near[g] / near[1]:.2f}x)", f"{far[g]:.0f} ({far[g] / far[1]:.2f}x)",
                f"{data['colocate'][g]:.0f}", f"{data['scatter'][g]:.0f}") for g in near]
    words = {"table1": table(["GPUs of a trial", "placement (published, samples/s)",
                              "no placement (published)", "nodes of a trial, `colocate`",
                              "nodes of a trial, `scatter`"], rows)}
    for which in ("near", "far"):
        plan = data["plan_" + which]
        words["table1_" + which] = f"{clock(plan['jct_s'])} and ${usd(plan['cost_usd'])}"
    ratio = data["plan_far"]["cost_usd"] / data["plan_near"]["cost_usd"]
    words["table1_ratio"] = f"{ratio:.2f}"
    checks = {"table 1: `colocate` keeps every trial on one node, `scatter` none of more than one GPU":
              all(n == 1 for n in data["colocate"].values()) and
              all(n == g for g, n in data["scatter"].items())}
    return data, words, checks


# Deadline: policy -> published time and cost, predicted and measured (None: not run).
TABLE2 = {20: {"static": ("19:24", 34.00, "19:15", 33.21), "naive": ("14:39", 27.50, None, None),
               "elastic": ("18:56", 15.68, "18:47", 15.67)},
          30: {"static": ("29:09", 17.73, "29:37", 17.99), "naive": ("26:25", 19.83, None, None),
               "elastic": ("29:14", 14.70, "27:32", 14.06)},
          40: {"static": ("36:53", 14.99, "35:45", 14.59), "naive": ("26:25", 19.83, None, None),
               "elastic": ("37:08", 14.68, "36:05", 14.16)}}
NAMES = {"static": "static", "naive": "naive elastic", "elastic": "elastic"}
# Sizes that the paper names or implies: what they are, GPUs by stage, published time and cost, and
# whether trials keep to one node or whole ones.
FORCED = [("static 20, 6 nodes (as the text says)", [24], "19:24", 34.00, "true"),
          ("static 20, 9 nodes (as the cost says)", [36], "19:24", 34.00, "true"),
          ("naive 20, 16 GPUs a trial", [512, 160, 48, 16], "14:39", 27.50, "true"),
          ("elastic 20, the nodes of table 3", [32, 20, 15, 8], "18:56", 15.68, "true"),
          ("static 30, 3 nodes", [12], "29:09", 17.73, "true"),
          ("naive 30 and 40, 5 GPUs a trial anywhere (a guess)", [160, 50, 15, 5], "26:25", 19.83, "false"),
          ("static 40, 2 nodes", [8], "36:53", 14.99, "true")]


def table2(espalier):
    allocators = policies(512)
    plans = {deadline: {name: espalier.plan("table2", use, experiment__deadline=f"{deadline}m")
                        for name, use in allocators.items()} for deadline in TABLE2}
    done = {deadline: {name: espalier.simulate("table2", allocators[name],
                                               experiment__deadline=f"{deadline}m")[-1]
                       for name in NAMES} for deadline in TABLE2}
    rows, published_nodes = [], []
    for deadline, published in TABLE2.items():
        for name, (jct, cost, real_jct, real_cost) in published.items():
            plan, summary = plans[deadline][name], done[deadline][name]
            real = f"{real_jct}, {usd(real_cost)}" if real_jct else "not run"
            rows.append(row(deadline, NAMES[name], f"{jct}, {usd(cost)}", real,
                            f"{clock(plan['jct_s'])}, {usd(plan['cost_usd'])}",
                            f"{clock(summary['jct_s'])}, {usd(summary['cost_usd'])}",
                            listed(plan["nodes"])))
        jct, cost = published["static"][:2]
        published_nodes.append(f"{cost / (seconds(jct) * PRICE / 3600):.2f}")
    words = {"table2": table(["minutes", "policy", "published, predicted", "published, measured",
                              "ours, `plan`", "ours, `simulate`", "nodes by stage"], rows)}
    savings = {deadline: {"published": 1 - p["elastic"][1] / p["static"][1],
                          "ours": 1 - plans[deadline]["elastic"]["cost_usd"] /
                          plans[deadline]["static"]["cost_usd"]} for deadline, p in TABLE2.items()}
    words["table2_savings"] = table(
        ["saving of elastic against static", *(f"{d} minutes" for d in savings)],
        [row(who, *(f"{100 * savings[d][who]:.0f} %" for d in savings)) for who in ("published", "ours")])
    words["table2_planners"] = table(
        ["minutes", "static", "naive", "greedy as printed", "greedy, repaired", "exact, fair sizes",
         "exact, any size"],
        [row(d, *(f"{usd(p['cost_usd'])} ({listed(p['nodes'])})" for p in plans[d].values()))
         for d in plans])
    words["table2_nodes"] = ", ".join(published_nodes[:-1]) + " and " + published_nodes[-1]
    words["six_nodes"] = usd(6 * PRICE * seconds("19:24") / 3600)
    words["six_saving"] = f"{100 * (1 - 15.68 / (6 * PRICE * seconds('19:24') / 3600)):.0f}"
    words["naive20"] = f"{plans[20]['naive']['per_trial'][0]} GPUs a trial, {usd(plans[20]['naive']['cost_usd'])}"
    ordered = list(savings.values())
    checks = {"table 2: elastic is cheaper than static at 20, 30 and 40 minutes":
              all(s["ours"] > 0 for s in ordered),
              "table 2: the saving shrinks from 20 to 40 minutes":
              ordered[0]["ours"] > ordered[-1]["ours"],
              "table 2: the executor takes and pays what the plan said, within 0.1 %":
              all(abs(done[d][n][key] / plans[d][n][key] - 1) < 1e-3
                  for d in done for n in done[d] for key in ("jct_s", "cost_usd"))}
    data = {"plans": plans, "savings": savings,
            "simulated": {d: {n: {k: s[k] for k in ("jct_s", "cost_usd")} for n, s in by.items()}
                          for d, by in done.items()}}
    return data, words, checks


def table2_forced(espalier):
    data, rows = [], []
    for name, gpus, jct, cost, colocate in FORCED:
        free, charged = (espalier.plan("table2", gpus=gpus, trial__colocate=colocate,
                                       cloud__offers__0__minimum_charge=charge)
                         for charge in ("0s", "60s"))
        data.append({"name": name, "without_minimum": free, "with_minimum": charged})
        ours_s, ours_usd = free["jct_s"], free["cost_usd"]
        rows.append(row(name, jct, f"{clock(ours_s)} ({off(ours_s, seconds(jct))})", usd(cost),
                        f"{usd(ours_usd)} ({off(ours_usd, cost)})", usd(charged["cost_usd"])))
    words = {"table2_forced": table(["plan", "time, published", "ours", "cost, published",
                                     "ours, no minimum charge", "ours, 60 s minimum"], rows),
             "naive16_minimum": usd(data[2]["with_minimum"]["cost_usd"])}
    return data, words, {}


def table2_cliff(espalier):
    allocators, data = policies(512), {}
    for deadline in (16, 18, 20, 22, 24, 26, 28, 30, 35, 40):
        data[deadline] = {name: espalier.plan("table2", allocators[name],
                                              experiment__deadline=f"{deadline}m")["cost_usd"]
                          for name in ("static", "elastic")}
        data[deadline]["saving"] = 1 - data[deadline]["elastic"] / data[deadline]["static"]
    costs = [d["elastic"] for d in data.values()]
    steady = all(a >= b - ROUNDING for a, b in zip(costs, costs[1:]))
    words = {"table2_cliff": table(
        ["minutes", *data],
        [row("static", *(usd(d["static"]) for d in data.values())),
         row("elastic", *(usd(d["elastic"]) for d in data.values())),
         row("saving", *(f"{100 * d['saving']:.0f} %" for d in data.values()))])}
    nearly = '((1, "107s"), (2, "55s"), (4, "35.5s"), (8, "19s"), (16, "17s"), (32, "17s"))'
    other = {name: espalier.plan("table2", allocators[name], trial__profile__latency=nearly)
             for name in ("static", "elastic")}
    data["e(1) 107 s, e(2) 55 s"] = other
    saving = 1 - other["elastic"]["cost_usd"] / other["static"]["cost_usd"]
    words["nearly"] = (f"{other['static']['nodes'][0]} nodes at ${usd(other['static']['cost_usd'])} and the "
                       f"saving {100 * saving:.0f} %")
    return data, words, {"table 2: a later deadline never makes the elastic plan dearer": steady}


TABLE3 = [("0-1", 32, 1, 8), ("1-4", 10, 2, 5), ("4-13", 3, 4, 4), ("13-50", 1, 8, 2)]


def table3(espalier):
    given = espalier.plan("table2", gpus=[32, 20, 12, 8])
    packed = espalier.plan("table2", gpus=[32, 20, 15, 8])
    ours = espalier.plan("table2", policies(512)["elastic"])
    rows = [row(epochs, trials, per_trial, nodes, given["per_trial"][i], given["nodes"][i],
                ours["per_trial"][i], ours["nodes"][i])
            for i, (epochs, trials, per_trial, nodes) in enumerate(TABLE3)]
    words = {"table3": table(["epochs", "trials", "GPUs a trial, published", "nodes, published",
                              "`--gpus 32,20,12,8`: a trial", "nodes", "cheapest in 20 min: a trial",
                              "nodes"], rows),
             "table3_given": f"{clock(given['jct_s'])} and ${usd(given['cost_usd'])}",
             "table3_packed": f"{packed['nodes'][2]} nodes and {packed['per_trial'][2]} GPUs a trial",
             "table3_ours": f"{clock(ours['jct_s'])} and ${usd(ours['cost_usd'])}"}
    stages = [(trials, per_trial) for _, trials, per_trial, _ in TABLE3]
    return ({"given": given, "with_15_gpus": packed, "cheapest": ours}, words,
            {"table 3: the stages (trials, and GPUs a trial) are those printed":
             list(zip(given["trials"], given["per_trial"])) == stages and
             given["iterations"] == [1, 3, 9, 37]})


TABLE4 = {"ResNet101, CIFAR-10": ("table2", {}, 33.21, 15.67),
          "ResNet152, CIFAR-100": ("table4", {}, 35.53, 26.54),
          "BERT, RTE": ("table4", {"experiment__deadline": "30m", "trial__profile__iteration": "225s"},
                        36.43, 29.17)}


def table4(espalier):
    data, rows = {}, []
    for model, (name, sets, fixed, elastic) in TABLE4.items():
        plans = {policy: espalier.plan(name, policies(512)[policy], **sets)
                 for policy in ("static", "elastic")}
        ours = [plans[policy]["cost_usd"] for policy in ("static", "elastic")]
        data[model] = plans
        rows.append(row(model, usd(fixed), usd(elastic), f"{100 * (1 - elastic / fixed):.0f} %",
                        *map(usd, ours), f"{100 * (1 - ours[1] / ours[0]):.0f} %",
                        listed(plans["elastic"]["nodes"])))
    words = {"table4": table(["model", "fixed, published", "RubberBand", "saving", "static, ours",
                              "elastic", "saving", "nodes by stage"], rows)}
    return data, words, {"table 4: elastic is cheaper than static for every model":
                         all(p["elastic"]["cost_usd"] < p["static"]["cost_usd"] for p in data.values())}


# ---- figures 9 to 12 -----------------------------------------------------------------------------

def function_terms(billing):
    """Functions have no nodes to share, so trials may have any number of GPUs there."""
    return {"cloud__offers__0__billing": f'"{billing}"',
            "trial__colocate": "true" if billing == "instance" else "false"}


SIGMAS = (1, 2, 4, 6, 8, 10)
ONE_GPU = [64, 32, 16, 8, 4, 2, 1]
SIZES = sorted({4 * n for n in range(1, 17)} | {1, 2, 80, 96, 112, 128, 192, 256})


def by_iteration(espalier, sigma):
    """Costs where each iteration is a draw of its own: policy -> billing -> dollars."""
    found = {"one GPU a trial": {}}
    for billing in ("instance", "function"):
        sets = {"trial__profile__iteration__sd": f"{sigma}s", **function_terms(billing)}
        for name in ("static", "elastic"):
            found.setdefault(name, {})[billing] = espalier.plan(
                "fig9", policies(256)[name], **sets)["cost_usd"]
        found["one GPU a trial"][billing] = espalier.plan("fig9", gpus=ONE_GPU, **sets)["cost_usd"]
    return found


def stage_as_iteration(espalier, trials, iterations, gpus, sigma):
    """A stage in which a trial's iterations are one draw: seconds, dollars by billing.

    A profile has one distribution for all stages, and draws anew for every iteration.  So the stage
    is a search of its own, of one long iteration; nothing but the deadline joins it to the others.
    """
    plan = espalier.plan(
        "fig9", gpus=[gpus], algorithm=f'{{ use = "stages"; stages = ( ({trials}, 1) ); }}',
        trial__profile__iteration=f'{{ dist = "normal"; mean = "{4 * iterations}s"; '
                                  f'sd = "{sigma * iterations}s"; }}',
        cloud__offers__0__billing='"function"')
    return {"s": plan["jct_s"], "function": plan["cost_usd"],
            "instance": plan["nodes"][0] * plan["jct_s"] * PRICE / 3600}


def cheapest(stages, billing, deadline):
    """The least cost of one choice for each stage whose times add up to the deadline at most."""
    frontier = [(0.0, 0.0)]
    for choices in stages:
        reached = sorted((s + c["s"], paid + c[billing]) for s, paid in frontier
                         for c in choices if s + c["s"] <= deadline)
        frontier = []
        for point in reached:
            if not frontier or point[1] < frontier[-1][1]:
                frontier.append(point)
    return frontier[-1][1]


def by_trial(espalier, sigma, deadline=1200):
    """Costs where one draw makes all of a trial's iterations in a stage fast or slow."""
    stages = [{gpus: stage_as_iteration(espalier, trials, 4 << k, gpus, sigma) for gpus in SIZES}
              for k, trials in enumerate(ONE_GPU)]
    found = {"static": {}, "elastic": {}, "one GPU a trial": {}}
    for billing in ("instance", "function"):
        whole = [g for g in SIZES if billing == "function" or g % 4 == 0]
        found["static"][billing] = min(
            sum(stage[g][billing] for stage in stages) for g in whole
            if sum(stage[g]["s"] for stage in stages) <= deadline)
        found["elastic"][billing] = cheapest([list(stage.values()) for stage in stages], billing, deadline)
        found["one GPU a trial"][billing] = sum(stage[g][billing] for stage, g in zip(stages, ONE_GPU))
    return found


def figure9(espalier):
    data, rows = {}, []
    for sigma in espalier.sigmas:
        both = {"by iteration": by_iteration(espalier, sigma), "by trial": by_trial(espalier, sigma)}
        data[sigma] = both
        for draw, found in both.items():
            cells = [f"{usd(c['instance'])} / {usd(c['function'])} = {c['instance'] / c['function']:.2f}"
                     for c in (found["static"], found["elastic"], found["one GPU a trial"])]
            rows.append(row(sigma, draw, *cells))
    words = {"fig9": table(["sigma, s", "a draw is", "static", "elastic", "one GPU a trial, all at once"],
                           rows)}
    rising = all(data[10][draw][name]["instance"] / data[10][draw][name]["function"] >
                 data[1][draw][name]["instance"] / data[1][draw][name]["function"]
                 for draw in data[1] for name in data[1][draw])
    dearer = all(c["instance"] >= c["function"] - ROUNDING for both in data.values()
                 for found in both.values() for c in found.values())
    largest = max(found[name]["instance"] / found[name]["function"] for both in data.values()
                  for found in both.values() for name in ("static", "elastic"))
    words["fig9_largest"] = f"{largest:.1f}"
    words["sizes"] = str(len(SIZES))
    alone = data[10]["by trial"]["one GPU a trial"]
    words["fig9_alone"] = f"{alone['instance'] / alone['function']:.1f}"
    return data, words, {"figure 9: billing by instance is never cheaper than by function": dearer,
                         "figure 9: sigma 10 widens the gap between them against sigma 1": rising}


def figure10(espalier):
    prices, data, rows = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16), {}, []
    for gb in (0.15, 150.0):
        data[gb] = {}
        for price in prices:
            data[gb][price] = {name: espalier.plan(
                "fig10", policies(256)[name], experiment__data_gb=gb,
                cloud__offers__0__data_price_gb=price) for name in ("static", "elastic")}
        for name in ("static", "elastic"):
            rows.append(row(f"{gb:g} GB, {name}", *(usd(p[name]["cost_usd"]) for p in data[gb].values())))
        ratios = [p["static"]["cost_usd"] / p["elastic"]["cost_usd"] for p in data[gb].values()]
        rows.append(row(f"{gb:g} GB, static / elastic", *(f"{r:.2f}" for r in ratios)))
    words = {"fig10": table(["dollars per GB", *(f"{p:g}" for p in prices)], rows)}
    large = [p["static"]["cost_usd"] / p["elastic"]["cost_usd"] for p in data[150.0].values()]
    small = data[0.15][0.16]
    return data, words, {
        "figure 10: elastic is never dearer than static":
        all(p["elastic"]["cost_usd"] <= p["static"]["cost_usd"] + ROUNDING
            for by in data.values() for p in by.values()),
        "figure 10: with the large data set, the advantage shrinks with every step of the price":
        all(a > b for a, b in zip(large, large[1:])),
        "figure 10: with the small one, it is about the same at 16 cents (within 5 %)":
        abs(small["static"]["cost_usd"] / small["elastic"]["cost_usd"] / large[0] - 1) < 0.05}


def figure11(espalier):
    counts, data, rows = (16, 32, 64, 128, 256, 512), {}, []
    for billing in ("instance", "function"):
        data[billing] = {}
        for count in counts:
            data[billing][count] = {name: espalier.plan(
                "fig11", policies(1024)[name], algorithm__trials=count,
                **function_terms(billing))["cost_usd"] for name in ("static", "literal", "elastic")}
        found = data[billing].values()
        rows += [row(f"by {billing}: static", *(usd(c["static"]) for c in found)),
                 row(f"by {billing}: elastic", *(usd(c["elastic"]) for c in found)),
                 row("static / elastic", *(f"{c['static'] / c['elastic']:.2f}" for c in found)),
                 row("static / greedy as printed", *(f"{c['static'] / c['literal']:.2f}" for c in found))]
    words = {"fig11": table(["trials", *counts], rows)}
    growing = all(a["static"] - a["elastic"] <= b["static"] - b["elastic"] + ROUNDING
                  for by in data.values()
                  for a, b in zip(list(by.values()), list(by.values())[1:]))
    return data, words, {
        "figure 11: elastic is cheaper than static at every size, by instance and by function":
        all(c["elastic"] < c["static"] for by in data.values() for c in by.values()),
        "figure 11: the difference in dollars grows with the number of trials": growing}


def figure12(espalier):
    deadlines, data, rows = range(90, 161, 10), {}, []
    for init in (1, 10, 100):
        data[init] = {d: {name: espalier.plan(
            "fig12", policies(1024)[name], experiment__deadline=f"{d}m",
            cloud__offers__0__init=f"{init}s")["cost_usd"] for name in ("static", "elastic")}
            for d in deadlines}
        found = data[init].values()
        rows += [row(f"init {init} s: static", *(f"{c['static']:.0f}" for c in found)),
                 row(f"init {init} s: elastic", *(f"{c['elastic']:.0f}" for c in found)),
                 row("static / elastic", *(f"{c['static'] / c['elastic']:.2f}" for c in found))]
    words = {"fig12": table(["deadline, minutes", *deadlines], rows)}
    tight = {init: by[90]["static"] / by[90]["elastic"] for init, by in data.items()}
    words["fig12_tight"] = f"{tight[1]:.1f}"
    for init in (1, 10, 100):
        words[f"fig12_{init}"] = f"{data[init][90]['elastic']:.0f}"
    words["fig12_rise"] = f"{100 * (data[10][90]['elastic'] / data[1][90]['elastic'] - 1):.1f}"
    return data, words, {
        "figure 12: elastic is cheaper than static at every deadline and latency":
        all(c["elastic"] < c["static"] for by in data.values() for c in by.values()),
        "figure 12: the advantage is largest at the tightest deadline":
        all(tight[i] > max(by[d]["static"] / by[d]["elastic"] for d in deadlines if d > 90)
            for i, by in data.items()),
        "figure 12: at that deadline it shrinks with the latency": tight[1] > tight[10] > tight[100]}


# ---- the report ----------------------------------------------------------------------------------

PARTS = {"table 1": table1, "table 2": table2, "table 2, sizes given": table2_forced,
         "table 2, more deadlines": table2_cliff, "table 3": table3, "table 4": table4,
         "figure 9": figure9, "figure 10": figure10, "figure 11": figure11, "figure 12": figure12}


def report(words):
    """report.md with its {{names}} filled in; every name is to be known, and used."""
    with open(os.path.join(HERE, "report.md"), encoding="utf-8") as file:
        text = file.read()
    used = set(re.findall(r"\{\{(\w+)\}\}", text))
    if used != set(words):
        raise Wrong(f"report.md and this script differ in: {', '.join(sorted(used ^ set(words)))}")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match.group(1)], text)


def differences(path, tables, whole):
    """What the file has otherwise: rows that are missing there, or the whole text."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if whole is not None:
        return [] if text == whole else ["it is not what this script makes"]
    lines = set(text.splitlines())
    return [line for made in tables for line in made.splitlines() if line not in lines]


def write(path, text):
    if path is None:
        sys.stdout.write(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("espalier", nargs="?", default=os.environ.get("ESPALIER", "espalier"))
    parser.add_argument("-o", "--output", metavar="FILE.md")
    parser.add_argument("--check", metavar="FILE.md", help="compare with this report, write nothing")
    parser.add_argument("--quick", action="store_true", help="figure 9: the least and the greatest sigma")
    parser.add_argument("--json", metavar="FILE.json", help="all numbers, as JSON")
    parser.add_argument("--only", metavar="PART", action="append", choices=PARTS,
                        help="one of: " + ", ".join(PARTS))
    arguments = parser.parse_args()
    espalier = Espalier(arguments.espalier)
    espalier.sigmas = SIGMAS[::len(SIGMAS) - 1] if arguments.quick else SIGMAS
    words = {"version": espalier.ask("--version").strip()}
    results, checks = {}, {}
    for name, part in PARTS.items():
        if arguments.only and name not in arguments.only:
            continue
        sys.stderr.write(f"{name} ...")
        sys.stderr.flush()
        began, calls = time.monotonic(), espalier.calls
        results[name], said, held = part(espalier)
        words.update(said)
        checks.update(held)
        sys.stderr.write(f" {espalier.calls - calls} calls, {time.monotonic() - began:.1f} s\n")
    checks["all: every plan of `elastic-exact` is proven to be the cheapest"] = espalier.unproven == 0
    words["calls"] = f"{espalier.calls - 1:,}"
    words["checks"] = "\n".join(f"- [{'x' if held else ' '}] {what}" for what, held in checks.items())
    tables = [text for text in words.values() if text.startswith("| ")]
    part = arguments.only or arguments.quick
    if arguments.check:
        checks["all: " + arguments.check + " is what this script makes"] = True
        for line in differences(arguments.check, tables, None if part else report(words)):
            sys.stderr.write(f"{arguments.check}: {line}\n")
            checks["all: " + arguments.check + " is what this script makes"] = False
    elif part:
        write(arguments.output, "\n\n".join([*tables, words["checks"]]) + "\n")
    else:
        write(arguments.output, report(words))
    if arguments.json:
        write(arguments.json, json.dumps({"version": words["version"], "checks": checks,
                                          "results": results}, indent=1) + "\n")
    for what, held in checks.items():
        if not held:
            sys.stderr.write(f"failed: {what}\n")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Wrong, OSError) as error:
        sys.stderr.write(f"reproduce.py: error: {error}\n")
        sys.exit(2)
