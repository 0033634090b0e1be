"""What libraries print by themselves, and their own options: the Trainer of transformers, Keras, Lightning, XGBoost, LightGBM."""

import ast
import re
from typing import Any, Dict, List, Optional, Tuple

from espalier.init.objective import Field, Line, Listener, Objective, direction, split_of, words_of
from espalier.init.options import Found
from espalier.init.source import UNKNOWN, Call, Class, Function, Object, Program, is_constant


def _imports(program: Program, *names: str) -> bool:
    return any(one.split(".")[0] in names for one in program.imports)


def _make(call: Call, name: str, pattern: Optional[str], how: str = "print", level: int = 1) -> Objective:
    line = Line(how, call, level, ast.unparse(call.node.func) + "(...)")
    field = Field(name, None)
    field.name, field.split = name, split_of(words_of(name))
    made = Objective(line, field, pattern)
    made.counts = made.from_library = True
    return made


# The Trainer of transformers has more than a hundred options: those that are tuned or written.
_TRAINER = ("--output_dir", "--num_train_epochs", "--learning_rate", "--weight_decay", "--warmup_ratio", "--per_device_train_batch_size")


def is_wanted(trainer: str, flag: str) -> bool:
    """Of an option that the script has from a library: is it looked at?"""
    if trainer == "transformers":
        return flag in _TRAINER
    if trainer == "lightning":
        return flag == "--trainer.max_epochs" or (flag.startswith(("--model.", "--data.", "--optimizer.")) and "." in flag)
    return True


def _has_option(found: Found, flag: str) -> bool:
    return re.search(r"(?<![\w.-])%s(?![\w.-])" % re.escape(flag), found.help) is not None


def add_words(program: Program, found: Found, plan: Any) -> None:
    """To the command: what makes the library train, evaluate in each epoch, and write down the metric."""
    if not found.trainer or plan.objective is None or not plan.objective.from_library:
        return
    if not found.help:
        plan.missing.append("the options of the library that trains, which the script was not asked for")
        plan.words.append(plan.mark)
    elif found.trainer == "transformers":
        # A trial that is retried finds what it wrote before, which the script may refuse.
        plan.words += [one for one in ("--overwrite_output_dir", "--do_train", "--do_eval") if _has_option(found, one)]
        plan.words += [one + "=epoch" for one in ("--eval_strategy", "--evaluation_strategy") if _has_option(found, one)][:1]
    elif plan.objective.line.file:
        module = "lightning.pytorch" if _imports(program, "lightning") else "pytorch_lightning"
        plan.words += ["--trainer.logger=%s.loggers.CSVLogger" % module, "--trainer.logger.save_dir={output}"]


def transformers(program: Program, listener: Listener, found: Found) -> Optional[Objective]:
    trainers = [one for one in listener.made if one.node is not None and re.search(r"Trainer$", ast.unparse(one.node.func))]
    if not trainers or not _imports(program, "transformers", "trl"):
        return None
    args, named = trainers[-1].arguments()
    if "eval_dataset" not in named:
        return None
    made = _make(trainers[-1], "eval_loss", None, "json")
    made.iteration = "epoch"
    made.reasons = ["of the evaluation set", "printed by the Trainer"]
    return made


def keras(program: Program, listener: Listener, found: Found) -> Optional[Objective]:
    if not _imports(program, "keras", "tensorflow", "tf_keras"):
        return None
    for call in listener.fits:
        words = {one.arg: one.value for one in call.node.keywords}
        _, named = call.arguments()
        if call.attribute != "fit" or named.get("verbose") == 0 or not ("epochs" in words or len(call.node.args) > 2):
            continue
        validated = "validation_data" in words or "validation_split" in words
        name = "val_loss" if validated else "loss"
        made = _make(call, name, "Epoch {iteration}/|%s: {%s}" % (" " + name if name == "loss" else name, name))
        made.line.limit = named["epochs"] if isinstance(named.get("epochs"), int) else None
        made.field.split = "val" if validated else "train"
        made.reasons = ["of the validation set" if validated else "of the training set", "printed by Keras"]
        return made
    return None


def lightning(program: Program, listener: Listener, found: Found) -> Optional[Objective]:
    if not _imports(program, "lightning", "pytorch_lightning"):
        return None
    logged = [(line, field) for line in listener.lines if line.how.startswith("record:log") for field in line.fields
              if direction(field.word)[0] and field.split in ("val", "", "train")]
    logged.sort(key=lambda one: ["val", "", "train"].index(one[1].split))
    sets = {"val": ["of the validation set"], "train": ["of the training set"], "": []}
    for line, field in logged:
        name = field.word + ("_epoch" if line.forked else "")
        if found.trainer == "lightning":
            made = _make(line.call, name, None, "file")
            made.line.file = "{output}/lightning_logs/version_*/metrics.csv"
            made.reasons = sets[field.split] + ["written by Lightning's CSVLogger"]
            return made
        if line.bar:
            made = _make(line.call, name, "Epoch {iteration}: .*%s={%s}" % (re.escape(name), name))
            made.reasons = sets[field.split] + ["in Lightning's progress bar"]
            return made
    return None


