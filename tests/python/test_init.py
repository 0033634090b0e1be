"""The reading of scripts by `espalier init`: units, and random sources."""

import ast
import contextlib
import glob
import io
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import espalier
from espalier import fill
from espalier.init import ask, configs, main, objective, ranges, source, write
from espalier.init.options import ABSENT, Option


def configuration(text, help_text=None, **files):
    """What init writes for a script, which is not asked, or answers help_text, a text or a function of the command."""
    before, asks = os.getcwd(), ask.ask
    ask.ask = lambda command: ask.Answer(help_text(command) if callable(help_text) else help_text, "")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, data in dict(files, **{"train.py": text}).items():
                name = name.replace("__", ".")
                with open(name, "w", encoding="utf-8") as file:
                    file.write(data)
            with contextlib.redirect_stderr(io.StringIO()):
                return main.configuration("train.py", None, help_text is not None)
        finally:
            os.chdir(before)
            ask.ask = asks


LR = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--lr", type=float, default=0.1)\na = p.parse_args()\n'


class Options(unittest.TestCase):
    def tunes(self, line, text, before=""):
        made = configuration("import argparse, os\n" + before + "p = argparse.ArgumentParser()\n" + line +
                             "\na = p.parse_args()\nprint('loss', 1.0)\n")
        self.assertIn(text, made)

    def test_forms_of_defaults(self):
        rate = 'lr = { type = "real"; low = 0.005; high = 0.5; scale = "log"; default = 0.05; }'
        self.tunes("p.add_argument('--lr', type=float, default=LR)", rate, "LR = 0.05\n")
        self.tunes("p.add_argument('--lr', type=float, default=float('5e-2'))", rate)
        self.tunes("p.add_argument('--lr', type=float, default='0.05')", rate)
        self.tunes("p.add_argument('--lr', type=float, default=os.environ.get('LR', 0.05))", rate)
        self.tunes("p.add_argument('--lr', **kw)", rate, "kw = dict(type=float, default=5 / 100)\n")
        self.tunes("p.add_argument('--lr', type=float, default=C.lr)", rate, "class C:\n    lr = 0.05\n")
        self.tunes("p.add_argument('--lr', type=float, default=D().lr)", rate,
                   "from dataclasses import dataclass\n@dataclass\nclass D:\n    lr: float = 0.05\n")
        self.tunes("p.add_argument('--width', type=int, default=2**7)", "width = { type = \"ordinal\"; values = [ 32, 64, 128, 256, 512 ]")
        self.tunes("p.add_argument('--opt', choices=OPTS, default=OPTS[0])", 'values = [ "sgd", "adam" ]; default = "sgd"',
                   "OPTS = ['sgd', 'adam']\n")
        self.tunes("for n, d in {'lr': 0.05}.items():\n    p.add_argument('--' + n, type=float, default=d)", rate)
        self.tunes("add = p.add_argument\nadd('--lr', type=float, default=0.05)", rate)

    def test_what_is_left_alone(self):
        for name in ("seed", "num-workers", "data-dir", "port", "device", "log-interval", "local_rank", "num_classes"):
            made = configuration(LR.replace("a = p", "p.add_argument('--%s', type=int, default=8)\na = p" % name) + "print('loss', a.lr)\n")
            self.assertNotIn("--%s=" % name, made)
            self.assertIn("#   --" + name, made)

    def test_what_is_no_hyperparameter(self):
        for name in ("random_state", "num_processes", "train_size", "sync_bn", "use_fast_tokenizer", "max_seq_length", "dataloader_prefetch"):
            option = Option("--" + name, name, default=8)
            self.assertEqual(ranges.role(option)[0], ranges.LEFT_ALONE, name)

    def test_ranges_that_a_library_refuses(self):
        """A share of 0 of the columns, heads that do not divide a width, a decay of 0.9 where 1e-6 is meant."""
        self.assertEqual(ranges.role(Option("--subsample", "subsample", default=1.0))[1].low, 0.1)
        self.assertEqual(ranges.role(Option("--n_head", "n_head", default=12))[1].values, [6, 12, 24])
        self.assertEqual(ranges.role(Option("--nhead", "nhead", default=1))[1].values, [1, 2])
        made = ranges.role(Option("--decay", "decay", default=1e-6))[1]
        self.assertEqual((write.number(made.low), write.number(made.high), made.scale), ("1e-07", "1e-05", "log"))

    def test_dotted_names(self):
        self.assertEqual(ranges.role(Option("--data.batch_size", "data_batch_size", default=32))[0], ranges.TUNED)
        self.assertEqual(ranges.role(Option("--trainer.max_epochs", "trainer_max_epochs", default=32))[0], ranges.ITERATIONS)
        self.assertEqual(ranges.role(Option("--model.num_classes", "model_num_classes", default=32))[0], ranges.LEFT_ALONE)

    def test_roles(self):
        self.assertEqual(ranges.role(Option("--epochs", "epochs", default=5))[0], ranges.ITERATIONS)
        self.assertEqual(ranges.role(Option("--warmup-epochs", "warmup_epochs", default=5))[0], ranges.TUNED)
        self.assertEqual(ranges.role(Option("--output-dir", "output_dir", default="x"))[0], ranges.OUTPUT)
        self.assertEqual(ranges.role(Option("--output", "output", default="a.csv"))[0], ranges.LEFT_ALONE)
        self.assertEqual(ranges.role(Option("--data", "data", required=True))[0], ranges.REQUIRED)
        self.assertEqual(ranges.role(Option("--lr", "lr", required=True, type="float"))[0], ranges.TUNED)
        self.assertEqual(ranges.role(Option("--bias", "bias", default=True, type="bool"))[0], ranges.LEFT_ALONE)

    def test_bounds_hold_the_default(self):
        rng = random.Random(7)
        for _ in range(3000):
            name = rng.choice(["lr", "dropout", "momentum", "tau", "width", "layers", "gamma", "eps", "beta1", "x", "alpha", "ratio"])
            value = rng.choice([rng.random(), 10 ** rng.uniform(-11, 11), 0.0, 1.0, rng.randrange(1, 5000), 0.9, 0.99, 0.999])
            option = Option("--" + name, name, default=value, type=type(value).__name__)
            if rng.random() < 0.3:
                option.low = rng.choice([None, 0, 1, value / 2])
                option.high = rng.choice([None, 1, value * 2])
            what, made = ranges.role(option)
            if made is None:
                continue
            if made.values is not None:
                self.assertIn(made.default, made.values)
                continue
            self.assertLessEqual(made.low, made.default)
            self.assertLessEqual(made.default, made.high)
            self.assertLess(made.low, made.high)
            if made.scale == "log":
                self.assertGreater(made.low, 0)
            if option.high is not None:
                self.assertLessEqual(made.high, option.high)

    def test_help_texts(self):
        text = ("usage: x [-h] [--lr LR]\n\noptions:\n  -h, --help            show this help\n  --lr LR, -l LR        rate (default: 0.1)\n"
                "  --opt {sgd,adam}      which one [default: adam]\n  --flag                a switch\n"
                "  --long-name-of-an-option N\n                        more than one line (default: 7)\n")
        found = {one.flag: one for one in ask.listed(text)}
        self.assertEqual(found["--lr"].default, 0.1)
        self.assertEqual(found["--opt"].choices, ["sgd", "adam"])
        self.assertEqual(found["--opt"].default, "adam")
        self.assertEqual(found["--flag"].action, "store_true")
        self.assertEqual(found["--long-name-of-an-option"].default, 7)
        self.assertNotIn("--help", found)

    def test_help_that_names_types(self):
        text = ("usage: x [options] fit\n\noptions:\n  --model.width WIDTH   (type: int, default: 64)\n"
                "  --model.rate RATE     The rate.  Default: 1. (type: Union[float, str], default: 0.5)\n"
                "  --model.bias {true,false,null}\n                        (type: Optional[bool], default: null)\n"
                "  --model.path PATH     (required, type: str)\n")
        found = {one.flag: one for one in ask.listed(text)}
        self.assertEqual((found["--model.width"].type, found["--model.width"].default), ("int", 64))
        self.assertEqual(found["--model.rate"].default, 0.5)
        self.assertEqual((found["--model.bias"].type, found["--model.bias"].choices), ("bool", None))
        self.assertEqual([one.flag for one in found.values() if one.required], ["--model.path"])

    def test_required_options_of_a_usage(self):
        text = ("usage: train.py [-h] --data DATA [--lr LR]\n                [--opt {sgd,adam}] --name-of-it NAME\n                (--a | --b)\n\n"
                "options:\n  --data DATA   where\n  --lr LR  rate\n  --name-of-it NAME  what\n  --opt {sgd,adam}  x\n  --a  y\n")
        self.assertEqual([one.flag for one in ask.listed(text) if one.required], ["--data", "--name-of-it"])

    def requires(self, body, *flags):
        """CHANGE-ME stands for these options, which a script refuses to run without."""
        made = configuration("import argparse, sys\np = argparse.ArgumentParser()\np.add_argument('--data')\np.add_argument('--file', default='')\n"
                             "p.add_argument('--kind', default='a')\np.add_argument('--do_train', action='store_true')\n"
                             "p.add_argument('--lr', type=float, default=0.1)\nargs = p.parse_args()\n" + body + "\nprint('loss', args.lr)\n")
        found = [one for one in ("--data", "--file", "--kind") if one + "=CHANGE-ME" in made]
        self.assertEqual(found + [one for one in ("--do_train",) if '"%s"' % one in made], list(flags), body)

    def test_options_that_a_script_refuses_to_run_without(self):
        self.requires("if args.data is None:\n    p.error('give --data')", "--data")
        self.requires("if not args.file:\n    raise ValueError('a file')", "--file")
        self.requires("assert args.data is not None", "--data")
        self.requires("if args.data is None and not args.file:\n    sys.exit('data or file')", "--data")
        self.requires("if args.kind == 'b':\n    pass\nelif args.data is None or args.file == '':\n    raise ValueError()", "--data", "--file")
        self.requires("if not args.do_train:\n    sys.exit(1)", "--do_train")
        self.requires("if not (args.do_train or args.data):\n    p.error('nothing to do')", "--do_train")

    def test_options_that_it_does_not_need(self):
        for body in ("if args.data is not None:\n    raise ValueError()", "if args.kind == 'b' and args.data is None:\n    p.error('x')",
                     "args.data = args.data or 'x'\nif args.data is None:\n    raise ValueError()", "if args.data is None:\n    args.data = 'x'",
                     "if found and args.data is None:\n    p.error('x')", "def unused():\n    if args.data is None:\n        raise ValueError()",
                     "if args.data is None:\n    print('none')\nif unknown(args.data):\n    raise ValueError()"):
            self.requires(body)

    def test_time_limit_of_help(self):
        before, ask.TIME_LIMIT = ask.TIME_LIMIT, 1.0
        try:
            answer = ask.ask(["python3", "-c", "import time, os\nos.fork()\ntime.sleep(60)"])
        finally:
            ask.TIME_LIMIT = before
        self.assertIn("did not end within", answer.problem)


