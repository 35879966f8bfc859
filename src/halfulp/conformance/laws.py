"""The laws that every operator obeys, checked in exact arithmetic on cases that its declaration draws.

- the value has the shape that the record says, and the VJP gives a cotangent for every input, in its shape;
- ``<g, JVP t> = <VJP g, t>``: the two derivatives are each other's transposes;
- both are linear in their argument, and a tangent of None is zero;
- a linear operator is its own derivative, a bilinear one its derivative in either factor;
- the second derivative is symmetric: its change along t, seen from u, is what u hands back along t;
- it is the change of the JVP: for a declared curvature of none the JVP does not change at all around a point, and for
  any other the quotient of a difference over 2**-59 has its first 40 bits.

Rationals decide them; operators that leave the rationals are checked in balls, which must overlap.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from halfulp import spec
from halfulp.autograd.operators.curvature import TapeCalculus
from halfulp.conformance.build import small
from halfulp.errors import DTypeError, HalfulpError, TapeError
from halfulp.numbers import flint
from halfulp.records import Array, Declaration, Operator, Shape, declaration_of

__all__ = ["Trial", "check", "trials"]

T = TypeVar("T")

_BITS = 256
_STEP, _CLOSE = 60, 40


class Trial:
    """An operator with exact inputs, tangents and a cotangent."""

    def __init__(self, op: Operator, shapes: tuple[Shape | None, ...], rng: np.random.Generator, balls: bool) -> None:
        self.op, self.declaration = op, declaration_of(op)
        self.balls, self._rng = balls, rng
        constant = self.declaration.constant
        self.moving = [
            s is not None and n not in constant for s, n in zip(shapes, self.declaration.inputs, strict=False)
        ]
        made = self.declaration.draw.constants
        given = () if made is None else made(op, shapes, rng)
        count = len(shapes) - len(given)
        self.primals = (*(None if s is None else self.distinct(s) for s in shapes[:count]), *given)
        self.shapes = shapes

    def distinct(self, shape: Shape) -> Array:
        """Numbers of both signs, of which no two have the same size, none of them 0."""
        drawn = [int(n) for n in self._rng.permutation(int(np.prod(shape, dtype=int)))]
        return self._filled([2 * n + 1 if n % 2 else -2 * n - 1 for n in drawn], 7, shape)

    def numbers(self, shape: Shape) -> Array:
        """Small numbers."""
        return self._filled([int(n) for n in self._rng.integers(-9, 10, int(np.prod(shape, dtype=int)))], 4, shape)

    def _filled(self, numerators: list[int], denominator: int, shape: Shape) -> Array:
        out = np.empty(len(numerators), dtype=object)
        for i, n in enumerate(numerators):
            ratio = flint.fmpq(n, denominator)
            out[i] = flint.arb(ratio) if self.balls else ratio
        return out.reshape(shape)

    def tangents(self) -> tuple[Any, ...]:
        """A direction for every input that has a derivative."""
        pairs = zip(self.shapes, self.moving, strict=True)
        return tuple(self.numbers(s) if moves and s is not None else None for s, moves in pairs)

    def cotangent(self) -> Array:
        """A cotangent of the output."""
        shapes: list[Any] = [None if p is None else p.shape for p in self.primals]
        return self.numbers(self.op.output_shape(*shapes))

    def broken(self) -> Iterator[str]:
        """The laws that do not hold, in words."""
        t, u, g = self.tangents(), self.tangents(), self.cotangent()
        value, pushed = spec.jvp(self.op, self.primals, t)
        pulled = spec.vjp(self.op, self.primals, g)
        wrong = list(self._misshapen(value, pushed, pulled, g.shape))
        if wrong:
            yield wrong[0]
            return
        left, right = _inner(g, pushed), _inners(pulled, t)
        if not _equal(left, right):
            yield f"the VJP is not the JVP's transpose: <g, JVP t> = {left}, <VJP g, t> = {right}"
        both = spec.jvp(self.op, self.primals, _added(t, u))[1]
        apart = (pushed, spec.jvp(self.op, self.primals, u)[1])
        if not _same(both, *_added(apart[:1], apart[1:])):
            yield "the JVP is not linear in its tangents"
        if not self.op.constants and not _same(pushed, self._one_by_one(t)):
            yield "the JVP is not the sum of those of one tangent each: a tangent of None is zero"
        for at in range({"linear": 1, "bilinear": 2}.get(self.declaration.kind, 0)):
            others = {1 - at} if self.declaration.kind == "bilinear" else set()
            along = tuple(
                p if moves and i not in others else None
                for i, (p, moves) in enumerate(zip(self.primals, self.moving, strict=True))
            )
            if not _same(value, spec.jvp(self.op, self.primals, along)[1]):
                yield f"it is declared as {self.declaration.kind!r}, but its JVP along an input is not its value"
        yield from self._curvature(t, u, g)

    def _misshapen(self, value: Array, pushed: Array, pulled: tuple[Any, ...], shape: Shape) -> Iterator[str]:
        """What has another shape than the record and the inputs say."""
        for name, found in (("forward", value), ("jvp", pushed)):
            if np.shape(found) != shape:
                yield f"{name} gives the shape {np.shape(found)}, output_shape says {shape}"
        if len(pulled) != len(self.shapes):
            yield f"vjp gives {len(pulled)} cotangents for {len(self.shapes)} inputs"
            return
        for name, cotangent, wanted in zip(self.declaration.inputs, pulled, self.shapes, strict=False):
            if cotangent is not None and np.shape(cotangent) != wanted:
                yield f"vjp gives {name} a cotangent of shape {np.shape(cotangent)}, which has the shape {wanted}"

    def _one_by_one(self, tangents: tuple[Any, ...]) -> Array:
        """The sum of the JVPs along one tangent each."""
        parts = [
            spec.jvp(self.op, self.primals, tuple(t if i == at else None for i, t in enumerate(tangents)))[1]
            for at in range(len(tangents))
            if tangents[at] is not None
        ]
        return reduce(lambda a, b: _added((a,), (b,))[0], parts)

    def _curvature(self, t: Any, v: Any, g: Array) -> Iterator[str]:
        curvature = self.declaration.curvature
        calculus = TapeCalculus(self.op)
        change = curvature.tangent(calculus, self.primals, t, v)
        left = sum((_inner(g, term) for term in change), start=0)
        right = sum(
            _inner(direction, term)
            for which, direction in enumerate(t)
            if direction is not None
            for term in curvature.cotangent(calculus, self.primals, g, v, which)
        )
        if not _equal(left, right):
            yield f"the curvature's cotangent is not its tangent's transpose: {left} and {right}"
        yield from self._changed(t, v, g, left)

    def _changed(self, t: Any, v: Any, g: Array, declared: Any) -> Iterator[str]:
        ends = []
        for step in (flint.fmpq(1, 2**_STEP), flint.fmpq(-1, 2**_STEP)):
            moved = tuple(
                p if d is None else _added((p,), (_times(d, step),))[0] for p, d in zip(self.primals, v, strict=True)
            )
            ends.append(spec.jvp(self.op, moved, t)[1])
        jump = flint.fmpq(1, 2 ** (_STEP // 2))
        cells = [(abs(a - b), a, b) for a, b in zip(*(np.ravel(end) for end in ends), strict=True)]
        if self.declaration.curvature.flat:
            if any(not _equal(a, b) and not size > jump for size, a, b in cells):  # a jump is a joint of two pieces
                name = self.declaration.curvature.name
                yield f"the JVP changes with the point, but the second derivative is declared as {name!r}"
            return
        if any(size > jump for size, _, _ in cells):  # at a joint there is no second derivative
            return
        found = (_inner(g, ends[0]) - _inner(g, ends[1])) * 2 ** (_STEP - 1)
        size = 1 + sum((abs(x * y) for x, y in zip(g.ravel(), ends[0].ravel(), strict=True)), start=0)
        if not _near(found, declared, size):
            yield f"the declared second derivative is not the change of the JVP: {declared} and about {found}"


def trials(declaration: Declaration, count: int, seed: int = 0) -> Iterator[Trial]:
    """Small cases that the declaration draws, with exact numbers."""
    rng = random.Random(seed)
    for number in range(count):
        op, shapes = small(declaration, rng)
        yield _trial(op, shapes, [seed, number])


def _trial(op: Operator, shapes: tuple[Shape | None, ...], seed: list[int]) -> Trial:
    trial = Trial(op, shapes, np.random.default_rng(seed), balls=False)
    try:
        spec.forward(op, *trial.primals)
    except (DTypeError, AttributeError, TypeError) as error:  # it leaves the rationals
        if "'float'" in str(error):
            text = f"a float is not exact; take value.as_integer_ratio() of a setting ({error})"
            raise TapeError(op.name, f"{op!r} on {shapes}", text, "E7") from error
        return Trial(op, shapes, np.random.default_rng(seed), balls=True)
    return trial


def check(record: type[Operator], cases: int = 20, seed: int = 0) -> None:
    """Check the laws of a declared operator; a TapeError names the law that does not hold, and the case.

    >>> from halfulp import MaxPool
    >>> check(MaxPool)
    """
    before = flint.ctx.prec
    flint.ctx.prec = _BITS
    try:
        for trial in _told(record.__name__, "", trials(declaration_of(record), cases, seed)):
            case = f"{trial.op!r} on {trial.shapes}"
            for law in _told(trial.op.name, case, trial.broken()):
                raise TapeError(trial.op.name, case, law, "E7")
    finally:
        flint.ctx.prec = before


def _told(operator: str, case: str, steps: Iterator[T]) -> Iterator[T]:
    """The steps; an error of a user's own code as one that says where it comes from."""
    try:
        yield from steps
    except HalfulpError:
        raise
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} in {line.name}, line {line.lineno}: {error}"
        rule = "forward, jvp and vjp must run on exact numbers" if case else "draw must give an operator and its shapes"
        raise TapeError(operator, case or "drawing a case", f"{rule} ({what})", "E7") from error


