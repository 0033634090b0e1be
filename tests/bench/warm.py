#!/usr/bin/env python3
"""Measures warm starts (trial.warm) on this machine, and prints one JSON object a line.

    first_line  from a trial's start to the first line of its script that imports PyTorch (or NumPy), cold and warm
    sha         27 trials on 3 rungs, iterations of 0.2 s, two slots: the same search cold and warm
    starts      thousands of warm starts of a small script: what the agent and the parent of the trials hold early and late

warm.py [first_line|sha|starts]...  from a build folder, or with ESPALIER set; PYTHON names the interpreter of the trials,
STARTS the number of starts (2000).  warm.py --page makes docs/results/warm-starts.md of such lines on its standard input.
"""
import json
import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("abs_top_builddir", os.getcwd())
ESPALIER = os.environ.get("ESPALIER", os.path.join(BUILD, "espalier"))
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
STARTS = int(os.environ.get("STARTS", "2000"))
SCRIPT = """
import argparse
import time
import {package}
{more}
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--pause", type=float, default=0.0)
args = parser.parse_args()
for epoch in range(1, args.epochs + 1):
    begun = time.monotonic()
    {step}
    time.sleep(max(0.0, args.pause - (time.monotonic() - begun)))
    print("epoch %d loss: %g" % (epoch, (args.lr - 0.1) ** 2 + 1 / epoch), flush=True)
"""
CONFIG = """
experiment = {{ name = "bench"; metric = "loss"; goal = "minimize"; seed = 3; }};
trial = {{
  command = [ "{python}", "main.py", "--lr={{lr}}", "--epochs={{iterations}}", "--pause={pause}" ];
  metrics = {{ pattern = "epoch {{iteration}} loss: {{loss}}"; }};
  gpus_max = 1; checkpoint = false; warm = {warm};
}};
space = {{ lr = {{ type = "real"; low = 0.01; high = 1.0; scale = "log"; }}; }};
algorithm = {{ {algorithm} }};
cloud = {{ use = "local"; gpus = {slots}; device = "cpu"; }};
"""


def has(package):
    return subprocess.run([PYTHON, "-c", "import " + package], stderr=subprocess.DEVNULL).returncode == 0


def write(folder, algorithm, slots=2, warm=True, pause=0.0, package=None):
    package = package or ("torch" if has("torch") else "numpy")
    steps = {"torch": ("net = torch.nn.Linear(64, 10)", "net(torch.randn(256, 64)).square().mean().backward()"),
             "numpy": ("x = numpy.ones((256, 64))", "numpy.matmul(x, x.T).mean()"), "json": ("", "pass")}
    more, step = steps[package]
    with open(os.path.join(folder, "main.py"), "w") as f:
        f.write(SCRIPT.format(package=package, more=more, step=step))
    with open(os.path.join(folder, "bench.cfg"), "w") as f:
        f.write(CONFIG.format(python=PYTHON, pause=pause, warm="true" if warm else "false", algorithm=algorithm, slots=slots))
    return package


