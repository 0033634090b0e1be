"""Chooses the metric: among the lines that a script prints and the files that it writes.

A candidate is a metric in one of them.  What it was computed on (validation, training, test), and where in the loops of the
script it is printed, decide which is taken.
"""

import ast
import re
from typing import Any, Dict, List, Optional, Tuple

from espalier.init.source import FUNCTIONS, UNKNOWN, Call, Expression, Function, Hole, Json, Object, Outside, Program, Scope, Template

_MINIMIZED = """loss losses error err mse rmse mae mape smape rmsle perplexity ppl nll wer cer l1 l2 logloss log_loss mlogloss bce ce
cost elbo_loss bpc bpd kl fid divergence distance regret deviance inertia xent cross_entropy mpjpe epe lpips""".split()
_MAXIMIZED = """accuracy acc acc1 acc5 top1 top5 auc auroc auprc f1 score r2 reward rewards return returns iou miou bleu psnr ssim map
ap precision recall rouge meteor dice jaccard mrr hits ndcg hit kappa mcc correlation pearson spearman episodic_return elbo
balanced_accuracy win_rate success success_rate silhouette likelihood""".split()
_NOT = """time lr learning_rate rate epoch step iter iteration best min max memory mem speed eta grad_norm norm size count total elapsed
fps sps throughput temperature budget name path""".split()
ITERATION = "epoch epochs iteration iter round step steps update generation ep it itr episode global_step n_iter".split()
_VAL = "val valid validation validate validating eval evals evaluation evaluate evaluating dev heldout holdout cv va oof".split()
_TEST = "test tests testing tst te".split()
_TRAIN = "train training batch tr trn minibatch trains".split()
NAME_MAX = 30
LINES_MAX = 2000         # calls that print
MEMBERS_MAX = 1000       # of an object
LINE_MAX = 400

# What is preferred: (split, level).  Level 0 is printed once, 1 in each epoch, 2 in each batch.
_ORDER = [("val", 1), ("val", 0), ("", 1), ("train", 1), ("", 0), ("test", 1), ("test", 0), ("train", 0), ("val", 2), ("", 2),
          ("test", 2), ("train", 2)]


def split_of(words: List[str]) -> str:
    for word in words:
        if word in _VAL:
            return "val"
        if word in _TEST:
            return "test"
        if word in _TRAIN:
            return "train"
    return ""


def words_of(text: str) -> List[str]:
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text.replace("@", ""))
    return [one for one in re.split(r"[^a-z0-9]+", text.lower()) if one]


def direction(name: str) -> Tuple[str, str]:
    """("minimize", why), or ("", "") where the name is not one of a metric."""
    words = [one for one in words_of(name) if one not in _VAL + _TEST + _TRAIN]
    if name.lower().endswith(("miou", "map")):
        words = words_of(name.lower())
    joined = "_".join(words)
    for i in range(len(words)):
        tail = "_".join(words[i:])
        if tail in _MINIMIZED:
            return "minimize", tail
        if tail in _MAXIMIZED:
            return "maximize", tail
    last = words[-1] if words else ""
    plain = re.sub(r"\d+$", "", last)
    if plain in _MINIMIZED and plain:
        return "minimize", plain
    if plain in _MAXIMIZED and plain:
        return "maximize", plain
    if re.search(r"(loss|error|perplexity|rmse|mae|nll)(_(mean|avg|average|epoch|total))?$", joined):
        return "minimize", "a loss or an error"
    if re.search(r"(accuracy|acc|score|auc|f1|map)(_(mean|avg|average|epoch|total|macro|micro|weighted|50|95))*$", joined):
        return "maximize", "a score"
    if len(words) == 2 and words[0] in ("loss", "error", "acc", "accuracy") and re.fullmatch(r"[a-z]|gen|disc|total|sum|cls|box|reg|g\d|d\d|avg|mean", words[1]):
        return ("minimize" if words[0] in _MINIMIZED else "maximize"), words[0]          # Loss_D
    return "", ""


def is_iteration(name: str) -> bool:
    words = words_of(name)
    return bool(words) and words[-1] in ITERATION and not (set(words) & {"time", "per", "total", "num", "max", "best", "warmup"})


class Field:
    """A value in a line, or a member of an object."""

    def __init__(self, word: str, hole: Optional[Hole], text: str = ""):
        self.word, self.hole, self.text = word, hole, text
        self.split = ""
        self.name = ""
        self.member = False                 # of an object
        self.goal, self.why = direction(word)
        self.best = bool(set(words_of(word)) & {"best", "lowest", "highest"})      # of all epochs so far
        if set(words_of(word)) & {"min", "max"} and not is_iteration(word):
            self.goal = ""
        self.iteration = is_iteration(word)


