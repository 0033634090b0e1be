#!/usr/bin/env python3
"""How much a user writes for the same search with espalier, Optuna and Ray Tune: docs/results/python.md.

    lines.py --page        runs all programs here, measures, and writes the page
    lines.py --check       compares the page's lines and imports with the programs; runs nothing

The programs are in espalier/, optuna/ and ray/; work.py and script.py are what they train.  --page needs the three packages
in the Python that runs it: pip install optuna 'ray[tune]' and the wheel of espalier (make wheel)."""

import argparse
import ast
import importlib.metadata
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../../docs/results/python.md")
TOOLS = {"espalier": "espalier", "optuna": "Optuna", "ray": "Ray Tune"}
TASKS = {"function": "minimize a function, with a model (TPE)",
         "early": "train without checkpoints, stop early by the loss of each epoch",
         "resume": "train with checkpoints, stop early, continue after a crash",
         "unchanged": "a script that is not edited, stopped early",
         "ask": "ask and tell, kept on disk",
         "table": "the trials as a sorted table"}
COMMANDS = {"resume.cfg": "run resume.cfg --dir resume", "unchanged.cfg": "run unchanged.cfg --dir unchanged"}
WIDTH = 100


def parts(tool, task):
    return [p for p in (os.path.join(HERE, tool, task + e) for e in (".py", ".cfg")) if os.path.exists(p)]


def count(tool, task):
    """Lines that are neither empty nor a comment, and modules that are imported (without work); None: there is no program."""
    lines, modules = 0, 0
    for path in parts(tool, task):
        text = open(path).read()
        code = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if max(map(len, code)) > WIDTH:
            sys.exit("%s: a line is longer than %d columns" % (path, WIDTH))
        lines += len(code)
        if path.endswith(".py"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Import):
                    modules += len(node.names)
                elif isinstance(node, ast.ImportFrom) and node.module != "work":
                    modules += 1
    return (lines, modules) if parts(tool, task) else None


def line_rows():
    for task, words in TASKS.items():
        cells = [count(tool, task) for tool in TOOLS]
        yield "| %s | %s |" % (words, " | ".join("%d, %d" % c if c else "-" for c in cells))


def run_all():
    """Runs each program, and says how long it took; the file and its output if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        for tool in TOOLS:
            place = os.path.join(folder, tool)
            shutil.copytree(os.path.join(HERE, tool), place)
            for name in ("work.py", "script.py"):
                shutil.copy(os.path.join(HERE, name), place)
            for task in TASKS:
                for path in parts(tool, task):
                    name = os.path.basename(path)
                    if name == "resume.py" and tool == "espalier":
                        continue  # resume.cfg runs it
                    command = [sys.executable, name] if name.endswith(".py") else \
                        [sys.executable, "-m", "espalier", *COMMANDS[name].split(), "--quiet"]
                    begun = time.perf_counter()
                    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=600,
                                          env={**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
                                               "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]})
                    print("%s/%s: %.1f s" % (tool, name, time.perf_counter() - begun), file=sys.stderr)
                    if done.returncode != 0 or not done.stdout.strip():
                        sys.exit("%s/%s failed:\n%s%s" % (tool, name, done.stdout, done.stderr))


def closure(name, extras=(), found=None):
    """The distributions that pip installs for one."""
    found = {} if found is None else found
    try:
        dist = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return found  # for another platform or version
    key = re.sub(r"[-_.]+", "-", dist.metadata["Name"]).lower()
    if key in found and not extras:
        return found
    found[key] = dist
    for need in dist.requires or []:
        marker = need.partition(";")[2]
        if "extra" in marker and not any(re.search("extra *== *[\"']%s[\"']" % e, marker) for e in extras):
            continue
        closure(re.match(r"[\w.-]+", need).group(0), found=found)
    return found


def size(dists):
    return sum(os.path.getsize(f.locate()) for d in dists.values() for f in d.files or []
               if os.path.isfile(f.locate()) and not str(f).endswith(".pyc"))


def import_time(module):
    command = [sys.executable, "-c", "import time; t = time.process_time(); import %s; print(time.process_time() - t)" % module]
    return statistics.median(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(7))


def write_page():
    dists = {"espalier": closure("espalier"), "optuna": closure("optuna"), "ray": closure("ray", ["tune"])}
    sizes = {tool: size(d) for tool, d in dists.items()}
    times = {"espalier": import_time("espalier"), "optuna": import_time("optuna"), "ray": import_time("ray.tune")}
    if sizes["espalier"] < 1e6:
        sys.exit("this espalier has no program in it; install the wheel that make wheel makes")
    run_all()
    with open(PAGE, "w") as page:
        page.write(HEAD % {t: dists[t][t].version for t in TOOLS} + "\n".join(line_rows()) + MIDDLE)
        page.write("| packages that pip installs | %s |\n" % " | ".join(str(len(dists[t])) for t in TOOLS))
        page.write("| size on disk | %s |\n" % " | ".join("%.0f MB" % (sizes[t] / 1e6) for t in TOOLS))
        page.write("| processor time of the import, as a multiple of espalier's | %s |\n" %
                   " | ".join("%.0f" % (times[t] / times["espalier"]) for t in TOOLS))
        page.write(TAIL)


HEAD = """# What a user writes in Python

*For users who choose between tuners: how long the programs for the same searches are with espalier, Optuna and Ray Tune.*

`tests/bench/lines/lines.py --page` writes this page. It counts the programs of its directory, after it has run each of them, with
Optuna %(optuna)s and Ray Tune %(ray)s from PyPI, and espalier's wheel.

Each cell has the number of lines, then of modules imported. Lines are at most 100 columns long; empty ones and comments do not count, lines
of a configuration file do. Not counted is what all three share: the model, the script that is not edited, the import of the model, and the
command that starts the program.

| task | espalier | Optuna | Ray Tune |
| --- | --- | --- | --- |
"""
MIDDLE = """

- Nine trials each, over a logarithmic real and an integer parameter. Tasks that stop trials early use successive halving. Where no
  checkpoints are kept, a trial that espalier promotes is trained again from the beginning; the others never promote.
- "Continue after a crash": espalier and Ray Tune continue trials from their checkpoints. The program for Optuna keeps a file for each trial
  itself; a trial that was lost with its process begins again from that file when the study notices, by a heartbeat, that it is gone. The
  programs were run to their ends; crashes were not tried here.
- "A script that is not edited": Optuna and Ray Tune have no means of their own for that, so their programs start a process and read its lines.
- Ray Tune has no ask and tell of its own.

| | espalier | Optuna | Ray Tune |
| --- | --- | --- | --- |
"""
TAIL = """
Sizes are those of all files of the packages without compiled Python. The last task needs pandas, which pip installs with Ray Tune only.
espalier's wheel contains the program. The import is timed in seven processes, of which the median counts. [Ask and tell in figures](ask-and-tell.md) has speeds.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.page:
        write_page()
    if options.check:
        page = open(PAGE).read().splitlines()
        wrong = [row for row in line_rows() if row not in page]
        for row in wrong:
            print("docs/results/python.md lacks: " + row)
        sys.exit(bool(wrong))


main()
