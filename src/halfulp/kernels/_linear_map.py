"""Operators that are linear in their one input: a map of arrays and its transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.kernels._registry import register
from halfulp.records import Operator, Pullback, _inputs

Array = np.ndarray[Any, Any]


def register_linear(
    record: type[Operator],
    apply: Callable[[Any, Array], Array],
    transpose: Callable[[Any, Array, tuple[int, ...]], Array],
) -> None:
    """Register a record by ``apply(op, x)`` and ``transpose(op, cotangent, shape of x)``."""

    def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
        (x,) = _inputs.as_arrays(op, inputs)
        assert x is not None
        return apply(op, x)

    def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        (x,) = _inputs.as_arrays(op, primals)
        assert x is not None
        _inputs.differentiable(op, x)
        (t,) = _inputs.as_tangents(op, (x,), tangents)
        assert t is not None
        return apply(op, x), apply(op, t)

    def vjp(op: Any, *primals: Any, wanted: Any = None) -> tuple[Any, Pullback]:
        (x,) = _inputs.as_arrays(op, primals)
        assert x is not None
        _inputs.differentiable(op, x)
        shape, dtype = x.shape, x.dtype
        output = apply(op, x)
        result = output.shape

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            return (transpose(op, _inputs.as_cotangent(op, cotangent, result, dtype), shape),)

        return output, pullback

    register(record, forward=forward, jvp=jvp, vjp=vjp)
