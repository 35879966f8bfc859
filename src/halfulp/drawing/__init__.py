"""Pictures of one operator on one small input: as text, SVG and PNG, all from one scene.

``halfulp show`` draws what its options describe; a notebook shows the example of :func:`example_svg` for an operator.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from halfulp.records import Operator, is_declared

__all__ = ["example_svg"]


def example_svg(op: Operator) -> str | None:
    """An operator of one or two axes on a small input, as SVG; None if there is no picture of it.

    >>> from halfulp import MaxPool
    >>> example_svg(MaxPool((2, 2), stride=1))[:4]
    '<svg'
    >>> print(example_svg(MaxPool((2, 2, 2))))
    None
    """
    import numpy as np

    from halfulp.drawing.canvas import lay_out
    from halfulp.drawing.scene import make_scene
    from halfulp.drawing.svg import to_svg
    from halfulp.errors import HalfulpError
    from halfulp.records import declaration_of

    if not (is_declared(op) and declaration_of(op).shown and _rank(op) in (1, 2)):
        return None
    drawn, weight = op, None
    if "weight" in declaration_of(op).inputs:
        drawn = replace(op, **{f.name: 1 for f in fields(op) if f.name == "groups"})
        weight = np.array([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
        weight = weight if _rank(op) == 2 else weight[1]
    numbers = np.random.default_rng(0)
    for side in (5, 8, 12, 24, 48):  # the smallest that the window fits into
        x = numbers.integers(0, 6, (side,) * _rank(op)).astype(float)
        try:
            return to_svg(lay_out(make_scene(drawn, x, weight)), repr(op))
        except HalfulpError:
            continue
    return None


def _rank(op: Any) -> int:
    """How many spatial axes an operator has; 0 if it does not say."""
    return int(getattr(op, "ndim", 0))
