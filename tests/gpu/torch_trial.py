#!/usr/bin/env python3
"""A training script as PyTorch's users write them: the small network of fashion_cuda, eager, on Fashion-MNIST.

    torch_trial.py --data FOLDER [--lr X] [--momentum X] [--iterations N] [--images N] [--device DEVICE]

It knows nothing of espalier: an iteration is an epoch, after which it prints a line of JSON.
"""
import argparse
import gzip
import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--iterations", type=int, default=20)
parser.add_argument("--images", type=int, default=8000)
parser.add_argument("--device", default="cuda")
arguments = parser.parse_args()
VALIDATE, BATCH = 2000, 128


def read(name, header):
    with gzip.open(os.path.join(arguments.data, name)) as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)


torch.manual_seed(1)
torch.set_num_threads(1)
device = torch.device(arguments.device)
x = ((read("train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).float() / 255 - 0.2860) / 0.3530).to(device)
y = read("train-labels-idx1-ubyte.gz", 8).long().to(device)
net = nn.Sequential(nn.Conv2d(1, 8, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.MaxPool2d(2), nn.ReLU(),
                    nn.Flatten(), nn.Linear(400, 10)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=arguments.lr, momentum=arguments.momentum)
for iteration in range(1, arguments.iterations + 1):
    for at in torch.randperm(len(x) - VALIDATE)[:arguments.images].to(device).split(BATCH):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(x[at]), y[at]).backward()
        optimizer.step()
    with torch.no_grad():
        loss = F.cross_entropy(net(x[-VALIDATE:]), y[-VALIDATE:]).item()
    print(json.dumps({"iteration": iteration, "val_loss": round(loss, 6)}), flush=True)
