"""Converts a dict to the text of a configuration file."""

import math
import re
from typing import Any, Dict, List, Mapping


def text(config: Mapping[str, Any]) -> str:
    """{"experiment": {"name": "x"}} as `experiment = { name = "x"; };` and so on."""
    space = config.get("space")
    if isinstance(space, Mapping):
        config = {**config, "space": {name: _parameter(given) for name, given in space.items()}}
    return "".join("%s = %s;\n" % (_name(name), value_text(value)) for name, value in config.items())


def _parameter(given: Any) -> Any:
    """(low, high), (low, high, "log") and a list of values, as the group of a parameter."""
    given = _own(given)
    if isinstance(given, list):
        return {"type": "choice", "values": given}
    if not isinstance(given, tuple):
        return given
    if not 2 <= len(given) <= 3 or isinstance(given[0], str) or isinstance(given[1], str):
        raise ValueError('%r is neither (low, high) nor (low, high, "log"); a choice is a list' % (given,))
    low, high, *scale = map(_own, given)
    whole = isinstance(low, int) and isinstance(high, int)
    group: Dict[str, Any] = {"type": "int", "low": low, "high": high} if whole else {
        "type": "real", "low": float(low), "high": float(high)}
    if scale:
        group["scale"] = scale[0]
    return group


def _own(value: Any) -> Any:
    """Converts a number or an array of NumPy or PyTorch to Python's own types."""
    return value.tolist() if hasattr(value, "tolist") else value


def _name(name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z*][-A-Za-z0-9_*]*", name):
        raise ValueError("%r cannot be a name in a configuration" % (name,))
    return name


def value_text(value: Any) -> str:
    """A value in the syntax of configuration files and of `--set`."""
    value = _own(value)
    if isinstance(value, Mapping):
        return "{ %s}" % "".join("%s = %s; " % (_name(name), value_text(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return ("[ %s ]" if _alike(value) else "( %s )") % ", ".join(map(value_text, value))
    if isinstance(value, tuple):
        return "( %s )" % ", ".join(map(value_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"%s"' % re.sub(r'[\\"\x00-\x1f]', _escape, value)
    if isinstance(value, int):
        return str(value)
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise TypeError("%r cannot be written into a configuration" % (value,)) from None
    if not math.isfinite(value):
        raise ValueError("%r cannot be written into a configuration" % value)
    written = repr(value)
    return written if "." in written or "e" in written else written + ".0"


def _escape(found: "re.Match[str]") -> str:
    char = found.group()
    if char == "\0":
        raise ValueError("a text in a configuration cannot contain NUL")
    return "\\" + char if char in '\\"' else "\\x%02x" % ord(char)


def _alike(values: List[Any]) -> bool:
    """Can these be an array?  Its elements have one type, and are neither groups nor lists."""
    kinds = {type(value) for value in values}
    return len(kinds) == 1 and kinds <= {bool, int, float, str}
