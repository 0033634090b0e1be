#!/usr/bin/env python3
"""The figures of check-gpu as tables: medians, with the minimum and the maximum in parentheses.

    figures.py FIGURES.JSONL >docs/results/gpu.md

A figure was measured on the machine of the last line above it that names one.
"""
import json
import statistics
import sys

if len(sys.argv) != 2:
    sys.exit(__doc__)
figures = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
machines = [f for f in figures if f["figure"] == "machine"] or [{}]
at = machines[0]
for f in figures:
    at = f if f["figure"] == "machine" else at
    f["on"] = at.get("gpu") or "?"


def of(kind, **wanted):
    return [f for f in figures if f["figure"] == kind and all(f.get(k) == v for k, v in wanted.items())]


def spread(values, format="%.0f"):
    values = [v for v in values if v is not None]
    if not values:
        return ""
    if len(values) == 1:
        return format % values[0]
    return (format + " (" + format + "–" + format + ")") % (statistics.median(values), min(values), max(values))


def ms(values):
    return spread([1000 * v for v in values if v is not None])


def ratio(over, under):
    return "%.1f" % (statistics.median(over) / statistics.median(under)) if over and under else ""


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(str(c) for c in row) + " |")
    print()


def section(title, some):
    print("## %s\n" % title)
    if len(machines) > 1:
        print("On one %s." % " and one ".join(sorted({f["on"] for f in some})), end=" ")


versions = sorted({f["version"] for f in of("torch")})
print("# GPUs: figures\n")
print("*For users with GPUs, and readers who want to know what was measured: medians, with the minimum and the maximum in parentheses.*\n")
print("Made by `tests/gpu/figures.py` from what [`make check-gpu`](../gpu-check.md) measured on %s. PyTorch %s.\n" % (
    "; and on ".join("one %s: driver %s, CUDA %s, NCCL %s, %s cores, Linux %s" % (
        m.get("gpu") or "?", m.get("driver") or "?", m.get("cuda", "?"), m.get("nccl", "?"), m.get("cores", "?"), m.get("kernel", "?")) for m in machines),
    ", ".join(versions) or "was not there"))

steps = of("steps")
if steps:
    section("Steps per second", steps)
    print("One trial alone. The same networks and batches, the data on the GPU, bf16. `own`: without cuBLASLt. The last column is `fashion_cuda` "
          "relative to PyTorch's eager mode.\n")
    rows = []
    for network, batch in sorted({(f["network"], f["batch"]) for f in steps}):
        def rate(kind, **wanted):
            return [f["steps_a_second"] for f in of(kind, network=network, batch=batch, **wanted)]
        mine, eager = rate("steps", products="auto", graph="step"), rate("torch", how="eager")
        rows.append([network, batch, spread(mine), spread(rate("steps", products="auto", graph="none")), spread(rate("steps", products="own")),
                     spread(eager), spread(rate("torch", how="compile")), spread(rate("torch", how="compile-graphs")), ratio(mine, eager)])
    table(["network", "batch", "fashion_cuda", "without a CUDA graph", "own", "PyTorch eager", "torch.compile", "torch.compile, reduce-overhead", "× eager"], rows)

gangs = [f for f in of("gang") if f["world"] > 1]
if gangs:
    section("Gangs on one GPU", gangs)
    print("Each rank is a process on the same GPU, so sums go over sockets. Milliseconds; a sum is of %d floats. *Cold* is the first gang of "
          "its processes. *NCCL alone* is a communicator that the same processes make and end without espalier.\n" % gangs[0]["floats"])
    rows = []
    for mps in (True, False):
        seen = set()
        groups = {}
        for f in of("gang", mps=mps):
            cold = f["world"] not in seen and f["world"] > max(seen, default=1)
            seen.add(f["world"])
            if f["world"] > 1:
                groups.setdefault((f["world"], cold), []).append(f)
        for (world, cold), group in sorted(groups.items()):
            rows.append(["MPS" if mps else "time slicing", world, "cold" if cold else "warm", len(group)] +
                        [ms([f[k] for f in group]) for k in ("connect_s", "nccl_init_s", "first_sum_s", "end_s", "nccl_end_s")] +
                        [spread([f[k] / 1000 for f in group], "%.1f") for k in ("sum_graph_us", "sum_call_us")])
    table(["sharing", "ranks", "", "n", "connect", "NCCL alone", "first sum", "end", "NCCL alone", "sum in a graph", "sum by a call"], rows)
