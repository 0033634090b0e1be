"""A hostile node: it speaks the protocol of espalier-agent (node/wire.h), and lies.

    evil_agent.py COUNTER SEED VICTIM

It stands for what `reach` runs: it reads the script that would send an agent, says that one has started, and sends the
driver, about the first trial that it is given, everything that an agent may send, with contents that no honest agent has.
COUNTER is a file with the number of the connection, which chooses the last message: one for which the driver must end the
channel. VICTIM is a directory that nothing may be written to.
"""
import os
import random
import select
import struct
import sys
import time

M64 = (1 << 64) - 1
(HELLO, RESERVE, START) = (1, 2, 3)
(ASK, OFFER, WANT, DATA, TAKEN, KEPT, GONE, TREE_LINE) = range(32, 40)
(HELLO_BACK, PORT, STARTED, LINE, GARBAGE, SAVED, CLOSED, ENDED, LOG, PONG, LEFT, FAILED, GPU, STATE, STATED, TAIL, RISK,
 PREPARED) = range(64, 82)

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def mix(x):
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & M64
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & M64
    return x ^ x >> 33


def digest(data):
    h = mix(0x9E3779B97F4A7C15) ^ len(data) * 0x87C37B91114253D5 & M64
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        h ^= int.from_bytes(data[at:at + 8], "little") * 0x9DDFEA08EB382D69 & M64
        h = (h << 29 | h >> 35) & M64
        h = (h * 0xB492B66FBE98F273 + 0x52DCE729) & M64
    return mix(h ^ int.from_bytes(data[whole:], "little") * 0x4CF5AD432745937F & M64)


