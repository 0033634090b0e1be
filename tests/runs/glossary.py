"""glossary.py DIR...: does every place that shows a run show the same numbers?  docs/glossary.md defines them.

For each run directory: the summary in `status`, `list`, `best`, `export`, their JSON, results.db counted afresh, the page of
`espalier report` as a browser shows it (DIR/report.xml), its part without scripts, and the Python package.
"""
import json, os, re, sqlite3, subprocess, sys
import xml.etree.ElementTree as ET

ESPALIER = os.environ["ESPALIER"]


def espalier(*arguments):
    done = subprocess.run([ESPALIER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    return done.stdout


def number(pattern, text, otherwise=0):
    found = re.search(pattern, text)
    return (int if re.match(r"^\d+$", found.group(1)) else float)(found.group(1)) if found else otherwise


def of_words(text):
    """The numbers of a summary for people."""
    line = next((one for one in text.splitlines() if one.startswith("  trials ")), "")
    q = {"trials": number(r"trials  (\d+)", line), "completed": number(r"(\d+) completed", line),
         "stopped early": number(r"(\d+) stopped early", line), "paused": number(r"(\d+) paused", line),
         "failed": number(r"(\d+) failed(?! att)", line), "unfinished": number(r"(\d+) (?:unfinished|ended by the)", line)}
    q["finished"] = number(r"(\d+) finished", line, q["completed"])
    q["failed attempts"] = number(r"(\d+) failed attempts", line, q["failed"])
    q["resizes"] = number(r"(\d+) resizes?[,;]", text)
    q["moves"] = number(r"(\d+) moves?;", text)
    q["time"] = re.search(r" after (\S+)|$", text.split("\n")[0]).group(1)
    q["cost"] = re.search(r"cost    (\$[\d.]+)", text).group(1)
    q["refunded"] = (re.findall(r"; (\$[\d.]+) more was refunded", text) or [None])[0]
    best = re.search(r"best    trial (\d+): .* (\S+) at iteration (\d+)\n", text)
    q["best"] = (int(best.group(1)), float(best.group(2)), int(best.group(3))) if best else None
    ever = re.search(r"(?:lowest|highest) seen: (\S+) \(trial (\d+) at iteration (\d+)\)", text)
    q["best ever"] = (int(ever.group(2)), float(ever.group(1)), int(ever.group(3))) if ever else q["best"]
    return q


def of_json(s):
    q = {name: s[key] for name, key in (("trials", "trials"), ("completed", "completed"), ("stopped early", "stopped_early"),
                                        ("finished", "finished"), ("failed", "failed"), ("resizes", "resizes"), ("moves", "moves"))}
    q["failed attempts"] = max(s["failed_attempts"], s["failed"])
    q["unfinished"] = s.get("unfinished", 0)
    for name, key in (("best", "best"), ("best ever", "best_ever")):
        q[name] = (s[key]["trial"], s[key]["metric"], s[key]["iteration"]) if s[key] else None
    return q


def of_db(path, maximize, simulated):
    """Counted from the rows, not read from the totals."""
    db = sqlite3.connect("file:%s/results.db?mode=ro" % path, uri=True)
    one = lambda sql: db.execute(sql).fetchone()
    state = dict(db.execute("SELECT state, count(*) FROM trials GROUP BY state"))
    q = {"trials": sum(state.values()), "completed": state.get("completed", 0), "stopped early": state.get("stopped early", 0),
         "failed": state.get("failed", 0), "paused": state.get("paused", 0), "unfinished": state.get("unfinished", 0)}
    q["finished"] = q["completed"] + q["stopped early"]
    q["failed attempts"] = max(q["failed"], one("SELECT count(*) FROM gangs WHERE failed")[0])
    q["resizes"] = one("""SELECT (SELECT count(*) FROM (SELECT g.gpus AS gpus, g.packing AS packing,
        lag(s.gpus) OVER w AS gpus_before, lag(s.packing) OVER w AS packing_before, s.gpus AS now, s.packing AS part
        FROM stays s JOIN gangs g ON g.id = s.gang WINDOW w AS (PARTITION BY s.trial ORDER BY s.gang, s.number))
        WHERE gpus_before IS NOT NULL AND (gpus_before <> now OR packing_before <> part))""")[0]
    ever = one("SELECT trial, metric, iteration FROM improvements ORDER BY %s metric LIMIT 1" % ("-" if maximize else ""))
    q["best ever"] = ever
    reports = one("SELECT %s(metric) FROM reports WHERE abs(metric) < 1e308" % ("max" if maximize else "min"))[0]
    q["best value of all reports"] = reports
    db.close()
    return q


def of_page(path):
    root = ET.parse(path).getroot()
    tiles = {}
    for tile in root.iter("div"):
        if tile.get("class", "").startswith("tile "):
            lines = ["".join(p.itertext()) for p in tile.iter("p")]
            tiles[tile.find("h3").text] = lines
    trials = tiles["Trials"]
    fact = lambda name, lines=trials: next((int(l[len(name) + 1:]) for l in lines if re.match(re.escape(name) + r" \d+$", l)), 0)
    q = {"trials": int(trials[0]), "completed": fact("completed"), "stopped early": fact("stopped early"), "failed": fact("failed"),
         "paused": fact("paused"), "unfinished": fact("unfinished"), "resizes": fact("resizes"), "moves": fact("moves")}
    q["finished"] = q["completed"] + q["stopped early"]
    q["failed attempts"] = max(fact("failed attempts"), q["failed"])
    q["time"] = next(v[0] for k, v in tiles.items() if k.startswith("Time"))
    cost = next((v for k, v in tiles.items() if k.startswith("Cost")), ["$0.00"])
    q["cost"] = cost[0]
    q["refunded"] = next((re.match(r"refunded (\S+) more", l).group(1) for l in cost if l.startswith("refunded")), None)
    if "Best" in tiles:
        where = re.search(r"trial (\d+) at iteration (\d+)", "\n".join(tiles["Best"][1:2]))
        q["best"] = (int(where.group(1)), float(tiles["Best"][0]), int(where.group(2))) if where else None
        ever = re.search(r"(?:lowest|highest) seen: (\S+) \(trial (\d+) at iteration (\d+)\)", "\n".join(tiles["Best"]))
        q["best ever"] = (int(ever.group(2)), float(ever.group(1)), int(ever.group(3))) if ever else q["best"]
    chips = [e.get("class").split()[1] for e in root.iter("span") if e.get("class", "").startswith("chip")]
    q["color"] = chips[0]
    failures = [s for s in root.iter("section") if s.find("h2").text == "Failures"]
    rows = [[("".join(c.itertext())) for c in r] for s in failures for r in s.find(".//tbody")]
    q["failed attempts listed"] = sum(int(r[0]) for r in rows if r[2] == "failed attempt") if len(rows) < 20 else None
    return q


def same(a, b):
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and abs(a - b) <= 2e-5 * max(abs(a), abs(b))
    return a == b


def look_at(path):
    from espalier import results
    status = json.loads(espalier("status", path, "--json").splitlines()[-1])
    pool = "experiments" in status or "jobs" in status
    listed = [json.loads(line) for line in espalier("list", path, "--json").splitlines()][0]
    exported = json.loads(espalier("export", path, "--format", "json"))
    exported = exported.get("summary", exported)
    db = sqlite3.connect("file:%s/results.db?mode=ro" % path, uri=True)
    meta = dict(db.execute("SELECT key, value FROM meta"))
    db.close()
    words = espalier("status", path)
    html = open(path + "/report.html", encoding="utf-8").read()
    plain = re.search(r"<pre[^>]*>(.*?)</pre>", html, re.S).group(1).replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
    places = {"status --json": of_json(status), "list --json": of_json(listed), "export": of_json(exported),
              "results.db": of_db(path, meta["maximize"], meta["simulated"]), "page without scripts": of_words(plain)}
    if status["status"] != "running":
        places["status"] = of_words(words)
    if os.path.exists(path + "/report.xml") and os.path.getsize(path + "/report.xml"):
        places["page"] = of_page(path + "/report.xml")
    row = espalier("list", path).splitlines()[1].split()
    after = row.index(status["status"])
    places["list"] = {"trials": int(row[after + 2]), "finished": int(row[after + 3]), "time": row[after + 1]}
    trials = results.Run(path).rows("trials")
    places["Python"] = {"trials": len(trials)} if pool else {"trials": len(trials),
        "completed": sum(t["state"] == "completed" for t in trials), "failed": sum(t["state"] == "failed" for t in trials)}
    best = results.Run(path).best()
    if not pool:
        places["Python"]["best"] = (best["trial"], best["metric"], best["iteration"]) if best else None
    if pool:
        for q in places.values():
            q.pop("best", None), q.pop("best ever", None)
    wrong = []
    for quantity in sorted({name for q in places.values() for name in q} - {"color", "failed attempts listed", "best value of all reports"}):
        values = {place: q[quantity] for place, q in places.items() if quantity in q}
        first = next(iter(values.values()))
        if not all(same(first, v) for v in values.values()):
            wrong.append("%s: %s" % (quantity, values))
    db = places["results.db"]
    if not pool and status["status"] != "running" and db["best ever"] is not None and not same(db["best ever"][1], db["best value of all reports"]):
        wrong.append("best ever %s, of all reports %s" % (db["best ever"], db["best value of all reports"]))
    page = places.get("page", {})
    if page.get("failed attempts listed") not in (None, status["failed_attempts"]):
        wrong.append("failed attempts listed: %s of %s" % (page["failed attempts listed"], status["failed_attempts"]))
    green = page.get("color", status["outcome"]) == "good" or status["outcome"] == "good"
    jobs = status.get("jobs")
    nothing = status["trials"] > 0 and status["failed"] == status["trials"] or jobs and jobs["failed"] == jobs["count"]
    if green and (nothing or status["status"] != "done"):
        wrong.append("it is green")
    print("fail" if wrong else "pass", "%s: %s" % (path, "; ".join(wrong) or "%s, %d trials: every place shows the same numbers" %
                                                    (status["status"], status["trials"])), flush=True)


for one in sys.argv[1:]:
    look_at(one)
