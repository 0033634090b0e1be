"""The callbacks with the real PyTorch Lightning, transformers and Keras, as far as they are installed: trials that are
paused, and continue from the checkpoint of the framework."""

import importlib.util
import os
import re
import tempfile
import unittest

import espalier

LIGHTNING = """
import warnings, torch, pytorch_lightning as pl
import espalier.trial
from espalier.lightning import ReportCallback
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def loss(self, batch):
        return ((self.layer(batch[0]) - batch[1]) ** 2).mean()
    def training_step(self, batch, number):
        return self.loss(batch)
    def validation_step(self, batch, number):
        self.log("val_loss", self.loss(batch))
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), run.params["lr"])
    def on_train_epoch_start(self):
        print("trains epoch", self.current_epoch + 1, flush=True)
warnings.simplefilter("ignore")
run = espalier.trial.start()
pl.seed_everything(1)
x = torch.randn(256, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loaders = [torch.utils.data.DataLoader(data, batch_size=32) for _ in range(2)]
trainer = pl.Trainer(max_epochs=run.iterations_max, accelerator="cpu", devices=run.world, logger=False,
                     strategy="ddp" if run.world > 1 else "auto", enable_checkpointing=False,
                     enable_progress_bar=False, enable_model_summary=False, callbacks=[ReportCallback(run)])
trainer.fit(Model(), *loaders, ckpt_path=ReportCallback.restore(run))
"""
HUGGINGFACE = """
import torch, transformers
import espalier.trial
from espalier.huggingface import ReportCallback
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, labels):
        y = self.layer(x)
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}
class Show(transformers.TrainerCallback):
    def on_epoch_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            print("trains epoch", round(state.epoch) + 1, flush=True)
run = espalier.trial.start()
torch.manual_seed(1)
x = torch.randn(256, 4)
data = [{"x": row, "labels": row.sum(0, keepdim=True)} for row in x]
args = transformers.TrainingArguments(run.scratch, num_train_epochs=run.iterations_max, eval_strategy="epoch",
    save_strategy="no", learning_rate=run.params["lr"], per_device_train_batch_size=32, report_to=[], use_cpu=True,
    ddp_backend="gloo", disable_tqdm=True)
trainer = transformers.Trainer(Model(), args, train_dataset=data, eval_dataset=data,
                               callbacks=[ReportCallback(run), Show()])
trainer.train(resume_from_checkpoint=run.checkpoint or None)
"""
KERAS = """
import keras, numpy
import espalier.trial
from espalier.keras import ReportCallback
class Show(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        print("trains epoch", epoch + 1, flush=True)
run = espalier.trial.start()
model = ReportCallback.restore(run)
if model is None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(run.params["lr"]), "mse")
x = numpy.random.default_rng(1).normal(size=(256, 4))
model.fit(x, x.sum(1), initial_epoch=run.iteration, epochs=run.iterations_max, verbose=0, validation_split=0.25,
          callbacks=[Show(), ReportCallback(run)])
"""


class Frameworks(unittest.TestCase):
    def search(self, module, text, metric, ranks=1):
        if importlib.util.find_spec(module) is None:
            self.skipTest("no " + module)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            self.addCleanup(os.chdir, "/")
            with open("train.py", "w") as file:
                file.write(text)
            run = espalier.run({
                "experiment": {"name": module, "metric": metric, "goal": "minimize", "seed": 1},
                "trial": {"command": ["python3", "train.py"], "gpus_min": ranks, "gpus_max": ranks, "retries": 0,
                          "env": {"KERAS_BACKEND": "jax", "USE_LIBUV": "0"}},
                "space": {"lr": {"type": "real", "low": 1e-4, "high": 0.1, "scale": "log"}},
                "algorithm": {"use": "sha", "trials": 3, "iterations_min": 2, "iterations_max": 6},
                "allocator": {"use": "static", "gpus": ranks},
                "cloud": {"use": "local", "device": "cpu", "gpus": ranks}}, "run", progress=False)
            best = run.best()
            self.assertEqual((run.meta()["status"], best["iteration"]), ("done", 6))
            self.assertEqual([row["what"] for row in run.rows("decisions") if row["what"] in ("failed", "retried")], [])
            starts = [row for row in run.rows("gangs") if row["trial"] == best["trial"]]
            self.assertEqual(len(starts), 2)                # it was paused, and continued from its checkpoint
            with open("run/trials/%d/log" % best["trial"]) as file:
                epochs = [int(epoch) for epoch in re.findall(r"trains epoch (\d+)", file.read())]
            self.assertEqual(sorted(set(epochs)), [1, 2, 3, 4, 5, 6])
            self.assertEqual(len(epochs), 6 * (ranks if module == "pytorch_lightning" else 1), epochs)
            curve = [row["metric"] for row in run.rows("reports") if row["trial"] == best["trial"]]
            self.assertEqual(curve, sorted(curve, reverse=True))    # no jump back to the beginning

    def test_lightning(self):
        self.search("pytorch_lightning", LIGHTNING, "val_loss")

    def test_lightning_ddp(self):
        self.search("pytorch_lightning", LIGHTNING, "val_loss", ranks=2)

    def test_huggingface(self):
        self.search("transformers", HUGGINGFACE, "eval_loss")

    def test_huggingface_ddp(self):
        self.search("transformers", HUGGINGFACE, "eval_loss", ranks=2)

    def test_keras(self):
        self.search("keras", KERAS, "val_loss")


if __name__ == "__main__":
    unittest.main()