cold = of("cold")
if cold:
    print("A first communicator in fresh processes: ours, and NCCL's own where it is the first. Milliseconds, medians of %d.\n" %
          (len(cold) // (2 * len({f["world"] for f in cold}))))
    rows = []
    for world in sorted({f["world"] for f in cold}):
        ours = [f["connect_s"] for f in cold if (f["world"], f["first"]) == (world, "espalier")]
        theirs = [f["nccl_init_s"] for f in cold if (f["world"], f["first"]) == (world, "nccl")]
        rows.append([world, ms(ours), ms(theirs), "%+.0f" % (1000 * (statistics.median(ours) - statistics.median(theirs)))])
    table(["ranks", "connect", "NCCL alone", "beyond NCCL"], rows)
if of("loss"):
    print("A rank that is killed, on one %s:\n" % of("loss")[0]["on"])
for world in sorted({f["world"] for f in of("loss")}):
    print("* One of %d ranks was killed: the others noticed after %s ms." % (world, spread([1000 * f["seen_s"] for f in of("loss", world=world)], "%.1f")))
for f in of("kill"):
    print("* A rank of %d processes was killed: after %.2f s none of them was left." % (f["ranks"], f["all_replaced_s"]))
if of("resize"):
    print("\nResizes while training, on one %s:\n" % of("resize")[0]["on"])
for f in of("resize"):
    print("* %d resizes in place while training (`graph = \"%s\"`): nothing was trained for %.0f ms (median; at most %.0f ms)." % (
        f["resizes"], f["graph"], 1000 * f["median_s"], 1000 * f["worst_s"]))
for f in of("profile", of="gang"):
    p = f["profile"]
    for r in p["measured"]["runs"]:
        print("* On %d rank%s a start from a checkpoint took %.0f ms to its first report, after %.0f ms for the checkpoint and the end of the processes." % (
            r["gpus"], "s"[:r["gpus"] > 1], 1000 * r["restored_report_s"], 1000 * r["checkpoint_s"]))
    if p.get("resize"):
        print("* `espalier profile`: %.0f ms per resize in place between 1 and 2 ranks." % (1000 * p["resize"]["mean"]))
print()

sharing = of("sharing")
if sharing:
    section("Trials that share a GPU", sharing)
    print("Steps per second of all trials together, `cnn, width 8`, batch 128. `mps`: each has an equal share of the multiprocessors; `mps-unlimited`: no limit.\n")
    counts = sorted({f["trials"] for f in sharing})
    hows = list(dict.fromkeys(f["how"] for f in sharing))
    rates = {(h, n): [f["steps_a_second"] for f in sharing if (f["how"], f["trials"]) == (h, n)] for h in hows for n in counts}
    table(["sharing"] + ["%d trial%s" % (n, "s"[:n > 1]) for n in counts],
          [[h] + [spread(rates[h, n]) for n in counts] for h in hows])
    print("Fluid's *alpha*, by which one more trial multiplies the time of each, from these medians:\n")
    rows = []
    for h in hows:
        row, base = [h], rates[h, 1] or rates.get(("mps", 1), [])
        for before, n in zip(counts, counts[1:]):
            a, b = rates[h, before] or base, rates[h, n]
            row.append("%.2f" % ((n / statistics.median(b)) / (before / statistics.median(a))) ** (1 / (n - before)) if a and b else "")
        rows.append(row)
    table(["sharing"] + ["%d to %d" % pair for pair in zip(counts, counts[1:])], rows)

grids = of("grid")
if grids:
    section("Predicted and real", grids)
    print("Grids of trials with `fluid`, as `espalier simulate` predicts them with the profile that `espalier profile` measured before, in seconds.\n")
    table(["trials", "iterations", "sharing", "predicted", "real", "error"],
          [[f["trials"], f["iterations"], f["how"], "%.1f" % f["predicted_s"], "%.1f" % f["run_s"], "%+.0f %%" % (100 * (f["predicted_s"] / f["run_s"] - 1))] for f in grids])
programs = of("programs")
if programs:
    section("Unchanged scripts in PyTorch", programs)
    print("A training script of 40 lines (`tests/gpu/torch_trial.py`: eager mode, `cnn, width 8`, batch 128), tuned by configuration alone. "
          "Up to eight share the GPU; *serial*: one after another.\n")
    serial = [f["run_s"] / f["trials"] for f in programs if f["how"] == "serial"]
    table(["trials", "iterations", "sharing", "predicted", "real", "error", "trials per minute", "× serial"],
          [[f["trials"], f["iterations"], f["how"], "%.1f" % f["predicted_s"], "%.1f" % f["run_s"], "%+.0f %%" % (100 * (f["predicted_s"] / f["run_s"] - 1)),
            "%.1f" % (60 * f["trials"] / f["run_s"]), "%.1f" % (serial[0] * f["trials"] / f["run_s"]) if serial else ""] for f in programs])
    for f in of("profile", of="programs"):
        print("Iterations of all trials together, of which one alone does 1, from `espalier profile`: %s. A start took %s s.\n" % (
            ", ".join("%d trials %.2f" % (n, speed) for n, speed in f["profile"]["packing"] if n > 1),
            spread([r["first_report_s"] for r in f["profile"]["measured"]["runs"]], "%.1f")))
allocators = of("allocator")
if allocators:
    section("One search, three allocators", allocators)
    print("9 trials by `sha` on one GPU. *Busy* is the mean of nvidia-smi's utilization: the share of the time in which any kernel ran.\n")
    table(["allocator", "sharing", "runs", "seconds", "busy"],
          [[use, of("allocator", use=use)[0]["how"], len(of("allocator", use=use)), spread([f["run_s"] for f in of("allocator", use=use)], "%.1f"),
            spread([f["busy"] for f in of("allocator", use=use)], "%.0f") + " %"] for use in dict.fromkeys(f["use"] for f in allocators)])
starts = of("start")
if starts:
    section("From one trial to the next", starts)
    print("Trials of `fashion_cuda` that follow each other on a GPU of their own, %d of them, milliseconds.\n" % len(starts))
    table(["", "ms"], [["last report to the end of the trial's processes, final checkpoint included", ms([f["end_s"] for f in starts])],
                       ["until the next trial is placed", ms([f["gap_s"] for f in starts])],
                       ["until its processes are launched, the GPU found clean", ms([f["launch_s"] for f in starts])],
                       ["until its first report", ms([f["first_report_s"] for f in starts])],
                       ["an iteration", spread([1000 * f["iteration_s"] for f in starts], "%.1f")]])
for f in of("search"):
    print("A whole search (`examples/fashion-cuda`, 27 trials by sha): %.1f s; the best network is right about %.2f %% of the validation.\n" % (f["run_s"], 100 * f["best"]))
