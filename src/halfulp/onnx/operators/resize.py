"""Resize and Upsample: nearest moves elements; linear and cubic are exact weighted sums, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import apply
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axes_of, integers, move
from halfulp.onnx.operators._taps import Axis, Taps, linear_map

_HALF = Fraction(1, 2)
_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
_NEAREST: dict[str, Callable[[Any, int], Any]] = {
    "round_prefer_floor": lambda top, bottom: -((bottom - 2 * top) // (2 * bottom)),
    "round_prefer_ceil": lambda top, bottom: (2 * top + bottom) // (2 * bottom),
    "floor": lambda top, bottom: top // bottom,
    "ceil": lambda top, bottom: -(-top // bottom),
}
"""The cell for the coordinate top / bottom, in integers."""

_TAP_BYTES = 2000
"""What the exact weights of one output along an axis take, about."""


@dataclass(frozen=True)
class Rule:
    """The attributes of a Resize node."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    antialias: bool = False
    policy: str = "stretch"

    def source(self, i: int, n: int, out: int, scale: Fraction, roi: tuple[Fraction, Fraction]) -> Fraction:
        """The coordinate in the input of output i, exactly.

        ONNX's own tests take scale * n for the length of the output where it is not a whole number.
        """
        length = scale * n
        if self.coordinates == "align_corners":
            return i * (n - 1) / (length - 1) if i else Fraction(0)
        if self.coordinates == "asymmetric":
            return i / scale
        if self.coordinates == "tf_crop_and_resize":
            start, end = roi
            if out > 1:
                return start * (n - 1) + i * (end - start) * (n - 1) / (length - 1)
            return (start + end) * (n - 1) / 2
        if self.coordinates == "tf_half_pixel_for_nn":
            return (i + _HALF) / scale
        if self.coordinates == "pytorch_half_pixel" and out == 1:
            return Fraction(0)
        shift = Fraction(n, 2) * (1 - out / length) if self.coordinates == "half_pixel_symmetric" else 0
        return shift + (i + _HALF) / scale - _HALF

    def taps(self, x: Fraction, n: int, scale: Fraction) -> Taps:
        """The cells around a coordinate and their weights; cells beyond the ends are the last ones, or left out."""
        left = math.ceil(x) - 1
        ratio = x - left  # above 0 and at most 1
        shrink = min(scale, Fraction(1)) if self.antialias else Fraction(1)
        reach = (1 if self.mode == "linear" else 2) / shrink
        first = math.floor(-reach) + 1
        places = range(first, 2 - first)
        weights = [self._weight((k - ratio) * shrink) for k in places]
        if self.exclude_outside:
            weights = [w if 0 <= left + k < n else Fraction(0) for k, w in zip(places, weights, strict=True)]
        total = sum(weights)
        if (self.antialias or self.exclude_outside) and total:
            weights = [w / total for w in weights]
        found: dict[int, Fraction] = {}
        for k, weight in zip(places, weights, strict=True):
            cell = max(0, min(n - 1, left + k))
            found[cell] = found.get(cell, Fraction(0)) + weight
        return tuple((cell, weight) for cell, weight in found.items() if weight)

    def _weight(self, distance: Fraction) -> Fraction:
        x = abs(distance)
        if self.mode == "linear":
            return max(Fraction(0), 1 - x)
        a = Fraction(self.cubic)
        if x <= 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else Fraction(0)


