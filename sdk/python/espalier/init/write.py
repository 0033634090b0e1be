"""Writes the configuration."""

import re
from typing import Any, Dict, List, Optional, Tuple

from espalier.init.objective import Objective
from espalier.init.options import Found, Option
from espalier.init.ranges import (GIVEN, ITERATIONS, LEFT_ALONE, LENGTH_STEPS, OUTPUT, REQUIRED, SWITCH, TUNED, Range, importance, role)

COMMENT_SIZE = 88
COLUMN = 76          # where the words of a command are wrapped
TUNED_MAX = 16       # parameters
MARK = "CHANGE-ME"   # `espalier check` refuses a configuration with it


def quoted(text: str) -> str:
    """A string of libconfig."""
    made = ""
    for one in text:
        if one in "\"\\":
            made += "\\" + one
        elif one in "\n\r\t\f":
            made += {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}[one]
        elif ord(one) < 32 or ord(one) == 127:
            made += "\\x%02x" % ord(one)
        else:
            made += one
    return '"' + made + '"'


def comment(text: str, size: int = COMMENT_SIZE) -> str:
    """On one line, without control characters, and not too long."""
    text = " ".join("".join(one if one.isprintable() and not 0xd800 <= ord(one) < 0xe000 else " " for one in text).split())
    return text if len(text) <= size else text[:size].rstrip() + "..."


def number(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) + ("L" if abs(value) > 2147483647 else "")
    text = "%.12g" % value
    return text if re.search(r"[.en]", text) else text + ".0"


