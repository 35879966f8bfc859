"""The derivative rules of any operator on arrays and traced values: one function for each direction.

The tape's own operators carry formulas; records go to their interpreter for arrays and to
:mod:`halfulp.autograd.operators.curvature` for traced values; other operators have their own ``jvp`` and ``vjp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfulp.autograd.native import native_vjp
from halfulp.autograd.operators._base import PullbackRule, TapeOperator
from halfulp.autograd.operators.curvature import traced_jvp, traced_vjp
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import is_traced
from halfulp.errors import TapeError
from halfulp.records import Operator


def vjp(op: Any, primals: Sequence[Any], needs: Sequence[bool]) -> tuple[Any, PullbackRule]:
    """The value and a pullback to the inputs that are needed."""
    if isinstance(op, TapeOperator):
        output = op(*primals)
        return output, op.pullback(primals, output, needs)
    if isinstance(op, Operator):
        return traced_vjp(op, primals, needs) if is_traced(*primals) else native_vjp(op, primals, needs)
    check_triple(op)
    return op.vjp(*primals)  # type: ignore[no-any-return]


def jvp(op: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value and its tangent; a tangent of None is zero."""
    if all(t is None for t in tangents):
        return op(*primals), None
    if isinstance(op, TapeOperator):
        return op.jvp(primals, tangents)
    if isinstance(op, Operator):
        if is_traced(*primals, *tangents):
            return traced_jvp(op, primals, tangents)
        return op.jvp(tuple(primals), tuple(tangents))
    check_triple(op)
    filled = (full(x.shape, x, 0) if t is None and x is not None else t for x, t in zip(primals, tangents, strict=True))
    return op.jvp(tuple(primals), tuple(filled))  # type: ignore[no-any-return]


_whole: set[type] = set()
"""Types that are known to have the triple, so that a node of theirs costs no second look."""


def check_triple(op: Any) -> None:
    """An operator is callable and has jvp and vjp, or it is none."""
    if type(op) in _whole:
        return
    found = {"__call__": callable(op), "jvp": hasattr(op, "jvp"), "vjp": hasattr(op, "vjp")}
    missing = [name for name, there in found.items() if not there]
    if missing:
        raise TapeError(
            "tape.apply",
            f"operator={op!r}",
            f"lacks {', '.join(missing)}; an operator needs forward, jvp and vjp",
            "E6",
        )
    if hasattr(type(op), "jvp") and hasattr(type(op), "vjp"):
        _whole.add(type(op))


def name_of(op: Any) -> str:
    """The default name of a node of this operator."""
    name = getattr(op, "name", None)
    return name if isinstance(name, str) else type(op).__name__
