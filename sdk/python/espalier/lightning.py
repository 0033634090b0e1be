"""A callback for PyTorch Lightning: each epoch is an iteration.

    run = espalier.trial.start(params={"lr": 0.1}, iterations=10)
    trainer = pytorch_lightning.Trainer(max_epochs=run.iterations_max, callbacks=[ReportCallback(run)])
    trainer.fit(model, ckpt_path=ReportCallback.restore(run))

With several ranks: Trainer(strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]), ...).
"""

import os
import sys
from typing import Any, Optional

from espalier.trial import Run

if "pytorch_lightning" in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

_file = "lightning.ckpt"


class ReportCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Reports what was logged in an epoch, saves when asked to, and ends the training."""

    def __init__(self, run: Run):
        self.run = run

    @staticmethod
    def restore(run: Run) -> Optional[str]:
        """What fit() takes as ckpt_path: None for a fresh start."""
        return os.path.join(run.checkpoint, _file) if run.checkpoint else None

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        run = self.run
        iteration = run.iteration + 1
        verdict = run.report(iteration, dict(trainer.callback_metrics))
        if verdict.save:
            trainer.save_checkpoint(os.path.join(run.save, _file))     # on every rank; it ends with a barrier
            if trainer.is_global_zero:
                run.saved(iteration)
        if verdict.end:
            trainer.should_stop = True
