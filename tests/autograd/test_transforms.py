"""Transforms of ordinary functions: structures, nesting, errors, and a small network through every scalar."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy
from flint import arb, ctx, fmpq

import halfulp as hu
from halfulp import DTypeError, TapeError, ops
from halfulp.autograd import flatten


@dataclass
class Layer:
    weight: Any
    bias: Any


class Pair(NamedTuple):
    left: Any
    right: Any


def test_nested_structures_come_back_as_they_went_in() -> None:
    p = {
        "layer": Layer(np.array([1.0, 2.0]), np.array(3.0)),
        "more": [np.array(4.0), (np.array(5.0), None)],
        "pair": Pair(np.array(6.0), np.array(7.0)),
    }

    def f(p: Any) -> Any:
        layer, (a, (b, nothing)), pair = p["layer"], p["more"], p["pair"]
        assert nothing is None
        return ops.sum(layer.weight * layer.weight) * layer.bias + a * b + pair.left * pair.right

    value, gradient = hu.value_and_grad(f)(p)
    assert value == 5 * 3 + 20 + 42
    assert isinstance(gradient["layer"], Layer)
    assert gradient["layer"].weight.tolist() == [6.0, 12.0]
    assert gradient["layer"].bias == 5.0
    assert gradient["more"][0] == 5.0
    assert gradient["more"][1] == (4.0, None)
    assert gradient["pair"] == Pair(7.0, 6.0)
    _, change = hu.jvp(f, (p,), (gradient,))
    assert change == sum((g * g).sum() for g in flatten(gradient)[0])


def test_argnums_keywords_and_aux() -> None:
    def f(x: Any, y: Any, *, scale: float) -> Any:
        return ops.sum(x * y) * scale, {"seen": x}

    (value, aux), (dx, dy) = hu.value_and_grad(f, argnums=(0, 1), has_aux=True)(
        np.array([1.0, 2.0]), np.array([3.0, 4.0]), scale=2.0
    )
    assert value == 22.0
    assert aux["seen"].tolist() == [1.0, 2.0]
    assert isinstance(aux["seen"], np.ndarray)
    assert (dx.tolist(), dy.tolist()) == ([6.0, 8.0], [2.0, 4.0])
    assert hu.grad(lambda x, y: x * y, argnums=1)(np.array(2.0), np.array(3.0)) == 2.0


def test_vjp_of_several_outputs_and_repeated_pullbacks() -> None:
    (double, again), pullback = hu.vjp(lambda x: (x + x, x), np.array([1.0, 2.0]))
    assert double.tolist() == [2.0, 4.0]
    assert again.tolist() == [1.0, 2.0]
    for _ in range(2):
        (gradient,) = pullback((np.array([1.0, 1.0]), np.array([10.0, 0.0])))
        assert gradient.tolist() == [12.0, 2.0]


def test_an_unused_argument_and_a_constant_have_zero_gradient() -> None:
    dx, dy = hu.grad(lambda x, y: ops.sum(x), (0, 1))(np.ones(2), np.ones(3))
    assert (dx.tolist(), dy.tolist()) == ([1.0, 1.0], [0.0, 0.0, 0.0])
    assert hu.grad(lambda x: np.array(3.0))(np.ones(2)).tolist() == [0.0, 0.0]
    value, change = hu.jvp(lambda x: np.array(3.0), (np.ones(2),), (np.ones(2),))
    assert (value, change) == (3.0, 0.0)
    output, pullback = hu.vjp(lambda x: x, np.ones(2))
    assert pullback(np.array([3.0, 4.0]))[0].tolist() == [3.0, 4.0]
    assert output.tolist() == [1.0, 1.0]


def test_nesting_keeps_the_levels_apart() -> None:
    # d/dx (x * d/dy (x + y)) = 1: the classic confusion of perturbations gives 2
    def outer(x: Any) -> Any:
        return x * hu.grad(lambda y: x + y)(np.array(1.0))

    assert hu.grad(outer)(np.array(1.0)) == 1.0
    assert hu.jvp(outer, (np.array(1.0),), (np.array(1.0),))[1] == 1.0

    def inner_jvp(x: Any) -> Any:
        return x * hu.jvp(lambda y: x + y, (np.array(1.0),), (np.array(1.0),))[1]

    assert hu.grad(inner_jvp)(np.array(1.0)) == 1.0


def test_derivatives_of_any_order() -> None:
    f = lambda x: x * x * x * x * x  # noqa: E731
    orders = [120.0, 120.0]
    for _ in range(4):
        f = hu.grad(f)
    assert f(np.array(1.0)) == orders[0]
    assert hu.grad(f)(np.array(2.0)) == orders[1]
    assert hu.jvp(f, (np.array(2.0),), (np.array(1.0),))[1] == orders[1]


def test_python_operators_methods_and_numpy_functions_on_traced_values() -> None:
    def f(x: Any) -> Any:
        y = 1 + x - 2 * x / 4 + (3 - x) * x
        y = y + np.exp(x) * np.tanh(x) + np.square(x) - np.negative(x)
        y = (-y) ** 2
        z = y.reshape(2, 2).T @ np.ones((2, 1))
        return z.transpose().sum(axis=0).mean() + (np.ones((1, 2)) @ y.reshape((2, 2)))[0, 1]

    x = np.array([0.1, 0.2, 0.3, 0.4])
    value, gradient = hu.value_and_grad(f)(x)
    symbols = sympy.symbols("x0:4")
    y = [(1 + s - s / 2 + (3 - s) * s + sympy.exp(s) * sympy.tanh(s) + s * s + s) ** 2 for s in symbols]
    total = (y[0] + y[1] + y[2] + y[3]) / 2 + y[1] + y[3]
    point = dict(zip(symbols, x.tolist(), strict=True))
    np.testing.assert_allclose(float(value), float(total.subs(point)), rtol=1e-13)
    expected = [float(sympy.diff(total, s).subs(point)) for s in symbols]
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)
    assert f(x) == value


def test_traced_values_look_like_arrays() -> None:
    def f(x: Any) -> Any:
        assert (x.shape, x.ndim, x.size, x.dtype, len(x)) == ((2, 3), 2, 6, np.float64, 2)
        assert "Variable" in repr(x)
        total = x.sum()
        assert total > 0
        assert total >= 1
        assert total < 100
        assert total <= 100
        assert bool(total)
        assert float(total) == 6.0
        with pytest.raises(TypeError, match="no length"):
            len(total)
        return total if total > 3 else total * 2

    assert hu.grad(f)(np.ones((2, 3))).tolist() == [[1.0] * 3] * 2


def test_E6_what_a_traced_value_refuses() -> None:
    with pytest.raises(TapeError, match=r"a traced value is not an array; use halfulp.ops.* \[E6\]"):
        hu.grad(lambda x: np.asarray(x).sum())(np.ones(2))
    with pytest.raises(TapeError, match=r"numpy.arctan: .*has no derivative here.* \[E6\]"):
        hu.grad(lambda x: np.arctan(x))(np.ones(2))
    with pytest.raises(TapeError, match=r"must be an array, not a traced value \[E6\]"):
        hu.grad(lambda x: hu.Tape().leaf(x))(np.ones(2))
    with pytest.raises(TapeError, match=r"labels are integers, not a traced value \[E2\]"):
        hu.grad(lambda x: ops.cross_entropy(x, x))(np.ones(2))


def test_I3_argnums_beyond_the_arguments() -> None:
    with pytest.raises(TapeError, match=r"grad: argnums=1: the call has 1 positional arguments \[I3\]"):
        hu.grad(lambda x: ops.sum(x), argnums=1)(np.ones(2))


def test_E3_E4_I1_of_the_transforms() -> None:
    with pytest.raises(TapeError, match=r"grad: output shape=\(2,\): must be \(\), one number; use vjp .* \[E4\]"):
        hu.grad(lambda x: x)(np.ones(2))
    with pytest.raises(TapeError, match=r"grad: output=tuple: must be one number; .* \[E4\]"):
        hu.grad(lambda x: (x, x))(np.ones(2))
    with pytest.raises(DTypeError, match=r"grad: argument dtype=int64: has no derivative; .* \[I1\]"):
        hu.grad(lambda x: ops.sum(x))(np.arange(3))
    with pytest.raises(TapeError, match=r"tangent: shape=\(1,\): must be \(2,\) \[E3\]"):
        hu.jvp(lambda x: x, (np.ones(2),), (np.ones(1),))
    with pytest.raises(TapeError, match=r"tangent: dtype=float32: must be float64 \[E3\]"):
        hu.jvp(lambda x: x, (np.ones(2),), (np.ones(2, dtype=np.float32),))
    with pytest.raises(TapeError, match=r"jvp: 2 tangents: there must be one for each of the 1 primals \[E3\]"):
        hu.jvp(lambda x: x, (np.ones(2),), (np.ones(2), np.ones(2)))
    _, pullback = hu.vjp(lambda x: (x, x), np.ones(2))
    with pytest.raises(TapeError, match=r"vjp: cotangent with 1 arrays: must have the output's structure of 2 \[E3\]"):
        pullback(np.ones(2))
    with pytest.raises(TapeError, match=r"cotangent: shape=\(3,\): must be \(2,\) \[E3\]"):
        pullback((np.ones(3), np.ones(2)))


def small_cnn(p: Any, x: Any) -> Any:
    """Polynomial but for the maximum: it has rational values at rational points."""
    h = hu.conv2d(x, p["w"], p["b"], padding=1)
    h = ops.relu(h)
    h = hu.max_pool2d(h, 2)
    h = hu.conv_transpose2d(h, p["v"], stride=2)
    h = hu.avg_pool2d(h, 3, 1, 1)
    return ops.mean(ops.linear(ops.flatten(h), p["m"]) ** 2)


def cnn_parameters() -> tuple[Any, Any]:
    generator = np.random.default_rng(1)
    shapes = {"w": (2, 1, 3, 3), "b": (2,), "v": (2, 1, 2, 2), "m": (3, 16)}
    parameters = {name: generator.integers(-8, 9, shape) / 8 for name, shape in shapes.items()}
    return parameters, generator.integers(-8, 9, (2, 1, 4, 4)) / 4


def test_exact_mode_of_a_small_cnn_and_its_float_gradient() -> None:
    p, x = cnn_parameters()
    exact_p = hu.tree_map(hu.exact, p)
    value, gradient = hu.value_and_grad(small_cnn)(exact_p, hu.exact(x))
    assert all(isinstance(v, fmpq) for leaf in flatten(gradient)[0] for v in leaf.flat)
    floats, float_gradient = hu.value_and_grad(small_cnn)(p, x)
    np.testing.assert_allclose(float(floats), float(hu.rounded(value, np.float64)), rtol=1e-14)
    for mine, reference in zip(flatten(float_gradient)[0], flatten(gradient)[0], strict=True):
        np.testing.assert_allclose(mine, hu.rounded(reference, np.float64), rtol=1e-12, atol=1e-14)


def test_balls_enclose_the_exact_gradient() -> None:
    p, x = cnn_parameters()

    def ball(array: Any) -> Any:
        return np.frompyfunc(arb, 1, 1)(hu.exact(array))

    exact = flatten(hu.grad(small_cnn)(hu.tree_map(hu.exact, p), hu.exact(x)))[0]
    balls = flatten(hu.grad(small_cnn)(hu.tree_map(ball, p), ball(x)))[0]
    for enclosure, truth in zip(balls, exact, strict=True):
        for a, b in zip(enclosure.flat, truth.flat, strict=True):
            assert a.contains(arb(b))
            assert a.rad() < 1e-12


def smooth_cnn(p: Any, x: Any) -> Any:
    h = ops.tanh(hu.conv2d(x, p["w"], p["b"], padding=1))
    h = hu.smooth_max_pool2d(h, 2, 1.5)
    h = hu.conv_transpose2d(h, p["v"], stride=2)
    return ops.cross_entropy(ops.linear(ops.flatten(h), p["m"]), np.array([0, 2]))


def test_hessian_products_of_a_smooth_cnn_lie_in_their_balls() -> None:
    p, x = cnn_parameters()
    t = hu.tree_map(lambda a: np.roll(a, 1), p)

    def ball(array: Any) -> Any:
        return np.frompyfunc(arb, 1, 1)(hu.exact(array))

    floats = flatten(hu.hvp(lambda p: smooth_cnn(p, x), (p,), (t,)))[0]
    before = ctx.prec
    ctx.prec = 200
    try:
        balls = flatten(hu.hvp(lambda p: smooth_cnn(p, ball(x)), (hu.tree_map(ball, p),), (hu.tree_map(ball, t),)))[0]
    finally:
        ctx.prec = before
    # Balls have one right answer; floats are rounded at every node, so they may be a few units off.
    for enclosure, mine in zip(balls, floats, strict=True):
        assert max(float(b.rad()) for b in enclosure.flat) < 1e-40
        middle = np.array([float(b.mid()) for b in enclosure.flat]).reshape(mine.shape)
        np.testing.assert_allclose(mine, middle, rtol=1e-10, atol=1e-14)


def test_rational_hessian_is_the_exact_second_derivative() -> None:
    p, x = (hu.tree_map(hu.exact, part) for part in cnn_parameters())
    t = hu.tree_map(lambda a: np.roll(a, 1), p)

    def line(s: Any) -> Any:
        return small_cnn(hu.tree_map(lambda a, b: a + s * b, p, t), x)

    product = hu.hvp(lambda p: small_cnn(p, x), (p,), (t,))
    along = sum((a * b).sum() for a, b in zip(flatten(product)[0], flatten(t)[0], strict=True))
    assert hu.grad(hu.grad(line))(np.array(fmpq(0), dtype=object)).item() == along


def test_gradients_are_arrays_of_their_own() -> None:
    x, seed = np.ones((2, 3)), np.ones((2, 3))
    for function in (lambda x, y: x + y, lambda x, y: ops.transpose(ops.transpose(x)) - y):
        gradients = hu.vjp(function, x, x)[1](seed)
        for gradient in gradients:
            assert gradient.flags.writeable
            gradient *= 7
        assert gradients[0].tolist() == [[7.0] * 3] * 2
    assert seed.tolist() == [[1.0] * 3] * 2
    spread = hu.grad(lambda x: ops.sum(x))(x)
    spread += 1
    assert spread.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (np.ones(2, dtype=np.float32), "float64 and float32"),
        (np.arange(2), "float64 and int64"),
        (hu.exact(np.ones(2)), "float64 and fmpq"),
    ],
)
def test_E5_kinds_that_meet_under_a_transform(other: Any, names: str) -> None:
    with pytest.raises(TapeError, match=rf"mul: inputs of kinds {names}: all inputs must be of one kind.* \[E5\]"):
        hu.grad(lambda x: ops.sum(x * other))(np.ones(2))
    with pytest.raises(TapeError, match=r"\[E5\]"):
        ops.concatenate([np.ones(2), other])


def test_E5_objects_of_two_kinds() -> None:
    with pytest.raises(TapeError, match=r"add: inputs of kinds fmpq and arb: .* \[E5\]"):
        ops.add(hu.exact(np.ones(2)), np.array([arb(1), arb(2)], dtype=object))
    half = hu.exact(np.array([1.0])) * 0 + fmpq(1, 2)
    assert ops.mul(half, 0.5).tolist() == [fmpq(1, 4)]


def test_the_methods_of_records_take_traced_values() -> None:
    x, t = np.array([1.0, 3.0, 2.0, 5.0]), np.array([1.0, 10.0, 100.0, 1000.0])
    for op in (hu.SmoothMaxPool((2,), 2), hu.AvgPool((2,)), hu.MaxPool((2,))):
        pulled = hu.grad(lambda x, op=op: ops.sum(op.vjp(x)[1](np.array([1.0, 2.0]))[0] * t))(x)
        pushed = hu.grad(lambda x, op=op: ops.sum(op.jvp((x,), (t,))[1] * np.array([1.0, 2.0])))(x)
        np.testing.assert_allclose(pulled, pushed, rtol=1e-12, atol=1e-12)  # two roads to the same second derivative
    w = np.array([[[1.0, 2.0]]])
    dw = hu.grad(lambda w: ops.sum(hu.Conv(1).jvp((x[None], w, None), (t[None], None, None))[1]))(w)
    assert dw.tolist() == [[[111.0, 1110.0]]]


def test_foreign_scalars_need_only_arithmetic_and_order() -> None:
    x = np.array([[Decimal("0.5"), Decimal("1.25"), Decimal(3)]], dtype=object)
    w = np.array([[[Decimal(2), Decimal(-1)]]], dtype=object)

    def f(w: Any) -> Any:
        return ops.mean(hu.max_pool1d(ops.relu(hu.conv1d(x, w)) ** 2 * 0.5, 2))

    gradient = hu.grad(f)(w)
    exact = np.frompyfunc(lambda v: fmpq(*v.as_integer_ratio()), 1, 1)
    expected = hu.grad(lambda w: ops.mean(hu.max_pool1d(ops.relu(hu.conv1d(exact(x), w)) ** 2 * 0.5, 2)))(exact(w))
    assert all(isinstance(v, Decimal) for v in gradient.flat)
    assert (exact(gradient) == expected).all()


def test_hvp_of_one_primal_and_of_several() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    one = hu.hvp(lambda x: ops.sum(x * x * y), (x,), (np.ones(2),))
    assert one.tolist() == [6.0, 8.0]
    both = hu.hvp(lambda x, y: ops.sum(x * x * y), (x, y), (np.ones(2), np.zeros(2)))
    assert [part.tolist() for part in both] == [[6.0, 8.0], [2.0, 4.0]]


def test_functional_forms_and_records_take_traced_values() -> None:
    x = np.random.default_rng(0).standard_normal((2, 6, 6, 6))
    forms = [
        lambda x: hu.max_pool3d(x, 2),
        lambda x: hu.avg_pool1d(x, 2),
        lambda x: hu.smooth_max_pool2d(x, 2, 1.0),
        lambda x: hu.adaptive_avg_pool2d(x, 4),
        lambda x: hu.adaptive_max_pool3d(x, 4),
        lambda x: hu.global_avg_pool2d(x),
        lambda x: hu.global_max_pool3d(x, keepdims=False),
        hu.MaxPool((2, 2)),
    ]
    for form in forms:
        value, gradient = hu.value_and_grad(lambda x, form=form: ops.sum(form(x)))(x)
        assert gradient.shape == x.shape
        assert value == ops.sum(form(x))
