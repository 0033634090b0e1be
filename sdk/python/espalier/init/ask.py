"""Asks a script for its options: runs it with --help, and reads what it prints.

The script runs in a session of its own, in which everything is killed at the end.  It sees no GPU, has no standard input, can
write only into a directory that is removed afterwards, and has limits of time and memory.
"""

import ctypes
import os
import re
import resource
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Set

from espalier.init.options import ABSENT, Option, parameter_name

TIME_LIMIT = 60.0            # seconds of the clock: on a busy machine importing PyTorch takes half of them
OUTPUT_MAX = 1 << 20
LINE_MAX = 1000              # characters of a line of it that are looked at
HELP_MAX = 2000              # characters of the help of an option
MEMORY_MAX = 64 << 30        # of addresses: libraries of GPUs reserve many
FILE_MAX = 1 << 20           # bytes of a file: PyTorch writes modules into a temporary directory when it is imported


class Answer:
    def __init__(self, text: str, problem: str):
        self.text, self.problem = text, problem


def _limit(confinement: "Confinement") -> None:
    seconds = int(TIME_LIMIT)
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, FILE_MAX), (resource.RLIMIT_CORE, 0),
                       (resource.RLIMIT_AS, MEMORY_MAX)):
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(what, (most, most))
    confinement.begin()


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446      # Landlock's system calls, alike on all machines
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_CHANGES = 0x1ff0            # to make and to remove files of all kinds


class Confinement:
    """Lets a process write only into some directories, where Linux has Landlock (5.13 or later); else it does nothing."""

    def __init__(self, directories: List[str]):
        self.libc = ctypes.CDLL(None, use_errno=True)
        version = self.libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
        access = _WRITE_FILE | _CHANGES | (_TRUNCATE if version >= 3 else 0)
        self.rules = self.libc.syscall(_CREATE_RULESET, struct.pack("=Q", access), ctypes.c_size_t(8), 0) if version >= 1 else -1
        for directory in directories if self.rules >= 0 else []:
            try:
                file = os.open(directory, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue                    # a directory that is not there cannot be written into
            self.libc.syscall(_ADD_RULE, self.rules, 1, struct.pack("=Qi", access, file), 0)
            os.close(file)

    def begin(self) -> None:
        """In the child, before it becomes the program."""
        if self.rules >= 0:
            self.libc.prctl(38, 1, 0, 0, 0)            # PR_SET_NO_NEW_PRIVS, which Landlock asks for
            self.libc.syscall(_RESTRICT_SELF, self.rules, 0)

    def close(self) -> None:
        if self.rules >= 0:
            os.close(self.rules)


def _environment(directory: str) -> Dict[str, str]:
    env = dict(os.environ)
    env.update(TMPDIR=directory, CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1", COLUMNS="200", NO_COLOR="1", TERM="dumb", PAGER="cat",
               WANDB_MODE="disabled", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3",
               HF_HUB_OFFLINE="1", MPLBACKEND="agg", MPLCONFIGDIR=env.get("MPLCONFIGDIR", "/nonexistent"))
    return env


def _read(process: Any, end: float) -> Dict[str, bytes]:
    """What it prints until it ends, closes its streams or prints too much."""
    found = {"out": b"", "err": b""}
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ, "out")
        ready.register(process.stderr, selectors.EVENT_READ, "err")
        while ready.get_map() and time.monotonic() < end and max(map(len, found.values())) < OUTPUT_MAX:
            for key, _ in ready.select(min(0.2, max(0.0, end - time.monotonic()))):
                data = os.read(key.fd, 65536)
                found[key.data] += data
                if not data:
                    ready.unregister(key.fileobj)
            if process.poll() is not None and not ready.select(0):
                break
    return found


