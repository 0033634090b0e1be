"""Finds the options of a script: of argparse, click, typer, fire, absl, Hydra and parsers of dataclasses."""

import ast
import copy
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from espalier.init.source import (FUNCTIONS, UNKNOWN, Argument, Arguments, Call, Class, Expression, Function, Object, Outside, Program, Scope, Super, Template,
                                  is_constant)


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()      # no default is written; UNKNOWN: one is, which cannot be read


class Option:
    """An option, or a key of a configuration."""

    def __init__(self, flag: str, name: str, **members: Any):
        self.flag = flag                  # "--lr"; of a positional argument and of a key its name
        self.name = name                  # of the parameter
        self.type = ""                    # "int", "float", "str", "bool", or as it is written
        self.action = ""                  # "store_true", "store_false", "both" (--x and --no-x), or as it is written
        self.default: Any = ABSENT
        self.help = ""
        self.group = ""                   # subcommand
        self.rivals = 0                   # number of the mutually exclusive group
        self.choices: Optional[List[Any]] = None
        self.low: Any = None
        self.high: Any = None
        self.positional = self.required = self.many = False
        self.off = ""                     # what turns a switch off; "" nothing
        self.filled = False               # a key of a file that `espalier fill` writes
        self.key = False                  # a key of a configuration: NAME=VALUE
        self.skip = False                 # the writer has dealt with it
        self.helped = False               # the script gets it from espalier's helper, not from its command line
        self.given = False                # a switch that is always written
        self.by_value = False             # a switch that takes True and False as its value
        self.line = 0
        self.parser: Any = None           # of argparse, that it was added to
        self.__dict__.update(members)


class Found:
    """What is known of a script's command line."""

    def __init__(self) -> None:
        self.options: List[Option] = []
        self.groups: List[str] = []                # subcommands, in their order
        self.parsers: List[str] = []               # names of what parses: "argparse", "click", ...
        self.config_option: Optional[Option] = None     # that names the file which is filled
        self.hydra: Optional[Dict[str, Any]] = None
        self.trainer: str = ""                     # a parser that brings the options of a library: "transformers"
        self.from_cli = False                      # OmegaConf takes KEY=VALUE from the command line
        self.files: List[Tuple[str, Any]] = []     # configuration files: how they are read, and their path
        self.config_flags: List[Tuple[str, str, Any]] = []      # of ml_collections: flag, kind, default
        self.partly = False                        # some options are not in the source
        self.help = ""                             # what --help prints


