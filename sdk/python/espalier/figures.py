"""Figures of a run, drawn with matplotlib.  Each returns the axes that it drew on.

    espalier.figures.history(run)
    matplotlib.pyplot.savefig("history.png")
"""

import json
import math
import statistics
from typing import Any, Callable, Dict, List, Optional, Tuple

from espalier.results import Run


def history(run: Run, ax: Any = None) -> Any:
    """Every report over time, and the best so far."""
    meta, rows = run.meta(), sorted(_numbers(run.rows("reports")), key=lambda row: row["at_s"])
    ax = _axes(ax)
    times, values = [row["at_s"] for row in rows], [row["metric"] for row in rows]
    ax.plot(times, values, ".", alpha=0.4, label="reports")
    better = max if meta["goal"] == "maximize" else min
    best: List[float] = []
    for value in values:
        best.append(better(best[-1], value) if best else value)
    ax.step(times, best, where="post", label="best so far")
    ax.set(xlabel="seconds", ylabel=_plain(meta["metric"]), title=_plain(meta["experiment"]))
    ax.legend()
    return ax


def curves(run: Run, ax: Any = None) -> Any:
    """The learning curve of each trial; that of the best is emphasized."""
    meta, best = run.meta(), run.best()
    ax = _axes(ax)
    trials: Dict[int, List[Tuple[int, float]]] = {}
    for row in sorted(_numbers(run.rows("reports")), key=lambda row: row["iteration"]):
        trials.setdefault(row["trial"], []).append((row["iteration"], row["metric"]))
    for trial, points in trials.items():
        if best is not None and trial == best["trial"]:
            ax.plot(*zip(*points), marker=".", linewidth=2.5, zorder=3, label="trial %d, the best" % trial)
        else:
            ax.plot(*zip(*points), marker=".", linewidth=0.8, alpha=0.5, color="gray")
    ax.set(xlabel="iteration", ylabel=_plain(meta["metric"]), title=_plain(meta["experiment"]))
    if best is not None:
        ax.legend()
    return ax


def parallel(run: Run, ax: Any = None) -> Any:
    """Parallel coordinates: an axis for each parameter and one for the metric, a line for each
    trial.  An axis is logarithmic if the values are spread more evenly on it then."""
    from matplotlib import colormaps
    meta, rows = run.meta(), _numbers(run.rows("trials"))
    ax = _axes(ax)
    trials = [dict(json.loads(row["params"]), **{"": row["metric"]}) for row in rows]
    names = list(dict.fromkeys(name for trial in trials for name in trial if name)) + [""]
    scales = [_scale([trial.get(name) for trial in trials]) for name in names]
    good = -1 if meta["goal"] == "minimize" else 1
    for trial in sorted(trials, key=lambda trial: good * trial[""]):          # the best on top
        heights = [place(trial.get(name)) for name, (place, _) in zip(names, scales)]
        shade = heights[-1] if good > 0 else 1 - heights[-1]
        ax.plot(range(len(names)), heights, color=colormaps["viridis"](shade), alpha=0.3 + 0.7 * shade)
    for x, (_, ticks) in enumerate(scales):
        ax.axvline(x, color="gray", linewidth=0.5)
        for height, text in ticks:
            ax.annotate(_plain(text), (x, height), xytext=(3, 2), textcoords="offset points", fontsize="small")
    ax.set_xticks(range(len(names)), [_plain(name or meta["metric"]) for name in names])
    ax.set_yticks([])
    ax.set_title(_plain(meta["experiment"]))
    return ax


def _plain(text: str) -> str:
    """A name as it is: between two dollars matplotlib expects a formula."""
    return text.replace("$", r"\$")


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("figures need matplotlib (pip install 'espalier[plot]')") from None
    return pyplot.subplots(layout="constrained")[1]


def _numbers(rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    return [row for row in rows if row["metric"] is not None and math.isfinite(row["metric"])]


def _scale(values: List[Optional[Any]]) -> Tuple[Any, List[Tuple[float, str]]]:
    """A function from values to heights, NaN for None (the parameter is inactive), and ticks."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known):
        words = sorted({str(value) for value in known})
        steps = {word: i / max(1, len(words) - 1) for i, word in enumerate(words)}
        return lambda value: math.nan if value is None else steps[str(value)], [(y, word) for word, y in steps.items()]
    low, middle, high = (min(known), statistics.median(known), max(known)) if known else (0, 0, 1)
    warp: Callable[[float], float] = float
    if 0 < low < high and (math.log(middle / low) / math.log(high / low) - 0.5) ** 2 < (
            (middle - low) / (high - low) - 0.5) ** 2:
        warp = math.log
    width = (warp(high) - warp(low)) or 1.0

    def place(value: Optional[float]) -> float:
        return math.nan if value is None else (warp(value) - warp(low)) / width
    return place, [(place(value), "%.4g" % value) for value in dict.fromkeys((low, high))]
