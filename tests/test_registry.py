"""What holds for every declared operator, drawn from the registry: a new one is tested without a line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from flint import arb, ctx

import halfulp as hu
from halfulp.conformance import laws
from halfulp.records import Declaration, Operator, WindowOperator, _declaration, declarations
from tests.exact import Dual, mapped

OWN = [d for d in declarations() if d.record.__module__.startswith("halfulp.")]
every_operator = pytest.mark.parametrize("declaration", OWN, ids=lambda d: d.name)


@pytest.fixture(autouse=True)
def precision() -> Any:
    before = ctx.prec
    ctx.prec = 256
    yield
    ctx.prec = before


@every_operator
def test_the_laws_hold(declaration: Declaration) -> None:
    laws.check(declaration.record, cases=60)


def close(a: Any, b: Any) -> bool:
    """Equal rationals, or balls that overlap and are narrow; outside of a function's domain neither is finite."""
    a, b = np.asarray(a, dtype=object).ravel(), np.asarray(b, dtype=object).ravel()
    if any(isinstance(value, arb) for value in (*a, *b)):
        pairs = [(arb(x), arb(y)) for x, y in zip(a, b, strict=True)]
        narrow = lambda x: x.rad() < 1e-9 * (1 + abs(x))  # noqa: E731
        return all((x.overlaps(y) and narrow(x)) or not (x.is_finite() or y.is_finite()) for x, y in pairs)
    return all(x == y for x, y in zip(a, b, strict=True))


def second_by_duals(trial: laws.Trial, t: Any, v: Any) -> Any:
    """The second derivative along t and v, out of a forward pass over dual numbers of dual numbers alone."""

    def lifted(x: Any, a: Any, b: Any) -> Any:
        return mapped(lambda p, q, r: Dual(Dual(p, q), Dual(r, r * 0)), x, a, b)

    inputs = [x if a is None else lifted(x, a, b) for x, a, b in zip(trial.primals, t, v, strict=True)]
    return mapped(lambda d: part(part(d)), np.asarray(hu.spec.forward(trial.op, *inputs), dtype=object))


def part(value: Any) -> Any:
    """The derivative of a dual number; a plain number has none."""
    return value.derivative if isinstance(value, Dual) else value * 0


@every_operator
def test_second_derivatives_are_those_of_dual_numbers(declaration: Declaration) -> None:
    """Forward over forward, and reverse over forward, both on the tape."""
    for trial in laws.trials(declaration, 12, seed=1):
        t, v, g = trial.tangents(), trial.tangents(), trial.cotangent()
        moving = [i for i, a in enumerate(t) if a is not None]
        expected = second_by_duals(trial, t, v)

        def pushed(*xs: Any, trial: Any = trial, t: Any = t, moving: Any = moving) -> Any:
            given = list(trial.primals)
            for i, x in zip(moving, xs, strict=True):
                given[i] = x
            return trial.op.jvp(tuple(given), t)[1]

        points, directions = tuple(trial.primals[i] for i in moving), tuple(v[i] for i in moving)
        _, forward = hu.jvp(pushed, points, directions)
        found = forward if forward is not None else mapped(lambda d: d * 0, expected)
        assert close(found, expected), trial.op
        _, pullback = hu.vjp(pushed, *points)
        backward = pullback(g)
        left = sum((x * y for x, y in zip(g.ravel(), expected.ravel(), strict=True)), start=0)
        pairs = [(d, b) for d, b in zip(directions, backward, strict=True) if b is not None]
        right = sum((x * y for d, b in pairs for x, y in zip(d.ravel(), b.ravel(), strict=True)), start=0)
        assert close([left + 0 * right], [right + 0 * left]), trial.op


# Operators with one hole each


