#!/usr/bin/env python3
"""frame.py - puts what bench_sim.sh printed into docs/results/frame.md.

    tests/bench/bench_sim.sh | tests/bench/frame.py [PAGE.md]

Replaces the table between the lines "<!-- bench_sim.sh -->" and "<!-- end -->" and keeps the rest.
"""
import json
import os
import re
import sys

NAMES = {"random": "`random`, 3 iterations each", "random-constant": "`random`, iterations and starts of 1 s sharp",
         "sha": "`sha` to R = 27"}


def table(lines):
    rows = ["| %s trials on 1,000 simulated GPUs | processor time | peak memory | memory for a trial |" % format(lines[0]["trials"], ","),
            "| --- | --- | --- | --- |"]
    for line in lines:
        rows.append("| %s | %.1f s | %.1f MiB | %d bytes |" % (NAMES[line["bench"][len("simulate-"):]], line["cpu_s"],
                                                               line["peak_kib"] / 1024, line["bytes_per_trial"]))
    return "\n".join(rows)


def main():
    page = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs",
                                                              "results", "frame.md")
    lines = [json.loads(line) for line in sys.stdin]
    if not lines or any(line["status"] != 0 for line in lines):
        sys.exit("frame.py: the benchmark failed")
    with open(page, encoding="utf-8") as file:
        text, count = re.subn(r"(<!-- bench_sim.sh -->\n\n).*?(\n\n<!-- end -->)", lambda m: m[1] + table(lines) + m[2], file.read(),
                              flags=re.S)
    if count != 1:
        sys.exit("frame.py: %s has no place for it" % page)
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
