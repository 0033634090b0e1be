#!/usr/bin/env python3
"""The figures of check-gpu as tables.

    figures.py FIGURES.JSONL >docs/results/gpu.md
"""
import json
import sys

if len(sys.argv) != 2:
    sys.exit(__doc__)
figures = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]


def of(kind):
    return [f for f in figures if f["figure"] == kind]


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(str(c) for c in row) + " |")
    print()


def ms(seconds):
    return "%.1f" % (1000 * seconds)


machine = (of("machine") or [{}])[0]
print("# GPUs: figures\n")
print("Made by `tests/gpu/figures.py` from what `make check-gpu` measured on %s, driver %s, %s cores, Linux %s.\n" % (
    machine.get("gpu") or "?", machine.get("driver") or "?", machine.get("cores", "?"), machine.get("kernel", "?")))

steps, torch = of("steps"), of("torch")
if steps:
    print("## Steps a second\n")
    print("The same networks and batches, data on the GPU, bf16. `own`: without cuBLASLt. PyTorch: its best of eager and compiled are shown each.\n")

    def best(network, batch, how):
        found = [f["steps_a_second"] for f in torch if (f["network"], f["batch"]) == (network, batch) and f["how"].startswith(how)]
        return "%.0f" % max(found) if found else ""

    keys = sorted({(f["network"], f["batch"]) for f in steps})
    mine = {(f["network"], f["batch"], f["products"] == "own"): f["steps_a_second"] for f in steps}
    table(["network", "batch", "fashion_cuda", "own products", "PyTorch eager", "torch.compile"],
          [[n, b, "%.0f" % mine[n, b, False] if (n, b, False) in mine else "", "%.0f" % mine[n, b, True] if (n, b, True) in mine else "",
            best(n, b, "eager"), best(n, b, "compile")] for n, b in keys])

gangs = of("gang")
if gangs:
    print("## Gangs on one GPU\n")
    print("Every rank a process on the same GPU; the first line of a world is cold. Milliseconds; `sum`: %d floats, microseconds.\n" % gangs[0]["floats"])
    table(["world", "communicator made", "NCCL's own", "first sum", "given up", "NCCL's own", "sum in a graph", "sum by a call"],
          [[f["world"], ms(f["connect_s"]), ms(f["nccl_init_s"]), ms(f["first_sum_s"]), ms(f["end_s"]), ms(f["nccl_end_s"]),
            "%.0f" % f["sum_graph_us"], "%.0f" % f["sum_call_us"]] for f in gangs])
for f in of("loss"):
    print("* Of %d ranks one was killed: rank %d saw it after %s ms." % (f["world"], f["rank"], ms(f["seen_s"])))
for f in of("resize"):
    print("* %d resizes in place while training (%s, graph = %s): nothing was trained for %s ms (median; worst %s ms)." % (
        f["resizes"], f.get("search", ""), f["graph"], ms(f["median_s"]), ms(f["worst_s"])))
for f in of("kill"):
    print("* A rank of %d processes was killed: after %.2f s none of those was there any more." % (f["ranks"], f["all_replaced_s"]))
print()

sharing = of("sharing")
if sharing:
    print("## Trials that share a GPU\n")
    print("Steps a second of all together, batch 128.\n")
    counts = sorted({f["trials"] for f in sharing})
    table(["how"] + ["%d trials" % n for n in counts],
          [[how] + [next(("%.0f" % f["steps_a_second"] for f in sharing if (f["how"], f["trials"]) == (how, n)), "") for n in counts]
           for how in dict.fromkeys(f["how"] for f in sharing)])
packed = of("packed")
if packed:
    print("Whole runs by espalier (`trial.sharing`, `packing_max`), seconds:\n")
    table(["how", "trials", "steps", "run"], [[f["how"], f["trials"], f["steps"], f["run_s"]] for f in packed])
for f in of("search"):
    print("A whole search (27 trials by sha): %.1f s; the best network is right about %.2f %% of the validation.\n" % (f["run_s"], 100 * f["best"]))
