#!/usr/bin/env python3
"""Is what a run's results say of its GPUs the truth?

    gpu_map.py CHECK DIR [FILE]

events    each gang began to run, was resized and ended when the journal says so (FILE: of helper_journal)
seconds   the stays of every trial sum up to the GPU time that the executor counted
seats     nobody is twice anywhere, nobody beside another on a GPU of its own, and all sit on nodes that are there
csv       the exported map (FILE) is the stays, GPU by GPU
resizes   what each resize cost and brought, computed anew from the reports
"""
import csv
import json
import sqlite3
import sys

check, folder, file = (sys.argv + [None])[1:4]
db = sqlite3.connect(f"file:{folder}/results.db?mode=ro", uri=True)
db.row_factory = sqlite3.Row
stays = [dict(r) for r in db.execute("SELECT * FROM stays ORDER BY gang, number")]
for s in stays:
    s["slots"] = [tuple(pair) for pair in json.loads(s["slots"])]
wrong = []


def near(a, b, size=1.0):
    return a is not None and b is not None and abs(a - b) <= 1e-9 * max(size, abs(a), abs(b))


def events():
    told = {}
    resumes = []
    for line in open(file):
        at, what, *more = line.split()
        at = int(at) / 1e9
        if what == "resume":
            resumes.append(at)
            continue
        told.setdefault(int(more[0]), {"started": [], "resized": [], "ended": []})[what].append((at, more[1:]))
    gangs = {g["id"]: g for g in db.execute("SELECT * FROM gangs")}
    if not set(told) <= set(gangs):
        wrong.append(f"gangs {set(told) - set(gangs)} are not there")
    for gang, row in gangs.items():
        mine = [s for s in stays if s["gang"] == gang]
        t = told.get(gang, {"started": [], "resized": [], "ended": []})
        ends = [at for at, _ in t["ended"]] or [at for at in resumes if at >= row["starting_s"]][:1]
        edges = [row["starting_s"]] + [at for at, _ in t["resized"]] + ends
        seen = [mine[0]["from_s"]] + [s["until_s"] for s in mine]
        if len(edges) != len(seen) or not all(near(a, b) for a, b in zip(edges, seen)):
            wrong.append(f"gang {gang}: {edges}, not {seen}")
        if [s["number"] for s in mine] != list(range(len(mine))) or \
                any(a["until_s"] != b["from_s"] for a, b in zip(mine, mine[1:])):
            wrong.append(f"gang {gang}: its stays do not follow each other")
        took = [int(more[0]) / 1e9 for _, more in t["resized"]]
        if not all(near(a, s["pause_s"]) for a, s in zip(took, mine[1:])) or mine[0]["pause_s"] is not None:
            wrong.append(f"gang {gang}: resizes took {took}")
        if t["started"] and not near(t["started"][0][0], row["running_s"]):
            wrong.append(f"gang {gang} runs from {row['running_s']}, not {t['started']}")


def seconds():
    sums, last = {}, db.execute("SELECT max(changed_s) FROM trials").fetchone()[0]
    for s in stays:
        if s["until_s"] is None:
            wrong.append(f"gang {s['gang']} has not ended")
            s["until_s"] = last
        sums[s["trial"]] = sums.get(s["trial"], 0) + (s["until_s"] - s["from_s"]) * s["gpus"] / s["packing"]
    for trial, gpu_s in db.execute("SELECT id, gpu_s FROM trials"):
        if not near(sums.get(trial, 0), gpu_s, 10):
            wrong.append(f"trial {trial}: {sums.get(trial, 0)} GPU seconds, the executor counted {gpu_s}")
    busy = db.execute("SELECT value FROM meta WHERE key = 'busy_gpu_s'").fetchone()[0]
    if not near(sum(sums.values()), busy, 10):
        wrong.append(f"{sum(sums.values())} GPU seconds in all, the executor counted {busy}")