class Line:
    """What a call prints or records."""

    function: Any = None                    # that it is in
    loop: Any = None                        # over epochs, around it
    limit: Optional[int] = None             # how often that runs, if it is known
    stack_split = ""                        # "val", "test" or "train", by the functions around it
    rest = False                            # it is in a function that no call was seen to reach
    mixed = False                           # it is printed for several of them
    bar = False                             # Lightning shows it in its progress bar
    forked = False                          # Lightning records it of each batch, and of each epoch with another name
    path: Any = UNKNOWN                     # of the file
    assumed = False                         # no loop over epochs was seen: it may be in one

    def __init__(self, how: str, call: Call, level: int, source: str):
        self.how, self.call, self.level, self.source = how, call, level, source
        self.stream = "stdout"
        self.parts: List[Any] = []
        self.fields: List[Field] = []
        self.file = ""                      # glob pattern of a file of metrics
        self.at = call.line
        self.script = call.scope.module.path
        self.quiet = False                  # of a logger, at a level that loggers do not print unless they are told to


class Objective:
    """What is chosen."""

    def __init__(self, line: Line, field: Field, pattern: Optional[str]):
        self.line, self.field, self.pattern = line, field, pattern
        self.iteration = ""                 # member of the objects that holds it
        self.counts = False                 # the line names the iteration
        self.from_library = False           # a library prints or writes it
        self.others: List[str] = []
        self.reasons: List[str] = []


# ---- loops ---------------------------------------------------------------------------------------

_EPOCHS = re.compile(r"epoch|\bep\b|iter|step|round|generation|episode|update|\bi\b|\bt\b|\bit\b|\be\b|trange|range", re.I)
_BATCHES = re.compile(r"load|batch|data|\bdl\b|train_x|sampl|test_set|train_set|minibatch|corpus", re.I)
_REPEATS = re.compile(r"seed|fold|split|repeat|\brun\b|\bruns\b|trial|model_name|kernel|clf|estimator|param_grid|hidden_size|"
                      r"config\b|dataset", re.I)


def _kind_of_loop(entry: Any) -> str:
    """"epochs", "batches", "repeats" or "items" """
    node, scope, literal, items = entry
    if isinstance(node, ast.While):
        return "epochs"
    target, source = ast.unparse(node.target), ast.unparse(node.iter)
    first = source.split("(")[0]
    if re.search(r"epoch|\bep\b|generation", target, re.I):
        return "epochs"
    if _REPEATS.search(target) or re.search(r"\.split\(", source):
        return "repeats"
    if literal and not isinstance(items, range) and "range" not in first:
        return "items"
    if _BATCHES.search(source) and "range" not in first:
        return "batches"
    if re.search(r"len\(.*(load|data|batch)", source, re.I):
        return "batches"
    if "range" in first or "count" in first or re.search(r"epoch|iter|step|round|episode", target + source, re.I):
        return "epochs"
    return "batches" if "enumerate" in first or _BATCHES.search(target) else "items"


def kind_of(program: Program, entry: Any) -> str:
    """_kind_of_loop, once for each loop: what is printed in it may be followed very often."""
    key = (entry[0], entry[2], isinstance(entry[3], range))
    if key not in program.kinds:
        program.kinds[key] = _kind_of_loop(entry)
    return program.kinds[key]


def level_of(program: Program) -> int:
    kinds = [kind_of(program, one) for one in program.loops]
    level = 0
    named = [i for i, one in enumerate(program.loops)
             if not isinstance(one[0], ast.While) and re.search(r"epoch|\bep\b|generation", ast.unparse(one[0].target), re.I)]
    first = named[0] if named else 0
    for kind in kinds[first:]:
        if kind == "epochs":
            level += 1
        elif kind == "batches":
            level += 2 if level == 0 else 1
    return min(level, 2)


def has_epochs(program: Program) -> bool:
    """Was a loop over epochs seen anywhere?"""
    return any(kind_of(program, one) == "epochs" for one in program.seen_loops)


def epochs_of(program: Program) -> Optional[ast.AST]:
    """The outermost loop over epochs."""
    for one in program.loops:
        if kind_of(program, one) == "epochs":
            return one[0]
    return None


# ---- collecting ----------------------------------------------------------------------------------

_CONFIGURES = ("basicConfig", "addHandler", "StreamHandler", "dictConfig", "fileConfig", "set_verbosity", "set_verbosity_info", "install",
               "config")
_LOGGERS = re.compile(r"log(ger|ging)?$|^_?log(ger)?$|LOGGER|LOG$", re.I)


def is_launched(tree: ast.AST) -> bool:
    """Does it train on several GPUs as torchrun starts it?  A script that starts its own processes does not."""
    names = {getattr(one, member, "") for one in ast.walk(tree) for member in ("id", "attr", "name")}
    return "DistributedDataParallel" in names and "spawn" not in names


