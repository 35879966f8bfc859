"""Which engine does the work: the fast one, wherever it applies, on every instruction set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import _core
from tests.corpus.generator import FORMATS, array


def engines(call: Callable[[], Any]) -> set[str]:
    """The engines that a call has used."""
    _core.reset_engine_counts()
    call()
    return {name for name, units in _core.engine_counts().items() if units > 0}


def pullback(op: Any, *inputs: Any) -> Callable[[], Any]:
    output, pull = op.vjp(*inputs)
    return lambda: pull(np.ones_like(output))


def channels_last(x: Any) -> Any:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.fixture(params=_core.available_isas())
def isa(request: Any, restore: None) -> None:
    _core.set_isa(request.param)


IMAGE = (2, 3, 20, 37)
RESNET, AVERAGE = hu.MaxPool((3, 3), stride=2, padding=1), hu.AvgPool((3, 3), stride=2, padding=1)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    ("op", "forward", "back"),
    [
        (RESNET, "max_columns_first", "max_pullback_gather"),
        (hu.MaxPool((2, 2)), "max_columns_first", "max_pullback_gather"),
        (hu.MinPool((3, 3), stride=2, padding=1), "max_columns_first", "max_pullback_gather"),
        (hu.MaxPool((13, 13), stride=1, padding=6), "max_separable", "max_pullback_gather"),
        (hu.AdaptiveMaxPool((5, 4)), "max_bins", "max_pullback_scatter"),
        (hu.GlobalMaxPool(2), "max_bins", "max_pullback_scatter"),
        (AVERAGE, "average_fast", "average_fast"),
        (hu.AvgPool((3, 3), stride=1, padding=1), "average_fast", "average_fast"),
        (hu.SumPool((2, 2)), "average_fast", "average_fast"),
        (hu.AdaptiveAvgPool((5, 4)), "average_fast", None),
        (hu.GlobalAvgPool(2), "average_planes", "average_fast"),
    ],
    ids=lambda value: repr(value) if isinstance(value, hu.Operator) else value,
)
def test_the_fast_engine_alone_runs(isa: None, op: Any, forward: str, back: str | None, dtype: str) -> None:
    x = array(dtype, IMAGE, "near", 1)
    if dtype == "float64" and forward == "max_columns_first":
        forward = "max_separable"  # in two passes, which stream whole bands
    assert engines(lambda: op(x)) == {forward}
    if back is not None:
        assert engines(pullback(op, x)) == {back}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_interleaved_planes_have_engines_of_their_own(isa: None, dtype: str) -> None:
    x = channels_last(array(dtype, (2, 67, 9, 11), "near", 1))
    assert engines(lambda: RESNET(x)) == {"max_channels_last"}
    assert engines(lambda: AVERAGE(x)) == {"average_fast"}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
def test_integers_never_need_the_reference(isa: None, dtype: str) -> None:
    x = array(dtype, IMAGE, "near", 1)
    for op in (RESNET, hu.MaxPool((2, 2)), hu.MinPool((3, 3), stride=1, padding=1)):
        assert engines(lambda op=op: op(x)) <= {"max_columns_first", "max_separable"}


def test_values_that_range_too_far_take_the_other_engine(isa: None) -> None:
    x = array("float64", IMAGE, "wide", 1)
    assert "average_careful" in engines(lambda: AVERAGE(x))


def test_smooth_max_in_vectors_leaves_few_windows(isa: None) -> None:
    op, x = hu.SmoothMaxPool((3, 3), beta=1.0, stride=2, padding=1), array("float32", (1, 4, 32, 32), "near", 1)
    _core.reset_engine_counts()
    outputs = op(x).size
    counts = _core.engine_counts()
    assert counts["smooth_block"] > 0
    assert counts["smooth_window"] < outputs / 100


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_filters_of_three_by_three_go_by_patches(isa: None, dtype: str) -> None:
    x, w = array(dtype, (1, 64, 28, 28), "near", 1), array(dtype, (64, 64, 3, 3), "near", 2)
    assert engines(lambda: hu.Conv(2, padding=1)(x, w, None)) == {"conv_winograd"}
    assert engines(lambda: hu.Conv(2)(x, w[:, :, :1, :1], None)) == {"conv_gather"}


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)])
def test_depthwise_products_have_an_engine_of_their_own(isa: None, kernel: int, stride: int) -> None:
    x, w = array("float32", (1, 6, 14, 15), "near", 1), array("float32", (6, 1, kernel, kernel), "near", 2)
    op = hu.Conv(2, stride=stride, padding=kernel // 2, groups=6)
    assert engines(lambda: op(x, w, None)) == {"conv_depthwise"}
    assert engines(pullback(op, x, w, None)) == {"conv_depthwise", "conv_weight"}


@pytest.mark.parametrize("dtype", [*FORMATS, "int8", "uint16", "int32"])
@pytest.mark.parametrize("op", [hu.MedianPool((3, 3), stride=2, padding=1), hu.ModePool((2, 2))])
def test_windows_are_sorted_many_at_once(isa: None, op: Any, dtype: str) -> None:
    ran = engines(lambda: op(array(dtype, IMAGE, "near", 1)))
    assert "order_block" in ran
    assert ran <= {"order_block", "order_window"}  # padded ends of a row are single windows
    assert engines(lambda: hu.MedianPool((9, 9))(array(dtype, IMAGE, "near", 1))) == {"order_window"}


def test_the_reference_does_what_the_others_refuse(isa: None) -> None:
    x = array("float32", IMAGE, "ties", 1)
    assert "max_walk" in engines(lambda: hu.MaxPool((3, 3), stride=2, padding=1, ties="split").vjp(x))


def test_norms_and_functions_count_once_per_array(isa: None) -> None:
    x = array("float32", IMAGE, "near", 1)
    assert engines(lambda: hu.LpPool((3, 3), 2, stride=2)(x)) == {"norm2"}
    assert engines(lambda: hu.Gelu()(x)) <= {"elementwise", "elementwise_pair"}
    tiny = np.float32(2.0) ** -np.arange(1, 40, dtype=np.float32)  # exp is near 1, and for some between two floats
    assert engines(lambda: hu.Exp()(tiny)) == {"elementwise", "elementwise_pair"}


def test_averages_of_integers_and_of_present_cells_have_engines_of_their_own(isa: None) -> None:
    assert engines(lambda: hu.AvgPool((2, 2), dtype="same")(array("uint8", IMAGE, "near", 1))) == {"average_integers"}
    holes = array("float32", IMAGE, "near", 1)
    holes[..., 3] = np.nan
    assert engines(lambda: hu.AvgPool((2, 2), nan="ignore")(holes)) == {"average_present"}


def test_norms_of_interleaved_planes_have_an_engine_of_their_own(isa: None) -> None:
    op, x = hu.BatchNorm(training=True), array("float32", (4, 5, 9, 11), "near", 1)
    w, b = array("float32", (5,), "near", 2), array("float32", (5,), "near", 3)
    assert engines(lambda: op(x, w, b)) == {"normalize"}
    for call in (lambda: op(channels_last(x), w, b), pullback(op, channels_last(x), w, b)):
        _core.reset_engine_counts()
        call()
        counts = _core.engine_counts()
        assert counts["normalize_last"] == 1
        assert counts["normalize"] == 0
        assert counts["normalize_pair"] < x.size / 20


def test_softmax_losses_and_copies_count_once_per_array(isa: None) -> None:
    x, y = array("float32", (6, 30), "near", 1), array("float32", (6, 30), "near", 2)
    classes = np.arange(6)
    assert engines(lambda: hu.Softmax(-1)(x)) == {"softmax"}
    assert engines(lambda: hu.mse_loss(x, y)) == {"squares"}
    assert engines(lambda: hu.cross_entropy(x, classes)) == {"cross_entropy"}
    image = array("float32", IMAGE, "near", 1)
    assert engines(lambda: hu.unfold(image, 3)) == {"patches"}
    assert engines(lambda: hu.fold(hu.unfold(image, 3), IMAGE[2:], 3)) == {"patches"}
    values, indices = hu.max_pool2d(image, 2, return_indices=True)
    assert engines(lambda: hu.max_unpool2d(values, indices, 2, output_size=IMAGE[2:])) == {"unpool"}


def test_few_interpolated_values_take_the_exact_accumulator(isa: None) -> None:
    x = array("float32", IMAGE, "near", 1)
    _core.reset_engine_counts()
    outputs = hu.interpolate(x, scale_factor=2.3, mode="bilinear").size
    counts = _core.engine_counts()
    assert counts["interpolate"] == 1
    assert counts["interpolate_exact"] < outputs / 100


def test_weights_have_an_engine_of_their_own(isa: None) -> None:
    x, w = array("float32", (1, 4, 9, 9), "near", 1), array("float32", (5, 4, 3, 3), "near", 2)
    assert "conv_weight" in engines(pullback(hu.Conv(2), x, w, None))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_weights_of_three_by_three_go_by_patches(isa: None, dtype: str) -> None:
    x, w = array(dtype, (2, 32, 28, 28), "near", 1), array(dtype, (48, 32, 3, 3), "near", 2)
    ran = engines(pullback(hu.Conv(2, padding=1), x, w, None))
    assert "conv_weight_winograd" in ran
    assert "conv_weight" not in ran


def test_every_engine_is_asserted_somewhere() -> None:
    folder = Path(__file__).parent
    texts = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
    assert {name for name in _core.engine_counts() if f'"{name}"' not in texts} == set()


def test_counters_count_and_can_be_reset() -> None:
    _core.reset_engine_counts()
    assert set(_core.engine_counts().values()) == {0}
    x = array("float32", (5, 8, 8), "near", 1)
    RESNET(x)
    once = _core.engine_counts()["max_separable"]
    RESNET(x)
    assert _core.engine_counts()["max_separable"] == 2 * once > 0


def test_channels_that_live_on_the_border_stay_with_the_winograd_weights(isa: None) -> None:
    """Taps that meet zeros alone have sums of zero, with a sign; they are no reason to refuse."""
    rng = np.random.default_rng(11)
    x = np.zeros((1, 16, 12, 12), np.float32)
    x[:, :8, 0] = rng.standard_normal((8, 12))  # the last row of taps never meets it
    x[:, 8:12, :, 11] = rng.standard_normal((4, 12))
    x[:, 12] = -0.0
    g = rng.standard_normal((1, 16, 12, 12)).astype(np.float32)
    g[:, 3] = -np.abs(g[:, 3])  # times +0 it gives -0 in every term
    op = hu.Conv(2, 1, 1)
    weight = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    before = _core.engine_counts().get("conv_weight_winograd", 0)
    found = op.vjp(x, weight, None)[1](g)[1]
    assert _core.engine_counts()["conv_weight_winograd"] == before + 1
    expected = hu.spec.vjp(op, (x, weight, None), g)[1]
    assert found.tobytes() == expected.tobytes()
    assert np.signbit(found[3, :8, 2]).all()
    assert not np.signbit(found[0, :8, 2]).any()
