"""Results of a run, read from the tables in its results.db (docs/results.md)."""

import json
import os
import pathlib
import sqlite3
import subprocess
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from espalier import config as _config
from espalier import program

if TYPE_CHECKING:
    import pandas

_oldest = 3    # PRAGMA user_version of the first results.db that has all that is read here
_remedy = "`espalier resume` makes it again, or espalier.open() that of a study"


def load(directory: Union[str, "os.PathLike[str]"]) -> "Run":
    """Reads the run in this directory, also while it is running."""
    return Run(directory)


class Run:
    """A run directory.  Every call reads the tables as they are now."""

    def __init__(self, directory: Union[str, "os.PathLike[str]"]):
        self.directory = os.path.abspath(_config.path_text("directory", directory))
        self._path = os.path.join(self.directory, "results.db")
        if not os.path.isdir(self.directory):
            raise FileNotFoundError("there is no directory %s" % self.directory)
        if not os.path.exists(self._path):
            raise FileNotFoundError("%s has no results.db: is it a run directory? %s" % (self.directory, _remedy))
        for _ in range(50):
            (found,) = self._query("PRAGMA user_version")[0].values()
            if found != 0:
                break
            time.sleep(0.02)                   # the run has only begun
        if found == 0:
            raise ValueError("%s has no tables: the run has only begun, or it was killed then; %s"
                             % (self._path, _remedy))
        if found < _oldest:
            raise ValueError("%s was written by an older espalier; %s" % (self._path, _remedy))

    def __repr__(self) -> str:
        meta, best = self.meta(), self.best()
        return "<espalier.Run %s: %s, %s trials, %s>" % (
            meta.get("experiment"), meta.get("status"), self._query("SELECT count(*) AS n FROM trials")[0]["n"],
            "best trial %d: %s %.6g" % (best["trial"], meta.get("metric"), best["metric"]) if best else "no result yet")

    def _query(self, text: str, *values: Any) -> List[Dict[str, Any]]:
        uri = pathlib.Path(self._path).as_uri() + "?mode=ro"
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=30)
        except sqlite3.DatabaseError as error:
            raise ValueError("cannot open %s: %s" % (self._path, error)) from error
        try:
            cursor = connection.execute(text, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor]
        except sqlite3.DatabaseError as error:
            raise ValueError("cannot read %s: %s; if it is damaged, %s" % (self._path, error, _remedy)) from error
        finally:
            connection.close()

    def meta(self) -> Dict[str, Any]:
        """Facts about the run: status, experiment, metric, goal, cost_usd, ..."""
        return {row["key"]: row["value"] for row in self._query("SELECT key, value FROM meta")}

    def rows(self, table: str) -> List[Dict[str, Any]]:
        """A table or view of results.db as a list of dicts; needs no pandas."""
        known = [row["name"] for row in self._query(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'")]
        if table not in known:
            raise KeyError("no table %r; there are %s" % (table, ", ".join(sorted(known))))
        return self._query('SELECT * FROM "%s"' % table)

    def table(self, table: str) -> "pandas.DataFrame":
        """A table or view of results.db as a DataFrame."""
        return _frame(self.rows(table))

    def trials(self) -> "pandas.DataFrame":
        """One row per trial: the columns of the table, params_NAME for each parameter, and notes_KEY for
        each note."""
        made = self.table("trials")
        if made.empty:
            return made
        params = _frame([json.loads(text) for text in made.pop("params")])
        made = made.join(params.add_prefix("params_"))
        notes = self._notes()
        return made.join(_frame([notes.get(trial, {}) for trial in made["id"]]).add_prefix("notes_")) if notes else made

    def _notes(self) -> Dict[int, Dict[str, str]]:
        """The texts that were attached to trials, by trial."""
        found: Dict[int, Dict[str, str]] = {}
        if self._query("SELECT 1 FROM sqlite_master WHERE name = 'trial_notes'"):    # not of an older espalier
            for row in self._query("SELECT trial, key, text FROM trial_notes ORDER BY trial, key"):
                found.setdefault(row["trial"], {})[row["key"]] = row["text"]
        return found

    def curves(self) -> "pandas.DataFrame":
        """One row per report: trial, iteration, at_s, gpus, packing, metric (the objective), and
        metrics_NAME for each other metric."""
        made = self.table("reports")
        others = self._query("SELECT trial, iteration, name, value FROM metrics JOIN metric_names ON id = name_id")
        if not others:
            return made
        wide = _pandas().DataFrame(others).pivot(index=["trial", "iteration"], columns="name", values="value")
        wide.columns = ["metrics_" + name for name in wide.columns]
        return made.merge(wide.reset_index(), on=["trial", "iteration"], how="left")

    def configurations(self) -> "pandas.DataFrame":
        """With experiment.seeds, one row per configuration: id, first_trial and trials (how many),
        counted (of which metric is the mean: others failed), iteration, metric, spread (standard
        deviation), and params_NAME for each parameter."""
        made = _frame(self._query("SELECT c.*, t.params FROM configurations c JOIN trials t ON t.id = first_trial"
                                  " ORDER BY c.id"))
        if made.empty:
            return made
        params = _frame([json.loads(text) for text in made.pop("params")])
        return made.join(params.add_prefix("params_"))

    def forecast(self, at: Optional[float] = None) -> Dict[str, Any]:
        """When the run will end, what it will cost, what the rest is worth: docs/forecast.md.

        The members are those of `espalier forecast --json`.  at looks at a first part of the journal, such as 50 (%).
        ValueError: there is no forecast, as the message says."""
        part = [] if at is None else ["--at", "%g%%" % at]
        done = subprocess.run(program.command("forecast", self.directory, "--json", *part), env=program.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.decode(errors="replace").strip())
        forecast: Dict[str, Any] = json.loads(done.stdout)
        return forecast

    def best(self) -> Optional[Dict[str, Any]]:
        """The best trial: trial, metric, iteration, params, and checkpoint, a directory or None; with
        experiment.seeds also trials, all of the configuration, whose mean metric is, and spread.

        None while no trial has reported a number, and for a pool (see rows("experiments"))."""
        meta = self.meta()
        best = meta.get("best")
        if best is None or best < 0:
            return None
        row = self._query("SELECT * FROM trials WHERE id = ?", int(best))[0]
        saved = row["checkpoint"]              # the iteration that it belongs to
        repeats = {"spread": meta["best_spread"], "trials": [meta["best_first"] + i for i in range(meta["seeds"])]} \
            if meta.get("seeds", 1) > 1 else {}
        return {"trial": row["id"], "metric": meta["best_metric"], "iteration": meta["best_iteration"], **repeats,
                "params": json.loads(row["params"]),
                "checkpoint": os.path.join(self.directory, "trials", str(row["id"]), "checkpoint-%d" % saved)
                if saved is not None else None}


def _frame(rows: List[Dict[str, Any]]) -> "pandas.DataFrame":
    """Rows as a DataFrame whose columns keep the type of their values, also where some are missing."""
    names = dict.fromkeys(name for row in rows for name in row)
    made = {name: _column([row.get(name) for row in rows]) for name in names}
    return _pandas().DataFrame(made, index=range(len(rows)))


def _column(values: List[Any]) -> Any:
    """Int64 and boolean know missing values; pandas would make a float or an object of them."""
    kinds = {type(value) for value in values if value is not None}
    missing = any(value is None for value in values)
    if kinds == {int}:
        return _pandas().array(values, dtype="Int64") if missing else values
    if kinds == {bool}:
        return _pandas().array(values, dtype="boolean") if missing else values
    if len(kinds) > 1:                         # 1 and 1.0, or 1 and "a": a column of objects changes none
        return _pandas().Series(values, dtype="object")
    return values


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("this needs pandas (pip install 'espalier[pandas]'); rows(TABLE) does not") from None
    return pandas
