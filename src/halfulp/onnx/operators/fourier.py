"""DFT and STFT: sums of inputs times cosines of rational parts of a turn, exact and rounded once.

float64 decides nearly every sum, by the bound n * 2**-53 times the sum of magnitudes. The rest is a number of a
cyclotomic field. Reduced by the cyclotomic polynomial it is either a rational number, which is rounded, or irrational,
so that balls of growing precision decide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from halfulp.autograd.traced import is_traced, strip
from halfulp.numbers import Format, round_rational
from halfulp.onnx._nearest import by_balls, nearest
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axis_of, scalar

_UNIT = 2.0**-53


@dataclass(frozen=True)
class Transform:
    """A transform of ``length`` numbers, real or complex, to ``outputs`` complex ones; the inverse is divided by it."""

    length: int
    outputs: int
    complex: bool
    inverse: bool = False

    @property
    def turn(self) -> int:
        """The parts of a turn in which all angles, and a quarter, are whole numbers."""
        return math.lcm(self.length, 4)

    def places(self, output: int) -> NDArray[np.int64]:
        """For every input the angle whose cosine it is multiplied with, for (output // 2, real or imaginary part)."""
        k, imaginary = divmod(output, 2)
        part, quarter = self.turn // self.length, self.turn // 4
        angle = np.array([k * n % self.length for n in range(self.length)], dtype=np.int64) * part
        if not self.inverse:
            angle = -angle
        # exp(i a) (u + i v): the real part is u cos(a) - v sin(a), the imaginary one u sin(a) + v cos(a)
        first = angle - quarter if imaginary else angle
        if not self.complex:
            return first % self.turn
        second = angle if imaginary else angle + quarter
        return np.stack([first, second], axis=1).reshape(-1) % self.turn

    @property
    def inputs(self) -> int:
        """The real numbers of an input."""
        return self.length * (2 if self.complex else 1)


@lru_cache(maxsize=8)
def _table(transform: Transform) -> NDArray[np.float64]:
    """Cosines in float64, off by less than 4 units in the last place; those of quarter turns are exact."""
    cosines = _cosines(transform.turn)
    return np.stack([cosines[transform.places(o)] for o in range(2 * transform.outputs)], axis=1)


def _cosines(turn: int) -> NDArray[np.float64]:
    """cos(2 pi m / turn) for every m, from angles up to an eighth of a turn."""
    m = np.arange(turn)
    near = np.minimum(m, turn - m)  # cos is even
    sign = np.where(4 * near > turn, -1.0, 1.0)
    near = np.where(4 * near > turn, turn // 2 - near, near)  # at most a quarter
    low = 8 * near <= turn
    part = np.where(low, near, turn // 4 - near) * (2 * math.pi / turn)
    return sign * np.where(low, np.cos(part), np.sin(part))


def transformed(rows: NDArray[np.float64], transform: Transform, dtype: Any) -> NDArray[Any]:
    """The transforms (rows, outputs, 2) of rows of numbers that float64 holds."""
    table = _table(transform)
    with np.errstate(all="ignore"):
        scale = transform.length if transform.inverse else 1
        estimate = (rows @ table + 0.0) / scale
        size = np.abs(rows) @ np.abs(table) / scale
        error = size * ((rows.shape[1] + 8) * _UNIT)
    exact = _Exact(rows, transform)
    found = nearest(estimate, error, dtype, exact.rounded, (size == 0) | ~np.isfinite(estimate))
    return found.reshape(len(rows), transform.outputs, 2)


class _Exact:
    """Single sums, exactly; rows that are equal are computed once."""

    def __init__(self, rows: NDArray[np.float64], transform: Transform) -> None:
        self._rows, self._transform = rows, transform
        self._known: dict[tuple[bytes, int], float] = {}

    def rounded(self, index: int, target: Format) -> float:
        """The sum at a flat index of the result."""
        row, output = divmod(index, 2 * self._transform.outputs)
        key = (self._rows[row].tobytes(), output)
        if key not in self._known:
            self._known[key] = self._value(row, output, target)
        return self._known[key]

    def _value(self, row: int, output: int, target: Format) -> float:
        turn = self._transform.turn
        weights: dict[int, Any] = {}
        divisor = self._transform.length if self._transform.inverse else 1
        for place, x in zip(self._transform.places(output).tolist(), self._rows[row].tolist(), strict=True):
            place = min(place, turn - place)
            weights[place] = weights.get(place, flint.fmpq(0)) + flint.fmpq(*x.as_integer_ratio()) / divisor
        powers = [flint.fmpq(0)] * turn
        for place, weight in weights.items():  # a cosine is the mean of two conjugate roots of unity
            powers[place] += weight / 2
            powers[-place % turn] += weight / 2
        rest = flint.fmpq_poly(powers) % flint.fmpq_poly(flint.fmpz_poly.cyclotomic(turn))
        if rest.degree() <= 0:
            value = rest[0]
            return round_rational(int(value.p), int(value.q), target)

        def ball() -> Any:
            angles = ((weight, flint.fmpq(2 * place, turn)) for place, weight in weights.items())
            return sum((flint.arb(weight) * flint.arb.cos_pi_fmpq(angle) for weight, angle in angles), flint.arb(0))

        return by_balls(ball, target)


def dft(node: Node) -> Callable[..., Any]:
    """DFT along an axis of (…, 1) real or (…, 2) complex numbers, cut off or filled with zeros to dft_length."""
    inverse, half = node.flag("inverse"), node.flag("onesided")
    fixed = node.integer("axis", 1) if node.opset < 20 else -2

    def run(x: Any, length: Any = None, axis: Any = None) -> Any:
        value = _plain(node, x)
        place = axis_of(node, fixed if axis is None else int(scalar(node, axis, "axis")), value.ndim)
        if value.ndim < 2 or place == value.ndim - 1 or value.shape[-1] not in (1, 2):
            raise node.refusal(f"input shape={value.shape}, axis={place}", "the last axis must have size 1 or 2", "O9")
        if half and (value.shape[-1] == 2) != inverse:
            raise node.refusal("onesided=1", f"needs {'complex' if inverse else 'real'} numbers", "O9")
        count = 2 * (value.shape[place] - 1) if half and inverse else value.shape[place]
        count = count if length is None else int(scalar(node, length, "dft_length"))
        moved = np.moveaxis(value, place, -2)
        transform = Transform(count, 0, value.shape[-1] == 2, inverse)
        transform = _checked(node, transform, half and not inverse, value, moved.shape[:-2])
        rows = np.zeros((math.prod(moved.shape[:-2]), count, value.shape[-1]))
        kept = min(count // 2 + 1 if half and inverse else count, moved.shape[-2])
        rows[:, :kept] = moved[..., :kept, :].reshape(len(rows), kept, -1)
        if half and inverse:
            _mirror(rows, count)
        found = transformed(rows.reshape(len(rows), -1), transform, value.dtype)
        found = found[:, :, :1] if half and inverse else found
        return np.moveaxis(found.reshape(*moved.shape[:-2], *found.shape[1:]), -2, place)

    return run


def _mirror(rows: NDArray[np.float64], count: int) -> None:
    """The second half of a spectrum of real numbers: the conjugates of the first; its ends have no imaginary part."""
    rows[:, 0, 1] = 0
    if count % 2 == 0:
        rows[:, count // 2, 1] = 0
    for k in range(1, (count + 1) // 2):
        rows[:, count - k, 0], rows[:, count - k, 1] = rows[:, k, 0], -rows[:, k, 1]


def stft(node: Node) -> Callable[..., Any]:
    """STFT: frames of the signal times the window, each sum of products rounded once."""
    half = node.flag("onesided", 1)

    def run(x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
        value = _plain(node, x)
        node.same_types(value, window)
        if value.ndim == 2:
            value = value[:, :, None]
        if value.ndim != 3 or value.shape[-1] not in (1, 2):
            raise node.refusal(f"signal shape={value.shape}", "must be (batch, samples, 1 or 2)", "O9")
        hop = int(scalar(node, step, "frame_step"))
        count = len(window) if window is not None and length is None else value.shape[1]
        count = count if length is None else int(scalar(node, length, "frame_length"))
        if window is not None and window.shape != (count,):
            raise node.refusal(f"window shape={window.shape}", f"must be {(count,)}, the frame_length", "O9")
        if hop < 1 or not 1 <= count <= value.shape[1]:
            rule = f"must be >= 1, and from 1 to the {value.shape[1]} samples"
            raise node.refusal(f"frame_step={hop}, frame_length={count}", rule, "O9")
        if half and value.shape[-1] == 2:
            raise node.refusal("onesided=1", "needs real numbers", "O9")
        frames = (value.shape[1] - count) // hop + 1
        shape = (value.shape[0], frames)
        transform = _checked(node, Transform(count, 0, value.shape[-1] == 2), half, value, shape)
        places = np.arange(frames)[:, None] * hop + np.arange(count)
        wide = value.astype(np.float64)[:, places]
        if window is not None:  # a product of two float32 numbers is exact
            wide = wide * window.astype(np.float64)[:, None]
        found = transformed(wide.reshape(math.prod(shape), -1), transform, value.dtype)
        return found.reshape(*shape, *found.shape[1:])

    return run


def _plain(node: Node, x: Any) -> NDArray[Any]:
    value = strip(x)
    if is_traced(x) or value.dtype not in (np.float32, np.float16):
        raise node.refusal(f"input dtype={value.dtype}", "must be float32 or float16, and not differentiated", "O9")
    return np.asarray(value)


def _checked(node: Node, transform: Transform, half: bool, like: Any, shape: tuple[int, ...]) -> Transform:
    """The transform with its outputs, if there is room for its table and its sums."""
    count = transform.length
    if count < 1:
        raise node.refusal(f"length={count}", "must be >= 1", "O9")
    outputs = count // 2 + 1 if half else count
    node.fits((transform.inputs, outputs, 2), np.empty(0), 24)
    node.fits((*shape, outputs, 2), like, 64)
    node.fits((*shape, transform.inputs), like, 32)
    return Transform(count, outputs, transform.complex, transform.inverse)
