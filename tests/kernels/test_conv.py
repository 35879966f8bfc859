"""Convolution: the bits of the specification, whatever the parameters, values, layout, threads or instruction set."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import DTypeError, PolicyError, ShapeError, _core, kernels, spec
from halfulp.records import Conv
from tests.kernels.convolutions import (
    Case,
    cases,
    check_against_spec,
    check_fast,
    check_fast_specials,
    long_cases,
    products,
)
from tests.scaling import examples
from tests.strategies import FLOATS, Array, assert_same_bits, seeds


@given(cases(transposed=False))
def test_value_jvp_and_vjp_have_the_bits_of_the_specification(case: Case) -> None:
    check_against_spec(case)


@examples(60)
@given(cases(transposed=False))
def test_fast_stays_within_its_bound(case: Case) -> None:
    check_fast(case)


@pytest.mark.usefixtures("restore")
@examples(30)
@given(long_cases(transposed=False), st.sampled_from(_core.available_isas()))
def test_long_kernels_and_many_channels_on_every_instruction_set(case: Case, isa: str) -> None:
    _core.set_isa(isa)
    check_against_spec(case)


@pytest.mark.usefixtures("restore")
@examples(10)
@given(long_cases(transposed=False), st.sampled_from(_core.available_isas()))
def test_fast_has_infinities_and_nans_where_the_exact_sums_have(case: Case, isa: str) -> None:
    _core.set_isa(isa)
    check_fast_specials(case)


# Sums longer than a block, more channels than a chunk of panels, more positions than a tile, several stagings.
LARGE = [
    (Conv(2, padding=1), (1, 40, 19, 23), (30, 40, 3, 3)),
    (Conv(2, stride=2, padding=3), (1, 3, 41, 37), (70, 3, 7, 7)),
    (Conv(2), (1, 300, 5, 4), (33, 300, 1, 1)),
    (Conv(1, stride=7), (2, 1, 1400), (20, 1, 200)),
    (Conv(2, stride=4), (2, 3, 18, 17), (12, 3, 4, 4)),
    (Conv(1, stride=40, padding=((3, 5),), dilation=2), (2, 2, 400), (9, 2, 50)),
    (Conv(2, padding=1, groups=6), (1, 6, 50, 45), (6, 1, 3, 3)),
    (Conv(2, padding=(2, 30), dilation=(2, 30), stride=(1, 2)), (1, 4, 12, 70), (5, 4, 3, 3)),
    (Conv(3, padding=1), (1, 5, 8, 9, 10), (10, 5, 3, 3, 3)),
]


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")], ids=str)
@pytest.mark.parametrize(("op", "x_shape", "weight_shape"), LARGE, ids=lambda value: str(value))
def test_large_sums_and_many_tiles(
    op: Conv, x_shape: tuple[int, ...], weight_shape: tuple[int, ...], dtype: Any
) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal(x_shape).astype(dtype)
    weight = rng.standard_normal(weight_shape).astype(dtype)
    bias = rng.standard_normal(weight_shape[0]).astype(dtype)
    cotangent = rng.standard_normal(op.output_shape(x_shape, weight_shape)).astype(dtype)
    check_against_spec(Case(op, (x, weight, bias), (x[::-1].copy(), weight[::-1].copy(), None), cotangent))


def near_boundaries(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Every sum is a tie of rounding, or a tie and a term too small for any wide accumulator to see."""
    digits = np.finfo(dtype).nmant + 1
    x = np.ones((1, 4, 6, 7), dtype)
    x[:, 1] = 2.0**-digits
    x[:, 2] = rng.choice([0.0, 2.0**-120, -(2.0**-120)], (6, 7))
    x[:, 3] = 0
    weight = np.ones((9, 4, 1, 1), dtype)
    weight[:, :2] = rng.integers(1, 2**20, (9, 1, 1, 1)) * 2 + 1
    return x, weight