def parameter_name(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", text.lstrip("-").replace("-", "_"))
    return name if name[:1].isalpha() else "p_" + name.lstrip("_")


def type_name(node: Optional[ast.AST]) -> str:
    """Of a type or an annotation, as it is written: Optional[float] is float."""
    if node is None:
        return ""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    inner = re.fullmatch(r"(?:typing\.)?(?:Optional|Annotated|Final)\[(.*?)(?:, .*)?\]", text)
    if inner is not None:
        text = inner.group(1)
    parts = [part.strip() for part in text.split("|") if part.strip() != "None"]
    return parts[0] if len(parts) == 1 else text


def _literals(node: Optional[ast.AST]) -> Optional[List[Any]]:
    """Literal["a", "b"]"""
    if node is None:
        return None
    for one in ast.walk(node):
        if isinstance(one, ast.Subscript) and ast.unparse(one.value).split(".")[-1] == "Literal":
            try:
                value = ast.literal_eval(one.slice)
            except ValueError:
                return None
            return list(value) if isinstance(value, tuple) else [value]
    return None


def plain(value: Any) -> Any:
    """A constant, or UNKNOWN."""
    return value if is_constant(value) else UNKNOWN


def enum_values(kind: Any) -> Optional[List[Any]]:
    if isinstance(kind, Class) and kind.is_a(lambda name: name.split(".")[-1] in ("Enum", "StrEnum", "IntEnum")):
        return [value for value in kind.values.values() if is_constant(value)]
    return None


class Parser:
    """An ArgumentParser, a group of one, or the parser of a subcommand."""

    def __init__(self, group: str = "", rivals: int = 0):
        self.group, self.rivals = group, rivals
        self.lent = ""            # "main" or "subcommand": its options are those of that parser


class Subparsers:
    def __init__(self, group: str):
        self.group = group


def _is_parser(name: str) -> bool:
    last = name.split(".")[-1]
    return last in ("ArgumentParser", "ArgParser", "HfArgumentParser", "Tap", "ArgParse", "LightningArgumentParser",
                    "TrlParser") or (last.endswith("ArgumentParser") and last[:1].isupper())


def _is_type(name: str, value: str) -> bool:
    return value == name or value.endswith("." + name)


class Reader:
    """Listens to the calls of a program and collects the options."""

    def __init__(self, program: Program):
        self.program, self.found = program, Found()
        self.rivals = 0
        self.commands: List[Tuple[Function, str]] = []          # of click
        self.files: List[Tuple[str, Any]] = []                  # configuration files: how they are read, and their path
        self.typer: List[Function] = []
        self.apps: List[Any] = []
        program.subscribers.append(self.hear)
        program.on_function.append(self.see_function)

    def add(self, option: Option) -> None:
        option.default = plain(option.default) if option.default is not ABSENT else ABSENT
        for other in self.found.options:
            if other.flag == option.flag and other.group == option.group:
                return
        self.found.options.append(option)

    def parses(self, name: str) -> None:
        if name not in self.found.parsers:
            self.found.parsers.append(name)

    # ---- calls --------------------------------------------------------------------------------

    def hear(self, call: Call) -> Any:
        last = call.name.split(".")[-1]
        if call.attribute in ("add_argument", "add_arg", "add") and not isinstance(call.target, Function) and \
                (call.attribute == "add_argument" or self.parser_of(call.receiver) is not None):
            return self.add_argument(call)
        if call.attribute in ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser",
                              "set_defaults", "add_dataclass_arguments", "add_arguments"):
            if not isinstance(call.target, Function):
                return self.structure(call)
        if call.name and _is_parser(call.name):
            return self.make_parser(call, last)
        if call.attribute in ("parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_args_and_config"):
            self.parses("argparse")
            if isinstance(call.receiver, Object) and call.receiver.is_a(lambda name: name.split(".")[-1] == "Tap"):
                self.add_class(call.receiver.kind, "", "argparse")
            if not isinstance(call.target, Function):
                call.arguments()
                return (Arguments(), UNKNOWN) if call.attribute == "parse_known_args" else \
                    UNKNOWN if "dataclasses" in call.attribute else Arguments()
        if last in ("mark_flag_as_required", "mark_flags_as_required"):
            args, _ = call.arguments()
            names = args[0] if args and isinstance(args[0], (list, tuple)) else args
            for option in self.found.options:
                option.required = option.required or option.flag[2:] in [one for one in names if isinstance(one, str)]
        if last.startswith("DEFINE_") or call.attribute.startswith("DEFINE_"):
            return self.absl(call, call.attribute or last)
        if call.name in ("fire.Fire", "Fire"):
            return self.fire(call)
        if call.name in ("typer.run",):
            args, _ = call.arguments()
            self.typer += [one for one in args if isinstance(one, Function)]
            self.parses("typer")
        if call.name in ("tyro.cli", "simple_parsing.parse", "jsonargparse.CLI", "jsonargparse.auto_cli", "draccus.parse",
                         "pyrallis.parse", "chz.entrypoint"):
            return self.dataclass_cli(call)
        if last in ("safe_load", "load", "full_load", "loads", "parse_file", "open_yaml") and \
                call.name.split(".")[0] in ("yaml", "json", "tomllib", "toml", "tomli", "OmegaConf", "omegaconf", "ruamel"):
            path = self.path_of(call)
            if path is not None:
                self.files.append((call.name.split(".")[-2] if "." in call.name else call.name, path))
        if call.attribute == "from_cli" or (last == "from_cli"):
            self.found.from_cli = True
        if call.name == "exec" and "open(" in ast.unparse(call.node) and call.scope.function is None:
            return self.globals(call)
        if last == "LightningCLI":
            self.parses("lightning")
            self.found.partly = True
            self.found.trainer = "lightning"
            if call.arguments()[1].get("run") is not False:
                self.found.groups.append("fit")
        return None

    def path_of(self, call: Call) -> Any:
        """Of the file that a call reads: a text, an Argument, or None."""
        if not call.node.args:
            return None
        node: Any = call.node.args[0]
        scope = call.scope
        for _ in range(6):
            value = self.program.value(node, scope)
            if isinstance(value, (str, Argument)):
                return value
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("read", "read_text", "open", "read_bytes") \
                    and not (isinstance(node.func.value, ast.Name) and node.func.value.id in ("io", "codecs", "fsspec")):
                node = node.func.value
            elif isinstance(node, ast.Call) and node.args:
                node = node.args[0]
            elif isinstance(node, ast.Name) and node.id in scope.origins:
                node = scope.origins[node.id]
            else:
                return None
        return None

    def parser_of(self, value: Any) -> Optional[Parser]:
        if isinstance(value, Parser):
            return value
        if isinstance(value, Super):
            value = value.object
        if isinstance(value, Object) and value.is_a(_is_parser):
            return value.values.setdefault("(parser)", Parser())
        return None

    def make_parser(self, call: Call, last: str) -> Any:
        args, named = call.arguments()
        if last in ("HfArgumentParser", "TrlParser"):
            kinds = args[0] if args else named.get("dataclass_types", named.get("dataclass_types_or_dataclass", UNKNOWN))
            for kind in kinds if isinstance(kinds, (list, tuple)) else [kinds]:
                if isinstance(kind, Class):
                    self.add_class(kind, "", "hf")
                if isinstance(kind, Outside) or (isinstance(kind, Class) and kind.is_a(lambda n: "TrainingArguments" in n)):
                    self.found.trainer = "transformers"
            self.parses("argparse")
        for parent in self.parents(named):
            parent.lent = "main"
        return Parser()

    def parents(self, named: Dict[str, Any]) -> List[Parser]:
        given = named.get("parents")
        found = [self.parser_of(one) for one in given] if isinstance(given, (list, tuple)) else []
        return [one for one in found if one is not None]

    def structure(self, call: Call) -> Any:
        parser = self.parser_of(call.receiver)
        group = parser.group if parser is not None else ""
        args, named = call.arguments()
        if call.attribute == "add_argument_group":
            return Parser(group, parser.rivals if parser is not None else 0)
        if call.attribute == "add_mutually_exclusive_group":
            self.rivals += 1
            return Parser(group, self.rivals)
        if call.attribute == "add_subparsers":
            return Subparsers(group)
        if call.attribute == "add_parser":
            name = args[0] if args and isinstance(args[0], str) else named.get("name", UNKNOWN)
            if not isinstance(name, str):
                return Parser(group)
            if name not in self.found.groups:
                self.found.groups.append(name)
            for parent in self.parents(named):
                parent.lent = parent.lent or "subcommand"
                for option in [one for one in self.found.options if one.parser is parent and one.group == parent.group]:
                    twin = copy.copy(option)
                    twin.group, twin.parser = name, None
                    self.add(twin)
            return Parser(name)
        if call.attribute == "set_defaults":
            for option in self.found.options:
                if option.name in named and option.group == group:
                    option.default, option.required = plain(named[option.name]), False
            return None
        for kind in args:
            if isinstance(kind, Class) and kind.is_dataclass():
                self.add_class(kind, group, "argparse")
        return None

    # ---- argparse -----------------------------------------------------------------------------

    def add_argument(self, call: Call) -> Any:
        parser = self.parser_of(call.receiver) or Parser()
        args, named = call.arguments()
        flags = [one for one in args if isinstance(one, str)]
        if not flags:
            self.found.partly = True
            return None
        nodes = {word.arg: word.value for word in call.node.keywords if word.arg}
        flag = max(flags, key=lambda one: (one.startswith("--"), -flags.index(one)))
        positional = not flag.startswith("-")
        name = named.get("dest") if isinstance(named.get("dest"), str) else flag
        option = Option(flag, parameter_name(str(name)), group=parser.group, rivals=parser.rivals, line=call.line,
                        positional=positional)
        option.help = named["help"] if isinstance(named.get("help"), str) else ""
        option.parser = parser
        option.type = self.type_of(named.get("type", ABSENT), nodes.get("type"), call.scope)
        option.default = named.get("default", ABSENT)
        option.required = named.get("required") is True or positional
        option.many = "nargs" in named and named["nargs"] not in ("?", None)
        if positional and named.get("nargs") in ("?", "*", UNKNOWN):
            option.required = False
            option.default = option.default if option.default is not ABSENT else None
        choices = named.get("choices", ABSENT)
        if choices is not ABSENT:
            option.choices = list(choices) if isinstance(choices, (list, tuple, dict, range)) and is_constant(list(choices)) \
                and len(choices) <= 50 else enum_values(choices) or []
        action = named.get("action", "")
        if isinstance(action, Outside):
            action = action.name
        if isinstance(action, str) and action.split(".")[-1] == "BooleanOptionalAction":
            option.action, option.off = "both", "--no-" + flag[2:]
        elif action in ("store", None):
            option.action = ""
        elif isinstance(action, str):
            option.action = action
            if action == "store_true" and option.default is ABSENT:
                option.default = False
            if action == "store_false" and option.default is ABSENT:
                option.default = True
        else:
            option.action = "other"
        self.add(option)
        return Object(Outside("argparse.Action"))

    def type_of(self, value: Any, node: Optional[ast.AST], scope: Scope) -> str:
        if value is ABSENT or value is None:
            return ""
        if isinstance(value, Outside):
            return value.name.split(".")[-1]
        if isinstance(value, Function) and not isinstance(value.node, ast.Lambda):
            text = ast.unparse(value.node).lower()
            if "float(" in text and "true" not in text:
                return "float" if "split" not in text else value.node.name
            return value.node.name
        return ast.unparse(node) if node is not None else "other"

    # ---- dataclasses --------------------------------------------------------------------------

    def add_class(self, kind: Class, group: str, style: str, prefix: str = "") -> None:
        """style: how its parser writes them: "argparse" --a_b, "hf" the same with true/false values, "tyro" --a-b."""
        for one in reversed(kind.ancestry()):
            if not isinstance(one, Class):
                continue
            for statement in one.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    self.add_field(one, statement, group, style, prefix, kind)
                elif isinstance(statement, ast.Assign) and style == "chz":
                    self.found.partly = True

    def add_field(self, kind: Class, node: ast.AnnAssign, group: str, style: str, prefix: str, last: Class) -> None:
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        if name.startswith("_") or "ClassVar" in ast.unparse(node.annotation) or "InitVar" in ast.unparse(node.annotation):
            return
        scope = Scope(kind.module)
        annotation = self.program.value(node.annotation, scope)
        default = last.get(name) if node.value is not None or name in last.values else ABSENT
        calls = [one for one in ast.walk(node.value) if isinstance(one, ast.Call)] if node.value is not None else []
        words = {word.arg: word.value for one in calls for word in one.keywords if word.arg}
        if calls and ast.unparse(calls[0].func).split(".")[-1] in ("field", "Field") and \
                "default" not in words and "default_factory" not in words:
            default = self.program.value(calls[0].args[0], scope) if calls[0].args else ABSENT
        if isinstance(annotation, Class) and annotation.is_dataclass():
            self.add_class(annotation, group, style, prefix + name + ".")
            return
        text = prefix + name
        flag = "--" + (text.replace("_", "-") if style == "tyro" else text)
        option = Option(flag, parameter_name(text.replace(".", "_")), type=type_name(node.annotation), default=default,
                        group=group, line=node.lineno)
        if style == "key":
            option.flag, option.key = text, True
        option.choices = _literals(node.annotation) or enum_values(annotation)
        option.many = bool(re.match(r"(typing\.)?(List|list|Tuple|tuple|Sequence|Dict|dict|Set|set)\b", option.type))
        if option.default is ABSENT:
            option.required = not ast.unparse(node.annotation).startswith("Optional")
        option.help = self.field_help(words, scope)
        option.by_value = style == "hf"
        if option.type == "bool" and style in ("argparse", "tyro"):
            option.action = "both"
            option.off = "--" + (prefix.replace("_", "-") + "no-" + name.replace("_", "-") if style == "tyro" else "no" + name)
            if style == "argparse":
                option.action = "other"
        self.add(option)

    def field_help(self, words: Dict[str, ast.AST], scope: Scope) -> str:
        for name in ("help", "description"):
            if name in words:
                text = self.program.value(words[name], scope)
                if isinstance(text, str):
                    return text
        metadata = self.program.value(words["metadata"], scope) if "metadata" in words else None
        return metadata["help"] if isinstance(metadata, dict) and isinstance(metadata.get("help"), str) else ""

    def dataclass_cli(self, call: Call) -> Any:
        args, named = call.arguments()
        style = "tyro" if call.name.startswith("tyro") else "key" if call.name.startswith("chz") else "argparse"
        for kind in args + list(named.values()):
            if isinstance(kind, Class):
                self.add_class(kind, "", style)
                made = Object(kind)
                self.parses(call.name.split(".")[0])
                return made
            if isinstance(kind, Function):
                self.parses(call.name.split(".")[0])
                self.add_signature(kind, "", style)
                self.program.follow(kind, None, call.scope)
                return UNKNOWN
        self.found.partly = True
        return None

    # ---- signatures ---------------------------------------------------------------------------

    def add_signature(self, function: Function, group: str, style: str) -> None:
        """Options that are the parameters of a function: of fire, typer, tyro, jsonargparse."""
        spec = function.node.args
        scope = Scope(function.module)
        args = spec.posonlyargs + spec.args
        pairs = [(one, node) for one, node in zip(args, [None] * (len(args) - len(spec.defaults)) + list(spec.defaults))]
        pairs += list(zip(spec.kwonlyargs, spec.kw_defaults))
        for one, node in pairs:
            if one.arg in ("self", "cls", "ctx"):
                continue
            default = self.program.value(node, scope) if node is not None else ABSENT
            option = Option("--" + one.arg, parameter_name(one.arg), type=type_name(one.annotation), default=default,
                            group=group, line=function.node.lineno)
            option.choices = _literals(one.annotation) or \
                enum_values(self.program.value(one.annotation, scope) if one.annotation is not None else None)
            if style == "typer":
                self.typer_parameter(option, one, node, scope)
            elif style == "tyro":
                option.flag = "--" + one.arg.replace("_", "-")
                if option.type == "bool" or isinstance(default, bool):
                    option.action, option.off = "both", "--no-" + one.arg.replace("_", "-")
            option.by_value = style == "fire" or option.by_value
            if default is ABSENT and style != "typer":
                option.required = True
            if isinstance(default, (list, tuple, dict)):
                option.many = True
            self.add(option)

    def fire(self, call: Call) -> Any:
        args, named = call.arguments()
        self.parses("fire")
        target = args[0] if args else named.get("component", UNKNOWN)
        if isinstance(target, Function):
            self.add_signature(target, "", "fire")
            self.program.follow(target, None, call.scope)
        elif isinstance(target, dict):
            for name, one in target.items():
                if isinstance(one, Function) and isinstance(name, str):
                    self.found.groups.append(name)
                    self.add_signature(one, name, "fire")
                    self.program.follow(one, None, call.scope)
        elif isinstance(target, (Class, Object)):
            kind = target if isinstance(target, Class) else target.kind
            start = kind.get("__init__") if isinstance(kind, Class) and isinstance(target, Class) else None
            if isinstance(start, Function):
                self.add_signature(start, "", "fire")
            made = Object(kind) if isinstance(target, Class) else target
            for name, one in (kind.values.items() if isinstance(kind, Class) else ()):
                if isinstance(one, Function) and not name.startswith("_"):
                    self.found.groups.append(name)
                    self.add_signature(one, name, "fire")
                    self.program.follow(one.bind(made), None, call.scope)
        else:
            self.found.partly = True
        return UNKNOWN

    def globals(self, call: Call) -> Any:
        """exec(open("configurator.py").read()): --NAME=VALUE replaces a variable of the module."""
        text = ast.unparse(call.node)
        file = next((one.value for one in ast.walk(call.node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
                     and one.value.endswith(".py")), "")
        if "configurator" not in text and "sys.argv" not in self.text_of(file):
            return None
        self.parses("globals")
        for name, value in list(call.scope.module.values.items()):
            if isinstance(value, (bool, int, float, str)) and not name.startswith("_"):
                self.add(Option("--" + name, parameter_name(name), type=type(value).__name__, default=value, by_value=True))
        return UNKNOWN

    def text_of(self, file: str) -> str:
        try:
            with open(os.path.join(self.program.folder, file), encoding="utf-8", errors="replace") as found:
                return found.read(1 << 20)
        except OSError:
            return ""

    # ---- click and typer ----------------------------------------------------------------------

    def see_function(self, function: Function, scope: Scope) -> None:
        for decorator in getattr(function.node, "decorator_list", []):
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            target = self.program.value(node, scope)
            name = target.name if isinstance(target, Outside) else ""
            last = node.attr if isinstance(node, ast.Attribute) else name.split(".")[-1]
            base = self.program.value(node.value, scope) if isinstance(node, ast.Attribute) else UNKNOWN
            if last == "main" and "hydra" in (name or ast.unparse(node)):
                self.see_hydra(function, decorator, scope)
            elif name in ("click.command", "click.group", "rich_click.command", "rich_click.group"):
                self.see_command(function, decorator, scope, "" if last == "group" or not self.is_grouped(function) else None)
            elif last in ("command", "callback") and isinstance(base, Object) and base.is_a(lambda n: n.endswith("Typer")):
                self.typer_command(function, decorator, scope, last)
            elif last in ("command", "group") and isinstance(base, Function):       # @cli.command()
                self.see_command(function, decorator, scope, None)
            elif last in ("command", "group") and isinstance(node, ast.Attribute) and ast.unparse(node.value) == "click":
                self.see_command(function, decorator, scope, "")

    def is_grouped(self, function: Function) -> bool:
        """Is the command added to a group by group.add_command(command)?"""
        name = function.node.name
        return any("add_command(" + name in ast.unparse(one) for one in ast.walk(function.module.tree)
                   if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "add_command")

    def see_command(self, function: Function, decorator: ast.AST, scope: Scope, group: Optional[str]) -> None:
        if group is None:
            name = function.node.name
            given = decorator.args if isinstance(decorator, ast.Call) else []
            text = self.program.value(given[0], scope) if given else None
            for word in decorator.keywords if isinstance(decorator, ast.Call) else []:
                if word.arg == "name":
                    text = self.program.value(word.value, scope)
            group = text if isinstance(text, str) else name.lower().replace("_", "-")
            self.found.groups.append(group)
        self.parses("click")
        for one in function.node.decorator_list:
            target = self.program.value(one.func if isinstance(one, ast.Call) else one, scope)
            if isinstance(one, ast.Call) and isinstance(target, Outside) and target.name.split(".")[0] in ("click", "rich_click"):
                self.click_option(one, target.name.split(".")[-1], group, scope)
            elif isinstance(target, Function):        # a decorator of the script that adds options
                for inner in ast.walk(target.node):
                    if isinstance(inner, ast.Call):
                        made = self.program.value(inner.func, Scope(target.module))
                        if isinstance(made, Outside) and made.name in ("click.option", "click.argument"):
                            self.click_option(inner, made.name.split(".")[-1], group, Scope(target.module))
        self.commands.append((function, group))

    def click_option(self, node: ast.Call, kind: str, group: str, scope: Scope) -> None:
        args, named = self.program.arguments(node, scope)
        texts = [one for one in args if isinstance(one, str)]
        if kind not in ("option", "argument") or not texts:
            return
        nodes = {word.arg: word.value for word in node.keywords if word.arg}
        off = ""
        flags = []
        for text in texts:
            first, _, second = text.partition("/")
            if second and first.startswith("-"):
                off = second.strip()
            flags.append(first.strip() if text.startswith("-") else text)
        dashed = [one for one in flags if one.startswith("-")]
        flag = max(dashed, key=lambda one: (one.startswith("--"), -dashed.index(one))) if dashed else flags[0]
        names = [one for one in flags if not one.startswith("-")]
        option = Option(flag, parameter_name(names[0] if names and dashed else flag), group=group, line=node.lineno,
                        positional=kind == "argument")
        option.help = named["help"] if isinstance(named.get("help"), str) else ""
        option.default = named.get("default", ABSENT)
        option.required = named.get("required") is True or \
            (kind == "argument" and named.get("required") is not False and option.default is ABSENT)
        option.many = named.get("multiple") is True or named.get("nargs", 1) not in (1, None)
        self.click_type(option, nodes.get("type"), scope)
        if off:
            option.action, option.off = "both", off
        elif named.get("is_flag") is True:
            option.action = "store_true" if option.default in (ABSENT, False) else "other"
            option.default = False if option.default is ABSENT else option.default
        elif named.get("count") is True:
            option.action = "count"
        self.add(option)

    def click_type(self, option: Option, node: Optional[ast.AST], scope: Scope) -> None:
        if node is None:
            return
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).split(".")[-1]
            args, named = self.program.arguments(node, scope)
            if name == "Choice" and args and is_constant(args[0]):
                option.choices = list(args[0])
            elif name == "Choice":
                option.choices = enum_values(args[0]) if args and enum_values(args[0]) else []
            elif name in ("FloatRange", "IntRange"):
                option.type = "float" if name == "FloatRange" else "int"
                option.low = plain(named.get("min", args[0] if args else None))
                option.high = plain(named.get("max", args[1] if len(args) > 1 else None))
            else:
                option.type = name
            return
        option.type = {"INT": "int", "FLOAT": "float", "STRING": "str", "BOOL": "bool"}.get(
            ast.unparse(node).split(".")[-1], ast.unparse(node))
        if option.type.startswith(("(", "[")):
            option.many = True

    def typer_command(self, function: Function, decorator: ast.AST, scope: Scope, last: str) -> None:
        name = function.node.name.lower().replace("_", "-")
        if isinstance(decorator, ast.Call) and decorator.args:
            text = self.program.value(decorator.args[0], scope)
            name = text if isinstance(text, str) else name
        self.parses("typer")
        self.apps.append((function, name, last))

    def typer_parameter(self, option: Option, one: ast.arg, node: Optional[ast.AST], scope: Scope) -> None:
        """default = typer.Option(0.1, "--lr"), or Annotated[float, typer.Option()] = 0.1"""
        calls = [c for part in (node, one.annotation) if part is not None for c in ast.walk(part) if isinstance(c, ast.Call)]
        calls = [c for c in calls if ast.unparse(c.func).split(".")[-1] in ("Option", "Argument")]
        option.flag = "--" + one.arg.replace("_", "-")
        kind = ""
        if calls:
            kind = ast.unparse(calls[0].func).split(".")[-1]
            args, named = self.program.arguments(calls[0], scope)
            texts = [text for text in args if isinstance(text, str) and text.startswith("-")]
            in_default = node is not None and any(c is calls[0] for c in ast.walk(node))
            if in_default:
                option.default = args[0] if args and not (isinstance(args[0], str) and args[0].startswith("-")) else \
                    named.get("default", ABSENT)
                if option.default is Ellipsis:
                    option.default = ABSENT
            if texts:
                first, _, second = max(texts, key=lambda text: text.startswith("--")).partition("/")
                option.flag, option.off = first, second
            option.low, option.high = plain(named.get("min")), plain(named.get("max"))
            option.help = named["help"] if isinstance(named.get("help"), str) else ""
        option.positional = kind == "Argument" or (not kind and option.default is ABSENT)
        if option.positional:
            option.flag = one.arg
        option.required = option.default is ABSENT
        if (option.type == "bool" or isinstance(option.default, bool)) and not option.positional:
            option.off = option.off or "--no-" + option.flag[2:]
            option.action = "both"

    # ---- absl ---------------------------------------------------------------------------------

    def absl(self, call: Call, kind: str) -> Any:
        args, named = call.arguments()
        values = dict(zip(("name", "default"), args))
        values.update(named)
        name = values.get("name")
        if not isinstance(name, str) or not kind.startswith("DEFINE_"):
            return None
        self.parses("absl")
        kind = kind[len("DEFINE_"):]
        if kind in ("config_file", "config_dict", "config_dataclass"):       # of ml_collections' config_flags
            self.found.config_flags.append((name, kind, values.get("default", named.get("config", None))))
            return Object(Outside("absl.flags.FlagHolder"))
        option = Option("--" + name, parameter_name(name), default=values.get("default", ABSENT), line=call.line)
        option.type = {"float": "float", "integer": "int", "string": "str", "bool": "bool", "boolean": "bool", "enum": "str"}.get(
            kind, kind)
        rest = args[2:]
        if kind == "enum":
            option.choices = list(rest[0]) if rest and is_constant(rest[0]) and isinstance(rest[0], (list, tuple)) else \
                (list(named["enum_values"]) if is_constant(named.get("enum_values")) and named.get("enum_values") else [])
            rest = rest[1:]
        text = rest[0] if rest else named.get("help")
        option.help = text if isinstance(text, str) else ""
        option.low, option.high = plain(named.get("lower_bound")), plain(named.get("upper_bound"))
        if option.type == "bool":
            option.action, option.off = "both", "--no" + name
        if option.type not in ("float", "int", "str", "bool"):
            option.many = True
        option.required = named.get("required") is True
        self.add(option)
        return Object(Outside("absl.flags.FlagHolder"))

    # ---- Hydra --------------------------------------------------------------------------------

    def see_hydra(self, function: Function, decorator: ast.AST, scope: Scope) -> None:
        named: Dict[str, Any] = {}
        if isinstance(decorator, ast.Call):
            args, named = self.program.arguments(decorator, scope)
            named = dict(zip(("config_path", "config_name"), args), **named)
        self.found.hydra = dict(named)
        self.parses("hydra")
        self.commands.append((function, ""))

    # ---- after the script ---------------------------------------------------------------------

    def finish(self) -> Found:
        commands = [one for one in self.apps if one[2] == "command"]
        for function, name, last in self.apps:
            alone = len(commands) == 1 and not any(one[2] == "callback" for one in self.apps)
            group = "" if last == "callback" or alone else name
            if group:
                self.found.groups.append(group)
            self.add_signature(function, group, "typer")
            self.program.follow(function, None, Scope(function.module))
        for function in self.typer:
            self.add_signature(function, "", "typer")
            self.program.follow(function, None, Scope(function.module))
        for function, _ in self.commands:
            if function.node not in self.program.followed:
                self.program.follow(function, None, Scope(function.module))
        self.main_functions()
        self.found.files = self.files
        self.found.options = [one for one in self.found.options if one.parser is None or one.parser.lent != "subcommand"]
        return self.found

    def main_functions(self) -> None:
        """What absl's app.run(main) and the like call."""
        main = self.program.script.values.get("main")
        if isinstance(main, Function) and main.node not in self.program.followed:
            self.program.follow(main, None, Scope(main.module))


__all__ = ["ABSENT", "Call", "Expression", "FUNCTIONS", "Found", "Option", "Reader", "Template", "UNKNOWN", "parameter_name"]
