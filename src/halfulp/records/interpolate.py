"""The record of interpolation: resizing the spatial axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from halfulp.errors import PolicyError, ShapeError
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, Shape, is_integer
from halfulp.records._declaration import Draw, declare
from halfulp.records._products import given_shapes

MaybeSizes = Any
"""None, one integer or a sequence of them; a built record holds None or a tuple."""
Factors = Any
"""None, one number or a sequence of them; a built record holds None or a tuple of floats."""

MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic")
_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_HALF = Fraction(1, 2)
_CUBIC = Fraction(-3, 4)

Taps = tuple[tuple[int, Fraction], ...]
"""The cells that an output uses along one axis, each once, and their weights, none of which is 0."""


@dataclass(frozen=True, repr=False, eq=False)
class Interpolate(Operator):
    """The spatial axes resized to ``size``, or by ``scale_factor``: weighted sums of neighbouring cells.

    ``mode`` is ``"nearest"`` (output i takes cell floor(i r), r being input over output size), ``"nearest-exact"``
    (floor((i + 1/2) r)), ``"linear"``, ``"bilinear"`` or ``"trilinear"`` (weights 1 - d of the cells at distance d < 1
    from (i + 1/2) r - 1/2, or from i (n - 1) / (m - 1) with ``align_corners=True``), or ``"bicubic"``. With
    ``scale_factor`` r is 1 / scale_factor and the size floor(n * scale_factor). Coordinates and weights are exact
    rationals; the result is rounded once.

    One integer or number stands for every spatial axis: one, two or three of them as the mode says, else all axes after
    the first two.

    >>> import numpy as np
    >>> Interpolate(scale_factor=2)(np.array([[[1.0, 2.0]]]))
    array([[[1., 1., 2., 2.]]])
    >>> Interpolate(size=4, mode="linear")(np.array([[[1.0, 2.0]]]))
    array([[[1.  , 1.25, 1.75, 2.  ]]])
    """

    size: MaybeSizes = None
    scale_factor: Factors = None
    mode: str = "nearest"
    align_corners: bool | None = None
    required: ClassVar[int] = 1

    def __post_init__(self) -> None:
        arguments.choice(self.name, "mode", self.mode, MODES, "Z2")
        if (self.size is None) == (self.scale_factor is None):
            text = "exactly one of size and scale_factor must be given"
            raise PolicyError(self.name, f"size={self.size!r} and scale_factor={self.scale_factor!r}", text, "Z1")
        if self.align_corners is not None:
            flag = arguments.flag(self.name, "align_corners", self.align_corners)
            if self.mode.startswith("nearest"):
                text = "must be None: only linear and cubic modes have it"
                raise PolicyError(self.name, f"align_corners={flag}", text, "Z2")
            object.__setattr__(self, "align_corners", flag)
        if self.size is not None:
            object.__setattr__(self, "size", self._sizes(self.size))
        else:
            object.__setattr__(self, "scale_factor", self._factors(self.scale_factor))
        items = self.size if self.size is not None else self.scale_factor
        rank = _RANKS.get(self.mode)
        if rank is not None and len(items) not in (1, rank):
            name = "size" if self.size is not None else "scale_factor"
            text = f"mode={self.mode!r} has {rank} spatial axes"
            raise ShapeError(self.name, f"{name}={items}", text, "Z3")

    def _sizes(self, given: Any) -> tuple[int, ...]:
        sizes = tuple(given) if arguments.is_sequence(given) else (given,)
        if not sizes or not all(is_integer(n) and n >= 1 for n in sizes):
            raise ShapeError(self.name, f"size={given!r}", "must be integers >= 1", "Z1")
        return tuple(int(n) for n in sizes)

    def _factors(self, given: Any) -> tuple[float, ...]:
        items = tuple(given) if arguments.is_sequence(given) else (given,)
        kinds = (int, float, np.floating, np.integer, Fraction)
        if not items or not all(isinstance(f, kinds) and not isinstance(f, bool) for f in items):
            raise PolicyError(self.name, f"scale_factor={given!r}", "must be numbers > 0", "Z1")
        factors = tuple(float(f) for f in items)
        if not all(0 < f < math.inf for f in factors):
            raise PolicyError(self.name, f"scale_factor={given!r}", "must be finite numbers > 0", "Z1")
        return factors

    def spatial_rank(self, shape: Shape) -> int:
        """How many of the last axes are resized."""
        items: tuple[Any, ...] = self.size if self.size is not None else self.scale_factor
        rank = len(items) if len(items) > 1 else _RANKS.get(self.mode, len(shape) - 2)
        if rank < 1 or len(shape) < rank:
            text = "must have a spatial axis after two others" if rank < 1 else f"must have {rank} spatial axes"
            raise ShapeError(self.name, f"input shape={shape}", text, "Z3")
        return rank

    def spatial(self, shape: Shape) -> tuple[tuple[int, int, float | None], ...]:
        """(input size, output size, scale factor or None) of every spatial axis."""
        rank = self.spatial_rank(shape)
        sizes = shape[len(shape) - rank :]
        if self.size is not None:
            wanted = self.size if len(self.size) == rank else self.size * rank
            return tuple((n, m, None) for n, m in zip(sizes, wanted, strict=True))
        factors = self.scale_factor if len(self.scale_factor) == rank else self.scale_factor * rank
        return tuple((n, math.floor(n * f), f) for n, f in zip(sizes, factors, strict=True))

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        (x,) = given_shapes(self.name, input_shapes, 1, ("input",))
        axes = self.spatial(x)
        for n, m, _ in axes:
            if n < 1 or m < 1:
                text = f"every spatial size must be at least 1, but {n} becomes {m}"
                raise ShapeError(self.name, f"input shape={x}", text, "Z3")
        return (*x[: len(x) - len(axes)], *(m for _, m, _ in axes))

    def taps(self, n: int, m: int, factor: float | None) -> tuple[Taps, ...]:
        """The taps of every output of an axis of n cells that becomes one of m."""
        return _taps(self.mode, bool(self.align_corners), n, m, factor)


@lru_cache(maxsize=256)
def _taps(mode: str, corners: bool, n: int, m: int, factor: float | None) -> tuple[Taps, ...]:
    ratio = Fraction(n, m) if factor is None else 1 / Fraction(factor)
    if mode == "nearest":
        return tuple(((min(math.floor(i * ratio), n - 1), Fraction(1)),) for i in range(m))
    if mode == "nearest-exact":
        return tuple(((min(math.floor((i + _HALF) * ratio), n - 1), Fraction(1)),) for i in range(m))
    if corners:
        places = [Fraction(i * (n - 1), m - 1) if m > 1 else Fraction(0) for i in range(m)]
    else:
        places = [(i + _HALF) * ratio - _HALF for i in range(m)]
    return tuple(_cubic(x, n) if mode == "bicubic" else _linear(x, n) for x in places)


def _linear(x: Fraction, n: int) -> Taps:
    """The cells on both sides of a coordinate; coordinates beyond the ends are the ends."""
    x = min(max(x, Fraction(0)), Fraction(n - 1))
    left = math.floor(x)
    return ((left, 1 - (x - left)), (left + 1, x - left)) if x > left else ((left, Fraction(1)),)


def _cubic(x: Fraction, n: int) -> Taps:
    """Four cells around a coordinate; cells beyond the ends are the last ones."""
    left = math.floor(x)
    found: dict[int, Fraction] = {}
    for k in range(-1, 3):
        d = abs(x - left - k)
        near = (_CUBIC + 2) * d**3 - (_CUBIC + 3) * d**2 + 1
        far = _CUBIC * (d**3 - 5 * d**2 + 8 * d - 4)
        cell = min(max(left + k, 0), n - 1)
        found[cell] = found.get(cell, Fraction(0)) + (near if d <= 1 else far)
    return tuple((cell, weight) for cell, weight in sorted(found.items()) if weight)


def _drawn(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    mode = choose(MODES)
    rank = _RANKS.get(mode) or choose((1, 2, 3))
    sizes = {1: (1, 2, 5, 9), 2: (1, 2, 3, 5), 3: (1, 2, 3)}[rank]
    shape = (choose((1, 2)), choose((1, 2)), *(choose(sizes) for _ in range(rank)))
    corners = None if mode.startswith("nearest") else choose((None, True, False))
    if choose((True, False)):
        return Interpolate(choose(((3,), (7,), (1,), (4,))) * rank, None, mode, corners), (shape,)
    return Interpolate(None, choose(((2.0,), (1.5,), (3.0,), (1.0,))) * rank, mode, corners), (shape,)


declare(
    Interpolate,
    kind="linear",
    curvature="linear",
    draw=Draw(_drawn),
    ranks=(),
    module=None,
    planar=False,
    form=(
        *("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor"),
        "antialias",
    ),
    accepts=("recompute_scale_factor: bool | None = None", "antialias: bool = False"),
    before='if recompute_scale_factor or antialias or mode == "area":\n'
    "    size, scale_factor = resized(input, size, scale_factor, antialias)\n"
    'if mode == "area":\n'
    "    return adaptive_avg_pool(input, size{out})",
    summary="The spatial axes resized to ``size`` or by ``scale_factor``, correctly rounded",
    note="``mode`` is ``'nearest'``, ``'nearest-exact'``, ``'linear'``, ``'bilinear'``, ``'trilinear'``, "
    "``'bicubic'`` or ``'area'``.",
    examples=('np.array([[[1.0, 2.0]]]), 4, mode="linear"',),
    onnx=("Resize",),
)