def v(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return v(len(value)) + value


u8 = lambda n: struct.pack("<B", n)
u32 = lambda n: struct.pack("<I", n & 0xFFFFFFFF)
u64 = lambda n: struct.pack("<Q", n & M64)


def frame(kind, *parts):
    payload = b"".join(parts)
    head = struct.pack("<IB", len(payload), kind) + payload
    return head + u32(crc32c(head))


def read_v(data):
    number = shift = at = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, data[at:]


def checkpoint(lines, contents=b""):
    manifest = ("espalier-manifest 1\n" + "".join(line + "\n" for line in lines)).encode()
    manifest += b"end %d %08x\n" % (len(lines), crc32c(manifest))
    return digest(manifest), u32(len(manifest)) + manifest + contents


def sealed(name, content):
    return "f %08x %d %s" % (crc32c(content), len(content), name)


def checkpoints(victim):
    """Streams that must not arrive, or not do what they say."""
    state = sealed("state", b"x")
    mode = u32(0o6777) + b"x"
    yield checkpoint([state, f"l {victim} zz", "l /any/target zz/.bash_login"], mode)
    yield checkpoint([state, "l /any/target ../../../../../victim/link"], mode)
    yield checkpoint([state, "l . zz", f"l {victim}/x zz/link"], mode)
    yield checkpoint([state, "d sub", "l ../../../../../victim sub/up", "d sub/up/made"], mode)
    yield checkpoint([sealed("../../../../victim/file", b"x")], mode)
    yield checkpoint([sealed("%2e%2e/file", b"x")], mode)
    yield checkpoint([sealed(victim + "/file", b"x")], mode)
    yield checkpoint([sealed("a/" * 300 + "file", b"x")], mode)
    yield checkpoint(["d " + "a/" * 300 + "a"])
    yield checkpoint([sealed("MANIFEST", b"x")], mode)
    yield checkpoint(["f 00000000 18446744073709551615 big"])
    yield checkpoint(["f 00000000 4000000000000 big"])
    yield checkpoint([state, "l x state/below"], mode)
    yield checkpoint([])
    yield 1, u32(0xFFFFFFFF) + b"x"
    yield 2, b"x"


def outputs(victim):
    for name, kind, target in (("../up", b"f", b"x"), (victim + "/out", b"f", b"x"), ("in", b"l", victim.encode()),
                               ("in/out", b"f", b"x"), ("l", b"l", b"../../../../../victim"), ("l/out", b"f", b"x"),
                               ("su", b"f", b"x"), ("x" * 5000, b"f", b"x")):
        yield text32(name) + kind + u32(0o6777) + u64(len(target)) + target + u64(len(target))


def text32(value):
    return u32(len(value)) + value.encode()


def gentle(gang, mine, theirs, victim, rng):
    """Messages after which the channel lives: they are refused, ignored, or change only this trial."""
    trial = mine[0]
    others = [t for t in range(9) if t not in mine]
    serial = 1 << 60
    for number, stream in checkpoints(victim):
        for name in (f"{trial}/checkpoint-1", f"{rng.choice(others)}/checkpoint-1"):
            serial += 1
            yield frame(OFFER, v(serial), text(name), u64(number), v(len(stream))), (serial, stream)
    for stream in outputs(victim):
        for name in (f"{trial}/output", f"{rng.choice(others)}/output"):
            serial += 1
            yield frame(OFFER, v(serial), text(name), u64(serial), v(len(stream))), (serial, stream)
    for name in ("../../victim", victim, "files", "experiments/0/files", "experiments/../../victim/files", "0/log", "",
                 "999999999/checkpoint-1", f"{trial}/checkpoint-18446744073709551615", "1099511627777/output"):
        serial += 1
        yield frame(OFFER, v(serial), text(name), u64(3), v(8)), (serial, b"12345678")
        yield frame(ASK, text(name)), None
    yield frame(OFFER, v(serial + 1), text(f"{trial}/checkpoint-7"), u64(3), v(1 << 59)), None
    for t in others:
        yield frame(ASK, text(f"{t}/checkpoint-1")), None
        yield frame(TAIL, v(t), v(M64), text(b"this is no log of this trial\n")), None
    yield frame(LOG, u8(250), text(b"\x1b]0;title\x07\x1b[2J\nnode 1: forged\n")), None
    yield frame(RISK, text(b"\x1b[2J taken back")), None
    for what in range(1, 5):
        yield frame(GPU, u8(what), v(rng.choice(theirs or [0])), v(M64), text(b"\x1b[2J")), None
    for other in theirs:
        for _ in (1, 2):
            for kind, rest in ((STARTED, u32(1)), (LINE, text(b'{"iteration": 9}')), (SAVED, v(9) + v(9)), (CLOSED, b""),
                               (FAILED, v(0)), (PREPARED, b""), (GARBAGE, text(b"x")), (PORT, u32(1)), (LEFT, v(1)),
                               (ENDED, u8(1) + u32(0) + text(b""))):
                yield frame(kind, v(other), rest), None
    yield frame(STARTED, v(gang), u32(0)), None
    yield frame(GPU, u8(1), v(gang), v(M64), text("x")), None
    yield frame(TREE_LINE, v(serial), u8(1), text("sent 4")), None
    yield frame(TAKEN, v(serial), v(M64)), None
    yield frame(GONE, v(serial), text("x"), u8(1), text("\x1b[2J")), None


def harsh(gang, trial, rng, turn):
    """The last message of a connection."""
    choices = [
        frame(PORT, v(gang), u32(70000)),
        frame(STARTED, v(gang), u32(4294967295)),
        frame(ENDED, v(gang), u8(1), u32(4294967295)),
        frame(HELLO_BACK, u32(12), text("9" * 5000)),
        frame(LINE, v(gang), text(b'{"iteration": 1e300, "metrics": {"score": 1e309}}')),
        frame(LINE, v(gang), text(b"\x00\xff" * 30000)),
        frame(SAVED, v(gang), v(M64), v(M64)),
        frame(GARBAGE, v(gang), text(b"\x1b[2J\n" * 1000)),
        struct.pack("<IB", 0xFFFFFFF0, LINE) + bytes(100),
        bytes(rng.randrange(256) for _ in range(4000)),
        frame(DATA, v(M64), v(0), text(b"x")) + frame(200, b""),
        b"".join(frame(OFFER, v(i + 1), text(f"{i}/checkpoint-1"), u64(i), v(100)) for i in range(5000)),
    ] + [b"".join(frame(rng.choice([*range(32, 40), *range(64, 82)]), bytes(rng.randrange(256) for _ in range(rng.randrange(40))))
                  for _ in range(50))]
    return choices[turn % len(choices)]


def gangs_elsewhere(counter):
    """What the other hostile nodes were given."""
    with open(counter + ".gangs") as f:
        pairs = [line.split() for line in f]
    return sorted({int(gang) for pid, gang in pairs if int(pid) != os.getpid()})


def main():
    counter, seed, victim = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    turn = os.path.getsize(counter) if os.path.exists(counter) else 0
    with open(counter, "ab") as f:
        f.write(b".")
    rng = random.Random(seed * 1000 + turn)
    out = sys.stdout.buffer
    out.write(b"espalier-ship\nstart\n")
    out.flush()
    data, known, wanted, last, gangs, mine, due, queue, turns = b"", False, {}, b"", [], [], None, [], ""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if due is not None and time.monotonic() >= due:
            due = None
            queue = list(gentle(gangs[0], mine, gangs_elsewhere(counter), victim, rng))
            turns = "next"
            last = harsh(gangs[0], mine[0], rng, turn)
        while turns == "next" and queue:  # an offer of the same name would replace the one before
            message, offer = queue.pop(0)
            if offer is not None:
                wanted[offer[0]] = offer[1]
                turns = "waits"
            out.write(message)
        out.flush()
        if turns == "next" and not queue:
            break
        if not select.select([0], [], [], 0.1)[0]:
            continue
        more = os.read(0, 1 << 16)
        if not more:
            return
        data += more
        if not known:
            at = data.find(b'ship_main "$@"\n')
            if at < 0:
                continue
            known, data = True, data[at + 15:]
        while len(data) >= 9:
            size, kind = struct.unpack("<IB", data[:5])
            if len(data) < size + 9:
                break
            payload, data = data[5:5 + size], data[9 + size:]
            if kind == HELLO:
                gpus = 0xFFFFFFFF if turn % 13 == 12 else 2
                out.write(frame(HELLO_BACK, payload[:4], text("0.1.0"), u32(gpus), u32(2), v(1 << 30), u64(0)))
            elif kind == RESERVE:
                out.write(frame(PORT, v(read_v(payload)[0]), u32(1)))
            elif kind == WANT:
                serial = read_v(payload)[0]
                stream = wanted.get(serial, b"x")
                out.write(frame(DATA, v(serial), v(0), text(stream)))
            elif kind == KEPT:
                turns = "next"
            elif kind == START:
                gang, rest = read_v(payload)
                gangs.append(gang)
                with open(counter + ".gangs", "a") as f:
                    f.write(f"{os.getpid()} {gang}\n")
                mine.append(read_v(rest)[0])
                if len(mine) == 1:
                    due = time.monotonic() + 0.3  # others may be given to this node, too
                    end = due + 15
        out.flush()
    out.write(last)
    out.flush()
    time.sleep(0.5)


try:
    main()
except BrokenPipeError:
    pass
