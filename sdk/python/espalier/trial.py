"""For training scripts: reports metrics to espalier.

    import espalier.trial

    run = espalier.trial.start(params={"lr": 0.1}, iterations=10)
    for i in run.iterations():
        run.report(i, {"loss": train_one_epoch(run.params)})

All of it is in the module espalier_trial, one file that can be copied beside a program.
"""

import os

from espalier_trial import Run, Verdict, start

__all__ = ["Run", "Verdict", "start"]


def _recall(path: str) -> str:
    """What _keep() has written; "" if there is nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _keep(path: str, text: str) -> None:
    """Writes a file that is complete or not there, whenever the trial is killed."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
