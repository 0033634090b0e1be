#!/usr/bin/env python3
"""Runs the evaluation of Hu et al. (ModelArts, 2021; figures 9 to 16) and real traces in simulation through espalier.

    reproduce.py [ESPALIER] [-o DIR] [--seeds N] [--nodes N,N,...] [--only PART]... [--step SPAN]
                 [--plain] [--trace NAME:GPUS=FILE.csv]... [--parallel N] [--policies NAME,NAME,...]
                 [--update PAGE.md | --check PAGE.md]

Every number comes from `espalier simulate` over modelarts.cfg beside this script, each policy on the same jobs.  ESPALIER is
the program (default: $ESPALIER, else the one in PATH).  Works are stratified draws (docs/workload.md), with --plain plain ones.
PART is one of: bell, small, noise, wild, harsh, delay, arrivals, traces; the tables go to DIR/report.md and what each run came to
into DIR/runs.jsonl, or the tables to standard output.  Traces are what convert.py makes; GPUS is the size of the cluster.  SPAN
(1s) is the work at whose end a job can change its width; 0s: an iteration's, up to a minute.  All parts are some 1,200 runs of a
second or two each.  In PAGE.md the tables of a part stand between "<!-- reproduce.py: PART -->" and "<!-- end -->": --update writes
them anew, --check compares the cells that were made with what is there.  Exit status 1: a run fails, a cell differs, or, with six seeds or more, the improved policy is not as good as docs/milp.md says.
"""
import argparse
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
POLICIES = {"greedy": 'use="greedy";', "paper": 'use="milp"; policy="paper";', "improved": 'use="milp";',
            "equal share": 'use="milp"; engine="equal";'}
TRACE_POLICIES = {"first in, first out": ('use="fifo";', False),
                  "the same, may overtake": ('use="fifo"; overtake=true;', False),
                  "greedy": (POLICIES["greedy"], True), "equal share": (POLICIES["equal share"], True),
                  "milp, paper": (POLICIES["paper"], True), "milp, improved": (POLICIES["improved"], True),
                  "milp, improved, marginal": ('use="milp"; engine="marginal";', True)}
# Title, settings, the paper's words
PARTS = {
    "bell": ("Figures 9 to 11: queueing, total time, additional jobs", [], "a bell: 17.4 more at most, at 110 nodes"),
    "small": ("Figure 12: 805 jobs under 5 minutes besides", ["workload.small=805"], "up to 24.1"),
    "noise": ("Figure 13: estimates off by up to 10 %", ["workload.noise=0.1"], "0.6 to 2.4 fewer than without"),
    "wild": ("Estimates off by up to 50 %", ["workload.noise=0.5"], ""),
    "harsh": ("Figure 14: the same with 15 % bugs and 10 % terminated",
              ["workload.noise=0.1", "workload.bugs=0.15", "workload.terminated=0.1"], "up to 15.0"),
    "delay": ("Figure 15: 15 s for each start and change of width",
              ["trial.profile.resize=15s", "trial.profile.start=15s"], "0.9 more to 1.8 fewer than without"),
    "arrivals": ("Batches of jobs, few at night", ["workload.arrivals=batches"], ""),
}


def simulate(args, settings):
    command = [args.espalier, "simulate", os.path.join(HERE, "modelarts.cfg"), "--json"]
    for setting in settings:
        command += ["--set", setting]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"reproduce.py: {args.espalier}: {error.strerror}; name the program as the first argument")
    if done.returncode != 0:
        sys.exit(f"reproduce.py: {' '.join(command)}: {done.stderr.strip()}")
    for line in reversed(done.stdout.splitlines()):
        event = json.loads(line)
        if event.get("event") == "summary":
            args.done.append({"settings": settings, "summary": event})
            return event
    sys.exit(f"reproduce.py: {' '.join(command)}: no summary")


def everything(args, keys, settings_of):
    """{key: summary}, several at a time."""
    with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        return dict(zip(keys, pool.map(lambda key: simulate(args, settings_of(key)), keys)))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def part(args, name, out):
    title, extra, said = PARTS[name]
    keys = [(policy, nodes, seed) for policy in args.policies for nodes in args.nodes for seed in range(1, args.seeds + 1)]
    runs = everything(args, keys, lambda key: ["allocator={ " + POLICIES[key[0]] + " }", f"cloud.nodes_max={key[1]}",
                                               f"experiment.seed={key[2]}", f"workload.step={args.step}",
                                               f"workload.stratified={str(not args.plain).lower()}"] + extra)
    seeds = range(1, args.seeds + 1)

    def mean(policy, nodes, field):
        return statistics.mean(field(runs[policy, nodes, seed]) for seed in seeds)

    def more(policy, nodes):
        return statistics.mean(100 * (runs["greedy", nodes, s]["jobs"]["total_s"]["mean"] /
                                      runs[policy, nodes, s]["jobs"]["total_s"]["mean"] - 1) for s in seeds)

    out += [f"## {title}", ""]
    if said:
        out += [f"The paper: {said}.", ""]
    out += ["Additional jobs for each 100 of greedy:", ""]
    out += table(["nodes"] + [str(n) for n in args.nodes],
                 [[policy] + [f"{more(policy, n):.1f}" for n in args.nodes] for policy in args.policies if policy != "greedy"])
    if name != "bell":
        return True
    fields = {"Mean queueing, s": (1, lambda run: run["jobs"]["queue_s"]["mean"]),
              "Mean total time, min": (1, lambda run: run["jobs"]["total_s"]["mean"] / 60),
              "95 % of total times, min": (0, lambda run: run["jobs"]["total_s"]["p95"] / 60),
              "Makespan, h": (1, lambda run: run["jobs"]["makespan_s"] / 3600),
              "Changes of width": (0, lambda run: run["resizes"]),
              "Decisions, median us": (0, lambda run: run["decision_us"]["median"])}
    for title, (digits, field) in fields.items():
        out += [f"{title}:", ""]
        out += table(["nodes"] + [str(n) for n in args.nodes],
                     [[policy] + [f"{mean(policy, n, field):.{digits}f}" for n in args.nodes] for policy in args.policies])
    queue, makespan = fields["Mean queueing, s"][1], fields["Makespan, h"][1]
    if args.seeds < 6 or len(args.policies) < len(POLICIES):
        return True	  # one job of weight moves a seed's figures more than what is promised
    # no longer makespan than greedy's: six draws tell it to one percent
    return all(more("improved", n) >= more("paper", n) and mean("improved", n, queue) < 1 and
               mean("improved", n, makespan) <= 1.01 * mean("greedy", n, makespan) for n in args.nodes)