@dataclass(frozen=True, repr=False)
class Square(WindowOperator):
    """The sum of squares of a window."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False

    base_name: ClassVar[str] = "square_pool"

    def __post_init__(self) -> None:
        self._normalise_window()


def registered(factor: int, curvature: Any) -> None:
    """The operator with a VJP that is ``factor`` times the right one."""

    def windows(op: Any, spatial: Any) -> Any:
        return hu.geometry.windows(op.axes(spatial))

    rule = hu.spec.Pooling(
        windows,
        lambda op, zero, xs, padded: sum((x * x for x in xs), zero),
        lambda op, zero, xs, ts, padded: sum((2 * x * t for x, t in zip(xs, ts, strict=True)), zero),
        lambda op, zero, xs, g, padded: [factor * x * g for x in xs],
    )
    hu.spec.register(Square, rule)
    hu.declare(Square, kind="smooth", curvature=curvature, draw=hu.Draw("window"))


def right_curvature(factor: int = 1) -> hu.Curvature:
    return hu.Curvature(
        "square",
        lambda c, points, directions, moved: [c.push(directions, moved)],
        lambda c, points, g, moved, which: [factor * moved[0] * c.pull((c.ones(points[0]),), g, 0)],
    )


@pytest.fixture
def forgotten() -> Any:
    yield
    _declaration._declared.pop(Square, None)


def test_a_right_operator_passes(forgotten: None) -> None:
    registered(2, right_curvature())
    laws.check(Square)


def test_a_vjp_that_is_not_the_transpose_is_refused(forgotten: None) -> None:
    registered(3, right_curvature())
    with pytest.raises(
        hu.TapeError, match=r"square_pool1d: .*: the VJP is not the JVP's transpose: <g, JVP t> = .* \[E7\]"
    ):
        laws.check(Square)


def test_a_curvature_that_is_not_symmetric_is_refused(forgotten: None) -> None:
    registered(2, right_curvature(5))
    with pytest.raises(hu.TapeError, match=r"the curvature's cotangent is not its tangent's transpose"):
        laws.check(Square)


@pytest.mark.parametrize("curvature", ["none", "linear"])
def test_a_curvature_that_the_jvp_does_not_have_is_refused(forgotten: None, curvature: str) -> None:
    registered(2, curvature)
    with pytest.raises(hu.TapeError, match=rf"the JVP changes .* is declared as '{curvature}' \[E7\]"):
        laws.check(Square)


def test_a_curvature_of_half_the_size_is_refused(forgotten: None) -> None:
    def half(c: Any, points: Any, directions: Any, moved: Any) -> Any:
        return [c.push(directions, moved) / 2]

    def half_back(c: Any, points: Any, g: Any, moved: Any, which: int) -> Any:
        return [moved[0] * c.pull((c.ones(points[0]),), g, 0) / 2]

    registered(2, hu.Curvature("half", half, half_back))
    with pytest.raises(hu.TapeError, match=r"the declared second derivative is not the change of the JVP: .* \[E7\]"):
        laws.check(Square)


# An operator that nobody has declared


@dataclass(frozen=True, repr=False)
class Cube(Operator):
    """x**3, by formulas of its own."""

    @property
    def name(self) -> str:
        return "cube"

    def output_shape(self, *input_shapes: Any) -> Any:
        return input_shapes[0]

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        (x,) = inputs
        return hu.ops.apply(self, x) if isinstance(x, hu.Traced) else x * x * x

    def jvp(self, primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return self(x), 3 * x * x * t

    def vjp(self, *primals: Any) -> Any:
        (x,) = primals
        return self(x), lambda g: (3 * x * x * g,)


def test_an_undeclared_operator_has_no_second_derivative() -> None:
    x = np.array([2.0])
    assert hu.grad(lambda x: hu.ops.sum(hu.ops.apply(Cube(), x)))(x) == [12.0]
    with pytest.raises(hu.DTypeError, match=r"Cube: no declaration: second derivatives and bridges need one.*\[E8\]"):
        hu.hvp(lambda x: hu.ops.sum(hu.ops.apply(Cube(), x)), (x,), (np.ones(1),))


def test_a_declared_operator_has_the_second_derivative_that_it_says() -> None:
    cube = hu.Curvature(
        "cube",
        tangent=lambda c, points, directions, moved: [6 * points[0] * directions[0] * moved[0]],
        cotangent=lambda c, points, g, moved, which: [6 * points[0] * g * moved[0]],
    )
    hu.declare(
        Cube, kind="smooth", curvature=cube, draw=hu.Draw(lambda choose: (Cube(), ((choose((1, 3)),),))), ranks=()
    )
    try:
        found = hu.hvp(lambda x: hu.ops.sum(hu.ops.apply(Cube(), x)), (np.array([2.0]),), (np.ones(1),))
        assert found == [12.0]
    finally:
        del _declaration._declared[Cube]
