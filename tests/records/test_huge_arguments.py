"""Numbers that no array can have are refused by the record, with the whole sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import halfulp as hu
from halfulp import PolicyError, ShapeError

N = 2**63
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: hu.MaxPool((2,), padding=N), f"max_pool1d: padding={N}: every padding must be below 2**60 [I7]"),
    (lambda: hu.AvgPool((N,)), f"avg_pool1d: kernel_size=({N},): every kernel size must be below 2**60 [I7]"),
    (lambda: hu.SmoothMaxPool((2,), 1.0, N), f"smooth_max_pool1d: stride={N}: every stride must be below 2**60 [I7]"),
    (lambda: hu.Conv(1, dilation=N), f"conv1d: dilation={N}: every dilation must be below 2**60 [I7]"),
    (lambda: hu.ConvTranspose(1, N), f"conv_transpose1d: stride={N}: every stride must be below 2**60 [I7]"),
    (
        lambda: hu.AdaptiveMaxPool((N,)),
        f"adaptive_max_pool1d: output_size=({N},): every output size must be below 2**60 [I7]",
    ),
    (
        lambda: hu.ConvTranspose(1, 2**59).output_shape((1, 4), (1, 1, 2)),
        f"conv_transpose1d: output shape=(…, {3 * 2**59 + 2}): every size must be below 2**60 [I7]",
    ),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=[text.split(":")[0] for _, text in REFUSED])
def test_sizes_from_two_to_the_sixty_on_are_refused_I7(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        make()
    assert str(caught.value) == text


@pytest.mark.parametrize("divisor", [N, -N, 2**100])
def test_a_divisor_beyond_64_bits_is_refused_A1(divisor: int) -> None:
    with pytest.raises(PolicyError, match=r"other than 0, below 2\*\*63 in size \[A1\]$"):
        hu.AvgPool((2,), divisor_override=divisor)