def run(folder, name, look=None):
    """Its wall time and its log."""
    begun = time.monotonic()
    with open(os.path.join(folder, name + ".log"), "w+") as log:
        program = subprocess.Popen([ESPALIER, "run", "bench.cfg", "--dir", name], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        while program.poll() is None:
            if look is not None:
                look(program.pid)
            time.sleep(0.05)
        log.seek(0)
        text = log.read()
    if program.returncode != 0:
        sys.exit("the run failed:\n" + text)
    return time.monotonic() - begun, text


def is_warm(folder, name):
    """Of each gang, whether it began after starts became warm."""
    with open(os.path.join(folder, name + ".log")) as f:
        text = f.read()
    found = re.search(r"trials start warm", text)
    before = text[:found.start()] if found else text
    return len(re.findall(r"trial \d+ starts on", before))


def first_line(folder):
    found = {}
    for warm in (False, True):
        package = write(folder, 'use = "random"; trials = 12; iterations_max = 1;', slots=1, warm=warm)
        name = "line-%d" % warm
        run(folder, name)
        with sqlite3.connect(os.path.join(folder, name, "results.db")) as db:
            rows = db.execute("SELECT r.at_s - g.starting_s FROM gangs g JOIN reports r ON r.trial = g.trial ORDER BY g.id").fetchall()
        skip = is_warm(folder, name) if warm else 0
        found[warm] = [1000 * row[0] for row in rows[skip:]]
    load = "%.0f" % os.getloadavg()[0]
    print(json.dumps({"bench": "first_line", "machine": "%d cores, Linux %s." % (len(os.sched_getaffinity(0)), os.uname().release.split("-")[0]),
                      "load": load, "package": package, "cold_ms": round(statistics.median(found[False]), 1),
                      "warm_ms": round(statistics.median(found[True]), 1), "warm_max_ms": round(max(found[True]), 1),
                      "cold_starts": len(found[False]), "warm_starts": len(found[True])}), flush=True)


def sha(folder):
    took = {}
    for warm in (False, True):
        package = write(folder, 'use = "sha"; trials = 27; iterations_min = 1; iterations_max = 9; eta = 3;', warm=warm, pause=0.2)
        took[warm], _ = run(folder, "sha-%d" % warm)
    print(json.dumps({"bench": "sha", "package": package, "trials": 27, "slots": 2, "cold_s": round(took[False], 1),
                      "warm_s": round(took[True], 1), "times": round(took[False] / took[True], 2),
                      "training_s": round((27 * 1 + 9 * 3 + 3 * 9) * 0.2 / 2, 1)}), flush=True)


def processes(root):
    """Those below it: pid -> name."""
    parents, names = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as f:
                text = f.read()
        except OSError:
            continue
        names[int(pid)] = text[text.index("(") + 1:text.rindex(")")]
        parents[int(pid)] = int(text[text.rindex(")") + 2:].split()[1])
    found = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return {pid: names.get(pid, "?") for pid in found}
        found |= more


def starts(folder):
    samples = []

    def look(driver):
        if samples and time.monotonic() - samples[-1]["at"] < 1:
            return
        below = processes(driver)
        sample = {"at": time.monotonic(), "processes": len(below)}
        for pid, name in below.items():
            try:
                if name != "espalier-agent" and b"espalier-warm" not in open("/proc/%d/cmdline" % pid, "rb").read():
                    continue
                kind = "agent" if name == "espalier-agent" else "parent"
                if kind == "parent" and "socket" not in os.readlink("/proc/%d/fd/3" % pid):
                    continue
                status = open("/proc/%d/status" % pid).read()
                sample[kind + "_fds"] = len(os.listdir("/proc/%d/fd" % pid))
                sample[kind + "_rss_kb"] = int(re.search(r"VmRSS:\s+(\d+)", status).group(1))
            except OSError:
                pass
        if "agent_fds" in sample and "parent_fds" in sample:
            samples.append(sample)

    package = write(folder, 'use = "random"; trials = %d; iterations_max = 1;' % STARTS, slots=2, package="json")
    took, _ = run(folder, "starts", look)
    half = len(samples) // 2
    early, late = samples[1:half] or samples, samples[half:]

    def low(rows, name):
        return min(row[name] for row in rows)

    print(json.dumps({"bench": "starts", "package": package, "starts": STARTS, "cold": is_warm(folder, "starts"), "took_s": round(took, 1),
                      "ms_a_start": round(1000 * took / STARTS * 2, 1),
                      **{name: [low(early, name), low(late, name)] for name in
                         ("processes", "agent_fds", "agent_rss_kb", "parent_fds", "parent_rss_kb")}}), flush=True)


PAGE = """# Results: warm starts

*For users whose trials import large packages: what `trial.warm` saves on one machine, and what it holds.*

`tests/bench/warm.py | tests/bench/warm.py --page` makes this page. {machine}
Other programs ran beside it (load {load}), on both sides of each comparison.

| | cold | warm |
| --- | --- | --- |
| from a start to the first line of a script that imports {package}, median of {cold_starts} and {warm_starts} starts | {cold_ms:.0f} ms | {warm_ms:.0f} ms |
| `sha`, {trials} trials on 3 rungs, iterations of 0.2 s, two slots ({training_s} s of training) | {cold_s} s | {warm_s} s |

The search was {times} times as fast; its first two trials started cold.

| {starts} starts of a small script, {cold} of them cold | in the first half, least | in the second half, least |
| --- | --- | --- |
| processes of the run | {processes[0]} | {processes[1]} |
| descriptors, resident kB of the agent | {agent_fds[0]}, {agent_rss_kb[0]} | {agent_fds[1]}, {agent_rss_kb[1]} |
| descriptors, resident kB of the process that trials are forked from | {parent_fds[0]}, {parent_rss_kb[0]} | {parent_fds[1]}, {parent_rss_kb[1]} |

Most of a warm start is `fork` itself, which copies the page tables of what was imported: three times for a script whose output is read, for its
supervisor, for `espalier-listen` and for the script.
"""


def page():
    values = {}
    for line in sys.stdin:
        row = json.loads(line)
        values.update(row, package=values.get("package", row["package"]))
    names = {"torch": "PyTorch", "numpy": "NumPy"}
    values["package"] = names.get(values["package"], values["package"])
    sys.stdout.write(PAGE.format(**values))


def main():
    if sys.argv[1:] == ["--page"]:
        page()
        return
    for name in sys.argv[1:] or ("first_line", "sha", "starts"):
        folder = tempfile.mkdtemp()
        try:
            {"first_line": first_line, "sha": sha, "starts": starts}[name](folder)
        finally:
            shutil.rmtree(folder)


main()
