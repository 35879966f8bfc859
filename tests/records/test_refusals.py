"""Every argument that a record refuses, by the exact text of the refusal."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import flint
import numpy as np
import pytest
import sympy

import halfulp as hu
from halfulp import AdaptiveAvgPool, AvgPool, Conv, ConvTranspose, GlobalAvgPool, GlobalMaxPool, MaxPool, SmoothMaxPool

Window = Callable[..., hu.Operator]


def smooth(kernel_size: Any, *rest: Any, **settings: Any) -> SmoothMaxPool:
    return SmoothMaxPool(kernel_size, 1.0, *rest, **settings)


WINDOWS: list[tuple[str, Window]] = [("max_pool", MaxPool), ("avg_pool", AvgPool), ("smooth_max_pool", smooth)]


def assert_refused(text: str, make: Callable[[], Any], kind: type[hu.HalfulpError] = hu.ShapeError) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value) == text
    assert text.endswith(f"[{caught.value.label}]")


@pytest.mark.parametrize(("name", "record"), WINDOWS)
def test_windows(name: str, record: Window) -> None:
    two = f"{name}2d"
    assert_refused(f"{two}: kernel_size=(0, 2): every kernel size must be >= 1 [W1]", lambda: record((0, 2)))
    assert_refused(f"{two}: kernel_size=(2, -1): every kernel size must be >= 1 [W1]", lambda: record((2, -1)))
    assert_refused(
        f"{two}: kernel_size=(2.0, 2): every kernel size must be an integer >= 1 [W1]", lambda: record((2.0, 2))
    )
    assert_refused(
        f"{two}: kernel_size=(True, 2): every kernel size must be an integer >= 1 [W1]", lambda: record((True, 2))
    )
    assert_refused(f"{two}: padding=-1: every padding must be >= 0 [W2]", lambda: record((2, 2), padding=-1))
    assert_refused(
        f"{two}: padding=((0, -1), 0): every padding must be >= 0 [W2]", lambda: record(2, padding=((0, -1), 0))
    )
    pair = "every padding must be an integer >= 0 or a (before, after) pair [W2]"
    assert_refused(f"{two}: padding=0.5: {pair}", lambda: record((2, 2), padding=0.5))
    assert_refused(f"{two}: padding=((1, 2, 3), 0): {pair}", lambda: record((2, 2), padding=((1, 2, 3), 0)))
    assert_refused(
        f"{two}: padding='full': must be an integer >= 0, one integer or (before, after) pair per axis, "
        "'valid', 'same' or 'same_lower' [W2]",
        lambda: record((2, 2), padding="full"),
    )
    assert_refused(f"{two}: stride=(0, 1): every stride must be >= 1 [W3]", lambda: record((2, 2), stride=(0, 1)))
    assert_refused(f"{two}: stride=-2: every stride must be >= 1 [W3]", lambda: record((2, 2), stride=-2))
    assert_refused(f"{two}: stride='2': every stride must be an integer >= 1 [W3]", lambda: record((2, 2), stride="2"))
    assert_refused(f"{two}: dilation=0: every dilation must be >= 1 [W4]", lambda: record((2, 2), dilation=0))
    assert_refused(
        f"{two}: dilation=1.5: every dilation must be an integer >= 1 [W4]", lambda: record((2, 2), dilation=1.5)
    )
    assert_refused(
        f"{two}: ceil_mode=1: must be True or False [P5]", lambda: record((2, 2), ceil_mode=1), hu.PolicyError
    )


@pytest.mark.parametrize(("name", "record"), WINDOWS)
def test_ranks(name: str, record: Window) -> None:
    assert_refused(
        f"{name}: kernel_size=3: the rank is not known; give one kernel_size per axis, such as (3, 3) [W6]",
        lambda: record(3),
    )
    assert_refused(f"{name}: kernel_size=(): at least one spatial axis is needed [W6]", lambda: record(()))
    assert_refused(
        f"{name}: stride=(1, 1, 1): has 3 items, but kernel_size=(2, 2) has 2 [W6]",
        lambda: record((2, 2), stride=(1, 1, 1)),
    )
    assert_refused(
        f"{name}: padding=(1,): has 1 items, but kernel_size=(2, 2) has 2 [W6]", lambda: record((2, 2), padding=(1,))
    )
    assert_refused(
        f"{name}2d: input shape=(4,): the last 2 axes are spatial, but there are 1 [W7]",
        lambda: record((2, 2)).output_shape((4,)),
    )
    assert_refused(f"{name}2d: 2 inputs: takes one input [I3]", lambda: record((2, 2)).output_shape((4, 4), (4, 4)))


@pytest.mark.parametrize(("name", "record"), WINDOWS)
def test_windows_that_do_not_fit(name: str, record: Window) -> None:
    assert_refused(
        f"{name}2d: kernel_size=(3, 3), dilation=(2, 1): the window spans (5, 3) cells, but the padded input has only "
        "(4, 9) [W5]",
        lambda: record((3, 3), dilation=(2, 1)).output_shape((4, 9)),
    )
    assert_refused(
        f"{name}1d: spatial shape=(9223372036854775807,): the window arithmetic must fit in 64 bits [I7]",
        lambda: record((3,)).output_shape((2**63 - 1,)),
    )
    # padding makes room; "same" always has it
    assert record((3, 3), padding=1, dilation=(2, 1)).output_shape((3, 9)) == (1, 3)
    assert record((9,), padding="same", stride=1).output_shape((2,)) == (2,)


@pytest.mark.parametrize("record", [MaxPool, hu.AdaptiveMaxPool, lambda size, **s: GlobalMaxPool(len(size), **s)])
def test_policies(record: Any) -> None:
    name = record((2,)).name
    assert_refused(
        f"{name}: ties='any': must be one of 'first', 'last', 'all', 'split' [P1]",
        lambda: record((2,), ties="any"),
        hu.PolicyError,
    )
    assert_refused(
        f"{name}: ties=None: must be one of 'first', 'last', 'all', 'split' [P1]",
        lambda: record((2,), ties=None),
        hu.PolicyError,
    )
    assert_refused(
        f"{name}: nan='skip': must be one of 'propagate', 'ignore', 'raise' [P2]",
        lambda: record((2,), nan="skip"),
        hu.PolicyError,
    )


@pytest.mark.parametrize("divisor", [0, 1.5, True, "2", 2**63])
def test_divisor(divisor: Any) -> None:
    assert_refused(
        f"avg_pool1d: divisor_override={divisor!r}: must be None or an integer other than 0, below 2**63 in size [A1]",
        lambda: AvgPool((2,), divisor_override=divisor),
        hu.PolicyError,
    )


def test_average_flag() -> None:
    assert_refused(
        "avg_pool1d: count_include_pad=0: must be True or False [P5]",
        lambda: AvgPool((2,), count_include_pad=0),  # type: ignore[arg-type]
        hu.PolicyError,
    )


@pytest.mark.parametrize(
    "beta",
    [
        0,
        0.0,
        float("inf"),
        float("nan"),
        True,
        None,
        "1",
        1j,
        Decimal(2),
        flint.arb(0, 1),
        flint.arb("nan"),
        sympy.oo,
        [],
    ],
)
def test_beta(beta: Any) -> None:
    assert_refused(
        f"smooth_max_pool1d: beta={beta!r}: must be a finite real number other than 0 [S1]",
        lambda: SmoothMaxPool((2,), beta),
        hu.PolicyError,
    )


@pytest.mark.parametrize(
    "beta", [3, -0.5, np.float32(2), np.int8(3), flint.fmpz(2), flint.arb(2), 10**400, sympy.Symbol("b")]
)
def test_beta_of_many_kinds_is_accepted(beta: Any) -> None:
    assert SmoothMaxPool((2,), beta).beta == beta


@pytest.mark.parametrize("size", [(0,), (-1,), (1.0,), (True,), ("3",)])
def test_output_size(size: Any) -> None:
    assert_refused(
        f"adaptive_avg_pool1d: output_size={size!r}: every output size must be an integer >= 1, or None to keep the "
        "input's size [D1]",
        lambda: AdaptiveAvgPool(size),
    )


def test_output_size_needs_a_rank() -> None:
    assert_refused(
        "adaptive_max_pool: output_size=3: the rank is not known; give one output_size per axis, such as (3, 3) [W6]",
        lambda: hu.AdaptiveMaxPool(3),
    )
    assert_refused(
        "adaptive_avg_pool2d: input shape=(4,): the last 2 axes are spatial, but there are 1 [W7]",
        lambda: AdaptiveAvgPool((2, 2)).output_shape((4,)),
    )
    assert_refused(
        "adaptive_avg_pool2d: 0 inputs: takes one input [I3]", lambda: AdaptiveAvgPool((2, 2)).output_shape()
    )


@pytest.mark.parametrize("ndim", [0, -1, 2.0, None, True])
def test_ndim(ndim: Any) -> None:
    for name, record in (
        ("global_avg_pool", GlobalAvgPool),
        ("global_max_pool", GlobalMaxPool),
        ("conv", Conv),
        ("conv_transpose", ConvTranspose),
    ):
        assert_refused(f"{name}: ndim={ndim!r}: must be an integer >= 1 [G1]", lambda record=record: record(ndim))


def test_global_refusals() -> None:
    assert_refused(
        "global_avg_pool2d: keepdims='yes': must be True or False [P5]",
        lambda: GlobalAvgPool(2, keepdims="yes"),  # type: ignore[arg-type]
        hu.PolicyError,
    )
    assert_refused(
        "global_max_pool3d: input shape=(4, 4): the last 3 axes are spatial, but there are 2 [W7]",
        lambda: GlobalMaxPool(3).output_shape((4, 4)),
    )
    assert_refused(
        "global_max_pool3d: 3 inputs: takes one input [I3]", lambda: GlobalMaxPool(3).output_shape((), (), ())
    )


@pytest.mark.parametrize(("name", "record"), [("conv2d", Conv), ("conv_transpose2d", ConvTranspose)])
def test_convolution_arguments(name: str, record: Any) -> None:
    assert_refused(f"{name}: groups=0: must be an integer >= 1 [C3]", lambda: record(2, groups=0))
    assert_refused(f"{name}: groups=1.0: must be an integer >= 1 [C3]", lambda: record(2, groups=1.0))
    assert_refused(f"{name}: stride=0: every stride must be >= 1 [W3]", lambda: record(2, stride=0))
    assert_refused(f"{name}: padding=-1: every padding must be >= 0 [W2]", lambda: record(2, padding=-1))
    assert_refused(f"{name}: dilation=(1, 0): every dilation must be >= 1 [W4]", lambda: record(2, dilation=(1, 0)))
    assert_refused(
        f"{name}: stride=(1, 1, 1): has 3 items, but there are 2 spatial axes [W6]", lambda: record(2, stride=(1, 1, 1))
    )
    assert_refused(
        f"{name}: padding=[1]: has 1 items, but there are 2 spatial axes [W6]", lambda: record(2, padding=[1])
    )
    assert_refused(
        f"{name}: precision='exact': must be one of 'correct', 'fast' [P4]",
        lambda: record(2, precision="exact"),
        hu.PolicyError,
    )


@pytest.mark.parametrize(("name", "record"), [("conv2d", Conv), ("conv_transpose2d", ConvTranspose)])
def test_convolution_shapes(name: str, record: Any) -> None:
    op = record(2)
    image, weight = (3, 8, 8), (3, 3, 2, 2)
    assert_refused(f"{name}: 1 inputs: takes x, weight and optionally a bias [I3]", lambda: op.output_shape(image))
    assert_refused(
        f"{name}: 2 inputs: takes x, weight and optionally a bias [I3]", lambda: op.output_shape(image, None)
    )
    axes = "must be (channels, …) or (batch, channels, …) with 2 spatial axes [C1]"
    assert_refused(f"{name}: input shape=(8, 8): {axes}", lambda: op.output_shape((8, 8), weight))
    assert_refused(f"{name}: input shape=(1, 1, 3, 8, 8): {axes}", lambda: op.output_shape((1, 1, 3, 8, 8), weight))
    assert_refused(
        f"{name}: weight shape=(3, 3, 2): must have 4 axes, 2 of them spatial [C2]",
        lambda: op.output_shape(image, (3, 3, 2)),
    )
    assert_refused(
        f"{name}: weight shape=(3, 3, 0, 2): every kernel size must be >= 1 [C2]",
        lambda: op.output_shape(image, (3, 3, 0, 2)),
    )
    assert_refused(
        f"{name}: bias shape=(4,): must be (3,), one per output channel, or None [C5]",
        lambda: op.output_shape(image, weight, (4,)),
    )
    assert_refused(
        f"{name}: bias shape=(3, 1): must be (3,), one per output channel, or None [C5]",
        lambda: op.output_shape(image, weight, (3, 1)),
    )


def test_convolution_channels() -> None:
    assert_refused(
        "conv1d: groups=2: must divide the 3 output channels [C3]",
        lambda: Conv(1, groups=2).output_shape((4, 8), (3, 2, 2)),
    )
    assert_refused(
        "conv1d: weight shape=(4, 2, 2): takes 2 * 2 (groups) = 4 input channels, but the input has 5 [C4]",
        lambda: Conv(1, groups=2).output_shape((5, 8), (4, 2, 2)),
    )
    assert_refused(
        "conv1d: kernel_size=(3,), dilation=(1,): the window spans (3,) cells, but the padded input has only (2,) [W5]",
        lambda: Conv(1).output_shape((1, 2), (1, 1, 3)),
    )
    assert_refused(
        "conv_transpose1d: weight shape=(4, 2, 2): takes 4 input channels, but the input has 5 [C4]",
        lambda: ConvTranspose(1).output_shape((5, 8), (4, 2, 2)),
    )
    assert_refused(
        "conv_transpose1d: groups=3: must divide the 4 input channels [C3]",
        lambda: ConvTranspose(1, groups=3).output_shape((4, 8), (4, 2, 2)),
    )


def test_output_padding() -> None:
    smaller = "must be smaller than the stride (2,) or the dilation (1,) [T1]"
    assert_refused(
        f"conv_transpose1d: output_padding=(2,): {smaller}", lambda: ConvTranspose(1, stride=2, output_padding=2)
    )
    assert_refused(
        "conv_transpose1d: output_padding=-1: every output padding must be >= 0 [T1]",
        lambda: ConvTranspose(1, stride=2, output_padding=-1),
    )
    assert_refused(
        "conv_transpose1d: output_padding=0.5: every output padding must be an integer >= 0 [T1]",
        lambda: ConvTranspose(1, stride=2, output_padding=0.5),
    )
    assert ConvTranspose(1, dilation=3, output_padding=2).output_padding == (2,)


def test_transposed_output_size() -> None:
    assert_refused(
        "conv_transpose1d: input shape=(…, 1): would give an output of size (0,) [T2]",
        lambda: ConvTranspose(1, padding=1).output_shape((1, 1), (1, 1, 2)),
    )
    assert_refused(
        "conv_transpose1d: padding='same': needs a kernel that spans the stride (3,); raise output_padding by 1 [T2]",
        lambda: ConvTranspose(1, stride=3, padding="same").output_shape((1, 4), (1, 1, 2)),
    )
