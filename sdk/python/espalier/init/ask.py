"""Asks a script for its options: runs it with --help, and reads what it prints.

The script runs in a session of its own, in which everything is killed at the end.  It sees no GPU, has no standard input, can
write into no file, and has limits of time and memory.
"""

import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

from espalier.init.options import ABSENT, Option, parameter_name

TIME_LIMIT = 30.0            # seconds of the clock
OUTPUT_MAX = 1 << 20
LINE_MAX = 1000              # characters of a line of it that are looked at
HELP_MAX = 2000              # characters of the help of an option
MEMORY_MAX = 64 << 30        # of addresses: libraries of GPUs reserve many


class Answer:
    def __init__(self, text: str, problem: str):
        self.text, self.problem = text, problem


def _limit() -> None:
    seconds = int(TIME_LIMIT)
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
                       (resource.RLIMIT_AS, MEMORY_MAX)):
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(what, (most, most))


def _environment() -> Dict[str, str]:
    env = dict(os.environ)
    env.update(CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1", COLUMNS="200", NO_COLOR="1", TERM="dumb", PAGER="cat",
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
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=_environment(), start_new_session=True, preexec_fn=_limit)
    except OSError as error:
        return Answer("", error.strerror or str(error))
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
    for option in found:
        at = _default.search(option.help)
        if at is not None:
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