def _added(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays added one by one; NumPy would give a bare scalar for arrays without axes."""
    return tuple(None if x is None else np.add(x, y, out=np.empty(x.shape, object)) for x, y in zip(a, b, strict=True))


def _times(a: Array, factor: Any) -> Array:
    out: Array = np.multiply(a, factor, out=np.empty(a.shape, object))
    return out


def _near(a: Any, b: Any, size: Any) -> bool:
    """Whether two numbers agree in 40 bits, measured by the size of the terms that they are sums of."""
    difference = abs(flint.arb(a) - flint.arb(b))
    return not bool(difference > flint.arb(size) * flint.arb(2) ** -_CLOSE)


def _inner(a: Array, b: Array) -> Any:
    return sum((x * y for x, y in zip(a.ravel(), np.asarray(b).ravel(), strict=True)), start=0)


def _inners(arrays: tuple[Any, ...], others: tuple[Any, ...]) -> Any:
    pairs = zip(arrays, others, strict=True)
    return sum((_inner(x, y) for x, y in pairs if x is not None and y is not None), start=0)


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and all(_equal(x, y) for x, y in zip(a.ravel(), b.ravel(), strict=True))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, flint.arb) or isinstance(b, flint.arb):
        return bool(flint.arb(a).overlaps(flint.arb(b)))
    return bool(a == b)