class Listener:
    """Listens to the calls of a program and collects the lines."""

    def __init__(self, program: Program):
        self.program = program
        self.lines: List[Line] = []
        self.seen: Dict[Any, Line] = {}
        self.to_stdout = False          # loggers print there
        self.configured = False         # loggers print at all
        self.absl = False               # they do with --verbosity=0
        self.helper = False             # the script reports by itself
        self.params: Dict[str, Any] = {}        # that it asks the helper for
        self.distributed = is_launched(program.script.tree)
        self.fits: List[Call] = []
        self.made: List[Call] = []      # objects of libraries
        self.iterations: Any = UNKNOWN
        self.header: Optional[List[str]] = None     # of a CSV file
        program.subscribers.append(self.hear)

    def hear(self, call: Call) -> Any:
        name, attribute = call.name, call.attribute
        last = name.split(".")[-1] if name else attribute
        if name in ("print", "builtins.print", "click.echo", "typer.echo", "rich.print", "click.secho", "tqdm.write", "tqdm.tqdm.write",
                    "sys.stdout.write", "sys.stderr.write", "pprint.pprint") or \
                (last == "print" and not isinstance(call.target, Function)) or \
                (attribute == "write" and isinstance(call.receiver, Object) and "tqdm" in getattr(call.receiver.kind, "name", "")):
            return self.printed(call)
        if last in _CONFIGURES or re.search(r"(setup|init|config|create|get|build|make)\w*_?log", last, re.I) and last != "getLogger":
            text = ast.unparse(call.node)
            self.configured = self.configured or last != "basicConfig" or "level" in text or "setLevel" in ast.unparse(
                call.scope.module.tree)
            self.to_stdout = self.to_stdout or "stdout" in text
        if name.startswith("espalier") or name.startswith("espalier_trial"):
            self.helper = True
            if last == "start":
                _, named = call.arguments()
                self.params = named["params"] if isinstance(named.get("params"), dict) else {}
                self.iterations = named.get("iterations", UNKNOWN)
        if attribute in ("info", "warning", "log", "critical", "error", "success", "debug") and self.is_logger(call):
            return self.logged(call)
        if name == "torch_geometric.logging.log":
            return self.keywords(call)
        if last in ("log", "log_metric", "log_metrics", "add_scalar", "add_scalars", "log_dict", "scalar", "report"):
            self.recorded(call, last)
        if last in ("Trainer", "Seq2SeqTrainer", "SFTTrainer", "CSVLogger", "TrainingArguments", "Seq2SeqTrainingArguments", "compile",
                    "SummaryWriter", "DPOTrainer"):
            self.made.append(call)
        if attribute in ("set_postfix", "set_postfix_str", "set_description"):
            self.bar(call)
        if attribute in ("writerow", "write", "writelines"):
            self.written(call)
        if attribute == "fit" or last in ("train", "cv") or attribute in ("train", "fit_transform"):
            self.fits.append(call)
            call.level = level_of(self.program)
        return None

    def is_logger(self, call: Call) -> bool:
        if isinstance(call.target, Function):
            return False
        text = ast.unparse(call.node.func)
        base = text.rsplit(".", 1)[0]
        return bool(_LOGGERS.search(base.split(".")[-1].split("(")[0])) or "logging" in base or "getLogger" in base or \
            "loguru" in call.name or base.endswith("logger")

    def add(self, how: str, call: Call, parts: List[Any], names: str = "") -> Optional[Line]:
        parts = [evaluated(one) for one in parts]
        text = names + "".join(one for one in parts if isinstance(one, str))
        key = (id(call.node), how, text[:200])
        self.program.steps += 5 * (len(self.program.stack) + len(self.program.loops))     # what these two look at
        level = level_of(self.program)
        split = stack_split(self.program.stack)
        if key in self.seen:
            line = self.seen[key]
            if line.level != 1 and level == 1:
                line.level = 1
            line.mixed = line.mixed or split != line.stack_split
            return None
        if len(self.lines) >= LINES_MAX:
            return None
        line = Line(how, call, level, ast.unparse(call.node))
        line.parts = parts
        for one in parts:
            if isinstance(one, Hole):
                one.split, one.tensor = _origin_split(one), _is_tensor(one)
            elif isinstance(one, Json):
                for value in flat(one.value).values():
                    if isinstance(value, Expression):
                        value.split = _origin_split(Hole(value.node, "", False, value.scope))
        line.function = self.program.stack[-1] if self.program.stack else None
        line.stack_split = split
        line.rest = self.program.in_rest
        loop = epochs_of(self.program)
        line.loop = loop
        line.limit = self.limit_of(loop)
        self.seen[key] = line
        self.lines.append(line)
        return line

    def limit_of(self, loop: Any) -> Optional[int]:
        """How often the loop over epochs runs, where that is known."""
        for node, scope, _, items in self.program.loops:
            if node is loop and isinstance(items, range):
                return len(items)
            if node is loop and isinstance(items, (list, tuple)):
                return len(items)
        return None

    # ---- texts --------------------------------------------------------------------------------

    def printed(self, call: Call) -> Any:
        args, named = call.arguments()
        parts: List[Any] = []
        separator = named.get("sep", " ")
        separator = separator if isinstance(separator, str) else " "
        for i, one in enumerate(args):
            node = call.node.args[min(i, len(call.node.args) - 1)] if call.node.args else None
            if isinstance(node, ast.Starred):
                return None
            parts += ([separator] if i > 0 else [])
            parts += [Json(one)] if isinstance(one, dict) else self.program.parts(one, node, call.scope)
        stream = "stderr" if any(word.arg == "file" and "stderr" in ast.unparse(word.value) for word in call.node.keywords) or \
            "stderr" in call.name or any(word.arg == "err" and ast.unparse(word.value) == "True" for word in call.node.keywords) \
            else "stdout"
        if any(word.arg == "file" and "std" not in ast.unparse(word.value) for word in call.node.keywords):
            return None
        line = self.add("print", call, parts)
        if line is not None:
            line.stream = stream
        return UNKNOWN

    def keywords(self, call: Call) -> Any:
        """log(Epoch=1, Loss=0.5) prints "Epoch: 001, Loss: 0.5000" """
        parts: List[Any] = []
        for word in call.node.keywords:
            if word.arg is not None:
                parts += [(", " if parts else "") + word.arg + ": ", Hole(word.value, "", False, call.scope)]
        self.add("print", call, parts)
        return UNKNOWN

    def logged(self, call: Call) -> Any:
        args, named = call.arguments()
        nodes = list(call.node.args)
        if call.attribute == "log" and len(args) > 1 and not isinstance(args[0], (str, Template, Json)):
            args, nodes = args[1:], nodes[1:]
        if not args:
            return None
        first = args[0]
        if isinstance(first, str) and len(args) > 1:
            value = tuple(args[1:])
            if "%" in first:
                parts = self.program.percent(first, value, ast.Tuple(elts=nodes[1:], ctx=ast.Load()), call.scope)
                parts = parts.parts if isinstance(parts, Template) else [first]
            else:
                parts = [first]
        elif isinstance(first, dict):
            parts = [Json(first)]
        else:
            parts = self.program.parts(first, nodes[0] if nodes else None, call.scope)
        line = self.add("log", call, list(parts))
        if line is not None:
            line.stream = "stderr"
            line.quiet = call.attribute in ("info", "log", "success", "debug") and "loguru" not in call.name
        return UNKNOWN

    def bar(self, call: Call) -> None:
        args, named = call.arguments()
        parts: List[Any] = []
        if call.attribute == "set_postfix":
            values = dict(named)
            for one in args:
                values.update(one if isinstance(one, dict) else {})
            nodes = {word.arg: word.value for word in call.node.keywords if word.arg}
            for name, value in values.items():
                if isinstance(name, str) and name not in ("refresh", "ordered_dict"):
                    node = value.node if isinstance(value, Expression) else nodes.get(name)
                    parts += [", " if parts else "", name + "=", Hole(node, "", False, call.scope)]
        elif args:
            parts = self.program.parts(args[0], call.node.args[0], call.scope)
        line = self.add("bar", call, parts)
        if line is not None:
            line.stream = "stderr"

    # ---- recorders and files ------------------------------------------------------------------

    def recorded(self, call: Call, last: str) -> None:
        """wandb.log, mlflow.log_metric, add_scalar: they are not printed, but name what the script measures."""
        args, named = call.arguments()
        values: Dict[Any, Any] = {}
        if last in ("log_metric", "add_scalar", "scalar") or (last == "log" and args and isinstance(args[0], str)):
            name = args[0] if args else named.get("tag", named.get("key", named.get("name")))
            if isinstance(name, str):
                values[name] = UNKNOWN
        else:
            for one in args + list(named.values()):
                values.update(one if isinstance(one, dict) else {})
        if not values:
            return
        line = self.add("record:" + last, call, [], ",".join(str(one) for one in values))
        if line is not None:
            line.fields = [Field(str(name), None) for name in values]
            for field in line.fields:
                field.split = split_of(words_of(field.word))
            prog = named.get("prog_bar")
            line.bar = prog is True
            line.forked = named.get("on_step") is True and named.get("on_epoch") is not False

    def written(self, call: Call) -> None:
        """csv.writer(file).writerow([...]), file.write(json.dumps(...)) into a file of the trial's own."""
        args, _ = call.arguments()
        if call.attribute == "write" and args and isinstance(args[0], (Template, Json)):
            parts = args[0].parts if isinstance(args[0], Template) else [args[0]]
            if any(isinstance(one, Json) for one in parts):
                self.file_line(call, list(parts))
        elif call.attribute == "writerow" and args and isinstance(args[0], (list, tuple, dict)):
            row = args[0]
            if isinstance(row, (list, tuple)) and row and all(isinstance(one, str) for one in row):
                self.header = list(row)
            elif isinstance(row, dict):
                self.file_line(call, [Json(row)])
            elif self.header is not None and len(self.header) == len(row):
                self.file_line(call, [Json({name: UNKNOWN for name in self.header})])

    def file_line(self, call: Call, parts: List[Any]) -> None:
        line = self.add("file", call, parts)
        if line is not None:
            line.path = self.path_of(call)

    def path_of(self, call: Call) -> Any:
        """Of the file: what open() was given."""
        receiver = call.receiver
        for _ in range(3):
            if isinstance(receiver, Object) and "(arguments)" in receiver.values:
                args, named = receiver.values["(arguments)"]
                receiver = args[0] if args else named.get("f", UNKNOWN)
        return receiver


