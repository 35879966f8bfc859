"""Dropout: masks are Philox words by position, the same for any threads, layout, batch split and type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import halfulp as hu
import halfulp.torch as ht
from halfulp.kernels.keep_mask import keep_mask


def philox(counter: tuple[int, ...], seed: int) -> tuple[int, ...]:
    """Philox4x32-10 as its paper writes it."""
    a, b, c, d = counter
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ keys[0], q & 0xFFFFFFFF, (p >> 32) ^ d ^ keys[1], p & 0xFFFFFFFF
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return a, b, c, d


def word(position: int, seed: int, step: int, layer: int) -> int:
    block = position // 4
    return philox((block & 0xFFFFFFFF, block >> 32, step, layer), seed)[position % 4]


def test_the_reference_gives_the_published_words() -> None:
    assert philox((0, 0, 0, 0), 0) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


@pytest.mark.parametrize("p", [0.1, 0.5, 1 / 3, 1e-9, 1.0])
@pytest.mark.parametrize(
    ("seed", "step", "layer", "first"), [(0, 0, 0, 0), (2**63 + 5, 7, 3, 61), (9, 2**32 - 1, 1, 2**34)]
)
def test_masks_are_words_by_position(p: float, seed: int, step: int, layer: int, first: int) -> None:
    found = keep_mask(np.float32, 150, p, seed=seed, step=step, layer=layer, first=first)
    threshold = round(p * 2**32)
    kept = np.float32(0 if p == 1 else 1 / (1 - p))
    words = [word(first + i, seed, step, layer) for i in range(150)]
    assert found.tolist() == [float(kept) if w >= threshold else 0.0 for w in words]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_type_drops_the_same_cells(dtype: torch.dtype) -> None:
    x = torch.ones(3, 50, dtype=dtype)
    with ht.dropout_step(seed=5, step=2):
        dropped = ht.dropout(x, 0.25)
    with ht.dropout_step(seed=5, step=2):
        plain = ht.dropout(x.float(), 0.25)
    assert torch.equal(dropped == 0, plain == 0)
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75, dtype=torch.float64).to(dtype).item()}


def test_threads_layout_and_pieces_do_not_matter() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 6, 40, 41)
    results = []
    for threads in (1, 2, 3):
        hu.set_num_threads(threads)
        for form in (torch.contiguous_format, torch.channels_last):
            with ht.dropout_step(seed=1, step=4):
                results.append(ht.dropout(x.contiguous(memory_format=form), 0.3))
    hu.set_num_threads(0)
    pieces = []
    for row in range(0, 8, 2):
        with ht.dropout_step(seed=1, step=4, row=row):
            pieces.append(ht.dropout(x[row : row + 2], 0.3))
    results.append(torch.cat(pieces))
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d"])
@pytest.mark.parametrize("batched", [False, True])
def test_whole_channels_are_dropped(name: str, batched: bool) -> None:
    n = int(name[-2])
    x = torch.ones(*((4,) if batched else ()), 64, *(3,) * n)
    with ht.dropout_step(seed=1, step=0):
        y = getattr(ht, name)(x, 0.5)
    channels = y.flatten(-n)
    assert torch.equal(channels.amin(-1), channels.amax(-1))
    assert set(channels.unique().tolist()) == {0.0, 2.0}


def test_calls_of_a_step_and_steps_differ_and_manual_seed_fixes_the_rest() -> None:
    x = torch.ones(1000)
    with ht.dropout_step(seed=1, step=0):
        a, b = ht.dropout(x), ht.dropout(x)
    with ht.dropout_step(seed=1, step=1):
        c = ht.dropout(x)
    assert not torch.equal(a, b)
    assert not torch.equal(a, c)
    runs: list[Any] = []
    for _ in range(2):
        torch.manual_seed(3)
        runs.append((ht.dropout(x), ht.dropout(x)))
    assert torch.equal(runs[0][0], runs[1][0])
    assert torch.equal(runs[0][1], runs[1][1])
    assert not torch.equal(*runs[0])
    assert 430 < (runs[0][0] == 0).sum().item() < 570


def test_gradients_pass_through_the_mask() -> None:
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)

    def once(x: torch.Tensor) -> torch.Tensor:
        with ht.dropout_step(seed=1, step=0):
            return ht.dropout(x, 0.4)

    assert torch.autograd.gradcheck(once, (x,))
    assert torch.autograd.gradgradcheck(once, (x,))
    assert torch.equal(ht.dropout(x, 0.4, training=False), x)
    assert torch.equal(ht.dropout(x, 0.0), x)


def test_models_and_functions_are_covered() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Dropout2d(0.25))
    report = ht.replace(model, everything=True)
    assert report.not_covered == {}
    x = torch.ones(2, 3, 4, 4)
    with ht.dropout_step(seed=1, step=0):
        found = model(x)
    with ht.dropout_step(seed=1, step=0):
        expected = ht.dropout2d(ht.dropout(x, 0.5), 0.25)
    assert torch.equal(found, expected)
    with ht.patched(everything=True) as calls, ht.dropout_step(seed=1, step=0):
        found = F.dropout2d(F.dropout(x, 0.5), 0.25)
    assert torch.equal(found, expected)
    assert calls["dropout"] == "ours"
    assert torch.equal(model.eval()(x), x)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ht.dropout(torch.ones(2), 1.5), "dropout: p=1.5: must be a probability in [0, 1] [B7]"),
        (lambda: ht.dropout_step(seed=-1, step=0), "dropout_step: seed=-1: must be an integer >= 0 and < 2**64 [B7]"),
        (lambda: ht.dropout_step(seed=0, step=2**32), "must be an integer >= 0 and < 2**32 [B7]"),
        (lambda: ht.dropout2d(torch.ones(2)), "dropout2d: input shape=(2,): must have 3 or 4 axes [B7]"),
    ],
)
def test_B7_wrong_settings_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match="dropout") as error:
        call()
    assert text in str(error.value)