_DEFAULT_METRICS = {"reg:squarederror": "rmse", "reg:linear": "rmse", "binary:logistic": "logloss", "multi:softmax": "mlogloss",
                    "multi:softprob": "mlogloss", "regression": "l2", "binary": "binary_logloss", "multiclass": "multi_logloss"}


def _metric_name(values: Dict[str, Any], *names: str) -> str:
    for name in names:
        one = values.get(name)
        one = one[-1] if isinstance(one, (list, tuple)) and one else one
        if isinstance(one, str):
            return one
    one = values.get("objective")
    return _DEFAULT_METRICS.get(one, "") if isinstance(one, str) else ""


def _eval_names(value: Any) -> List[str]:
    return [one[1] for one in value if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], str)] \
        if isinstance(value, (list, tuple)) else []


def xgboost(program: Program, listener: Listener, found: Found) -> Optional[Objective]:
    if not _imports(program, "xgboost"):
        return None
    for call in listener.fits:
        args, named = call.arguments()
        if call.name.split(".")[0] in ("xgboost", "xgb") and call.name.endswith("train"):
            params = args[0] if args and isinstance(args[0], dict) else named.get("params", {})
            names = _eval_names(named.get("evals", args[3] if len(args) > 3 else UNKNOWN))
            metric = _metric_name(params if isinstance(params, dict) else {}, "eval_metric")
            rounds = named.get("num_boost_round", args[2] if len(args) > 2 else 10)
        elif isinstance(call.receiver, Object) and call.receiver.is_a(lambda n: n.split(".")[-1].startswith("XGB")) and \
                "eval_set" in named:
            params = call.receiver.values.get("(arguments)", ((), {}))[1]
            count = len(named["eval_set"]) if isinstance(named["eval_set"], (list, tuple)) else 0
            names = ["validation_%d" % i for i in range(count)]
            metric = _metric_name({**params, **named}, "eval_metric")
            rounds = params.get("n_estimators", 100)
        else:
            continue
        if named.get("verbose_eval", named.get("verbose", True)) is False or not names or not metric:
            continue
        names.sort(key=lambda one: ["val", "", "test", "train"].index(split_of(words_of(one))))
        name = names[0] + "-" + metric
        made = _make(call, name, "^\\[{iteration}\\].*%s:{%s}" % (re.escape(name).replace("\\-", "-"), name))
        made.line.limit = rounds if isinstance(rounds, int) else None
        made.field.goal, made.field.why = direction(metric)
        made.reasons = ["printed by XGBoost"]
        return made if made.field.goal else None
    return None


def lightgbm(program: Program, listener: Listener, found: Found) -> Optional[Objective]:
    if not _imports(program, "lightgbm") or not re.search(r"log_evaluation|verbose_eval", ast.unparse(program.script.tree)):
        return None
    for call in listener.fits:
        args, named = call.arguments()
        if not (call.name.endswith("train") and "valid_sets" in named):
            continue
        params = args[0] if args and isinstance(args[0], dict) else named.get("params", {})
        metric = _metric_name(params if isinstance(params, dict) else {}, "metric")
        given = named.get("valid_names")
        count = len(named["valid_sets"]) if isinstance(named["valid_sets"], (list, tuple)) else 1
        names = [one for one in given if isinstance(one, str)] if isinstance(given, (list, tuple)) else \
            ["valid_%d" % i for i in range(count)]
        names.sort(key=lambda one: ["val", "", "test", "train"].index(split_of(words_of(one))))
        metric = {"mse": "l2", "mae": "l1"}.get(metric, metric)
        if not metric or not names or not direction(metric)[0]:
            continue
        made = _make(call, metric, "^\\[{iteration}\\].*%s's %s: {%s}" % (re.escape(names[0]), metric, metric))
        rounds = named.get("num_boost_round", args[2] if len(args) > 2 else 100)
        made.line.limit = rounds if isinstance(rounds, int) else None
        made.reasons = ["printed by LightGBM"]
        return made
    return None


def objective_of(program: Program, listener: Listener, found: Found) -> Optional[Objective]:
    for one in (transformers, keras, lightning, xgboost, lightgbm):
        made = one(program, listener, found)
        if made is not None:
            return made
    return None


__all__ = ["Class", "Function", "Tuple", "is_constant", "objective_of"]
