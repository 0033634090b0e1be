#!/usr/bin/env python3
"""peers.py - the throughput of our search algorithms beside other tuners', on the same loads in one go.

    peers.py --venv DIR [--install] [--trials N] [--observations N] [--table FILE] [--json FILE]

DIR, outside this tree, holds a virtual environment for each peer; --install makes what is missing there from
the Python package index.  Each load is an ask/tell loop (common.py) over N trials with a trivial objective; ours is
bench_algorithms (BENCH names it; it finds the plugins through ESPALIER_PLUGIN_PATH).  All figures are of the processor,
one thread.  What is compared is the fastest peer: exit status 1 where we are not 100 times as fast on random, sha,
hyperband and asha, and 20 times on tpe and bohb.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.realpath(os.path.join(HERE, "..", "..", ".."))
PEERS = {
    "optuna": ["optuna"],
    "syne_tune": ["syne-tune"],
    # HpBandSter is no longer kept: what it was written for.
    "hpbandster": ["hpbandster", "ConfigSpace<0.7", "numpy<2", "setuptools<81", "wheel"],
    "ray": ["ray[tune]"],
}
LOADS = {"random": 100, "sha": 100, "hyperband": 100, "asha": 100, "tpe": 20, "bohb": 20}  # the factor wanted
MODELS = ("tpe", "bohb")


def python_of(options, peer):
    return os.path.join(options.venv, peer, "bin", "python")


def install(options, peer):
    """A virtual environment with the peer in it; what pip says goes to standard error."""
    python = python_of(options, peer)
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", os.path.join(options.venv, peer)], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"] + PEERS[peer], check=True,
                   stdout=sys.stderr)


def environment():
    return dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONWARNINGS="ignore")


def ask(command, limit_s):
    """The last line of what it prints, as JSON; or None, and why on standard error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=limit_s)
        lines = done.stdout.strip().splitlines()
        if done.returncode == 0 and lines:
            return json.loads(lines[-1])
        why = done.stderr.strip().splitlines()[-1:] or ["exit status %d" % done.returncode]
        print("peers.py: %s: %s" % (" ".join(command), why[0]), file=sys.stderr)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print("peers.py: %s: %s" % (" ".join(command), error), file=sys.stderr)
    return None


def fastest(command, options, limit_s):
    """The fastest of some runs, where they are short: what else the machine does only makes them slower."""
    best = ask(command, limit_s)
    for _ in range(options.repeat - 1):
        if best is None or best["cpu_s"] > 5:
            break
        again = ask(command, limit_s)
        if again is not None and again["trials_per_s"] > best["trials_per_s"]:
            best = again
    return best


def measure_peers(options):
    """load -> list of results."""
    found = {load: [] for load in LOADS}
    for peer in PEERS:
        program = [python_of(options, peer), os.path.join(HERE, "load_%s.py" % peer)]
        if not os.path.exists(program[0]):
            print("peers.py: %s is not there: --install" % peer, file=sys.stderr)
            continue
        has = ask(program, 120)
        for load in LOADS:
            if has is None or load not in has["loads"]:
                continue
            count = options.observations if load in MODELS else options.trials
            result = fastest(program + [load, str(count), str(options.limit)], options, 10 * options.limit + 120)
            if result is not None:
                found[load].append(result)
                print("%s %s, %s: %.0f trials/s" % (peer, has["version"], load, result["trials_per_s"]), file=sys.stderr)
    return found


def measure_ours(options):
    bench = os.environ.get("BENCH", os.path.join("tests", "bench", "bench_algorithms"))
    ours = {}
    for load in LOADS:
        count = options.observations if load in MODELS else options.trials
        result = fastest([bench, "model" if load in MODELS else "load", load, str(count)], options, 600)
        if result is None:
            return None
        ours[load] = result
    return ours


def table(options, ours, found, out):
    out.write("Trials per second on one core, ask/tell with a trivial objective: %d trials (random, sha, hyperband, asha: 5 "
              "parameters, R = 81,\neta = 3), %d observations (tpe, bohb: 10 parameters). In brackets: trials done, where "
              "the time ran out.\n\n" % (options.trials, options.observations))
    names = sorted({(r["peer"], r["version"]) for results in found.values() for r in results})
    out.write("| load | ours | %s | times the fastest |\n|---|---:|%s---:|\n" % (
        " | ".join("%s %s" % n for n in names), "---:|" * len(names)))
    for load in LOADS:
        cells = []
        for name in names:
            of = [r for r in found[load] if (r["peer"], r["version"]) == name]
            cells.append("–" if not of else "%.0f%s" % (of[0]["trials_per_s"], "" if of[0]["ended"] else " (%d)" % of[0]["trials"]))
        out.write("| %s | %.0f | %s | %s |\n" % (load, ours[load]["trials_per_s"], " | ".join(cells), factor_text(ours, found, load)))


def factor(ours, found, load):
    fastest = max((r["trials_per_s"] for r in found[load]), default=None)
    return None if fastest is None else ours[load]["trials_per_s"] / fastest


def factor_text(ours, found, load):
    times = factor(ours, found, load)
    return "–" if times is None else "%.0f" % times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", required=True, help="folder of the virtual environments, outside the tree")
    parser.add_argument("--install", action="store_true", help="make what is missing there")
    parser.add_argument("--trials", type=int, default=1000, help="default 1000")
    parser.add_argument("--observations", type=int, default=1000, help="default 1000")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each load that is short; the fastest counts (default 3)")
    parser.add_argument("--limit", type=float, default=60, help="seconds of the processor for a load (default 60)")
    parser.add_argument("--table", help="write the table to this file (Markdown)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    options.venv = os.path.realpath(options.venv)
    if options.venv == TOP or options.venv.startswith(TOP + os.sep):
        parser.error("--venv must lie outside the source tree")
    for peer in PEERS if options.install else ():
        try:
            install(options, peer)
        except (OSError, subprocess.CalledProcessError) as error:
            print("peers.py: %s cannot be installed: %s" % (peer, error), file=sys.stderr)
    found = measure_peers(options)
    ours = measure_ours(options)
    if ours is None or not any(found.values()):
        print("peers.py: nothing to compare", file=sys.stderr)
        return 2
    with open(options.table, "w", encoding="utf-8") if options.table else os.fdopen(os.dup(1), "w") as out:
        table(options, ours, found, out)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ours": ours, "peers": found, "times_the_fastest": {l: factor(ours, found, l) for l in LOADS}},
                      file, indent=1)
            file.write("\n")
    short = [l for l in LOADS if factor(ours, found, l) is not None and factor(ours, found, l) < LOADS[l]]
    for load in short:
        print("SHORT: %s is %.0f times as fast as the fastest peer, not %d" % (load, factor(ours, found, load), LOADS[load]))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
