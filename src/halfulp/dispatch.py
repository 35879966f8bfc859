"""Which interpreter evaluates an operator: kernels for float and integer arrays, the specification for objects.

A value with ``__halfulp_apply__``, ``__halfulp_jvp__`` and ``__halfulp_vjp__`` (a traced value of the tape) decides for
itself. For Dask arrays ``halfulp.dask`` decides, which is imported when the first one comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp import kernels
from halfulp.errors import DTypeError
from halfulp.numbers import refuse_mask
from halfulp.records import Operator, Pullback, _inputs, set_interpreter


class _Pullback:
    """A pullback of the kernels that refuses masked cotangents; ``nbytes`` and the like are the kernels' own."""

    __slots__ = ("_name", "_pull")

    def __init__(self, name: str, pull: Pullback) -> None:
        self._name, self._pull = name, pull

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        if type(cotangent) is not np.ndarray:
            refuse_mask(self._name, "cotangent", cotangent)
        return self._pull(cotangent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pull, name)


class Dispatch:
    """The interpreter behind ``op(x)``, ``op.jvp`` and ``op.vjp``."""

    def forward(self, op: Operator, inputs: tuple[Any, ...]) -> Any:
        """The operator's value."""
        if len(inputs) == 1 and type(inputs[0]) is np.ndarray and inputs[0].dtype.kind in "fiubV":
            # The common case, first and alone: everything between a user and a small pooling costs more than it does.
            entry = kernels.entries.get(type(op))
            if entry is not None:
                return entry.forward(op, inputs[0])
        traced = _traced(inputs)
        if traced is not None:
            return traced.__halfulp_apply__(op, inputs)
        if _for_kernels(op, inputs):
            return kernels.forward(op, inputs)
        return _spec().forward(op, *inputs)

    def forward_into(self, op: Operator, inputs: tuple[Any, ...], out: Any) -> Any:
        """The operator's value in ``out``, which kernels fill in place where they can."""
        _inputs.as_output(op, out)
        if _traced(inputs) is not None:
            raise DTypeError(op.name, "out for a traced input", "a traced value has no memory to write to", "I6")
        if not _for_kernels(op, inputs):
            return _inputs.filled(op, out, _spec().forward(op, *inputs))
        arrays = tuple(value if value is None else _inputs.read(op, "input", value) for value in inputs)
        apart = not any(array is not None and np.may_share_memory(out, array) for array in arrays)
        return _inputs.filled(op, out, kernels.forward(op, arrays, out if apart else None))

    def jvp(self, op: Operator, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        """The value and its derivative along the tangents."""
        traced = _traced((*primals, *tangents))
        if traced is not None:
            return traced.__halfulp_jvp__(op, primals, tangents)  # type: ignore[no-any-return]
        for tangent in tangents:
            if type(tangent) is not np.ndarray:
                refuse_mask(op.name, "tangent", tangent)
        if _for_kernels(op, primals):
            return kernels.jvp(op, primals, tangents)
        return _spec().jvp(op, primals, tangents)  # type: ignore[no-any-return]

    def vjp(self, op: Operator, primals: tuple[Any, ...]) -> tuple[Any, Pullback]:
        """The value and a pullback, which keeps its own copy of what it needs."""
        traced = _traced(primals)
        if traced is not None:
            return traced.__halfulp_vjp__(op, primals)  # type: ignore[no-any-return]
        if _for_kernels(op, primals):
            output, pullback_of_kernels = kernels.vjp(op, primals)
            return output, _Pullback(op.name, pullback_of_kernels)
        arrays = tuple(None if a is None else np.array(a) for a in _inputs.as_arrays(op, primals))
        output = _spec().forward(op, *arrays)

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            return _spec().vjp(op, arrays, cotangent)  # type: ignore[no-any-return]

        return output, pullback

    def picture(self, op: Operator) -> str | None:
        """An SVG for notebooks; drawing is imported with the first one."""
        from halfulp.drawing import example_svg

        return example_svg(op)


def wanted_vjp(op: Operator, primals: tuple[Any, ...], wanted: tuple[bool, ...]) -> tuple[Any, Pullback]:
    """The value of arrays of floats, and a pullback that gives None for the cotangents that are not wanted.

    The package's kernels then do no work for them. An operator of another package may have kernels without that choice,
    or none.
    """
    if kernels.supports(op) and type(op).__module__.startswith("halfulp."):
        return kernels.vjp(op, primals, wanted)
    output, pullback = op.vjp(*primals)
    return output, lambda g: tuple(c if flag else None for c, flag in zip(pullback(g), wanted, strict=False))


def indices(op: Any, x: Any, out: Any = None, constants: tuple[Any, ...] = ()) -> tuple[Any, Any]:
    """The value of a hard max, in ``out`` if that is given, and the flat index of the cell that gives it."""
    if out is not None:
        value, where = indices(op, x, None, constants)
        return _inputs.filled(op, _inputs.as_output(op, out), value), where
    if type(x) is not np.ndarray and (lazy := _traced((x, *constants))) is not None and hasattr(lazy, "indices"):
        return lazy.indices(op, (x, *constants), indices)  # type: ignore[no-any-return]
    if _for_kernels(op, (x,)):
        return kernels.forward_with_indices(op, x, *constants)
    return _spec().forward(op, x, *constants), _spec().indices(op, x, *constants)


def _spec() -> Any:
    """The specification, imported with the first exact numbers."""
    from halfulp import spec

    return spec


def _traced(values: tuple[Any, ...]) -> Any:
    """The first value that says itself how operators act on it, if there is one."""
    for value in values:
        if type(value) is np.ndarray or value is None:
            continue
        if hasattr(value, "__halfulp_apply__"):
            return value
        if type(value).__module__.startswith("dask.array."):
            from halfulp.dask import Chunked

            return Chunked
    return None


def _for_kernels(op: Operator, inputs: tuple[Any, ...]) -> bool:
    """Whether these inputs are arrays of machine numbers, for an operator that has kernels."""
    if not inputs or not kernels.supports(op):
        return False
    return not _inputs.read(op, "input", inputs[0]).dtype.hasobject


set_interpreter(Dispatch())
