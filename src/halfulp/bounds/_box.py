"""Boxes of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.bounds._maps import Array, Shape
from halfulp.errors import ModelError
from halfulp.numbers import is_float


class Box:
    """All inputs between two arrays, ends included. The ends are float64 numbers, taken exactly.

    >>> import halfulp.bounds as hb
    >>> hb.Box([0.0, 0.0], [1.0, 2.0])
    Box(shape=(2,), widest side 2)
    """

    def __init__(self, lower: Any, upper: Any) -> None:
        low, high = _numbers("lower", lower), _numbers("upper", upper)
        if low.shape != high.shape:
            rule = f"must be {low.shape}, the shape of the lower one"
            raise ModelError("Box", f"upper shape={high.shape}", rule, "V2")
        if (low > high).any():
            where = tuple(int(i) for i in np.argwhere(low > high)[0])
            raise ModelError("Box", f"lower={low[where]} at {where}", f"must be at most upper={high[where]}", "V1")
        self.lower, self.upper = low, high

    @classmethod
    def around(cls, x: Any, radius: float, clip: tuple[float, float] | None = None) -> Box:
        """All inputs within ``radius`` of ``x`` in every cell, and within ``clip`` if it is given.

        The float64 ends are rounded outward, so the box holds every real point within the radius.

        >>> import halfulp.bounds as hb
        >>> box = hb.Box.around([0.5, 1.0], 0.25, clip=(0, 1))
        >>> box.lower.tolist(), box.upper.tolist()
        ([0.25, 0.75], [0.75, 1.0])
        """
        from halfulp.bounds._directed import add_up, sub_down

        centre = _numbers("x", x)
        distance = _numbers("radius", radius)
        if distance.shape != () or distance < 0:
            raise ModelError("Box.around", f"radius={radius!r}", "must be a finite number >= 0", "V1")
        low, high = sub_down(centre, distance), add_up(centre, distance)
        if clip is not None:
            least, most = clip
            low, high = np.clip(low, least, most), np.clip(high, least, most)
        return cls(low, high)

    @property
    def shape(self) -> Shape:
        """The shape of the points."""
        return tuple(self.lower.shape)

    def __repr__(self) -> str:
        widest = float((self.upper - self.lower).max(initial=0.0))
        return f"Box(shape={self.shape}, widest side {widest:.6g})"


def _numbers(name: str, value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if not is_float(array.dtype):
        raise ModelError("Box", f"{name} dtype={array.dtype}", "must be float or integer numbers", "V1")
    array = np.array(array, dtype=np.float64)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ModelError("Box", f"{name}={array[where]} at {where}", "must be finite", "V1")
    return array