class Objectives(unittest.TestCase):
    def chooses(self, body, name, text="", goal="minimize", source=LR):
        made = configuration(source + body)
        self.assertIn('metric = "%s";' % name, made)
        self.assertIn(text, made)
        self.assertIn('goal = "%s"' % goal, made)

    def test_forms_of_lines(self):
        loop = "for e in range(9):\n    "
        self.chooses(loop + "print(f'epoch {e} loss {a.lr:.3f}')", "loss", 'pattern = "epoch {iteration} loss {loss}"')
        self.chooses(loop + "print('Epoch: %3d\\tval loss: %.4f (%s)' % (e, a.lr, e))", "loss",
                     'pattern = "Epoch: \\\\s*{iteration}\\\\s+val loss: {loss}"')
        self.chooses(loop + "print('[{}/{}] RMSE={:>9.3f}'.format(e, 9, a.lr))", "rmse", 'RMSE=\\\\s*{rmse}"')
        self.chooses(loop + "print('100%% {x} error', a.lr)", "error", 'pattern = "100%% \\\\{x\\\\} error {error}"')
        self.chooses(loop + "print('epoch', e, 'acc', a.lr, sep='|')", "acc", '"epoch\\\\|{iteration}\\\\|acc\\\\|{acc}"', "maximize")
        self.chooses(loop + "print('Epoch ' + str(e) + ': loss = ' + str(a.lr))", "loss", '"Epoch {iteration}: loss = {loss}"')
        self.chooses(loop + "m = 'epoch {}'.format(e)\n    m += ' mse {}'.format(a.lr)\n    print(m)", "mse", '"epoch {iteration} mse {mse}"')
        self.chooses(loop + "print(' | '.join(['epoch %d' % e, 'f1 %f' % a.lr]))", "f1", '"epoch {iteration} \\\\| f1 {f1}"', "maximize")
        self.chooses(loop + "print(f'{e}\\t{val_loss}')", "val_loss", '{val_loss}"')
        self.chooses(loop + "print(f'Epoch {e}: Train: {train_acc}, Val: {val_acc}')", "val_acc", 'Val: {val_acc}"', "maximize")
        self.chooses(loop + "print({'val': {'loss': a.lr}, 'epoch': e})", "val/loss", 'format = "json"; iteration = "epoch"')
        self.chooses(loop + "print('time %s, loss %s' % (3, a.lr))", "loss", 'loss {loss}"')

    def test_forms_of_logging(self):
        log = "import logging, json, sys\nlogging.basicConfig(level=logging.INFO)\n"
        self.chooses(log + "for e in range(3):\n    d = {'epoch': e, 'train/loss': a.lr, 'val/loss': a.lr}\n    logging.info('metrics %s', json.dumps(d))",
                     "val/loss", 'format = "json"; iteration = "epoch"')
        self.chooses("for e in range(9):\n    print(f'iter {e} nll={a.lr:.3e}, loss={a.lr:,.2f}, mse={a.lr:.3f}')", "nll",
                     'pattern = "iter {iteration} nll={nll}')
        self.assertNotIn("{loss}", configuration(LR + "for e in range(9):\n    print(f'step {e:,} nll={a.lr}, loss={a.lr:,.2f}')"))

    def test_fields_of_dataclasses(self):
        kind = "import argparse, dataclasses\nfrom dataclasses import dataclass, fields\n@dataclass\nclass C:\n    lr: float = 0.05\n    n: str = 'a'\n"
        end = "a = C(**vars(p.parse_args()))\nprint('loss', a.lr)\n"
        for loop in ("for f in fields(C):\n    p.add_argument('--' + f.name, type=f.type, default=f.default)\n",
                     "for n, f in C.__dataclass_fields__.items():\n    p.add_argument(f'--{n}', type=f.type, default=f.default)\n",
                     "for f in dataclasses.fields(C()):\n    p.add_argument('--%s' % f.name, default=f.default, type=f.type)\n"):
            self.assertIn('lr = { type = "real"; low = 0.005; high = 0.5; scale = "log"; default = 0.05; }',
                          configuration(kind + "p = argparse.ArgumentParser()\n" + loop + end))

    def test_preferences(self):
        self.chooses("for e in range(5):\n    print('train_loss', 1.0)\n    print('valid_loss', 2.0)\n    print('test_loss', 1.5)", "valid_loss")
        self.chooses("for e in range(5):\n    print('train_loss', 1.0)\n    print('test_auc', 2.0)", "train_loss")
        self.chooses("for e in range(5):\n    print('val_loss', 1.0)\nprint('val_acc', 2.0)", "val_loss")
        self.chooses("for e in range(5):\n    print('test_loss', 1.0)", "test_loss", "of the test set, the only one")
        self.chooses("for e in range(5):\n    for b in loader:\n        print('loss', 1.0)\n    print('accuracy on validation', 2)\n"
                     "    print('val accuracy', a.lr)", "accuracy", "val accuracy {accuracy}", "maximize")
        self.chooses("for e in range(5):\n    print('best_val_loss', 1.0, 'val_loss', 2.0)", "val_loss")
        self.chooses("def validate():\n    print('loss', a.lr)\ndef train():\n    loss.backward()\n    print('error', 1.0)\n"
                     "for e in range(5):\n    train()\n    validate()", "loss", "of the validation set")

    def test_batches_whose_line_does_not_name_the_epoch(self):
        """A second line does; of a meter the average counts."""
        loops = "def train(epoch):\n    for i, x in enumerate(loader):\n        loss.backward()\n        print(f'Train: {epoch} [{i}] Loss: {m.val:.3f} ({m.avg:.3f})')\n" \
            "def validate():\n    for i, x in enumerate(loader):\n        print(f'Eval: [{i}] Loss: {m.val:.3f} ({m.avg:.3f})')\n" \
            "for epoch in range(5):\n    train(epoch)\n    validate()\n"
        self.chooses(loops, "loss", 'pattern = "Train: {iteration}\\\\b|Eval: \\\\[.*?\\\\] Loss: .*? \\\\({loss}"')

    def test_arrays_of_one_element(self):
        self.chooses("for s in range(5):\n    for info in infos:\n        print(f\"step={s}, episodic_return={info['episode']['r']}\")",
                     "episodic_return", "episodic_return=\\\\[?{episodic_return}", "maximize")

    def test_handlers_in_a_function(self):
        """No call reaches them: a library does."""
        self.chooses("def run():\n    @trainer.on(Events.EPOCH_COMPLETED)\n    def log_validation(engine):\n        "
                     "tqdm.write(f'Validation - Epoch: {engine.state.epoch} loss: {nll:.2f}')\n    trainer.run(loader)\nrun()\n",
                     "loss", 'pattern = "Validation - Epoch: {iteration} loss: {loss}"', source="from tqdm import tqdm\n" + LR)

    def test_losses_with_a_letter(self):
        self.chooses("for e in range(5):\n    for b in loader:\n        print('[%d/5][%d] Loss_D: %.4f' % (e, b, a.lr))", "loss_d",
                     "{iteration}/5")
        self.assertIn('metric = "CHANGE-ME"', configuration(LR + "for e in range(5):\n    print('Loss scale: %d' % a.lr)"))

    def test_what_evaluate_computes(self):
        self.chooses("import evaluate\nmetric = evaluate.load('glue', 'mrpc')\nfor epoch in range(5):\n    eval_metric = metric.compute()\n"
                     "    print(f'epoch {epoch}:', eval_metric)", "accuracy", 'metrics = { format = "json"; };', "maximize")

    def test_directions(self):
        for name in ("loss", "val/loss", "rmse", "test_error", "ppl", "perplexity", "WER", "mean_absolute_error"):
            self.assertEqual(objective.direction(name)[0], "minimize", name)
        for name in ("accuracy", "val_acc", "Acc@1", "AUC", "f1_macro", "mAP", "bleu", "R2", "episodic_return", "mIoU"):
            self.assertEqual(objective.direction(name)[0], "maximize", name)
        for name in ("lr", "time", "epoch", "step", "memory", "path", ""):
            self.assertEqual(objective.direction(name)[0], "", name)

    def test_no_false_metric(self):
        for body in ("print('hello')", "print('lr', a.lr)", "x = 'loss {}'", "writer.add_scalar('loss', 1)", "print('loss')",
                     "open('x', 'w').write('loss %f' % a.lr)"):
            self.assertIn('metric = "CHANGE-ME"', configuration(LR + body), body)

    def test_number_of_epochs(self):
        self.assertIn("iterations_max = 7;", configuration(LR + "N = 7\nfor e in range(1, N + 1):\n    print('epoch', e, 'loss', a.lr)"))
        self.assertIn('use = "random"', configuration(LR + "for e in range(7):\n    pass\nprint('loss', a.lr)"))


