#!/usr/bin/env python3
"""Tunes unedited training scripts of other authors: `espalier init`, `espalier check`, a search of four trials; prints a table.

    python3 tests/bench/scripts.py --sources DIR [--only NAME]... [--work DIR] [--page FILE] [--packages]

DIR holds copies of public repositories as OWNER/NAME (or what is missing there is listed as missing); scripts that come in a
package of PyPI are taken from the Python that runs this program.  --packages prints what to install for it with pip.  --page writes
the table of all rows that are in the directory of work, those of earlier calls included, and tunes nothing.  Nothing is fetched, and no line of a script is changed: a checksum of its directory is compared.  The data are tiny and random, made here:
the values in the table say that a search worked, and nothing about the scripts.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from importlib import metadata, util

PACKAGES = """torch torchvision transformers==4.46.3 datasets<3 accelerate evaluate lightning jsonargparse[signatures] timm pytorch-ignite
gymnasium tyro tensorboard scikit-learn pandas scipy xgboost-cpu lightgbm keras jax flax optax stable-baselines3 torch_geometric
mlflow fire typer hydra-core seaborn opencv-python-headless cloudml-hypertune gym""".split()

# ---- data ------------------------------------------------------------------------------------------


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb" if isinstance(data, bytes) else "w") as file:
        file.write(data)


def idx(count, rng, kind):
    """A file of MNIST's format."""
    if kind == "labels":
        return struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count))
    images = bytearray()
    for i in range(count):
        image = bytearray(rng.randrange(64) for _ in range(784))
        at = 28 * 2 * (i % 10) + 56
        for k in range(at, at + 56):
            image[k] = 255
        images += image
    return struct.pack(">IIII", 2051, count, 28, 28) + bytes(images)


def mnist(root, train=640, test=200, blank=False):
    rng = random.Random(1)
    for name, count in (("train", train), ("t10k", test)):
        for kind, end in (("images", "idx3"), ("labels", "idx1")):
            data = idx(count, rng, kind) if not blank else \
                struct.pack(">IIII", 2051, count, 28, 28) + bytes(784 * count) if kind == "images" else idx(count, rng, kind)
            write(os.path.join(root, "%s-%s-%s-ubyte" % (name, kind, end)), data)


def text(path, lines=400):
    rng = random.Random(2)
    words = "the a tree wall branch leaf grows binds over under green old new and then".split()
    write(path, "".join(" ".join(rng.choice(words) for _ in range(12)) + " .\n" for _ in range(lines)))


