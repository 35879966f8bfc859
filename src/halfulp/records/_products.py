"""What the records of operators without windows share: the checks of their shapes, and cases for the lab."""

from __future__ import annotations

from typing import Any

from halfulp.errors import ShapeError
from halfulp.records._base import Shape


def given_shapes(operator: str, shapes: tuple[Shape | None, ...], least: int, names: tuple[str, ...]) -> list[Any]:
    """One shape or None for every input; the first ``least`` must be there."""
    if not least <= len(shapes) <= len(names) or any(shape is None for shape in shapes[:least]):
        optional = f" and optionally {', '.join(names[least:])}" if names[least:] else ""
        raise ShapeError(operator, f"{len(shapes)} inputs", f"takes {' and '.join(names[:least])}{optional}", "I3")
    found: list[Any] = [None if shape is None else tuple(shape) for shape in shapes]
    return found + [None] * (len(names) - len(found))


def matrix_shape(operator: str, a: Shape, b: Shape) -> Shape:
    """The shape of a matrix product of the last two axes; a vector is a row left, a column right."""
    if not a or not b:
        raise ShapeError(operator, f"input shapes={a} and {b}", "both must have at least one axis", "M1")
    if a[-1] != b[max(0, len(b) - 2)]:
        text = f"the inner sizes must be equal, but they are {a[-1]} and {b[max(0, len(b) - 2)]}"
        raise ShapeError(operator, f"input shapes={a} and {b}", text, "M1")
    leading = broadcast(operator, a[:-2], b[:-2])
    return (*leading, *a[max(0, len(a) - 2) : -1], *(b[-1:] if len(b) > 1 else ()))


def broadcast(operator: str, a: Shape, b: Shape) -> Shape:
    """The leading axes of both, broadcast; sizes may be symbols of ``torch.export``, which NumPy would make numbers."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    start = len(longer) - len(shorter)
    shape = list(longer[:start])
    for n, m in zip(longer[start:], shorter, strict=True):
        if n != m and n != 1 and m != 1:
            text = "the leading axes must be equal, or 1 in one of the two"
            raise ShapeError(operator, f"leading axes {a} and {b}", text, "M2")
        shape.append(m if n == 1 else n)
    return tuple(shape)