TRAINER = """import transformers
from transformers import HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
trainer = Trainer(model=m, args=args, train_dataset=a, eval_dataset=b)
trainer.train()
"""
CLI = """import torch
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch import LightningModule
class Net(LightningModule):
    def training_step(self, batch, i):
        return self.step(batch, "train")
    def validation_step(self, batch, i):
        self.step(batch, "val")
    def step(self, batch, stage):
        self.log(f"{stage}_loss", 1.0, on_step=True)
LightningCLI(Net%s)
"""


class Libraries(unittest.TestCase):
    """What a parser brings of a library's own options is written as far as the search needs it, and else left alone."""

    def test_trainer(self):
        text = ("usage: x [-h] --output_dir OUTPUT_DIR [--do_train]\n\noptions:\n  --output_dir OUTPUT_DIR  where\n"
                "  --overwrite_output_dir  Overwrite it. (default: False)\n  --do_train [DO_TRAIN]  Whether to train. (default: False)\n  --eval_strategy {no,steps,epoch}  when (default: no)\n"
                "  --learning_rate LEARNING_RATE  rate (default: 5e-05)\n  --optim {adam,npu_adam}  which (default: adam)\n"
                "  --num_train_epochs N  how many (default: 3.0)\n  --hub_strategy {end,all}  what (default: end)\n"
                "  --per_device_train_batch_size N  size (default: 8)\n")
        made = configuration(TRAINER, text)
        self.assertIn('metric = "eval_loss"', made)
        self.assertIn('"--output_dir={output}"', made)
        self.assertIn('"--num_train_epochs={iterations}"', made)
        self.assertIn('"--overwrite_output_dir", "--do_train", "--eval_strategy=epoch" ]', made.replace("\n     ", ""))
        self.assertIn("per_device_train_batch_size = { type", made)
        self.assertNotIn("optim", made)
        self.assertNotIn("hub_strategy", made)

    def test_trainer_that_is_not_asked(self):
        self.assertIn("CHANGE-ME", configuration(TRAINER))

    def test_lightning_command_line(self):
        text = ("options:\n  --trainer.max_epochs N  (type: Optional[int], default: 7)\n  --trainer.benchmark {true,false,null}  (type: Optional[bool], default: null)\n"
                "  --trainer.logger LOGGER  (type: x, default: null)\n  --model.lr LR  (type: float, default: 0.1)\n  --data.batch_size N  (type: int, default: 32)\n")
        made = configuration(CLI % "", lambda command: text if "fit" in command else "usage: train.py {fit,test}\n")
        self.assertIn('"train.py", "fit", "--trainer.max_epochs={iterations}"', made)
        self.assertIn('metric = "val_loss_epoch"', made)
        self.assertIn('"--trainer.logger=lightning.pytorch.loggers.CSVLogger"', made)
        self.assertIn('metrics = { file = "{output}/lightning_logs/version_*/metrics.csv"; };', made)
        self.assertIn("data_batch_size = {", made)
        self.assertNotIn("benchmark", made)
        self.assertIn("iterations_max = 7;", made)
        self.assertNotIn('"fit"', configuration(CLI % ", run=False", text))

    def test_lightning_without_validation(self):
        made = configuration(LR + "import lightning as L\nclass Net(L.LightningModule):\n    def training_step(self, batch, i):\n"
                             "        self.log('avg_reward', 1.0, prog_bar=True)\nL.Trainer().fit(Net())\n")
        self.assertIn('pattern = "Epoch {iteration}: .*avg_reward={avg_reward}"', made)

    def test_several_gpus(self):
        """They are for who asks for them: with one there are no variables of torchrun, for which a script would need NCCL and a GPU."""
        ddp = LR + "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\ndist.init_process_group('gloo')\nprint('loss', a.lr)\n"
        made = configuration(ddp)
        self.assertIn("  gpus_max = 1;", made)
        self.assertIn("as torchrun starts them: gpus_max = 4;", made)
        self.assertNotIn("torchrun", configuration(ddp + "torch.multiprocessing.spawn(f)\n"))


