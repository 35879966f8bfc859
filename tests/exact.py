"""Exact numbers for the tests of the specification: rational arrays, operators of every kind to try them on, and a dual
number that differentiates independently of any JVP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq
from hypothesis import strategies as st
from numpy.typing import NDArray

import halfulp as hu
from tests import strategies as draw

Array = NDArray[Any]


def objects(values: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """An object array; NumPy never looks inside the values."""
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out.reshape(shape)


def mapped(function: Callable[..., Any], *arrays: Array) -> Array:
    """A function applied cell by cell."""
    rows = zip(*(array.ravel() for array in arrays), strict=True)
    return objects([function(*row) for row in rows], arrays[0].shape)


def rationals(rng: np.random.Generator, shape: tuple[int, ...], spread: int = 6) -> Array:
    """Small rationals with many ties and zeros among them."""
    size = int(np.prod(shape))
    numerators, denominators = rng.integers(-spread, spread + 1, size), rng.integers(1, 4, size)
    return objects([fmpq(int(p), int(q)) for p, q in zip(numerators, denominators, strict=True)], shape)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Rationals no two of which are equal."""
    size = int(np.prod(shape))
    return objects([fmpq(int(p), 7) for p in rng.permutation(size) - size // 2], shape)


def inner(a: Array, b: Array) -> Any:
    """The inner product, exact."""
    return sum((p * q for p, q in zip(a.ravel(), b.ravel(), strict=True)), fmpq(0))


def equal(a: Array, b: Array) -> bool:
    """Same shape, and every scalar equal."""
    return a.shape == b.shape and all(p == q for p, q in zip(a.ravel(), b.ravel(), strict=True))


@dataclass(frozen=True)
class Case:
    """An operator and the shapes of the inputs it is tried on."""

    op: Any
    shapes: tuple[tuple[int, ...] | None, ...]

    def inputs(self, rng: np.random.Generator, make: Callable[..., Array] = rationals) -> tuple[Array | None, ...]:
        return tuple(None if shape is None else make(rng, shape) for shape in self.shapes)

    @property
    def output(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.op.output_shape(*self.shapes)
        return shape


@st.composite
def window_cases(draw_: st.DrawFn, record: Any, **settings: st.SearchStrategy[Any]) -> Case:
    """A record with a sliding window, of rank 1 to 4."""
    arguments, spatial = draw_(draw.windows(max_ndim=4, max_outputs=2))
    op = record(**arguments, **{name: draw_(values) for name, values in settings.items()})
    return Case(op, (draw_(leading) + spatial,))


leading = st.sampled_from([(), (1,), (2,), (1, 2), (0,)])


max_pools = window_cases(hu.MaxPool, ties=draw.ties, nan=draw.nan_policies)
avg_pools = window_cases(
    hu.AvgPool, count_include_pad=st.booleans(), divisor_override=st.none() | st.sampled_from([1, 3, -2])
)
min_pools = window_cases(hu.MinPool, ties=draw.ties, nan=draw.nan_policies)
sum_pools = window_cases(hu.SumPool)
lp_pools = window_cases(hu.LpPool, p=st.sampled_from([1, float("inf")]))
smooth_pools = window_cases(hu.SmoothMaxPool, beta=st.sampled_from([1, 3.5, -2, Fraction(1, 3), 40]))


@st.composite
def bin_cases(draw_: st.DrawFn) -> Case:
    """An adaptive or global record, of rank 1 to 4."""
    spatial = tuple(draw_(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    bins = tuple(draw_(st.none() | st.integers(1, 5)) for _ in spatial)
    ties, keepdims = draw_(draw.ties), draw_(st.booleans())
    op = draw_(
        st.sampled_from(
            [
                hu.AdaptiveAvgPool(bins),
                hu.AdaptiveMaxPool(bins, ties=ties),
                hu.GlobalAvgPool(len(spatial), keepdims=keepdims),
                hu.GlobalMaxPool(len(spatial), keepdims=keepdims, ties=ties),
                hu.GlobalMinPool(len(spatial), keepdims=keepdims, ties=ties),
            ]
        )
    )
    return Case(op, (draw_(leading) + spatial,))


@st.composite
def convolutions(draw_: st.DrawFn, transposed: bool | None = None) -> Case:
    """A convolution or transposed convolution, of rank 1 to 4, with groups and every kind of padding."""
    ndim = draw_(st.integers(1, 4))
    most = {1: 5, 2: 3}.get(ndim, 2)

    def per_axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw_(st.integers(low, high)) for _ in range(ndim))

    kernel, stride, dilation, groups = per_axis(1, most), per_axis(1, 3), per_axis(1, 2), draw_(st.integers(1, 2))
    batch = draw_(st.sampled_from([(), (1,), (2,), (0,)]))
    small, large = draw_(st.integers(1, 2)) * groups, draw_(st.integers(1, 2)) * groups
    pairs = tuple((draw_(st.integers(0, 2)), draw_(st.integers(0, 2))) for _ in range(ndim))
    extents = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if transposed if transposed is not None else draw_(st.booleans()):
        extra = tuple(draw_(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
        # enough cells that something is left when the padding is cut off
        spatial = tuple(
            max(1, -(-(b + a + 1 - e - x) // s) + 1) + draw_(st.integers(0, 2))
            for (b, a), e, x, s in zip(pairs, extents, extra, stride, strict=True)
        )
        # "same" cuts the output down to stride times the input, so the window must span the stride
        spans = all(e + x >= s for e, x, s in zip(extents, extra, stride, strict=True))
        word: Any = draw_(st.sampled_from([pairs, "valid", *(["same", "same_lower"] if spans else [])]))
        op: Any = hu.ConvTranspose(ndim, stride, word, extra, dilation, groups)
        weight, bias = (small, large // groups, *kernel), (large,)
    else:
        padding: Any = draw_(st.sampled_from([pairs, "valid", "same", "same_lower"]))
        given_pairs = pairs if padding is pairs else ((0, 0),) * ndim
        spatial = tuple(
            max(1, e - b - a) + draw_(st.integers(0, 2)) for e, (b, a) in zip(extents, given_pairs, strict=True)
        )
        op = hu.Conv(ndim, stride, padding, dilation, groups)
        weight, bias = (large, small // groups, *kernel), (large,)
    return Case(op, ((*batch, small, *spatial), weight, draw_(st.sampled_from([bias, None]))))


@st.composite
def patch_cases(draw_: st.DrawFn) -> Case:
    """Unfold or fold, of rank 1 to 3."""
    arguments, spatial = draw_(draw.windows(max_ndim=3, max_outputs=2))
    arguments = {name: value for name, value in arguments.items() if name != "ceil_mode"}
    arguments["stride"] = arguments["stride"] or arguments["kernel_size"]
    shape = draw_(st.sampled_from([(1,), (2,), (2, 1), (0, 1)])) + spatial
    unfold = hu.Unfold(**arguments)
    if draw_(st.booleans()):
        return Case(unfold, (shape,))
    return Case(hu.Fold(spatial, **arguments), (unfold.output_shape(shape),))


linear_pools = st.one_of(
    avg_pools, sum_pools, patch_cases(), bin_cases().filter(lambda case: not hasattr(case.op, "ties"))
)
hard_maxima = st.one_of(max_pools, min_pools, bin_cases().filter(lambda case: hasattr(case.op, "ties")))
every_exact_operator = st.one_of(max_pools, min_pools, avg_pools, sum_pools, patch_cases(), bin_cases(), convolutions())


class Dual:
    """value + derivative * epsilon with epsilon**2 = 0, over any scalar; ordered by value."""

    def __init__(self, value: Any, derivative: Any) -> None:
        self.value, self.derivative = value, derivative

    def __add__(self, other: Any) -> Dual:
        other = _dual(other)
        return Dual(self.value + other.value, self.derivative + other.derivative)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.derivative)

    def __sub__(self, other: Any) -> Dual:
        return self + -_dual(other)

    def __rsub__(self, other: Any) -> Dual:
        return _dual(other) + -self

    def __mul__(self, other: Any) -> Dual:
        other = _dual(other)
        return Dual(self.value * other.value, self.value * other.derivative + self.derivative * other.value)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        other = _dual(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.derivative - quotient * other.derivative) / other.value)

    def exp(self) -> Dual:
        power = self.value.exp()
        return Dual(power, power * self.derivative)

    def log(self) -> Dual:
        return Dual(self.value.log(), self.derivative / self.value)

    def erf(self) -> Dual:
        slope = (-(self.value * self.value)).exp() * (2 / arb.pi().sqrt())
        return Dual(self.value.erf(), slope * self.derivative)

    def __pow__(self, exponent: Fraction) -> Dual:
        slope = _power(self.value, exponent - 1) * _scalar(exponent)
        return Dual(_power(self.value, exponent), slope * self.derivative)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == _dual(other).value)

    __hash__ = None  # type: ignore[assignment]

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > _dual(other).value)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < _dual(other).value)

    def __repr__(self) -> str:
        return f"Dual({self.value}, {self.derivative})"


def _scalar(exponent: Fraction) -> fmpq:
    return fmpq(*Fraction(exponent).as_integer_ratio())


def _power(value: Any, exponent: Fraction) -> Any:
    """A positive scalar to any power; a rational one leaves the rationals for balls where it must."""
    if isinstance(value, Dual):
        return value**exponent
    return value ** int(exponent) if exponent.denominator == 1 else arb(value) ** arb(_scalar(exponent))


def _dual(value: Any) -> Dual:
    if isinstance(value, Dual):
        return value
    if isinstance(value, (Fraction, float)):  # a beta: exact in any scalar that has exp
        value = arb(fmpq(*value.as_integer_ratio()))
    return Dual(value, 0)
