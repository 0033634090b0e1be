"""For training scripts: reports metrics to espalier.

    import espalier.trial

    run = espalier.trial.start(params={"lr": 0.1}, iterations=10)
    for i in run.iterations():
        run.report(i, {"loss": train_one_epoch(run.params)})

All of it is in the module espalier_trial, one file that can be copied beside a program.
"""

from espalier_trial import Run, Verdict, start

__all__ = ["Run", "Verdict", "start"]
