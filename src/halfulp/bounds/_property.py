"""Properties of outputs: which outputs are unsafe, as alternatives of linear inequalities."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from halfulp.bounds._maps import Array
from halfulp.errors import ModelError


class Alternative(NamedTuple):
    """The outputs y (flattened) with rows · y <= bound in every line; rows and bounds are Fractions."""

    rows: tuple[tuple[Fraction, ...], ...]
    bound: tuple[Fraction, ...]


class Property:
    """A set of unsafe outputs; the property holds on a box if no input of the box has an unsafe output.

    ``unsafe`` is a sequence of alternatives ``(rows, bound)``. An output is unsafe if all inequalities
    ``rows @ y <= bound`` of one alternative hold. Numbers are taken exactly.

    >>> import halfulp.bounds as hb
    >>> hb.Property([([[1, -1]], [0])])  # unsafe: y0 <= y1
    Property(2 outputs; unsafe: 1 alternatives)
    """

    def __init__(self, unsafe: Sequence[tuple[Any, Any]]) -> None:
        self.unsafe = tuple(_alternative(rows, bound) for rows, bound in unsafe)
        widths = {len(row) for part in self.unsafe for row in part.rows}
        if len(widths) != 1:
            raise ModelError("Property", f"rows of lengths {sorted(widths)}", "must all have one length", "V6")
        self.outputs = widths.pop()

    def lines(self) -> tuple[Array, Array, Array]:
        """(rows as float64, bounds rounded up, alternative of each); a property is refuted where rows · y > bound."""
        rows, bounds, owner = [], [], []
        for number, part in enumerate(self.unsafe):
            for row, bound in zip(part.rows, part.bound, strict=True):
                floats = [float(v) for v in row]
                if any(Fraction(f) != v for f, v in zip(floats, row, strict=True)):
                    raise ModelError("Property", f"row {[str(v) for v in row]}", "must be float64 numbers", "V6")
                rows.append(floats)
                bounds.append(rounded_up(bound))
                owner.append(number)
        return np.array(rows), np.array(bounds), np.array(owner)

    def is_unsafe(self, y: Any) -> bool:
        """Whether an output, of floats or exact numbers, is unsafe; decided exactly."""
        values = [_fraction(v) for v in np.asarray(y).reshape(-1).tolist()]
        return any(
            all(
                sum((a * v for a, v in zip(row, values, strict=True) if a), Fraction(0)) <= bound
                for row, bound in zip(part.rows, part.bound, strict=True)
            )
            for part in self.unsafe
        )

    def __repr__(self) -> str:
        return f"Property({self.outputs} outputs; unsafe: {len(self.unsafe)} alternatives)"


def robust(label: int, classes: int) -> Property:
    """The property that ``label`` is the only largest of ``classes`` outputs.

    >>> robust(2, 10)
    Property(10 outputs; unsafe: 9 alternatives)
    """
    if not 0 <= label < classes:
        raise ModelError("robust", f"label={label}", f"must be from 0 to {classes - 1}", "V6")
    parts = []
    for other in range(classes):
        if other != label:
            row = [0] * classes
            row[label], row[other] = 1, -1
            parts.append(([row], [0]))
    return Property(parts)


def rounded_up(value: Fraction) -> float:
    """The least float64 that is not below a rational."""
    near = float(value)
    return near if Fraction(near) >= value else float(np.nextafter(near, np.inf))


def _alternative(rows: Any, bound: Any) -> Alternative:
    lines = tuple(tuple(_fraction(v) for v in row) for row in rows)
    limits = tuple(_fraction(v) for v in bound)
    if not lines or len(lines) != len(limits):
        raise ModelError(
            "Property", f"{len(lines)} rows, {len(limits)} bounds", "must be equally many, at least one", "V6"
        )
    return Alternative(lines, limits)


def _fraction(value: Any) -> Fraction:
    if hasattr(value, "p") and hasattr(value, "q"):
        return Fraction(int(value.p), int(value.q))
    try:
        return Fraction(value.item() if isinstance(value, np.generic) else value)
    except (TypeError, ValueError, OverflowError):
        raise ModelError("Property", f"number {value!r}", "must be a finite real number", "V6") from None
