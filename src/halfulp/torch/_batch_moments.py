"""Batch norm of a part of a batch from exact sums over the whole of it.

A channel's outputs depend on the other rows only through n, the sums of x and x^2, and in the backward pass those of g
and g x. The sums are integers times a power of two, so parts of them can be added without loss. With exact moments
every output is a short formula in float64 with an error bound; what that leaves undecided is computed over exact
numbers. float64 inputs have squares of more than 53 bits and are not taken.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfulp.kernels._exact_normalization import mixed
from halfulp.numbers import flint, float_format
from halfulp.numbers._surds import Surd
from halfulp.records import BatchNorm
from halfulp.torch._rounding import narrowed

Total = tuple[list[int], int]
"""Integers, one for each channel, and the power of two that they count."""
_HEAD, _ONE = struct.Struct("<qq?"), struct.Struct("<qq")
_BOUND, _LEAST = 2.0**-49, 2.0**-900


def planes(x: Tensor) -> Tensor:
    """float64 of shape (rows, channels, cells)."""
    return x.detach().double().reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def exact_sums(values: Tensor) -> Total:
    """The exact sums of finite float64 over rows and cells: the high bits of all, which add without loss, and so on."""
    count, unit = values.shape[0] * values.shape[2], 0
    totals, bits = [0] * values.shape[1], 51 - count.bit_length()
    while values.numel() and (most := float(values.abs().max())):
        lower = math.frexp(most)[1] - bits
        shift = math.ldexp(1.5, 52 + lower)
        high = (values + shift) - shift  # multiples of 2**lower, at most 2**bits of them
        values = values - high
        if not any(totals):
            unit = lower
        found = [int(math.ldexp(s, -lower)) for s in high.sum((0, 2)).tolist()]
        totals = [(total << (unit - lower)) + f for total, f in zip(totals, found, strict=True)]
        unit = lower
    return totals, unit


def packed(count: int, fine: bool, sums: Sequence[Total]) -> Tensor:
    """Sums as bytes."""
    body = b""
    for totals, unit in sums:
        width = max((t.bit_length() for t in totals), default=0) // 8 + 1
        body += _ONE.pack(unit, width) + b"".join(t.to_bytes(width, "little", signed=True) for t in totals)
    data = _HEAD.pack(len(body), count, fine) + body
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def united(packets: Tensor, channels: int) -> tuple[int, bool, list[list[Fraction]]]:
    """The cells, whether all parts have sums, and the sums over all parts."""
    data, at = packets.numpy().tobytes(), 0
    count, fine, whole = 0, True, [[Fraction(0)] * channels for _ in range(2)]
    while at < len(data):
        length, own, good = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        end, which = at + length, 0
        count, fine = count + own, fine and good
        while at < end:
            unit, width = _ONE.unpack_from(data, at)
            at += _ONE.size
            scale = Fraction(2) ** unit
            for i in range(channels):
                value = int.from_bytes(data[at : at + width], "little", signed=True)
                whole[which][i] += value * scale
                at += width
            which += 1
    return count, fine, whole


@dataclass(frozen=True)
class Moments:
    """Of every channel of a whole batch, exactly."""

    count: int
    mean: list[Fraction]
    variance: list[Fraction]
    eps: float

    @classmethod
    def of(cls, count: int, sums: list[list[Fraction]], eps: float) -> Moments:
        """From the sums of x and x^2."""
        mean = [s / count for s in sums[0]]
        return cls(count, mean, [q / count - m * m for q, m in zip(sums[1], mean, strict=True)], eps)

    @property
    def spread(self) -> list[Fraction]:
        """Variance + eps."""
        return [v + Fraction(self.eps) for v in self.variance]

    def moved(self, op: BatchNorm, old: Tensor, squares: bool, dtype: torch.dtype) -> Tensor:
        """A running statistic after this batch, rounded once to the type of the input."""
        less = Fraction(self.count, self.count - 1) if squares else 1
        new = [v * less for v in (self.variance if squares else self.mean)]
        before = old.detach().to(dtype).double().tolist()
        pairs = zip(before, new, strict=True)
        return _as_type([mixed(op, Surd.of(o), _rational(n)) for o, n in pairs], dtype)

    def value(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Weight n + bias."""
        cells, w, b = planes(x), _parameter(weight, 1.0, x), _parameter(bias, 0.0, x)
        pivot, c, a = self._centred(cells, w)
        across, shift = c * a, (_floats([Fraction(p) - m for p, m in zip(pivot, self.mean, strict=True)]) * a)
        size = across.abs() + (shift.abs() + b.abs())
        across += shift + b
        known = torch.where(a == 0, b + 0.0, math.nan).expand_as(cells)

        def exactly(channel: int, x: float, _: float) -> Any:
            normal = _rational(Fraction(x) - self.mean[channel]) * self._scale(channel)
            return normal * Surd.of(float(w[channel])) + Surd.of(float(b[channel]))

        return _decided(x, across, size, known, exactly, cells, torch.zeros_like(cells))

    def cotangent(self, x: Tensor, g: Tensor, weight: Tensor | None, sums: list[list[Fraction]]) -> Tensor:
        """The cotangent of x, from the sums of g and g x."""
        cells, along, w = planes(x), planes(g), _parameter(weight, 1.0, x)
        pivot, c, a = self._centred(cells, w)
        slopes = [p / s for p, s in zip(self._products(sums), self.spread, strict=True)]
        means = [s / self.count for s in sums[0]]
        rows = zip(pivot, self.mean, slopes, means, strict=True)
        constant = _floats([(m - Fraction(p)) * k - mean for p, m, k, mean in rows])
        steep = c * _floats(slopes)
        size = (along.abs() + steep.abs() + constant.abs()) * a.abs()
        result = (along - steep + constant) * a
        known = torch.where(a == 0, 0.0, math.nan).expand_as(cells)

        def exactly(channel: int, x: float, g: float) -> Any:
            bent = Fraction(g) - means[channel] - (Fraction(x) - self.mean[channel]) * slopes[channel]
            return _rational(bent) * self._scale(channel) * Surd.of(float(w[channel]))

        flat = torch.tensor([k == 0 for k in slopes])[:, None]  # there x does not matter
        return _decided(x, result, size, known, exactly, torch.where(flat, 0.0, cells), along)

    def weight_cotangent(self, sums: list[list[Fraction]], dtype: torch.dtype) -> Tensor:
        """The sum of g n."""
        rows = enumerate(self._products(sums))
        return _as_type([_rational(p * self.count) * self._scale(i) for i, p in rows], dtype)

    def _products(self, sums: list[list[Fraction]]) -> list[Fraction]:
        """The mean of g (x - mean)."""
        rows = zip(sums[0], sums[1], self.mean, strict=True)
        return [(p - m * g) / self.count for g, p, m in rows]

    def _scale(self, channel: int) -> Any:
        return 1 / _rational(self.variance[channel] + Fraction(self.eps)).sqrt()

    def _centred(self, cells: Tensor, w: Tensor) -> tuple[list[float], Tensor, Tensor]:
        """Pivots near the means, x - pivot, and weight / sqrt(variance + eps)."""
        pivot = _floats(self.mean).float().double()
        return pivot[:, 0].tolist(), cells - pivot, w / _floats(self.spread).sqrt()