def resize(node: Node) -> Callable[..., Any]:
    """Resize, by scales or to sizes."""
    newer = node.opset >= 11
    rule = Rule(
        _choice(node, "mode", _MODES, "nearest"),
        _choice(node, "coordinate_transformation_mode", _COORDINATES, "half_pixel") if newer else "asymmetric",
        _choice(node, "nearest_mode", tuple(_NEAREST), "round_prefer_floor") if newer else "floor",
        node.number("cubic_coeff_a", -0.75) if newer else -0.75,
        node.flag("exclude_outside") if newer else False,
        node.number("extrapolation_value", 0.0) if newer else 0.0,
        node.flag("antialias") if node.opset >= 18 else False,
        _choice(node, "keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller"), "stretch")
        if node.opset >= 18
        else "stretch",
    )
    named = node.integers("axes") if node.opset >= 18 else None
    if not newer:
        return lambda x, scales: _resized(node, rule, x, None, scales, None, None)
    return lambda x, roi=None, scales=None, sizes=None: _resized(node, rule, x, roi, scales, sizes, named)


def upsample(node: Node) -> Callable[..., Any]:
    """Upsample, the older Resize; its scales are an attribute before operator set 9."""
    mode = _choice(node, "mode", ("nearest", "linear", "bilinear"), "nearest")
    rule = Rule("linear" if mode == "bilinear" else mode, "asymmetric", "floor")
    if node.opset < 9:
        scales = np.array(node.numbers("scales") or (), dtype=np.float32)
        return lambda x: _resized(node, rule, x, None, scales, None, None)
    return lambda x, scales: _resized(node, rule, x, None, scales, None, None)


def _choice(node: Node, name: str, known: Sequence[str], default: str) -> str:
    value = node.text(name, default)
    if value not in known:
        raise node.refusal(f"{name}={value!r}", f"must be one of {', '.join(known)}")
    return value


def _resized(node: Node, rule: Rule, x: Any, roi: Any, scales: Any, sizes: Any, named: Any) -> Any:
    ndim = len(x.shape)
    places = list(range(ndim)) if named is None else list(axes_of(node, named, ndim))
    factors, shape = _sizes(node, rule, x, places, scales, sizes)
    out_shape = list(x.shape)
    for place, size in zip(places, shape, strict=True):
        out_shape[place] = size
    node.fits(tuple(out_shape), x, 48)
    if any(size == 0 for size in out_shape):
        return np.zeros(out_shape, dtype=strip(x).dtype)
    if 0 in x.shape:
        raise node.refusal(f"input shape={tuple(x.shape)}", "has no elements to resize", "O9")
    crops = _crops(node, rule, roi, len(places))
    axes: list[tuple[int, Any]] = []
    outside = np.zeros((1,) * ndim, dtype=bool)
    for place, size, factor, crop in zip(places, shape, factors, crops, strict=True):
        n = x.shape[place]
        if size == n and factor == 1 and rule.coordinates != "tf_crop_and_resize":
            continue
        node.fits((size,), x, 64 if rule.mode == "nearest" else _TAP_BYTES)
        if rule.coordinates == "tf_crop_and_resize":
            tops, bottom = _coordinates(rule, n, size, factor, crop)
            beyond = np.asarray((tops < 0) | (tops > (n - 1) * bottom), dtype=bool)
            outside = outside | beyond.reshape([size if i == place else 1 for i in range(ndim)])
        make = _axis if size <= _KEPT else _axis.__wrapped__
        axes.append((place, make(rule, n, size, factor, crop)))
    return _filled(rule, _interpolated(rule, x, axes), outside)


_KEPT = 4096
"""Axes up to this size are kept for the next run."""


@lru_cache(maxsize=64)
def _axis(rule: Rule, n: int, size: int, factor: Fraction, crop: tuple[Fraction, Fraction]) -> Any:
    """The cell of every output along an axis, or the cells and weights."""
    if rule.mode != "nearest":
        return Axis(n, tuple(rule.taps(rule.source(i, n, size, factor, crop), n, factor) for i in range(size)))
    tops, bottom = _coordinates(rule, n, size, factor, crop)
    return np.clip(_NEAREST[rule.nearest](tops, bottom), 0, n - 1).astype(np.int64)


