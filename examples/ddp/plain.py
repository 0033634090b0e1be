#!/usr/bin/env python3
"""Fits a small network with DistributedDataParallel, as one would for torchrun; it knows nothing of espalier.

    torchrun --nproc-per-node 2 plain.py --lr 0.1
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def waves(points, seed):
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(points, 1, generator=generator) - 2
    return TensorDataset(x, torch.sin(3 * x) + 0.1 * torch.randn(points, 1, generator=generator))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.9, help="momentum of SGD")
    parser.add_argument("--epochs", type=int, default=10, help="epochs to train")
    args = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count()) if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    train, valid = waves(1024, 1), waves(256, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=64 // dist.get_world_size(), sampler=sampler)
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        with torch.no_grad():
            x, y = valid.tensors
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device)).item()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} of {dist.get_world_size()} ranks: loss {loss:.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
