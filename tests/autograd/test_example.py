"""The LeNet example: it learns the digits, its bits do not depend on threads, and its exact check tells the truth."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import flint
import numpy as np
import pytest
from rich.console import Console

import halfulp as hu


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "train_lenet.py"
    spec = importlib.util.spec_from_file_location("train_lenet", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _settings_put_back() -> Iterator[None]:
    precision = flint.ctx.prec
    yield
    flint.ctx.prec = precision
    hu.set_num_threads(0)


def trained(example: ModuleType, epochs: int) -> Any:
    data = example.load(0)
    quiet = Console(quiet=True)
    parameters, losses = example.train(example.initial(0), data[0], data[1], epochs, 64, 0, "correct", quiet)
    return parameters, losses, data


def test_lenet_learns_the_digits(example: ModuleType) -> None:
    hu.set_num_threads(1)
    parameters, losses, (_, _, images, labels) = trained(example, 20)
    assert example.accuracy(parameters, images, labels, "correct") >= 0.97
    assert losses[-1] < losses[0] / 10
    assert len(ET.fromstring(example.loss_curve(losses)).findall(".//{http://www.w3.org/2000/svg}polyline")) == 1


def test_training_gives_the_same_bits_for_any_number_of_threads(example: ModuleType) -> None:
    digests = set()
    for threads in (1, 2, 3):
        hu.set_num_threads(threads)
        digests.add(example.digest(trained(example, 1)[0]))
    assert len(digests) == 1


def test_the_exact_check_counts_ulps(example: ModuleType) -> None:
    exact = example.balls(np.array([1.0, 3.0]))
    off = example.ulps_off(np.array([1 + 2**-23, 3.0], dtype=np.float32), exact)
    assert off.tolist() == [1.0, 0.0]
    images, labels, _, _ = example.load(0)
    console = Console(record=True, quiet=True, width=120)
    example.exact_check(example.initial(0), images[:2], labels[:2], "correct", console)
    gradient = hu.grad(lambda p: example.loss_of(p, images[:2], labels[:2]))(example.initial(0))
    truth = hu.grad(lambda p: example.loss_of(p, example.balls(images[:2]), labels[:2]))(
        hu.tree_map(example.balls, example.initial(0))
    )
    every = np.concatenate([example.ulps_off(gradient[name], truth[name]) for name in gradient])
    assert np.median(every) <= 1
