"""Traced values, which replace arrays while a function is transformed.

A traced value wraps an array, or a traced value of an enclosing transform; ``level`` says which transform it belongs
to, and the newest transform is the innermost. :func:`apply` is the one place where operators meet traced values.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NoReturn

import numpy as np

from halfulp.errors import TapeError

_levels = count()


def new_level() -> int:
    """The level of a transform that starts now: higher than that of every transform around it."""
    return next(_levels)


class Traced:
    """A value under a transform, which records the operations on it. It has an array's shape, arithmetic and indexing.

    >>> import numpy as np, halfulp as hu
    >>> hu.grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    __slots__ = ("__weakref__", "level", "value")
    level: int
    value: Any

    def process(self, op: Any, inputs: tuple[Any, ...]) -> Any:
        """Apply an operator to inputs of which this value has the highest level."""
        raise AssertionError("every traced value says how operators act on it")

    def __halfulp_apply__(self, op: Any, inputs: tuple[Any, ...]) -> Any:
        """The seam through which the functional forms and records reach traced values."""
        return apply(op, *inputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the value."""
        return self.value.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.value.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.value.shape, dtype=np.int64))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a traced value without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({strip(self)!r})"

    def __array__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise TapeError(
            "numpy.asarray",
            f"value={self!r}",
            "a traced value is not an array; use halfulp.ops, halfulp's functional forms or Python's operators",
            "E6",
        )

    # Comparisons look at the value alone: a branch is followed, not differentiated. As arrays, which compare element
    # by element, traced values have no hash.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> Any:
        return strip(self) == strip(other)

    def __ne__(self, other: Any) -> Any:
        return strip(self) != strip(other)

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(strip(self) == strip(item)))

    def __lt__(self, other: Any) -> Any:
        return strip(self) < strip(other)

    def __le__(self, other: Any) -> Any:
        return strip(self) <= strip(other)

    def __gt__(self, other: Any) -> Any:
        return strip(self) > strip(other)

    def __ge__(self, other: Any) -> Any:
        return strip(self) >= strip(other)

    def __bool__(self) -> bool:
        return bool(strip(self))

    def __float__(self) -> float:
        return float(strip(self))

    def __int__(self) -> int:
        return int(strip(self))


def strip(value: Any) -> Any:
    """The array inside, without the traces around it."""
    while isinstance(value, Traced):
        value = value.value
    return value


def is_traced(*values: Any) -> bool:
    """Whether one of the values belongs to a transform."""
    return any(isinstance(value, Traced) for value in values)


def apply(op: Any, *inputs: Any) -> Any:
    """Apply an operator to arrays or traced values.

    Use it for your own operators in functions that are transformed.

    >>> import numpy as np, halfulp as hu
    >>> apply(hu.MaxPool((2,)), np.array([1.0, 3.0]))
    array([3.])
    """
    top: Traced | None = None
    for value in inputs:
        if isinstance(value, Traced) and (top is None or value.level > top.level):
            top = value
    return op(*inputs) if top is None else top.process(op, inputs)