def cancelling(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Large terms that vanish and leave the smallest ones."""
    big = rng.standard_normal((1, 4, 6, 7)) * 2.0**60
    small = rng.standard_normal((1, 4, 6, 7)) * 2.0**-60
    x = np.concatenate([big, small, big], axis=1).astype(dtype)
    weight = rng.standard_normal((9, 4, 1, 1)).astype(dtype)
    return x, np.concatenate([weight, np.ones_like(weight), -weight], axis=1)


def mixed(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Magnitudes from the smallest subnormal to the largest number, so that bounds overflow or vanish."""
    info = np.finfo(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp - 1, (1, 12, 6, 7))
    x = np.ldexp(rng.uniform(-1, 1, (1, 12, 6, 7)), exponents).astype(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp - 1, (9, 12, 1, 1))
    return x, np.ldexp(rng.uniform(-1, 1, (9, 12, 1, 1)), exponents).astype(dtype)


def subnormal(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Products around the smallest number."""
    info = np.finfo(dtype)
    x = rng.standard_normal((1, 6, 6, 7)) * 2.0 ** (info.minexp // 2)
    weight = rng.standard_normal((9, 6, 1, 1)) * 2.0 ** (info.minexp // 2 - info.nmant)
    return x.astype(dtype), weight.astype(dtype)


@pytest.mark.parametrize("dtype", [np.dtype("float16"), np.dtype("float32"), np.dtype("float64")], ids=str)
@pytest.mark.parametrize("make", [near_boundaries, cancelling, mixed, subnormal], ids=lambda f: f.__name__)
def test_inputs_made_to_break_the_bound(make: Any, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(11)
    with np.errstate(all="ignore"):
        x, weight = make(rng, dtype)
    op = Conv(2)
    cotangent = np.concatenate([x[:, :4], -x[:, :4], x[:, :1]], axis=1)
    check_against_spec(Case(op, (x, weight, None), (x, weight, None), cotangent))


@pytest.mark.parametrize("rest", [1.0, 1e-3, 1e-6, 0.0])
def test_long_sums_that_cancel(rest: float) -> None:
    rng = np.random.default_rng(12)
    half, op = 3000, Conv(1)
    x = np.repeat(rng.standard_normal((1, 1, half)), 2, axis=2).astype(np.float32)
    weight = rng.standard_normal((9, 1, 2 * half)).astype(np.float32)
    weight[..., 1::2] = -weight[..., ::2]
    weight[..., ::1000] += np.float32(rest)
    cotangent = np.concatenate([x] * 2).reshape(1, 2, -1)
    check_against_spec(Case(op, (x, weight, None), (x, weight, None), np.ones((1, 9, 1), np.float32)))
    pulled = Conv(1).vjp(x, np.ones((2, 1, 1), np.float32))[1](cotangent)
    expected = spec.vjp(Conv(1), (x, np.ones((2, 1, 1), np.float32), None), cotangent)
    assert_same_bits(pulled[1], expected[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 0, 1), (2, 1, 2), ((3, 1), ((0, 2), (1, 0)), 3)])
def test_undecided_sums_over_the_channels_of_one_cell(stride: Any, padding: Any, groups: int, dtype: str) -> None:
    """Terms that cancel, so that every output is summed again term by term; some cells are padding."""
    rng = np.random.default_rng(21)
    x, weight = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 6 * groups, 5, 4), (4 * groups, 6, 1, 1)))
    x[:, 1::2] = x[:, ::2]
    weight[:, 1::2] = -weight[:, ::2]
    weight[:, 0] += np.asarray(1e-7, dtype)
    op, bias = Conv(2, stride=stride, padding=padding, groups=groups), -np.arange(4.0 * groups).astype(dtype)
    cotangent = rng.standard_normal(op.output_shape(x.shape, weight.shape, bias.shape)).astype(dtype)
    check_against_spec(Case(op, (x, weight, bias), (x, weight, bias), cotangent))


def test_zero_sums_have_their_signs_on_blank_images() -> None:
    weight = -np.ones((9, 3, 3, 3), np.float32)
    weight[4] = 1
    for x in (np.zeros((1, 3, 20, 20), np.float32), -np.zeros((1, 3, 20, 20), np.float32)):
        op = Conv(2, padding=1)
        output = kernels.forward(op, (x, weight))
        assert_same_bits(output, spec.forward(op, x, weight))
        assert np.signbit(output[0, 4]).all() == np.signbit(x).all()


def test_infinite_weights_over_padding_are_not_terms() -> None:
    x = np.ones((1, 9, 4, 4), np.float32)
    weight = np.ones((9, 9, 3, 3), np.float32)
    weight[3, :, 0] = np.inf
    weight[5, :, :, 0] = np.nan
    for precision in ("correct", "fast"):
        output = Conv(2, padding=1, precision=precision)(x, weight)
        assert np.isfinite(output[0, 3, 0]).all()
        assert np.isinf(output[0, 3, 1:]).all()
        assert np.isfinite(output[0, 5, :, 0]).all()
        assert np.isnan(output[0, 5, :, 1:]).all()


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("precision", ["correct", "fast"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_threads_and_batch_splits_do_not_change_a_bit(dtype: np.dtype[Any], precision: str) -> None:
    rng = np.random.default_rng(3)
    for groups, op in ((1, Conv(2, 2, 1, precision=precision)), (8, Conv(2, 1, 1, groups=8, precision=precision))):
        inputs = [rng.standard_normal(s).astype(dtype) for s in ((5, 8, 33, 31), (24, 8 // groups, 3, 3), (24,))]
        kernels.set_num_threads(1)
        expected = products(op, inputs)
        for threads in (2, 8):
            kernels.set_num_threads(threads)
            for name, a, b in zip(("value", "dx", "dweight", "dbias"), products(op, inputs), expected, strict=True):
                assert_same_bits(a, b, f"{op}, {threads} threads: {name}")
        parts = [op(inputs[0][i:j], *inputs[1:]) for i, j in ((0, 1), (1, 3), (3, 5))]
        assert_same_bits(np.concatenate(parts), expected[0], f"{op}: batch split")
        assert_same_bits(op(inputs[0][2], *inputs[1:]), expected[0][2], f"{op}: one sample without batch axis")


@pytest.mark.usefixtures("restore")
@examples(40)
@given(cases(transposed=False))
def test_every_instruction_set_has_the_bits_of_the_specification(case: Case) -> None:
    for isa in _core.available_isas():
        _core.set_isa(isa)
        check_against_spec(case)


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_instruction_set_on_several_tiles(isa: str, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(8)
    ops = (Conv(2, (1, 2), 1), Conv(2, 1, 1, groups=2))
    for groups, op in zip((1, 2), ops, strict=True):
        inputs = [rng.standard_normal(s).astype(dtype) for s in ((2, 2, 40, 40), (26, 2 // groups, 3, 3), (26,))]
        _core.set_isa("baseline")
        expected = products(op, inputs)
        _core.set_isa(isa)
        for name, a, b in zip(("value", "dx", "dweight", "dbias"), products(op, inputs), expected, strict=True):
            assert_same_bits(a, b, f"{op} on {isa}: {name}")


@given(seeds, st.booleans())
@examples(20)
def test_outputs_keep_the_layout_of_channels_last(seed: int, last: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 9, 7, 5)).astype(np.float32)
    weight = rng.standard_normal((10, 9, 3, 3)).astype(np.float32)
    given_x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x
    output = Conv(2, padding=1)(given_x, weight)
    assert_same_bits(output, Conv(2, padding=1)(x, weight))
    assert (np.moveaxis(output, 1, -1) if last else output).flags.c_contiguous


def test_the_pullback_keeps_its_own_inputs() -> None:
    x, weight = np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)
    output, pullback = Conv(2).vjp(x, weight)
    before = pullback(np.ones_like(output))
    x[...], weight[...] = 7, 7
    for a, b in zip(pullback(np.ones_like(output)), before, strict=True):
        assert (a is None and b is None) or np.array_equal(a, b)


MEMORY = """
import re, numpy as np, halfulp as hu
from pathlib import Path
def peak(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) << 10
hu.kernels.set_num_threads(2)
x, w = np.ones((8, 32, 192, 192), np.float32), np.ones((32, 32, 3, 3), np.float32)
small, pull = hu.Conv(2, padding=1, precision=PRECISION).vjp(x[:1, :, :9, :9], w)
pull(small)
op = hu.Conv(2, padding=1, precision=PRECISION)
Path("/proc/self/clear_refs").write_text("5")
before = peak("VmRSS")
y = op(x, w)
forward = peak("VmHWM") - before - y.nbytes
output, pull = op.vjp(x, w)
del output
Path("/proc/self/clear_refs").write_text("5")
before = peak("VmRSS")
dx, dw, _ = pull(y)
backward = peak("VmHWM") - before - dx.nbytes - dw.nbytes
print(forward, backward)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from Linux's /proc")
@pytest.mark.parametrize("precision", ["correct", "fast"])
def test_peak_memory_is_the_output_and_at_most_64_megabytes(precision: str) -> None:
    code = MEMORY.replace("PRECISION", repr(precision))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    forward, backward = map(int, run.stdout.split())
    assert forward < 64 << 20, f"forward: {forward >> 20} MB beside the output"
    assert backward < 64 << 20, f"backward: {backward >> 20} MB beside the cotangents"


X, W = np.zeros((1, 4, 5, 5), np.float32), np.zeros((6, 2, 3, 3), np.float32)
ERRORS: list[tuple[str, type[Exception], Any]] = [
    ("C1", ShapeError, lambda: hu.conv2d(np.zeros((5, 5), np.float32), W)),
    ("C2", ShapeError, lambda: Conv(2)(X, np.zeros((6, 4, 3), np.float32))),
    ("C2", ShapeError, lambda: Conv(2)(X, np.zeros((6, 4, 0, 3), np.float32))),
    ("C3", ShapeError, lambda: Conv(2, groups=4)(X, np.zeros((6, 1, 3, 3), np.float32))),
    ("C3", ShapeError, lambda: Conv(2, groups=0)),
    ("C4", ShapeError, lambda: Conv(2)(X, W)),
    ("C5", ShapeError, lambda: Conv(2, groups=2)(X, W, np.zeros(5, np.float32))),
    ("I1", DTypeError, lambda: Conv(2, groups=2)(X.astype(int), W.astype(int))),
    ("I1", DTypeError, lambda: Conv(2, groups=2)(X.astype(complex), W.astype(complex))),
    ("I2", DTypeError, lambda: Conv(2, groups=2)(X, W.astype(np.float64))),
    ("I3", ShapeError, lambda: Conv(2)(X)),
    ("I4", ShapeError, lambda: Conv(2, groups=2).jvp((X, W), (X[:, :1], None))),
    ("I4", DTypeError, lambda: Conv(2, groups=2).jvp((X, W), (X.astype(np.float64), None))),
    ("I5", ShapeError, lambda: Conv(2, groups=2).vjp(X, W)[1](X)),
    ("I5", DTypeError, lambda: Conv(2, groups=2).vjp(X, W)[1](np.zeros((1, 6, 3, 3)))),
    ("P4", PolicyError, lambda: Conv(2, precision="slow")),
    ("W5", ShapeError, lambda: Conv(2, groups=2)(X[..., :2], W)),
]


@pytest.mark.parametrize(("label", "kind", "call"), ERRORS, ids=[f"{e[0]}-{i}" for i, e in enumerate(ERRORS)])
def test_errors_name_operator_argument_rule_and_label(label: str, kind: type[Exception], call: Any) -> None:
    with pytest.raises(kind, match=rf"^conv(2d)?: .+: .+ \[{label}\]$"):
        call()


@pytest.mark.parametrize("precision", ["correct", "fast"])
@pytest.mark.parametrize("groups", [1, 6])
def test_infinite_cotangents_over_padding_are_not_terms(precision: str, groups: int) -> None:
    x = np.ones((1, 6, 5, 5), np.float32)
    x[0, 0, 2, 0] = np.inf
    weight = np.ones((6, 6 // groups, 3, 3), np.float32)
    cotangent = np.ones((1, 6, 5, 5), np.float32)
    cotangent[0, :, 0, 0] = np.inf
    op = Conv(2, padding=1, groups=groups, precision=precision)
    found = op.vjp(x, weight)[1](cotangent)[1]
    assert_same_bits(found, spec.vjp(op, (x, weight, None), cotangent)[1])


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_cell_under_a_long_kernel(isa: str, dtype: np.dtype[Any], value: float) -> None:
    _core.set_isa(isa)
    x = np.ones((1, 40), dtype)
    x[0, 0] = value
    output = hu.conv1d(x, np.ones((1, 1, 32), dtype))
    assert output[0, 0] == value
    assert (output[0, 1:] == 32).all()


INTERRUPT = """
import os, signal, threading, time, numpy as np, halfulp as hu
rng = np.random.default_rng(0)
def wide(*shape):
    return np.ldexp(rng.standard_normal(shape), rng.integers(-400, 400, shape))
x, w = wide(2, 64, 64, 64), wide(64, 64, 5, 5)
x[:, 1::2], w[:, 1::2] = x[:, ::2], -w[:, ::2]
hu.kernels.set_num_threads(THREADS)
sent = []
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
def send():
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.3, send).start()
try:
    hu.Conv(2)(x, w)
    print("finished")
except KeyboardInterrupt:
    print("interrupted", time.process_time() - sent[0] < 5)
assert hu.conv1d(np.ones((1, 3)), np.ones((1, 1, 2))).tolist() == [[2.0, 2.0]]
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_hard_convolution_early(threads: int) -> None:
    """The whole convolution takes a minute of processor time; how long the wait is depends on the machine's load."""
    code = INTERRUPT.replace("THREADS", str(threads))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert run.stdout.split() == ["interrupted", "True"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(1, 1, 0), (2, 2, 1), (3, 2, 1), (3, 3, 2)])
def test_planes_of_one_cell(kernel: int, stride: int, padding: int, dtype: str) -> None:
    """Their samples are the positions of one plane, also where a single tap of several meets the cell."""
    rng = np.random.default_rng(8)
    op = Conv(1, stride=stride, padding=padding)
    x, w, b = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 5, 1), (4, 5, kernel), (4,)))
    output, pullback = kernels.vjp(op, (x, w, b))
    assert_same_bits(output, spec.forward(op, x, w, b), "forward")
    for found, expected in zip(pullback(output), spec.vjp(op, (x, w, b), output), strict=True):
        assert_same_bits(found, expected, "vjp")