def rounded_totals(sums: list[Fraction], dtype: torch.dtype) -> Tensor:
    """Each rounded once; zeros are positive."""
    return _as_type([_rational(s) for s in sums], dtype)


def _floats(values: list[Fraction]) -> Tensor:
    """Rounded to float64, one for each channel."""
    return torch.tensor([v.numerator / v.denominator for v in values], dtype=torch.float64)[:, None]


def _rational(value: Fraction) -> Surd:
    return Surd.rational(flint.fmpq(value.numerator, value.denominator))


def _parameter(parameter: Tensor | None, otherwise: float, x: Tensor) -> Tensor:
    if parameter is None:
        return torch.full((x.shape[1], 1), otherwise, dtype=torch.float64)
    return parameter.detach().double()[:, None]


def _as_type(numbers: list[Any], dtype: torch.dtype) -> Tensor:
    """Each rounded once."""
    target = float_format(_name(dtype))
    return torch.tensor([number.rounded(target) for number in numbers], dtype=torch.float64).to(dtype)


def _name(dtype: torch.dtype) -> Any:
    name = str(dtype).removeprefix("torch.")
    return name if name == "bfloat16" else np.dtype(name)


def _decided(x: Tensor, y: Tensor, size: Tensor, known: Tensor, exactly: Any, *cells: Tensor) -> Tensor:
    """Results in the type of x: known ones, those that y decides within its bound, the rest exactly."""
    radius = size * _BOUND + _LEAST
    low, high = narrowed(y - radius, x.dtype), narrowed(y + radius, x.dtype)
    bits = torch.int32 if x.element_size() == 4 else torch.int16
    fixed = ~known.isnan()
    left = ((low.view(bits) != high.view(bits)) | ~torch.isfinite(y) | ~torch.isfinite(radius)) & ~fixed
    result = torch.where(fixed, known.to(x.dtype), low)
    places = left.nonzero()
    if len(places):
        at = tuple(places.T)
        keys = list(zip(places[:, 1].tolist(), *(c[at].tolist() for c in cells), strict=True))
        unique = list(dict.fromkeys(keys))
        found = dict(zip(unique, _as_type([exactly(*key) for key in unique], x.dtype), strict=True))
        result[at] = torch.stack([found[key] for key in keys])
    wanted = torch.empty_like(x)
    return wanted.copy_(result.view(x.shape))
