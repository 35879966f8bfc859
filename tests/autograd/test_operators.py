"""The operators besides convolution and pooling: values, first and second derivatives, over every kind of scalar."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import sympy
import torch
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st
from tests.scaling import examples

import halfulp as hu
from halfulp import DTypeError, ShapeError, ops
from halfulp.autograd import flatten

LABELS = np.array([2, 0])
F = torch.nn.functional

# name: (halfulp, PyTorch, shapes of the inputs)
RATIONAL: dict[str, Any] = {
    "add": (ops.add, torch.add, [(2, 3), (2, 3)]),
    "add broadcast": (ops.add, torch.add, [(2, 1, 3), (4, 1)]),
    "sub": (ops.sub, torch.sub, [(2, 3), (1, 3)]),
    "mul": (ops.mul, torch.mul, [(2, 3), (3,)]),
    "mul by itself": (lambda x: ops.mul(x, x), lambda x: x * x, [(2, 3)]),
    "div": (ops.div, torch.div, [(2, 3), (2, 1)]),
    "neg": (ops.neg, torch.neg, [(3,)]),
    "power": (lambda x: ops.power(x, 3), lambda x: x**3, [(4,)]),
    "power 0": (lambda x: ops.power(x, 0) * x, lambda x: x**0 * x, [(4,)]),
    "matmul": (ops.matmul, torch.matmul, [(2, 3), (3, 4)]),
    "matmul vectors": (ops.matmul, torch.matmul, [(3,), (3,)]),
    "matmul row": (ops.matmul, torch.matmul, [(3,), (3, 2)]),
    "matmul column": (ops.matmul, torch.matmul, [(2, 3), (3,)]),
    "matmul batch": (ops.matmul, torch.matmul, [(2, 3, 4), (2, 4, 5)]),
    "matmul broadcast": (ops.matmul, torch.matmul, [(2, 1, 3, 4), (5, 4, 2)]),
    "matmul shared": (ops.matmul, torch.matmul, [(2, 5, 3, 4), (4, 2)]),
    "matmul row of batch": (ops.matmul, torch.matmul, [(4,), (5, 4, 2)]),
    "linear": (ops.linear, F.linear, [(5, 3), (4, 3), (4,)]),
    "linear without bias": (ops.linear, F.linear, [(2, 5, 3), (4, 3)]),
    "linear vector": (ops.linear, F.linear, [(3,), (4, 3), (4,)]),
    "relu": (ops.relu, torch.relu, [(3, 4)]),
    "sum": (ops.sum, torch.sum, [(2, 3)]),
    "sum axis": (lambda x: ops.sum(x, (0, 2)), lambda x: x.sum((0, 2)), [(2, 3, 4)]),
    "sum keepdims": (lambda x: ops.sum(x, -1, True), lambda x: x.sum(-1, keepdim=True), [(2, 3)]),
    "mean": (ops.mean, torch.mean, [(2, 3)]),
    "mean axis": (lambda x: ops.mean(x, 1), lambda x: x.mean(1), [(2, 3, 2)]),
    "reshape": (lambda x: ops.reshape(x, (3, -1)), lambda x: x.reshape(3, -1), [(2, 3)]),
    "flatten": (ops.flatten, lambda x: x.flatten(1), [(2, 3, 2)]),
    "transpose": (lambda x: ops.transpose(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1), [(2, 3, 4)]),
    "transpose reversed": (ops.transpose, lambda x: x.permute(2, 1, 0), [(2, 3, 4)]),
    "broadcast_to": (lambda x: ops.broadcast_to(x, (4, 2, 3)), lambda x: x.expand(4, 2, 3), [(2, 1)]),
    "concatenate": (lambda x, y: ops.concatenate([x, y], 1), lambda x, y: torch.cat([x, y], 1), [(2, 3), (2, 1)]),
    "index": (lambda x: ops.index(x, (slice(None), 1)), lambda x: x[:, 1], [(3, 2)]),
    "index repeated": (lambda x: ops.index(x, np.array([0, 2, 0])), lambda x: x[[0, 2, 0]], [(3, 2)]),
    "mse": (ops.mse, F.mse_loss, [(2, 3), (2, 3)]),
}
SMOOTH: dict[str, Any] = {
    "exp": (ops.exp, torch.exp, [(2, 3)]),
    "log": (lambda x: ops.log(x * x + 1), lambda x: torch.log(x * x + 1), [(2, 3)]),
    "tanh": (ops.tanh, torch.tanh, [(2, 3)]),
    "sigmoid": (ops.sigmoid, torch.sigmoid, [(2, 3)]),
    "log_softmax": (ops.log_softmax, lambda x: F.log_softmax(x, -1), [(2, 3)]),
    "log_softmax axis 0": (lambda x: ops.log_softmax(x, 0), lambda x: F.log_softmax(x, 0), [(3, 2)]),
    "cross_entropy": (
        lambda x: ops.cross_entropy(x, LABELS),
        lambda x: F.cross_entropy(x, torch.tensor(LABELS)),
        [(2, 3)],
    ),
}
ALL = RATIONAL | SMOOTH


def numbers(seed: int, shapes: Any) -> list[Any]:
    """Quarters from -3 to 3, none of them zero, so that all may be divisors."""
    generator = np.random.default_rng(seed)
    drawn = [generator.integers(1, 13, shape) * generator.choice([-1, 1], shape) for shape in shapes]
    return [np.asarray(d / 4) for d in drawn]


def lifted(arrays: list[Any], scalar: Any) -> list[Any]:
    out = []
    for array in arrays:
        lift = np.empty(array.shape, dtype=object)
        for position in np.ndindex(array.shape):
            lift[position] = scalar(int(array[position] * 4)) / 4
        out.append(lift)
    return out


def inner(a: Any, b: Any) -> Any:
    return sum(ops.sum(ops.mul(x, y)) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", list(ALL))
def test_values_and_both_derivatives_agree_with_pytorch(name: str) -> None:
    # PyTorch's float64 is not exact, so a tolerance is right.
    ours, theirs, shapes = ALL[name]
    arrays, tangents = numbers(1, shapes), numbers(2, shapes)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = theirs(*tensors)
    output, pullback = hu.vjp(ours, *arrays)
    np.testing.assert_allclose(output, expected.detach().numpy(), rtol=1e-13, atol=1e-14)
    assert output.shape == tuple(expected.shape)
    cotangent = numbers(3, [output.shape])[0]
    grads = torch.autograd.grad(expected, tensors, torch.tensor(cotangent))
    for mine, reference in zip(pullback(cotangent), grads, strict=True):
        np.testing.assert_allclose(mine, reference.numpy(), rtol=1e-12, atol=1e-13)
    _, pushed = hu.jvp(ours, arrays, tangents)
    directions = tuple(torch.tensor(t) for t in tangents)
    _, reference = torch.autograd.functional.jvp(theirs, tuple(tensors), directions)
    np.testing.assert_allclose(pushed, reference.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", list(ALL))
def test_second_derivatives_agree_with_pytorch(name: str) -> None:
    ours, theirs, shapes = ALL[name]
    arrays, tangents = numbers(4, shapes), numbers(5, shapes)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    output = theirs(*tensors)
    weights = numbers(6, [tuple(output.shape)])[0]

    def loss(*inputs: Any) -> Any:
        out = ours(*inputs)
        return ops.sum(out * out * weights)

    value = (output * output * torch.tensor(weights)).sum()
    grads = torch.autograd.grad(value, tensors, create_graph=True)
    slope = sum((g * torch.tensor(t)).sum() for g, t in zip(grads, tangents, strict=True))
    expected = torch.autograd.grad(slope, tensors)
    products = hu.hvp(loss, arrays, tangents)
    for mine, reference in zip([products] if len(arrays) == 1 else products, expected, strict=True):
        np.testing.assert_allclose(mine, reference.numpy(), rtol=1e-10, atol=1e-11)
    again = hu.grad(lambda *p: inner(flatten(hu.grad(loss, tuple(range(len(p))))(*p))[0], tangents))(*arrays)
    np.testing.assert_allclose(again, expected[0].numpy(), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("scalar", [fmpq, Fraction, sympy.Rational, arb])
@pytest.mark.parametrize("name", list(RATIONAL))
def test_exact_scalars_give_exactly_adjoint_derivatives(name: str, scalar: Any) -> None:
    ours, _, shapes = RATIONAL[name]
    arrays, tangents = lifted(numbers(7, shapes), scalar), lifted(numbers(8, shapes), scalar)
    output, pullback = hu.vjp(ours, *arrays)
    (cotangent,) = lifted(numbers(9, [output.shape]), scalar)
    value, pushed = hu.jvp(ours, arrays, tangents)
    left, right = inner([cotangent], [pushed]), inner(pullback(cotangent), tangents)
    if scalar is arb:
        assert left.overlaps(right)
        assert left.rad() < 1e-10
    else:
        assert left == right
        assert (value == output).all()
        assert all(isinstance(v, type(arrays[0].flat[0])) or scalar is sympy.Rational for v in output.flat)


@pytest.mark.parametrize("name", list(RATIONAL))
def test_floats_that_need_no_rounding_equal_the_rationals(name: str) -> None:
    ours, _, shapes = RATIONAL[name]
    if "div" in name or "mean" in name or name == "mse":
        shapes = [(2,) * len(shape) for shape in shapes]
    arrays = [np.sign(a) * 2.0 ** np.round(a) for a in numbers(10, shapes)]
    exact = [hu.exact(a) for a in arrays]
    output, pullback = hu.vjp(ours, *arrays)
    expected, exact_pullback = hu.vjp(ours, *exact)
    cotangent = 2.0 ** np.round(numbers(11, [output.shape])[0])
    assert (hu.exact(output) == expected).all()
    for mine, reference in zip(pullback(cotangent), exact_pullback(hu.exact(cotangent)), strict=True):
        assert (hu.exact(mine) == reference).all()


@pytest.mark.parametrize("name", list(SMOOTH))
def test_balls_enclose_the_floats_and_are_adjoint(name: str) -> None:
    ours, _, shapes = SMOOTH[name]
    arrays, tangents = numbers(12, shapes), numbers(13, shapes)
    balls, directions = lifted(arrays, arb), lifted(tangents, arb)
    output, pullback = hu.vjp(ours, *balls)
    (cotangent,) = lifted(numbers(14, [output.shape]), arb)
    _, pushed = hu.jvp(ours, balls, directions)
    left, right = inner([cotangent], [pushed]), inner(pullback(cotangent), directions)
    assert left.overlaps(right)
    assert left.rad() < 1e-10
    floats = ours(*arrays)
    for ball, number in zip(output.flat, np.asarray(floats).flat, strict=True):
        assert abs(ball - arb(float(number))) < 1e-12


@pytest.mark.parametrize("name", list(SMOOTH))
def test_symbols_differentiate_to_what_sympy_says(name: str) -> None:
    ours, _, shapes = SMOOTH[name]
    symbols = np.array(sympy.symbols("a:6", real=True), dtype=object).reshape(shapes[0])
    output, pullback = hu.vjp(ours, symbols)
    ones = np.frompyfunc(lambda _: sympy.Integer(1), 1, 1)(output if output.shape else np.array([0], dtype=object))
    (gradient,) = pullback(ones.reshape(output.shape))
    total = sum(output.flat)
    point = {s: sympy.Rational(i + 1, 7) for i, s in enumerate(symbols.flat)}
    for symbol, mine in zip(symbols.flat, gradient.flat, strict=True):
        difference = (mine - sympy.diff(total, symbol)).subs(point)
        assert abs(sympy.N(difference, 40)) < 1e-30


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid"])
@pytest.mark.parametrize("scalar", [fmpq, Fraction])
def test_S2_transcendental_functions_of_rationals_are_a_clear_error(name: str, scalar: Any) -> None:
    x = np.array([scalar(1), scalar(2)], dtype=object)
    with pytest.raises(DTypeError, match=r"of a rational is not rational; use flint.arb balls or floats \[S2\]"):
        getattr(ops, name)(x)
    with pytest.raises(DTypeError, match=r"\[S2\]"):
        hu.Tape().leaf(x)[0].tanh(0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("name", list(ALL))
def test_every_float_type_goes_in_and_comes_out(name: str, dtype: Any) -> None:
    ours, _, shapes = ALL[name]
    arrays = [a.astype(dtype) for a in numbers(15, shapes)]
    output, pullback = hu.vjp(ours, *arrays)
    assert output.dtype == dtype
    for cotangent, array in zip(pullback(np.ones_like(output)), arrays, strict=True):
        assert (cotangent.dtype, cotangent.shape) == (array.dtype, array.shape)
    _, pushed = hu.jvp(ours, arrays, arrays)
    assert (pushed.dtype, pushed.shape) == (output.dtype, output.shape)


FLOATS = st.floats(-1e6, 1e6, width=32)


@examples(50)
@given(st.lists(FLOATS, min_size=1, max_size=40))
def test_sum_and_mean_are_correctly_rounded(values: list[float]) -> None:
    x = np.array(values, dtype=np.float32)
    exact = hu.exact(x)
    assert ops.sum(x) == hu.rounded([sum(exact)], np.float32)[0]
    assert ops.mean(x) == hu.rounded([sum(exact) / len(values)], np.float32)[0]


@examples(50)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**31), st.booleans())
def test_matmul_and_linear_are_correctly_rounded(m: int, k: int, n: int, seed: int, double: bool) -> None:
    generator = np.random.default_rng(seed)
    dtype = np.float64 if double else np.float32
    a = generator.standard_normal((m, k)).astype(dtype)
    b = generator.standard_normal((n, k)).astype(dtype)
    bias = generator.standard_normal(n).astype(dtype)
    exact = hu.exact(a) @ hu.exact(b).T
    assert (ops.matmul(a, b.T) == hu.rounded(exact, dtype)).all()
    assert (ops.linear(a, b, bias) == hu.rounded(exact + hu.exact(bias), dtype)).all()
    _, pullback = hu.vjp(ops.linear, a, b, bias)
    g = generator.standard_normal((m, n)).astype(dtype)
    da, db, dbias = pullback(g)
    assert (da == hu.rounded(hu.exact(g) @ hu.exact(b), dtype)).all()
    assert (db == hu.rounded(hu.exact(g).T @ hu.exact(a), dtype)).all()
    assert (dbias == hu.rounded(hu.exact(g).sum(0), dtype)).all()


def test_relu_of_signed_zeros_nan_and_infinity() -> None:
    x = np.array([-0.0, 0.0, -1.0, np.nan, np.inf, -np.inf, 2.0])
    output, pullback = hu.vjp(ops.relu, x)
    assert output.tolist()[:3] == [0.0, 0.0, 0.0]
    assert not np.signbit(output[:3]).any()
    assert np.isnan(output[3])
    assert output.tolist()[4:] == [np.inf, 0.0, 2.0]
    (gradient,) = pullback(np.array([1.0, np.inf, np.nan, 1.0, 1.0, 1.0, -3.0]))
    assert gradient.tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, -3.0]


@pytest.mark.parametrize("name", ["matmul", "linear"])
def test_P4_precision_of_products(name: str) -> None:
    with pytest.raises(hu.PolicyError, match=rf"{name}: precision='exact': must be one of 'correct', 'fast' \[P4\]"):
        getattr(ops, name)(np.ones((2, 2)), np.ones((2, 2)), precision="exact")
    fast = getattr(ops, name)(np.ones((2, 2)), np.ones((2, 2)), precision="fast")
    assert fast.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_relu_of_a_ball_around_zero_encloses_both_branches() -> None:
    x = np.array([arb(0, 1), arb(3), arb(-3)], dtype=object)
    output, pullback = hu.vjp(ops.relu, x)
    assert output[0].contains(0)
    assert output[0].contains(1)
    assert output[0] >= 0 or output[0].contains(0)
    assert output[1] == 3
    assert output[2] == 0
    (gradient,) = pullback(np.array([arb(1)] * 3, dtype=object))
    assert gradient[0].contains(0)
    assert gradient[0].contains(1)
    assert (gradient[1], gradient[2]) == (1, 0)


def test_relu_of_a_symbol() -> None:
    a = sympy.Symbol("a", real=True)
    output, pullback = hu.vjp(ops.relu, np.array([a]))
    assert output[0] == sympy.Max(a, 0)
    (gradient,) = pullback(np.array([sympy.Integer(1)]))
    assert [gradient[0].subs(a, v) for v in (-1, 0, 2)] == [0, 0, 1]


def test_extreme_floats_do_not_overflow_where_the_answer_does_not() -> None:
    x = np.array([1e4, -1e4, 0.0])
    assert ops.sigmoid(x).tolist() == [1.0, 0.0, 0.5]
    assert ops.log_softmax(x).tolist() == [0.0, -2e4, -1e4]
    assert ops.cross_entropy(x[None], np.array([0])) == 0.0
    assert ops.exp(np.array([1e4])) == np.inf
    assert ops.div(np.array([1.0]), np.array([0.0])) == np.inf


def test_empty_arrays() -> None:
    assert ops.sum(np.zeros((0, 3)), 0).tolist() == [0.0, 0.0, 0.0]
    assert ops.mean(np.zeros((0,))) == 0.0
    assert ops.matmul(np.ones((2, 0)), np.ones((0, 3))).tolist() == [[0.0] * 3] * 2
    assert ops.linear(np.ones((2, 0)), np.ones((3, 0)), np.ones(3)).tolist() == [[1.0] * 3] * 2
    assert ops.matmul(np.ones((0, 2, 3)), np.ones((0, 3, 2))).shape == (0, 2, 2)
    assert hu.grad(lambda x: ops.sum(x))(np.zeros((0, 2))).shape == (0, 2)


def test_I4_I5_operators_check_tangents_and_cotangents() -> None:
    op = hu.autograd.operators.arithmetic.Neg()
    with pytest.raises(ShapeError, match=r"neg: tangent shape=\(2,\): must be \(3,\) \[I4\]"):
        op.jvp((np.ones(3),), (np.ones(2),))
    with pytest.raises(DTypeError, match=r"neg: tangent dtype=float32: must be float64 \[I4\]"):
        op.jvp((np.ones(3),), (np.ones(3, dtype=np.float32),))
    _, pullback = op.vjp(np.ones(3))
    with pytest.raises(ShapeError, match=r"neg: cotangent shape=\(1,\): must be \(3,\) \[I5\]"):
        pullback(np.ones(1))
    with pytest.raises(ShapeError, match=r"neg: 2 tangents: there must be one for each of the 1 primals \[I3\]"):
        op.jvp((np.ones(3),), (np.ones(3), np.ones(3)))
    assert op.output_shape((4, 2)) == (4, 2)
