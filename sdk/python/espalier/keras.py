"""A callback for Keras 3: each epoch is an iteration.

    run = espalier.trial.start(params={"lr": 0.1}, iterations=10)
    model = ReportCallback.restore(run) or make_and_compile(run.params)
    model.fit(x, y, initial_epoch=run.iteration, epochs=run.iterations_max, callbacks=[ReportCallback(run)])
"""

import os
from typing import Any, Dict, Optional

import keras

from espalier.trial import Run

_file = "model.keras"


class ReportCallback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Reports the logs of an epoch, saves when asked to, and ends the training."""

    def __init__(self, run: Run):
        super().__init__()
        self.run = run

    @staticmethod
    def restore(run: Run) -> Any:
        """The model and its optimizer as they were saved; None for a fresh start."""
        return keras.models.load_model(os.path.join(run.checkpoint, _file)) if run.checkpoint else None

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        run = self.run
        iteration = run.iteration + 1
        verdict = run.report(iteration, logs or {})
        if verdict.save and run.rank == 0:
            self.model.save(os.path.join(run.save, _file))
            run.saved(iteration)
        if verdict.end:
            self.model.stop_training = True