def traces(args, out):
    keys = [(trace, policy) for trace in args.trace for policy in TRACE_POLICIES]

    def settings(key):
        (_, gpus, path), (allocator, elastic) = key[0], TRACE_POLICIES[key[1]]
        return [f'workload={{ trace="{os.path.abspath(path)}"; elastic={str(elastic).lower()}; step="{args.step}"; }}',
                "allocator={ " + allocator + " }", f"cloud.nodes_max={gpus}"]

    runs = everything(args, keys, settings)
    out += ["## Real traces", "", "Completion time, from arrival to end, in minutes: mean (95 %).", ""]
    rows = []
    for policy in TRACE_POLICIES:
        times = [runs[trace, policy]["jobs"]["total_s"] for trace in args.trace]
        rows.append([policy] + [f"{t['mean'] / 60:.1f} ({t['p95'] / 60:.0f})" for t in times])
    out += table([""] + [f"{name}, {gpus} GPUs" for name, gpus, _ in args.trace], rows)
    return True


def block(name):
    return re.compile(rf"(<!-- reproduce.py: {name} -->\n\n).*?(\n\n<!-- end -->)", re.S)


def cells(text):
    """(title of the table, row, column) -> cell."""
    found, title, head = {}, "", None
    for line in text.splitlines():
        if not line.startswith("| "):
            title, head = (line or title), None
            continue
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if head is None:
            head = row
        elif not row[0].startswith("---"):
            found.update({(title, row[0], column): cell for column, cell in zip(head[1:], row[1:])})
    return found


def to_page(args, name, made):
    """Writes the part's tables into the page, or compares them; how long decisions take is not the page's.  Is all well?"""
    with open(args.update or args.check, encoding="utf-8") as file:
        page = file.read()
    there = block(name).search(page)
    if there is None:
        return True
    tables = "\n".join(made[made.index("Additional jobs for each 100 of greedy:"):]).split("\n\nDecisions")[0].rstrip()
    if args.update:
        with open(args.update, "w", encoding="utf-8") as file:
            file.write(block(name).sub(lambda m: m[1] + tables + m[2], page))
        return True
    kept = cells(there[0])
    wrong = [(key, cell) for key, cell in cells(tables).items() if kept.get(key) != cell]
    for (title, row, nodes), cell in wrong:
        print(f"{args.check}: {title} {row}, {nodes} nodes: {kept.get((title, row, nodes))} there, {cell} now", file=sys.stderr)
    return not wrong


def write(args, out):
    if args.output is None:
        return
    with open(os.path.join(args.output, "report.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(out))
    with open(os.path.join(args.output, "runs.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(run) + "\n" for run in args.done)


def trace_of(text):
    try:
        left, path = text.split("=", 1)
        name, gpus = left.rsplit(":", 1)
        return name, int(gpus), path
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME:GPUS=FILE")


def sizes(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("espalier", nargs="?", default=os.environ.get("ESPALIER", "espalier"))
    parser.add_argument("-o", dest="output", metavar="DIR")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--nodes", type=sizes, default=[70, 90, 110, 130, 150, 170, 190])
    parser.add_argument("--only", action="append", choices=[*PARTS, "traces"])
    parser.add_argument("--trace", action="append", type=trace_of, default=[], metavar="NAME:GPUS=FILE")
    parser.add_argument("--step", metavar="SPAN", default="1s")
    parser.add_argument("--plain", action="store_true", help="plain draws, which differ more from seed to seed")
    parser.add_argument("--policies", type=lambda text: text.split(","), default=list(POLICIES), metavar="NAME,...")
    parser.add_argument("--update", metavar="PAGE.md")
    parser.add_argument("--check", metavar="PAGE.md")
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.seeds < 1 or min(args.nodes) < 1:
        parser.error("--seeds and --nodes are at least 1")
    if "traces" in (args.only or []) and not args.trace:
        parser.error("--only traces needs --trace")
    if "greedy" not in args.policies or not set(args.policies) <= set(POLICIES):
        parser.error("--policies are greedy and some of " + ", ".join(POLICIES))
    args.done = []
    if args.output is not None:
        os.makedirs(args.output, exist_ok=True)
    out, fine = [], True
    for name in [*PARTS, "traces"]:
        if (args.only is not None and name not in args.only) or (name == "traces" and not args.trace):
            continue
        begun = len(out)
        fine &= traces(args, out) if name == "traces" else part(args, name, out)
        if (args.update or args.check) and name != "traces" and not to_page(args, name, out[begun:]):
            sys.exit(f"reproduce.py: {args.check} is not what this script makes now")
        write(args, out)
        print(f"{name}: done", file=sys.stderr)
    if args.output is None and not (args.update or args.check):
        print("\n".join(out))
    if not fine:
        sys.exit("reproduce.py: what is promised of the improved policy does not hold")


if __name__ == "__main__":
    main()
