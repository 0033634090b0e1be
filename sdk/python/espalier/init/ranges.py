"""Proposes a range for an option: by its name, its default and its choices."""

import re
from typing import Any, List, Optional, Tuple

from espalier.init.options import ABSENT, UNKNOWN, Option


def _words(text: str) -> List[str]:
    return text.split()


# Words of names: "a_b" is two words in a row.
LEFT = _words("""seed worker workers thread threads port rank world gpu gpus device devices cuda mps cpu log logging verbose verbosity
debug quiet print freq frequency interval every resume resumed checkpoint checkpoints ckpt save saved saving test testing eval
evaluate evaluation val valid validation backend dist distributed master nproc node nodes data dataset path dir file root start
version amp fp16 bf16 wandb project name pretrained download id url host key task mode split patience manualseed imagesize image img crop
ngpu ngpus cache window_title tag entity username user token address timeout proc procs precision show plot visualize dry
accelerator vocab vocab_size num_classes n_classes classes class categories samples n_samples num_samples limit local_rank
dry_run report summary output input folder accum accumulation clip_mode random_state process processes nprocs tokenizer tokenizers
dataloader dataloaders logger loggers sync train_size n_train num_train train_num n_samples max_samples max_length max_len max_seq_len
max_seq_length seq_len seq_length prefetch hub compile jobs n_jobs trials
n_trials sampler pruner study""")
LENGTHS = _words("""epochs epoch num_epochs n_epochs nepochs max_epochs max_epoch num_train_epochs total_epochs train_epochs
training_epochs num_epoch n_epoch nb_epoch nb_epochs epoch_num epochs_num niter num_iter iterations num_iterations n_iterations
max_iterations rounds num_rounds num_boost_round n_rounds max_iter n_iter trainer_max_epochs""")
STEPS = _words("""steps max_steps num_steps n_steps train_steps total_steps training_steps num_train_steps max_train_steps
num_training_steps max_iters num_iters total_iters n_iters total_timesteps timesteps num_updates total_updates episodes num_episodes
n_episodes max_episodes""")
OUTPUTS = _words("""output output_dir out out_dir outdir log_dir logdir save_dir savedir results_dir result_dir tb_dir
tensorboard_dir workdir work_dir run_dir exp_dir model_dir ckpt_dir checkpoint_dir""")
PLACES = _words("dir directory path folder log logs")                # outputs, if the default is one of:
WRITTEN = _words("logs log runs output outputs out results tensorboard summaries")
SWITCHES = _words("""nesterov amsgrad bias bn batchnorm batch_norm layer_norm layernorm augment augmentation mixup cutmix shuffle
residual bidirectional tied use early_stopping weighted balanced fit_intercept bootstrap oob warm_restart ema dueling double
normalize norm anneal annealing weight_norm self_loop""")
LOGS = _words("""lr learning_rate weight_decay wd eps epsilon alpha lambda reg lambd regularization l1 l2 c penalty tol temperature
noise sigma clip eta step_size stepsize l2_reg l1_reg reg_alpha reg_lambda jitter ridge base_lr max_lr min_lr init_lr lr0""")
UNITS = _words("""dropout drop drop_rate p prob probability label_smoothing smoothing ratio fraction rate mixup subsample colsample
colsample_bytree feature_fraction bagging_fraction dropout_rate""")
DECAYS = _words("momentum gamma beta beta1 beta2 decay rho discount polyak ema tau gae_lambda lr_decay")
HEADS = _words("head heads nhead nheads n_head n_heads num_heads")        # they divide a width
POWERS = _words("""batch_size batch batchsize bs hidden width units channels dim embed embedding hidden_size hidden_dim d_model
nhid n_hidden emsize n_embd embd filters ngf ndf num_leaves minibatch""")

ITERATIONS, TUNED, SWITCH, OUTPUT, REQUIRED, LEFT_ALONE, LENGTH_STEPS, GIVEN = \
    "iterations", "tuned", "switch", "output", "required", "left", "steps", "given"


class Range:
    """A parameter of the space."""

    def __init__(self, kind: str, reason: str, default: Any = ABSENT, low: Any = None, high: Any = None, scale: str = "",
                 values: Optional[List[Any]] = None):
        self.kind, self.reason, self.default = kind, reason, default
        self.low, self.high, self.scale, self.values = low, high, scale, values


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


def has_word(name: str, words: List[str]) -> bool:
    """Does one of the words occur in the name?  testBatchSize is test_batch_size."""
    parts = snake(name).split("_")
    return any("_".join(parts[i:k]) in words for i in range(len(parts)) for k in range(i + 1, len(parts) + 1))


