"""What a pullback keeps of the arrays that it was made from: copies, unless the caller lends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_state = local()


def kept(array: Array, order: Any = "K") -> Array:
    """A copy in this order; a lent array that has this order already is kept as it is.

    >>> x = np.zeros(3)
    >>> kept(x) is x
    False
    >>> with lent():
    ...     kept(x) is x
    True
    """
    return np.asarray(array, order=order) if is_lent() else array.copy(order)


def is_lent() -> bool:
    """Whether arrays are lent now."""
    return getattr(_state, "lent", False)


@contextmanager
def lent() -> Iterator[None]:
    """Pullbacks made within keep the arrays themselves: the caller vouches that nobody changes them."""
    before = getattr(_state, "lent", False)
    _state.lent = True
    try:
        yield
    finally:
        _state.lent = before
