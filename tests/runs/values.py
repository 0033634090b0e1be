"""Values keep their type and their bits on the way to a program and back.

    values.py make CONFIG SEED COUNT    a search whose command has COUNT constants and some parameters
    values.py train NAME=VALUE...       its program: compares what came with what was meant
    values.py read DIR FILE.csv FILE.json BEST.json     what the tables of the run say, compared with what the program saw
"""

import argparse
import ast
import csv
import json
import os
import random
import re
import sqlite3
import struct
import sys

TRIALS = 4
# What YAML 1.1 takes for a number or another value; anything else is text.
YAML_REAL = re.compile(r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?\Z")
YAML_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z")
WORDS = ["1", "1.0", "true", "null", "", "a b", 'q"u\'o', "{x}", "$HOME `x` \\n", "\u00fc\u4e16", "line\nline", "-", "=", "1e-05"]


def bits(value):
    return struct.pack("<d", value) if isinstance(value, float) else value


def same(a, b):
    return type(a) is type(b) and bits(a) == bits(b)


def draw(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice([
            float(rng.randrange(-1000, 1000)), rng.uniform(-1, 1), 10.0 ** rng.randrange(-300, 300), -0.0, 1e-05,
            struct.unpack("<d", struct.pack("<Q", rng.getrandbits(52) | rng.randrange(2047) << 52))[0]])
    if kind == 1:
        return rng.choice([rng.randrange(-10, 10), rng.randrange(-2**63, 2**63), rng.randrange(2**31 - 5, 2**31 + 5)])
    if kind == 2:
        return rng.random() < 0.5
    return rng.choice(WORDS) + (rng.choice(["", "%d" % rng.randrange(100)]))


def make(path, seed, count):
    sys.path.insert(0, os.environ["SOURCE"])
    from espalier import config
    rng = random.Random(seed)
    constants = {"c%d" % i: draw(rng) for i in range(count)}
    # Each is a choice of one real that is whole, of one that is short, and of an integer.
    choices = {"whole": [0.2, 0.5, 1.0, 2.0], "short": [1e-05, 1e-07, 3e+20], "mixed": [1, 1.0, True, "x"]}
    space = dict(constants, **choices)
    space["real"] = {"type": "real", "low": 0.0, "high": 4.0, "quantum": 0.25}
    space["rate"] = {"type": "real", "low": 1e-9, "high": 1.0, "scale": "log"}
    space["count"] = {"type": "int", "low": 1, "high": 9}
    space["sometimes"] = {"type": "int", "low": 1, "high": 9, "when": {"short": 1e-05}}
    first = [{"whole": 1.0, "short": 1e-05, "mixed": 1.0, "real": 2.0, "rate": 1e-05, "count": 3, "sometimes": 7},
             {"whole": 2.0, "short": 3e+20, "mixed": 1, "real": 0.0, "rate": 1.0, "count": 9}]
    names = [name for name in space if name != "sometimes"]
    words = [sys.executable, os.path.abspath(__file__), "train", *("--%s={%s}" % (name, name) for name in names)]
    text = config.text({
        "experiment": {"name": "values", "metric": "loss", "goal": "minimize", "seed": seed, "first": tuple(first)},
        "trial": {"command": words, "metrics": {"pattern": "loss {loss}"}},
        "space": space, "algorithm": {"use": "random", "trials": TRIALS, "iterations_max": 1},
        "allocator": {"use": "fair"}, "cloud": {"use": "local", "gpus": 2, "device": "cpu"}})
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with open("meant.json", "w") as file:
        json.dump({"constants": constants, "choices": choices, "first": first}, file)


def read_yaml(text):
    if YAML_REAL.match(text):
        return float(text.replace("_", ""))
    if YAML_INT.match(text):
        return int(text.replace("_", ""))
    return {"true": True, "false": False}.get(text, text)


def train(words):
    with open("meant.json") as file:
        meant = json.load(file)
    sys.path.insert(0, os.environ["SOURCE"])
    from espalier import trial
    params = trial.start().params
    with open(os.environ["ESPALIER_PARAMS"]) as file:
        assert json.dumps(json.load(file)) == json.dumps(params)
    for name, value in meant["constants"].items():
        assert same(params[name], value), (name, value, params[name])
    for name, values in meant["choices"].items():
        assert any(same(params[name], value) for value in values), (name, params[name])
    for name, kind in (("real", float), ("rate", float), ("count", int)):
        assert type(params[name]) is kind, (name, params[name])
    number = int(os.environ["ESPALIER_TRIAL"])
    if number < len(meant["first"]):
        for name, value in meant["first"][number].items():
            assert same(params[name], value), (name, value, params[name])
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, value in params.items():
        parser.add_argument("--" + name, type=str if isinstance(value, (str, bool)) else type(value))
    read = parser.parse_args(words)
    given = dict(word[2:].split("=", 1) for word in words)
    try:
        import yaml
        load = yaml.safe_load
    except ImportError:
        load = read_yaml
    for name, value in params.items():
        if name not in given:
            assert name == "sometimes"
        elif isinstance(value, str):
            assert getattr(read, name) == value, (name, value)
        elif isinstance(value, bool):
            assert given[name] == ("true" if value else "false")
        else:
            for reader in (ast.literal_eval, json.loads, load, lambda text: getattr(read, name)):
                assert same(reader(given[name]), value), (name, value, given[name])
    with open("seen-%d.json" % number, "w") as file:
        json.dump(params, file)
    print("loss", params["real"])


def read(directory, table, rows, best):
    seen = []
    for number in range(TRIALS):
        with open("seen-%d.json" % number) as file:
            seen.append(json.load(file))

    def told(what, answers, equal=same):
        wrong = [(number, name, value, answer.get(name)) for number, answer in enumerate(answers)
                 for name, value in seen[number].items() if name not in answer or not equal(value, answer[name])]
        print("%s %s" % ("fail" if wrong or len(answers) != TRIALS else "pass", what), flush=True)
        for one in wrong[:3]:
            print("# trial %d: %s is %r, found %r" % one)

    def word(value, text):
        return str(value).lower() == text if isinstance(value, bool) else \
            text.lstrip("'") == value.lstrip("'") if isinstance(value, str) else same(type(value)(text), value) and \
            (isinstance(value, int) or YAML_REAL.match(text) is not None)

    base = sqlite3.connect(os.path.join(directory, "results.db"))
    told("results.db", [json.loads(text) for text, in base.execute("SELECT params FROM trials ORDER BY id")])
    with open(table, newline="", encoding="utf-8") as file:
        told("export --format csv", list(csv.DictReader(file)), word)
    with open(rows, encoding="utf-8") as file:
        told("export --format json", [row["params"] for row in json.load(file)["trials"]])
    with open(best, encoding="utf-8") as file:
        text = file.read()
    found = json.loads(text)["best"]
    same_best = all(same(value, found["params"][name]) for name, value in seen[found["trial"]].items())
    print("%s best --json" % ("pass" if same_best else "fail"))
    try:
        import pandas                          # noqa: F401
    except ImportError:
        return
    sys.path.insert(0, os.environ["SOURCE"])
    import espalier
    frame = espalier.load(directory).trials()
    print("%s pandas keeps integers where some are missing" % (
        "pass" if str(frame["params_sometimes"].dtype) in ("Int64", "int64") else "fail"))
    told("pandas", [{name[7:]: value.item() if hasattr(value, "item") else value for name, value in row.items()
                     if name.startswith("params_")} for row in frame.to_dict("records")])


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
elif sys.argv[1] == "train":
    train(sys.argv[2:])
else:
    read(*sys.argv[2:])
