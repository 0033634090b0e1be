#!/usr/bin/env python3
"""Runs Fluid's evaluation (MLSys'21, figures 5 to 13 and table 2) in simulation through espalier.

    reproduce.py [ESPALIER] [-o FILE.md] [--json FILE.json] [--seeds N] [--only PART]...
    reproduce.py --curves FILE.csv [--sigma S]

Every number comes from `espalier simulate` over fluid.cfg beside this script: each search against one trial
per GPU, first come first served, under the same seeds.  ESPALIER is the program (default: $ESPALIER, else the
one in PATH).  PART is one of: figure5, searches, corpus, nodes, table2, workers, breakdown, variance,
overhead.  Exit status 1: a check fails.
"""
import argparse
import concurrent.futures
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCHS, MEAN_S, CONFIGS = 27, 20.0, 400
# alpha: slower by this for each trial more on a GPU; beta: GPU time by this for each GPU more; at most c trials, d GPUs
PACKING = {"good": (1.15, 4), "mid": (1.3, 3), "poor": (1.7, 2)}
SCALING = {"good": (1.05, 8), "mid": (1.12, 8), "poor": (1.35, 2), "none": (1.0, 1)}
PAIRS = [("good", "good"), ("mid", "mid"), ("mid", "poor"), ("poor", "poor"), ("good", "none")]
SYNC = [("grid of 27", 'use="stages"; stages=((27,27));'), ("grid of 9", 'use="stages"; stages=((9,27));'),
        ("grid of 3", 'use="stages"; stages=((3,27));'), ("SHA of 27", 'use="sha"; trials=27; iterations_max=27; eta=3;'),
        ("Hyperband", 'use="hyperband"; iterations_max=27; eta=3;'),
        ("SyncBOHB", 'use="bohb"; mode="sync"; trials=49; iterations_max=27; eta=3;')]
# The last number: trials at once
ASYNC = [("BOHB, 8 at once", 'use="bohb"; trials=49; iterations_max=27; eta=3;', 1),
         ("ASHA, 8 at once", 'use="asha"; trials=48; iterations_max=27; eta=3;', 1),
         ("ASHA, 16 at once", 'use="asha"; trials=48; iterations_max=27; eta=3;', 2),
         ("PBT, 8 at once", 'use="pbt"; population=8; iterations_max=27; interval=3;', 1),
         ("PBT of 16, in step", 'use="pbt"; mode="sync"; population=16; iterations_max=27; interval=3;', 2)]
PARTS = ["figure5", "searches", "corpus", "nodes", "table2", "workers", "breakdown", "variance", "overhead"]
# 8 GPUs as so many nodes of so many
LAYOUTS = [(1, 8), (2, 4), (4, 2), (8, 1)]
FIFO = ('use="fair";', "scatter")
POLICIES = {"paper": ('use="fluid"; mode="paper";', "pack"), "improved": ('use="fluid";', "pack")}