def images(root, classes=("a", "b"), count=12, size=64, sets=("train", "val")):
    from PIL import Image
    rng = random.Random(3)
    for one in sets:
        for k, kind in enumerate(classes):
            for i in range(count):
                image = Image.new("RGB", (size, size), (200 * (k % 2), rng.randrange(255), 200 * (k // 2)))
                path = os.path.join(root, one, kind, "%d.jpg" % i)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                image.save(path)


def cora(root, count=2708, words=24):
    """Papers, their words and their citations."""
    rng = random.Random(4)
    kinds = ["K%d" % i for i in range(7)]
    rows, cites = [], []
    for i in range(count):
        rows.append("%d %s %s" % (i, " ".join(str(int(rng.random() < (0.6 if k % 7 == i % 7 else 0.1))) for k in range(words)),
                                  kinds[i % 7]))
        cites.append("%d %d" % (i, (i + 7 * rng.randrange(1, 5)) % count))
    write(os.path.join(root, "cora.content"), "\n".join(rows).replace(" ", "\t") + "\n")
    write(os.path.join(root, "cora.cites"), "\n".join(cites).replace(" ", "\t") + "\n")


def tiny_bert(folder):
    """A model of transformers with few weights, and its vocabulary."""
    import transformers
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + "the a tree wall branch leaf grows binds over under green old new and then .".split()
    write(os.path.join(folder, "vocab.txt"), "\n".join(words) + "\n")
    transformers.BertTokenizerFast(os.path.join(folder, "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=64, max_position_embeddings=256)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)


def tiny_gpt(folder):
    import transformers
    tokenizer = __import__("tokenizers")
    made = tokenizer.Tokenizer(tokenizer.models.WordLevel({w: i for i, w in enumerate(
        "<unk> <eos> the a tree wall branch leaf grows binds over under green old new and then .".split())}, unk_token="<unk>"))
    made.pre_tokenizer = tokenizer.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>").save_pretrained(folder)
    transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=18, n_embd=32, n_layer=2, n_head=2, n_positions=1024)).save_pretrained(folder)


def metric_of_hub(folder):
    """What evaluate.load("accuracy") fetches, where it is looked for first."""
    write(os.path.join(folder, "accuracy", "accuracy.py"), """import datasets
import evaluate


class Accuracy(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features(
            {"predictions": datasets.Value("int32"), "references": datasets.Value("int32")}))

    def _compute(self, predictions, references):
        return {"accuracy": sum(a == b for a, b in zip(predictions, references)) / len(references)}
""")


def sentences(folder):
    rng = random.Random(5)
    for name, count in (("train", 96), ("dev", 32)):
        rows = ["sentence,label"]
        for _ in range(count):
            label = rng.randrange(2)
            rows.append("%s %s,%d" % (rng.choice(["the tree", "a wall"]), "green new" if label else "old under", label))
        write(os.path.join(folder, name + ".csv"), "\n".join(rows) + "\n")


def glue_mrpc(folder):
    """As load_dataset("glue", "mrpc") reads it from a directory of that name."""
    rng = random.Random(6)
    for name, count in (("train", 96), ("validation", 32), ("test", 32)):
        rows = []
        for i in range(count):
            label = rng.randrange(2)
            one = rng.choice(["the tree grows", "a wall binds"])
            rows.append(json.dumps({"sentence1": one, "sentence2": one if label else "old under", "label": label, "idx": i}))
        write(os.path.join(folder, "mrpc", name + ".jsonl"), "\n".join(rows) + "\n")


def planetoid(root):
    """Cora in the files that Planetoid of PyTorch Geometric reads."""
    import pickle

    import numpy
    import scipy.sparse
    rng = numpy.random.default_rng(7)
    count, train, tested = 1000, 140, 200
    kinds = numpy.arange(count) % 7
    x = (rng.random((count, 30)) < 0.1).astype("float32")
    x[numpy.arange(count), kinds] = 1
    y = numpy.eye(7)[kinds]
    graph = {i: [int((i + 7 * k) % count) for k in rng.integers(1, 5, 3)] for i in range(count)}
    first = count - tested
    parts = {"x": scipy.sparse.csr_matrix(x[:train]), "y": y[:train], "tx": scipy.sparse.csr_matrix(x[first:]), "ty": y[first:],
             "allx": scipy.sparse.csr_matrix(x[:first]), "ally": y[:first], "graph": graph}
    for name, value in parts.items():
        write(os.path.join(root, "Cora/raw/ind.cora." + name), pickle.dumps(value))
    write(os.path.join(root, "Cora/raw/ind.cora.test.index"), "".join("%d\n" % i for i in range(first, count)))


def shakespeare(folder):
    import pickle

    import numpy
    rng = numpy.random.default_rng(8)
    for name, count in (("train", 20000), ("val", 4000)):
        data = numpy.cumsum(rng.integers(0, 2, count)).astype(numpy.uint16) % 60
        os.makedirs(folder, exist_ok=True)
        data.astype(numpy.uint16).tofile(os.path.join(folder, name + ".bin"))
    write(os.path.join(folder, "meta.pkl"), pickle.dumps({"vocab_size": 60}))


def yolo(root):
    from PIL import Image
    rng = random.Random(9)
    for one, count in (("train", 8), ("val", 4)):
        for i in range(count):
            image = Image.new("RGB", (64, 64), (rng.randrange(60),) * 3)
            image.paste((255, 0, 0), (20, 20, 44, 44))
            path = os.path.join(root, "images", one, "%d.jpg" % i)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            image.save(path)
            write(os.path.join(root, "labels", one, "%d.txt" % i), "0 0.5 0.5 0.375 0.375\n")
    write(os.path.join(root, "tiny.yaml"), "path: %s\ntrain: images/train\nval: images/val\nnames:\n  0: square\n" % root)


# ---- the scripts -----------------------------------------------------------------------------------


class Case:
    """One script.

    source: OWNER/NAME of a repository, or "package:NAME"; script: its path there, root: the directory that is copied.
    data: makes the data, given the directory that the script runs in.  hand: what is changed by hand, as pairs of a text of the
    configuration and what replaces it.  sets: values for `espalier run` beside those of all.  why: the reason, where it cannot work.
    """

    def __init__(self, name, source, script, data=None, hand=(), sets=(), env=None, root=None, folder=None, limit=900,
                 why=""):
        self.name, self.source, self.script, self.data, self.hand, self.sets = name, source, script, data, list(hand), list(sets)
        self.env, self.limit, self.why = env or {}, limit, why
        self.root = root if root is not None else os.path.dirname(script)
        self.folder = folder                # that the script is run in, if not its own


def beside(name, make=mnist, **words):
    """Data in ../data/NAME, where torchvision looks."""
    return lambda here: make(os.path.join(here, name), **words)


MNIST = beside("../data/MNIST/raw")
EXAMPLES = "pytorch/examples"
LIGHTNING = "lightning-ai/pytorch-lightning"

CASES = [
    Case("mnist", EXAMPLES, "mnist/main.py", MNIST),
    Case("vae", EXAMPLES, "vae/main.py", lambda here: (MNIST(here), os.makedirs(os.path.join(here, "results"), exist_ok=True))),
    Case("mnist_rnn", EXAMPLES, "mnist_rnn/main.py", MNIST),
    Case("mnist_hogwild", EXAMPLES, "mnist_hogwild/main.py", beside("../data/MNIST/raw", train=64, test=20)),
    Case("siamese_network", EXAMPLES, "siamese_network/main.py", beside("../data/MNIST/raw", train=20, test=20), limit=600),
    Case("imagenet", EXAMPLES, "imagenet/main.py", lambda here: images(os.path.join(here, "imagenet"), count=4)),
    Case("word_language_model", EXAMPLES, "word_language_model/main.py",
         lambda here: [text(os.path.join(here, "data/wikitext-2", one + ".txt"), 120) for one in ("train", "valid", "test")]),
    Case("reinforce", EXAMPLES, "reinforcement_learning/reinforce.py"),
    Case("actor_critic", EXAMPLES, "reinforcement_learning/actor_critic.py"),
    Case("forward_forward", EXAMPLES, "mnist_forward_forward/main.py", beside("data/MNIST/raw"), sets=["algorithm.iterations_min=1", "algorithm.iterations_max=3"]),
    Case("dcgan", EXAMPLES, "dcgan/main.py", hand=[("--dataset=CHANGE-ME", "--dataset=fake")], limit=900,
         why="the first batches took longer than the seven minutes that it was given"),
    Case("nanoGPT", "karpathy/nanoGPT", "train.py", lambda here: shakespeare(os.path.join(here, "data/openwebtext")),
         hand=[('"--min_lr={min_lr}" ]', '"--min_lr={min_lr}", "--device=cpu", "--compile=False", "--eval_interval=2", "--eval_iters=2", "--n_layer=2", '
                '"--n_head=2", "--n_embd=32", "--block_size=32", "--batch_size=4", "--gradient_accumulation_steps=1" ]')],
         sets=["algorithm.iterations_min=2", "algorithm.iterations_max=4"]),
    Case("makemore", "karpathy/makemore", "makemore.py"),
    Case("ppo", "vwxyzjn/cleanrl", "cleanrl/ppo.py", root="", why="with gymnasium 1 the script itself prints no return", sets=["algorithm.iterations_min=500", "algorithm.iterations_max=2000"]),
    Case("nlp_example", "huggingface/accelerate", "examples/nlp_example.py", why="its parameters are constants in the code: the space is empty"),
    Case("complete_cv_example", "huggingface/accelerate", "examples/complete_cv_example.py",
         why="its parameters are constants in the code, and the metric is printed without a name"),
    Case("ignite mnist", "pytorch/ignite", "examples/mnist/mnist.py", lambda here: mnist(os.path.join(here, "MNIST/raw"))),
    Case("katib mnist", "kubeflow/katib", "examples/v1beta1/trial-images/pytorch-mnist/mnist.py",
         lambda here: mnist(os.path.join(here, "data/FashionMNIST/raw"))),
    Case("pygcn", "tkipf/pygcn", "pygcn/train.py", lambda here: cora(os.path.join(here, "../data/cora")), root="",
         env={"PYTHONPATH": "{place}"}),       # where its setup.py would install it
    Case("pyg gcn", "pyg-team/pytorch_geometric", "examples/gcn.py", lambda here: planetoid(os.path.join(here, "../data/Planetoid"))),
    Case("pyg gat", "pyg-team/pytorch_geometric", "examples/gat.py", lambda here: planetoid(os.path.join(here, "../data/Planetoid"))),
    Case("timm train", "huggingface/pytorch-image-models", "train.py", lambda here: images(os.path.join(here, "images"), count=300, size=32, sets=("train", "validation")),
         hand=[('"python3", "train.py"', '"python3", "train.py", "--data-dir=images", "--device=cpu", "--model=resnet10t", "--num-classes=2", "--img-size=32"')]),
    Case("run_glue", "huggingface/transformers", "examples/pytorch/text-classification/run_glue.py",
         lambda here: (tiny_bert(os.path.join(here, "tiny")), sentences(here), metric_of_hub(here)),
         hand=[("--model_name_or_path=CHANGE-ME", "--model_name_or_path=tiny"), ("--train_file=CHANGE-ME", "--train_file=train.csv"),
               ("--validation_file=CHANGE-ME", "--validation_file=dev.csv")]),
    Case("run_clm", "huggingface/transformers", "examples/pytorch/language-modeling/run_clm.py",
         lambda here: (tiny_gpt(os.path.join(here, "tiny")), text(os.path.join(here, "train.txt")), text(os.path.join(here, "dev.txt"), 60),
                       metric_of_hub(here)),
         hand=[("--model_name_or_path=CHANGE-ME", "--model_name_or_path=tiny"),
               ("--dataset_name=CHANGE-ME", '--train_file=train.txt", "--validation_file=dev.txt')]),
    Case("autoencoder", LIGHTNING, "examples/pytorch/basics/autoencoder.py", root="examples/pytorch",
         data=lambda here: mnist(os.path.join(here, "../../Datasets/MNIST/raw"), train=60000, blank=True),
         why="its data module fetches MNIST into a directory of the package"),
    Case("lightning imagenet", LIGHTNING, "examples/pytorch/domain_templates/imagenet.py", lambda here: images(os.path.join(here, "images"), count=4),
         hand=[("--model.data_path=CHANGE-ME", "--model.data_path=images")]),
    Case("image_classifier", LIGHTNING, "examples/fabric/image_classifier/train_fabric.py", root="examples/fabric",
         data=lambda here: mnist(os.path.join(here, "../../../Datasets/MNIST/raw"))),
    Case("image_classifier torch", LIGHTNING, "examples/fabric/image_classifier/train_torch.py", root="examples/fabric",
         data=lambda here: mnist(os.path.join(here, "../../../Datasets/MNIST/raw"))),
    Case("ppo lightning", LIGHTNING, "examples/pytorch/domain_templates/reinforce_learn_ppo.py",
         why="the script needs a gym before 0.26, which NumPy 2 does not load"),
    Case("yolov5", "ultralytics/yolov5", "train.py", lambda here: yolo(os.path.join(here, "tiny")),
         why="it prints tables whose columns have no names in the line, and writes CSV into a directory that it numbers itself"),
    Case("xgboost", "mlflow/mlflow", "examples/xgboost/xgboost_native/train.py"),
    Case("lightgbm", "mlflow/mlflow", "examples/lightgbm/lightgbm_native/train.py", why="it prints no metric: LightGBM 4 prints none without log_evaluation"),
    Case("sklearn iris", "azure/azureml-examples", "cli/jobs/single-step/scikit-learn/iris/src/main.py", why="it prints no metric: MLflow records them"),
    Case("flax mnist", "google/flax", "examples/mnist/main.py", why="its parameters are in a file in Python, which init does not read"),
    Case("sb3 zoo", "dlr-rm/rl-baselines3-zoo", "train.py", why="it prints tables of a library, which init does not know, and has its own search"),
]

# ---- running ---------------------------------------------------------------------------------------


def checksum(folder, names):
    found = hashlib.sha256()
    for name in sorted(names):
        with open(os.path.join(folder, name), "rb") as file:
            found.update(name.encode() + b"\0" + file.read())
    return found.hexdigest()


def sources_in(folder):
    return [os.path.relpath(os.path.join(base, one), folder) for base, _, files in os.walk(folder) for one in files if one.endswith(".py")]


def call(command, folder, env, limit):
    """Runs it in a session of its own; all of it is killed at the limit."""
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                out, err = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
            return 124, out.decode(errors="replace"), err.decode(errors="replace")
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def read_configuration(text):
    metric = re.search(r'^  metric = "(.*?)";', text, re.M)
    space = re.search(r"^space = \{\n(.*?)^\};", text, re.M | re.S)
    names = re.findall(r'^  "?([^\s"#][^"=]*?)"? = \{ type', space.group(1), re.M) if space else []
    return metric.group(1) if metric else "", names


def origin(case, sources):
    """Its directory, and what to call its version."""
    if case.source.startswith("package:"):
        package = case.source[8:]
        found = util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            return None, ""
        return found.submodule_search_locations[0], "%s %s" % (package, metadata.version(package))
    folder = os.path.join(sources, case.source)
    return (folder, case.source) if os.path.isdir(folder) else (None, case.source)


def tune(case, args):
    row = {"name": case.name, "source": case.source, "script": case.script, "metric": "", "parameters": [], "hand": [], "result": "",
           "seconds": 0.0, "best": None}
    base, row["source"] = origin(case, args.sources)
    if base is None or not os.path.isfile(os.path.join(base, case.script)):
        row["result"] = "missing"
        return row
    here = os.path.join(args.work, re.sub(r"\W", "-", case.name))
    shutil.rmtree(here, ignore_errors=True)
    place = os.path.join(here, "top", "code")
    shutil.copytree(os.path.join(base, case.root), place, ignore=shutil.ignore_patterns(".git", "docs", "*.ipynb"))
    before = sources_in(place)
    sum_before = checksum(place, before)
    script = os.path.join(place, os.path.relpath(case.script, case.root or "."))
    folder = os.path.dirname(script) if case.folder is None else os.path.join(place, case.folder)
    env = dict(os.environ, PATH=os.pathsep.join([os.path.dirname(args.espalier), os.path.dirname(sys.executable), os.environ["PATH"]]),
               HF_HUB_OFFLINE="1", WANDB_MODE="offline", HF_HOME=os.path.join(here, "hf"), TOKENIZERS_PARALLELISM="false",
               MPLBACKEND="agg", ESPALIER_SLOTS="", PYTHONPATH="")
    env.update({name: value.format(place=place) for name, value in case.env.items()})
    if case.data is not None:
        case.data(folder)
    begin = time.monotonic()
    status, _, err = call([args.espalier, "init", os.path.relpath(script, folder), "-o", "search.cfg"], folder, env, 120)
    if status != 0:
        row["result"] = "init: " + (err.strip().splitlines() or [""])[-1]
        return row
    path = os.path.join(folder, "search.cfg")
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text_of = file.read()
    row["metric"], row["parameters"] = read_configuration(text_of)
    for old, new in case.hand:
        row["hand"].append(new)
        if old not in text_of:
            row["result"] = "nothing to replace: " + old
            return row
        text_of = text_of.replace(old, new, 1)
    write(path, text_of)
    status, _, err = call([args.espalier, "check", "search.cfg"], folder, env, 60)
    if status != 0:
        row["result"] = "check: " + (err.strip().splitlines() or [""])[0]
        return row
    limit = [] if any(one.startswith("algorithm.iterations_max") for one in case.sets) or "iterations_max" not in text_of else \
        ["algorithm.iterations_max=2"] + (["algorithm.iterations_min=1"] if "iterations_min" in text_of else [])
    sets = ["algorithm.trials=4", 'cloud={ use="local"; device="cpu"; gpus=%d; }' % args.slots, "allocator={ use=\"static\"; }"] + limit + case.sets
    status, out, err = call([args.espalier, "run", "search.cfg", "--json", "-d", "run"] + [w for one in sets for w in ("--set", one)],
                            folder, env, case.limit)
    row["seconds"] = time.monotonic() - begin
    summary = {}
    for line in out.splitlines():
        if line.startswith("{") and '"summary"' in line:
            summary = json.loads(line)
    row["trials"], row["completed"], row["failed"] = (summary.get(one, 0) for one in ("trials", "completed", "failed"))
    row["best"] = (summary.get("best") or {}).get("metric")
    if checksum(place, before) != sum_before:
        row["result"] = "the script was changed"
    elif status == 0 and summary.get("status") == "done" and row["failed"] == 0 and row["best"] is not None:
        row["result"] = "done"
    elif status == 0 and row["best"] is not None:
        row["result"] = "done, %d of %d failed" % (row["failed"], row["trials"])
    else:
        row["result"] = "run (%d): %s" % (status, " / ".join(one for one in err.strip().splitlines()[-3:])[:500])
    return row


HEAD = """# Results: scripts of others

*For users who wonder whether espalier tunes their script as it is: unedited training scripts of other authors, from `espalier init` to a finished search.*

Each script was copied from its repository, as it was in 2026, and tuned by three commands: `espalier init SCRIPT -o search.cfg`, `espalier check
search.cfg`, and `espalier run search.cfg` with four trials on one CPU, and 2 iterations in place of dozens where the script repeats something
(`--set algorithm.trials=4 --set algorithm.iterations_max=2`; other numbers are in the program). No line of a script was changed: its checksum was
compared. The data were tiny, random and made on the spot, so the values say only that a search worked. "Said by hand" is what was written in place of
a `CHANGE-ME`, or added to the command. The seconds are of a busy machine with 2 cores, and mostly of starting Python with PyTorch five times.

"""
TAIL = """
Of the scripts that were not tuned, `check` refused the configurations that have a `CHANGE-ME` for the metric or nothing to search; the others ended by
themselves, for the reason in the table. `tests/bench/scripts.py` makes this page: its list says where each script is from, and how its data are made.
"""


def shown(row):
    if row["result"].startswith("done"):
        return row["result"]
    return row.get("why") or row["result"]


def table(rows):
    made = "| script | metric that init found | parameters | said by hand | result | best | seconds |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    for row in rows:
        made += "| %s `%s` | %s | %s | %s | %s | %s | %.0f |\n" % (
            row["source"], row["script"], "`%s`" % row["metric"] if row["metric"] not in ("", "CHANGE-ME") else "none",
            ", ".join("`%s`" % one for one in row["parameters"]) or "none",
            " ".join("`%s`" % one.replace("|", "\\|") for one in row["hand"]) or "nothing", shown(row).replace("|", "\\|"),
            "%.4g" % row["best"] if row["best"] is not None and row["result"].startswith("done") else "", row["seconds"])
    return made


def file_of(case, args):
    return os.path.join(args.work, re.sub(r"\W", "-", case.name) + ".json")


def page(args):
    rows = []
    for case in CASES:
        if os.path.exists(file_of(case, args)):
            with open(file_of(case, args), encoding="utf-8") as file:
                rows.append(dict(json.load(file), why=case.why, script=case.script))
    done = sum(row["result"].startswith("done") for row in rows)
    rows.sort(key=lambda row: not row["result"].startswith("done"))
    write(args.page, HEAD + "%d of %d scripts were tuned, %d of them with nothing said by hand.\n\n" % (
        done, len(rows), sum(row["result"].startswith("done") and not row["hand"] for row in rows)) + table(rows) + TAIL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", default="sources")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--work", default="scripts-work")
    parser.add_argument("--espalier", default=shutil.which("espalier") or "espalier")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--page")
    parser.add_argument("--packages", action="store_true")
    args = parser.parse_args()
    if args.packages:
        print(" ".join("'%s'" % one for one in PACKAGES))
        return 0
    args.work, args.espalier = os.path.abspath(args.work), os.path.abspath(args.espalier)
    if args.page:
        page(args)
        return 0
    rows = []
    for case in CASES:
        if args.only and case.name not in args.only:
            continue
        row = tune(case, args)
        rows.append(row)
        print("%-24s %-28s %s" % (case.name, row["metric"], row["result"]), "%.4g %.0f s" % (row["best"], row["seconds"]) if row["best"] is not None else "",
              flush=True)
        os.makedirs(args.work, exist_ok=True)
        write(file_of(case, args), json.dumps(row))
    return 0 if all(row["result"].startswith("done") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
