"""espalier-init SCRIPT [--output FILE] [--no-ask]: `espalier init` starts it for a script in Python."""

import argparse
import os
import sys
from typing import List, Optional, Tuple

from espalier.init import ask, libraries
from espalier.init.configs import add_config_flags, add_file, add_hydra
from espalier.init.objective import Candidate, Field, Line, Listener, Objective, choose, has_epochs, length_names
from espalier.init.options import ABSENT, Found, Option, Reader
from espalier.init.ranges import OUTPUT, role
from espalier.init.refuse import require
from espalier.init.source import Class, Function, Object, Program, Scope, SourceError
from espalier.init.write import Plan, choose_group, doubled, write


def fail(text: str, hint: str = "") -> int:
    sys.stderr.write("espalier: error: %s\n" % text if not text.split(":")[0].endswith(".py") else text + "\n")
    if hint:
        sys.stderr.write("hint: %s\n" % hint)
    return 2


def read(path: str) -> Tuple[Program, Found, Listener]:
    """Follows the script."""
    program = Program(path)
    reader, listener = Reader(program), Listener(program)
    program.run()
    found = reader.finish()
    follow_rest(program)
    return program, found, listener


def follow_rest(program: Program) -> None:
    """Functions and methods that no call was seen to reach, for example those that a library calls."""
    program.steps, program.in_rest = 0, True
    before = list(program.subscribers)
    program.subscribers[:] = [one for one in before if not isinstance(getattr(one, "__self__", None), Reader)]
    modules = [program.script] + [one for one in program.modules.values() if one is not None]
    for module in modules[:1]:
        for value in list(module.values.values()):
            functions = [value] if isinstance(value, Function) else \
                [one.bind(Object(value)) for one in value.values.values() if isinstance(one, Function)] if isinstance(value, Class) else []
            for one in functions:
                if one.module is module and one.node not in program.followed and not one.node.__class__.__name__ == "Lambda":
                    program.follow(one, None, Scope(module))
    for function, scope in list(program.inner):          # handlers of events
        if function.node not in program.followed:
            program.follow(function, None, scope)
    program.subscribers[:] = before


def merge(found: Found, listed: List[Option], group: str, exact: bool) -> None:
    """What --help prints: options that the source does not show, and none that it lacks."""
    flags = {flag for one in listed for flag in getattr(one, "flags", [one.flag])}
    own = [one for one in found.options if one.group == group and not one.positional and not one.key]
    if exact and listed and sum(one.flag in flags for one in own) * 2 >= len(own):
        found.options = [one for one in found.options if one not in own or one.flag in flags]
    by_flag = {one.flag: one for one in found.options if one.group == group}
    for one in listed:
        known = next((by_flag[flag] for flag in getattr(one, "flags", []) if flag in by_flag), None)
        if known is None and not one.required and not libraries.is_wanted(found.trainer, one.flag):
            continue                         # one of the many options of a library
        if known is None:
            one.group = group
            if one.default is not ABSENT or one.required or not found.trainer:
                found.options.append(one)
        elif known.default not in (ABSENT, None) and not isinstance(known.default, (int, float, str, bool, list, tuple, dict)) and \
                one.default is not ABSENT:
            known.default = one.default
        if known is not None and known.choices == [] and one.choices:
            known.choices = one.choices


def ask_script(path: str, command: List[str], found: Found, notes: List[str]) -> None:
    if not found.parsers or found.parsers == ["globals"]:
        notes.append("Its source was read; nothing of it was run, as it has no parser of options that knows --help.")
        return
    answer = ask.ask(command + ["--help"])
    if answer.problem:
        notes.append("Running `%s --help` gave no options: %s." % (" ".join(command), answer.problem))
        sys.stderr.write("espalier: warning: `%s --help`: %s\n" % (" ".join(command), answer.problem))
        return
    notes.append("Its source was read, and `%s --help` was run; nothing else of it was." % " ".join(command))
    found.help = answer.text
    if "hydra" in found.parsers:
        return
    exact = not found.groups and "fire" not in found.parsers and not found.trainer
    if "fire" not in found.parsers:
        merge(found, ask.listed(answer.text), "", exact)
    group = choose_group(found)
    if group and "fire" not in found.parsers:
        inner = ask.ask(command + [group, "--help"])
        if not inner.problem:
            found.help += inner.text
            merge(found, ask.listed(inner.text), group, True)


def command_of(path: str) -> List[str]:
    """An executable script without .py runs by its first line."""
    if path.endswith(".py") or not os.access(path, os.X_OK):
        return [ask.python(), path]
    return [path if "/" in path else "./" + path]


def reported(reader: Listener) -> Optional[Objective]:
    """What the script reports through the helper."""
    for line in reader.lines:
        if line.how == "record:report":
            for field in sorted(line.fields, key=lambda one: ["val", "", "train", "test"].index(one.split)):
                if field.goal:
                    field.name = field.word
                    made = Objective(line, field, None)
                    made.reasons = ["as the script reports it"]
                    line.level = 1
                    line.limit = reader.iterations if isinstance(reader.iterations, int) else None
                    return made
    return None


