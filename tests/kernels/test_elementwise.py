"""Elementwise functions: the bits of the specification for every type, value, layout and number of threads."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import halfulp as hu
from halfulp import kernels, spec
from halfulp.numbers import FORMATS, elementary
from halfulp.records import ELEMENTWISE
from tests.strategies import assert_same_bits

SIMPLE: list[Any] = [
    *(hu.Abs(), hu.Elu(), hu.Erf(), hu.Exp(), hu.Expm1(), hu.Gelu(), hu.Hardsigmoid(), hu.Hardswish(), hu.Hardtanh()),
    *(hu.LeakyRelu(), hu.Log(), hu.Log1p(), hu.Mish(), hu.Reciprocal(), hu.Relu(), hu.Relu6(), hu.Rsqrt()),
    *(hu.Sigmoid(), hu.Silu(), hu.Softplus(), hu.Sqrt(), hu.Tanh(), hu.Pow(1.5)),
]
OPERATORS: list[Any] = [
    *SIMPLE,
    *(hu.Pow(e) for e in (2.0, 3.0, 0.5, -1.0, 2.5, 0.1, 0.0, 1.0, -2.5, 9.0)),
    hu.Gelu("tanh"),
    hu.LeakyRelu(-0.75),
    hu.LeakyRelu(0.0),
    hu.Elu(1e30),
    hu.Elu(-0.3),
    hu.Softplus(-2.0, 1.5),
    hu.Softplus(1e-3),
    hu.Softplus(40.0, -1.0),
    hu.Hardtanh(0.1, 0.1),
]
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
TELLING = [
    *(0.0, np.inf, np.nan, 1.0, 2.0, 3.0, 4.0, 6.0, 0.25, 0.5, 1e-45, 1e-30, 1e30, 1e-8, 100.0, 88.0, 89.0, 20.0),
    *(103.9, 104.0, 700.0, 709.9, 745.0, 746.0, 0.751791, 1.278465, 1.192437, 5e-324, 1e300, 1e-300, 1e-310, 257.0),
    *(14.5, 27.3, 38.0, 39.0, 1500.0, 1e5, 1e-5, 65504.0, 3.4e38),
]


def numbers(dtype: Any, seed: int, count: int) -> np.ndarray[Any, Any]:
    """Telling numbers of both signs, normal ones of many sizes, and any bits."""
    generator = np.random.default_rng(seed)
    telling = np.array([sign * v for v in TELLING for sign in (1, -1)])
    with np.errstate(all="ignore"):
        usual = generator.standard_normal(count) * np.exp(generator.standard_normal(count) * 2)
        kind = np.float64 if dtype == np.float64 else np.float32
        bits = np.frombuffer(generator.bytes(count * np.dtype(kind).itemsize), dtype=kind).astype(np.float64)
        return np.concatenate([telling, usual, bits]).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("op", OPERATORS, ids=repr)
def test_values_and_derivatives_are_those_of_the_specification(op: Any, dtype: Any) -> None:
    x = numbers(dtype, 1, 150)
    t = np.random.default_rng(2).permutation(numbers(dtype, 3, 150))
    output, tangent = op.jvp((x,), (t,))
    expected, along = spec.jvp(op, (x,), (t,))
    assert_same_bits(output, expected)
    assert_same_bits(tangent, along)
    value, pullback = op.vjp(x)
    assert_same_bits(value, expected)
    assert_same_bits(pullback(t)[0], along)


def test_every_function_is_tried() -> None:
    assert {type(op) for op in SIMPLE} == set(ELEMENTWISE)


def every(dtype: Any) -> np.ndarray[Any, Any]:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("op", SIMPLE, ids=repr)
def test_numbers_of_two_bytes(op: Any, dtype: Any) -> None:
    """All 65,536 under the thorough profile, else every 31st."""
    step = 1 if settings.default is not None and settings.default.max_examples > 1000 else 31
    x = every(dtype)[::step]
    assert_same_bits(op(x), spec.forward(op, x))
    t = np.random.default_rng(0).permutation(x)
    assert_same_bits(op.jvp((x,), (t,))[1], spec.jvp(op, (x,), (t,))[1])


def near_boundary(name: str, p: Any, y: Fraction, low: float, high: float, dtype: Any) -> float:
    """The number of the type at which an increasing function is nearest to y, by bisection."""
    target = FORMATS["float64"]
    for _ in range(200):
        middle = float(np.dtype(dtype).type((low + high) / 2))
        if middle in (low, high):
            break
        if elementary.rounded_value(name, p, middle, target) < y:
            low = middle
        else:
            high = middle
    return low


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "silu", "gelu", "softplus", "erf", "sqrt", "mish"])
def test_values_near_boundaries_of_rounding(name: str) -> None:
    """Inputs whose values lie close to the middle of two float32 numbers, made on purpose."""
    (op,) = [op for op in OPERATORS if op.name == name][:1]
    generator = np.random.default_rng(5)
    found = []
    for v in generator.uniform(0.1, 0.9, 40).astype(np.float32):
        middle = (Fraction(float(v)) + Fraction(float(np.nextafter(v, np.float32(1))))) / 2
        x = near_boundary(op.function, op.parameters, middle, 1e-3, 5.0, np.float32)
        found += [x, float(np.nextafter(np.float32(x), np.float32(9)))]
    x = np.array(found, dtype=np.float32)
    assert_same_bits(op(x), spec.forward(op, x))


@given(st.data())
def test_any_float32_numbers(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(OPERATORS))
    size = data.draw(st.integers(1, 40))
    drawn = st.lists(st.floats(width=32), min_size=size, max_size=size)
    x, t = (np.array(data.draw(drawn), dtype=np.float32) for _ in range(2))
    output, tangent = op.jvp((x,), (t,))
    expected, along = spec.jvp(op, (x,), (t,))
    assert_same_bits(output, expected)
    assert_same_bits(tangent, along)


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.transpose(2, 0, 1),
    "reversed": lambda a: a[::-1, :, ::-1],
    "strided": lambda a: a[:, ::2, 1::3],
    "broadcast": lambda a: np.broadcast_to(a[:, :1], a.shape),
    "empty": lambda a: a[:, :0],
    "scalar": lambda a: a[1, 2, 3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_layouts_and_threads_give_the_same_bits(layout: str, dtype: Any) -> None:
    whole = np.random.default_rng(4).standard_normal((12, 35, 27)).astype(dtype)
    x = np.asarray(LAYOUTS[layout](whole))
    x.flags.writeable = False
    g = np.asarray(LAYOUTS["reversed"](x)) if x.ndim == 3 else x
    for op in (hu.Gelu(), hu.Pow(2.5), hu.Relu()):
        expected = op(np.array(x, order="C")), op.vjp(np.array(x, order="C"))[1](np.array(g, order="C"))[0]
        for threads in (1, 2, 3):
            hu.set_num_threads(threads)
            try:
                assert_same_bits(np.asarray(op(x)), expected[0])
                assert_same_bits(np.asarray(op.vjp(x)[1](g)[0]), expected[1])
            finally:
                hu.set_num_threads(0)
        assert np.asarray(op(x)).shape == x.shape


def test_out_is_written_in_place_and_may_be_the_input() -> None:
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    expected = hu.silu(x)
    out = np.empty_like(x)
    assert hu.silu(x, out=out) is out
    assert_same_bits(out, expected)
    assert hu.silu(x, out=x) is x
    assert_same_bits(x, expected)
    with pytest.raises(hu.ShapeError, match=r"silu: out shape=\(3,\): must be \(1000,\)"):
        hu.silu(x, out=np.empty(3, dtype=np.float32))


def test_foreign_byte_order_and_misaligned_arrays() -> None:
    x = np.linspace(-3, 3, 65)
    assert_same_bits(hu.tanh(x.astype(">f8")).astype("=f8"), hu.tanh(x))
    raw = np.zeros(65 * 8 + 1, dtype=np.uint8)
    odd = raw[1:].view(np.float64)
    odd[:] = x
    assert_same_bits(hu.tanh(odd), hu.tanh(x))


def test_parameters_that_no_double_holds() -> None:
    x = np.array([-3.0, -0.5, 0.0, 2.0, np.nan, -np.inf], dtype=np.float32)
    for op in (hu.LeakyRelu(Fraction(1, 3)), hu.Pow(Fraction(1, 3)), hu.Elu(Fraction(2) ** 2000)):
        assert_same_bits(op(x), spec.forward(op, x))
        assert_same_bits(op.jvp((x,), (x,))[1], spec.jvp(op, (x,), (x,))[1])
    assert hu.pow(np.array([8.0, 27.0]), Fraction(1, 3)).tolist() == [2.0, 3.0]


def test_few_elements_are_left_to_balls() -> None:
    """The core decides what is not on a boundary: the others would make large arrays slow."""
    x = np.random.default_rng(0).standard_normal(50_000).astype(np.float32) * 3
    for op in SIMPLE:
        made = kernels.elementwise.compiled(op)
        for t in (None, np.ones_like(x), x[::-1].copy()):
            left = kernels.elementwise._core.elementwise(op.name, made.function, made.first, made.second, x, t)[1]
            assert left.size <= 5, (op, left.size)


def test_H1_parameters_are_finite_numbers() -> None:
    for value in (np.inf, np.nan, "2", None, True):
        with pytest.raises(hu.PolicyError, match=r"must be a finite float, integer or fraction \[H1\]"):
            hu.Pow(value)  # type: ignore[arg-type]
    with pytest.raises(hu.PolicyError, match=r"softplus: beta=0.0: must be a finite real number other than 0 \[S1\]"):
        hu.Softplus(0.0)


def test_H2_H3_choices_and_ends() -> None:
    with pytest.raises(hu.PolicyError, match=r"gelu: approximate='erf': must be 'none' or 'tanh' \[H2\]"):
        hu.gelu(np.ones(2), approximate="erf")
    with pytest.raises(hu.PolicyError, match=r"hardtanh: min_val=2, max_val=1: min_val must not exceed max_val \[H3\]"):
        hu.hardtanh(np.ones(2), 2, 1)


def test_I1_I4_I5_inputs_are_checked() -> None:
    with pytest.raises(hu.DTypeError, match=r"exp: input dtype=int64"):
        hu.exp(np.arange(3))
    with pytest.raises(hu.ShapeError, match=r"exp: tangent shape=\(2,\): must be \(3,\).* \[I4\]"):
        hu.Exp().jvp((np.ones(3),), (np.ones(2),))
    for op in (hu.Exp(), hu.Relu()):
        with pytest.raises(hu.ShapeError, match=r"cotangent shape=\(2,\): must be \(3,\).* \[I5\]"):
            op.vjp(np.ones(3))[1](np.ones(2))


@pytest.mark.parametrize("op", [*SIMPLE, hu.Gelu("tanh")], ids=repr)
def test_arrays_without_axes(op: Any) -> None:
    drawn = np.random.default_rng(0).standard_normal(20)
    with np.errstate(all="ignore"):
        for number in (*drawn, 1e-300, -1e-310, 1e300, -760.0):  # of which some are left to balls
            x, t = np.array([number]), np.array([1.3])
            assert_same_bits(np.asarray(op(x.reshape(()))), op(x).reshape(()))
            value, tangent = op.jvp((x.reshape(()),), (t.reshape(()),))
            assert_same_bits(np.asarray(tangent), op.jvp((x,), (t,))[1].reshape(()))
            assert_same_bits(np.asarray(op.vjp(x.reshape(()))[1](t.reshape(()))[0]), op.vjp(x)[1](t)[0].reshape(()))
            assert value.shape == ()
