"""Runs in the trackers that people have: TensorBoard's event files, MLflow, Weights & Biases.  The event files are read
here by hand, and by the real TensorBoard where it is installed; the others are tested where they are installed."""

import glob
import importlib.util
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import espalier
from espalier import program

TRAIN = """
import os
import espalier.trial
%s
run = espalier.trial.start()
%s
assert run.name == os.environ["ESPALIER_TRIAL_NAME"] == "fig-trial-%%d" %% run.trial
assert run.directory == os.environ["ESPALIER_RUN"] and run.output.startswith(run.directory)
for i in run.iterations():
    verdict = run.report(i, {"loss": abs(run.params["x"] - 3) / i, "odd/näme": float("nan") if i == 2 else i})
    if verdict.save:
        open(os.path.join(run.save, "state"), "w").close()
        run.saved(i)
"""


def table():
    """That of CRC-32C."""
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


CRC = list(table())


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    while data:
        (size, crc), data = struct.unpack("<QI", data[:12]), data[12:]
        assert masked(struct.pack("<Q", size)) == crc, "the CRC of a size"
        record, (crc,), data = data[:size], struct.unpack("<I", data[size:size + 4]), data[size + 4:]
        assert masked(record) == crc, "the CRC of a record"
        yield record


def fields(message):
    """Of a protocol buffer: field -> values."""
    found = {}

    def varint():
        nonlocal message
        value = shift = 0
        while True:
            value |= (message[0] & 127) << shift
            message, more, shift = message[1:], message[0] & 128, shift + 7
            if not more:
                return value

    while message:
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value, message = message[:size], message[size:]
            if key & 7 != 2:
                value = struct.unpack("<d" if key & 7 == 1 else "<f", value)[0]
        found.setdefault(key >> 3, []).append(value)
    return found