@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_dilation_beyond_the_image_leaves_the_tap_in_the_middle(isa: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 5, 6, 7)).astype(dtype), rng.standard_normal((20, 5, 3, 3)).astype(dtype)
    g = rng.standard_normal((2, 20, 6, 7)).astype(dtype)
    before = _core.get_isa()
    _core.set_isa(isa)
    try:
        output, pullback = Conv(2, padding=9, dilation=9).vjp(x, w, None)
        single, single_pullback = Conv(2).vjp(x, w[:, :, 1:2, 1:2], None)
        (dx, dw, _), (single_dx, single_dw, _) = pullback(g), single_pullback(g)
    finally:
        _core.set_isa(before)
    assert_same_bits(output, single)
    assert_same_bits(dx, single_dx)
    assert_same_bits(dw[:, :, 1:2, 1:2], single_dw)
    dw[:, :, 1, 1] = 0
    assert_same_bits(dw, np.zeros_like(w))


@pytest.mark.parametrize(("size", "dilation", "stride"), [(28, 24, 1), (28, 12, 1), (9, 4, 2), (40, 36, 3)])
def test_taps_that_lie_in_the_padding_for_most_outputs(size: int, dilation: int, stride: int) -> None:
    rng = np.random.default_rng(size + dilation)
    op = Conv(2, stride=stride, padding=(dilation, 0), dilation=(dilation, 1))
    x, w = rng.standard_normal((2, 3, size, 4)).astype("f4"), rng.standard_normal((17, 3, 3, 2)).astype("f4")
    output, pullback = op.vjp(x, w, None)
    g = rng.standard_normal(output.shape).astype("f4")
    assert_same_bits(output, spec.forward(op, x, w, None))
    for ours, exact in zip(pullback(g)[:2], spec.vjp(op, (x, w, None), g)[:2], strict=True):
        assert_same_bits(ours, exact)