# ---- what evaluate.load("NAME") computes ------------------------------------------------------------

_EVALUATED = {"accuracy": ["accuracy"], "f1": ["f1"], "precision": ["precision"], "recall": ["recall"], "mse": ["mse"], "mae": ["mae"],
              "exact_match": ["exact_match"], "squad": ["exact_match", "f1"], "bleu": ["bleu"], "sacrebleu": ["score"], "rouge": ["rougeL"],
              "glue/mrpc": ["accuracy", "f1"], "glue/qqp": ["accuracy", "f1"], "glue/cola": ["matthews_correlation"], "glue/stsb": ["pearson"],
              "glue": ["accuracy"]}


def evaluated(part: Any) -> Any:
    """A hole for metric.compute() of Hugging Face's evaluate is an object with known members."""
    origin = _origin(part.node, part.scope) if isinstance(part, Hole) else None
    if not (isinstance(origin, ast.Call) and isinstance(origin.func, ast.Attribute) and origin.func.attr == "compute"):
        return part
    made = _origin(origin.func.value, part.scope)
    if not (isinstance(made, ast.Call) and ast.unparse(made.func).split(".")[-1] in ("load", "load_metric")):
        return part
    names = [one.value for one in made.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    known = _EVALUATED.get("/".join(names[:2]), _EVALUATED.get(names[0], []) if names else [])
    return Json({one: Expression(part.node, part.scope) for one in known}) if known else part


def _origin(node: Any, scope: Any) -> Any:
    """What a name was assigned, or the expression itself."""
    while isinstance(node, ast.Name) and isinstance(scope, Scope):
        if node.id in scope.origins:
            return scope.origins[node.id]
        scope = scope.outer if scope.outer is not None else None
    return node


# ---- naming the fields ---------------------------------------------------------------------------


def _last_words(text: str) -> str:
    """The words right before a value: of "epoch 3 | val loss: " it is "loss"."""
    at = re.search(r"([A-Za-z][A-Za-z0-9_/.@\-]*)[\"')\]\s:=(>|\u2192,~\[#]*$", text)
    return at.group(1).rstrip("-./@") if at is not None else ""


def _origin_split(hole: Hole, depth: int = 0) -> str:
    """Of the variables in the value, and of what they were computed from."""
    if hole.node is None:
        return ""
    for node in ast.walk(hole.node):
        text = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else \
            node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        found = split_of(words_of(text))
        if found:
            return found
    scope = hole.scope
    if depth < 2 and isinstance(scope, Scope):
        for node in ast.walk(hole.node):
            if isinstance(node, ast.Name) and node.id in scope.origins:
                origin = scope.origins[node.id]
                if isinstance(origin, ast.Constant):
                    continue
                found = _origin_split(Hole(origin, "", False, scope), depth + 1)
                if found:
                    return found
    return ""


def _trains(function: Any) -> bool:
    """Does this function itself train?"""
    return function is not None and any(
        isinstance(one, ast.Attribute) and one.attr in ("backward", "partial_fit", "train_on_batch", "apply_gradients")
        for one in ast.walk(function))


def stack_split(stack: List[Any]) -> str:
    """By the names of the functions that are being followed, the inner ones first."""
    for function in reversed(stack):
        found = split_of(words_of(function.name)) if isinstance(function, FUNCTIONS) else ""
        if found:
            return found
    return ""


def name_fields(line: Line) -> None:
    """Of a line of text: the word before each value, and the set that it was computed on."""
    before = ""
    for part in line.parts:
        if isinstance(part, str):
            before += part
        elif isinstance(part, Hole):
            word = _last_words(before.split("\n")[-1])
            if not direction(word)[0] and not is_iteration(word) and (not word or split_of(words_of(word))):
                word = variable_of(part) or word
            field = Field(word, part, before)
            field.iteration = field.iteration or (not field.goal and counts_loop(part, line.loop))
            field.split = split_of(words_of(word)) or split_of(list(reversed(words_of(before)[-3:])))
            if line.fields and is_average_of(part, line.fields[-1].hole) and not word:
                field = replaced(line.fields[-1], part, before)
            line.fields.append(field)
            before = ""
        elif isinstance(part, Json):
            for name, value in flat(part.value).items():
                hole = Hole(value.node, "", False, value.scope) if isinstance(value, Expression) else None
                if hole is not None:
                    hole.split = value.split
                line.fields.append(Field(name, hole))
                line.fields[-1].member = True
            line.how = "json" if line.how != "file" else "file"
            before = ""
    settle_splits(line)


def is_average_of(hole: Hole, before: Optional[Hole]) -> bool:
    """meter.val (meter.avg): a value of the last batch, and of all batches so far."""
    one, other = hole.node, before.node if before is not None else None
    return isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute) and one.attr in ("avg", "mean", "global_avg") and \
        one.attr != other.attr and ast.unparse(one.value) == ast.unparse(other.value)


