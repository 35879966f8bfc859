"""``tape.check``: it accepts what is right and names the first node that is not."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from flint import arb, ctx, fmpq

import halfulp as hu
from halfulp import Tape, TapeError


class Cube:
    """x ** 3, with a slope that a test can get wrong."""

    name = "cube"

    def __init__(self, forward_slope: int = 3, reverse_slope: int = 3) -> None:
        self.forward_slope, self.reverse_slope = forward_slope, reverse_slope

    def __call__(self, x: Any) -> Any:
        return x * x * x

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        return self(x), self.forward_slope * x * x * t

    def vjp(self, x: Any) -> tuple[Any, Any]:
        return self(x), lambda g: (self.reverse_slope * x * x * g,)


def network(operator: Any, x: Any) -> Tape:
    tape, i = Tape().leaf(x, name="x")
    tape, w = tape.leaf(x[:1, None, :2], name="w")
    tape, y = tape.conv(w, None, i, name="first")
    tape, y = tape.apply(operator, y)
    tape, _ = tape.max_pool(y, (2,))
    return tape


X = np.array([[0.5, -1.0, 2.0, 0.25]])


@pytest.mark.parametrize("x", [X, X.astype(np.float32), hu.exact(X)])
def test_a_right_operator_passes(x: Any) -> None:
    network(Cube(), x).check()


@pytest.mark.parametrize("x", [X, X.astype(np.float32), hu.exact(X)])
@pytest.mark.parametrize("slopes", [(3, 2), (2, 3)])
def test_E7_a_wrong_operator_is_named(x: Any, slopes: tuple[int, int]) -> None:
    text = r"tape.check: node 3 \('cube'\): <g, JVP t> = .* but <VJP g, t> = .* for the same g and t \[E7\]"
    with pytest.raises(TapeError, match=text):
        network(Cube(*slopes), x).check()


def test_E7_a_float_pullback_that_differs_from_the_exact_one_is_named() -> None:
    class Sloppy(Cube):
        def vjp(self, x: Any) -> tuple[Any, Any]:
            slope = 3 if x.dtype == object else 3.001
            return self(x), lambda g: (slope * x * x * g,)

    with pytest.raises(TapeError, match=r"node 3 \('cube'\): the float VJP is .*, the exact one .* \[E7\]"):
        network(Sloppy(), X).check()


def test_E7_an_operator_that_takes_floats_alone_cannot_be_checked() -> None:
    class Floats(Cube):
        def __call__(self, x: Any) -> Any:
            return x.astype(np.float64) if x.dtype != object else np.sqrt(np.array(["x"]))

    with pytest.raises(TapeError, match=r"node 3 \('cube'\): cannot be run on exact scalars, .* \[E7\]"):
        network(Floats(), X).check()


def test_a_transcendental_operator_of_ones_own_is_checked_over_balls() -> None:
    class Softplus:
        name = "softplus"

        def __call__(self, x: Any) -> Any:
            return np.log(1 + np.exp(x))

        def _slope(self, x: Any) -> Any:
            return 1 / (1 + np.exp(-x))

        def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            return self(primals[0]), self._slope(primals[0]) * tangents[0]

        def vjp(self, x: Any) -> tuple[Any, Any]:
            return self(x), lambda g: (self._slope(x) * g,)

    network(Softplus(), X).check()


def test_every_node_of_the_tape_passes() -> None:
    generator = np.random.default_rng(3)
    tape, x = Tape().leaf(generator.integers(-8, 9, (2, 2, 4, 4)) / 8)
    tape, w = tape.leaf(generator.standard_normal((2, 2, 3, 3)))
    tape, b = tape.leaf(generator.standard_normal(2))
    tape, m = tape.leaf(generator.standard_normal((3, 2)))
    tape, n = tape.leaf(generator.standard_normal((2, 3)))
    tape, y = tape.conv2d(w, b, x, padding=1)
    tape, y = tape.relu(y)
    tape, z = tape.conv_transpose2d(w, b, y, padding=1)
    tape, y = tape.add(y, z)
    tape, y = tape.max_pool2d(y, 3, 1, 1)
    tape, s = tape.smooth_max_pool2d(y, 2, 1.5, stride=1, padding=1)
    tape, a = tape.avg_pool2d(s, 2, 1)
    tape, a = tape.adaptive_avg_pool(a, (3, 3))
    tape, a = tape.adaptive_max_pool(a, (2, 2))
    tape, t = tape.tanh(a)
    tape, e = tape.exp(t)
    tape, e = tape.log(e)
    tape, e = tape.sigmoid(e)
    tape, q = tape.div(e, e)
    tape, q = tape.sub(q, t)
    tape, q = tape.mul(q, e)
    tape, q = tape.neg(q)
    tape, q = tape.power(q, 2)
    tape, c = tape.concatenate([q, t], axis=1)
    tape, c = tape.transpose(c, (1, 0, 2, 3))
    tape, c = tape.index(c, slice(0, 2))
    tape, c = tape.transpose(c, (1, 0, 2, 3))
    tape, g = tape.global_max_pool(c, keepdims=False)
    tape, g2 = tape.global_avg_pool(c, keepdims=False)
    tape, g = tape.add(g, g2)
    tape, l = tape.linear(g, m)  # noqa: E741
    tape, mm = tape.matmul(g, n)
    tape, f = tape.reshape(l, (2, 3))
    tape, ls = tape.log_softmax(f)
    tape, ce = tape.cross_entropy(ls, [0, 2])
    tape, err = tape.mse(l, mm)
    tape, total = tape.sum(ls)
    tape, middle = tape.mean(ls)
    tape, flat = tape.flatten(x)
    tape.check()
    assert len(tape) > 35
    assert {ce, err, total, middle, flat} <= set(range(len(tape)))


@pytest.mark.parametrize("scalar", [fmpq, Fraction, sympy.Rational, arb])
def test_exact_tapes_are_checked_in_their_own_scalars(scalar: Any) -> None:
    values = np.frompyfunc(lambda v: scalar(int(v * 4)) / 4, 1, 1)(X)
    network(Cube(), values).check()
    with pytest.raises(TapeError, match=r"node 3 \('cube'\).*\[E7\]"):
        network(Cube(3, 1), values).check()


def test_X1_a_value_without_an_exact_meaning_is_named() -> None:
    tape, x = Tape().leaf(np.array([1.0, np.nan]))
    tape, _ = tape.neg(x)
    with pytest.raises(TapeError, match=r"input of node 1 \('neg'\): .*only finite numbers.*\[X1\]"):
        tape.check()


def test_the_precision_of_balls_is_put_back() -> None:
    before = ctx.prec
    network(Cube(), X).check()
    assert ctx.prec == before


def test_integers_are_not_differentiated() -> None:
    tape, x = Tape().leaf(np.arange(4), requires_grad=False)
    tape, y = tape.max_pool(x, (2,))
    tape.check()
    assert tape.value(y).tolist() == [1, 3]
