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
    return np.asarray(array, order=order) if getattr(_state, "lent", False) else array.copy(order)


@contextmanager
def lent() -> Iterator[None]:
    """Pullbacks made within keep the arrays themselves: the caller vouches that nobody changes them."""
    before = getattr(_state, "lent", False)
    _state.lent = True
    try:
        yield
    finally:
        _state.lent = before
