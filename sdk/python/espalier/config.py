"""Converts a dict to the text of a configuration file."""

import errno
import math
import os
import re
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple


class File:
    """A dict as a configuration file in the working directory, from write() to remove(); in the
    directory for temporary files where the working directory cannot be written to."""

    def __init__(self, config: Mapping[str, Any], prefix: str):
        self._lines = list(_lines(config))
        self.path = os.path.join(os.getcwd(), "%s%s.cfg" % (prefix, os.urandom(6).hex()))

    def write(self) -> str:
        """The path of the file."""
        try:
            return self._write()
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EROFS):
                raise
        # Only a configuration that names files by relative paths needs the working directory.
        self.path = os.path.join(tempfile.gettempdir(), os.path.basename(self.path))
        return self._write()

    def _write(self) -> str:
        with open(self.path, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.writelines(line + "\n" for _, line in self._lines)
        return self.path

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:              # interrupted before it was written
            pass

    def named(self, message: str) -> str:
        """The message, with keys of the dict in place of lines of the file: "space.x: error: ..."."""
        return re.sub(re.escape(self.path) + r"(?::(\d+))?", self._name_of, message)

    def _name_of(self, found: "re.Match[str]") -> str:
        line = int(found.group(1) or 0)
        return self._lines[line - 1][0] if 0 < line <= len(self._lines) else "the configuration"


def text(config: Mapping[str, Any]) -> str:
    """{"experiment": {"name": "x"}} as a group `experiment` with `name = "x";` on a line of its own."""
    return "".join(line + "\n" for _, line in _lines(config))


def _lines(config: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """The lines of the file, each with its key: "experiment.name"."""
    config = {name: _environment(name, value) for name, value in config.items()}
    space, experiment = config.get("space"), config.get("experiment")
    if isinstance(experiment, Mapping) and isinstance(experiment.get("first"), (list, tuple)):
        config = {**config, "experiment": {**experiment, "first": tuple(
            {name: without_none(value) for name, value in point.items()} if isinstance(point, Mapping) else point
            for point in experiment["first"])}}
    if isinstance(space, Mapping):
        config = {**config, "space": {name: _of("space.%s" % name, _parameter, given)
                                      for name, given in space.items()}}
    return _members(config, "", "")


def _environment(path: str, value: Any) -> Any:
    """The value of a path, with the empty list in place of None in trial.env: no such variable."""
    if path == "trial" and isinstance(value, Mapping) and "env" in value:
        return {**value, "env": _environment("trial.env", value["env"])}
    if path == "trial.env" and isinstance(value, Mapping):
        return {name: () if inner is None else inner for name, inner in value.items()}
    return () if value is None and str(path).startswith("trial.env.") else value


def _members(group: Mapping[str, Any], within: str, indent: str) -> Iterator[Tuple[str, str]]:
    for name, value in group.items():
        key = "%s%s" % (within, name)
        start = "%s%s = " % (indent, _name(name))
        if isinstance(value, Mapping):
            yield key, start + "{"
            yield from _members(value, key + ".", indent + "  ")
            yield key, indent + "};"
        else:
            yield key, start + _of(key, value_text, value) + ";"


def _of(key: str, make: Callable[[Any], Any], given: Any) -> Any:
    """make(given); an error names the key."""
    try:
        return make(given)
    except (TypeError, ValueError) as error:
        raise type(error)("%s: %s" % (key, error)) from None


def _parameter(given: Any) -> Any:
    """(low, high), (low, high, "log") and a list of values, as the group of a parameter."""
    given = _own(given)
    if isinstance(given, list):
        return {"type": "choice", "values": [without_none(value) for value in given]}
    if isinstance(given, Mapping) and isinstance(given.get("values"), list):
        return {**given, "values": [without_none(value) for value in given["values"]]}
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


def without_none(value: Any) -> Any:
    """None as a configuration file writes it: the empty list ()."""
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return [without_none(inner) for inner in value]
    if isinstance(value, Mapping):
        return {name: without_none(inner) for name, inner in value.items()}
    return value


def originals(space: Any) -> Dict[str, List[Tuple[Any, Any]]]:
    """The values of choices that JSON writes in another way, as tuples: of each the JSON value and
    the value itself."""
    found: Dict[str, List[Tuple[Any, Any]]] = {}
    for name, given in space.items() if isinstance(space, Mapping) else ():
        values = given.get("values") if isinstance(given, Mapping) else given
        for value in values if isinstance(values, list) else ():
            plain = _plain(value)
            if isinstance(value, (list, tuple, dict)) and repr(plain) != repr(value):
                found.setdefault(name, []).append((plain, value))
    return found


def _plain(value: Any) -> Any:
    """What comes back of a value that was written as JSON."""
    value = _own(value)
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return value


def _own(value: Any) -> Any:
    """Converts a number or an array of NumPy or PyTorch to Python's own types."""
    return value.tolist() if hasattr(value, "tolist") else value


def _name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError("%r cannot be a name in a configuration" % (name,))
    if re.fullmatch(r"[A-Za-z][-A-Za-z0-9_]*", name) and name.lower() not in ("true", "false"):
        return name
    return value_text(name)


def path_text(name: str, given: Any, what: str = "a path") -> str:
    """A path that a caller has given, as text."""
    try:
        return os.fsdecode(given)
    except TypeError:
        raise TypeError("%s must be %s, not %r" % (name, what, given)) from None


def sets(given: Optional[Mapping[str, Any]]) -> List[str]:
    """The arguments `--set` for {"algorithm.trials": 9}."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError('set must be a dict like {"algorithm.trials": 9}, not %r' % (given,))
    return [word for path, value in (given or {}).items()
            for word in ("--set", "%s=%s" % (path, value_text(_environment(path, value))))]


def value_text(value: Any) -> str:
    """A value in the syntax of configuration files and of `--set`."""
    value = _own(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, Mapping):
        return "{ %s}" % "".join("%s = %s; " % (_name(name), value_text(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return ("[ %s ]" if _alike(value) else "( %s )") % ", ".join(map(value_text, value))
    if isinstance(value, tuple):
        return "( %s )" % ", ".join(map(value_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("%r cannot be written into a configuration: it is not valid Unicode" % value) from None
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
    """Can these be an array?  Its elements have one type, and are neither groups nor lists.  An empty list is null."""
    kinds = {type(value) for value in values}
    return len(kinds) <= 1 and kinds <= {bool, int, float, str}
