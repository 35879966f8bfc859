"""The same operators over every kind of number: Fraction, fmpq, balls, floats of Python and NumPy, Decimal, sympy."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
import sympy
from flint import arb, fmpq
from hypothesis import given

import halfulp as hu
from tests import exact
from tests import strategies as draw
from tests.exact import Case, equal, mapped, objects

KINDS: dict[str, Any] = {
    "Fraction": lambda v: Fraction(int(v.p), int(v.q)),
    "arb": arb,
    "sympy": lambda v: sympy.Rational(int(v.p), int(v.q)),
}


def encloses(ball: Any, value: Any) -> bool:
    """Whether a ball holds a rational, up to 2**-200."""
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 200
        return bool(ball.overlaps(arb(value)))
    finally:
        flint.ctx.prec = before


@pytest.mark.parametrize("kind", ["Fraction", "arb"])
@given(exact.every_exact_operator, draw.seeds)
def test_one_meaning_in_every_number_system(kind: str, case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lift, quarter = KINDS[kind], lambda r, shape: mapped(lambda v: v / 4, exact.rationals(r, shape))
    primals, tangents = case.inputs(rng, quarter), case.inputs(rng, quarter)
    g = quarter(rng, case.output)
    lifted = [tuple(None if a is None else mapped(lift, a) for a in arrays) for arrays in (primals, tangents, (g,))]
    output, jt = hu.spec.jvp(case.op, primals, tangents)
    output2, jt2 = hu.spec.jvp(case.op, lifted[0], lifted[1])
    pulled, pulled2 = hu.spec.vjp(case.op, primals, g), hu.spec.vjp(case.op, lifted[0], lifted[2][0])
    for expected, found in zip((output, jt, *pulled), (output2, jt2, *pulled2), strict=True):
        if expected is None:
            assert found is None
        elif kind == "arb":  # thirds are inexact balls, so that some ties are undecided: what is true is enclosed
            assert all(
                ball.contains(arb(v)) or ball.overlaps(arb(v))
                for v, ball in zip(expected.ravel(), found.ravel(), strict=True)
            )
        else:
            assert all(type(v) is Fraction for v in found.ravel())
            assert equal(mapped(lift, expected), found)


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
def test_floats_as_objects_keep_their_own_arithmetic(kind: Any) -> None:
    values = [kind(v) for v in (0.5, -2, math.inf, 3)]
    x = objects(values, (4,))
    maximum = hu.spec.forward(hu.MaxPool((2,)), x)
    assert [type(v) for v in maximum] == [kind, kind]
    assert list(maximum) == [0.5, math.inf]
    assert list(hu.spec.forward(hu.AvgPool((2,)), x)) == [-0.75, math.inf]
    # the cell that starts the array is infinite, and yet zero is zero
    (back,) = hu.spec.vjp(hu.MaxPool((2,)), (x[::-1].copy(),), objects([kind(1), kind(1)], (2,)))
    assert [type(v) for v in back] == [kind] * 4
    assert list(back) == [0, 1, 0, 1]
    padded = hu.spec.forward(hu.AvgPool((2,), padding=1), objects([kind(math.inf), kind(1)], (2,)))
    assert list(padded) == [math.inf, 0.5]


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_smooth_max_of_float_objects_never_overflows_and_knows_infinity(kind: Any) -> None:
    def smooth(*cells: float, beta: Any = 1) -> Any:
        return hu.spec.forward(hu.SmoothMaxPool((len(cells),), beta), objects([kind(c) for c in cells], (len(cells),)))[
            0
        ]

    assert type(smooth(0, 0)) is kind
    assert abs(smooth(0, 0) - math.log(2)) < 1e-6
    assert smooth(1000, 0) == 1000
    assert smooth(-1000, -1001, beta=-1) < -1000
    assert smooth(-1000, -1001, beta=Fraction(-1)) == smooth(-1000, -1001, beta=-1.0)
    assert smooth(math.inf, 1000) == math.inf
    assert smooth(-math.inf, -math.inf) == -math.inf
    assert smooth(-math.inf, 3) == 3
    assert smooth(math.inf, 1, beta=-1) == 1
    x = objects([kind(-math.inf)] * 2, (2,))
    weights = hu.spec.vjp(hu.SmoothMaxPool((2,), 1), (x,), objects([kind(1)], (1,)))[0]
    assert all(math.isnan(w) for w in weights)  # 0 / 0


@pytest.mark.parametrize("scalar", [Fraction(1, 2), fmpq(1, 2), 1, Decimal(1)])
def test_S2_a_number_system_without_exp_and_log(scalar: Any) -> None:
    op, x = hu.SmoothMaxPool((2,), 1.0), objects([scalar, scalar], (2,))
    kind = "fmpq" if isinstance(scalar, int) else type(scalar).__name__
    text = (
        f"smooth_max_pool1d: scalars of kind {kind}: a scalar with exp and log is needed: flint.arb, float, "
        "a float array, sympy, or any type with the methods exp() and log() [S2]"
    )
    for call in (
        lambda: hu.spec.forward(op, x),
        lambda: op(x),
        lambda: hu.spec.jvp(op, (x,), (x,)),
        lambda: hu.spec.vjp(op, (x,), x[:1]),
    ):
        with pytest.raises(hu.DTypeError) as caught:
            call()
        assert str(caught.value) == text


def test_a_decimal_pools() -> None:
    x = objects([Decimal("0.1"), Decimal("0.2"), Decimal("NaN"), Decimal(1)], (4,))
    assert str(hu.spec.forward(hu.AvgPool((2,)), x)[0]) == "0.15"
    assert str(hu.spec.forward(hu.MaxPool((2,), nan="ignore"), x)[1]) == "1"


def test_symbols_in_average_pooling() -> None:
    a, b, c, d = sympy.symbols("a b c d")
    x = objects([a, b, c, d], (2, 2))
    mean = hu.avg_pool2d(x, 2)
    assert mean.shape == (1, 1)
    assert sympy.simplify(mean[0, 0] - (a + b + c + d) / 4) == 0
    g = sympy.Symbol("g")
    (back,) = hu.AvgPool((2, 2)).vjp(x)[1](objects([g], (1, 1)))
    assert [sympy.diff(mean[0, 0] * g, s) - v for s, v in zip((a, b, c, d), back.ravel(), strict=True)] == [0] * 4


def test_symbols_in_convolution() -> None:
    x, w, b = (
        objects(list(sympy.symbols(names)), shape)
        for names, shape in (("x:4", (1, 4)), ("w:2", (1, 1, 2)), ("b:1", (1,)))
    )
    op = hu.Conv(1, padding=((1, 0),))
    y = op(x, w, b)
    (x0, x1, *_), (w0, w1), b0 = x[0], w.ravel(), b[0]
    assert sympy.expand(y[0, 0] - (w1 * x0 + b0)) == 0
    assert sympy.expand(y[0, 1] - (w0 * x0 + w1 * x1 + b0)) == 0
    g = objects(list(sympy.symbols("g:4")), (1, 4))
    dx, dw, db = op.vjp(x, w, b)[1](g)
    loss = sum(p * q for p, q in zip(y.ravel(), g.ravel(), strict=True))
    for array, gradient in ((x, dx), (w, dw), (b, db)):
        assert all(
            sympy.expand(sympy.diff(loss, s) - v) == 0 for s, v in zip(array.ravel(), gradient.ravel(), strict=True)
        )


def test_symbols_in_smooth_max() -> None:
    a, b, beta = sympy.symbols("a b beta", positive=True)
    op, x = hu.SmoothMaxPool((2,), beta), objects([a, b], (2,))
    value = op(x)[0]
    (back,) = op.vjp(x)[1](objects([sympy.Integer(1)], (1,)))
    assert sympy.simplify(value - sympy.log(sympy.exp(beta * a) + sympy.exp(beta * b)) / beta) == 0
    assert sympy.simplify(sympy.diff(value, a) - back[0]) == 0


def test_progress_is_shown_when_asked_for(capfd: Any) -> None:
    x = objects([fmpq(1)] * 4, (2, 2))
    image, weight = x.reshape(1, 2, 2), objects([fmpq(1)], (1, 1, 1))
    plain = objects([arb(1)] * 4, (1, 2, 2)), objects([arb(1)], (1, 1, 1))
    conv = hu.Conv(1)
    for name, call in (
        ("max_pool1d", lambda p: hu.spec.forward(hu.MaxPool((2,)), x, progress=p)),
        ("avg_pool1d", lambda p: hu.spec.jvp(hu.AvgPool((2,)), (x,), (x,), progress=p)),
        ("global_max_pool1d", lambda p: hu.spec.vjp(hu.GlobalMaxPool(1), (x,), x[:, :1], progress=p)),
        ("smooth_max_pool1d", lambda p: hu.spec.forward(hu.SmoothMaxPool((2,), 1), np.ones((2, 2)), progress=p)),
        ("conv1d", lambda p: hu.spec.forward(conv, image[0], weight[:, :, :1].repeat(2, 1), progress=p)),
        ("conv1d", lambda p: hu.spec.vjp(conv, (plain[0][0], plain[1].repeat(2, 1)), plain[0][0][:1], progress=p)),
    ):
        call(False)
        assert capfd.readouterr() == ("", "")
        call(True)
        out, err = capfd.readouterr()
        assert out == ""
        assert name in err
        assert "100%" in err


def test_the_working_precision_is_left_as_it_was() -> None:
    before = flint.ctx.prec
    hu.spec.forward(hu.SmoothMaxPool((2,), 3), np.array([0.25, 0.5], np.float32))
    assert flint.ctx.prec == before
