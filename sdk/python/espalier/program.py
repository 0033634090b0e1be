"""Finds the program: the one that $ESPALIER names, the wheel's own, or the one in PATH."""

import os
import shutil
import sys
from typing import Dict, List

_own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_program")


def find(itself: str = "") -> str:
    """The path of the program.  itself: a script that becomes the program, and so is not meant by $ESPALIER or PATH."""
    named = os.environ.get("ESPALIER")
    if named and not _is_same(named, itself):
        return named
    path = os.path.join(_own, "bin", "espalier")
    if os.path.exists(path):
        return path
    found = shutil.which("espalier")
    if found is None or _is_same(found, itself):
        raise FileNotFoundError("the program espalier is neither in this package nor in PATH; "
                                "$ESPALIER can name it")
    return found


def _is_same(path: str, itself: str) -> bool:
    return itself != "" and os.path.realpath(shutil.which(path) or path) == os.path.realpath(itself)


def environment(itself: str = "") -> Dict[str, str]:
    """The environment to start the program with.

    The wheel's own program finds its plugins and helpers by it.  `python3` in a trial's command is
    this Python, also in a virtual environment that is not activated."""
    env = dict(os.environ)
    if find(itself).startswith(_own + os.sep):
        given = env.get("ESPALIER_PLUGIN_PATH")
        plugins = os.path.join(_own, "lib", "espalier", "plugins")
        env["ESPALIER_PLUGIN_PATH"] = given + ":" + plugins if given else plugins
        env.setdefault("ESPALIER_LIBEXEC", os.path.join(_own, "libexec", "espalier"))
    if sys.prefix != sys.base_prefix:
        env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env.get("PATH", os.defpath)
    return env


def command(*arguments: str) -> List[str]:
    """The command line of the program with these arguments."""
    return [find(), *arguments]
