"""The two kinds of traced values: a :class:`Variable` records for a pullback, a :class:`Dual` carries a tangent.

Both have an array's operators. A function written with them, with :mod:`halfulp.ops` and with the functional forms runs
unchanged on arrays and under any nesting of the transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from halfulp import functional
from halfulp.autograd import rules
from halfulp.autograd.node import Node
from halfulp.autograd.operators import arithmetic, linear, reduction, shape
from halfulp.autograd.traced import Traced, new_level, strip
from halfulp.errors import TapeError

_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.sub,
    np.multiply: arithmetic.mul,
    np.true_divide: arithmetic.div,
    np.negative: arithmetic.neg,
    np.matmul: linear.matmul,
    np.absolute: functional.abs,
    np.exp: functional.exp,
    np.expm1: functional.expm1,
    np.log: functional.log,
    np.log1p: functional.log1p,
    np.reciprocal: functional.reciprocal,
    np.sqrt: functional.sqrt,
    np.tanh: functional.tanh,
    np.square: lambda x: arithmetic.mul(x, x),
}
_PREDICATES = frozenset(
    (
        np.equal,
        np.not_equal,
        np.less,
        np.less_equal,
        np.greater,
        np.greater_equal,
        np.isnan,
        np.isinf,
        np.isfinite,
        np.signbit,
        np.logical_not,
        np.logical_and,
        np.logical_or,
        np.logical_xor,
    )
)
"""Their values are truth values, which have no derivative: they look at the arrays alone, as comparisons do."""


class TracedArray(Traced):
    """A traced value with the operators and the common methods of an array."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if ufunc in _PREDICATES and method == "__call__" and not any(isinstance(o, Traced) for o in keywords.values()):
            return ufunc(*(strip(given) for given in inputs), **keywords)
        known = _UFUNCS.get(ufunc)
        if known is None or method != "__call__" or keywords:
            raise TapeError(
                f"numpy.{ufunc.__name__}",
                f"value={self!r}",
                "has no derivative here; use a function of halfulp.ops",
                "E6",
            )
        return known(*inputs)

    def __halfulp_jvp__(self, op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        return rules.jvp(op, primals, tangents)

    def __halfulp_vjp__(self, op: Any, primals: tuple[Any, ...]) -> tuple[Any, Any]:
        return rules.vjp(op, primals, (True,) * len(primals))

    def __add__(self, other: Any) -> Any:
        return arithmetic.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return arithmetic.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return arithmetic.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return arithmetic.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return arithmetic.mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return arithmetic.mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return arithmetic.div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return arithmetic.div(other, self)

    def __matmul__(self, other: Any) -> Any:
        return linear.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return linear.matmul(other, self)

    def __neg__(self) -> Any:
        return arithmetic.neg(self)

    def __pow__(self, exponent: int) -> Any:
        return arithmetic.power(self, exponent)

    def __getitem__(self, key: Any) -> Any:
        return shape.index(self, key)

    def __iter__(self) -> Iterator[Any]:
        return (shape.index(self, position) for position in range(len(self)))

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
        """The sum over some axes."""
        return reduction.sum_(self, axis, keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
        """The mean over some axes."""
        return reduction.mean(self, axis, keepdims)

    def reshape(self, *sizes: Any) -> Any:
        """The same elements in another shape."""
        return shape.reshape(self, sizes[0] if len(sizes) == 1 else sizes)

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return shape.transpose(self, order or None)

    @property
    def T(self) -> Any:
        """The axes reversed."""
        return shape.transpose(self)


class Recorder:
    """The nodes of one run of a function. It keeps no values: only what the pullbacks hold stays in memory."""

    def __init__(self) -> None:
        self.level = new_level()
        self.nodes: list[Node] = []

    def leaf(self, value: Any) -> Variable:
        """An input of the function."""
        return self._append("leaf", value, (), None)

    def record(self, op: Any, inputs: Sequence[Any]) -> Variable:
        """Apply an operator and note its pullback; inputs from outside are constants."""
        values: list[Any] = []
        parents: list[int] = []
        needs: list[bool] = []
        for given in inputs:
            own = isinstance(given, Variable) and given.recorder is self
            values.append(given.value if own else given)
            parents.append(given.position if own else -1)
            needs.append(own)
        output, pullback = rules.vjp(op, values, needs)
        return self._append(rules.name_of(op), output, tuple(parents), pullback)

    def _append(self, name: str, value: Any, parents: tuple[int, ...], pullback: Any) -> Variable:
        position = len(self.nodes)
        self.nodes.append(Node(position, name, None, parents, True, None, pullback, None))
        return Variable(self, position, value)


class Variable(TracedArray):
    """A value that a :class:`Recorder` can pull cotangents back from."""

    __slots__ = ("position", "recorder")

    def __init__(self, recorder: Recorder, position: int, value: Any) -> None:
        self.level = recorder.level
        self.recorder = recorder
        self.position = position
        self.value = value

    def process(self, op: Any, inputs: tuple[Any, ...]) -> Any:
        return self.recorder.record(op, inputs)


class Dual(TracedArray):
    """A value with its tangent, which operators push forward; a tangent of None is zero."""

    __slots__ = ("tangent",)

    def __init__(self, level: int, value: Any, tangent: Any) -> None:
        self.level = level
        self.value = value
        self.tangent = tangent

    def process(self, op: Any, inputs: tuple[Any, ...]) -> Any:
        level = self.level
        own = [isinstance(given, Dual) and given.level == level for given in inputs]
        primals = [given.value if mine else given for given, mine in zip(inputs, own, strict=True)]
        tangents = [given.tangent if mine else None for given, mine in zip(inputs, own, strict=True)]
        output, tangent = rules.jvp(op, primals, tangents)
        return Dual(level, output, tangent)