def literal(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else number(value)


def range_text(made: Range) -> str:
    from espalier.init.options import ABSENT
    parts = ["type = " + quoted(made.kind)]
    if made.values is not None:
        parts.append("values = [ %s ]" % ", ".join(literal(one) for one in made.values))
    else:
        parts += ["low = " + number(made.low), "high = " + number(made.high)]
    if made.scale:
        parts.append("scale = " + quoted(made.scale))
    if made.default is not ABSENT:
        parts.append("default = " + literal(made.default))
    return "{ " + "; ".join(parts) + "; }"


def doubled(text: str) -> str:
    """A brace of the script's own is doubled."""
    return text.replace("{", "{{")


class Plan:
    """What is written: the words of the command, the space, the options that are left alone."""

    def __init__(self, found: Found, objective: Optional[Objective]):
        self.found, self.objective = found, objective
        self.words: List[str] = []
        self.mark = MARK
        self.directory = ""
        self.filled: List[str] = []      # KEY=VALUE for `espalier fill`
        self.space: List[Tuple[str, str, str, bool]] = []       # comment, name, range, has a default
        self.reasons: List[str] = []
        self.kept: List[str] = []
        self.missing: List[str] = []
        self.iterations = 0              # default of the option that sets them
        self.length: Optional[Option] = None
        self.group = choose_group(found)
        self.by_loop: Optional[Option] = None
        self.unlimited = False
        self.lengths: List[str] = []     # names that the loop over epochs takes its length from
        self.roles: Dict[int, Tuple[str, Optional[Range]]] = {}
        self.taken: Dict[str, Option] = {}
        self.rivals: Dict[int, Option] = {}

    def option_words(self, option: Option, value: str) -> List[str]:
        if option.helped:
            return []
        if option.filled:
            self.filled.append(doubled(option.flag) + "=" + value)
            return []
        if option.key:
            return [doubled(option.flag) + "=" + value]
        if option.positional:
            return [value]
        # -x VALUE: argparse would take x=VALUE for the value of -x=VALUE
        return [doubled(option.flag) + "=" + value] if option.flag.startswith("--") else [doubled(option.flag), value]

    def is_taken(self, option: Option) -> bool:
        return option.name in self.taken or (option.rivals != 0 and option.rivals in self.rivals)

    def find_length(self) -> None:
        """The option that the loop around the reports takes its length from."""
        found = [one for one in self.found.options if one.name in self.lengths and is_length(one)]
        named = [one for one in self.found.options if role(one)[0] in (ITERATIONS, LENGTH_STEPS)]
        both = [one for one in found if one in named]
        if both:
            self.by_loop = both[0]
        elif len(found) == 1 and not any(role(one)[0] == ITERATIONS for one in named):
            self.by_loop = found[0]

    def role(self, option: Option) -> Tuple[str, Optional[Range]]:
        if id(option) not in self.roles:
            found = role(option)
            if found[0] in (ITERATIONS, LENGTH_STEPS) and self.by_loop is not None and option is not self.by_loop:
                found = (REQUIRED if option.required else LEFT_ALONE, None)
            elif option is self.by_loop:
                found = (ITERATIONS, None)
            self.roles[id(option)] = found
        return self.roles[id(option)]

    def take(self, option: Option) -> None:
        what, made = self.role(option)
        if self.is_taken(option):
            self.keep(option)
            return
        if what in (ITERATIONS, LENGTH_STEPS):
            self.take_length(option, what)
            return
        if what in (TUNED, SWITCH) and made is not None:
            self.tune(option, made, what == SWITCH)
        elif what == OUTPUT:
            self.words += self.option_words(option, "{output}")
        elif what == GIVEN:
            self.words.append(doubled(option.flag))
        elif what == REQUIRED and option.action:
            self.missing.append(option.flag)
            self.words.append(MARK)
        elif what == REQUIRED:
            self.missing.append(option.flag)
            self.words += self.option_words(option, MARK)
        else:
            self.keep(option)

    def tune(self, option: Option, made: Range, switch: bool) -> None:
        from espalier.init.options import ABSENT
        self.taken[option.name] = option
        if option.rivals:
            self.rivals[option.rivals] = option
        text = comment(option.flag) + (": " + comment(option.help) if option.help else "")
        self.space.append((text, option.name, range_text(made), made.default is not ABSENT))
        self.reasons.append(made.reason)
        if switch:
            self.words.append("{" + option.name + "}")
        else:
            self.words += self.option_words(option, "{" + option.name + "}")

    def take_length(self, option: Option, what: str) -> None:
        """How long the script trains: the iterations, if its reports can be iterations of that kind."""
        line = self.objective.line if self.objective is not None else None
        reported = line is None or line.level > 0 or line.assumed
        steps = what == LENGTH_STEPS and not (self.objective is not None and self.objective.counts)
        if self.length is not None or not reported or (steps and not option.required):
            if option.required:
                self.missing.append(option.flag)
                self.words += self.option_words(option, MARK)
            else:
                self.keep(option)
            return
        self.length = option
        default = option.default
        self.iterations = int(default) if isinstance(default, (int, float)) and 1 <= default < 1e9 else 10
        self.unlimited = not (isinstance(default, (int, float)) and default >= 1)
        self.words += self.option_words(option, "{iterations}")

    def keep(self, option: Option) -> None:
        if not option.helped and comment(option.flag) not in self.kept:
            self.kept.append(comment(option.flag))

    def leave_least(self, options: List[Option]) -> None:
        """A search over very many parameters finds little: those that matter most are taken."""
        tuned = [one for one in options if self.role(one)[0] in (TUNED, SWITCH)]
        for one in sorted(tuned, key=lambda option: importance(option.name))[TUNED_MAX:]:
            self.roles[id(one)] = (LEFT_ALONE, None)

    def take_all(self, hydra_output: bool) -> None:
        """Those of the whole script, then the subcommand and its own.  Epochs come before steps."""
        own = [one for one in self.found.options if one.group == ""]
        inner = [one for one in self.found.options if one.group and one.group == self.group]
        self.find_length()
        self.leave_least(own + inner)
        if any(self.role(one)[0] == ITERATIONS for one in own + inner):
            for one in own + inner:
                if self.role(one)[0] == LENGTH_STEPS and not one.required:
                    self.keep(one)
                    one.skip = True
        for one in own:
            if not one.skip:
                self.take(one)
        if self.group:
            self.words.append(doubled(self.group))
            for one in inner:
                if not one.skip:
                    self.take(one)
        if hydra_output:
            self.words.append("hydra.run.dir={output}")


def is_length(option: Option) -> bool:
    """Can it be a number of iterations?"""
    return not option.action and not option.many and not isinstance(option.default, bool) and option.choices is None and \
        (isinstance(option.default, int) or option.type.endswith("int")) and option.default != 0


def choose_group(found: Found) -> str:
    for one in found.groups:
        if "train" in one or one == "fit":
            return one
    return found.groups[0] if found.groups else ""


# ---- the groups ----------------------------------------------------------------------------------


def wrapped(words: List[str]) -> str:
    made, width = "", 0
    for i, one in enumerate(words):
        text = quoted(one) + ("," if i + 1 < len(words) else "")
        if width + len(text) > COLUMN and made:
            made += "\n     "
            width = 0
        made += " " + text
        width += len(text) + 1
    return made


def experiment_name(path: str) -> str:
    base = path.rsplit("/", 1)[-1].split(".")[0]
    name = re.sub(r"[^A-Za-z0-9]", "-", base)
    return name if name and not name.startswith("-") and len(name) <= 60 else "search"


def write_experiment(plan: Plan, path: str) -> str:
    made = plan.objective
    text = "experiment = {\n  name = %s;\n" % quoted(experiment_name(path))
    if made is None:
        text += ("  # No line of the output was found that has a metric.  Write the metric's name here, whether to minimize\n"
                 "  # or to maximize it, and below how to read it.\n"
                 "  metric = \"%s\";\n  goal = \"minimize\";\n" % MARK)
    else:
        text += "  metric = %s; # %s\n" % (quoted(made.field.name), comment(", ".join(made.reasons) or "as it is reported"))
        text += "  goal = \"%s\"; # %s\n" % (made.field.goal, {"minimize": "smaller is better for '%s'",
                                                               "maximize": "larger is better for '%s'"}[made.field.goal] % made.field.why)
    if plan.space and all(one[3] for one in plan.space):
        text += "  first = ( { } ); # try the script's defaults first\n"
    return text + "};\n"


def write_metrics(plan: Plan, reports: bool) -> str:
    made = plan.objective
    if reports:
        return "  # The script reports by itself, through espalier's helper.\n"
    if made is None:
        return ("  # Copy a line of the output, and write {NAME} in place of each number: \"epoch {iteration}: val loss {val_loss}\".\n"
                "  metrics = { pattern = \"%s\"; };\n" % MARK)
    text = "  # Line %d: %s\n" % (made.line.at, comment(made.line.source)) if made.line.at else ""
    members = []
    if made.line.file:
        members.append("file = " + quoted(made.line.file))
    elif made.line.stream == "stderr":
        members.append("from = \"stderr\"")
    if made.pattern is not None:
        members.append("pattern = " + quoted(made.pattern))
    elif not made.line.file:
        members.append("format = \"json\"")
    default = "epoch" if made.line.file.endswith(".csv") else "iteration"
    if made.pattern is None and made.iteration and made.iteration != default:
        members.append("iteration = " + quoted(made.iteration))
    return text + "  metrics = { %s; };\n" % "; ".join(members)


def write_trial(plan: Plan, reports: bool, distributed: bool) -> str:
    text = "trial = {\n"
    if plan.directory:
        text += "  directory = %s;\n" % quoted(plan.directory)
    if plan.missing:
        text += "  # Replace %s, which stands for what the script requires: %s.\n" % (MARK, comment(", ".join(plan.missing)))
    if len(plan.found.groups) > 1:
        text += "  # The script has %d subcommands; this is '%s'.\n" % (len(plan.found.groups), comment(plan.group))
    text += "  command = [%s ];\n" % wrapped(plan.words)
    text += write_metrics(plan, reports)
    text += "  gpus_max = 1; # GPUs, or slots, of a trial\n"
    if distributed:
        text += ("  # On GPUs it may have several, each with a process of its own, as torchrun starts them: gpus_max = 4;\n"
                 "  # Debian's PyTorch 2 is built without libuv and needs: env = { USE_LIBUV = \"0\"; };\n")
    else:
        text += "  # Small trials can share a GPU: packing_max = 8; with allocator = { use = \"fluid\"; }.\n"
    return text + "};\n"


def write_space(plan: Plan) -> str:
    if not plan.space:
        return ("# No option was found that can be tuned.  Write parameters here, such as\n"
                "#   lr = { type = \"real\"; low = 1e-4; high = 0.1; scale = \"log\"; };\n"
                "# and where they go into the command above, such as \"--lr={lr}\".\n"
                "space = {\n};\n")
    text = "space = {\n"
    for (about, name, made, _), reason in zip(plan.space, plan.reasons):
        text += "  # %s\n  %s = %s; # %s\n" % (about, name, made, comment(reason))
    return text + "};\n"


def write_kept(plan: Plan) -> str:
    if not plan.kept:
        return ""
    rows, row = [], ""
    for one in plan.kept:
        if row and len(row) + len(one) > COMMENT_SIZE:
            rows.append(row)
            row = ""
        row += (" " if row else "") + one
    return "# Not tuned, at their defaults:\n" + "".join("#   %s\n" % one for one in rows + [row])


def write_algorithm(plan: Plan, reports: bool) -> str:
    made = plan.objective
    level = made.line.level if made is not None else 1
    limit = plan.iterations or (made.line.limit if made is not None and made.line.limit else 0)
    if made is not None and level == 0 and plan.length is None:
        return ("# The metric is printed once, so each trial runs to its end.\n"
                "algorithm = { use = \"random\"; trials = 20; };\n")
    few = 0 < limit < 3 and plan.length is not None
    if 0 < limit < 3 and not few:
        return "algorithm = { use = \"random\"; trials = 20;%s };\n" % (" iterations_max = %d;" % limit if limit > 1 else "")
    most = 9 if few else limit or 10
    note = " # more than the script's default" if few else "" if limit and not plan.unlimited else \
        " # CHECK THIS: how many times a whole training prints the metric"
    least = most // 27 if most > 270 else 1
    # A script that saves no checkpoint would train again from the beginning when it is promoted: its trials are stopped, never
    # paused.
    return ("# Successive halving: of the trials that reach %s iterations the best third continues.\n"
            "algorithm = { use = \"asha\"; %strials = 27; %siterations_max = %d; };%s\n"
            "allocator = { use = \"fair\"; }; # divides the GPUs among the trials that can run\n"
            % (", ".join(str(least * k) for k in (1, 3, 9)) + ", ...", "" if reports else "mode = \"stopping\"; ",
               "iterations_min = %d; " % least if least > 1 else "", most, note))


def write(plan: Plan, path: str, notes: List[str], reports: bool, distributed: bool) -> str:
    text = ("# Written by `espalier init` for %s: ranges are guesses from names and defaults.\n"
            "# `espalier check FILE` validates it, `espalier run FILE` starts the search.\n" % comment(path))
    for one in notes:
        text += "# %s\n" % comment(one, 120)
    return text + write_experiment(plan, path) + write_trial(plan, reports, distributed) + write_space(plan) + write_kept(plan) + \
        write_algorithm(plan, reports)
