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


# Two inputs, and one thing wrong at a time


@dataclass(frozen=True, repr=False)
class Scaled(hu.Operator):
    """x times x times y times a setting."""

    scale: float = 0.5
    arity, required, input_names = 2, 2, ("input", "other")
    base_name = name = "scaled"

    def output_shape(self, *shapes: Any) -> Any:
        return shapes[0]


class ScaledRule:
    """Right in every way."""

    def forward(op: Any, inputs: Any) -> Any:  # type: ignore[misc]
        n, d = op.scale.as_integer_ratio()
        return inputs[0] * inputs[0] * inputs[1] * n / d

    def jvp(op: Any, primals: Any, tangents: Any) -> Any:  # type: ignore[misc]
        (x, y), (dx, dy), (n, d) = primals, tangents, op.scale.as_integer_ratio()
        return (0 if dx is None else 2 * x * y * dx * n / d) + (0 if dy is None else x * x * dy * n / d)

    def vjp(op: Any, primals: Any, cotangent: Any) -> Any:  # type: ignore[misc]
        (x, y), (n, d) = primals, op.scale.as_integer_ratio()
        return 2 * x * y * cotangent * n / d, x * x * cotangent * n / d


def scaled_push(c: Any, points: Any, directions: Any, moved: Any) -> Any:
    (x, y), (dx, dy), (vx, vy), one = points, directions, moved, c.ones(points[0])
    terms = [] if dx is None or vx is None else [c.push((one, y), (dx, None)) * vx]
    terms += [] if dy is None or vx is None else [c.push((x, one), (vx, None)) * dy]
    return terms + ([] if dx is None or vy is None else [c.push((x, one), (dx, None)) * vy])


def scaled_pull(c: Any, points: Any, g: Any, moved: Any, which: int) -> Any:
    (x, y), (vx, vy), one = points, moved, c.ones(points[0])
    if which == 1:
        return [] if vx is None else [vx * c.pull((x, one), g, 0)]
    terms = [] if vx is None else [vx * c.pull((one, y), g, 0)]
    return terms + ([] if vy is None else [vy * c.pull((x, one), g, 0)])


def declared(kind: str = "smooth", family: Any = None, **wrong: Any) -> None:
    hu.spec.register(Scaled, type("Rule", (ScaledRule,), wrong))
    draw = hu.Draw(family or (lambda choose: (Scaled(choose((0.5, 3.0))), ((choose((1, 2)), 3),) * 2)))
    curvature = hu.Curvature("scaled", scaled_push, scaled_pull)
    hu.declare(Scaled, kind=kind, curvature=curvature, draw=draw, ranks=())


@pytest.fixture
def undeclared() -> Any:
    yield
    _declaration._declared.pop(Scaled, None)


def test_an_operator_of_two_inputs_passes(undeclared: None) -> None:
    declared()
    laws.check(Scaled)
    x = np.array([1.0, -2.0])
    assert hu.functions(Scaled).scaled(x, x).tolist() == [0.5, -4.0]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"kind": "linear"}, "it is declared as 'linear', but its JVP along an input is not its value"),
        ({"kind": "bilinear"}, "it is declared as 'bilinear', but its JVP along an input is not its value"),
        (
            {"forward": lambda op, inputs: inputs[0][:, :1]},
            r"forward gives the shape \(\d, 1\), output_shape says \(\d, 3\)",
        ),
        (
            {"jvp": lambda op, primals, tangents: tangents[0][:, :2]},
            r"jvp gives the shape \(\d, 2\), output_shape says \(\d, 3\)",
        ),
        ({"vjp": lambda op, primals, g: (g,)}, "vjp gives 1 cotangents for 2 inputs"),
        (
            {"vjp": lambda op, primals, g: (g, g[0])},
            r"vjp gives other a cotangent of shape \(3,\), which has the shape \(\d, 3\)",
        ),
        (
            {"jvp": lambda op, primals, tangents: primals[0] * tangents[0] + primals[0] * tangents[1]},
            r"the VJP is not the JVP's transpose: .*",
        ),
        (
            {"vjp": lambda op, primals, g: (g * None, g)},
            r"forward, jvp and vjp must run on exact numbers \(TypeError in <lambda>, line \d+: .*\)",
        ),
        (
            {"forward": lambda op, inputs: op.scale * inputs[0]},
            r"a float is not exact; take value.as_integer_ratio\(\) of a setting \(.*\)",
        ),
        ({"family": lambda choose: 3}, r"draw must give an operator and its shapes \(TypeError in .*\)"),
    ],
)
def test_E7_each_mistake_is_refused_with_a_sentence(undeclared: None, wrong: Any, text: str) -> None:
    declared(**wrong)
    with pytest.raises(hu.TapeError, match=text + r" \[E7\]"):
        laws.check(Scaled)


def test_E7_a_tangent_of_none_is_zero(undeclared: None) -> None:
    def jvp(op: Any, primals: Any, tangents: Any) -> Any:
        dx, dy = (primals[i] if t is None else t for i, t in enumerate(tangents))
        return ScaledRule.jvp(op, primals, (dx, dy))  # type: ignore[arg-type]

    declared(jvp=jvp)
    with pytest.raises(hu.TapeError, match=r"not the sum of those of one tangent each: a tangent of None is zero"):
        laws.check(Scaled)


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