def replaced(field: Field, hole: Hole, text: str) -> Field:
    """The average takes the place of the value before it."""
    made = Field(field.word, hole, field.text + text)
    made.split, field.goal = field.split, ""
    return made


def counts_loop(hole: Hole, loop: Any) -> bool:
    """Is it the variable of the loop over epochs, or that plus 1?"""
    node = hole.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        node = node.left
    if not isinstance(loop, (ast.For, ast.AsyncFor)) or not isinstance(node, ast.Name):
        return False
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else loop.target
    return isinstance(target, ast.Name) and target.id == node.id


def variable_of(hole: Hole) -> str:
    """The variable that is printed, if its name is one of a metric or of an iteration."""
    node = hole.node
    while isinstance(node, (ast.Call, ast.BinOp)):
        node = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else \
            node.args[0] if isinstance(node, ast.Call) and node.args else \
            node.left if isinstance(node, ast.BinOp) and not isinstance(node.left, ast.Constant) else \
            node.right if isinstance(node, ast.BinOp) else None
    text = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else \
        node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else ""
    text = text if isinstance(text, str) else ""
    if not (direction(text)[0] or is_iteration(text)) and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        text = node.value.id
    return text if direction(text)[0] or is_iteration(text) else ""


def flat(value: Dict[Any, Any]) -> Dict[str, Any]:
    """The members of an object and of those in it, "val/loss": some, if there are very many or it holds itself."""
    found: Dict[str, Any] = {}
    left: List[Tuple[str, Any]] = [("", value)]
    for _ in range(MEMBERS_MAX):
        if not left:
            break
        name, one = left.pop()
        if isinstance(one, dict):
            left += [((name + "/" if name else "") + str(key)[:LINE_MAX], inner) for key, inner in reversed(one.items())]
        elif not isinstance(one, str):
            found[name] = one
    return found


def settle_splits(line: Line) -> None:
    function = line.stack_split
    trains = _trains(line.function) if line.function is not None else \
        (_trains(line.loop) if line.loop is not None else False)
    said = ""
    first = split_of(words_of(line.fields[0].text)) if line.fields else ""       # "val: loss 0.1"
    for field in line.fields:
        own = split_of(words_of(field.word)) or field.split
        if not own and line.how not in ("json", "file"):
            own = said                             # "val: loss 0.1 acc 0.9"
        said = own or said
        origin = field.hole.split if field.hole is not None else ""
        field.split = own or origin or first or function or ("train" if trains and field.goal == "minimize" else "")
        if own == "train" and origin in ("val", "test"):
            field.split = origin


# ---- patterns ------------------------------------------------------------------------------------


def escape(text: str, first: bool) -> str:
    made = ""
    at = 0
    while at < len(text):
        if text[at].isspace():
            end = at
            while end < len(text) and text[end].isspace():
                end += 1
            if not (first and at == 0):
                made += " " if text[at:end] == " " else "\\s+"
            at = end
            continue
        made += "\\" + text[at] if text[at] in "\\^$.|?*+()[]{}" else text[at]
        at += 1
    return made


def _group_name(field: Field, taken: List[str], alike: bool = False) -> str:
    """A name that a group can have, and that no earlier value has.  alike: another value of the line has the same word."""
    word = field.word.lower() if not re.search(r"[a-z]", field.word) or field.word.istitle() else field.word
    word = word.lower().replace("@", "")
    names = [word]
    two = re.search(r"([A-Za-z]+)[\s_\-]+%s\W*$" % re.escape(field.word), field.text)
    if two is not None:
        names.insert(0 if alike else 1, two.group(1).lower() + "_" + word)
    if field.split and field.split not in words_of(word):
        names.append(field.split + "_" + word)
    for name in names:
        if re.fullmatch(r"[a-z][a-z0-9_/.\-]*", name) and len(name) <= NAME_MAX and name not in taken and name != "iteration":
            return name
    return ""


def one_line(line: Line, wanted: Field) -> List[Any]:
    """The parts of that line of the text which has the value."""
    rows: List[List[Any]] = [[]]
    for part in line.parts:
        if isinstance(part, str) and "\n" in part:
            pieces = part.replace("\r", "\n").split("\n")
            rows[-1].append(pieces[0])
            rows += [[piece] for piece in pieces[1:]]
        elif isinstance(part, str) and "\r" in part:
            pieces = part.split("\r")
            rows[-1].append(pieces[0])
            rows += [[piece] for piece in pieces[1:]]
        else:
            rows[-1].append(part)
    for row in rows:
        if any(part is wanted.hole for part in row):
            return row
    return []


def build(line: Line, wanted: Field) -> Tuple[Optional[str], bool]:
    """The pattern, and whether it has the iteration."""
    row = one_line(line, wanted)
    fields = {id(one.hole): one for one in line.fields if one.hole is not None}
    holes = [one for one in row if isinstance(one, Hole)]
    if wanted.hole not in holes:
        return None, False
    useful = [i for i, one in enumerate(holes) if one is wanted.hole or (fields[id(one)].goal)]
    last = max(useful)
    taken: List[str] = []
    pattern, counts, at = "", False, -1
    alike = [one for one in line.fields if one.goal and not (one.best and one is not wanted) and one.word.lower() == wanted.word.lower() and one.hole in holes]
    wanted.name = _group_name(wanted, [], len(alike) > 1)
    if not wanted.name:
        return None, False
    reserved = [wanted.name]
    for part in row:
        if isinstance(part, str):
            pattern += escape(part, pattern == "")
            continue
        at += 1
        if at > last:
            break
        field = fields[id(part)]
        blank = "\\s*" if part.padded else ""
        if field.iteration and not counts and field is not wanted and not _is_grouped(part):
            pattern, counts = pattern + blank + "{iteration}", True
        elif field is wanted:
            pattern += blank + ("(?:tensor\\()?" if part.tensor else "\\[?" if _is_array(part) else "") + "{" + wanted.name + "}"
            taken.append(wanted.name)
        elif field.goal and not field.best and not _is_grouped(part) and _group_name(field, taken + reserved, field in alike):
            name = _group_name(field, taken + reserved, field in alike)
            taken.append(name)
            pattern += blank + "{" + name + "}"
        elif pattern:
            pattern += ".*?"
        elif line.how == "print":
            pattern = "^.*?"
        if at == last:
            break
    pattern = re.sub(r"^(\s|\\s[+*]|\.\*\?)+", "", pattern)
    end = pattern.rfind("}") + 1
    return pattern[:end], counts


