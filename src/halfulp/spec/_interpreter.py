"""Evaluates records by the specification."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp import records
from halfulp.errors import DTypeError, ShapeError
from halfulp.numbers import exact, flint
from halfulp.records import Operator, Shape, _inputs
from halfulp.records._missing import output_dtype
from halfulp.spec import (
    _lp_planes,
    _smooth_planes,
    _surd_floats,
    cross_entropy,
    elementwise,
    fractional_max_pool,
    softmax,
)
from halfulp.spec._floats import over_floats, rounded_into
from halfulp.spec._pooling import Pooling, planes
from halfulp.spec._registry import RULES
from halfulp.spec._scalars import unify

Array = np.ndarray[Any, Any]


_LP = (records.LpPool, records.GlobalLpPool)


def forward(op: Operator, *inputs: Any, progress: bool = False) -> Array:
    """The value of an operator, exactly; for float arrays, the exact value rounded once.

    >>> from fractions import Fraction
    >>> from halfulp import AvgPool, spec
    >>> spec.forward(AvgPool((3,)), np.array([Fraction(1), Fraction(2), Fraction(2)]))
    array([Fraction(5, 3)], dtype=object)
    """
    arrays, fixed = _split(op, _checked(op, inputs))
    rule = RULES[type(op)]
    if arrays[0].dtype.kind == "O":
        value = rule.forward(op, (*unify(op.name, arrays), *fixed), progress=progress)
        return value if getattr(op, "dtype", None) in (None, "same") else _as_dtype(op, value)
    if isinstance(op, records.ElementwiseOperator):
        return elementwise.float_forward(op, arrays[0])
    if isinstance(op, records.SmoothMaxPool):
        return _smooth_planes.forward(op, arrays[0], progress)
    if isinstance(op, _LP) and _lp_planes.applies(op):
        return _lp_planes.forward(rule, op, arrays[0], progress)  # type: ignore[arg-type]
    if isinstance(op, records.SoftmaxOperator):
        return softmax.over_floats(op, "forward", arrays[0])
    if isinstance(op, records.CrossEntropy):
        return cross_entropy.over_floats(op, "forward", (*arrays, *fixed))
    if getattr(rule, "surds", False):
        everything = (*arrays, *fixed)
        (output,) = _surd_floats.over_floats(lambda *xs: (rule.forward(op, xs),), arrays[0].dtype, everything)
        return output  # type: ignore[no-any-return]
    (output,) = over_floats(op, lambda *xs: (rule.forward(op, (*xs, *fixed), progress=progress),), arrays)
    assert output is not None
    return output


def _as_dtype(op: Any, values: Array) -> Array:
    """Exact numbers as the element type that the operator says."""
    dtype = output_dtype(op, values.dtype)
    if dtype.kind in "iub" and not all(isinstance(v, (Fraction, flint.fmpq)) for v in values.ravel()):
        raise DTypeError(op.name, f"dtype={op.dtype!r}", "only rationals are rounded to integers", "N1")
    return rounded_into(op, exact(values) if dtype.kind in "iub" else values, dtype)


def indices(op: Any, x: Any, *constants: Any) -> Array:
    """The flat index, within its plane, of the cell that gives each value of a hard max; -1 where there is none.

    If balls overlap, it is the index of one possible winner.

    >>> from halfulp import MaxPool, spec
    >>> spec.indices(MaxPool((2,), stride=1), np.array([1.0, 3.0, 3.0]))
    array([1, 1])
    """
    array, *fixed = _checked(op, (x, *constants))
    rule = RULES[type(op)]
    if isinstance(op, records.FractionalMaxPool):
        cells = array.astype(object) if array.dtype.kind in "iub" else array
        return _indices(fractional_max_pool.indices(op, cells, fixed[0]), op.output_shape(array.shape, fixed[0].shape))
    if not isinstance(rule, Pooling) or rule.index is None:
        raise TypeError(f"{op.name}: only a hard max has indices")
    if array.dtype.kind in "iub":
        array = array.astype(object)  # Python's integers do not overflow
    walk = rule.walk(op, array.shape)
    found = [
        rule.index(op, [plane[i] for i in window.cells], window.cells)
        for plane in planes(array, rule.spatial(op, array.shape))
        for window in walk
    ]
    return _indices(found, op.output_shape(array.shape))


def _indices(found: list[int], shape: Shape) -> Array:
    return np.array(found, dtype=np.int64).reshape(shape)


def jvp(op: Operator, primals: Sequence[Any], tangents: Sequence[Any], progress: bool = False) -> tuple[Array, Array]:
    """The value and its derivative along the tangents.

    >>> from fractions import Fraction
    >>> from halfulp import MaxPool, spec
    >>> x, t = np.array([Fraction(1), Fraction(3)]), np.array([Fraction(10), Fraction(20)])
    >>> spec.jvp(MaxPool((2,)), (x,), (t,))
    (array([Fraction(3, 1)], dtype=object), array([Fraction(20, 1)], dtype=object))
    """
    checked = _checked(op, primals)
    _inputs.differentiable(op, checked[0])
    arrays, fixed = _split(op, checked)
    directions = _inputs.as_tangents(op, checked, tangents)[: len(arrays)]
    output = forward(op, *checked, progress=progress)
    rule = RULES[type(op)]
    count = len(arrays)
    if arrays[0].dtype.kind == "O":
        together = unify(op.name, (*arrays, *directions))
        return output, rule.jvp(op, (*together[:count], *fixed), together[count:], progress=progress)
    if isinstance(op, records.ElementwiseOperator):
        assert directions[0] is not None
        return output, elementwise.float_product(op, arrays[0], directions[0])
    if isinstance(op, records.SmoothMaxPool):
        assert directions[0] is not None
        return output, _smooth_planes.jvp(op, arrays[0], directions[0], progress)
    if isinstance(op, _LP) and _lp_planes.applies(op):
        assert directions[0] is not None
        return output, _lp_planes.jvp(rule, op, arrays[0], directions[0], progress)  # type: ignore[arg-type]
    if isinstance(op, records.SoftmaxOperator):
        assert directions[0] is not None
        return output, softmax.over_floats(op, "jvp", arrays[0], directions[0])
    if isinstance(op, records.CrossEntropy):
        return output, cross_entropy.over_floats(op, "jvp", (*arrays, *fixed), directions[0])
    if getattr(rule, "surds", False):
        total = len(checked)
        (tangent,) = _surd_floats.over_floats(
            lambda *xs: (rule.jvp(op, xs[:total], xs[total:]),), arrays[0].dtype, (*checked, *directions)
        )
        return output, tangent
    (tangent,) = over_floats(
        op, lambda *xs: (rule.jvp(op, (*xs[:count], *fixed), xs[count:], progress=progress),), (*arrays, *directions)
    )
    assert tangent is not None
    return output, tangent


def vjp(op: Operator, primals: Sequence[Any], cotangent: Any, progress: bool = False) -> tuple[Array | None, ...]:
    """The cotangents of the inputs: the transpose of the derivative, applied to a cotangent of the output.

    >>> from fractions import Fraction
    >>> from halfulp import AvgPool, spec
    >>> spec.vjp(AvgPool((2,)), (np.array([Fraction(1), Fraction(3)]),), np.array([Fraction(1)]))
    (array([Fraction(1, 2), Fraction(1, 2)], dtype=object),)
    """
    checked = _checked(op, primals)
    _inputs.differentiable(op, checked[0])
    arrays, fixed = _split(op, checked)
    shape = op.output_shape(*(None if a is None else a.shape for a in checked))  # type: ignore[arg-type]
    g = _inputs.as_cotangent(op, cotangent, shape, arrays[0].dtype)
    rule = RULES[type(op)]
    if arrays[0].dtype.kind == "O":
        *xs, g = unify(op.name, (*arrays, g))  # type: ignore[assignment]
        return (*rule.vjp(op, (*xs, *fixed), g, progress=progress), *(None for _ in fixed))
    if isinstance(op, records.ElementwiseOperator):
        return (elementwise.float_product(op, arrays[0], g),)
    if isinstance(op, records.SmoothMaxPool):
        return (_smooth_planes.vjp(op, arrays[0], g, progress),)
    if isinstance(op, _LP) and _lp_planes.applies(op):
        return (_lp_planes.vjp(rule, op, arrays[0], g, progress),)  # type: ignore[arg-type]
    if isinstance(op, records.SoftmaxOperator):
        return (softmax.over_floats(op, "vjp", arrays[0], g),)
    if isinstance(op, records.CrossEntropy):
        return cross_entropy.over_floats(op, "vjp", (*arrays, *fixed), g), None, None
    if getattr(rule, "surds", False):
        parts = _surd_floats.over_floats(lambda *xs: rule.vjp(op, xs[:-1], xs[-1]), arrays[0].dtype, (*checked, g))
        return (*parts, *(None for _ in fixed))
    parts = over_floats(op, lambda *xs: rule.vjp(op, (*xs[:-1], *fixed), xs[-1], progress=progress), (*arrays, g))
    return (*parts, *(None for _ in fixed))


def _split(op: Operator, arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(the inputs that are computed with, the constant ones)."""
    count = len(arrays) - len(op.constants)
    return arrays[:count], arrays[count:]


def _checked(op: Operator, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The inputs as arrays that the operator takes, with shapes that fit, and free of NaN if it refuses NaN."""
    if type(op) not in RULES:
        raise TypeError(f"{type(op).__name__} has no specification; register one with halfulp.spec.register")
    arrays = _inputs.as_arrays(op, inputs)
    shapes = [None if a is None else a.shape for a in arrays]
    _check_memory(op, op.output_shape(*shapes), *shapes)  # type: ignore[arg-type]
    if arrays[0] is not None:
        _inputs.refuse_nan(op, arrays[0])
    return arrays


_BYTES_PER_NUMBER = 64
"""What an exact number takes at least."""


def _check_memory(op: Operator, output: Shape, *inputs: Shape | None) -> None:
    """Refuse what could not be held, at once; an axis is walked even if the array is empty along another."""
    for what, shape in (("output", output), *(("input", shape) for shape in inputs if shape is not None)):
        if max(math.prod(shape), *shape, 0) > _physical_memory() // _BYTES_PER_NUMBER:
            raise ShapeError(
                op.name, f"{what} shape={tuple(shape)}", "the exact numbers must fit in this machine's memory", "I7"
            )


def _physical_memory() -> int:
    """In bytes; without limit where it is not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize
