#!/usr/bin/env python3
"""ask_lines.py ESPALIER CONFIG DIR: requests to `espalier ask` that are right, and such that were broken at random.

Every line has one answer, an object of JSON, and the program lives; what is refused changes no trial; a result that was taken
stays, also after the program is killed and the run resumed.  SEED repeats a run; LINES says how many lines.
"""
import json, os, random, subprocess, sys, time

seed = int(os.environ.get("SEED") or time.time_ns() % 10**9)
lines = int(os.environ.get("LINES") or 600)
draw = random.Random(seed)
espalier, config, directory = sys.argv[1:]
VALUES = [None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 1e308, -1e308, 5e-324, 0.5, "", "0", "NaN", "\u0000",
          "\ud83d\ude00", "a" * 5000, [], {}, [0], {"op": "ask"}, [[[[]]]], {"a": {"b": [1]}}, "../../x", "%n%s", "best", "1e999"]
RAW = [b"NaN", b"Infinity", b"-", b"1e999", b"01", b"0x10", b"'a'", b"\xff\xfe", b"\x00", b"{", b"}" * 40, b"[" * 3000, b"\\u0000",
       b'"\\ud800"', b"//", b"\r", b"\x1b[2J", b",", b":", b'"', b"null", b"9" * 400, b"-0", b"1.", b".5", b"{}", b'{"a":1,"a":2}']


def fail(text, line=b""):
    sys.exit(f"seed {seed}: {text}{' after ' if line else ''}{line[:300]!r}")


class Engine:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([espalier, "ask", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)

    def say(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        try:
            value = json.loads(answer)
        except ValueError:
            fail(f"the answer {answer!r} is no JSON (exit {self.process.poll()})", line)
        if not isinstance(value, dict):
            fail(f"the answer {answer!r} is no object", line)
        return value

    def ask(self, **request):
        return self.say(json.dumps(request).encode())

    def look(self):
        return self.ask(op="trials", n=5000)


def request(known):
    trial = draw.choice(known) if known and draw.random() < 0.7 else draw.choice([0, 1, 7, 10**6])
    return draw.choice([
        {"op": "ask", "n": draw.choice([1, 1, 3])}, {"op": "tell", "trial": trial, "value": draw.uniform(-9, 9)},
        {"op": "tell", "trial": trial, "iteration": 1, "metrics": {"loss": 1.5, "acc": 2}, "again": draw.random() < 0.5},
        {"op": "fail", "trial": trial, "text": "it broke"}, {"op": "about"}, {"op": "best"}, {"op": "status"},
        {"op": "trials", "from": trial, "n": 3}, {"op": "note", "trial": trial, "notes": {"host": "a"}},
        {"op": "hold", "trials": [trial]}])


def broken(known):
    value = request(known)
    for _ in range(draw.randint(1, 2)):
        key = draw.choice(list(value))
        change = draw.randrange(4)
        if change == 0:
            value[key] = draw.choice(VALUES)
        elif change == 1:
            value[draw.choice(["x", "", "trial ", "op2", "n", "value"])] = draw.choice(VALUES)
        elif change == 2 and len(value) > 1:
            del value[key]
        elif isinstance(value.get("metrics"), dict):
            value["metrics"][draw.choice(["loss", "", "a b", "é", "x" * 300])] = draw.choice(VALUES)
    text = bytearray(json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass"))
    for _ in range(draw.choice([0, 0, 0, 1, 3])):
        at = draw.randrange(len(text) + 1)
        change = draw.randrange(4)
        if change == 0:
            text[at:at] = draw.choice(RAW)
        elif change == 1:
            del text[at:at + draw.randint(1, 9)]
        elif change == 2 and at < len(text):
            text[at] ^= 1 << draw.randrange(8)
        else:
            text[at:at] = text[at:at + draw.randint(1, 30)]
    return bytes(text).replace(b"\n", b" ") if draw.random() < 0.98 else b"{" + b" " * (1 << 20) + b"}"


engine = Engine(config, "--dir", directory)
known, refused = [], 0
for _ in range(lines):
    line = json.dumps(request(known)).encode() if draw.random() < 0.3 else broken(known)
    if not line.strip(b" \t\r"):
        continue
    before = engine.look()
    answer = engine.say(line)
    after = engine.look()
    if "error" in answer:
        refused += 1
        if before != after:
            fail("a request that was refused has changed the trials", line)
    for trial in answer["trials"] if isinstance(answer.get("trials"), list) else []:
        if isinstance(trial, dict) and "params" in trial and "state" not in trial:
            known.append(trial["trial"])
    known = known[-40:]
kept = engine.look()
if refused < lines / 10 or len(kept["trials"]) < 3:
    fail(f"{refused} requests were refused, and there are {len(kept['trials'])} trials: nothing was tried")
engine.process.kill()
engine.process.wait()
engine = Engine(directory)
told = {t["trial"]: t for t in kept["trials"] if t["iteration"] > 0}
again = {t["trial"]: t for t in engine.look()["trials"]}
for number, trial in told.items():
    if again.get(number, {}).get("metric") != trial["metric"] or again[number].get("notes") != trial.get("notes"):
        fail(f"after a kill trial {number} is {again.get(number)}, but was {trial}")
engine.process.stdin.close()
if engine.process.wait(20) not in (0, 4):
    fail(f"the exit status is {engine.process.returncode}")
print(f"seed {seed}: {lines} lines, {refused} refused, {len(told)} results")
