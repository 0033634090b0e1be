#!/usr/bin/python3
"""Does every clone of a run go on from its parent's weights?

The run trains `quadratic` without noise, where theta after a step is known: theta_i (1 - lr / i).
So every report of every trial is computed anew along its ancestors, each with its own lr, and
compared.  The export of the run, as JSON, comes on standard input; one line tells the outcome.
"""
import json
import sys

run = json.load(sys.stdin)
trials = {t["trial"]: t for t in run["trials"]}
wrong, clones, first_after = [], 0, {}


def theta_at(trial, iteration):
    """theta of a trial (or, before it began, of the ancestor that trained then)."""
    t = trials[trial]
    began = 0
    if t["parent"] is not None and t["reports"]:
        began = t["reports"][0]["iteration"] - 1
    theta = theta_at(t["parent"], began) if t["parent"] is not None else [1.0] * 10
    lr = t["params"]["lr"]
    return [v * (1 - lr / (i + 1)) ** (iteration - began) for i, v in enumerate(theta)]


for t in run["trials"]:
    if t["parent"] is not None and t["reports"]:
        clones += 1
    if t["parent"] is not None and t["reports"] and t["reports"][0]["iteration"] == 1:
        wrong.append("trial %d begins anew" % t["trial"])
        continue
    for report in t["reports"]:
        theta = theta_at(t["trial"], report["iteration"])
        loss = sum(0.5 * v * v / (i + 1) for i, v in enumerate(theta))
        if abs(loss - report["loss"]) > 1e-6 * abs(loss) + 1e-12:
            wrong.append("trial %d at %d: %r, not %r" % (t["trial"], report["iteration"], report["loss"], loss))
print("%d trials, %d clones, %d wrong%s" % (len(trials), clones, len(wrong), "".join("; " + w for w in wrong[:3])))
