"""The same bits for any number of threads, on every run, and in another process."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import ops
from halfulp.autograd import flatten


def network(p: Any, x: Any, labels: Any, precision: str) -> Any:
    h = ops.relu(hu.conv2d(x, p["w1"], p["b1"], padding=1, precision=precision))
    h = hu.max_pool2d(h, 2)
    h = ops.tanh(hu.conv2d(h, p["w2"], p["b2"], precision=precision))
    h = hu.avg_pool2d(h, 2) + hu.max_pool2d(h, 2)
    h = ops.sigmoid(ops.linear(ops.flatten(h), p["w3"], p["b3"], precision))
    return ops.cross_entropy(h @ p["w4"], labels)


def digest(precision: str) -> str:
    """A digest of every bit of the loss and the gradient of one fixed network."""
    generator = np.random.default_rng(5)
    shapes = {
        "w1": (8, 3, 3, 3),
        "b1": (8,),
        "w2": (8, 8, 3, 3),
        "b2": (8,),
        "w3": (16, 32),
        "b3": (16,),
        "w4": (16, 5),
    }
    p = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    x = generator.standard_normal((6, 3, 12, 12)).astype(np.float32)
    value, gradient = hu.value_and_grad(network)(p, x, generator.integers(0, 5, 6), precision)
    sha = hashlib.sha256(value.tobytes())
    for leaf in flatten(gradient)[0]:
        sha.update(np.ascontiguousarray(leaf).tobytes())
    return sha.hexdigest()


@pytest.fixture(autouse=True)
def _threads_put_back() -> Iterator[None]:
    yield
    hu.set_num_threads(0)


@pytest.mark.parametrize("precision", ["correct", "fast"])
def test_any_number_of_threads_gives_the_same_bits(precision: str) -> None:
    digests = []
    for threads in (1, 2, 3, 5):
        hu.set_num_threads(threads)
        digests.append(digest(precision))
    assert digests == [digests[0]] * 4


def test_every_run_and_every_process_gives_the_same_bits() -> None:
    here = digest("correct")
    assert digest("correct") == here
    script = "from test_reproducibility import digest; print(digest('correct'))"
    folder = str(__file__).rpartition("test_reproducibility.py")[0]
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.strip() == here
