"""Random masks that are a function of the position alone: Philox4x32-10, not a state that is passed on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp import _core


def keep_mask(
    dtype: Any, count: int, p: float, *, seed: int, step: int, layer: int = 0, first: int = 0
) -> NDArray[Any]:
    """Cell i is 0 with probability p, else 1/(1-p) rounded to ``dtype``; it belongs to word ``first + i`` of a stream.

    Word w of the stream (seed, step, layer) is word w mod 4 of the Philox block whose counter is (w // 4 low, w // 4
    high, step, layer) and whose key is the seed. The cell is kept where its word is at least p * 2**32, rounded to the
    nearest integer.

    >>> keep_mask(np.float32, 6, 0.5, seed=3, step=0)
    array([2., 0., 2., 2., 0., 2.], dtype=float32)
    """
    kind = np.dtype(dtype)
    bits = np.dtype(f"u{kind.itemsize}")
    scale = np.array(0.0 if p == 1 else 1.0 / (1.0 - p)).astype(kind)
    threshold = round(Fraction(p) * 2**32)
    cells: Any = _core.keep_mask(
        seed % 2**64, step, layer, first, threshold, int(scale.view(bits)), kind.itemsize, count
    )
    return cells.view(kind)  # type: ignore[no-any-return]
