"""Follows the source of a script without running it: constants, calls, loops.

Program interprets the script's statements in order.  What is not known from the source is UNKNOWN: then both branches of an if
are followed, and a loop is followed once.  Modules that lie beside the script are followed into; all others are external names.
Subscribers of Program (options, lines of output) see each call with its arguments.
"""

import ast
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

SCRIPT_MAX = 4 << 20     # bytes of one file
MODULES_MAX = 60         # files that are followed into
STEPS_MAX = 400000       # expressions that are evaluated
DEPTH_MAX = 24           # calls within calls
INNER_MAX = 500          # functions in functions
ITEMS_MAX = 200          # elements of a literal that a loop runs over
LENGTH_MAX = 10000       # characters or elements of a value, those of its elements included

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class SourceError(Exception):
    """A file that cannot be read as Python."""

    def __init__(self, path: str, line: int, text: str):
        super().__init__(text)
        self.path, self.line, self.text = path, line, text


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        raise ValueError("unknown")


UNKNOWN: Any = _Unknown()


class Outside:
    """A name of a module that is not followed: argparse.ArgumentParser."""

    def __init__(self, name: str):
        self.name = name


class Argument:
    """The value of an option of the command line."""

    def __init__(self, name: str):
        self.name = name


class Arguments:
    """What a parser returns: an Argument for each attribute."""


class Method:
    """A method of something that is known: add = parser.add_argument"""

    def __init__(self, receiver: Any, name: str):
        self.receiver, self.name = receiver, name


class Hole:
    """A place of a text where a value is printed."""

    def __init__(self, node: Optional[ast.AST], spec: str = "", padded: bool = False, scope: Any = None):
        self.node, self.spec, self.padded, self.scope = node, spec, padded, scope
        self.split = ""                  # "val", "test" or "train", by what the value was computed from
        self.tensor = False              # a tensor of PyTorch, which prints as tensor(0.25)


class Template:
    """A text with holes."""

    def __init__(self, parts: List[Any]):
        self.parts: List[Any] = []
        for part in parts:
            if isinstance(part, str) and self.parts and isinstance(self.parts[-1], str):
                self.parts[-1] += part
            elif part != "":
                self.parts.append(part)


class Json:
    """A text that is JSON: of a dict with known keys."""

    def __init__(self, value: Dict[str, Any]):
        self.value = value


class Function:
    def __init__(self, node: Any, module: "Module", scope: Optional["Scope"] = None, bound: Any = None):
        self.node, self.module, self.scope, self.bound = node, module, scope, bound
        self.owner: Any = None           # the class that it is defined in

    def bind(self, bound: Any) -> "Function":
        made = Function(self.node, self.module, self.scope, bound)
        made.owner = self.owner
        return made


class Class:
    def __init__(self, node: ast.ClassDef, module: "Module", bases: List[Any]):
        self.node, self.module, self.bases = node, module, bases
        self.values: Dict[str, Any] = {}

    def ancestry(self) -> List[Any]:
        """Itself and its bases, the nearest first."""
        found: List[Any] = [self]
        for base in self.bases:
            found += base.ancestry() if isinstance(base, Class) else [base]
        return found

    def get(self, name: str) -> Any:
        for one in self.ancestry():
            if isinstance(one, Class) and name in one.values:
                return one.values[name]
        return UNKNOWN

    def is_a(self, test: Callable[[str], bool]) -> bool:
        """Is one of its bases an external class whose name passes the test?"""
        return any(isinstance(one, Outside) and test(one.name) for one in self.ancestry())

    def is_dataclass(self) -> bool:
        return any("dataclass" in ast.unparse(d) or "attr.s" in ast.unparse(d) or "pydantic" in ast.unparse(d)
                   for d in self.node.decorator_list) or \
            any(isinstance(one, Class) and one is not self and one.is_dataclass() for one in self.ancestry())


class Object:
    """An instance of a class of the script, or of an external one."""

    def __init__(self, kind: Any):
        self.kind = kind
        self.values: Dict[str, Any] = {}

    def is_a(self, test: Callable[[str], bool]) -> bool:
        return self.kind.is_a(test) if isinstance(self.kind, Class) else test(self.kind.name)


class Super:
    """super() in a method: the object, and the class whose bases are meant."""

    def __init__(self, object: Any, owner: Any):
        self.object, self.owner = object, owner

    def get(self, name: str) -> Any:
        every = self.object.kind.ancestry() if isinstance(self.object.kind, Class) else []
        at = every.index(self.owner) + 1 if self.owner in every else len(every)
        for one in every[at:]:
            if isinstance(one, Class) and name in one.values:
                found = one.values[name]
                return found.bind(self.object) if isinstance(found, Function) else found
        return UNKNOWN


class Module:
    def __init__(self, path: str, name: str, is_script: bool):
        self.path, self.name, self.is_script = path, name, is_script
        self.values: Dict[str, Any] = {}
        self.tree = read_tree(path)


class Scope:
    """The variables of a function that is being followed."""

    def __init__(self, module: Module, function: Optional[Function] = None, values: Optional[Dict[str, Any]] = None):
        self.module, self.function = module, function
        self.values = module.values if values is None else values
        self.outer: Optional[Scope] = function.scope if function is not None else None
        self.origins: Dict[str, ast.AST] = {}
        self.result: Any = UNKNOWN
        self.results = 0
        self.returned = False


