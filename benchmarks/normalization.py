"""Batch norm, layer norm and softmax with their derivatives beside PyTorch, float32.

python -m benchmarks normalization [--threads N] [--only TEXT]: milliseconds of both, and PyTorch's time over ours. The
clock is processor time with one thread, else the clock on the wall.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.timing import best_times


class Row(NamedTuple):
    """One line of the table: what is measured, and both contenders."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def _arrays(seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _channels_last(array: Any) -> Any:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def _gradients(name: str, op: Any, inputs: list[Any], g: Any, function: Callable[..., Any]) -> Row:
    """The pullback beside PyTorch's backward pass; both have the value already."""
    import torch

    leaves = [torch.from_numpy(a).clone().requires_grad_() for a in inputs]
    y, cotangent, pullback = function(*leaves), torch.from_numpy(g), op.vjp(*inputs)[1]
    return Row(
        f"{name}, VJP", lambda: pullback(g), lambda: torch.autograd.grad(y, leaves, cotangent, retain_graph=True)
    )


def batch_norms() -> Iterator[Row]:
    """Training with and without running statistics, evaluation, and the pullback."""
    import torch
    from torch.nn import functional

    import halfulp as hu

    shapes = [(32, 64, 56, 56), (8, 256, 14, 14), (256, 512)]
    for shape, last in [*((s, False) for s in shapes), (shapes[0], True), (shapes[1], True)]:
        channels = (shape[1],)
        x, g, w, b, mean, variance = _arrays(1, shape, shape, *(channels,) * 4)
        variance = np.abs(variance) + 0.5
        if last:
            x, g = _channels_last(x), _channels_last(g)
        name = f"batch norm {'x'.join(map(str, shape))}{' channels-last' if last else ''}"
        tx, tw, tb, tm, tv = (torch.from_numpy(a.copy("K")) for a in (x, w, b, mean, variance))
        for training in (True, False):  # training moves the running statistics a little
            yield Row(
                f"{name}, {'training' if training else 'evaluation'}",
                partial(hu.batch_norm, x, mean, variance, w, b, training),
                partial(functional.batch_norm, tx, tm, tv, tw, tb, training),
            )
        op = hu.BatchNorm(True)
        yield _gradients(
            name, op, [x, w, b], g, lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True)
        )


def layer_norms() -> Iterator[Row]:
    """Value and pullback."""
    import torch
    from torch.nn import functional

    import halfulp as hu

    for shape in ((4096, 768), (512, 1024)):
        sizes = (shape[1],)
        x, g, w, b = _arrays(2, shape, shape, sizes, sizes)
        op, name = hu.LayerNorm(sizes), f"layer norm {shape[0]}x{shape[1]}"
        tx, tw, tb = (torch.from_numpy(a) for a in (x, w, b))
        yield Row(name, partial(op, x, w, b), partial(functional.layer_norm, tx, sizes, tw, tb))
        yield _gradients(name, op, [x, w, b], g, partial(_layer_norm, sizes))


def _layer_norm(sizes: tuple[int, ...], x: Any, w: Any, b: Any) -> Any:
    from torch.nn import functional

    return functional.layer_norm(x, sizes, w, b)


def group_norms() -> Iterator[Row]:
    """Group and instance norm, value and pullback."""
    import torch
    from torch.nn import functional

    import halfulp as hu

    x, g, w, b = _arrays(3, (8, 64, 56, 56), (8, 64, 56, 56), (64,), (64,))
    tx, tw, tb = (torch.from_numpy(a) for a in (x, w, b))
    group, instance = hu.GroupNorm(32), hu.InstanceNorm()
    yield Row("group norm 8x64x56x56", lambda: group(x, w, b), lambda: functional.group_norm(tx, 32, tw, tb))
    yield _gradients("group norm 8x64x56x56", group, [x, w, b], g, lambda x, w, b: functional.group_norm(x, 32, w, b))
    yield Row(
        "instance norm 8x64x56x56",
        lambda: instance(x, w, b),
        lambda: functional.instance_norm(tx, weight=tw, bias=tb),
    )


def softmaxes() -> Iterator[Row]:
    """Softmax and its logarithm along the last and another axis, value and pullback."""
    import torch
    from torch.nn import functional

    import halfulp as hu

    for shape, dim in (((4096, 1000), -1), ((8, 12, 128, 128), -1), ((64, 1000, 64), 1)):
        x, g = _arrays(4, shape, shape)
        tx = torch.from_numpy(x)
        for record, function in ((hu.Softmax, functional.softmax), (hu.LogSoftmax, functional.log_softmax)):
            op = record(dim)
            name = f"{op.name} {'x'.join(map(str, shape))} dim {dim}"
            yield Row(name, partial(op, x), partial(function, tx, dim))
            yield _gradients(name, op, [x], g, partial(function, dim=dim))


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks normalization", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    import torch

    import halfulp as hu

    torch.set_num_threads(options.threads)
    hu.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"{'':48}{'halfulp':>10}{'PyTorch':>10}{'ratio':>8}   ms, {options.threads} threads")
    for rows in (batch_norms, layer_norms, group_norms, softmaxes):
        for row in rows():
            if options.only in row.name:
                found = best_times({"ours": row.ours, "theirs": row.theirs}, options.rounds, 4.0, clock)
                ours, theirs = found["ours"] * 1e3, found["theirs"] * 1e3
                print(f"{row.name:48}{ours:10.3f}{theirs:10.3f}{theirs / ours:8.2f}", flush=True)
