"""The functional forms: names, arguments and defaults as in ``torch.nn.functional``; each is its record, applied."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch.nn.functional as F

import halfulp as hu
from tests.exact import equal

RANKS = (1, 2, 3)
TORCH = ["max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "conv", "conv_transpose"]
SPATIAL = "must have at least one spatial axis after two others [C2]"
OURS = ["smooth_max_pool", "global_avg_pool", "global_max_pool"]


def parameters(function: Any) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    }


@pytest.mark.parametrize("name", [f"{name}{rank}d" for name in TORCH for rank in RANKS])
def test_positional_arguments_and_defaults_are_those_of_pytorch(name: str) -> None:
    mine = parameters(getattr(hu, name))
    theirs = getattr(F, name)
    if name.startswith(("max_pool", "adaptive_max_pool")):  # wrapped: the plain function has the signature
        theirs = getattr(F, f"{name}_with_indices")
    try:
        expected = parameters(theirs)
    except ValueError:  # a builtin says its signature in the first line of its docstring only
        text = theirs.__doc__.strip().split(" -> ")[0]
        names = text[text.index("(") + 1 : -1].replace(" ", "").split(",")
        assert [n.partition("=")[0] for n in names] == list(mine)[: len(names)]
        return
    assert list(mine)[: len(expected)] == list(expected)
    assert set(mine) - set(expected) <= {"divisor_override"}
    for argument, default in expected.items():
        assert default in (mine[argument], inspect.Parameter.empty) or (argument, mine[argument]) == ("stride", None)


@pytest.mark.parametrize("rank", RANKS)
def test_our_own_arguments(rank: int) -> None:
    assert list(parameters(getattr(hu, f"smooth_max_pool{rank}d"))) == [
        "input",
        "kernel_size",
        "beta",
        "stride",
        "padding",
        "dilation",
        "ceil_mode",
    ]
    for name in ("global_avg_pool", "global_max_pool"):
        assert list(parameters(getattr(hu, f"{name}{rank}d"))) == ["input", "keepdims"]


@pytest.mark.parametrize("name", [*TORCH, *OURS])
def test_every_name_is_public_in_every_rank(name: str) -> None:
    for full in (name, *(f"{name}{rank}d" for rank in RANKS)):
        assert full in hu.__all__
        assert callable(getattr(hu, full))
        assert ">>>" in (getattr(hu, full).__doc__ or "")


@pytest.mark.parametrize("rank", RANKS)
def test_ranked_forms_take_an_integer_for_every_axis(rank: int) -> None:
    x = hu.exact(np.random.default_rng(0).standard_normal((2, *(5,) * rank)))
    twos, ones = (2,) * rank, (1,) * rank

    def ranked(name: str) -> Any:
        return getattr(hu, f"{name}{rank}d")

    assert equal(ranked("max_pool")(x, 2, 1, 1), hu.MaxPool(twos, 1, 1)(x))
    assert equal(ranked("max_pool")(x, [2]), hu.MaxPool(twos)(x))
    assert equal(ranked("max_pool")(x, np.array(twos), ties="last"), hu.MaxPool(twos, ties="last")(x))
    average = {"padding": 1, "count_include_pad": False}
    assert equal(ranked("avg_pool")(x, 2, **average), hu.AvgPool(twos, **average)(x))
    assert equal(ranked("adaptive_avg_pool")(x, 2), hu.AdaptiveAvgPool(twos)(x))
    values, indices = ranked("adaptive_max_pool")(x, 2, return_indices=True)
    assert equal(values, hu.AdaptiveMaxPool(twos)(x))
    assert np.array_equal(indices, hu.spec.indices(hu.AdaptiveMaxPool(twos), x))
    assert indices.dtype == np.int64
    assert equal(ranked("global_avg_pool")(x), hu.GlobalAvgPool(rank)(x))
    assert equal(ranked("global_max_pool")(x, False), hu.GlobalMaxPool(rank, keepdims=False)(x))
    floats = np.random.default_rng(1).standard_normal((2, *(4,) * rank))
    assert np.array_equal(ranked("smooth_max_pool")(floats, 2, 1.5), hu.SmoothMaxPool(twos, 1.5)(floats))
    weight = hu.exact(np.random.default_rng(2).standard_normal((1, 2, *ones)))
    assert equal(ranked("conv")(x, weight, stride=2), hu.Conv(rank, stride=2)(x, weight))
    back = hu.exact(np.ones((2, 1, *twos)))
    assert equal(ranked("conv_transpose")(x, back, None, 2), hu.ConvTranspose(rank, stride=2)(x, back))


def test_forms_without_a_suffix_have_the_rank_of_their_kernel() -> None:
    x = hu.exact(np.random.default_rng(0).standard_normal((1, 1, 3, 3, 3, 3)))
    four = (2,) * 4
    assert equal(hu.max_pool(x, four), hu.MaxPool(four)(x))
    assert equal(hu.avg_pool(x, four), hu.AvgPool(four)(x))
    assert equal(hu.adaptive_max_pool(x, four), hu.AdaptiveMaxPool(four)(x))
    assert equal(hu.adaptive_avg_pool(x, four), hu.AdaptiveAvgPool(four)(x))
    assert equal(hu.global_avg_pool(x, 4), hu.GlobalAvgPool(4)(x))
    assert equal(hu.global_max_pool(x, 4, ties="split"), hu.GlobalMaxPool(4)(x))
    weight = hu.exact(np.ones((1, 1, *four)))
    assert equal(hu.conv(x, weight), hu.Conv(4)(x, weight))
    assert equal(hu.conv_transpose(x, weight), hu.ConvTranspose(4)(x, weight))
    assert hu.smooth_max_pool(np.zeros((2, 2, 2, 2)), four, 1.0).shape == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: hu.max_pool2d(np.zeros((4, 4)), (1, 2, 3)),
            "max_pool2d: kernel_size=(1, 2, 3): must be an integer or 2 of them [W6]",
        ),
        (
            lambda: hu.adaptive_avg_pool1d(np.zeros(4), (1, 2)),
            "adaptive_avg_pool1d: output_size=(1, 2): must be an integer or 1 of them [W6]",
        ),
        (lambda: hu.conv(np.zeros((1, 3)), np.zeros(3)), f"conv: weight with 1 axes: {SPATIAL}"),
        (lambda: hu.conv_transpose(np.zeros((1, 3)), [[1.0]]), f"conv_transpose: weight with 2 axes: {SPATIAL}"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(hu.ShapeError) as caught:
        call()
    assert str(caught.value) == text


def test_a_remembered_call_does_not_excuse_a_wrong_one() -> None:
    x = np.zeros((4, 4))
    assert hu.max_pool2d(x, (2, 2)).shape == (2, 2)
    for kernel in ((2.0, 2.0), (2, 2.0), (True, 2)):
        with pytest.raises(hu.ShapeError, match=r"every kernel size must be an integer >= 1 \[W1\]"):
            hu.max_pool2d(x, kernel)
    assert hu.max_pool2d(x, 2, padding=((1, 1), (1, 1))).shape == (3, 3)
    with pytest.raises(hu.ShapeError, match=r"\[W2\]"):
        hu.max_pool2d(x, 2, padding=((1.0, 1), (1, 1)))
    with pytest.raises(hu.PolicyError, match=r"\[P5\]"):
        hu.max_pool2d(x, 2, ceil_mode=0)  # type: ignore[arg-type]


def test_unhashable_arguments() -> None:
    x = np.arange(16.0).reshape(4, 4)
    assert hu.max_pool2d(x, [2, 2], [2, 2], [[0, 0], [0, 0]]).tolist() == [[5, 7], [13, 15]]
    assert hu.avg_pool2d(x, np.array([4, 4])).tolist() == [[7.5]]


def test_exact_numbers_and_balls_go_through_the_same_calls() -> None:
    x = np.array([[Fraction(1, 3), Fraction(1, 2)], [Fraction(1), Fraction(0)]])
    assert hu.avg_pool2d(x, 2)[0, 0] == Fraction(11, 24)
    value, index = hu.max_pool2d(x, 2, return_indices=True)
    assert (value[0, 0], index[0, 0]) == (1, 2)


def test_one_item_stands_for_all_axes_and_no_stride_for_the_kernel() -> None:
    x = np.arange(64.0).reshape(1, 1, 8, 8)
    assert np.array_equal(hu.max_pool2d(x, 3, (2,), [1], (1,)), hu.max_pool2d(x, 3, 2, 1, 1))
    assert np.array_equal(hu.max_pool2d(x, 3, []), hu.max_pool2d(x, 3))
    assert np.array_equal(hu.avg_pool2d(x, (2,), (1,)), hu.avg_pool2d(x, 2, 1))
    w = np.ones((1, 1, 3, 3))
    assert np.array_equal(hu.conv2d(x, w, None, (2,), [1], (1,)), hu.conv2d(x, w, None, 2, 1, 1))
    more = {"stride": 2, "padding": 1, "output_padding": 1}
    assert np.array_equal(
        hu.conv_transpose2d(x, w, **{name: (value,) for name, value in more.items()}),
        hu.conv_transpose2d(x, w, **more),
    )


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "leaky_relu", "elu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh"]
)
def test_activations_take_pytorchs_arguments_and_write_in_place(name: str) -> None:
    function = getattr(hu, name)
    expected = parameters(getattr(F, name))
    assert parameters(function) == expected
    x = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)[:, ::-1]
    value = function(x)
    assert function(x, inplace=True) is x
    assert np.array_equal(x, value)
    with pytest.raises(hu.DTypeError, match=rf"{name}: inplace=True: the input must be a NumPy array \[I6\]"):
        function([1.0, 2.0], inplace=True)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_softmax_without_an_axis_takes_pytorchs(name: str) -> None:
    function = getattr(hu, name)
    for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 2, 2), 1), ((1, 2, 1, 2, 2), 1)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        assert np.array_equal(function(x), function(x, axis))