class Call:
    """A call that a subscriber may be interested in."""

    def __init__(self, program: "Program", node: ast.Call, scope: Scope, target: Any, attribute: str, receiver: Any):
        self.program, self.node, self.scope = program, node, scope
        self.target, self.attribute, self.receiver = target, attribute, receiver
        self.name = target.name if isinstance(target, Outside) else ""

    @property
    def line(self) -> int:
        return self.node.lineno

    def arguments(self) -> Tuple[List[Any], Dict[str, Any]]:
        return self.program.arguments(self.node, self.scope)


def read_tree(path: str) -> ast.Module:
    try:
        with open(path, "rb") as file:
            data = file.read(SCRIPT_MAX + 1)
    except OSError as error:
        raise SourceError(path, 0, error.strerror or str(error)) from None
    if len(data) > SCRIPT_MAX:
        raise SourceError(path, 0, "is larger than %d MiB" % (SCRIPT_MAX >> 20))
    try:
        return ast.parse(data, path)
    except SyntaxError as error:
        raise SourceError(path, error.lineno or 1, "Python cannot read it: %s" % error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(path, 1, "Python cannot read it: %s" % error) from None


def assigned_names(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id


_SAFE: Dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict, "set": set,
                         "len": len, "min": min, "max": max, "abs": abs, "sum": sum, "sorted": sorted, "range": range,
                         "reversed": lambda x: list(reversed(x)), "enumerate": lambda x, start=0: list(enumerate(x, start)),
                         "zip": lambda *x: list(zip(*x)), "round": round,
                         "math.log": __import__("math").log, "math.sqrt": __import__("math").sqrt, "math.exp": __import__("math").exp,
                         "os.path.join": os.path.join, "os.path.basename": os.path.basename, "os.path.dirname": os.path.dirname,
                         "pathlib.Path": str, "np.log": __import__("math").log}
_METHODS = {"lower", "upper", "strip", "split", "join", "replace", "keys", "values", "items", "get", "copy", "title",
            "capitalize", "startswith", "endswith", "index", "count", "lstrip", "rstrip", "splitlines"}
_WRITING = {"append", "extend", "update", "setdefault", "insert", "pop"}
_OPERATORS: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a ** b, ast.LShift: lambda a, b: a << b, ast.RShift: lambda a, b: a >> b,
    ast.BitOr: lambda a, b: a | b, ast.BitAnd: lambda a, b: a & b}
_COMPARISONS: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b, ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b}


def merged(one: Any, other: Any) -> Any:
    """A value that is one or the other.  A text that was added to is the longer one."""
    if one is other or (is_constant(one) and is_constant(other) and type(one) is type(other) and one == other):
        return one
    for long, short in ((one, other), (other, one)):
        if isinstance(long, Template) and isinstance(short, (str, Template)):
            parts = [short] if isinstance(short, str) else short.parts
            whole = "".join(part if isinstance(part, str) else "\0" for part in long.parts)
            if whole.startswith("".join(part if isinstance(part, str) else "\0" for part in parts)):
                return long
        if short is UNKNOWN or short is None or isinstance(short, Argument):
            return long if isinstance(long, (Template, Object, Class, Function, dict, list)) else UNKNOWN
        if isinstance(short, (Object, Class, Function, dict)):
            return short
    return UNKNOWN


def is_constant(value: Any) -> bool:
    """Is it known, with all in it?  A value that holds itself, or has very many elements, is not."""
    left, count = [value], 0
    while left:
        one = left.pop()
        count += 1
        if count > LENGTH_MAX:
            return False
        if isinstance(one, (list, tuple, set, frozenset)):
            left += one
        elif isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif not (one is None or isinstance(one, (bool, int, float, str, bytes, range))):
            return False
    return True


def limited(value: Any) -> Any:
    """A value, or UNKNOWN where it is so large that statements that double it would not end."""
    if isinstance(value, Template):
        size = sum(len(one) if isinstance(one, str) else 1 for one in value.parts)
    else:
        size = len(value) if isinstance(value, (str, bytes, list, tuple, dict)) else 0
    return UNKNOWN if size > LENGTH_MAX else value


def dataclass_fields(value: Any) -> Dict[str, Object]:
    """What dataclasses.fields() returns, by name: each has name, type and default."""
    kind = value.kind if isinstance(value, Object) else value
    found: Dict[str, Object] = {}
    for one in reversed(kind.ancestry()) if isinstance(kind, Class) and kind.is_dataclass() else ():
        for node in one.node.body if isinstance(one, Class) else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                field = found[node.target.id] = Object(Outside("dataclasses.Field"))
                field.values = {"name": node.target.id, "type": Outside(ast.unparse(node.annotation))}
                if node.value is not None:
                    field.values["default"] = kind.get(node.target.id)
    return found


def is_config(name: str) -> bool:
    """ConfigDict of ml_collections, and what makes one."""
    return name.split(".")[-1] in ("ConfigDict", "FrozenConfigDict") or name.endswith("config_dict.create")