class Trackers(unittest.TestCase):
    def search(self, imports="", begin="", **env):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chdir(folder.name)
        self.addCleanup(os.chdir, "/")
        with open("train.py", "w", encoding="utf-8") as file:
            file.write(TRAIN % (imports, begin))
        return espalier.run({
            "experiment": {"name": "fig", "metric": "loss", "goal": "minimize", "seed": 1},
            "trial": {"command": ["python3", "train.py"], "gpus_max": 1, "retries": 0, "env": env},
            "space": {"x": {"type": "real", "low": 0.0, "high": 9.0}, "word": {"type": "choice", "values": ["a", "b"]}},
            "algorithm": {"use": "sha", "trials": 4, "iterations_min": 2, "iterations_max": 4, "eta": 2},
            "allocator": {"use": "static", "gpus": 1},
            "cloud": {"use": "local", "device": "cpu", "gpus": 1}}, "run", progress=False)

    def export(self, *more):
        return subprocess.run(program.command("export", "run", "--format", "tensorboard", *more), check=True,
                              stdout=subprocess.PIPE, text=True, env=program.environment()).stdout

    def test_event_files(self):
        run = self.search()
        self.assertEqual(self.export(), "run/tensorboard\n")
        self.assertEqual(sorted(os.listdir("run/tensorboard")), ["fig-trial-%d" % trial for trial in range(4)])
        for row in run.rows("trials"):
            path, = glob.glob("run/tensorboard/fig-trial-%d/*tfevents*" % row["id"])
            events = [fields(record) for record in records(path)]
            self.assertEqual(events[0][3], [b"brain.Event:2"])
            values = [(event[2][0], fields(fields(event[5][0])[1][0])) for event in events[1:]]
            scalars = {(value[1][0].decode(), step): value[2][0] for step, value in values if 2 in value}
            for report in run.rows("reports"):
                if report["trial"] == row["id"]:
                    self.assertAlmostEqual(scalars.pop(("loss", report["iteration"])), report["metric"], 5)
                    odd = scalars.pop(("odd/näme", report["iteration"]))
                    self.assertTrue(math.isnan(odd) if report["iteration"] == 2 else odd == report["iteration"])
            self.assertEqual(scalars, {})
            self.assertEqual([value[1][0] for _, value in values if 9 in value],
                             [b"_hparams_/session_start_info", b"_hparams_/session_end_info"])

    def test_where(self):
        self.search()
        self.assertEqual(self.export("-o", "deep/er"), "")
        self.assertEqual(len(os.listdir("deep/er")), 4)
        with open("file", "w"):
            pass
        made = subprocess.run(program.command("export", "run", "--format", "tensorboard", "-o", "file"),
                              stderr=subprocess.PIPE, text=True, env=program.environment())
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("file", made.stderr)

    def test_tensorboard(self):
        if importlib.util.find_spec("tensorboard") is None:
            self.skipTest("no tensorboard")
        from tensorboard import context
        from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
        from tensorboard.plugins import base_plugin
        from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups
        run = self.search()
        self.export("-o", "logs")
        multiplexer = plugin_event_multiplexer.EventMultiplexer()
        multiplexer.AddRunsFromDirectory("logs")
        multiplexer.Reload()
        best = run.best()
        events = multiplexer.Tensors("fig-trial-%d" % best["trial"], "loss")
        self.assertEqual([event.step for event in events], [1, 2, 3, 4])
        provider = data_provider.MultiplexerDataProvider(multiplexer, "logs")
        hparams = backend_context.Context(base_plugin.TBContext(logdir="logs", data_provider=provider))
        request = context.RequestContext()
        experiment = hparams.experiment_from_metadata(request, "", True, hparams.hparams_metadata(request, ""), [])
        self.assertEqual({(info.name, info.type) for info in experiment.hparam_infos},
                         {("x", api_pb2.DATA_TYPE_FLOAT64), ("word", api_pb2.DATA_TYPE_STRING)})
        self.assertEqual({info.name.tag for info in experiment.metric_infos}, {"loss", "odd/näme"})
        listed = list_session_groups.Handler(request, hparams, "", api_pb2.ListSessionGroupsRequest(
            start_index=0, slice_size=100,
            allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING])).run()
        found = {group.name: group for group in listed.session_groups}
        self.assertEqual(len(found), 4)
        group = found["fig-trial-%d" % best["trial"]]
        self.assertEqual(group.hparams["x"].number_value, best["params"]["x"])
        self.assertEqual(group.sessions[0].status, api_pb2.STATUS_SUCCESS)

    def test_event_files_of_trials(self):
        for module in ("tensorboard", "tensorboardX"):
            if importlib.util.find_spec(module) is None:
                self.skipTest("no " + module)
        from tensorboard.backend.event_processing import plugin_event_multiplexer
        run = self.search("from tensorboardX import SummaryWriter", "writer = SummaryWriter(run.output)\n"
                          "run.listen(lambda iteration, metrics: writer.add_scalar('mine', metrics['loss'], iteration))\n"
                          "import atexit; atexit.register(writer.close)")
        multiplexer = plugin_event_multiplexer.EventMultiplexer()
        multiplexer.AddRunsFromDirectory("run/trials")           # as tensorboard --logdir run/trials does
        multiplexer.Reload()
        self.assertEqual(set(multiplexer.Runs()), {"%d/output" % trial for trial in range(4)})
        best = run.best()                                        # it was paused, and continued
        events = multiplexer.Tensors("%d/output" % best["trial"], "mine")
        self.assertEqual([event.step for event in events], [1, 2, 3, 4])

    def test_ids_are_kept_whole(self):
        stand_in = mock.MagicMock()
        stand_in.MlflowException = KeyError
        stand_in.MlflowClient().create_run().info.run_id = "id"
        names = ("mlflow", "mlflow.entities", "mlflow.exceptions", "wandb")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        run = mock.Mock(rank=0, inside=True, output=folder.name, experiment="e", params={})
        with mock.patch.dict(sys.modules, {name: stand_in for name in names}):
            import espalier.mlflow
            import espalier.wandb
            for log, name in ((espalier.mlflow.log, "mlflow-run-id"), (espalier.wandb.log, "wandb-run-id")):
                path = os.path.join(folder.name, name)
                with mock.patch("os.replace", side_effect=InterruptedError), self.assertRaises(InterruptedError):
                    log(run)                   # killed as it writes
                self.assertFalse(os.path.exists(path))
                open(path, "w").close()        # as if killed by an earlier version
                log(run)
                with open(path) as file:
                    kept = file.read()
                self.assertRegex(kept, "^(id|[0-9a-f]{12})$")
                log(run)
                with open(path) as file:
                    self.assertEqual(file.read(), kept)
            self.assertEqual(stand_in.MlflowClient().update_run.call_args, mock.call("id", status="RUNNING"))
            self.assertEqual(stand_in.init.call_args[1]["id"], kept)

    def test_mlflow(self):
        if importlib.util.find_spec("mlflow") is None:
            self.skipTest("no mlflow")
        import mlflow
        run = self.search("import espalier.mlflow", "espalier.mlflow.log(run, 'file:' + run.directory + '/mlruns')",
                          MLFLOW_ALLOW_FILE_STORE="true")
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        client = mlflow.MlflowClient("file:" + os.path.abspath("run/mlruns"))
        made = client.search_runs([client.get_experiment_by_name("fig").experiment_id])
        self.assertEqual({one.info.run_name for one in made}, {"fig-trial-%d" % trial for trial in range(4)})
        self.assertEqual(len(made), 4)           # a trial that was started again continues its run
        best = run.best()
        one, = [one for one in made if one.info.run_name == "fig-trial-%d" % best["trial"]]
        self.assertEqual(one.info.status, "FINISHED")
        self.assertEqual({name: str(value) for name, value in best["params"].items()}, one.data.params)
        self.assertEqual([(m.step, m.value) for m in client.get_metric_history(one.info.run_id, "loss")],
                         [(row["iteration"], row["metric"]) for row in run.rows("reports") if row["trial"] == best["trial"]])

    def test_wandb(self):
        if importlib.util.find_spec("wandb") is None:
            self.skipTest("no wandb")
        run = self.search("import espalier.wandb", "espalier.wandb.log(run, mode='offline')", WANDB_SILENT="true")
        ids = set()
        for trial in range(4):
            files = glob.glob("run/trials/%d/output/wandb/offline-run-*/*.wandb" % trial)
            starts = [row for row in run.rows("gangs") if row["trial"] == trial]
            self.assertEqual(len(files), len(starts))
            ids.add(tuple({os.path.basename(file) for file in files}))
        self.assertEqual([len(names) for names in ids], [1] * 4)    # one run for each trial, also of two starts
        path = sorted(glob.glob("run/trials/%d/output/wandb/offline-run-*/*.wandb" % run.best()["trial"]))[0]
        with open(path, "rb") as file:
            data = file.read()
        for text in (b"fig-trial-%d" % run.best()["trial"], b"loss", b"word"):
            self.assertIn(text, data)


if __name__ == "__main__":
    unittest.main()