def ask(command: List[str]) -> Answer:
    """Runs COMMAND, which ends with --help."""
    try:
        directory = tempfile.mkdtemp(prefix="espalier-init-")
    except OSError as error:
        return Answer("", "it needs a temporary directory: %s" % (error.strerror or error))
    try:
        return _ask(command, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _ask(command: List[str], directory: str) -> Answer:
    confinement = Confinement([directory, "/dev"])
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=_environment(directory), start_new_session=True, preexec_fn=lambda: _limit(confinement))
    except OSError as error:
        return Answer("", error.strerror or str(error))
    finally:
        confinement.close()
    end = time.monotonic() + TIME_LIMIT
    try:
        found = _read(process, end)
        try:
            status: Optional[int] = process.wait(max(0.1, min(2.0, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            status = None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdout.close()
        process.stderr.close()
    text = found["out"].decode("utf-8", "replace")
    errors = found["err"].decode("utf-8", "replace").strip().splitlines()
    if status == 0:
        return Answer(text if text.strip() else found["err"].decode("utf-8", "replace"), "")
    if status is None:
        return Answer("", "it did not end within %.0f s" % TIME_LIMIT)
    last = errors[-1].strip() if errors else "no message"
    return Answer("", "it ended by %s: %s" % (signal.Signals(-status).name if status < 0 else "status %d" % status, last[:200]))


# ---- what is printed -----------------------------------------------------------------------------

_start = re.compile(r"^ {1,8}(?P<flags>-{1,2}[A-Za-z0-9].*?)(?:\s{2,}(?P<help>\S.*))?$")
_flag = re.compile(r"--?[A-Za-z0-9][\w.\-/\[\]]*")
_default = re.compile(r"[\(\[]\s*default(?:s to)?\s*[:=]?\s*(?P<value>[^()\[\]]*(?:\[[^\[\]]*\])?[^()\[\]]*?)\s*(?:;[^()\[\]]*)?[\)\]]"
                      r"|\bdefault(?: value)?(?: is|:|=)\s*(?P<bare>'[^']*'|\"[^\"]*\"|[-+\w.]+)", re.I)


_typed = re.compile(r"\((?:required, )?type: (?P<type>[^()]*), default: (?P<default>[^()]*)\)")


def _value(text: str) -> Any:
    text = text.strip().strip("'\"`")
    if text in ("None", ""):
        return None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def required_flags(text: str) -> Set[str]:
    """Those without brackets around them in the line of usage that argparse prints."""
    at = re.match(r"(?:.*\n)*?usage: (?P<words>.*(?:\n[ \t]+\S.*)*)", text[:1 << 16], re.I)
    words = at.group("words") if at is not None else ""
    for _ in range(8):
        words, count = re.subn(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}", " ", words)
        if count == 0:
            break
    return set(re.findall(r"(?<!\S)--?[A-Za-z][\w.\-]*", words))


def listed(text: str) -> List[Option]:
    """The options in the text of --help of argparse, click, typer or absl."""
    found: List[Option] = []
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub("^[\u2502|] ?(.*?)[\u2502|]?$", r" \1", text, flags=re.M)
    current: Optional[Option] = None
    for line in (one[:LINE_MAX] for one in text.splitlines()):
        at = _start.match(line.replace("* ", "  ", 1) if line.lstrip().startswith("* -") else line)
        if at is None:
            if current is not None and line.startswith("     ") and line.strip():
                if len(current.help) < HELP_MAX:
                    current.help += (" " if current.help else "") + line.strip()
            elif not line.strip():
                continue
            else:
                current = None
            continue
        flags = [one.rstrip(",") for one in _flag.findall(re.sub(r"\{[^}]*\}", "", at.group("flags")))]
        flags = [one for one in flags if one.startswith("-")]
        if not flags:
            continue
        flag = next((one for one in flags if one.startswith("--") and "[no]" not in one), flags[0])
        flag = flag.split("/")[0]
        current = Option(flag, parameter_name(flag), help=at.group("help") or "")
        current.flags = [part for one in flags for part in one.replace("--[no]", "--").split("/")]
        choices = re.search(r"\{([^{}]*)\}|\[([\w.\-]+(?:\|[\w.\-]+)+)\]", at.group("flags"))
        if choices is not None:
            values = re.split(r"[,|]", choices.group(1) or choices.group(2))
            if "..." not in values:
                current.choices = [_value(one) for one in values]
        rest = re.sub(r"\{[^}]*\}|--?[A-Za-z0-9][\w.\-/]*|[,\s]", "", at.group("flags"))
        current.bare = rest == "" and current.choices is None and not re.search(r"--?[\w\-]+[= ][A-Z<\[]", at.group("flags"))
        found.append(current)
    required = required_flags(text)
    for option in found:
        option.required = bool(required & set(option.flags)) or re.search(r"[\[(]required\b", option.help) is not None
        typed = _typed.search(option.help)             # jsonargparse
        at = _default.search(option.help)
        if typed is not None:
            kinds = {one for one in re.findall(r"[A-Za-z]+", typed.group("type")) if one in ("int", "float", "bool", "str")}
            option.type = kinds.pop() if len(kinds) == 1 else typed.group("type")
            option.default = _value(typed.group("default"))
            if option.choices == ["true", "false", "null"] or option.type == "bool":
                option.choices, option.type, option.by_value = None, "bool", True
                option.default = {"true": True, "false": False}.get(option.default, option.default)
        elif at is not None:
            option.default = _value(at.group("value") if at.group("value") is not None else at.group("bare"))
        if option.bare:
            option.action = "store_true"
            option.default = False if option.default is ABSENT else option.default
    return [one for one in found if one.name not in ("help", "version", "helpfull", "helpshort")]


def config_of_hydra(text: str) -> Optional[str]:
    """The composed configuration, YAML, in the text of --help of a script with Hydra."""
    at = re.search(r"^== Config ==\s*$\n^.*(?:Override|overr).*$\n(?P<config>.*?)(?=^Powered by|\Z)", text, re.M | re.S)
    return at.group("config") if at is not None else None


def python() -> str:
    """The Python that trials run with: the first of PATH."""
    return "python3" if sys.platform != "win32" else "python"