def update_config(config: Object, given: List[Any]) -> None:
    """As ConfigDict does it: a group within one is a ConfigDict too, and keeps the members that are not given."""
    for one in given:
        members = one.values if isinstance(one, Object) else one if isinstance(one, dict) else {}
        for name, value in members.items():
            group = isinstance(value, dict) or (isinstance(value, Object) and value.kind is config.kind)
            if group and isinstance(config.values.get(name), Object):
                update_config(config.values[name], [value])
            elif isinstance(value, dict):
                config.values[name] = Object(config.kind)
                update_config(config.values[name], [value])
            else:
                config.values[name] = value


def _is_stable(test: Any) -> bool:
    """Does it compare with a member of a class, which no loop changes?"""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq)) and \
        isinstance(test.comparators[0], ast.Attribute) and ast.unparse(test.comparators[0])[:1].isupper()


def _bounded(function: Callable[..., Any], *values: Any) -> Any:
    """function(*values) if that is neither long nor large."""
    for value in values:
        if isinstance(value, (str, bytes, list, tuple, dict, range)) and len(value) > LENGTH_MAX:
            return UNKNOWN
        if isinstance(value, int) and abs(value) > 1 << 64:
            return UNKNOWN
    if len(values) == 2 and any(isinstance(v, (str, bytes, list, tuple)) for v in values) and \
            any(isinstance(v, int) and v > 1000 for v in values):
        return UNKNOWN
    if function in (_OPERATORS[ast.Pow], _OPERATORS[ast.LShift]) and not -1000 < values[1] < 1000:
        return UNKNOWN
    try:
        return function(*values)
    except Exception:          # whatever Python says of the script's values
        return UNKNOWN


