"""All levels of one tile of the base, every one of them pooled from the base itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from halfulp import functional

__all__ = ["levels_of", "pool"]


def pool(x: Any, factor: Sequence[int], method: str, dtype: Any, nan: str = "propagate", trim: bool = False) -> Any:
    """The pooling of an array over blocks of ``factor`` cells; the last blocks have what is left, or are left out.

    >>> pool(np.array([[1, 2, 4]], np.uint8), (1, 2), "mean", "uint8")
    array([[2, 4]], dtype=uint8)
    """
    first = next((i for i, f in enumerate(factor) if f > 1), None)
    if first is None:
        return x.astype(dtype, copy=False)
    kernel = tuple(min(f, n) for f, n in zip(factor[first:], x.shape[first:], strict=True))
    further: dict[str, Any] = {"ceil_mode": not trim}
    if x.dtype.kind == "f":
        further["nan"] = nan
    if method in ("mean", "sum"):
        function = functional.avg_pool if method == "mean" else functional.sum_pool
        return function(x, kernel, **further, dtype=np.dtype(dtype).name)
    if method == "median":
        return functional.median_pool(x, kernel, **further)
    if method == "mode":
        return functional.mode_pool(x, kernel, **further)
    return (functional.max_pool if method == "max" else functional.min_pool)(x, kernel, **further)


def levels_of(x: Any, factors: Sequence[tuple[int, ...]], method: str, dtype: Any, nan: str) -> Iterator[Any]:
    """The levels of a tile that begins at a multiple of every factor.

    Maxima and minima of integers are those of the level before: they are exact, and have one zero only.
    """
    known, done = x, (1,) * x.ndim
    for factor in factors:
        if method in ("max", "min") and x.dtype.kind in "biu":
            known = pool(known, tuple(f // d for f, d in zip(factor, done, strict=True)), method, dtype, nan)
            done = factor
            yield known
        else:
            yield pool(x, factor, method, dtype, nan)