def _is_grouped(hole: Hole) -> bool:
    """Are its digits grouped, as 1,234.5?  Such a number is not read."""
    return "," in hole.spec or "_" in hole.spec


def _is_tensor(hole: Hole) -> bool:
    """Is a tensor of PyTorch printed there, as tensor(0.25)?"""
    if hole.spec or not isinstance(hole.node, ast.Name) or not isinstance(hole.scope, Scope):
        return False
    origin = hole.scope.origins.get(hole.node.id)
    if not isinstance(origin, ast.Call):
        return False
    text = ast.unparse(origin.func)
    return bool(re.search(r"criterion|loss_f|loss_fn|^F\.|functional|cross_entropy|nll|mse_loss|_loss$", text))


def _is_array(hole: Hole) -> bool:
    """May an array of one element be printed there, as [21.]?  info["episode"]["r"] of an environment is one."""
    node = hole.node
    return not hole.spec and isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript) and \
        all(isinstance(one.slice, ast.Constant) and isinstance(one.slice.value, str) for one in (node, node.value))


# ---- a pattern is tried on the lines themselves ----------------------------------------------------

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"


def _sample(row: List[Any], base: float) -> Tuple[str, Dict[int, str]]:
    """A line as it may be printed, and what stands in its holes."""
    text, values, count = "", {}, 0
    for part in row:
        if isinstance(part, str):
            text += part
        elif isinstance(part, Hole):
            count += 1
            values[id(part)] = "%d" % (base + count) if part.spec.endswith("d") else "%.2f" % (base + count + 0.25)
            text += ("  " if part.padded else "") + values[id(part)]
    return text, values


def compiled(pattern: str) -> Optional[Any]:
    """A pattern of espalier as Python's: groups are numbered."""
    names = re.findall(r"(?<!\\)\{([a-z][^{}\\]*)\}", pattern)
    for i, name in enumerate(names):
        pattern = pattern.replace("{" + name + "}", "(?P<g%d>%s)" % (i, _NUMBER), 1)
    try:
        made = re.compile(pattern)
    except re.error:
        return None
    return made, names


def reads(pattern: str, line: Line, field: Field) -> bool:
    made = compiled(pattern)
    if made is None or field.name not in made[1]:
        return False
    text, values = _sample(one_line(line, field), 3)
    found = made[0].search(text)
    return found is not None and found.group("g%d" % made[1].index(field.name)) == values[id(field.hole)]


def matches(pattern: str, line: Line) -> bool:
    """Would it match another line?"""
    made = compiled(pattern)
    text, _ = _sample(line.parts, 5)
    return made is not None and any(made[0].search(one) for one in re.split(r"[\r\n]", text))


# ---- the choice ------------------------------------------------------------------------------------


class Candidate:
    def __init__(self, line: Line, field: Field, order: int):
        self.line, self.field, self.order = line, field, order
        self.rank = _ORDER.index((field.split, line.level)) + (0.5 if field.best and line.level > 0 else 0)


def candidates(listener: Listener, outputs: List[str]) -> List[Candidate]:
    found: List[Candidate] = []
    fewest: Dict[Any, int] = {}
    for line in listener.lines:
        count = sum(isinstance(one, Hole) for one in line.parts)
        fewest[line.call.node] = min(count, fewest.get(line.call.node, count))
    for order, line in enumerate(listener.lines):
        if line.how.startswith("record") or (line.rest and sum(isinstance(one, Hole) for one in line.parts) > fewest[line.call.node]):
            continue
        name_fields(line)
        if line.mixed and not any(split_of(words_of(one)) for one in line.parts if isinstance(one, str)):
            continue
        if line.quiet and not listener.configured and not listener.absl:
            continue
        if line.how == "log" and listener.to_stdout:
            line.stream = "stdout"
        if line.how == "file":
            line.file = file_pattern(line, outputs)
            if not line.file:
                continue
        for field in line.fields:
            usable = bool(field.goal) and (line.how in ("json", "file") if field.hole is None else not _is_grouped(field.hole))
            field.best = field.best or bool(set(words_of(field.text)[-3:]) & {"best", "lowest", "highest"})
            if usable and not set(words_of(field.word)) & {"time", "lr", "name"}:
                found.append(Candidate(line, field, order))
    return found


def is_average(field: Field) -> bool:
    return bool(set(words_of(field.text)[-3:] + words_of(field.word)) & {"average", "avg", "mean", "running"})