def write_curves(path, sigma, seed=7):
    """Configurations x, each with epochs of one length and a loss that falls towards its own floor."""
    rng = random.Random(seed)
    floors = []
    with open(path, "w") as f:
        f.write("config,x,iteration,loss,seconds\n")
        for k in range(CONFIGS):
            x = (k + 0.5) / CONFIGS
            seconds = MEAN_S * math.exp(sigma * rng.gauss(0, 1) - sigma * sigma / 2)
            floor = 0.1 + 0.8 * (x - 0.6180339887) ** 2 + 0.25 * rng.random()
            floors.append(floor)
            for i in range(1, EPOCHS + 1):
                f.write(f"{k},{x:.6f},{i},{floor + 0.6 * math.exp(-i / 6):.6f},{seconds:.6f}\n")
    floors.sort()
    return floors[CONFIGS // 20] + 0.6 * math.exp(-EPOCHS / 6)


def table(points):
    """As a profile has it: it ends where more brings nothing."""
    kept = points[:1]
    for point in points[1:]:
        if point[1] < kept[-1][1]:
            break
        kept.append(point)
    return "( " + ", ".join(f"({a}, {b:.9g})" for a, b in kept) + " )"


class Runner:
    def __init__(self, program, folder, seeds):
        self.program, self.folder, self.seeds, self.runs = program, folder, seeds, 0
        self.target, self.known = {}, {}
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2)

    def curves(self, sigma):
        path = os.path.join(self.folder, f"curves-{sigma}.csv")
        if path not in self.target:
            self.target[path] = write_curves(path, sigma)
        return path

    def _one(self, sets, seed, target):
        command = [self.program, "simulate", os.path.join(HERE, "fluid.cfg"), "--json", "--seed", str(seed)]
        run = subprocess.run(command + [f"--set={k}={v}" for k, v in sets.items()], capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"{' '.join(command)} {sets}:\n{run.stderr}")
        reached, summary = None, None
        for line in run.stdout.splitlines():
            event = json.loads(line)
            if event.get("event") == "report" and reached is None and event["metrics"]["loss"] <= target:
                reached = event["at_s"]
            if event.get("event") == "summary":
                summary = event
        return {"makespan": summary["jct_s"], "target": reached, "busy": summary["busy_gpu_s"] / summary["gpu_s"]}

    def ask(self, algorithm, policy, packing, scaling, sigma=0.4, gpus=8, wide=True, at_once=None, nodes=1):
        """One dictionary for each seed.  at_once: trials an asynchronous search runs, in GPUs; policy: (allocator, placer)."""
        alpha, c = PACKING[packing] if isinstance(packing, str) else packing
        beta, d = SCALING[scaling] if isinstance(scaling, str) else scaling
        d = min(d, gpus)
        path = self.curves(sigma)
        sets = {"trial.curves": json.dumps(path), "algorithm": "{ " + algorithm + " }",
                "allocator": "{ " + policy[0] + " }", "placer.use": json.dumps(policy[1]),
                "trial.gpus_max": d if wide else 1, "trial.packing_max": c if at_once is None else at_once,
                "trial.profile.scaling": table([(w, w / beta ** (w - 1)) for w in range(1, d + 1)]),
                "trial.profile.packing": table([(p, p / alpha ** (p - 1)) for p in range(1, c + 1)]),
                "cloud.offers.0.gpus": gpus // nodes, "cloud.offers.0.nodes_max": nodes}
        key = json.dumps(sets, sort_keys=True)
        if key not in self.known:
            jobs = [self.pool.submit(self._one, sets, seed, self.target[path]) for seed in range(1, self.seeds + 1)]
            self.runs += len(jobs)
            self.known[key] = [job.result() for job in jobs]
        return self.known[key]

    def gain(self, algorithm, policy, *args, **more):
        """How many times sooner the policy is at the end, and at the target, than one trial per GPU: mean over seeds."""
        fifo = self.ask(algorithm, FIFO, *args, wide=False, **more)
        ours = self.ask(algorithm, policy, *args, **more)
        ends = [a["makespan"] / b["makespan"] for a, b in zip(fifo, ours)]
        targets = [a["target"] / b["target"] for a, b in zip(fifo, ours) if a["target"] and b["target"]]
        return {"end": statistics.mean(ends), "ends": ends, "targets": targets,
                "target": statistics.mean(targets) if targets else None}


def allocated(r, options, items, gpus, c):
    """What the allocator gives these items, {id: (seconds left, share it has or None)}: {id: (GPUs, trials on the GPU)}."""
    config, view = (os.path.join(r.folder, name) for name in ("figure5.cfg", "figure5.json"))
    with open(config, "w") as f:
        f.write(f'trial = {{ packing_max = {c}; profile = {{ iteration = "1s"; scaling = {table([(w, w) for w in range(1, gpus + 1)])};'
                f' packing = {table([(p, p) for p in range(1, c + 1)])}; }}; }};\nallocator = {{ {options} }};\n')
    with open(view, "w") as f:
        json.dump({"now_s": 0, "event": "arrival" if not any(s for _, s in items.values()) else "departure", "nodes": gpus, "gpus_per_node": 1,
                   "items": [{"id": i, "work_s": left, "gpus_min": 1, "gpus_max": gpus, "started_s": 0 if share else None,
                              "granted": {"gpus": share[0] if share else 0, "packing": share[1] if share else 1}}
                             for i, (left, share) in items.items()]}, f)
    run = subprocess.run([r.program, "allocate", config, view, "--json"], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr)
    return {g["id"]: (g["gpus"], g["packing"]) for g in json.loads(run.stdout)["grants"] if not g.get("queued")}


def figure5(r, out, data, checks):
    """4, 4, 12 and 30 s on 5 GPUs; there are no overheads, so n GPUs are n times as fast, and so are two trials on one."""
    out.append("\n## Figure 5: trials of 4, 4, 12 and 30 s on 5 GPUs\n\n| | shares at the beginning | ends after |\n| --- | --- | --- |\n"
               "| one trial per GPU | 1, 1, 1, 1 | 30.0 s |")
    for name, options, least in (("algorithm 1 (the figure)", 'use="fluid"; mode="paper"; resize=false;', 30 / 12.0), ("paper", POLICIES["paper"][0], 30 / 10.4),
                                 ("improved", POLICIES["improved"][0], 30 / 10.4)):
        items, now, first = {i + 1: (h, None) for i, h in enumerate((4.0, 4.0, 12.0, 30.0))}, 0.0, None
        while items:
            shares = allocated(r, options, items, 5, 2)
            first = first or shares
            step = min(items[i][0] / g for i, (g, _) in shares.items())
            now += step
            items = {i: (left - step * shares[i][0] if i in shares else left, shares.get(i)) for i, (left, _) in items.items()}
            items = {i: v for i, v in items.items() if v[0] > 1e-9}
        text = ", ".join(f"1/{p}" if p > 1 else str(g) for g, p in (first[i] for i in sorted(first)))
        data.setdefault("figure5", {})[name] = [text, now]
        out.append(f"| {name} | {text} | {now:.1f} s |")
        checks.append((f"figure 5, {name}: at least {least:.2f} times sooner", 30 / now, least - 1e-9))


def shown(g):
    return f"{g['end']:.2f} ({g['target']:.2f})" if g["target"] else f"{g['end']:.2f} (-)"


def searches(r, out, data, checks):
    data["searches"] = {}
    head = [f"{p} sharing, {s} scaling" if s != "none" else f"{p} sharing, no scaling" for p, s in PAIRS]
    for title, rows in (("In step", [(n, a, None) for n, a in SYNC]), ("As results come", ASYNC)):
        out.append(f"\n### {title}\n\n| | mode | " + " | ".join(head) + " |\n|" + " --- |" * (len(head) + 2))
        for name, algorithm, at_once in rows:
            for mode, policy in POLICIES.items():
                gains = [r.gain(algorithm, policy, p, s, at_once=at_once) for p, s in PAIRS]
                data["searches"][f"{name}/{mode}"] = gains
                out.append(f"| {name} | {mode} | " + " | ".join(shown(g) for g in gains) + " |")
    out.append("\n## Figures 6 and 8: the part of the GPU time that was used, on the mean (mid curves)\n\n| search | one trial per GPU | paper | improved |\n"
               "| --- | --- | --- | --- |")
    for name, algorithm, at_once in [(n, a, None) for n, a in SYNC[3:]] + ASYNC:
        busy = [statistics.mean(x["busy"] for x in r.ask(algorithm, policy, "mid", "mid", wide=wide, at_once=at_once))
                for policy, wide in [(FIFO, False)] + [(p, True) for p in POLICIES.values()]]
        data.setdefault("busy", {})[name] = busy
        out.append(f"| {name} | " + " | ".join(f"{100 * b:.0f} %" for b in busy) + " |")
    found = data["searches"]
    for name in ("Hyperband", "SyncBOHB"):
        checks.append((f"{name}, improved, mid curves: at least 2.2", found[f"{name}/improved"][1]["end"], 2.2))
        checks.append((f"{name}, paper, mid curves: at least 2.0", found[f"{name}/paper"][1]["end"], 2.0))
        checks.append((f"{name}, improved, poor scaling: at least 1.4", found[f"{name}/improved"][2]["end"], 1.4))
    for name, _, _ in ASYNC:
        for (p, sc), g in zip(PAIRS, found[f"{name}/improved"]):
            checks.append((f"{name}, {p} sharing, {sc if sc != 'none' else 'no'} scaling: not slower on average", g["end"], 1.0))


def corpus(r, out, data, checks):
    out.append("\n### Asynchronous searches all together, sigma 0, 0.4 and 0.8\n\n| mode | runs | sooner at the end, mean | at the target, mean | "
               "runs later | by more than 5 % | the worst |\n|" + " --- |" * 7)
    for mode, policy in POLICIES.items():
        ends, targets = [], []
        for sigma in (0.0, 0.4, 0.8):
            for name, algorithm, at_once in ASYNC:
                for p, sc in PAIRS:
                    g = r.gain(algorithm, policy, p, sc, sigma=sigma, at_once=at_once)
                    ends += g["ends"]
                    targets += g["targets"]
        late, very = (sum(e < least for e in ends) for least in (1 - 1e-9, 0.95))
        data.setdefault("corpus", {})[mode] = [len(ends), statistics.mean(ends), statistics.mean(targets), late, very, min(ends)]
        out.append(f"| {mode} | {len(ends)} | {statistics.mean(ends):.2f} | {statistics.mean(targets):.2f} | {late} | {very} | {min(ends):.2f} |")
    checks.append(("asynchronous searches, all together: at least 1.25", data["corpus"]["improved"][1], 1.25))


def nodes(r, out, data, checks):
    """A gang stands on one node or on whole ones."""
    names = [f"{n}x{g}" for n, g in LAYOUTS]
    out.append("\n## 8 GPUs on one node and on several (mid curves, improved)\n\n| | " + " | ".join(names) + " | " +
               " | ".join(f"{n} beside 1x8" for n in names[1:]) + " |\n|" + " --- |" * (2 * len(names)))
    for name, algorithm in SYNC:
        gains, beside = [], []
        for n, _ in LAYOUTS:
            gains.append(r.gain(algorithm, POLICIES["improved"], "mid", "mid", nodes=n))
            one, many = (r.ask(algorithm, POLICIES["improved"], "mid", "mid", nodes=k) for k in (1, n))
            beside.append([b["makespan"] / a["makespan"] for a, b in zip(one, many)])
        data.setdefault("nodes", {})[name] = [[g["end"] for g in gains], beside]
        out.append(f"| {name} | " + " | ".join(shown(g) for g in gains) + " | " +
                   " | ".join(f"{statistics.mean(b):.3f} ({max(b):.3f})" for b in beside[1:]) + " |")
        for layout, g in zip(names, gains):
            if name in ("Hyperband", "SyncBOHB") and layout in ("1x8", "2x4"):
                checks.append((f"{name} on {layout}, mid curves: at least 2.2", g["end"], 2.2))


def workers(r, out, data, checks):
    out.append("\n## Figures 9 and 10: the same search on more GPUs (mid curves, improved)\n\n| search | GPUs | one trial per GPU: seconds | "
               "to the target | GPU time used | fluid: seconds | to the target | GPU time used |\n|" + " --- |" * 8)
    for name, algorithm, gpus, at_once in [("SyncBOHB", SYNC[5][1], g, None) for g in (4, 8, 16)] + \
            [("ASHA, 8 at once", ASYNC[1][1], 4, 2), ("ASHA, 8 at once", ASYNC[1][1], 8, 1), ("ASHA, 16 at once", ASYNC[1][1], 16, 1)]:
        row = []
        for policy, wide in ((FIFO, False), (POLICIES["improved"], True)):
            got = r.ask(algorithm, policy, "mid", "mid", gpus=gpus, wide=wide, at_once=at_once)
            reached = [x["target"] for x in got if x["target"]]
            row += [f"{statistics.mean(x['makespan'] for x in got):.0f}", f"{statistics.mean(reached):.0f}" if reached else "-",
                    f"{100 * statistics.mean(x['busy'] for x in got):.0f} %"]
        data.setdefault("workers", []).append((name, gpus, row))
        out.append(f"| {name} | {gpus} | " + " | ".join(row) + " |")


def table2(r, out, data, checks):
    paper = {2: (81.2, 2356), 4: (63.0, 1432), 8: (45.8, 1073), 16: (47.0, 475), 32: (25.2, 432)}
    sha = 'use="sha"; trials=27; iterations_max=27; eta=3;'
    out.append("\n## Table 2: successive halving on more GPUs\n\n| GPUs | paper: used | paper: seconds | one trial per GPU: held GPUs busy | "
               "seconds | fluid: seconds | gain |\n|" + " --- |" * 7)
    data["table2"] = []
    for gpus, (used, seconds) in paper.items():
        fifo = r.ask(sha, FIFO, "mid", "mid", gpus=gpus, wide=False)
        ours = r.ask(sha, POLICIES["improved"], "mid", "mid", gpus=gpus)
        a, b = (statistics.mean(x["makespan"] for x in y) for y in (fifo, ours))
        busy = statistics.mean(x["busy"] for x in fifo)
        data["table2"].append((gpus, busy, a, b))
        out.append(f"| {gpus} | {used} % | {seconds} | {busy * 100:.0f} % | {a:.0f} | {b:.0f} | {a / b:.2f} |")


def variance(r, out, data, checks):
    out.append("\n## Figure 12: trials of unequal length (9 trials, 8 GPUs)\n\n| sigma | paper mode | improved |\n| --- | --- | --- |")
    for sigma in (0.0, 0.2, 0.4, 0.8):
        gains = [r.gain('use="stages"; stages=((9,27));', POLICIES[m], "mid", "mid", sigma=sigma) for m in POLICIES]
        data.setdefault("variance", []).append((sigma, [g["end"] for g in gains]))
        out.append(f"| {sigma} | " + " | ".join(f"{g['end']:.2f}" for g in gains) + " |")


def breakdown(r, out, data, checks):
    """The three columns are the paper's three tasks, from small models to large ones."""
    kinds = ("good", "mid", "poor")
    out.append("\n## Figure 11: sharing alone, and scaling alone (8 GPUs, improved)\n\n| | good | mid | poor |\n| --- | --- | --- | --- |")
    for what, counts in (("sharing", (9, 27, 81)), ("scaling", (1, 2, 3, 4, 6))):
        for count in counts:
            row = [r.gain(f'use="stages"; stages=(({count},27));', POLICIES["improved"], k if what == "sharing" else (1.0, 1),
                          k if what == "scaling" else (1.0, 1))["end"] for k in kinds]
            data.setdefault("breakdown", []).append((what, count, row))
            out.append(f"| {what}: {count} trial{'s' if count > 1 else ''} | " + " | ".join(f"{g:.2f}" for g in row) + " |")


def overhead(r, out, data, checks):
    factors = (1, 1.5, 2, 10)
    out.append("\n## Figure 13: with more overhead (improved)\n\n| | " + " | ".join(f"{k} x" for k in factors) + " |\n|" + " --- |" * 5)
    rows = [("sharing: 27 trials on 8 GPUs, overhead of 1.15", 27, 8)] + [(f"scaling: 3 trials on {n} GPUs, overhead of 1.05", 3, n) for n in (4, 8, 16)]
    for title, count, gpus in rows:
        row = []
        for k in factors:
            alpha = (1 + 0.15 * k, 4) if count == 27 else (1.0, 1)
            beta = (1.0, 1) if count == 27 else (1 + 0.05 * k, 8)
            row.append(r.gain(f'use="stages"; stages=(({count},27));', POLICIES["improved"], alpha, beta, gpus=gpus)["end"])
        data.setdefault("overhead", []).append((title, row))
        out.append(f"| {title} | " + " | ".join(f"{g:.2f}" for g in row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("espalier", nargs="?", default=os.environ.get("ESPALIER", "espalier"))
    parser.add_argument("-o", dest="output")
    parser.add_argument("--json")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--curves")
    parser.add_argument("--sigma", type=float, default=0.4)
    a = parser.parse_args()
    if a.curves:
        write_curves(a.curves, a.sigma)
        return 0
    out, data, checks = [], {}, []
    with tempfile.TemporaryDirectory() as folder:
        r = Runner(a.espalier, folder, a.seeds)
        for part in (figure5, searches, corpus, nodes, table2, workers, breakdown, variance, overhead):
            if not a.only or part.__name__ in a.only:
                part(r, out, data, checks)
    data["checks"] = checks
    out.append("\n## Checks\n")
    out += [f"- {'ok' if got >= least else '**not met**'}: {what} ({got:.2f})" for what, got, least in checks]
    out.append(f"\n{r.runs} simulations, {a.seeds} seeds each.")
    text = "\n".join(out) + "\n"
    if a.output:
        open(a.output, "w").write(text)
    else:
        sys.stdout.write(text)
    if a.json:
        json.dump(data, open(a.json, "w"), indent=1)
    return 0 if all(got >= least for _, got, least in checks) else 1


sys.exit(main())
