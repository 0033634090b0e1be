"""The figures, where matplotlib is installed."""

import subprocess
import tempfile
import unittest

import espalier
from espalier import program

try:
    import matplotlib
    matplotlib.use("agg")
except ImportError:
    matplotlib = None

SEARCH = """
experiment = { name = "pear"; metric = "loss"; goal = "minimize"; seed = 3; };
trial = { trainable = "branin"; gpus_max = 1;
  profile = { iteration = { mean = "4s"; }; scaling = ( (1, 1.0) ); }; };
space = { x1 = { type = "real"; low = 0.01; high = 10.0; scale = "log"; };
  x2 = { type = "real"; low = 0.0; high = 15.0; };
  word = { type = "choice"; values = [ "a", "b", "c" ]; }; };
algorithm = { use = "sha"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };
allocator = { use = "static"; gpus = 4; };
cloud = { use = "sim"; offers = ( { name = "big"; gpus = 4; price = 12.24; provision = "15s"; } ); nodes_max = 4; };
"""


@unittest.skipIf(matplotlib is None, "no matplotlib")
class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with open(folder.name + "/sim.cfg", "w") as file:
            file.write(SEARCH)
        subprocess.run(program.command("simulate", folder.name + "/sim.cfg", "--quiet", "--dir", folder.name + "/run"),
                       check=True, stdout=subprocess.DEVNULL, env=program.environment())
        cls.results = espalier.load(folder.name + "/run")

    def test_history(self):
        reports, best = espalier.figures.history(self.results).lines
        self.assertEqual(len(reports.get_ydata()), len(self.results.rows("reports")))
        self.assertEqual(list(best.get_ydata()), sorted(best.get_ydata(), reverse=True))
        self.assertEqual(best.get_ydata()[-1], min(reports.get_ydata()))

    def test_curves(self):
        ax = espalier.figures.curves(self.results)
        self.assertEqual(len(ax.lines), 9)
        best = max(ax.lines, key=lambda line: line.get_linewidth())
        self.assertEqual(best.get_ydata()[-1], self.results.best()["metric"])

    def test_parallel(self):
        ax = espalier.figures.parallel(self.results)
        self.assertEqual(len(ax.lines), 9 + 4)
        self.assertEqual([tick.get_text() for tick in ax.get_xticklabels()], ["x1", "x2", "word", "loss"])
        for line in ax.lines[:9]:
            self.assertTrue(all(0 <= y <= 1 for y in line.get_ydata()))
        ax.figure.savefig(self.results.directory + "/parallel.png")

    def test_dollars(self):
        with tempfile.TemporaryDirectory() as folder:
            with espalier.open({"experiment": {"name": r"$\frac$", "metric": r"$\loss$", "goal": "minimize"},
                                "space": {"word": [r"$\a$", r"$\b$"], "x": (0, 9)},
                                "algorithm": {"use": "random", "trials": 4, "iterations_max": 1}}, folder + "/s") as study:
                for trial in study:
                    study.tell(trial, trial.id)
            for draw in (espalier.figures.history, espalier.figures.curves, espalier.figures.parallel):
                draw(espalier.load(folder + "/s")).figure.savefig(folder + "/figure.png")


if __name__ == "__main__":
    unittest.main()
