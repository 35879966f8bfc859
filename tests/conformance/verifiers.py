"""Small verifiers that read ONNX chains: interval bounds in rationals, and the same with one known defect each.

``bounds`` is sound. The others have a mistake that public verifiers have, or had.
"""

from __future__ import annotations

import itertools
import os
import time
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

Array = NDArray[Any]
Interval = tuple[Array, Array]


def _fractions(values: Any) -> Array:
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(values)


def _windows(shape: tuple[int, ...], attributes: dict[str, Any]) -> tuple[tuple[int, ...], list[Any]]:
    """The sizes, and per window its position and (tap, cell or None, place in the padded plane) of each tap."""
    ndim = len(shape)
    kernel = attributes["kernel_shape"]
    stride, dilation = attributes["strides"], attributes.get("dilations", [1] * ndim)
    before, after = attributes["pads"][:ndim], attributes["pads"][ndim:]
    sizes = []
    for n, k, s, d, a, b in zip(shape, kernel, stride, dilation, before, after, strict=True):
        room = n + a + b - d * (k - 1) - 1
        sizes.append((-(room // -s) if attributes.get("ceil_mode") else room // s) + 1)
    found = []
    for out in itertools.product(*map(range, sizes)):
        taps = []
        for tap in itertools.product(*map(range, kernel)):
            at = [o * s + t * d for o, s, t, d in zip(out, stride, tap, dilation, strict=True)]
            if all(p < n + a + b for p, n, a, b in zip(at, shape, before, after, strict=True)):
                cell = tuple(p - a for p, a in zip(at, before, strict=True))
                real = all(0 <= p < n for p, n in zip(cell, shape, strict=True))
                taps.append((tap, cell if real else None, tuple(at)))
        found.append((out, taps))
    return tuple(sizes), found


def _max(x: Interval, attributes: dict[str, Any], defect: str) -> Interval:
    results = []
    for side in x:
        channels, *spatial = side.shape
        out: dict[Any, Any] = {}
        sizes, windows = _windows(tuple(spatial), attributes)
        for position, taps in windows:
            for c in range(channels):
                cells = [side[(c, *cell)] for _, cell, _ in taps if cell is not None]
                if defect == "zero padding" and any(cell is None for _, cell, _ in taps):
                    cells.append(Fraction(0))
                if defect == "unpadded indices":
                    places = [tuple(min(p, n - 1) for p, n in zip(at, spatial, strict=True)) for _, _, at in taps]
                    cells = [side[(c, *place)] for place in places]
                out[(c, *position)] = max(cells)
        results.append(_collected(out, (channels, *sizes)))
    return results[0], results[1]


def _average(x: Interval, attributes: dict[str, Any], defect: str) -> Interval:
    include = bool(attributes["count_include_pad"]) or defect == "include-pad"
    results = []
    for side in x:
        channels, *spatial = side.shape
        out: dict[Any, Any] = {}
        sizes, windows = _windows(tuple(spatial), attributes)
        for position, taps in windows:
            for c in range(channels):
                cells = [side[(c, *cell)] for _, cell, _ in taps if cell is not None]
                out[(c, *position)] = sum(cells, Fraction(0)) / (len(taps) if include else len(cells))
        results.append(_collected(out, (channels, *sizes)))
    return results[0], results[1]


def _norm(x: Interval, attributes: dict[str, Any]) -> Interval:
    """The sum of absolute values; p is 1."""
    ends = (np.maximum(np.maximum(x[0], -x[1]), Fraction(0)), np.maximum(-x[0], x[1]))
    results = []
    for side in ends:
        channels, *spatial = side.shape
        sizes, windows = _windows(tuple(spatial), attributes)
        out = {
            (c, *position): sum((side[(c, *cell)] for _, cell, _ in taps if cell is not None), Fraction(0))
            for position, taps in windows
            for c in range(channels)
        }
        results.append(_collected(out, (channels, *sizes)))
    return results[0], results[1]


def _convolution(x: Interval, attributes: dict[str, Any], weight: Array, bias: Array) -> Interval:
    spatial = x[0].shape[1:]
    group = attributes["group"]
    results: list[dict[Any, Any]] = [{}, {}]
    sizes, windows = _windows(tuple(spatial), attributes)
    for position, taps in windows:
        for target in range(len(weight)):
            first = target // (len(weight) // group) * weight.shape[1]
            totals = [Fraction(float(bias[target]))] * 2
            for tap, cell, _ in taps:
                for c in range(weight.shape[1]):
                    if cell is not None:
                        w = Fraction(float(weight[(target, c, *tap)]))
                        ends = [w * side[(first + c, *cell)] for side in x]
                        totals = [totals[0] + min(ends), totals[1] + max(ends)]
            results[0][(target, *position)], results[1][(target, *position)] = totals
    shape = (len(weight), *sizes)
    return _collected(results[0], shape), _collected(results[1], shape)


def _collected(values: dict[Any, Any], shape: tuple[int, ...]) -> Array:
    out = np.empty(shape, dtype=object)
    for position, value in values.items():
        out[position] = value
    return out


def _linear(x: Interval, weight: Array, bias: Array) -> Interval:
    w = _fractions(weight)
    positive, negative = np.where(w > 0, w, 0), np.where(w < 0, w, 0)
    low, high = x[0].reshape(-1), x[1].reshape(-1)
    b = _fractions(bias)
    return positive @ low + negative @ high + b, positive @ high + negative @ low + b


def _interval(path: str, lower: Array, upper: Array, defect: str = "") -> Interval:
    model = onnx.load(path)
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    x: Interval = (_fractions(lower[0]), _fractions(upper[0]))
    for node in model.graph.node:
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        numbers = [tensors[name] for name in node.input if name in tensors]
        if node.op_type == "Relu":
            x = (np.maximum(x[0], Fraction(0)), np.maximum(x[1], Fraction(0)))
        elif node.op_type == "MaxPool":
            x = _max(x, attributes, defect)
        elif node.op_type == "AveragePool":
            x = _average(x, attributes, defect)
        elif node.op_type == "LpPool":
            x = _norm(x, attributes)
        elif node.op_type == "Mul":
            ends = [end * Fraction(float(numbers[0])) for end in x]
            x = (np.minimum(*ends), np.maximum(*ends))
        elif node.op_type == "Conv":
            x = _convolution(x, attributes, *numbers)
        elif node.op_type == "Gemm":
            x = _linear(x, *numbers)
    return x


def _outward(value: Fraction, up: bool) -> float:
    nearest = float(value)
    wrong = Fraction(nearest) < value if up else Fraction(nearest) > value
    return float(np.nextafter(nearest, np.inf if up else -np.inf)) if wrong else nearest


def _rounded(x: Interval) -> Interval:
    return tuple(np.array([_outward(v, up) for v in side.reshape(-1)]) for up, side in enumerate(x))  # type: ignore[return-value]


def bounds(path: str, lower: Array, upper: Array) -> Interval:
    return _rounded(_interval(path, lower, upper))


def one_ulp(path: str, lower: Array, upper: Array) -> Interval:
    low, high = bounds(path, lower, upper)
    return low, np.nextafter(high, -np.inf)


def one_ulp_float32(path: str, lower: Array, upper: Array) -> Interval:
    low, high = bounds(path, lower, upper)
    return np.nextafter(low.astype(np.float32), np.float32(np.inf)), high


def halfulp_one_ulp(path: str, lower: Array, upper: Array) -> Interval:
    import halfulp.bounds as hb

    result = hb.bounds(hb.load(path), hb.Box(lower, upper), method="ibp", arithmetic="real")
    return result.lower, np.nextafter(np.asarray(result.upper), -np.inf)


def zero_padding(path: str, lower: Array, upper: Array) -> Interval:
    return _rounded(_interval(path, lower, upper, "zero padding"))


def unpadded_indices(path: str, lower: Array, upper: Array) -> Interval:
    return _rounded(_interval(path, lower, upper, "unpadded indices"))


def include_pad(path: str, lower: Array, upper: Array) -> Interval:
    return _rounded(_interval(path, lower, upper, "include-pad"))


def everything(path: str, lower: Array, upper: Array) -> Interval:
    low, high = bounds(path, lower, upper)
    return np.full_like(low, -np.inf), np.full_like(high, np.inf)


def nan(path: str, lower: Array, upper: Array) -> Interval:
    low, high = bounds(path, lower, upper)
    return low * np.nan, high


def wrong_shape(path: str, lower: Array, upper: Array) -> Interval:
    low, high = bounds(path, lower, upper)
    return low[:-1], high


def empty_set(path: str, lower: Array, upper: Array) -> Interval:
    low, high = bounds(path, lower, upper)
    return np.full_like(low, np.inf), np.full_like(high, -np.inf)


def refuses_max(path: str, lower: Array, upper: Array) -> Interval:
    if any(node.op_type == "MaxPool" for node in onnx.load(path).graph.node):
        raise NotImplementedError("MaxPool")
    return bounds(path, lower, upper)


def refuses_all(path: str, lower: Array, upper: Array) -> Interval:
    raise NotImplementedError


def dies(path: str, lower: Array, upper: Array) -> Interval:
    os._exit(7)


def sleeps(path: str, lower: Array, upper: Array) -> Interval:
    time.sleep(60)
    return bounds(path, lower, upper)
