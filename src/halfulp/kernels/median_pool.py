"""Median and mode pooling in the compiled core: windows are sorted many at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from halfulp import _core
from halfulp.kernels._registry import register
from halfulp.kernels._window import window_arguments
from halfulp.records import MedianPool, ModePool, Pullback, _inputs


@lru_cache(maxsize=1024)
def compiled(op: Any) -> _core.OrderOperator:
    """The core's object for a record; it holds the windows of the shapes that it has met lately."""
    mode, ignore = isinstance(op, ModePool), op.nan == "ignore"
    return _core.order_pool(**window_arguments(op), mode=mode, ignore_nan=ignore)


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The median or the mode of every window."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    _inputs.refuse_nan(op, x)
    return compiled(op).forward(x, out)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and its derivative along the tangent."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    _inputs.differentiable(op, x)
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    _inputs.refuse_nan(op, x)
    return compiled(op).jvp(x, t)


def vjp(op: Any, *primals: Any) -> tuple[Any, Pullback]:
    """The value, and a pullback that keeps which cells give it."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    _inputs.differentiable(op, x)
    _inputs.refuse_nan(op, x)
    output, transpose = compiled(op).vjp(x)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return (transpose(cotangent),)

    return output, pullback


register(MedianPool, forward=forward, jvp=jvp, vjp=vjp)
register(ModePool, forward=forward, jvp=jvp, vjp=vjp)