def file_pattern(line: Line, outputs: List[str]) -> str:
    """Of a file in the trial's own directory: a file that all trials write says nothing of one of them."""
    parts = line.path.parts if isinstance(line.path, Template) else []
    if not parts or not isinstance(parts[0], Hole) or parts[0].node is None:
        return ""
    text = ast.unparse(parts[0].node)
    if text.split(".")[-1].strip("']\"") not in outputs:
        return ""
    return "{output}" + "".join(one if isinstance(one, str) else "*" for one in parts[1:])


def choose(listener: Listener, outputs: List[str]) -> Tuple[Optional[Objective], List[Candidate]]:
    every = candidates(listener, outputs)
    hows = {"print": 0, "json": 0, "log": 0, "file": 1, "bar": 2}
    every.sort(key=lambda one: (one.rank, hows[one.line.how], not any(f.iteration for f in one.line.fields), one.order,
                                not is_average(one.field) and any(is_average(f) and f.why == one.field.why for f in one.line.fields)))
    for one in every:
        made = objective_of(one, listener)
        if made is not None:
            explain(made, every)
            return made, every
    return None, every


def objective_of(one: Candidate, listener: Listener) -> Optional[Objective]:
    line, field = one.line, one.field
    if line.how in ("json", "file") and any(isinstance(part, Json) for part in line.parts):
        made = Objective(line, field, None)
        field.name = field.word
        for other in line.fields:
            if other.iteration and other.member and not made.iteration:
                made.iteration, made.counts = other.word, True
        return made
    if sum(len(part) for part in line.parts if isinstance(part, str)) > LINE_MAX:
        return None
    pattern, counts = build(line, field)
    if line.how == "bar" and pattern is not None and not counts and line.level == 1:
        pattern, counts = "{iteration}/[0-9]+ \\[.*[ ,]" + pattern, True
        made = Objective(line, field, pattern)
        made.counts = counts
        return made
    if pattern is None or not reads(pattern, line, field):
        return None
    rivals = [other for other in listener.lines
              if other is not line and other.parts and other.how == line.how and other.stream == line.stream
              and other.call.node is not line.call.node]
    if line.how == "print" and isinstance(one_line(line, field)[0], str) and any(matches(pattern, other) for other in rivals):
        pattern = ("^\\s*" if one_line(line, field)[0][:1].isspace() else "^") + pattern
    if not counts and line.level == 2:
        pattern, counts = with_iteration(pattern, line, listener)
    made = Objective(line, field, pattern)
    made.counts = counts
    return made


def with_iteration(pattern: str, line: Line, listener: Listener) -> Tuple[str, bool]:
    """A line of each batch that does not name the iteration: another one that does is read, too."""
    found: List[Tuple[int, str]] = []
    for other in listener.lines:
        if other.call.node is line.call.node or other.how != line.how or other.stream != line.stream or not other.parts:
            continue
        if not other.fields:
            name_fields(other)
        made, ranked = "", 0
        for part in one_line(other, next((one for one in other.fields if one.iteration and one.hole is not None), Field("", None))):
            field = next((one for one in other.fields if one.hole is part and one.iteration), None)
            if field is not None:
                made += ("\\s*" if part.padded else "") + "{iteration}"
                ranked = 0 if "epoch" in words_of(field.word + " " + variable_of(part)) else 1
                break
            made += escape(part, made == "") if isinstance(part, str) else ".*?" if made else ""
        if re.search(r"[A-Za-z].*\{iteration\}", made) and not matches(made, line) and not matches(pattern, other):
            found.append((ranked, made))
    found.sort(key=lambda one: one[0])
    return (found[0][1] + "\\b|" + pattern, True) if found else (pattern, False)


def explain(made: Objective, every: List[Candidate]) -> None:
    line, field = made.line, made.field
    sets = {"val": "of the validation set", "test": "of the test set, the only one that is evaluated", "train": "of the training set",
            "": ""}
    where = {0: "printed once, at the end", 1: "of each epoch", 2: "of each batch"}
    made.reasons = [one for one in (sets[field.split], where[line.level]) if one]
    seen = [field.name]
    for one in every:
        if one.field.word and one.field.word.lower() not in seen and one.field.word.lower() != field.word.lower():
            seen.append(one.field.word.lower())
            if one.field.split != "test" or field.split == "test":
                made.others.append(one.field.word)


def length_names(line: Line, program: Program) -> List[str]:
    """Names in the number of times that the loop around a line runs: of range(args.steps) it is "steps"."""
    found: List[str] = []
    for node, scope, _, _ in program.seen_loops:
        if node is not line.loop:
            continue
        sources = [node.test if isinstance(node, ast.While) else node.iter]
        for _ in range(3):
            more: List[Any] = []
            for one in sources:
                for part in ast.walk(one):
                    if isinstance(part, ast.Attribute):
                        found.append(part.attr)
                    elif isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant):
                        found.append(str(part.slice.value))
                    elif isinstance(part, ast.Name):
                        found.append(part.id)
                        more += [scope.origins[part.id]] if part.id in scope.origins else []
            sources = more
    return found