class Files(unittest.TestCase):
    def test_yaml(self):
        text = ("a: 1 # one\nb:\n  c: 1e-3\n  d: 'x # y'  # text\n  e:\n    - f: 1\n    - 2\n  g: |\n    h: 3\n  i: true\n"
                "j: [1, 2]\nk: {l: 1}\nm: null\n")
        found = {one.key: (one.value, one.about) for one in configs.yaml_values(text)}
        self.assertEqual(found, {"a": (1, "one"), "b.c": (0.001, ""), "b.d": ("x # y", "text"), "b.i": (True, ""), "m": (None, "")})

    def test_toml(self):
        found = {one.key: one.value for one in configs.toml_values('x = 1\n[a.b]\ny = "z" # t\n[[c]]\nw = 2\n')}
        self.assertEqual(found, {"x": 1, "a.b.y": "z"})

    def test_fill_changes_nothing_else(self):
        text = "# head\nlr: 0.1   # rate\nname: \"run 1\"\nopt:\n  kind: adam\n  lr: 2\n"
        made = fill.filled(text, {"opt.lr": "0.25", "lr": "1.0e-05"}, ".yaml", "x")
        self.assertEqual(made, text.replace("lr: 0.1 ", "lr: 1.0e-05 ").replace("lr: 2", "lr: 0.25"))
        self.assertEqual(fill.filled('a = 1\n[b]\nc = "x"\n', {"b.c": "y", "a": "3"}, ".toml", "x"), 'a = 3\n[b]\nc = "y"\n')
        self.assertEqual(fill.filled('{"a": {"b": 1, "s": "1"}}', {"a.b": "2.5", "a.s": "2"}, ".json", "x"),
                         '{\n  "a": {\n    "b": 2.5,\n    "s": "2"\n  }\n}\n')
        self.assertIn('kind: "0x10"', fill.filled(text, {"opt.kind": "0x10"}, ".yaml", "x"))

    def test_files_that_are_odd(self):
        with contextlib.redirect_stderr(io.StringIO()) as error, self.assertRaises(SystemExit):
            fill.filled("[" * 200000, {"a": "1"}, ".json", "deep.json")
        self.assertIn("deep.json", error.getvalue())
        self.assertEqual(configs.json_values("[" * 200000), [])

    def test_fill_of_a_name_that_starts_with_points(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "..a.yaml"), "w", encoding="utf-8-sig") as file:
                file.write("lr: 0.1\n")
            done = subprocess.run([sys.executable, "-m", "espalier.fill", "..a.yaml", "lr=0.5", "--", "cat", "./..a.yaml"], cwd=folder,
                                  env=dict(os.environ, ESPALIER_OUTPUT=os.path.join(folder, "out"),
                                           PYTHONPATH=os.path.dirname(os.path.dirname(espalier.__file__))),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual((done.stdout, done.stderr, done.returncode), (b"lr: 0.5\n", b"", 0))

    def config_flags(self, body, *texts, line="config_flags.DEFINE_config_file('config', 'conf.py')", **files):
        """What init writes for a script that reads get_config() of a file with ml_collections."""
        made = configuration("from absl import app, flags\nfrom ml_collections import config_flags\n" + line + "\n"
                             "def main(_):\n    for e in range(9):\n        print(f'epoch {e} val_loss {e / 7}')\n"
                             "app.run(main)\n", conf__py="import dataclasses\nimport ml_collections\n"
                             "from ml_collections import config_dict\n" + body, **files)
        for text in texts:
            self.assertIn(text, made)
        return made

    def test_config_flags(self):
        start = "def get_config(kind=None):\n    c = ml_collections.ConfigDict()\n"
        self.config_flags(start + "    c.lr = 0.1\n    c.model = m = config_dict.ConfigDict()\n    m.dropout = 0.2\n    c.num_epochs = 7\n    return c",
                          '"--config=conf.py"', '"--config.lr={lr}"', '"--config.model.dropout={dropout}"',
                          '"--config.num_epochs={iterations}"', "iterations_max = 7;", "high = 1.0; scale = \"log\"; default = 0.1;")
        made = self.config_flags(start + "    c.update(dict(model=dict(dropout=0.1, width=64), base_lr=config_dict.FieldReference(0.2)))\n"
                                 "    with c.unlocked():\n        c.model.dropout = 0.25\n    c.update({'model': {'momentum': 0.8}})\n"
                                 "    c.half = c.base_lr / 2\n    c.later = config_dict.placeholder(float)\n"
                                 "    c.optimizer = config_dict.create(name='adam', lr=1e-3)\n    return c",
                                 "dropout = { type = \"real\"; low = 0.0; high = 0.5; default = 0.25; }", '"--config.model.width={width}"',
                                 '"--config.model.momentum={momentum}"', '"--config.base_lr={base_lr}"', '"--config.optimizer.lr={lr}"')
        self.assertNotIn("later", made)
        self.assertNotIn("config.half", made)
        self.config_flags("@dataclasses.dataclass\nclass M:\n    width: int = 32\n@dataclasses.dataclass\nclass C:\n    lr: float = 0.1\n"
                          "    m: M = dataclasses.field(default_factory=M)\ndef get_config():\n    return C(lr=0.5)\n",
                          '"--config.m.width={width}"', "default = 0.5;")

    def test_config_flags_that_name_no_file(self):
        lr = "def get_config():\n    return ml_collections.ConfigDict({'lr': 0.1})\n"
        self.config_flags(lr, '"--config=conf.py"', '"--config.lr={lr}"', line="config_flags.DEFINE_config_file('config', None)")
        self.config_flags(lr, '"--config=config.py"', "may name, config.py was taken: config.py, conf.py, other_config.py.",
                          line="config_flags.DEFINE_config_file('config')", config__py="import ml_collections\n" + lr, other_config__py=lr)
        self.config_flags("", '"--config=CHANGE-ME"', line="config_flags.DEFINE_config_file('config')")
        self.config_flags("1 / 0\n" + lr, '"--config.lr={lr}"')       # it is not run
        self.config_flags("", '"--c.lr={lr}"', line="import ml_collections\nconfig_flags.DEFINE_config_dict('c', "
                          "ml_collections.ConfigDict({'lr': 0.1}))")

    def test_hydra(self):
        made = configuration("import hydra\n@hydra.main(version_base=None, config_path='.', config_name='config')\ndef main(cfg):\n"
                             "    for e in range(cfg.train.max_epochs):\n        print('epoch', e, 'val_loss', 1.0)\nmain()\n",
                             config__yaml="train:\n  lr: 0.01\n  max_epochs: 4\n  path: ${oc.env:HOME}\nneeded: ???\n")
        self.assertIn('"train.lr={lr}"', made)
        self.assertIn('"train.max_epochs={iterations}"', made)
        self.assertIn('"needed=CHANGE-ME"', made)


class Sources(unittest.TestCase):
    def test_bounds(self):
        for text in ("x = 9 ** 9 ** 9\n", "x = 'a' * 10 ** 9\n", "while True:\n    pass\n", "def f(): f()\nf()\n",
                     "x = list(range(10 ** 9))\n", "for i in range(10 ** 9):\n    print(i)\n", "x = 1 << 10 ** 6\n",
                     "x = []\nfor i in range(200):\n    x += x + [1]\n", "x = '%0999999999d' % 3\n", "x = f'{3:999999999}'\n",
                     "x = '{:>999999999}'.format(3)\n", "def f(g): g(g)\nf(f)\n", "x = [[[[1] * 200] * 200] * 200] * 200\n"):
            self.assertIn("experiment = {", configuration(text), text)

    def test_values_that_double(self):
        """Statements in a loop over a written list, each of which makes a value twice as large, or puts it into itself."""
        for before, inside in (('x = "a"', 'x = f"{x}{x}"'), ('x = "a"', 'x = "{0}{0}".format(x)'), ('x = "a"', 'x = "%s%s" % (x, x)'),
                               ('x = "a"', 'x = " ".join([x, x])'), ("x = ['a']", "x += x"), ('x = f"{q}"', "x = x + x"),
                               ('x = f"{q}"', "x += x"), ("x = [q]", "x = [*x, *x]"), ("x = {}", 'x = {"a": x, "b": x}'),
                               ('x = "a"', 'x = x.replace("a", "aa")'), ('x = {"a": 1}', "x.update(b=dict(x), c=dict(x))"),
                               ('x = "a"', "x = str(x) + str(x)"), ("x = {}", 'x["a"] = x')):
            configuration("%s\nfor i in %r:\n    %s\nprint('loss %%s' %% x)\nprint(x)\n" % (before, list(range(60)), inside))

    def test_a_value_printed_twice(self):
        configuration(LR + "m = f'{a.lr}'\nm = m + m\nprint('loss', m)\n")

    def test_calls_that_double(self):
        configuration("".join("def f%d(x):\n    for i in y:\n        print('loss', x)\n        f%d(x)\n        f%d(x)\n" %
                              (i, i + 1, i + 1) for i in range(40)) + "f0(1)\n")

    def test_a_long_help(self):
        for text in (" --a" + " " * 300000 + "\n", " --a A  x\n" + "       (default [\n" * 30000, " --a A  (default " + "x" * 300000 + "\n"):
            self.assertEqual([one.flag for one in ask.listed(text)], ["--a"])

    def test_no_half_of_a_configuration_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.cfg")
            error = io.StringIO()
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
                with contextlib.redirect_stderr(error):
                    status = main.put("x" * 1000, path)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
                signal.signal(signal.SIGXFSZ, handler)
            self.assertEqual(status, 2)
            self.assertIn("cannot write", error.getvalue())
            self.assertFalse(os.path.exists(path))

    def test_texts_of_others_stay_in_their_places(self):
        made = configuration("import argparse\np = argparse.ArgumentParser()\n"
                             "p.add_argument('--lr\\nallocator = { use = \"evil\"; };', type=float, default=0.1, help='x\\n};\\ncloud = {')\n"
                             "p.add_argument('--ou\"t\\ncloud = { use = \"evil\"; };', default='x')\np.parse_args()\nprint('lo\\\"ss\\n};', 1)\n")
        for line in made.splitlines():
            self.assertFalse(line.startswith(("allocator = { use = \"evil\"", "cloud = {")), made)

    def test_random_sources(self):
        """Whatever the source: it is refused, or what is written is a configuration that can be parsed."""
        parts = ["p.add_argument(", "'--lr'", "'--", '"', "'", '"""', ", ", ")", "(", "[", "]", "type=float", "default=", "0.1", "64",
                 "None", "True", "choices=", "'a', 'b'", "help=", "f'loss {x:.3f}'", "\\", "\n", "#", "{", "}", "import argparse\n",
                 "p = argparse.ArgumentParser()\n", "x = sub.add_parser('train')\n", "%", "action=", "'store_true'", "print('loss:', ",
                 "for epoch in range(5):\n    ", "def f(p):\n    ", "f(p)\n", "é", "required=True", "1e-3", "@click.option('--lr', default=1.0)\n",
                 "class A:\n    ", "x: int = 3\n", "lambda x: x", "*args", "**kw", "import hydra\n"]
        rng, read = random.Random(5), 0
        for _ in range(2500):
            text = "".join(rng.choice(parts) for _ in range(rng.randrange(40)))
            try:
                made = configuration(text)
            except source.SourceError:
                continue
            read += 1
            self.assertTrue(made.startswith("# Written by"))
            self.assertEqual(made.count("\nexperiment = {"), 1, text)
        self.assertGreater(read, 20)

    def test_syntax_of_the_oldest_python(self):
        folder = os.path.dirname(espalier.__file__)
        files = glob.glob(os.path.join(folder, "init", "*.py")) + [os.path.join(folder, "fill.py")]
        self.assertGreater(len(files), 8)
        for path in files:
            with open(path, "rb") as file:
                data = file.read()
            self.assertEqual(data, data.decode("ascii", "ignore").encode(), path)
            ast.parse(data, path, feature_version=(3, 9))

    def test_strings(self):
        self.assertEqual(write.quoted('a"b\\c\n\x01'), '"a\\"b\\\\c\\n\\x01"')
        self.assertEqual(write.number(1e-5), "1e-05")
        self.assertEqual(write.number(2.0), "2.0")
        self.assertEqual(write.number(3000000000), "3000000000L")
        self.assertEqual(ABSENT.__repr__(), "ABSENT")


if __name__ == "__main__":
    unittest.main()
