"""Configuration files: YAML, JSON and TOML, and how Hydra composes them."""

import ast
import json
import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

from espalier.init.ask import config_of_hydra
from espalier.init.options import Found, Option, parameter_name
from espalier.init.ranges import ITERATIONS, TUNED, role
from espalier.init.source import Argument, Class, Function, Object, Program, Scope, SourceError, Template, is_config, is_constant

FILE_MAX = 1 << 20


class Value:
    """A scalar in a file: where it is, and what it is."""

    def __init__(self, key: str, value: Any, line: int, about: str = ""):
        self.key, self.value, self.line, self.about = key, value, line, about


def scalar(text: str) -> Any:
    """A scalar of YAML 1.2 or TOML."""
    text = text.strip()
    if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    if text in ("", "~", "null", "Null", "NULL", "None"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9][0-9_]*", text):
        return int(text.replace("_", ""))
    if re.fullmatch(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text):
        return float(text.replace("_", ""))
    return text


_key = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z_][\w.\-]*|\"[^\"]*\"|'[^']*')\s*:(?:\s+(?P<value>.*))?$")


def _uncommented(text: str) -> Tuple[str, str]:
    """A value, and the comment after it."""
    at = re.match(r"""((?:"(?:\\.|[^"])*"|'[^']*'|[^#"']|(?<=\S)#)*?)(?:(?:^|\s)#\s*(.*))?$""", text)
    return (at.group(1).rstrip(), at.group(2) or "") if at is not None else (text, "")


def yaml_values(text: str) -> List[Value]:
    """The scalars of nested mappings; lists and other values are left out."""
    found: List[Value] = []
    above: List[Tuple[int, str]] = []
    skipped: Optional[int] = None        # the lines that are indented by more belong to a list or a text
    for at, line in enumerate(text.splitlines(), 1):
        bare = line.rstrip()
        if not bare.strip() or bare.lstrip().startswith("#") or bare.startswith(("---", "%")):
            continue
        indent = len(bare) - len(bare.lstrip(" "))
        if skipped is not None and (indent > skipped or bare.lstrip().startswith("- ")):
            continue
        skipped = None
        match = _key.match(bare)
        if match is None:
            skipped = indent
            continue
        while above and above[-1][0] >= indent:
            above.pop()
        key = match.group("key").strip("\"'")
        value, about = _uncommented(match.group("value") or "")
        path = ".".join([one[1] for one in above] + [key])
        if value == "":
            above.append((indent, key))
        elif value[0] in "[{&*!|>":
            skipped = indent
        else:
            found.append(Value(path, scalar(value), at, about))
    return found


def toml_values(text: str) -> List[Value]:
    found: List[Value] = []
    section = ""
    for at, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        head = re.fullmatch(r"\[\s*([\w.\-]+)\s*\]\s*(?:#.*)?", bare)
        if head is not None:
            section = head.group(1) + "."
            continue
        if bare.startswith("[["):
            section = "["
        match = re.match(r"([\w.\-]+)\s*=\s*(.*)$", bare)
        if match is not None and section != "[":
            value, about = _uncommented(match.group(2))
            if value[:1] not in ("[", "{") and not value.startswith(('"""', "'''")) and value:
                found.append(Value(section + match.group(1), scalar(value), at, about))
    return found


def json_values(text: str) -> List[Value]:
    def walk(value: Any, prefix: str) -> Iterator[Value]:
        for key, one in value.items():
            if isinstance(one, dict):
                yield from walk(one, prefix + key + ".")
            elif not isinstance(one, list):
                yield Value(prefix + key, one, 0)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return list(walk(value, "")) if isinstance(value, dict) else []


def values_of(path: str) -> List[Value]:
    """The scalars of a file by its name; nothing where it cannot be read."""
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            text = file.read(FILE_MAX)
    except OSError:
        return []
    ending = os.path.splitext(path)[1].lower()
    return json_values(text) if ending == ".json" else toml_values(text) if ending == ".toml" else \
        yaml_values(text) if ending in (".yaml", ".yml") else []


def option_of(value: Value, line: int = 0) -> Option:
    """A key as an option that is given as KEY=VALUE."""
    option = Option(value.key, parameter_name(value.key.split(".")[-1]), default=value.value, help=value.about, key=True,
                    line=line or value.line)
    option.type = {bool: "bool", int: "int", float: "float"}.get(type(value.value), "str")
    if value.value == "???":
        option.required, option.default = True, None
    elif isinstance(value.value, str) and "${" in value.value:
        option.default, option.action = None, "interpolated"
    return option


# ---- files that a script reads by itself -----------------------------------------------------------

