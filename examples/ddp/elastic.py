#!/usr/bin/env python3
"""The script of plain.py with a checkpoint: espalier pauses it, continues it, and changes its number of ranks."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import espalier_trial as et
from plain import waves

run = et.start(params={"lr": 0.1, "momentum": 0.9}, iterations=10)
if not run.inside:                                       # by hand, without torchrun: one rank
    os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", **os.environ})
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
device = torch.device("cuda", run.local_rank) if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=run.params["lr"], momentum=run.params["momentum"])
if run.checkpoint:                                       # of any number of ranks
    state = torch.load(os.path.join(run.checkpoint, "state.pt"), map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
ddp = DistributedDataParallel(model)
train, valid = waves(1024, 1), waves(256, 2)
sampler = DistributedSampler(train)
loader = DataLoader(train, batch_size=64 // run.world, sampler=sampler)
for epoch in run.iterations():
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x.to(device)), y.to(device)).backward()
        optimizer.step()
    with torch.no_grad():
        x, y = valid.tensors
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device)).item()
    print(f"rank {run.rank} of {run.world}: epoch {epoch}", flush=True)
    verdict = run.report(epoch, {"loss": loss})          # on every rank; each gets rank 0's verdict
    if verdict.save and run.rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                   os.path.join(run.save, "state.pt"))
        run.saved(epoch)
dist.destroy_process_group()
