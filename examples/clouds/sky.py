#!/usr/bin/env python3
"""Cloud command: machines of every provider that SkyPilot knows, by the program sky (docs/sky.md).

    sky.py acquire|release|list    JSON on standard input and output (docs/command.md)

The name of an offer is what to ask for: "A100:8" is `sky launch --gpus A100:8`, "cpus=4" is `--cpus 4`. A machine is a
SkyPilot cluster of one node, named after its token, so that there is never a second one. Set in the environment of espalier:
    SKY_LAUNCH    more arguments of `sky launch`, such as "--infra gcp/us-central1 --image-id ..."
    SKY_IDLE      minutes after which SkyPilot itself ends a machine without a connection; default 30"""
import json
import os
import re
import shlex
import subprocess
import sys
import time

# What `sky launch` says when it has made nothing, and what that is for espalier.
REFUSALS = (("quota", r"[Qq]uota"),
            ("capacity", r"ResourcesUnavailableError|Failed to (acquire|provision)|InsufficientInstanceCapacity|EXHAUSTED"),
            ("permanent", r"No launchable resource|No cloud (access|is enabled)|not enabled|does not contain any instances|"
                          r"Invalid|Usage: sky|[Cc]redentials"))


def sky(*words):
    """Its exit status and what it says, without colors; it gets no standard input to wait for."""
    done = subprocess.run(["sky", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=dict(os.environ, NO_COLOR="1"))
    clean = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text) for text in (done.stdout, done.stderr)]
    return done.returncode, clean[0], clean[1]


def fail(text):
    sys.stderr.write(text.rstrip() + "\n")
    sys.exit(1)


def acquire(request):
    """It lasts until the machine is up: SkyPilot says only then whether a provider has it."""
    name, spot = request["offer"], request["market"] == "spot"
    cores = re.fullmatch(r"cpus=([0-9]+\+?)", name)
    status, out, err = sky("launch", "--yes", "--detach-run", "--cluster", request["token"], "--num-nodes", "1",
                           *(["--cpus", cores[1]] if cores else ["--gpus", name]),
                           *(["--use-spot"] if spot else ["--no-use-spot"]),
                           "--idle-minutes-to-autostop", os.environ.get("SKY_IDLE", "30"), "--down",
                           *shlex.split(os.environ.get("SKY_LAUNCH", "")))
    if status == 0:
        return {"id": request["token"], "state": "ready"}
    said = (err + out).strip().splitlines() or ["sky launch has failed"]
    for kind, pattern in REFUSALS:
        found = [line for line in said if re.search(pattern, line)]
        if found:
            # Perhaps a part of it is left, which would cost something; an error here is one of acquire: `list` decides.
            down(request["token"])
            return {"error": found[-1].strip()[:300], "kind": kind}
    return fail("\n".join(said[-5:]))


def down(token):
    status, out, err = sky("down", "--yes", token)
    if status != 0 and not re.search(r"not found|does not exist|No existing", out + err):
        fail(err or out)


def release(request):
    down(request["token"])
    return {}


def listing(run):
    """Clusters of one run or, without it, of all. --refresh asks the providers: an interruption shows there only."""
    status, out, err = sky("status", "--refresh", "--output", "json")
    begin = re.search(r"^\[", out, re.MULTILINE)
    if status != 0 or not begin:
        fail(err or out or "sky status has printed no list")
    machines = []
    for cluster in json.JSONDecoder().raw_decode(out, begin.start())[0]:
        token, state = cluster["name"], {"UP": "ready", "AUTOSTOPPING": "notice"}.get(cluster["status"], "booting")
        found = re.fullmatch(r"espl-(.+)-[0-9]+", token)
        if not found or (run and found[1] != run):
            continue
        if cluster["status"] == "STOPPED" and run:    # it costs its disk
            down(token)
            continue
        machines.append({"id": token, "token": token, "run": found[1], "state": state,
                         "age_s": max(0, int(time.time()) - int(cluster.get("launched_at") or time.time()))})
    return {"machines": machines}


def main():
    if sys.argv[1:] not in (["acquire"], ["release"], ["list"]):
        sys.stderr.write("usage: sky.py acquire|release|list\n")
        return 2
    command, text = sys.argv[1], sys.stdin.read()
    request = json.loads(text) if text.strip() else {}
    # A request that did not arrive whole must not make a machine that nobody can find, nor end one.
    if command != "list" and not re.fullmatch(r"[A-Za-z0-9-]+", request.get("token") or ""):
        sys.stderr.write("sky.py: the request names no token\n")
        return 2
    print(json.dumps(listing(request.get("run")) if command == "list" else
                     acquire(request) if command == "acquire" else release(request)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
