"""hostile.py RUN: replaces all text in the results.db of a run by text that would run as a script if a page let it."""
import json, sqlite3, sys

# Each sets window.hit, or breaks the page, in the place for which it is made.
TEXTS = [
    "<script>window.hit=1</script>", "\"><img src=x onerror=window.hit=1>", "'><svg onload=window.hit=1>", "\" onmouseover=window.hit=1 x=\"",
    "</script><script>window.hit=1</script>", "</title></style></text></svg></noscript></pre><script>window.hit=1</script>", "<!--<script>", "]]><script>window.hit=1</script>",
    "javascript:window.hit=1", "<a href=\"javascript:window.hit=1\" id=page>x</a>", "${window.hit=1}", "`+(window.hit=1)+`", "{{constructor.constructor('window.hit=1')()}}",
    "\\\";window.hit=1;//", "\u2028window.hit=1\u2029", "\u202e\u2066evil\u202a", "\u200b\u200d\ufeff", "\ufffe\uffff\x01\x1b[31m", "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "<iframe srcdoc='<script>parent.hit=1</script>'>", "<base href=//x>", "__proto__", "constructor", "toString", "%s%n", "'); window.hit=1; ('", "x" * 3000, "\U0001f332" * 200, "",
]
# What the program compares with words of its own stays in a half of the rows.
STATES = {("trials", "state"), ("nodes", "state"), ("gangs", "state"), ("decisions", "what"), ("experiments", "status"), ("jobs", "status")}
KEPT = {("gangs", "slots"), ("moves", "slots"), ("trials", "params"), ("experiments", "goal"), ("meta", "key"), ("meta", "value")}


def main(db):
    count = 0

    def text(*_):
        nonlocal count
        count += 1
        return TEXTS[count % len(TEXTS)]

    db.create_function("hostile", 1, text)
    for table, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for column in db.execute("SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT'", (table,)).fetchall():
            if (table, column[0]) not in KEPT:
                half = " WHERE random() % 2" if (table, column[0]) in STATES else ""
                db.execute("UPDATE %s SET %s = hostile(1)%s" % (table, column[0], half))
    # Where the text of a row is chance, this one is in the queue in any case.
    db.execute("UPDATE experiments SET name = ? WHERE id = (SELECT min(id) FROM experiments)", ("\u202e\u2066evil\u202a",))
    for key in ("experiment", "metric", "algorithm", "allocator", "placer", "cloud", "text", "failure", "seed"):
        db.execute("UPDATE meta SET value = hostile(1) WHERE key = ?", (key,))
    names = [t for t in TEXTS if t]
    space = [{"name": n, "type": "choice", "scale": "linear", "values": TEXTS} for n in names] + \
        [{"name": n + "2", "type": "real", "scale": text(), "low": 0, "high": 1} for n in names]
    db.execute("UPDATE meta SET value = ? WHERE key LIKE 'space%'", (json.dumps(space),))
    for id, in db.execute("SELECT id FROM trials").fetchall():
        params = {p["name"]: (text() if p["type"] == "choice" else (id * 7919 + i) % 100 / 100) for i, p in enumerate(space)}
        db.execute("UPDATE trials SET params = ? WHERE id = ?", (json.dumps(params), id))
    db.execute("UPDATE meta SET value = (SELECT params FROM trials LIMIT 1) WHERE key = 'best_params'")
    db.commit()


main(sqlite3.connect(sys.argv[1] + "/results.db"))
