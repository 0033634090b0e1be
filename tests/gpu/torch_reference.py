#!/usr/bin/env python3
"""Steps a second of fashion_cuda's networks in PyTorch, eager and compiled, on the same batches.

    torch_reference.py [--seconds S] [--repeat N] [--how HOW]

The images live on the GPU here, too; a step takes its batch by an index, computes in bf16 (autocast) and updates by
SGD with momentum, fused.  One JSON object a line, and TAP.
"""
import argparse
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=2.0)
parser.add_argument("--repeat", type=int, default=1)
parser.add_argument("--how", choices=("eager", "compile", "compile-graphs"))
arguments = parser.parse_args()

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as e:
    print("1..0 # SKIP", e)
    sys.exit(0)
if not torch.cuda.is_available():
    print("1..0 # SKIP PyTorch", torch.__version__, "sees no GPU")
    sys.exit(0)

IMAGES = 16384
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = True
pixels = torch.randint(0, 256, (IMAGES, 1, 28, 28), dtype=torch.uint8, device="cuda")
labels = torch.randint(0, 10, (IMAGES,), device="cuda")


def cnn(width, hidden):
    layers = [nn.Conv2d(1, width, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(width, 2 * width, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    features = 2 * width * 25
    if hidden:
        layers += [nn.Linear(features, hidden), nn.ReLU()]
        features = hidden
    return nn.Sequential(*layers, nn.Linear(features, 10))


def mlp(width, depth):
    layers = [nn.Flatten()]
    for i in range(depth):
        layers += [nn.Linear(784 if i == 0 else width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def measure(name, make, batch, how):
    net = make().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    order = torch.randperm(IMAGES, device="cuda")

    def loss_of(at):
        x = (pixels[at].float() / 255.0 - 0.2860) / 0.3530
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(net(x), labels[at])

    if how != "eager":
        loss_of = torch.compile(loss_of, mode={"compile": "default", "compile-graphs": "reduce-overhead"}[how])
    total = torch.zeros((), device="cuda")

    def step(i):
        at = order[i * batch:(i + 1) * batch]
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(at)
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())

    per_epoch = IMAGES // batch
    started = time.perf_counter()
    for i in range(min(20, per_epoch)):
        step(i % per_epoch)
    torch.cuda.synchronize()
    ready = time.perf_counter() - started
    for _ in range(arguments.repeat):
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < arguments.seconds:
            for i in range(min(64, per_epoch)):
                step(i)
            torch.cuda.synchronize()
            steps += min(64, per_epoch)
        took = time.perf_counter() - started
        print(json.dumps({"figure": "torch", "how": how, "network": name, "batch": batch, "steps_a_second": round(steps / took, 1),
                          "first_steps_s": round(ready, 2), "version": torch.__version__}), flush=True)


good = bad = 0
cases = [("cnn, width 8", lambda: cnn(8, 0), b) for b in (64, 1024)]
cases += [("cnn, width 32, hidden 128", lambda: cnn(32, 128), b) for b in (64, 1024)]
cases += [("mlp, width 4096, depth 3", lambda: mlp(4096, 3), b) for b in (2048, 8192)]
for how in (arguments.how,) if arguments.how else ("eager", "compile", "compile-graphs"):
    for name, make, batch in cases:
        try:
            measure(name, make, batch, how)
            good += 1
        except Exception as e:  # one way that fails is no reason to lose the others
            print("#", how, name, batch, type(e).__name__, str(e).splitlines()[0] if str(e) else "", flush=True)
            bad += 1
        torch._dynamo.reset()
print("ok 1 - PyTorch %s: %d measured, %d not" % (torch.__version__, good, bad) if good else "not ok 1 - nothing could be measured")
print("1..1")
