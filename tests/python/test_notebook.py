"""The notebook of the examples: it is stored without outputs, and its cells run one after the other, as in a kernel."""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

import espalier

try:
    import matplotlib.pyplot
    import pandas
    matplotlib.use("agg")
except ImportError:
    pandas = None

NOTEBOOK = pathlib.Path(os.environ["SOURCE"]).parents[1] / "examples" / "notebook" / "search.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]


class Notebook(unittest.TestCase):
    def test_stored_without_outputs(self):
        for cell in CELLS:
            if cell["cell_type"] == "code":
                self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None))

    @unittest.skipIf(pandas is None, "no pandas or matplotlib")
    def test_cells(self):
        shown, had = [], os.getcwd()
        handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
        modules = {"IPython": types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=1)),
                   "IPython.display": types.SimpleNamespace(display=lambda data, raw, display_id: handle)}
        names = {"__name__": "__main__"}
        with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
            self.addCleanup(os.chdir, had)
            os.chdir(folder)
            for source in ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]:
                # matplotlib would ask the IPython that is not there for more.
                with mock.patch.dict(sys.modules, modules if "espalier.run(" in source else {}):
                    exec(compile(source, str(NOTEBOOK), "exec"), names)
            self.assertLess(espalier.load("parabola").best()["metric"], 1)
            self.assertEqual(len(names["run"].rows("trials")), 9)
            self.assertIn("9 trials: ", shown[-1])
            self.assertGreater(len(shown), 2)                    # while it ran, too
            self.assertEqual(len(matplotlib.pyplot.get_fignums()), 3)
            matplotlib.pyplot.close("all")
            os.chdir(had)


if __name__ == "__main__":
    unittest.main()