def select(program: Program, listener: Listener, found: Found) -> Tuple[Optional[Objective], List[Candidate]]:
    outputs = [one.name for one in found.options if role(one)[0] == OUTPUT]
    made, every = choose(listener, outputs)
    if listener.helper:
        return reported(listener), every
    if made is not None and made.line.level == 0 and not has_epochs(program):
        made.line.assumed = True     # how it is reached was not seen
        made.reasons[-1:] = []
    if made is None or made.line.level != 1 or made.field.split not in ("val", ""):
        library = libraries.objective_of(program, listener, found)
        if library is not None:
            return library, every
    return made, every


def parse(argv: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="espalier init")
    parser.add_argument("script")
    parser.add_argument("-o", "--output")
    parser.add_argument("-n", "--no-ask", action="store_true")
    return parser.parse_args(argv)


def main(argv: Optional[List[str]] = None) -> int:
    args = parse(sys.argv[1:] if argv is None else argv)
    if sys.version_info < (3, 9):
        return fail("python3 is Python %d.%d; init needs 3.9 or later" % sys.version_info[:2])
    if args.output is not None and os.path.lexists(args.output):
        return fail("'%s' exists already" % args.output, "choose another name, or remove it")
    try:
        text = configuration(args.script, args.output, not args.no_ask)
    except SourceError as error:
        return fail("%s:%d: error: %s" % (error.path, error.line, error.text) if error.line else
                    "cannot read '%s': %s" % (error.path, error.text))
    except (RecursionError, MemoryError):
        return fail("cannot read '%s': its expressions are too deep or too large" % args.script)
    return put(text, args.output)


def configuration(script: str, output: Optional[str], asks: bool) -> str:
    program, found, listener = read(script)
    command = command_of(script)
    notes: List[str] = []
    if asks:
        ask_script(script, command_of(script), found, notes)
    else:
        notes.append("Its source was read; nothing of it was run.")
    require(program, found, choose_group(found))
    if "hydra" in found.parsers:
        add_hydra(program, found)
    add_config_flags(program, found, notes)
    file = add_file(program, found) if "hydra" not in found.parsers else None
    for name, value in listener.params.items():
        found.options.append(Option(name, name, default=value, helped=True, type=type(value).__name__))
    listener.absl = "absl" in found.parsers and any(one.startswith("absl") for one in program.imports)
    objective, every = select(program, listener, found)
    plan = Plan(found, objective)
    plan.words = [doubled(one) for one in command]
    if objective is not None and objective.line.quiet and listener.absl and not listener.configured:
        plan.words.append("--verbosity=0")       # or absl prints no such lines
    if objective is not None:
        plan.lengths = length_names(objective.line, program)
    plan.take_all("hydra" in found.parsers)
    libraries.add_words(program, found, plan)
    if file is not None:
        fill(plan, found, file, notes)
    recorded(listener, objective, notes)
    plan.directory = working_directory(output)
    return write(plan, script, notes, listener.helper, listener.distributed and not listener.helper)


def fill(plan: Plan, found: Found, file: str, notes: List[str]) -> None:
    """The script reads its parameters from a file: each trial gets a copy with its own values."""
    if found.config_option is not None:
        plan.words += plan.option_words(found.config_option, doubled(file))
    plan.words = ["espalier", "fill", doubled(file)] + plan.filled + ["--"] + plan.words
    notes.append("`espalier fill` gives each trial a copy of %s with its values (docs/unchanged-scripts.md)." % file)


def working_directory(output: Optional[str]) -> str:
    """Of the trials: this one; "" where that is the directory of the configuration."""
    if output is None:
        return ""
    found = os.path.relpath(os.getcwd(), os.path.realpath(os.path.dirname(output) or "."))
    return "" if found == "." else found


def recorded(listener: Listener, objective: Optional[Objective], notes: List[str]) -> None:
    """What is recorded and not printed."""
    if objective is not None:
        return
    names = [field.word for line in listener.lines if line.how.startswith("record") for field in line.fields if field.goal]
    if names:
        notes.append("The script records %s, but does not print it." % ", ".join(dict.fromkeys(names[:4])))


def put(text: str, output: Optional[str]) -> int:
    data = text.encode("utf-8", "surrogateescape")       # names of files are bytes
    if output is None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)     # or Python tries again at its end
            return fail("cannot write to standard output: %s" % error.strerror)
        return 0
    made = False
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        made = True
        with os.fdopen(file, "wb") as out:
            out.write(data)
    except FileExistsError:
        return fail("'%s' exists already" % output, "choose another name, or remove it")
    except OSError as error:
        if made:
            os.unlink(output)            # half a configuration
        return fail("cannot write '%s': %s" % (output, error.strerror))
    sys.stderr.write("wrote %s; check it with `espalier check %s`\n" % (output, output))
    return 0


__all__ = ["Field", "Line", "main"]

if __name__ == "__main__":
    sys.exit(main())