class Program:
    """What is known of a script and the modules beside it."""

    def __init__(self, path: str):
        self.script = Module(path, "__main__", True)
        self.folder = os.path.dirname(os.path.abspath(path))
        self.modules: Dict[str, Optional[Module]] = {}
        self.subscribers: List[Callable[[Call], Any]] = []
        self.on_function: List[Callable[[Function, Scope], None]] = []
        self.steps = 0
        self.stack: List[Any] = []          # functions that are being followed
        self.loops: List[Any] = []          # loops around what is being followed, in all of these functions
        self.followed: set = set()          # functions that were, as nodes
        self.seen_loops: List[Any] = []     # all of them
        self.inner: List[Any] = []          # functions in functions of the script, with the scope that they are in
        self.kinds: Dict[Any, str] = {}     # of loops: over epochs, batches, ...
        self.in_rest = False                # functions are followed that no call was seen to reach
        self.imports: set = set()           # names of external modules

    def run(self) -> None:
        self.block(self.script.tree.body, Scope(self.script))

    # ---- modules ------------------------------------------------------------------------------

    def find(self, name: str, level: int, importer: Module) -> Optional[str]:
        """The file of a module that lies beside the script."""
        roots = [self.folder]
        if level > 0:
            base = os.path.dirname(os.path.abspath(importer.path))
            for _ in range(level - 1):
                base = os.path.dirname(base)
            roots = [base]
        else:
            up = self.folder
            for _ in range(2):               # a script in a package or in scripts/
                if os.path.exists(os.path.join(up, "__init__.py")) or os.path.basename(up) in ("scripts", "tools", "src", "bin"):
                    up = os.path.dirname(up)
                    roots.append(up)
        parts = name.split(".") if name else []
        for root in roots:
            path = os.path.join(root, *parts)
            for file in (path + ".py", os.path.join(path, "__init__.py")):
                if os.path.isfile(file) and os.path.abspath(file) != os.path.abspath(self.script.path):
                    return os.path.abspath(file)
        return None

    def load(self, path: str, name: str) -> Optional[Module]:
        if path in self.modules:
            return self.modules[path]
        if len(self.modules) >= MODULES_MAX:
            return None
        self.modules[path] = None
        try:
            module = Module(path, name, False)
        except SourceError:
            return None
        self.modules[path] = module
        loops, self.loops = self.loops, []
        stack, self.stack = self.stack, []
        self.block(module.tree.body, Scope(module))
        self.loops, self.stack = loops, stack
        return module

    def import_names(self, node: Any, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = self.find(alias.name, 0, scope.module)
                module = self.load(path, alias.name) if path is not None else None
                bound = alias.asname or alias.name.split(".")[0]
                if module is not None and (alias.asname or "." not in alias.name):
                    scope.values[bound] = module
                else:
                    self.imports.add(alias.name)
                    scope.values[bound] = Outside(alias.name if alias.asname else bound)
            return
        name = node.module or ""
        path = self.find(name, node.level, scope.module)
        module = self.load(path, name) if path is not None else None
        if module is None and not (node.level > 0 and not name):
            self.imports.add(name)
        for alias in node.names:
            bound = alias.asname or alias.name
            if alias.name == "*":
                scope.values.update(module.values if module is not None else {})
            elif module is not None and alias.name in module.values:
                scope.values[bound] = module.values[alias.name]
            else:
                inner = self.find((name + "." if name else "") + alias.name, node.level, scope.module)
                found = self.load(inner, alias.name) if inner is not None else None
                if found is None and module is not None:
                    scope.values[bound] = UNKNOWN
                else:
                    scope.values[bound] = found if found is not None else Outside(name + "." + alias.name)

    # ---- statements ---------------------------------------------------------------------------

    def block(self, body: List[Any], scope: Scope) -> None:
        for statement in body:
            if self.steps > STEPS_MAX:
                return
            self.steps += 1
            method = getattr(self, "do_" + type(statement).__name__, None)
            if method is not None:
                try:
                    method(statement, scope)
                except RecursionError:
                    pass
            if scope.returned and isinstance(statement, (ast.Return, ast.Raise)):
                return

    def do_Import(self, node: ast.Import, scope: Scope) -> None:
        self.import_names(node, scope)

    do_ImportFrom = do_Import

    def do_Expr(self, node: ast.Expr, scope: Scope) -> None:
        self.value(node.value, scope)

    def do_Assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope, node.value)

    def do_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope, node.value)

    def do_AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:
        before = self.value(node.target, scope)
        after = self.value(node.value, scope)
        both = self.operate(node.op, before, after, node.target, node.value, scope)
        if isinstance(before, list) and isinstance(after, (list, tuple)) and isinstance(node.op, ast.Add):
            both = before + list(after)
        elif not isinstance(both, Template) and (self.loops or not is_constant(both)):
            both = UNKNOWN               # it changes from one iteration to the next
        self.assign(node.target, limited(both), scope, None)

    def assign(self, target: Any, value: Any, scope: Scope, origin: Optional[ast.AST]) -> None:
        if isinstance(target, ast.Name):
            scope.values[target.id] = value
            if origin is not None:
                scope.origins[target.id] = origin
        elif isinstance(target, ast.Attribute):
            base = self.value(target.value, scope)
            if isinstance(base, (Object, Class, Module)):
                base.values[target.attr] = value
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value, scope)
            key = self.value(target.slice, scope)
            if isinstance(base, dict) and isinstance(key, (str, int)):
                base[key] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = isinstance(value, (list, tuple)) and len(value) == len(target.elts)
            for i, part in enumerate(target.elts):
                self.assign(part.value if isinstance(part, ast.Starred) else part,
                            value[i] if known else UNKNOWN, scope, origin)

    def do_If(self, node: ast.If, scope: Scope) -> None:
        test = node.test
        if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__":
            if scope.module.is_script:
                self.block(node.body, scope)
            return
        value = self.value(test, scope)
        if is_constant(value) and (not self.loops or _is_stable(test)):
            self.block(node.body if value else node.orelse, scope)
            return
        returned = scope.returned
        before = dict(scope.values)
        self.block(node.body, scope)
        first, after = scope.returned, dict(scope.values)
        scope.returned = returned
        if node.orelse:
            for name in [one for one in after if after[one] is not before.get(one, after)]:
                scope.values[name] = before.get(name, UNKNOWN)
            self.block(node.orelse, scope)
        second = scope.values if node.orelse else before
        for name, value in after.items():
            other = second.get(name, before.get(name, value))
            if other is not value:
                scope.values[name] = merged(value, other)
        scope.returned = returned or (first and scope.returned)

    def do_For(self, node: Any, scope: Scope) -> None:
        items = self.value(node.iter, scope)
        if isinstance(items, dict):
            items = list(items)
        literal = isinstance(items, (list, tuple)) and len(items) <= ITEMS_MAX
        self.loops.append((node, scope, literal, items))
        self.seen_loops.append(self.loops[-1])
        try:
            for item in (items if literal else [UNKNOWN]):
                self.assign(node.target, item, scope, node.iter)
                self.block(node.body, scope)
                if self.steps > STEPS_MAX:
                    break
        finally:
            self.loops.pop()
        self.block(node.orelse, scope)

    do_AsyncFor = do_For

    def do_While(self, node: ast.While, scope: Scope) -> None:
        self.value(node.test, scope)
        self.loops.append((node, scope, False, UNKNOWN))
        self.seen_loops.append(self.loops[-1])
        try:
            self.block(node.body, scope)
        finally:
            self.loops.pop()
        self.block(node.orelse, scope)

    def do_With(self, node: Any, scope: Scope) -> None:
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, scope, item.context_expr)
        self.block(node.body, scope)

    do_AsyncWith = do_With

    def do_Try(self, node: Any, scope: Scope) -> None:
        self.block(node.body, scope)
        returned = scope.returned
        for handler in node.handlers:
            names = {name: scope.values[name] for name in scope.values}
            self.block(handler.body, scope)
            for name, value in names.items():      # what the body found out stays
                if value is not UNKNOWN:
                    scope.values[name] = value
        scope.returned = returned
        self.block(node.orelse, scope)
        self.block(node.finalbody, scope)

    do_TryStar = do_Try

    def do_FunctionDef(self, node: Any, scope: Scope) -> None:
        function = Function(node, scope.module, scope if scope.function is not None else None)
        scope.values[node.name] = function
        if scope.function is not None and scope.module.is_script and len(self.inner) < INNER_MAX:
            self.inner.append((function, scope))
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                self.value(decorator.func, scope)
        for subscriber in self.on_function:
            subscriber(function, scope)

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        made = Class(node, scope.module, [self.value(base, scope) for base in node.bases])
        scope.values[node.name] = made
        inner = Scope(scope.module, None, made.values)
        inner.outer = scope
        for statement in node.body:
            if isinstance(statement, FUNCTIONS):
                made.values[statement.name] = Function(statement, scope.module, scope if scope.function else None)
                made.values[statement.name].owner = made
            elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.ClassDef)):
                self.block([statement], inner)

    def do_Return(self, node: ast.Return, scope: Scope) -> None:
        value = self.value(node.value, scope) if node.value is not None else None
        scope.result = value if not scope.results else merged(scope.result, value)
        scope.results += 1
        scope.returned = True

    def do_Raise(self, node: ast.Raise, scope: Scope) -> None:
        scope.returned = True

    # ---- expressions --------------------------------------------------------------------------

    def value(self, node: Any, scope: Scope) -> Any:
        """What an expression is; calls in it are followed."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            return UNKNOWN
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is not None:
            return limited(method(node, scope))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, scope)
        return UNKNOWN

    def of_Constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def of_Name(self, node: ast.Name, scope: Scope) -> Any:
        where: Optional[Scope] = scope
        while where is not None:
            if node.id in where.values:
                return where.values[node.id]
            where = where.outer
        if node.id in scope.module.values:
            return scope.module.values[node.id]
        return Outside(node.id)

    def of_Attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self.attribute(self.value(node.value, scope), node.attr)

    def attribute(self, base: Any, name: str) -> Any:
        if isinstance(base, Outside):
            return Outside(base.name + "." + name)
        if isinstance(base, Arguments):
            return Argument(name)
        if isinstance(base, Module):
            return base.values.get(name, UNKNOWN)
        if name == "__dataclass_fields__":
            return dataclass_fields(base) or UNKNOWN
        if isinstance(base, Class):
            found = base.get(name)
            return found.bind(UNKNOWN) if isinstance(found, Function) and \
                any("classmethod" in ast.unparse(d) for d in found.node.decorator_list) else found
        if isinstance(base, Object):
            if name == "__dict__":
                return base.values
            if name in base.values:
                return base.values[name]
            found = base.kind.get(name) if isinstance(base.kind, Class) else UNKNOWN
            if isinstance(found, Function):
                static = any("staticmethod" in ast.unparse(d) for d in found.node.decorator_list)
                return found.bind(None if static else base)
            return found
        if isinstance(base, Super):
            return base.get(name)
        if isinstance(base, dict) and name in base and name not in _METHODS and name not in _WRITING:
            return base[name]
        known = base is UNKNOWN or isinstance(base, (Argument, Template, Json)) or is_constant(base)
        return UNKNOWN if known or not name.startswith("add") else Method(base, name)

    def of_List(self, node: Any, scope: Scope) -> Any:
        found: List[Any] = []
        for one in node.elts:
            value = self.value(one.value if isinstance(one, ast.Starred) else one, scope)
            if not isinstance(one, ast.Starred):
                found.append(value)
            elif isinstance(value, (list, tuple)):
                found += value
            else:
                return UNKNOWN
        return found

    def of_Tuple(self, node: Any, scope: Scope) -> Any:
        found = self.of_List(node, scope)
        return tuple(found) if isinstance(found, list) else found

    def of_Set(self, node: Any, scope: Scope) -> Any:
        return self.of_List(node, scope)

    def of_Dict(self, node: ast.Dict, scope: Scope) -> Any:
        found: Dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            one = self.value(value, scope)
            if key is None:
                found.update(one if isinstance(one, dict) else {})
                continue
            name = self.value(key, scope)
            if isinstance(name, (str, int, float, bool, type(None))):
                found[name] = Expression(value, scope) if one is UNKNOWN or isinstance(one, Outside) else one
        return found

    def of_IfExp(self, node: ast.IfExp, scope: Scope) -> Any:
        test = self.value(node.test, scope)
        first, second = self.value(node.body, scope), self.value(node.orelse, scope)
        if is_constant(test):
            return first if test else second
        return first if is_constant(first) and is_constant(second) and first == second else UNKNOWN

    def of_BoolOp(self, node: ast.BoolOp, scope: Scope) -> Any:
        values = [self.value(one, scope) for one in node.values]
        if all(is_constant(one) for one in values):
            result = values[0]
            for one in values[1:]:
                result = result or one if isinstance(node.op, ast.Or) else result and one
            return result
        return UNKNOWN

    def of_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        if not is_constant(value):
            return UNKNOWN
        return _bounded({ast.USub: lambda a: -a, ast.UAdd: lambda a: +a, ast.Not: lambda a: not a,
                         ast.Invert: lambda a: ~a}[type(node.op)], value)

    def of_Compare(self, node: ast.Compare, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        right = self.value(node.comparators[0], scope)
        if len(node.ops) == 1 and is_constant(left) and is_constant(right):
            return _bounded(_COMPARISONS[type(node.ops[0])], left, right)
        return UNKNOWN

    def of_BinOp(self, node: ast.BinOp, scope: Scope) -> Any:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        return self.operate(node.op, left, right, node.left, node.right, scope)

    def operate(self, op: ast.operator, left: Any, right: Any, a: Any, b: Any, scope: Scope) -> Any:
        if isinstance(op, ast.Mod) and isinstance(left, str):
            return self.percent(left, right, b, scope)
        if isinstance(op, ast.Mod) and isinstance(left, Template):
            return UNKNOWN
        texts = (str, Template, Json)
        if isinstance(op, ast.Add) and (isinstance(left, texts) or isinstance(right, texts)) and \
                not (isinstance(left, str) and isinstance(right, str)):
            return Template(self.parts(left, a, scope) + self.parts(right, b, scope))
        if isinstance(op, ast.Div) and (isinstance(left, str) or isinstance(left, Template)):
            return Template(self.parts(left, a, scope) + ["/"] + self.parts(right, b, scope))     # pathlib
        if is_constant(left) and is_constant(right) and type(op) in _OPERATORS:
            return _bounded(_OPERATORS[type(op)], left, right)
        return UNKNOWN

    def of_Subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base, key = self.value(node.value, scope), self.value(node.slice, scope)
        if isinstance(base, (list, tuple, dict, str)) and is_constant(key):
            return _bounded(lambda a, b: a[b], base, key)
        return UNKNOWN

    def of_Slice(self, node: ast.Slice, scope: Scope) -> Any:
        parts = [self.value(one, scope) if one is not None else None for one in (node.lower, node.upper, node.step)]
        return slice(*parts) if all(is_constant(one) for one in parts) else UNKNOWN

    def of_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Any:
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope, node.value)
        return value

    def of_Lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        return Function(node, scope.module, scope)

    def of_Await(self, node: ast.Await, scope: Scope) -> Any:
        return self.value(node.value, scope)

    def of_ListComp(self, node: Any, scope: Scope) -> Any:
        made = node.generators[0]
        items = self.value(made.iter, scope)
        if len(node.generators) > 1 or made.ifs or not isinstance(items, (list, tuple, range)) or len(items) > ITEMS_MAX:
            return UNKNOWN
        inner = Scope(scope.module, scope.function, {})
        inner.outer = scope
        found = []
        for item in items:
            self.assign(made.target, item, inner, None)
            found.append(self.value(node.elt, inner))
        return found

    of_GeneratorExp = of_ListComp

    def of_DictComp(self, node: ast.DictComp, scope: Scope) -> Any:
        items = self.value(node.generators[0].iter, scope)
        if len(node.generators) > 1 or node.generators[0].ifs or not isinstance(items, (list, tuple)) or len(items) > ITEMS_MAX:
            return UNKNOWN
        inner = Scope(scope.module, scope.function, {})
        inner.outer = scope
        found = {}
        for item in items:
            self.assign(node.generators[0].target, item, inner, None)
            key = self.value(node.key, inner)
            if isinstance(key, str):
                value = self.value(node.value, inner)
                found[key] = Expression(node.value, inner) if value is UNKNOWN else value
        return found

    # ---- texts --------------------------------------------------------------------------------

    def parts(self, value: Any, node: Any, scope: Scope, spec: str = "") -> List[Any]:
        """A value in the middle of a text.  Numbers are holes: they are what the text reports."""
        if isinstance(value, str):
            return [value]
        if isinstance(value, Template):
            return list(value.parts)
        if isinstance(value, Json):
            return [value]
        if isinstance(value, Expression):
            return [Hole(value.node, spec, _is_padded(spec), value.scope)]
        return [Hole(node, spec, _is_padded(spec), scope)]

    def of_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        found: List[Any] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                found.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                value = self.value(part.value, scope)
                spec = self.value(part.format_spec, scope) if part.format_spec is not None else ""
                found += self.parts(value, part.value, scope, spec if isinstance(spec, str) else "")
        if all(isinstance(one, str) for one in found):
            return "".join(found)
        return Template(found)

    def percent(self, text: str, value: Any, node: Any, scope: Scope) -> Any:
        """text % value"""
        values: List[Tuple[Any, Any]]
        if isinstance(node, ast.Tuple):
            values = [(value[i] if isinstance(value, tuple) and i < len(value) else UNKNOWN, one)
                      for i, one in enumerate(node.elts)]
        else:
            values = [(value, node)]
        found: List[Any] = []
        at = used = 0
        while at < len(text):
            if text[at] != "%":
                found.append(text[at])
                at += 1
                continue
            end = at + 1
            name = ""
            if end < len(text) and text[end] == "(":
                close = text.find(")", end)
                if close < 0:
                    return UNKNOWN
                name, end = text[end + 1:close], close + 1
            start = end
            while end < len(text) and text[end] in "-+ #0123456789.*":
                end += 1
            if end >= len(text):
                return UNKNOWN
            spec = text[start:end + 1]
            if text[end] == "%":
                found.append("%")
            elif name and isinstance(value, dict) and name in value:
                found += self.parts(value[name], node, scope, spec)
            else:
                one, at_node = values[used] if used < len(values) else (UNKNOWN, node)
                found += [one] if isinstance(one, str) else self.parts(UNKNOWN if not isinstance(one, (Template, Expression, Json)) else one,
                                                                      at_node, scope, spec)
                used += 1
            at = end + 1
        return "".join(found) if all(isinstance(one, str) for one in found) else Template(found)

    def format(self, text: str, node: ast.Call, scope: Scope) -> Any:
        """text.format(...)"""
        import string
        args, named = self.arguments(node, scope)
        nodes = [one for one in node.args]
        names = {one.arg: one.value for one in node.keywords if one.arg}
        found: List[Any] = []
        count = 0
        try:
            fields = list(string.Formatter().parse(text))
        except ValueError:
            return UNKNOWN
        for before, field, spec, _ in fields:
            if before:
                found.append(before)
            if field is None:
                continue
            key = field.split(".")[0].split("[")[0]
            value, at = UNKNOWN, node
            if key == "" or key.isdigit():
                index = count if key == "" else int(key)
                count += 1
                if index < len(nodes) and not any(isinstance(one, ast.Starred) for one in nodes):
                    at = nodes[index]
                    value = args[index] if index < len(args) and field == key else UNKNOWN
            elif key in names:
                at, value = names[key], named.get(key, UNKNOWN) if field == key else UNKNOWN
            elif key in named:
                value = named[key]
            else:
                at = ast.Name(id=key, ctx=ast.Load())
            found += self.parts(value, at, scope, spec or "")
        return "".join(found) if all(isinstance(one, str) for one in found) else Template(found)

    # ---- calls --------------------------------------------------------------------------------

    def arguments(self, node: ast.Call, scope: Scope) -> Tuple[List[Any], Dict[str, Any]]:
        args: List[Any] = []
        for one in node.args:
            if isinstance(one, ast.Starred):
                value = self.value(one.value, scope)
                args += value if isinstance(value, (list, tuple)) else [UNKNOWN]
            else:
                args.append(self.value(one, scope))
        named: Dict[str, Any] = {}
        for word in node.keywords:
            value = self.value(word.value, scope)
            if word.arg is not None:
                named[word.arg] = value
            elif isinstance(value, dict):
                named.update({k: v for k, v in value.items() if isinstance(k, str)})
        return args, named

    def of_Call(self, node: ast.Call, scope: Scope) -> Any:
        receiver, attribute = UNKNOWN, ""
        if isinstance(node.func, ast.Attribute):
            receiver, attribute = self.value(node.func.value, scope), node.func.attr
            if isinstance(receiver, str) and attribute == "format":
                return self.format(receiver, node, scope)
            target = self.attribute(receiver, attribute)
        else:
            target = self.value(node.func, scope)
            if isinstance(target, Method):
                receiver, attribute = target.receiver, target.name
        call = Call(self, node, scope, target, attribute, receiver)
        for subscriber in self.subscribers:
            result = subscriber(call)
            if result is not None:
                return result
        if isinstance(target, Function):
            return self.follow(target, node, scope)
        if isinstance(target, Class):
            return self.make(target, node, scope)
        args, named = self.arguments(node, scope)
        if isinstance(target, Outside):
            return self.outside(target.name, args, named, node, scope)
        if attribute == "join" and isinstance(receiver, str) and len(args) == 1 and isinstance(args[0], list):
            found: List[Any] = []
            for i, one in enumerate(args[0]):
                found += ([receiver] if i > 0 else []) + self.parts(one, None, scope)
            return "".join(found) if all(isinstance(one, str) for one in found) else Template(found)
        if attribute == "update" and isinstance(receiver, Object) and not isinstance(receiver.kind, Class) and is_config(receiver.kind.name):
            update_config(receiver, args + [named])
            return None
        if attribute in _METHODS and isinstance(receiver, (str, list, tuple, dict)):
            if attribute in ("keys", "values", "items", "get", "copy") and isinstance(receiver, dict):
                return _bounded(lambda: {"keys": lambda: list(receiver), "values": lambda: list(receiver.values()),
                                         "items": lambda: list(receiver.items()), "copy": lambda: dict(receiver),
                                         "get": lambda: receiver.get(*args)}[attribute]())
            if all(is_constant(one) for one in args) and is_constant(receiver):
                return _bounded(lambda: getattr(receiver, attribute)(*args))
        if attribute in _WRITING and isinstance(receiver, (list, dict)):
            if attribute == "update" and isinstance(receiver, dict):
                receiver.update(args[0] if args and isinstance(args[0], dict) else {})
                receiver.update(named)
            elif attribute == "append" and isinstance(receiver, list) and len(args) == 1 and len(receiver) < ITEMS_MAX:
                receiver.append(args[0])
            elif attribute == "extend" and isinstance(receiver, list) and len(receiver) < ITEMS_MAX and args and isinstance(args[0], (list, tuple)):
                receiver.extend(args[0][:ITEMS_MAX])
            elif attribute == "setdefault" and isinstance(receiver, dict) and len(args) == 2 and isinstance(args[0], str):
                return receiver.setdefault(args[0], args[1])
        return UNKNOWN

    def outside(self, name: str, args: List[Any], named: Dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        if name in ("os.environ.get", "os.getenv"):
            return args[1] if len(args) > 1 else None
        if name in ("json.dumps", "simplejson.dumps", "ujson.dumps") and args:
            return Json(args[0]) if isinstance(args[0], dict) else UNKNOWN
        if name == "super" and scope.function is not None and isinstance(scope.function.bound, Object):
            return Super(scope.function.bound, scope.function.owner)
        if name in ("str", "repr") and len(args) == 1:
            return args[0] if isinstance(args[0], str) else Template(self.parts(args[0], node.args[0] if node.args else None, scope))
        if name == "dict":
            found = dict(args[0]) if args and isinstance(args[0], dict) else {}
            nodes = {one.arg: one.value for one in node.keywords if one.arg}
            for key, value in named.items():
                found[key] = Expression(nodes[key], scope) if value is UNKNOWN and key in nodes else value
            return found
        if name in ("fields", "dataclasses.fields") and args:
            return list(dataclass_fields(args[0]).values()) or UNKNOWN
        if name == "vars" or name.endswith(".asdict"):
            return args[0].values if args and isinstance(args[0], Object) else UNKNOWN
        if name.split(".")[-1] in ("field", "Field") and ("default" in named or "default_factory" in named):
            if "default" in named:
                return named["default"]
            factory = named["default_factory"]
            if isinstance(factory, Function) and isinstance(factory.node, ast.Lambda):
                return self.value(factory.node.body, Scope(factory.module))
            return self.make(factory, node, scope) if isinstance(factory, Class) else UNKNOWN
        if name in ("print_function",):
            return UNKNOWN
        if name.split(".")[-1] in ("Namespace", "SimpleNamespace", "EasyDict", "AttrDict"):
            made = Object(Outside(name))
            made.values.update(named)
            made.values.update(args[0] if args and isinstance(args[0], dict) else {})
            return made
        if is_config(name):
            made = Object(Outside("ml_collections.ConfigDict"))
            update_config(made, [one for one in args[:1]] + [named])
            return made
        if name in ("tqdm", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm") and args:
            return args[0] if isinstance(args[0], (list, tuple)) and len(args[0]) <= ITEMS_MAX else UNKNOWN
        if name == "os.path.join" and any(isinstance(one, Template) or not is_constant(one) for one in args):
            found2: List[Any] = []
            for i, one in enumerate(args):
                found2 += (["/"] if i > 0 else []) + self.parts(one, node.args[i] if i < len(node.args) else None, scope)
            return Template(found2)
        if (name.split(".")[-1][:1].isupper() and name not in _SAFE) or name in ("open", "io.open", "csv.writer"):
            made = Object(Outside(name))
            made.values["(node)"], made.values["(arguments)"] = node, (args, named)
            return made
        if name in _SAFE and all(is_constant(one) for one in args) and all(is_constant(one) for one in named.values()):
            if name in ("list", "tuple", "dict", "enumerate", "zip", "sorted", "reversed", "sum", "min", "max") and \
                    any(isinstance(one, range) and len(one) > 1000 for one in args):
                return UNKNOWN
            return _bounded(lambda: _SAFE[name](*args, **named))
        return UNKNOWN

    def make(self, kind: Class, node: ast.Call, scope: Scope) -> Any:
        """An instance; its __init__ is followed."""
        made = Object(kind)
        if kind.is_dataclass():
            args, named = self.arguments(node, scope)
            made.values.update(named)
            return made
        start = kind.get("__init__")
        if isinstance(start, Function):
            self.follow(start.bind(made), node, scope)
        else:
            self.arguments(node, scope)
        return made

    def follow(self, function: Function, node: Optional[ast.Call], scope: Scope) -> Any:
        """node: the call; None where a library calls it with options of the command line."""
        args, named = self.arguments(node, scope) if node is not None else \
            ([], {one.arg: Argument(one.arg) for one in function.node.args.args + function.node.args.kwonlyargs} if not self.in_rest else {})
        made = function.node
        if isinstance(made, ast.Lambda):
            inner = Scope(function.module, function, {})
            self.bind(made.args, args, named, inner, function)
            return self.value(made.body, inner)
        if len(self.stack) >= DEPTH_MAX or sum(one is made for one in self.stack) > 1 or self.steps > STEPS_MAX:
            return UNKNOWN
        inner = Scope(function.module, function, {})
        self.bind(made.args, args, named, inner, function)
        self.followed.add(made)
        self.stack.append(made)
        try:
            self.block(made.body, inner)
        finally:
            self.stack.pop()
        return inner.result

    def bind(self, spec: ast.arguments, args: List[Any], named: Dict[str, Any], inner: Scope, function: Function) -> None:
        names = [one.arg for one in spec.posonlyargs + spec.args]
        defaults: Dict[str, Any] = {}
        outer = Scope(function.module)
        for one, node in zip(reversed(names), reversed(spec.defaults)):
            defaults[one] = self.value(node, outer)
        for only, node2 in zip(spec.kwonlyargs, spec.kw_defaults):
            if node2 is not None:
                defaults[only.arg] = self.value(node2, outer)
        if function.bound is not None:
            args = [function.bound] + args
        for one in names + [k.arg for k in spec.kwonlyargs]:
            inner.values[one] = named.get(one, defaults.get(one, UNKNOWN))
        for one, value in zip(names, args):
            inner.values[one] = value
        if spec.vararg is not None:
            inner.values[spec.vararg.arg] = list(args[len(names):])
        if spec.kwarg is not None:
            known = set(names) | {k.arg for k in spec.kwonlyargs}
            inner.values[spec.kwarg.arg] = {k: v for k, v in named.items() if k not in known}


class Expression:
    """The value of a key of a dict that is not known: what it is computed from."""

    def __init__(self, node: ast.AST, scope: Scope):
        self.node, self.scope = node, scope
        self.split = ""


def _is_padded(spec: str) -> bool:
    """May blanks come before the value?"""
    bare = spec.lstrip("+#")
    return bare[:1] in tuple("123456789<>^ ") or (len(bare) > 1 and bare[1] in "<>^")
