"""Train a small ResNet in different circumstances: one digest with halfulp, several with PyTorch alone.

The same weights and data are trained with 1 and 2 threads, with the batch whole and in pieces, contiguous and
channels-last, and by 1 and 2 processes. Each run prints the SHA-256 of the trained parameters.

    python reproducible_resnet.py [--steps 3] [--batch 64]
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import halfulp.torch as ht


class Block(nn.Module):
    """Two convolutions with group norms and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(4, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(4, outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet() -> nn.Module:
    """Three blocks; group norm, because batch norm in pieces would see other statistics."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.GroupNorm(4, 8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def data(batch: int) -> tuple[Tensor, Tensor]:
    """Noisy pictures of ten stripes."""
    torch.manual_seed(1)
    labels = torch.arange(batch) % 10
    places = torch.arange(16).float()
    stripes = torch.cos(places[None, :] * (labels[:, None] + 1) / 3)
    return stripes[:, None, None, :] + 0.5 * torch.randn(batch, 3, 16, 16), labels


@dataclass(frozen=True)
class Setting:
    """The circumstances of one run."""

    ours: bool
    threads: int = 1
    pieces: int = 1
    layout: str = "contiguous"

    def __str__(self) -> str:
        pieces = "whole" if self.pieces == 1 else f"{self.pieces} pieces"
        return f"{self.threads} thread{'s' * (self.threads > 1)}, {pieces}, {self.layout}"


def train(setting: Setting, steps: int, batch: int, rank: int = 0, processes: int = 1) -> str:
    """The digest of the parameters after some steps of stochastic gradient descent."""
    torch.set_num_threads(setting.threads)
    model, (images, labels) = resnet(), data(batch)
    if setting.layout == "channels-last":
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    if setting.ours:
        ht.replace(model, everything=True)
    optimizer = (ht.optim if setting.ours else torch.optim).SGD(model.parameters(), lr=0.1, momentum=0.9)
    network = ht.distributed.ExactDataParallel(model) if setting.ours and processes > 1 else model
    share = slice(batch * rank // processes, batch * (rank + 1) // processes)
    for _ in range(steps):
        optimizer.zero_grad()
        with ht.pieces(model) if setting.ours and setting.pieces > 1 else nullcontext():
            for x, y in zip(images[share].chunk(setting.pieces), labels[share].chunk(setting.pieces), strict=True):
                with ht.patched(everything=True) if setting.ours else nullcontext():
                    losses = F.cross_entropy(network(x), y, reduction="none")
                losses.backward(torch.full_like(losses, 1 / batch))  # the mean over the whole batch
        if processes > 1 and not setting.ours:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
    state = hashlib.sha256()
    for parameter in model.parameters():
        state.update(parameter.detach().contiguous().numpy().tobytes())
    return state.hexdigest()[:16]


def by_processes(ours: bool, steps: int, batch: int) -> str:
    """The digest of two processes that share the batch."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--steps", str(steps), "--batch", str(batch), "--store", f"{folder}/store"]
        command += ["--ours"] if ours else []
        workers = [
            subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True) for rank in (0, 1)
        ]
        digests = {worker.communicate(timeout=200)[0].strip() for worker in workers}
    if len(digests) != 1:
        raise SystemExit(f"the processes disagree: {digests}")
    return digests.pop()


def main() -> None:
    """All circumstances, with halfulp and without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        store = dist.FileStore(str(options.store), 2)
        dist.init_process_group("gloo", store=store, rank=options.rank, world_size=2)
        print(train(Setting(options.ours), options.steps, options.batch, options.rank, 2))
        dist.destroy_process_group()
        return
    for ours in (True, False):
        print("halfulp" if ours else "PyTorch alone")
        digests = []
        for threads, pieces, layout in itertools.product((1, 2), (1, 4), ("contiguous", "channels-last")):
            setting = Setting(ours, threads, pieces, layout)
            digests.append(train(setting, options.steps, options.batch))
            print(f"  {digests[-1]}  {setting}")
        digests.append(by_processes(ours, options.steps, options.batch))
        print(f"  {digests[-1]}  2 processes")
        print(f"  different digests: {len(set(digests))}")


if __name__ == "__main__":
    main()