ENDINGS = (".yaml", ".yml", ".json", ".toml")


def candidates(folder: str) -> List[str]:
    """Configuration files beside a script, as relative paths."""
    found: List[str] = []
    for inner in ("", "config", "configs", "conf"):
        try:
            names = sorted(os.listdir(os.path.join(folder, inner)))
        except OSError:
            continue
        found += [os.path.join(inner, one) for one in names if one.endswith(ENDINGS)
                  and not one.startswith((".", "package", "tsconfig", "pyproject", "environment", "docker"))]
    return found


def add_file(program: Program, found: Found) -> Optional[str]:
    """Options for the keys of the configuration file that the script reads; its path."""
    for reader, path in found.files:
        option = None
        if isinstance(path, Argument):
            option = next((one for one in found.options if one.name == parameter_name(path.name)), None)
            path = option.default if option is not None and isinstance(option.default, str) else None
            if path is None and option is not None:
                there = [one for one in candidates(program.folder)
                         if one.endswith({"json": ".json", "yaml": (".yaml", ".yml"), "OmegaConf": (".yaml", ".yml")}.get(reader, ".toml"))]
                path = there[0] if len(there) == 1 else None
        if not isinstance(path, str) or not path.endswith(ENDINGS):
            continue
        values = values_of(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
        options = [option_of(one) for one in values if not one.key.startswith("_")]
        if not any(role(one)[0] in (TUNED, ITERATIONS) for one in options) or any(one.flag.startswith("--") and
                                                                                 one.name in [o.name for o in options] and one is not option
                                                                                 for one in found.options if role(one)[0] == TUNED):
            continue
        if option is not None:
            found.options.remove(option)
            option.default, option.required = path, False
            found.config_option = option
        short = [one.name for one in options]
        taken = [one.name for one in found.options]
        for one in options:
            if short.count(one.name) > 1 or one.name in taken:
                one.name = parameter_name(one.flag.replace(".", "_"))
            one.filled = not found.from_cli
            found.options.append(one)
        return None if found.from_cli else path
    return None


# ---- ml_collections ------------------------------------------------------------------------------


def fields_of(value: Any, prefix: str = "", depth: int = 0) -> Iterator[Tuple[str, Any]]:
    """The fields of a ConfigDict, or of a dataclass, whose values are known from the source."""
    members = dict(value) if isinstance(value, dict) else dict(value.values)
    if isinstance(value, Object) and isinstance(value.kind, Class):
        for kind in reversed(value.kind.ancestry()):
            for name, one in kind.values.items() if isinstance(kind, Class) else ():
                members.setdefault(name, one)
    for name, one in members.items():
        if not isinstance(name, str) or name.startswith(("_", "(")):
            continue
        if isinstance(one, dict) or (isinstance(one, Object) and (isinstance(one.kind, Class) or is_config(one.kind.name))):
            if depth < 6:
                yield from fields_of(one, prefix + name + ".", depth + 1)
        elif isinstance(one, Object) and one.kind.name.endswith("FieldReference"):
            yield prefix + name, one.values["(arguments)"][0][0] if one.values["(arguments)"][0] else None
        elif is_constant(one):
            yield prefix + name, one


def config_files(program: Program, default: Any) -> List[str]:
    """Those that --config may name, the most usual first: its default, else what lies beside the script."""
    if isinstance(default, str):
        return [default]
    here = os.path.relpath(program.folder)
    found = []
    for inner in ("configs", "config", "."):
        try:
            names = sorted(os.listdir(os.path.join(here, inner)))
        except OSError:
            continue
        found += [os.path.normpath(os.path.join(here, inner, one)) for one in names
                  if one.endswith(".py") and (inner != "." or "conf" in one)]
    return sorted(found, key=lambda one: os.path.basename(one) not in ("default.py", "base.py", "config.py"))


def returned(path: str) -> Any:
    """What get_config() of a file returns, as far as its source shows; the file is not run."""
    path, _, text = path.partition(":")
    try:
        program = Program(path)
    except SourceError:
        return None
    program.run()
    get = program.script.values.get("get_config")
    if not isinstance(get, Function):
        return None
    spec = get.node.args.args
    call = ast.parse("f(%s)" % (repr(text) if text and spec else "")).body[0]
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    found = program.follow(get, call.value, Scope(program.script))
    return found if isinstance(found, (Object, dict)) else None


def add_config_flags(program: Program, found: Found, notes: List[str]) -> None:
    """Options --config.FIELD for the fields of the files in Python that ml_collections' config_flags read."""
    for flag, kind, default in found.config_flags:
        value, option = default, None
        if kind == "config_file":
            option = Option("--" + flag, parameter_name(flag), required=True)
            files = config_files(program, default)
            value, file = next(((one, file) for file in files for one in [returned(file)] if one is not None), (None, ""))
            if file:                         # first on the command line: it says which fields there are
                option = Option("--%s=%s" % (flag, file), parameter_name(flag), given=True)
                if len(files) > 1:
                    notes.append("Of the files that --%s may name, %s was taken: %s." % (flag, file, ", ".join(files)))
            found.options.insert(0, option)
        if isinstance(value, (Object, dict)):
            add_fields(found, flag, list(fields_of(value)))


def add_fields(found: Found, flag: str, fields: List[Tuple[str, Any]]) -> None:
    taken = [one.name for one in found.options]
    last = [name.split(".")[-1] for name, _ in fields]
    for name, one in fields:
        short = name.split(".")[-1]
        option = Option("--%s.%s" % (flag, name), parameter_name(short), default=one)
        if last.count(short) > 1 or option.name in taken:
            option.name = parameter_name(name.replace(".", "_"))
        option.type = {bool: "bool", int: "int", float: "float"}.get(type(one), "str")
        option.many = isinstance(one, (list, tuple, dict))
        found.options.append(option)


# ---- Hydra ---------------------------------------------------------------------------------------


def _defaults(text: str) -> List[Any]:
    """The entries of a defaults list: (group, name), or a name."""
    found: List[Any] = []
    inside = False
    for line in text.splitlines():
        if re.match(r"defaults\s*:", line):
            inside = True
            continue
        if not inside or not line.strip() or line.strip().startswith("#"):
            continue
        entry = re.match(r"\s*-\s*(?:(?:optional|override)\s+)?([\w/@.]+)(?:\s*:\s*([\w./\-]+|null))?\s*(?:#.*)?$", line)
        if entry is None:
            break
        found.append((entry.group(1), entry.group(2)) if entry.group(2) else entry.group(1))
    return found


def composed(folder: str, name: str, package: str = "", depth: int = 0) -> List[Value]:
    """The scalars of a configuration and of those that it names."""
    path = os.path.join(folder, name + ("" if name.endswith((".yaml", ".yml")) else ".yaml"))
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(FILE_MAX)
    except OSError:
        return []
    if re.search(r"^#\s*@package\s+_global_", text, re.M):
        package = ""
    found: Dict[str, Value] = {}
    for entry in _defaults(text) if depth < 6 else []:
        if isinstance(entry, tuple):
            group, chosen = entry
            if chosen == "null" or group.startswith("hydra") or group.startswith("/hydra"):
                continue
            group, _, place = group.lstrip("/").partition("@")
            inner = package + (place or group.replace("/", ".")) + "."
            for one in composed(os.path.join(folder, group), chosen, inner.replace("_global_.", "").replace("_here_.", package), depth + 1):
                found[one.key] = one
        elif entry != "_self_":
            for one in composed(folder, entry, package, depth + 1):
                found[one.key] = one
    for one in yaml_values(text):
        if not one.key.startswith(("defaults", "hydra.")):
            one.key = package + one.key
            found[one.key] = one
    return list(found.values())


def add_hydra(program: Program, found: Found) -> None:
    """The keys that a script with hydra.main can be given: as --help prints them, else as its files have them."""
    text = config_of_hydra(getattr(found, "help", ""))
    named = found.hydra or {}
    folder, name = named.get("config_path"), named.get("config_name")
    values: List[Value] = []
    if isinstance(name, str):
        values = composed(os.path.join(program.folder, folder if isinstance(folder, str) else ""), name)
    if text is not None:
        about = {one.key: one.about for one in values}
        values = yaml_values(text)
        for one in values:
            one.about = about.get(one.key, "")
    options = [option_of(one) for one in values]
    if not options:
        from espalier.init.options import Reader
        reader = Reader.__new__(Reader)
        reader.program, reader.found = program, found
        for one in program.script.values.values():
            if isinstance(one, Class) and one.is_dataclass() and _stored(program, one):
                reader.add_class(one, "", "key")
    short = [one.name for one in options]
    for one in options:
        if short.count(one.name) > 1:
            one.name = parameter_name(one.flag.replace(".", "_"))
        found.options.append(one)


def _stored(program: Program, kind: Class) -> bool:
    """Does ConfigStore get it, by cs.store(name=..., node=Kind)?"""
    named = (program.script.tree,)
    return any(isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "store" and
               kind.node.name in ast.unparse(one) for tree in named for one in ast.walk(tree))


__all__ = ["Template", "add_config_flags", "add_hydra", "composed", "values_of"]