def is_name(name: str, words: List[str]) -> bool:
    return snake(name) in words


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_within(option: Option, default: float) -> bool:
    low = option.low if _is_number(option.low) else float("-inf")
    high = option.high if _is_number(option.high) else float("inf")
    return bool(low <= default <= high and low < high)


def _bounded(option: Option, made: Range) -> Range:
    """Within the bounds of the option, if it has any."""
    reason = made.reason
    if _is_number(option.low) and option.low > made.low:
        made.low, made.reason = option.low, reason + ", within the option's bounds"
    if _is_number(option.high) and option.high < made.high:
        made.high, made.reason = option.high, reason + ", within the option's bounds"
    return made


def real_range(option: Option, name: str) -> Optional[Range]:
    default = option.default
    if not (0 <= default <= 1e12) or 0 < default < 1e-12 or not _is_within(option, default):
        return None
    rate = has_word(name, LOGS) and not is_name(name, DECAYS)
    if default == 1 and not rate and (has_word(name, DECAYS) or has_word(name, UNITS)):
        return _bounded(option, Range("real", "at most 1", default, 0.1, 1.0))
    if 0 < default < 0.1 and has_word(name, DECAYS):
        return _bounded(option, Range("real", "10 times less to 10 times more", default, default / 10, default * 10, "log"))
    if 0 < default < 1 and has_word(name, DECAYS) and not rate:
        if default > 0.9:
            high = float("%.12g" % (1 - (1 - default) / 10)) if default >= 0.99 else 0.99
            return _bounded(option, Range("real", "near 1, where small differences matter", default, 0.5, high, "reverse-log"))
        return _bounded(option, Range("real", "half the default to near 1", default, default / 2, default + (1 - default) * 0.9))
    if default < 1 and has_word(name, UNITS) and not rate:
        high = default + (1 - default) / 2 if default > 0.4 else 0.5
        return _bounded(option, Range("real", "a share", default, 0.0, high))
    if default == 0:
        return _bounded(option, Range("real", "off by default", default, 0.0, 0.01)) if rate else None
    if default <= 1 or rate:
        return _bounded(option, Range("real", "10 times less to 10 times more", default, default / 10, default * 10, "log"))
    return _bounded(option, Range("real", "half to twice the default", default, default / 2, default * 2))


