"""Finds out with which options at their defaults a script refuses to run: `if args.data is None: parser.error(...)`."""

import ast
import re
from typing import Any, Dict, List, Optional, Set

from espalier.init.options import ABSENT, UNKNOWN, Found, Option
from espalier.init.source import FUNCTIONS, Program

_BASES = re.compile(r"arg|opt|conf|cfg|hparam|flags|param|^self$", re.I)
ROUNDS_MAX = 8            # one option is found in each


class _Reader:
    """Follows the statements of a function as they are with all options at their defaults."""

    def __init__(self, values: Dict[str, Option], parsers: Set[str]):
        self.values, self.parsers = values, parsers
        self.refused: Optional[Option] = None

    def option_of(self, node: ast.AST) -> Optional[Option]:
        """args.NAME, self.NAME, args["NAME"]"""
        name: Any = None
        if isinstance(node, ast.Attribute):
            base, name = node.value, node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            base, name = node.value, node.slice.value
        if not isinstance(name, str) or name not in self.values:
            return None
        last = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        return self.values[name] if _BASES.search(last) else None

    def value(self, node: ast.AST) -> Any:
        option = self.option_of(node)
        if option is not None:
            return None if option.default is ABSENT else option.default
        return node.value if isinstance(node, ast.Constant) else UNKNOWN

    def truth(self, node: ast.AST) -> Optional[bool]:
        """None: it is not known."""
        if isinstance(node, ast.BoolOp):
            every = [self.truth(one) for one in node.values]
            decisive = isinstance(node.op, ast.Or)
            return decisive if decisive in every else None if None in every else not decisive
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found = self.truth(node.operand)
            return None if found is None else not found
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self.value(node.left), self.value(node.comparators[0])
            if left is UNKNOWN or right is UNKNOWN:
                return None
            same = left is right if right is None else type(left) is type(right) and left == right
            return same if isinstance(node.ops[0], (ast.Is, ast.Eq)) else not same if isinstance(node.ops[0], (ast.IsNot, ast.NotEq)) else None
        value = self.value(node)
        return None if value is UNKNOWN or self.option_of(node) is None else bool(value)

    def blame(self, tests: List[ast.AST]) -> None:
        """The first option of the innermost test that is not given."""
        for test in reversed(tests):
            named = [self.option_of(one) for one in ast.walk(test)]
            empty = [one for one in named if one is not None and one.default in (ABSENT, None, "", False)]
            if empty:
                self.refused = next((one for one in empty if one.action and "train" in one.name), empty[0])
                return

    def block(self, body: List[Any], tests: List[ast.AST]) -> bool:
        """Does it end here?"""
        for one in body:
            if isinstance(one, ast.If):
                found = self.truth(one.test)
                if found is None:
                    self.forget(one)
                elif self.block(one.body if found else one.orelse, tests + [one.test]):
                    return True
            elif isinstance(one, ast.With):
                if self.block(one.body, tests):
                    return True
            elif isinstance(one, ast.Assert):
                if self.truth(one.test) is False:
                    self.blame(tests + [one.test])
                    return True
            elif isinstance(one, ast.Raise) or (isinstance(one, ast.Expr) and self.ends(one.value)):
                self.blame(tests)
                return True
            elif isinstance(one, ast.Return):
                return True
            else:
                self.forget(one)
        return False

    def ends(self, node: ast.AST) -> bool:
        """parser.error(...), sys.exit(...)"""
        text = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        return text in ("exit", "quit", "sys.exit", "os._exit") or (text.endswith(".error") and text[:-6] in self.parsers)

    def forget(self, node: ast.AST) -> None:
        """The options that it assigns to."""
        if isinstance(node, FUNCTIONS + (ast.ClassDef,)):
            return
        for one in ast.walk(node):
            if isinstance(one, (ast.Attribute, ast.Subscript)) and isinstance(one.ctx, ast.Store):
                option = self.option_of(one)
                if option is not None:
                    del self.values[option.name]


def _parsers(program: Program) -> Set[str]:
    """Names of variables that hold a parser."""
    return {ast.unparse(target) for node in ast.walk(program.script.tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func).endswith("Parser") for target in node.targets} | {"parser"}


def _bodies(program: Program) -> List[List[Any]]:
    """What runs with the options of the command line: the script itself, its main function, those that parse, and __post_init__."""
    found: List[List[Any]] = []
    modules = [program.script] + [one for one in program.modules.values() if one is not None]
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and ast.unparse(node.test.left) == "__name__" and module.is_script:
                found.append(node.body)
            elif isinstance(node, FUNCTIONS) and (node.name == "__post_init__" or (module.is_script and node.name == "main") or any(
                    isinstance(one, ast.Call) and ast.unparse(one.func).split(".")[-1].startswith("parse_") for one in ast.walk(node))):
                found.append(node.body)
    return [program.script.tree.body] + found


def require(program: Program, found: Found, group: str) -> None:
    """Marks options as required without which the script refuses to run."""
    given = {one.flag.lstrip("-") for one in found.options if one.required}
    bodies, parsers = _bodies(program), _parsers(program)
    for _ in range(ROUNDS_MAX):
        refused = None
        for body in bodies:
            values = {one.name: one for one in found.options
                      if one.group in ("", group) and not one.key and one.default is not UNKNOWN and one.flag.lstrip("-") not in given and
                      (one.default is not ABSENT or not one.required)}
            reader = _Reader(values, parsers)
            reader.block(body, [])
            refused = reader.refused
            if refused is not None:
                break
        if refused is None:
            return
        given.add(refused.flag.lstrip("-"))
        refused.required = True
        if refused.action == "store_true" and "train" in refused.name:
            refused.given = True
        elif refused.action == "":
            refused.default = ABSENT
