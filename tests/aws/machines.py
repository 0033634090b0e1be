"""The machines of the stand-in: each is a folder, an address on loopback, and the processes that carry its name in
their environment. Each may have a real sshd, with the host key of its user data or that of the image."""
import email
import os
import re
import shutil
import signal
import subprocess
import time

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


def parts(user_data):
    """What cloud-init finds in it: a script, and the private host key."""
    if user_data.startswith(b"#!"):
        return user_data.decode(), None
    script = key = None
    for part in email.message_from_bytes(user_data).walk():
        text = part.get_payload() if not part.is_multipart() else ""
        if part.get_content_type() == "text/x-shellscript" and text.startswith("#!"):
            script = text
        if part.get_content_type() == "text/cloud-config" and text.startswith("#cloud-config\n"):
            found = re.search(r"\nssh_keys:\n  ed25519_private: \|\n((    .*\n)+)  ed25519_public: (ssh-ed25519 \S+)\n", text)
            key = found and re.sub("(?m)^    ", "", found[1])
    return script, key


def boot_sshd(home, address, template, key):
    """An sshd of its own, at its address and the port of the template, whose host key is that of the image."""
    with open(template) as file:
        lines = file.read().splitlines()
    own = {"ListenAddress": address, "PidFile": os.path.join(home, "sshd.pid")}
    if key:
        write(os.path.join(home, "host_key"), key)
        own["HostKey"] = os.path.join(home, "host_key")
    lines = [line for line in lines if line.split(" ")[0] not in own] + ["%s %s" % one for one in own.items()]
    write(os.path.join(home, "sshd.conf"), "\n".join(lines) + "\n")
    program = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    subprocess.Popen([program, "-D", "-f", os.path.join(home, "sshd.conf"), "-E", os.path.join(home, "sshd.log")],
                     env={"PATH": os.environ["PATH"], MARK: home}, start_new_session=True, stdin=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
    for _ in range(100):
        if os.path.exists(own["PidFile"]):
            break
        time.sleep(0.05)


def start(folder, name, address, user_data, sshd="", deaf=False):
    """Boots it: what cloud-init would do. sshd: its configuration, or none; deaf: cloud-init leaves the host key alone."""
    home = home_of(folder, name)
    tools = os.path.join(home, "bin")
    os.makedirs(tools, exist_ok=True)
    write(os.path.join(tools, "poweroff"), "#!/bin/sh\n: >%s/off\n" % home)
    write(os.path.join(tools, "pgrep"), "#!/bin/sh\nfor f in $(grep -lzxs %s=%s /proc/[0-9]*/environ); do\n"
          '\tread -r c <"${f%%environ}comm" && [ "$c" = "$2" ] && exit 0\ndone 2>/dev/null\nexit 1\n' % (MARK, home))
    os.makedirs(os.path.join(folder, "addresses"), exist_ok=True)
    write(os.path.join(folder, "addresses", address), home)
    text, key = parts(user_data)
    if sshd:
        boot_sshd(home, address, sshd, None if deaf else key)
    if not text:
        return
    script = os.path.join(home, "user-data")
    write(script, text)
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


def end_sshd(home):
    """It writes its title over its environment, so it is not found by that; its connections end with their commands."""
    try:
        with open(os.path.join(home, "sshd.pid")) as file:
            os.kill(int(file.read()), signal.SIGKILL)
        os.unlink(os.path.join(home, "sshd.pid"))
    except (OSError, ValueError):
        pass


def rekey(folder, name, address, sshd):
    """Something else answers at its address: with the host key of the image."""
    end_sshd(home_of(folder, name))
    boot_sshd(home_of(folder, name), address, sshd, None)


def end(folder, name, address):
    try:
        os.unlink(os.path.join(folder, "addresses", address))
    except OSError:
        pass
    end_sshd(home_of(folder, name))
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
