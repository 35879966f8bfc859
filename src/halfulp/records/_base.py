"""The base of all operator records, and the seam through which their methods reach an interpreter.

A record is data: a frozen, hashable dataclass that has checked its own arguments. How it is evaluated (by the kernels,
by the specification) is decided in a layer above, which installs itself here with :func:`set_interpreter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halfulp.errors import ShapeError

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
PerAxis: TypeAlias = Any
"""A field given as one integer or one per spatial axis; a built record holds a tuple of ints."""
PaddingLike: TypeAlias = Any
"""Padding as given: an integer, one integer or pair per axis, or a mode; a record holds a `geometry.Padding`."""
Pullback: TypeAlias = Callable[[Any], tuple[Any, ...]]


class Interpreter(Protocol):
    """What evaluates records: forward, JVP and VJP, together or not at all."""

    def forward(self, op: Operator, inputs: tuple[Any, ...]) -> Any: ...

    def forward_into(self, op: Operator, inputs: tuple[Any, ...], out: Any) -> Any: ...

    def jvp(self, op: Operator, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]: ...

    def vjp(self, op: Operator, primals: tuple[Any, ...]) -> tuple[Any, Pullback]: ...

    def picture(self, op: Operator) -> str | None: ...


class _NotInstalled:
    """Stands in until a layer above installs an interpreter, which ``import halfulp`` does."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no interpreter is installed: import halfulp")


_interpreter: Any = _NotInstalled()


def set_interpreter(interpreter: Interpreter) -> None:
    """Make ``interpreter`` the one that evaluates every record."""
    global _interpreter
    _interpreter = interpreter


_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, repr=False, eq=False)
class Operator:
    """An operator as a value: it can be compared, hashed, printed, and applied.

    >>> import numpy as np
    >>> from halfulp import MaxPool
    >>> op = MaxPool((2, 2))
    >>> op.output_shape((1, 4, 6))
    (1, 2, 3)
    >>> op(np.arange(16.0).reshape(4, 4))
    array([[ 5.,  7.],
           [13., 15.]])
    """

    arity: ClassVar[int] = 1
    """How many inputs the operator takes; a convolution's bias may be None or left out."""
    required: ClassVar[int | None] = None
    """How many of the inputs may not be None, where that is not said by the arity of a pooling or convolution."""
    elementwise: ClassVar[bool] = False
    """Whether the operator is a function of single elements, of arrays of any shape."""
    input_names: ClassVar[tuple[str, ...]] = ("input", "weight", "bias")
    constants: ClassVar[tuple[str, ...]] = ()
    """The inputs, all of them at the end, that have no derivative and an element type of their own."""
    base_name: ClassVar[str]
    """The functional name without a rank; by default from the class's name: ``max_pool`` of ``MaxPool``."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "base_name" not in vars(cls) and not cls.__name__.endswith("Operator"):  # those are bases
            cls.base_name = _WORDS.sub("_", cls.__name__).lower()

    @property
    def name(self) -> str:
        """The operator's functional name, with its rank if it is 1, 2 or 3."""
        rank = getattr(self, "ndim", None)
        return self.base_name if rank is None else ranked(self.base_name, rank)

    def output_shape(self, *input_shapes: Shape) -> Shape:
        """The output's shape for inputs of these shapes; a ShapeError if they do not fit."""
        raise AssertionError("every record knows its output shape")

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """The operator's value; in ``out``, an array like it, if one is given.

        ``out`` is written in place if it lies in memory as a new output would: dense, in the order of the input's axes.
        Any other array gets a copy, also one that shares memory with an input.

        >>> import numpy as np
        >>> from halfulp import MaxPool
        >>> y = np.empty((2, 2))
        >>> MaxPool((2, 2))(np.arange(16.0).reshape(4, 4), out=y) is y
        True
        >>> y
        array([[ 5.,  7.],
               [13., 15.]])
        """
        if out is None:
            return _interpreter.forward(self, inputs)
        return _interpreter.forward_into(self, inputs, out)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """The value and its derivative in the direction ``tangents``, as ``jax.jvp`` gives them."""
        result: tuple[Any, Any] = _interpreter.jvp(self, tuple(primals), tuple(tangents))
        return result

    def vjp(self, *primals: Any) -> tuple[Any, Pullback]:
        """The value and a pullback from an output cotangent to a tuple of input cotangents, as ``jax.vjp`` gives them.

        The pullback may be called any number of times.
        """
        result: tuple[Any, Pullback] = _interpreter.vjp(self, primals)
        return result

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self._values == other._values

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _values(self) -> tuple[Any, ...]:
        """The fields' values, remembered: kernels look their plans up by the record on every call."""
        return tuple(self.__getstate__().values())

    @cached_property
    def _hash(self) -> int:
        return hash(self._values)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone, not what is remembered of them: a hash means nothing in another process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        shown = []
        for position, field in enumerate(fields(self)):
            value = getattr(self, field.name)
            if self._is_default(field.name, value, field.default):
                continue
            text = _compact(field.name, value)
            shown.append(text if position == 0 else f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_svg_(self) -> str | None:
        """The picture that a notebook shows: the operator on a small input. None means that there is only the text."""
        picture: str | None = _interpreter.picture(self)
        return picture

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        if default is MISSING:
            return False
        if isinstance(value, tuple) and isinstance(default, int):
            return all(v == default or v == (default, default) for v in value)
        return bool(value == default)


def _compact(name: str, value: Any) -> str:
    """A field as its user would write it: symmetric padding as one number, pairs only where they differ."""
    if name == "padding" and isinstance(value, tuple) and all(before == after for before, after in value):
        sizes = {before for before, _ in value}
        return str(sizes.pop()) if len(sizes) == 1 else repr(tuple(before for before, _ in value))
    if name in ("stride", "dilation", "output_padding") and isinstance(value, tuple) and len(set(value)) == 1:
        return repr(value[0])
    return repr(value)


def ranked(name: str, ndim: int) -> str:
    """``max_pool`` with rank 2 is ``max_pool2d``; ranks without a suffixed form keep the plain name."""
    return f"{name}{ndim}d" if 1 <= ndim <= 3 else name


def split_spatial(operator: str, input_shapes: tuple[Shape, ...], ndim: int) -> tuple[Shape, Shape]:
    """(leading axes, spatial axes) of the shape of the one input."""
    if len(input_shapes) != 1:
        raise ShapeError(operator, f"{len(input_shapes)} inputs", "takes one input", "I3")
    shape = tuple(input_shapes[0])
    if len(shape) < ndim:
        raise ShapeError(
            operator, f"input shape={shape}", f"the last {ndim} axes are spatial, but there are {len(shape)}", "W7"
        )
    return shape[: len(shape) - ndim], shape[len(shape) - ndim :]


def is_integer(value: object) -> bool:
    """An integer that is not a truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