def int_range(option: Option, name: str) -> Optional[Range]:
    default = option.default
    if not 1 <= default <= 1000000000 or not _is_within(option, default):
        return None
    if has_word(name, HEADS) and not _is_number(option.low) and not _is_number(option.high):
        return Range("ordinal", "factors of 2 around the default, as they divide a width", default,
                     values=sorted({default if default % 2 else default // 2, default, default * 2}))
    if has_word(name, POWERS) and not _is_number(option.low) and not _is_number(option.high):
        value, values = (default // 4 if default > 4 else 1), []
        while value <= default * 4 and len(values) < 6:
            value = default if value < default < value * 2 else value
            values.append(value)
            value *= 2
        return Range("ordinal", "factors of 2 around the default", default, values=values)
    made = _bounded(option, Range("int", "half to twice the default", default, default // 2 if default > 3 else 1, default * 2,
                                  "log" if default >= 32 else ""))
    made.low, made.high = int(made.low), int(made.high)
    return made if made.low < made.high else None


def unknown_range(option: Option, name: str) -> Optional[Range]:
    """Of a rate without a default."""
    if option.type not in ("float", "") or not is_name(name, ["lr", "learning_rate", "base_lr", "max_lr"]):
        return None
    return _bounded(option, Range("real", "usual values: the script has no default", ABSENT, 1e-4, 0.1, "log"))


def choice_range(option: Option) -> Optional[Range]:
    """All of them numbers, or all of them texts: an array has one type."""
    values = option.choices or []
    kinds = {type(one) for one in values}
    if len(values) < 2 or len(kinds) != 1 or not kinds <= {str, int, float} or len(set(values)) != len(values):
        return None
    if not any(one == option.default and type(one) is type(option.default) for one in values):
        return None
    if kinds == {str} and any(one == "" for one in values):
        return None
    return Range("choice", "the option's choices", option.default, values=list(values))


def switch_range(option: Option, name: str) -> Optional[Range]:
    if not has_word(name, SWITCHES):
        return None
    if option.action == "both" and option.off:
        if option.default not in (True, False):
            return None
        return Range("choice", "on or off", option.flag if option.default else option.off, values=[option.off, option.flag])
    if option.action == "store_true" and option.default is False:
        return Range("choice", "without it or with it", "", values=["", option.flag])
    if option.action == "store_false" and option.default is True:
        return Range("choice", "without it or with it", "", values=["", option.flag])
    return None


def bool_range(option: Option, name: str) -> Optional[Range]:
    """type=lambda s: s == "True" and the like; argparse's type=bool takes every text for true."""
    if option.action or not has_word(name, SWITCHES) or option.default not in (True, False):
        return None
    if option.key:
        return Range("choice", "on or off", option.default, values=[False, True])
    if option.type in ("", "bool") and not option.by_value:
        return None
    return Range("choice", "on or off", "True" if option.default else "False", values=["False", "True"])


def number_of(option: Option) -> None:
    """default="1e-3" with type=float is a number."""
    kind = option.type.split(".")[-1]
    if isinstance(option.default, str) and kind in ("float", "int"):
        try:
            option.default = float(option.default) if kind == "float" else int(option.default)
        except ValueError:
            option.default = UNKNOWN
    if kind == "float" and isinstance(option.default, int) and not isinstance(option.default, bool):
        option.default = float(option.default)


def _is_output(option: Option, name: str) -> bool:
    if option.action or option.many:
        return False
    text = option.default if isinstance(option.default, str) else ""
    text = text[2:] if text.startswith("./") else text
    if "." in text.split("/")[-1] and not text.startswith("."):
        return False             # a file
    return is_name(name, OUTPUTS) or (is_name(name, PLACES) and is_name(text.rstrip("/").split("/")[0], WRITTEN))


def name_of(option: Option) -> str:
    """What its name means: of -b it is what the help says."""
    if option.key or "." in option.flag:
        return option.flag.split(".")[-1]
    if option.name.startswith(("per_device_train_", "per_gpu_train_")):
        return option.name.split("_train_")[1]
    if len(option.name) > 2 or is_name(option.name, LOGS + POWERS) or not option.help:
        return option.name
    return "_".join(re.findall(r"[a-z]+", option.help.lower())[:3]) or option.name


def role(option: Option) -> Tuple[str, Optional[Range]]:
    """What is to become of an option, and its range."""
    number_of(option)
    name = option.name
    last = option.flag.split(".")[-1] if "." in option.flag else name
    if not option.action and not option.many:
        whole = isinstance(option.default, int) or option.default in (None, ABSENT, UNKNOWN) or option.type == "int" or \
            (isinstance(option.default, float) and option.default == int(option.default))
        if whole and not isinstance(option.default, bool) and option.default != 0 or option.positional:
            if is_name(last, LENGTHS) or is_name(name, LENGTHS):
                return ITERATIONS, None
            if is_name(last, STEPS):
                return LENGTH_STEPS, None
    if option.given:
        return GIVEN, None
    if option.required and option.action in ("store_true", "store_false"):
        return REQUIRED, None
    if option.required and option.default in (ABSENT, None):
        made = unknown_range(option, name) if not option.positional and not option.many and not option.action else None
        return (TUNED, made) if made is not None else (OUTPUT, None) if _is_output(option, name) and not option.positional \
            else (REQUIRED, None)
    if option.positional or option.many:
        return LEFT_ALONE, None
    if _is_output(option, name):
        return OUTPUT, None
    key = name_of(option)
    if has_word(key, LEFT) and not has_word(key, ["data_augmentation"]):
        return LEFT_ALONE, None
    made = switch_range(option, key)
    if made is not None:
        return SWITCH, made
    made = propose(option, key)
    return (TUNED, made) if made is not None else (LEFT_ALONE, None)


def propose(option: Option, name: str) -> Optional[Range]:
    made = propose_any(option, name)
    if made is not None and made.kind == "real":
        made.low, made.high = float(made.low), float(made.high)
        made.scale = made.scale if made.low > 0 or made.scale != "log" else ""
    return made if made is None or made.values is not None or made.low < made.high else None


def propose_any(option: Option, name: str) -> Optional[Range]:
    kind = option.type.split(".")[-1]
    if option.choices is not None:
        return choice_range(option)
    if option.action:
        return None
    if isinstance(option.default, bool):
        return bool_range(option, name)
    if isinstance(option.default, float):
        return real_range(option, name) if kind not in ("int", "str") else None
    if isinstance(option.default, int):
        return int_range(option, name) if kind not in ("str", "bool") else None
    if option.default is ABSENT or option.default is None or option.default is UNKNOWN:
        return unknown_range(option, name) if kind == "float" and option.default is not None else None
    return None


def importance(name: str) -> int:
    """The smaller, the more a parameter matters in most trainings."""
    groups = (["lr", "learning_rate", "base_lr", "lr0", "eta", "blr"],
              ["weight_decay", "wd", "momentum", "dropout", "batch_size", "batch", "batchsize", "optimizer", "opt", "gamma", "alpha"],
              POWERS + ["layers", "layer", "depth", "label_smoothing", "smoothing", "beta1", "beta2", "scheduler", "sched"])
    for i, words in enumerate(groups):
        if is_name(name, words):
            return i
    return 2 if has_word(name, groups[2]) else 3
