"""What the tests of both convolutions draw: an operator, inputs that fit it, tangents and a cotangent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from halfulp import HalfulpError, kernels, spec
from halfulp.numbers import exact as exactly
from halfulp.records import Conv, ConvTranspose
from tests.strategies import Array, assert_same_bits, float_dtypes, in_layout, layouts, random_array, seeds


class Case(NamedTuple):
    op: Conv | ConvTranspose
    inputs: tuple[Any, ...]
    tangents: tuple[Any, ...]
    cotangent: Array


@st.composite
def parameters(draw: st.DrawFn, ndim: int, transposed: bool) -> dict[str, Any]:
    per_axis = {"min_size": ndim, "max_size": ndim}
    small = st.integers(0, 3)
    pairs = st.lists(st.tuples(small, small), **per_axis).map(tuple)
    stride = draw(st.lists(st.integers(1, 4), **per_axis).map(tuple))
    dilation = draw(st.lists(st.integers(1, 3), **per_axis).map(tuple))
    chosen = {
        "stride": stride,
        "dilation": dilation,
        "padding": draw(st.one_of(st.integers(0, 2), st.sampled_from(["valid", "same", "same_lower"]), pairs)),
        "groups": draw(st.sampled_from([1, 1, 2, 3])),
    }
    if transposed:
        extra = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
        chosen["output_padding"] = tuple(extra)
    return chosen


@st.composite
def cases(draw: st.DrawFn, transposed: bool, max_ndim: int = 4) -> Case:
    """Any operator that accepts some shape, on small inputs of any element type, layout and kind of values."""
    ndim = draw(st.sampled_from([1, 1, 2, 2, 2, 3, max_ndim]))
    arguments = draw(parameters(ndim, transposed))
    op: Conv | ConvTranspose = ConvTranspose(ndim, **arguments) if transposed else Conv(ndim, **arguments)
    longest = {1: 9, 2: 4, 3: 3}.get(ndim, 2)
    kernel = tuple(draw(st.lists(st.integers(1, longest), min_size=ndim, max_size=ndim)))
    # Channels of the larger side and of the positions, per group: below, at and above a vector's width.
    cells = draw(st.sampled_from([0, 1, 1, 2, 3, 5, 9] if ndim < 3 else [1, 2, 3]))
    positions = draw(st.sampled_from([0, 1, 1, 2, 3, 4, 8, 17, 26] if ndim < 3 else [1, 2, 5]))
    size = {1: 40, 2: 9, 3: 4}.get(ndim, 3)
    spatial = tuple(draw(st.lists(st.integers(1, size), min_size=ndim, max_size=ndim)))
    leading = draw(st.sampled_from([(), (0,), (1,), (2,), (2,)]))
    weight = (arguments["groups"] * positions, cells, *kernel)
    channels = arguments["groups"] * (positions if transposed else cells)
    x = (*leading, channels, *spatial)
    outputs = arguments["groups"] * (cells if transposed else positions)
    try:
        out = op.output_shape(x, weight, (outputs,))
    except HalfulpError:
        # The window does not fit, or nothing would be left: without padding and with room for the window it does.
        op = type(op)(ndim, stride=arguments["stride"], groups=arguments["groups"])
        x = (*leading, channels, *(max(n, k) for n, k in zip(spatial, kernel, strict=True)))
        out = op.output_shape(x, weight, (outputs,))
    rng = np.random.default_rng(draw(seeds))
    dtype = draw(float_dtypes)
    layout = draw(layouts)

    def array(shape: tuple[int, ...]) -> Array:
        return in_layout(random_array(rng, shape, dtype), layout)

    bias = array((outputs,)) if draw(st.booleans()) else None
    present = [draw(st.booleans()) for _ in range(3)]
    tangents = (
        array(x) if present[0] else None,
        array(weight) if present[1] else None,
        array((outputs,)) if present[2] and bias is not None else None,
    )
    return Case(op, (array(x), array(weight), bias), tangents, array(out))


@st.composite
def long_cases(draw: st.DrawFn, transposed: bool) -> Case:
    """Sums as kernels of every instruction set cut them: a last axis of 28 to 70 taps, or 60 to 140 channels."""
    rng = np.random.default_rng(draw(seeds))
    dtype, layout, ndim = draw(float_dtypes), draw(layouts), draw(st.sampled_from([1, 1, 2]))
    wide = draw(st.booleans())
    taps = draw(st.integers(1, 3) if wide else st.sampled_from([28, 31, 32, 33, 40, 63, 64, 65, 70]))
    deep = draw(st.sampled_from([60, 63, 64, 65, 96, 127, 128, 129, 140])) if wide else draw(st.integers(1, 3))
    other = draw(st.sampled_from([1, 2, 9, 17]))
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    kernel = (*(draw(st.integers(1, 2)) for _ in range(ndim - 1)), taps)
    stride, dilation = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2]))
    pairs = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(ndim))
    kind = ConvTranspose if transposed else Conv
    op: Conv | ConvTranspose = kind(ndim, stride=stride, padding=pairs, dilation=dilation, groups=groups)
    extra = tuple(draw(st.integers(0, 9 if axis == ndim - 1 else 2)) for axis in range(ndim))
    if transposed:
        spatial = tuple(e + 3 for e in extra)
        weight, x = (groups * deep, other, *kernel), (groups * deep, *spatial)
    else:
        spatial = tuple(dilation * (k - 1) + 1 + e for k, e in zip(kernel, extra, strict=True))
        weight, x = (groups * other, deep, *kernel), (groups * deep, *spatial)

    def array(shape: tuple[int, ...]) -> Array:
        with np.errstate(all="ignore"):
            return in_layout(random_array(rng, shape, dtype), layout)

    try:
        out = op.output_shape(x, weight)
    except HalfulpError:
        op = kind(ndim, groups=groups)
        out = op.output_shape(x, weight)
    tangents = (array(x) if draw(st.booleans()) else None, array(weight) if draw(st.booleans()) else None, None)
    bias = array((groups * other,)) if draw(st.booleans()) else None
    return Case(op, (array(x), array(weight), bias), tangents, array(out))


def check_fast_specials(case: Case) -> None:
    """``precision="fast"`` has infinities and NaNs where the exact sums of terms far from overflow have them."""
    if case.op.precision == "correct" and any(
        a is not None and (np.abs(a[np.isfinite(a)].astype(np.float64)) > 100).any() for a in case.inputs
    ):
        return
    fast = kernels.forward(replace(case.op, precision="fast"), case.inputs)
    exact = spec.forward(case.op, *case.inputs)
    for special in (np.isnan, np.isposinf, np.isneginf):
        assert np.array_equal(special(fast.astype(np.float64)), special(exact.astype(np.float64))), case.op


def check_against_spec(case: Case) -> None:
    """Value, JVP and VJP have the bits of the specification."""
    op, inputs, tangents, cotangent = case
    expected = spec.forward(op, *inputs)
    assert_same_bits(kernels.forward(op, inputs), expected, f"{op}: forward")
    output, tangent = kernels.jvp(op, inputs, tangents)
    assert_same_bits(output, expected, f"{op}: value of jvp")
    assert_same_bits(tangent, spec.jvp(op, inputs, tangents)[1], f"{op}: jvp")
    output, pullback = kernels.vjp(op, inputs)
    assert_same_bits(output, expected, f"{op}: value of vjp")
    found = pullback(cotangent)
    wanted = spec.vjp(op, inputs, cotangent)
    assert len(found) == len(wanted) == 3
    for name, a, b in zip(("dx", "dweight", "dbias"), found, wanted, strict=True):
        assert (a is None) == (b is None), f"{op}: {name}"
        if a is not None:
            assert_same_bits(a, b, f"{op}: {name}")


def products(op: Conv | ConvTranspose, inputs: Any) -> list[Array]:
    """The value and the cotangents for a cotangent that is made of the value."""
    output, pullback = kernels.vjp(op, tuple(inputs))
    return [output, *pullback(np.array(output[..., ::-1], order="C"))]


def check_fast(case: Case) -> None:
    """``precision="fast"`` is within gamma(n + 1) of the sum of the magnitudes of the n terms, then rounded.

    The unit of gamma is 2^-24 (2^-53 for float64); the final rounding adds half an ulp for the half types. The
    magnitudes come from the specification itself; inputs that leave the range are not held to it.
    """
    inputs = tuple(None if a is None else a.astype(a.dtype.newbyteorder("=")) for a in case.inputs)
    if not all(a is None or np.isfinite(a).all() for a in inputs):
        return
    exact = spec.forward(case.op, *(None if a is None else exactly(a) for a in inputs))
    sizes = spec.forward(case.op, *(None if a is None else exactly(np.abs(a)) for a in inputs))
    found = kernels.forward(replace(case.op, precision="fast"), inputs)
    assert found.dtype == inputs[0].dtype
    assert found.shape == exact.shape
    terms = int(np.prod(case.inputs[1].shape)) + 2
    info = ml_dtypes.finfo(found.dtype)
    unit = Fraction(2) ** (-53 if found.dtype == np.float64 else -24)
    half_ulp = Fraction(2) ** -(info.nmant + 1) if found.dtype.itemsize == 2 else Fraction(0)
    smallest = Fraction(2) ** (int(info.minexp) - int(info.nmant))
    for value, true, size in zip(found.ravel(), exact.ravel(), sizes.ravel(), strict=True):
        size = Fraction(int(size.p), int(size.q))
        true = Fraction(int(true.p), int(true.q))
        if size >= Fraction(2) ** (int(info.maxexp) - 2):
            continue  # a partial sum may overflow
        allowed = terms * unit / (1 - terms * unit) * size
        allowed += half_ulp * (abs(true) + allowed) + terms * smallest
        assert abs(Fraction(float(value)) - true) <= allowed, f"{case.op}: {value} for {float(true)}"
