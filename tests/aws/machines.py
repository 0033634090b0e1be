"""The machines of the stand-in: each is a folder, an address on loopback, and the processes that carry its name in
their environment. Real sshds reach them through machines.py as ForceCommand (tests/runs/aws.sh)."""
import os
import shutil
import signal
import subprocess

MARK = "ESPALIER_MACHINE"


def home_of(folder, name):
    """It names the machine, too: several stand-ins may run at the same time."""
    return os.path.join(folder, "machines", name)


def processes(folder, name):
    """Those that belong to this machine."""
    mark = ("%s=%s" % (MARK, home_of(folder, name))).encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                if mark in file.read().split(b"\0"):
                    yield int(pid)
        except OSError:
            pass


def start(folder, name, address, user_data):
    """Boots it: what cloud-init would do with a script."""
    home = home_of(folder, name)
    tools = os.path.join(home, "bin")
    os.makedirs(tools, exist_ok=True)
    write(os.path.join(tools, "poweroff"), "#!/bin/sh\n: >%s/off\n" % home)
    write(os.path.join(tools, "pgrep"), "#!/bin/sh\nfor f in $(grep -lzxs %s=%s /proc/[0-9]*/environ); do\n"
          '\tread -r c <"${f%%environ}comm" && [ "$c" = "$2" ] && exit 0\ndone 2>/dev/null\nexit 1\n' % (MARK, home))
    os.makedirs(os.path.join(folder, "addresses"), exist_ok=True)
    write(os.path.join(folder, "addresses", address), home)
    if not user_data.startswith(b"#!"):
        return
    script = os.path.join(home, "user-data")
    write(script, user_data.decode())
    env = {"PATH": tools + ":/usr/sbin:/usr/bin:/sbin:/bin", MARK: home, "HOME": home}
    subprocess.Popen([script], env=env, cwd=home, start_new_session=True, stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.chmod(path + ".new", 0o700)
    os.rename(path + ".new", path)


def is_off(folder, name):
    return os.path.exists(os.path.join(home_of(folder, name), "off"))


def end(folder, name, address):
    try:
        os.unlink(os.path.join(folder, "addresses", address))
    except OSError:
        pass
    for _ in range(5):    # one that is being started may appear a little later
        found = list(processes(folder, name))
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not found:
            break
    shutil.rmtree(home_of(folder, name), ignore_errors=True)
