#!/usr/bin/env python3
"""Tells two interleaved spirals apart: a training script in PyTorch that knows nothing of espalier."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(points, seed):
    generator = torch.Generator().manual_seed(seed)
    turn = torch.rand(points, generator=generator).sqrt() * 3 * torch.pi
    side = torch.arange(points) % 2
    angle = turn + side * torch.pi
    x = torch.stack([turn * angle.cos(), turn * angle.sin()], 1) / 9
    return TensorDataset(x + 0.04 * torch.randn(points, 2, generator=generator), side)


def evaluate(model, data, device):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for x, y in DataLoader(data, batch_size=512):
            x, y = x.to(device), y.to(device)
            output = model(x)
            loss += nn.functional.cross_entropy(output, y, reduction="sum").item()
            correct += (output.argmax(1) == y).sum().item()
    return loss / len(data), correct / len(data)


def main():
    parser = argparse.ArgumentParser(description="tells two spirals apart")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate")
    parser.add_argument("--hidden", type=int, default=32, help="units of a hidden layer")
    parser.add_argument("--weight-decay", type=float, default=1e-4, help="decay of the weights")
    parser.add_argument("--batch-size", type=int, default=64, help="examples in a step")
    parser.add_argument("--epochs", type=int, default=20, help="epochs to train")
    parser.add_argument("--seed", type=int, default=1, help="random seed")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, valid = spirals(2000, 1), spirals(500, 2)
    model = nn.Sequential(nn.Linear(2, args.hidden), nn.Tanh(), nn.Linear(args.hidden, args.hidden), nn.Tanh(),
                          nn.Linear(args.hidden, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    for epoch in range(1, args.epochs + 1):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        loss, accuracy = evaluate(model, valid, device)
        print(f"Epoch {epoch}: validation loss {loss:.4f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
