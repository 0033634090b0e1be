"""Weights & Biases: each trial is a run, named like the trial; a trial that is started again continues its run.

    run = espalier.trial.start(params={"lr": 0.1}, iterations=10)
    espalier.wandb.log(run, mode="offline")    # from here on each report is logged

Offline logs are in the trial's own directory: `wandb sync --append RUN/trials/*/output/wandb/offline-run-*`.
"""

import os
import uuid
from typing import Any, Optional

import wandb

from espalier.trial import Run, _keep, _recall


def log(run: Run, **options: Any) -> Optional[Any]:
    """Logs parameters now and the metrics of each report, with the iteration as the step.

    options are passed to wandb.init(), for example project, entity, tags and mode. Returns what
    wandb.init() returns; None on ranks other than 0.
    """
    if run.rank != 0:
        return None
    if run.inside:
        kept = os.path.join(run.output, "wandb-run-id")
        if not _recall(kept):
            _keep(kept, uuid.uuid4().hex[:12])
        options = {"id": _recall(kept), "resume": "allow", **options}
    made = wandb.init(**{"project": run.experiment or None, "group": run.experiment or None, "name": run.name,
                         "dir": run.output, "config": dict(run.params), **options})
    run.listen(lambda iteration, metrics: made.log(dict(metrics), step=iteration))
    return made
