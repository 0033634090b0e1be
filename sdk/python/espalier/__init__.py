"""espalier: elastic hyperparameter tuning, from Python.

    run = espalier.run("search.cfg")    runs a search; espalier.load(DIR) opens an earlier run
    run.best(), run.trials()            its results
    espalier.trial                      the module with which a training script reports

Nothing is imported before it is used, so that a trial starts fast.
"""

import importlib as _importlib
import importlib.util as _util
from typing import TYPE_CHECKING
from typing import Dict as _Dict

if TYPE_CHECKING:
    from espalier import figures as figures, trial as trial
    from espalier.results import Run as Run, load as load
    from espalier.running import Error as Error, resume as resume, run as run

__version__ = "0.1.0"

_names: _Dict[str, str] = {                    # name -> the module it is in
    "Error": "running", "Run": "results", "load": "results", "resume": "running", "run": "running"}
if _util.find_spec("espalier.study") is not None:
    _names.update(Study="study", Trial="study", maximize="study", minimize="study", open="study")
__all__ = sorted(_names)


def __getattr__(name: str) -> object:
    if name in ("figures", "trial"):
        return _importlib.import_module("espalier." + name)
    if name not in _names:
        raise AttributeError("module 'espalier' has no attribute %r" % name)
    value = getattr(_importlib.import_module("espalier." + _names[name]), name)
    globals()[name] = value
    return value
