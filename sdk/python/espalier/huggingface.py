"""A callback for the Trainer of Hugging Face's transformers: each evaluation is an iteration.

    run = espalier.trial.start(params={"lr": 1e-4}, iterations=3)
    args = TrainingArguments(run.scratch or "out", num_train_epochs=run.iterations_max, eval_strategy="epoch",
                             save_strategy="no", learning_rate=run.params["lr"], ...)
    trainer = Trainer(model, args, callbacks=[ReportCallback(run)], ...)
    trainer.train(resume_from_checkpoint=run.checkpoint or None)
"""

import os
import shutil
import sys
from typing import Any, Dict, Optional

from transformers import TrainerCallback

from espalier.trial import Run


class ReportCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Reports each evaluation, saves when asked to, and ends the training."""

    def __init__(self, run: Run):
        self.run = run
        self._saving = 0                       # the iteration that is to be saved

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Optional[Dict[str, Any]] = None,
                    **kwargs: Any) -> None:
        run = self.run
        numbers = {name: value for name, value in (metrics or {}).items() if isinstance(value, (int, float))}
        verdict = run.report(run.iteration + 1, numbers)
        if verdict.save:
            control.should_save = True         # the Trainer saves next, on every rank
            self._saving = run.iteration
        if verdict.end:
            control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        iteration, self._saving = self._saving, 0
        if iteration == 0:                     # the user's own schedule
            return
        dist = sys.modules.get("torch.distributed")
        if dist is not None and dist.is_available() and dist.is_initialized():
            dist.barrier()                     # every rank has written its part
        if state.is_world_process_zero:
            shutil.copytree(os.path.join(args.output_dir, "checkpoint-%d" % state.global_step), self.run.save,
                            dirs_exist_ok=True)
            self.run.saved(iteration)