def _coordinates(
    rule: Rule, n: int, size: int, factor: Fraction, crop: tuple[Fraction, Fraction]
) -> tuple[NDArray[Any], int]:
    """The coordinates of all outputs, which lie on a line, as integers over one denominator."""
    start = rule.source(0, n, size, factor, crop)
    step = rule.source(1, n, size, factor, crop) - start if size > 1 else Fraction(0)
    bottom = math.lcm(start.denominator, step.denominator)
    first, slope = int(start * bottom), int(step * bottom)
    largest = abs(first) + abs(slope) * size + bottom
    places = np.arange(size) if largest < 1 << 61 else np.arange(size).astype(object)
    return first + slope * places, bottom


def _interpolated(rule: Rule, x: Any, axes: list[tuple[int, Any]]) -> Any:
    if not axes:
        return x.copy() if isinstance(x, np.ndarray) else x
    if rule.mode != "nearest":
        return apply(linear_map(axes, "resize"), x)

    def pick(array: Any) -> Any:
        for place, cells in reversed(axes):
            array = _picked(array, cells, place)
        return array

    return move(pick, x)


def _picked(x: NDArray[Any], cells: NDArray[np.int64], place: int) -> NDArray[Any]:
    """``x.take(cells, place)``; where every cell is repeated the same few times, by as many whole copies."""
    n = x.shape[place]
    times = len(cells) // n
    if not 2 <= times <= 8 or not np.array_equal(cells, np.arange(n).repeat(times)):
        return x.take(cells, axis=place)
    out = np.empty((*x.shape[:place], len(cells), *x.shape[place + 1 :]), x.dtype)
    for k in range(times):
        key = (*(slice(None),) * place, slice(k, None, times))
        out[key] = x
    return out


def _filled(rule: Rule, y: Any, outside: Any) -> Any:
    if not outside.any():
        return y
    from halfulp.onnx.operators.movement import where

    fill = np.asarray(rule.extrapolation).astype(strip(y).dtype)
    return where(np.broadcast_to(~outside, y.shape), y, fill)


def _crops(node: Node, rule: Rule, roi: Any, count: int) -> list[tuple[Fraction, Fraction]]:
    if rule.coordinates != "tf_crop_and_resize":
        return [(Fraction(0), Fraction(1))] * count
    if roi is None or roi.size != 2 * count or not np.isfinite(roi.astype(np.float64)).all():
        raise node.refusal("roi", f"must be {2 * count} finite numbers: all starts, then all ends", "O9")
    flat = [Fraction(float(value)) for value in roi.reshape(-1)]
    return list(zip(flat[:count], flat[count:], strict=True))


def _sizes(
    node: Node, rule: Rule, x: Any, places: list[int], scales: Any, sizes: Any
) -> tuple[list[Fraction], list[int]]:
    """The factor and the output size of every named axis."""
    inputs = [x.shape[place] for place in places]
    if sizes is not None and sizes.size:
        wanted = integers(node, sizes, "sizes")
        if len(wanted) != len(places) or any(size < 0 for size in wanted):
            raise node.refusal(f"sizes={wanted}", f"must be {len(places)} sizes >= 0", "O9")
        factors = [Fraction(out, n) if n else Fraction(1) for out, n in zip(wanted, inputs, strict=True)]
        if rule.policy != "stretch":
            shared = min(factors) if rule.policy == "not_larger" else max(factors)
            factors = [shared] * len(places)
            wanted = [math.floor(shared * n + _HALF) for n in inputs]
        return [f if f else Fraction(1) for f in factors], wanted
    if scales is None or scales.size != len(places) or not np.isfinite(scales.astype(np.float64)).all():
        raise node.refusal("scales", f"must be {len(places)} finite numbers, or sizes must be given", "O9")
    factors = [Fraction(float(value)) for value in scales.reshape(-1)]
    if any(factor <= 0 for factor in factors):
        raise node.refusal(f"scales={scales.tolist()}", "must be above 0", "O9")
    return factors, [math.floor(factor * n) for factor, n in zip(factors, inputs, strict=True)]
