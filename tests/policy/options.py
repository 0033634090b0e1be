#!/usr/bin/env python3
"""A census of options: TAP, or with --list where each option of docs/config.md is used besides there.

An option serves a task that a page describes or an example does, or it is experimental, so that
`espalier help` shows it only when asked.  It counts as used where its whole path stands
(algorithm.eta), or where it is set (eta = 4) or stands as code (`eta`) in a file that names its
plugin, or, for an option of espalier itself, its group.  Columns of tables are looked for by their
own name; the words of a list of texts are no options.
"""
import os
import re
import sys

TOP = os.environ.get("abs_top_srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CODE = re.compile(r"```.*?```|`[^`]+`", re.S)
WHOLE = re.compile(r"`([\w.-]+)`")


class File:
    def __init__(self, name):
        with open(os.path.join(TOP, name), encoding="utf-8", errors="replace") as file:
            text = file.read()
        code = "\n".join(CODE.findall(text)) if name.endswith(".md") else text
        self.name = name
        self.words = set(re.findall(r"[\w-]+", text))
        self.paths = set(re.findall(r"\w+(?:\.[\w-]+)+", text))
        self.set = set(re.findall(r"([\w-]+)\s*=(?!=)", code)) | {path.split(".")[-1] for path in WHOLE.findall(code)}


def read_options():
    """(group, plugin or None, option, is it experimental) of each row of docs/config.md"""
    group = plugin = None
    with open(os.path.join(TOP, "docs/config.md"), encoding="utf-8") as file:
        for line in file:
            head = re.match(r"### (\w+)(?: `([\w-]+)`)?$", line)
            if head:
                group, plugin = head.groups()
            row = re.match(r"\| `([\w.<>-]+)` \| ([^|]*)\|", line)
            if row and group and not row.group(1).endswith(".word"):
                yield group, plugin, row.group(1), "experimental" in row.group(2)


def read_files():
    found = [File("README.md")]
    for folder in ("docs", "examples", "tests/runs", "tests/unit", "tests/bench"):
        for where, _, names in os.walk(os.path.join(TOP, folder)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(where, name), TOP)
                if path != "docs/config.md" and name.endswith((".md", ".cfg", ".py", ".sh", ".test", ".c")):
                    found.append(File(path))
    return found


def is_used(group, plugin, option, file):
    if "%s.%s" % (group, option) in file.paths:
        return True
    return (plugin or group) in file.words and option.split(".")[-1] in file.set


def main():
    files, idle, rows = read_files(), [], list(read_options())
    for group, plugin, option, experimental in rows:
        uses = [file.name for file in files if is_used(group, plugin, option, file)]
        tasks = [name for name in uses if not name.startswith("tests/")]
        if not tasks and not experimental:
            idle.append("%s %s: %s" % (group, plugin or "", option))
        if "--list" in sys.argv:
            print("%-12s %-16s %-28s %s pages and examples %2d tests %2d  %s" % (
                group, plugin or "", option, "experimental" if experimental else "", len(tasks), len(uses) - len(tasks), " ".join(uses[:3])))
    print("1..2")
    print("%s 1 - the options are found" % ("ok" if len(rows) > 300 else "not ok"))
    print("# %d options, %d of them experimental" % (len(rows), sum(row[3] for row in rows)))
    print("%s 2 - each option serves a task of a page or an example, or is experimental" % ("not ok" if idle else "ok"))
    for line in idle:
        print("# " + line)
    return 1 if idle else 0


sys.exit(main())
