"""Random programs with a command line: what `espalier init` writes for one never passes `espalier check` while the search fails.

SEEDS=n sets how many programs there are, SEED=n the first: a failure names its seed.
"""

import json
import os
import random
import subprocess
import tempfile
import time
import unittest

ESPALIER = os.environ.get("ESPALIER", "espalier")
SEEDS = int(os.environ.get("SEEDS", "20"))
FIRST = int(os.environ.get("SEED", str(int(time.time() * 1000) % 1000000000)))

NAMES = ["lr", "learning-rate", "momentum", "weight_decay", "dropout", "batch-size", "hidden", "layers", "gamma", "n_head", "tau", "width",
         "beta1", "warmup", "eps", "alpha", "label-smoothing", "optim.lr", "clip", "subsample"]
LEFT = ["seed", "num-workers", "data-dir", "device", "log-interval", "name", "random_state", "port"]


def has(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


class Program:
    """The text of a program, which refuses a value that its author would not expect."""

    def __init__(self, rng):
        self.rng = rng
        self.options = []                   # flag, variable, kind, text of the default, choices
        self.lines = []
        self.epochs = rng.choice(["", "epochs", "num_epochs", "max-epochs", "n_iter"])
        self.used = set()

    def some(self, *values):
        return self.rng.choice(values)

    def value(self, kind):
        """A default: how it is written, and what it is."""
        rng = self.rng
        if kind == "float":
            made = rng.choice([0.1, 0.01, 1e-3, 1e-5, 0.9, 0.99, 0.5, 1.0, 0.0, 2.5, 0.0003])
            return rng.choice([repr(made), repr(made), "float(%r)" % str(made), "%r * 1" % made])
        if kind == "int":
            made = rng.choice([1, 2, 3, 4, 8, 10, 32, 64, 100, 128, 1000])
            return rng.choice([repr(made), repr(made), "%d * 1" % made])
        if kind == "str":
            return repr(rng.choice(["x", "a b", "adam", "", "{}", "50%%"]))
        return "False"

    def name(self, names):
        name = self.rng.choice([one for one in names if one.replace("-", "_") not in self.used])
        self.used.add(name.replace("-", "_"))
        return name

    def draw(self, dotted):
        rng = self.rng
        for _ in range(rng.randrange(1, 7)):
            name = self.name([one for one in NAMES if dotted or "." not in one])
            kind = rng.choice(["float", "float", "int", "choice", "flag"])
            if kind == "choice":
                values = rng.choice([["sgd", "adam"], ["a", "b c", "d"], [1, 2, 4], [0.1, 0.2]])
                self.options.append((name, kind, repr(rng.choice(values)), values))
            else:
                self.options.append((name, kind, self.value(kind), None))
        for _ in range(rng.randrange(0, 3)):
            kind = rng.choice(["int", "str", "flag"])
            self.options.append((self.name(LEFT), kind, self.value(kind), None))
        if self.epochs:
            self.options.append((self.epochs, "int", repr(rng.choice([1, 3, 5, 20])), None))
        if rng.random() < 0.15:
            self.options.append((self.name(LEFT + ["target"]), "required", "", None))
        rng.shuffle(self.options)

    def argparse(self):
        rng = self.rng
        self.draw(True)
        self.lines += ["import argparse, sys", "p = argparse.ArgumentParser(%s)" % self.some("", "description='50%'", "prog='x'")]
        self.lines += ["parser = p", "def add(name, default, kind, **words):", "    p.add_argument('--' + name, default=default, type=kind, **words)",
                       "g = p.add_argument_group('training')"]
        for name, kind, default, choices in self.options:
            on = self.some("p", "p", "g")
            if kind == "required":
                self.lines.append("p.add_argument('--%s', required=True)" % name)
            elif kind == "flag":
                action = self.some("action='store_true', help='a switch'", "action='store_false'", "type=bool, default=False",
                                   "action=argparse.BooleanOptionalAction, default=True", "nargs='*', default=[1]", "nargs='?', const=1",
                                   "action='append'", "action='count', default=0")
                self.lines.append("%s.add_argument('--%s', %s)" % (on, name, action))
            elif kind == "choice":
                self.lines.append("%s.add_argument('--%s', choices=%r, default=%s, type=%s)" % (on, name, choices, default, type(choices[0]).__name__))
            elif rng.random() < 0.3:
                self.lines.append("add('%s', %s, %s)" % (name, default, kind))
            elif rng.random() < 0.2:
                constant = "DEFAULT_%d" % len(self.lines)
                self.lines += ["%s = %s" % (constant, default), "%s.add_argument('--%s', default=%s, type=%s)" % (on, name, constant, kind)]
            elif "-" not in name and "." not in name and rng.random() < 0.2:
                self.lines.append("%s.add_argument('-%s', '--%s', default=%s, type=%s)" % (on, self.letter(), name, default, kind))
            else:
                self.lines.append("%s.add_argument('--%s', default=%s, type=%s)" % (on, name, default, kind))
        if rng.random() < 0.3:
            self.lines += ["pair = p.add_mutually_exclusive_group()", "pair.add_argument('--ema', type=float, default=0.9)",
                           "pair.add_argument('--noise', type=float, default=0.1)"]
        if rng.random() < 0.3:
            self.lines += ["p.add_argument('where', nargs='?', default='here')"]
        command = rng.random() < 0.25
        if command:
            self.lines += ["subs = p.add_subparsers(%s)" % self.some("", "dest='command'", "dest='command', required=True"),
                           "sub = subs.add_parser('train')", "sub.add_argument('--rate', type=float, default=0.05)",
                           "subs.add_parser('evaluate')"]
        self.lines += ["given = p.%s" % self.some("parse_args()", "parse_args(sys.argv[1:])", "parse_known_args()[0]"), "values = vars(given)"]
        if rng.random() < 0.2:
            self.lines += ["parser.add_argument('--late')"]
        refused = [one for one in self.options if one[1] == "str" and one[2] == "''"]
        if refused and rng.random() < 0.5:
            self.lines += ["args = argparse.Namespace(**values)", "if not args.%s:" % refused[0][0].replace("-", "_"), "    p.error('give it')"]
        return ""

    def letter(self):
        for one in "bcdefgijkl":
            if one not in self.used:
                self.used.add(one)
                return one
        return "z"

    def click(self):
        self.draw(False)
        self.options = [(name, "other" if kind == "choice" and not isinstance(choices[0], str) else kind, default, choices)
                        for name, kind, default, choices in self.options]
        self.lines += ["import click", "@click.command()"]
        for name, kind, default, choices in self.options:
            name = name.replace("_", "-")
            if kind == "required":
                self.lines.append("@click.option('--%s', required=True)" % name)
            elif kind == "flag":
                self.lines.append("@click.option('--%s%s', default=False%s)" % (name, *self.rng.choice([("/--no-" + name, ""), ("", ", is_flag=True")])))
            elif kind == "choice" and isinstance(choices[0], str):
                self.lines.append("@click.option('--%s', type=click.Choice(%r), default=%s)" % (name, choices, default))
            else:
                self.lines.append("@click.option('--%s', default=%s, show_default=%s)" % (name, default, self.some("True", "False")))
        self.lines += ["def main(**values):"]
        return "    "

    def typer(self):
        self.draw(False)
        self.options = [(name, "other" if kind == "choice" else kind, default, None) for name, kind, default, _ in self.options]
        self.lines += ["import typer"]
        parts = []
        for name, kind, default, _ in self.options:
            name = name.replace("-", "_")
            if kind == "required":
                parts.insert(0, "%s: str" % name)
            else:
                parts.append("%s: %s = %s" % (name, {"flag": "bool", "other": "str" if default[0] == "'" else "float" if "." in default else "int"}
                                              .get(kind, kind), default if self.rng.random() < 0.5 else "typer.Option(%s)" % default))
        self.lines += ["def main(%s):" % ", ".join(parts), "    values = dict(locals())"]
        return "    "

    def training(self, indent):
        """The loop: numbers are checked, and the metric is printed in one of many forms."""
        rng, made = self.rng, []
        checks = []
        for name, kind, _, choices in self.options:
            variable = name.replace("-", "_")
            if kind == "float":
                checks.append("assert isinstance(values[%r], float), values" % variable)
            elif kind == "int":
                checks.append("assert isinstance(values[%r], int), values" % variable)
            elif kind == "choice":
                checks.append("assert values[%r] in %r, values" % (variable, choices))
        made += checks
        count = "values[%r]" % self.epochs.replace("-", "_") if self.epochs else str(rng.choice([1, 2, 4]))
        rate = next(("values[%r]" % one[0].replace("-", "_") for one in self.options if one[1] == "float"), "0.5")
        made += ["def loss_of(epoch):", "    return 1.0 / (epoch + 1) + abs(%s - 0.1)" % rate]
        form = rng.choice(["print(f'epoch {epoch} train_loss {train_loss:.4f} val_loss {val_loss:.4f}')",
                           "print('Epoch: %d, Loss: %.3f' % (epoch, val_loss))", "print('[{}/{}] val acc: {:.2%}'.format(epoch + 1, n, val_loss))",
                           "print({'epoch': epoch, 'val_loss': val_loss})", "print('val_loss', val_loss)",
                           "import json; print(json.dumps({'epoch': epoch, 'val/loss': val_loss}))",
                           "print(f'{epoch:3d} | {train_loss:8.4f} | valid rmse {val_loss:8.4f}')",
                           "print('Epoch', epoch, end=' '); print('accuracy=', val_loss)", "print(f'Test loss: {val_loss}')",
                           "import sys; print('val loss: %g' % val_loss, file=sys.stderr)", "print('nothing')", "pass"])
        after = rng.choice(["", "print('done in 3.5 s')", "print(f'final test accuracy: {val_loss}')", "print('best loss', val_loss)"])
        made += ["n = %s" % count, self.some("for epoch in range(n):", "for epoch in range(0, n):"), "    train_loss = loss_of(epoch) / 2",
                 "    val_loss = loss_of(epoch)", "    " + form] + ([after] if after else [])
        self.lines += [indent + one for one in made]

    def text(self):
        styles = ["argparse"] * 3 + ["click"] * has("click") + ["typer"] * has("typer")
        style = self.rng.choice(styles)
        indent = getattr(self, style)()
        self.training(indent)
        if style == "click":
            self.lines.append("main()")
        elif style == "typer":
            self.lines.append("typer.run(main)")
        return "\n".join(self.lines) + "\n"


class Programs(unittest.TestCase):
    def call(self, *words):
        env = dict(os.environ, ESPALIER_SLOTS="", PYTHONDONTWRITEBYTECODE="1")     # it does not wait for the slots of other searches
        return subprocess.run([ESPALIER, *words], cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=120, check=False)

    def log(self, trial):
        path = os.path.join(self.folder, "run/trials/%d/log" % trial)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def tune(self, seed):
        text = Program(random.Random(seed)).text()
        with tempfile.TemporaryDirectory() as self.folder:
            with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(text)
            done = self.call("init", "train.py", "-o", "a.cfg")
            where = "SEED=%d\n%s" % (seed, text)
            self.assertEqual(done.returncode, 0, where + done.stderr.decode())
            with open(os.path.join(self.folder, "a.cfg"), encoding="utf-8") as file:
                made = file.read()
            checked = self.call("check", "a.cfg")
            if checked.returncode != 0:
                said = checked.stderr.decode()
                self.assertTrue("CHANGE-ME" in said or "space is empty" in said, where + made + said)
                return False
            run = self.call("run", "a.cfg", "--json", "-d", "run", "--set", "algorithm.trials=2", "--set", "cloud={ use=\"local\"; device=\"cpu\"; gpus=2; }",
                            *(["--set", "algorithm.iterations_max=2"] if "iterations_max" in made else []),
                            *(["--set", "algorithm.iterations_min=1"] if "iterations_min" in made else []))
            said = self.log(0) + "second trial:\n" + self.log(1)
            self.assertEqual(run.returncode, 0, where + made + run.stderr.decode() + said)
            summary = json.loads(run.stdout.decode().splitlines()[-1])
            self.assertEqual((summary["status"], summary["failed"]), ("done", 0), where + made + run.stderr.decode() + said)
            return True

    def test_what_passes_check_runs(self):
        passed, failures = 0, []
        for seed in range(FIRST, FIRST + SEEDS):
            try:
                passed += self.tune(seed)
            except AssertionError as error:
                failures.append(str(error))
        self.assertEqual(failures, [], "\n".join(failures))
        self.assertGreaterEqual(passed, SEEDS // 4, "SEED=%d: too few configurations pass check" % FIRST)


if __name__ == "__main__":
    unittest.main()