def seats():
    nodes = {n["id"]: n for n in db.execute("SELECT * FROM nodes")}
    edges = {}
    for s in stays:
        if len(s["slots"]) != s["gpus"] or len(set(s["slots"])) != s["gpus"] or (s["packing"] > 1 and s["gpus"] > 1):
            wrong.append(f"gang {s['gang']}: {s['gpus']} GPUs are {s['slots']}")
        for node, gpu in s["slots"]:
            n = nodes[node]
            if gpu >= n["gpus"] or s["from_s"] < n["ready_s"] - 1e-9 or \
                    (n["ended_s"] is not None and s["until_s"] > n["ended_s"] + 1e-9):
                wrong.append(f"gang {s['gang']} sits on GPU {gpu} of {dict(n)}")
            edges.setdefault((node, gpu), []).extend([(s["from_s"], 1, s), (s["until_s"], 0, s)])
    for seat, list_ in edges.items():
        here = []
        for at, comes, s in sorted(list_, key=lambda e: e[:2]):     # who leaves goes first
            if not comes:
                here = [h for h in here if h is not s]
                continue
            if s["until_s"] <= at:      # it came to nothing
                continue
            if any(h["packing"] != s["packing"] for h in here) or len(here) >= s["packing"]:
                wrong.append(f"{seat} at {at}: gang {s['gang']} beside {[h['gang'] for h in here]}")
            here.append(s)


def exported():
    rows = list(csv.DictReader(open(file)))
    got = sorted((int(r["gang"]), int(r["stay"]), int(r["rank"]), int(r["node"]), int(r["gpu"]), int(r["trial"]),
                  int(r["packing"])) for r in rows)
    want = sorted((s["gang"], s["number"], k, node, gpu, s["trial"], s["packing"])
                  for s in stays for k, (node, gpu) in enumerate(s["slots"]))
    if got != want:
        wrong.append(f"{len(got)} rows, not {len(want)}, or others")
    edges = {(s["gang"], s["number"]): (s["from_s"], s["until_s"]) for s in stays}
    for r in rows:
        if not all(near(float(a), b) for a, b in zip((r["from_s"], r["until_s"]), edges[int(r["gang"]), int(r["stay"])])):
            wrong.append(f"row {r}")


def resizes():
    reports = {}
    for trial, iteration, at in db.execute("SELECT trial, iteration, at_s FROM reports ORDER BY trial, iteration"):
        reports.setdefault(trial, []).append((iteration, at))
    found = {(r["gang"], r["at_s"]): r for r in db.execute("SELECT * FROM resizes WHERE in_place")}
    moves = 0
    for a, b in zip(stays, stays[1:]):
        if a["gang"] != b["gang"]:
            continue
        moves += 1
        row = found.get((b["gang"], b["from_s"]))
        if row is None:
            wrong.append(f"no resize of gang {b['gang']} at {b['from_s']}")
            continue
        mine = reports.get(b["trial"], [])
        before = [at for _, at in mine if a["from_s"] < at <= a["until_s"]]
        done = max((at for _, at in mine if at <= a["until_s"]), default=None)
        after = [at for _, at in mine if b["from_s"] < at <= b["until_s"]]
        pace = (before[-1] - before[0]) / (len(before) - 1) if len(before) > 1 else None
        then = (after[-1] - after[0]) / (len(after) - 1) if len(after) > 1 else None
        gained = len(after) * pace - (after[-1] - done) if pace is not None and after else None
        more = (b["until_s"] - b["from_s"]) * (b["gpus"] / b["packing"] - a["gpus"] / a["packing"])
        for name, value in (("iteration_before_s", pace), ("iteration_s", then), ("gained_s", gained), ("more_gpu_s", more),
                            ("pause_s", b["pause_s"]), ("gpus_before", a["gpus"]), ("gpus", b["gpus"]),
                            ("iterations", len(after) if done is not None else None)):
            if (row[name] is None) != (value is None) or (value is not None and not near(row[name], value, 10)):
                wrong.append(f"gang {b['gang']} at {b['from_s']}: {name} is {row[name]}, not {value}")
    if moves != len(found):
        wrong.append(f"{len(found)} resizes in place, not {moves}")
    print(f"# {moves} resizes in place, {db.execute('SELECT count(*) FROM resizes').fetchone()[0] - moves} by checkpoint")


{"events": events, "seconds": seconds, "seats": seats, "csv": exported, "resizes": resizes}[check]()
for line in wrong[:5]:
    print("#", line)
sys.exit(1 if wrong or not stays else 0)
