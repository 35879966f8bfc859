"""What the three hard max operators share: they differ only in how their windows are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halfulp import _core
from halfulp.kernels._registry import register
from halfulp.records import Operator, Pullback, _inputs


def register_hard_max(record: type[Operator], compiled: Callable[[Any], _core.MaxOperator]) -> None:
    """Register a record whose ``compiled(op)`` is a MaxOperator of the core, which does all checks but the counting."""

    def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
        if len(inputs) != 1:
            _inputs.as_arrays(op, inputs)
        return compiled(op).forward(inputs[0]) if out is None else compiled(op).forward_into(inputs[0], out)

    def indices(op: Any, x: Any) -> tuple[Any, Any]:
        return compiled(op).forward_with_indices(x)

    def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        if len(primals) != 1 or len(tangents) != 1:
            _inputs.as_tangents(op, _inputs.as_arrays(op, primals), tangents)
        return compiled(op).jvp(primals[0], tangents[0])

    def vjp(op: Any, *primals: Any) -> tuple[Any, Pullback]:
        if len(primals) != 1:
            _inputs.as_arrays(op, primals)
        return compiled(op).vjp(primals[0])

    register(record, forward=forward, jvp=jvp, vjp=vjp, indices=indices)
