"""A bad network between this network namespace and one of its own, which requires only TUN devices.

    wire.py SEED DELAY_MS LOSS_PERCENT <COMMANDS

Here is 10.77.0.1; the other namespace (/proc/PID/ns/net of this process) has 10.77.1.1 and 10.77.1.2. Packets take
DELAY_MS and up to as long again, so that some overtake others, and LOSS_PERCENT of them are lost. Each line of COMMANDS is

    ADDRESS to|from|both SECONDS         nothing passes to, from, or to and from this address for as long
    ADDRESS bad SECONDS                  a third is lost, and the rest takes 10 times as long
    end                                  of the network; figures are printed

It prints a line when all is up.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def device(name, mine, theirs):
    """A TUN device in the namespace of this process; packets are read from it and written to it."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for address in mine:
        subprocess.run(["ip", "addr", "add", address + "/32", "dev", name], check=True)
    for words in (["link", "set", name, "up"], ["link", "set", "lo", "up"], ["route", "add", theirs, "dev", name]):
        subprocess.run(["ip", *words], check=True)
    return file


class Wire:
    def __init__(self, seed, delay, loss):
        self.random = random.Random(seed)
        self.delay, self.loss = delay, loss
        self.near = device("near", ["10.77.0.1"], "10.77.1.0/24")
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        self.far = device("far", ["10.77.1.1", "10.77.1.2"], "10.77.0.0/24")
        self.flying = []  # (when it arrives, a number, device, packet)
        self.faults = {}  # (address, what): until when
        self.ended = False
        self.passed = self.lost = self.blocked = 0

    def has(self, address, what):
        return self.faults.get((address, what), 0) > time.monotonic()

    def command(self, line):
        words = line.split()
        if words == ["end"]:
            self.ended = True
        elif words:
            for what in ("to", "from") if words[1] == "both" else (words[1],):
                self.faults[words[0], what] = time.monotonic() + float(words[2])

    def take(self, source):
        """Moves what can be read from a device on its way."""
        for _ in range(64):
            try:
                packet = os.read(source, 65536)
            except BlockingIOError:
                return
            if packet[0] >> 4 != 4:  # IPv6 looks for neighbors
                continue
            to = source == self.near
            host = ".".join(map(str, packet[16:20] if to else packet[12:16]))
            bad = self.has(host, "bad")
            if self.has(host, "to" if to else "from"):
                self.blocked += 1
            elif self.random.random() < (max(self.loss, 1 / 3) if bad else self.loss):
                self.lost += 1
            else:
                self.passed += 1
                delay = self.delay * (1 + self.random.random()) * (10 if bad else 1)
                heapq.heappush(self.flying, (time.monotonic() + delay, self.passed, self.far if to else self.near, packet))

    def run(self):
        text = b""
        while not self.ended:
            wait = max(0, self.flying[0][0] - time.monotonic()) if self.flying else None
            ready, _, _ = select.select([0, self.near, self.far], [], [], wait)
            if 0 in ready:
                *lines, text = (text + os.read(0, 4096)).split(b"\n")
                for line in lines:
                    self.command(line.decode())
            for file in ready:
                if file != 0:
                    self.take(file)
            while self.flying and self.flying[0][0] <= time.monotonic():
                _, _, file, packet = heapq.heappop(self.flying)
                try:
                    os.write(file, packet)
                except OSError:
                    self.lost += 1
        print(f"{self.passed} packets passed, {self.lost} were lost, {self.blocked} were blocked", flush=True)


wire = Wire(int(sys.argv[1]), float(sys.argv[2]) / 1000, float(sys.argv[3]) / 100)
print("up", flush=True)
wire.run()
