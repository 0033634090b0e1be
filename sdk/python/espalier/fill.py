"""espalier fill FILE KEY=VALUE... -- COMMAND...: runs COMMAND with a copy of a configuration file that has other values.

FILE is YAML, JSON or TOML; of nested keys, KEY has all names with points between them: optimizer.lr=0.1. The copy is in the
trial's own directory, $ESPALIER_OUTPUT. A word of COMMAND that is FILE, or ends with =FILE, becomes the path of the copy. If there
is none, COMMAND runs in a directory that has the copy in the place of FILE, and links to everything else.  Without
$ESPALIER_OUTPUT, outside of a trial, that is a new temporary directory, which is left.
"""

import json
import os
import re
import sys
import tempfile
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from espalier.init.configs import Value, json_values, scalar, toml_values, yaml_values


def fail(text: str, hint: str = "") -> NoReturn:
    sys.stderr.write("espalier fill: error: %s\n%s" % (text, "hint: %s\n" % hint if hint else ""))
    sys.exit(2)


def parse(argv: List[str]) -> Tuple[str, Dict[str, str], List[str]]:
    if "--" not in argv[1:]:
        fail("the command is missing", "usage: espalier fill FILE KEY=VALUE... -- COMMAND...")
    at = argv.index("--", 1)
    values: Dict[str, str] = {}
    for word in argv[1:at]:
        key, equals, value = word.partition("=")
        if not equals or not key:
            fail("'%s' is not KEY=VALUE" % word)
        values[key] = value
    if not argv[at + 1:]:
        fail("the command is missing", "usage: espalier fill FILE KEY=VALUE... -- COMMAND...")
    return argv[0], values, argv[at + 1:]


def text_for(value: str, was: Any) -> str:
    """A value as a scalar of YAML or TOML: what was a text stays one."""
    is_text = isinstance(was, str) or isinstance(scalar(value), str) or value == ""
    return json.dumps(value) if is_text else value


def filled(text: str, values: Dict[str, str], ending: str, name: str) -> str:
    """The text of the file with other values; all else is as it was."""
    if ending == ".json":
        return filled_json(text, values, name)
    known = {one.key: one for one in (toml_values(text) if ending == ".toml" else yaml_values(text))}
    lines = text.splitlines(keepends=True)
    for key, value in values.items():
        if key not in known:
            refuse(key, list(known.values()), name)
        at = known[key].line - 1
        found = re.match(r"(\s*(?:\"[^\"]*\"|'[^']*'|[\w.\-]+)\s*[:=]\s*)(\"(?:\\.|[^\"])*\"|'[^']*'|[^#\n]*?)(\s+#.*)?(\r?\n?)$", lines[at])
        if found is None:
            fail("%s:%d: cannot replace the value of '%s'" % (name, at + 1, key))
        lines[at] = found.group(1) + text_for(value, known[key].value) + (found.group(3) or "") + found.group(4)
    return "".join(lines)


def filled_json(text: str, values: Dict[str, str], name: str) -> str:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail("%s is not JSON that can be read: %s" % (name, error))
    for key, value in values.items():
        inner, last = find_json(whole, key)
        if inner is None:
            refuse(key, json_values(text), name)
        inner[last] = value if isinstance(inner[last], str) else scalar(value)
    return json.dumps(whole, indent=2) + "\n"


def find_json(whole: Any, key: str) -> Tuple[Optional[Dict[str, Any]], str]:
    """The object that has the key, whose name may have points itself."""
    if not isinstance(whole, dict):
        return None, ""
    if key in whole:
        return whole, key
    for i in range(len(key)):
        if key[i] == "." and key[:i] in whole:
            found = find_json(whole[key[:i]], key[i + 1:])
            if found[0] is not None:
                return found
    return None, ""


def refuse(key: str, known: List[Value], name: str) -> NoReturn:
    fail("%s has no '%s'" % (name, key), "it has %s" % ", ".join(one.key for one in known[:40]))


def place(file: str, text: str, folder: str) -> str:
    """Writes the copy, beside links to all that is beside FILE and above it in the working directory."""
    inside = os.path.join(folder, "directory")
    here = os.getcwd()
    parts = os.path.normpath(file).split(os.sep)
    os.makedirs(inside, exist_ok=True)
    for i, part in enumerate(parts):
        source, target = os.path.join(here, *parts[:i]), os.path.join(inside, *parts[:i])
        os.makedirs(target, exist_ok=True)
        for name in os.listdir(source):
            path = os.path.join(target, name)
            if name != part and not os.path.lexists(path) and os.path.abspath(os.path.join(source, name)) != os.path.abspath(inside):
                os.symlink(os.path.join(source, name), path)
    copy = os.path.join(inside, *parts)
    with open(copy, "w", encoding="utf-8") as out:
        out.write(text)
    return inside


def main(argv: Optional[List[str]] = None) -> NoReturn:
    file, values, command = parse(sys.argv[1:] if argv is None else argv)
    ending = os.path.splitext(file)[1].lower()
    if ending not in (".yaml", ".yml", ".json", ".toml"):
        fail("'%s' is neither YAML, JSON nor TOML by its name" % file)
    try:
        with open(file, encoding="utf-8-sig") as source:
            text = source.read()
    except (OSError, UnicodeDecodeError) as error:
        fail("cannot read '%s': %s" % (file, getattr(error, "strerror", None) or error))
    text = filled(text, values, ending, file)
    folder = os.environ.get("ESPALIER_OUTPUT") or tempfile.mkdtemp(prefix="espalier-fill-")
    try:
        if any(word == file or word.endswith("=" + file) for word in command):
            copy = os.path.join(folder, os.path.basename(file))
            with open(copy, "w", encoding="utf-8") as out:
                out.write(text)
            command = [copy if word == file else word[:-len(file)] + copy if word.endswith("=" + file) else word for word in command]
        elif os.path.isabs(file) or os.path.normpath(file).split(os.sep)[0] == os.pardir:
            fail("no word of the command is '%s', which is not in the working directory" % file)
        else:
            os.chdir(place(file, text, folder))
    except OSError as error:
        fail("cannot write the copy of '%s' in '%s': %s" % (file, folder, error.strerror))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        fail("cannot start '%s': %s" % (command[0], error.strerror))


if __name__ == "__main__":
    main()
