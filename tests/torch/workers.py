"""What the processes of test_distributed run: ``workers.py TASK KIND RANK SIZE FILE``; each prints a line of JSON."""

import hashlib
import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import halfulp.torch as ht

BATCH = 7
TYPES = {"half": torch.float16, "double": torch.float64, "norms of halves": torch.float16}
TYPES |= {"norms of doubles": torch.float64, "norms of 16 bits": torch.bfloat16}


class Shared(nn.Module):
    """Two uses of one layer, groups, strides, a reflected edge, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect")
        self.twice = nn.Conv2d(6, 6, 3, padding="same", groups=2)
        self.up = nn.ConvTranspose2d(6, 4, 3, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.twice(x)) + self.twice(x)
        x = self.up(x)
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Norms(nn.Module):
    """Batch norms of images and of rows: used twice, without parameters, with an average over all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.twice, self.plain = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)
        self.rows, self.head = nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 5)
        self.last = nn.BatchNorm1d(5, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.twice(self.conv(x)))
        x = self.plain(self.twice(x))
        return self.last(self.head(self.rows(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))))


class Words(nn.Module):
    """An embedding of the signs and sizes of some pixels."""

    def __init__(self, by_count: bool) -> None:
        super().__init__()
        self.rows, self.head = nn.Embedding(9, 4, padding_idx=4, scale_grad_by_freq=by_count), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rows((x[:, 0, 0] * 2).round().clamp(-4, 4).long() + 4)[:, 1])


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(torch.nan_to_num(tensor.detach(), 12345.0).reshape(-1).view(torch.uint8).tolist())


def digest(model: nn.Module) -> str:
    state = hashlib.sha256()
    for name, parameter in model.named_parameters():
        state.update(name.encode() + raw(parameter) + raw(parameter.grad))
    for name, buffer in model.named_buffers():
        state.update(name.encode() + raw(buffer))
    return state.hexdigest()


def network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "norm":
        model: nn.Module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))
    elif kind == "instances":
        norm = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.Conv2d(4, 2, 3))
    elif kind.startswith("norms"):
        model = Norms()
    elif kind.startswith("words"):
        model = Words(kind == "words by count")
    else:
        model = Shared()
    ht.replace(model, everything=True)
    return model


def typed(kind: str) -> tuple[nn.Module, torch.dtype]:
    dtype = TYPES.get(kind, torch.float32)
    model = network(kind).to(dtype)
    if kind == "norms of 16 bits":  # the parameters of batch norms stay in float32, as under autocast
        for layer in model.modules():
            if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
                layer.float()
    return model, dtype


def batch(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    if kind == "ties":  # small integers: many sums are exact ties between two floats of 16 bits
        return torch.randint(-4, 5, (BATCH, 3, 6, 6)).float(), torch.randint(-2, 3, (BATCH, 5)).float()
    x = torch.randn(BATCH, 3, 6, 6)
    if kind == "norms of infinity":
        x[2, 1, 3, 3] = float("inf")
    return x, torch.randn(BATCH, 2, 2, 2) if kind in ("norm", "instances") else torch.randn(BATCH, 5)


def part(x: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    bounds = [BATCH * i // size for i in range(size + 1)]
    return x[bounds[rank] : bounds[rank + 1]]


def trained(kind: str, rank: int, size: int, group: Any) -> dict[str, Any]:
    model, dtype = typed(kind)
    if rank:  # rank 0 has the last word
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
    parallel = ht.distributed.ExactDataParallel(model, group, timeout=60)
    optimizer = ht.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9)
    x, weights = (t.to(dtype) for t in batch(kind))
    for _ in range(2):
        optimizer.zero_grad()
        output = parallel(part(x, rank, size))
        (output * part(weights, rank, size)).sum().backward()
        optimizer.step()
    count = sum(p.numel() for p in model.parameters())
    return {"digest": digest(model), "sent": parallel.sent_bytes, "exchanged": parallel.exchanged, "elements": count}


def task_sizes(kind: str, rank: int, world: int) -> dict[str, Any]:
    results = {}
    for size in range(1, world + 1):
        group = dist.new_group(list(range(size)))
        if rank < size:
            results[str(size)] = trained(kind, rank, size, group)
    return results


def task_lost(kind: str, rank: int, world: int) -> dict[str, Any]:
    model = ht.distributed.ExactDataParallel(network(kind), timeout=20)
    x, weights = batch(kind)
    output = model(part(x, rank, world))
    if rank == world - 1:
        os._exit(3)  # as a worker that is killed
    began = time.monotonic()
    try:
        (output * part(weights, rank, world)).sum().backward()
    except ht.distributed.WorkerLostError as error:
        return {"error": str(error), "seconds": time.monotonic() - began}
    return {}


def main() -> None:
    task, kind, rank, world, file = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    torch.set_num_threads(1)
    store = dist.FileStore(file, world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60))
    result = {"sizes": task_sizes, "lost": task_lost}[task](kind, rank, world)
    print(json.dumps(result), flush=True)
    os._exit(0)  # no farewell to workers that are gone


if __name__ == "__main__":
    main()
