"""Lifting floats to exact numbers, and rounding exact numbers to floats: once, to nearest, ties to even."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.errors import DTypeError
from halfulp.numbers import flint
from halfulp.numbers._arrays import plain, refuse_mask
from halfulp.numbers._extended import Extended
from halfulp.numbers._formats import Format, float_format, is_float


def exact(array: Any) -> NDArray[Any]:
    """Convert floats or integers to exact rationals (an object array of ``flint.fmpq``).

    >>> exact(np.array([0.5, 0.1], dtype=np.float32))
    array([1/2, 13421773/134217728], dtype=object)
    """
    values = plain("exact", "array", array)
    if values.dtype.kind == "O":
        return _filled(values.shape, [_rational(v) for v in values.ravel()])
    if values.dtype.kind in "iu":
        return _filled(values.shape, [flint.fmpq(int(v)) for v in values.ravel().tolist()])
    if not is_float(values.dtype):
        raise DTypeError("exact", f"dtype={values.dtype}", "must be a float or integer array", "I1")
    doubles = as_doubles(values)
    if not np.isfinite(doubles).all():
        where = np.argwhere(~np.isfinite(doubles))[0].tolist()
        raise DTypeError(
            "exact",
            f"value {doubles[tuple(where)]} at {tuple(where)}",
            "only finite numbers have an exact rational value",
            "X1",
        )
    return _filled(values.shape, [flint.fmpq(*v.as_integer_ratio()) for v in doubles.ravel().tolist()])


def as_doubles(array: NDArray[Any]) -> NDArray[Any]:
    """Floats of any format as doubles, which hold them all; a signalling NaN is a NaN like others, not a warning."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def on_grid(values: NDArray[Any], target: Format) -> NDArray[Any]:
    """Doubles rounded to nearest even on the grid of a narrower format, still as doubles. Overflow is left to the cast.

    A cast alone is not enough: ml_dtypes converts a double to bfloat16 by way of float32, which rounds twice.

    >>> on_grid(np.array([31040.00000001]), float_format("bfloat16"))
    array([31104.])
    """
    if target.precision == 53 and values.dtype == np.float64:
        return values
    finite = np.where(np.isfinite(values), values, 0.0)
    quantum = np.maximum(np.frexp(finite)[1] - 1, target.emin) - target.precision + 1
    grid = np.ldexp(np.rint(np.ldexp(finite, -quantum)), quantum)
    return np.where(np.isfinite(values), np.copysign(grid, values), values)


def lift(array: NDArray[Any]) -> NDArray[Any]:
    """Lift any floats, infinities, NaN and signed zeros included, to extended reals (an object array)."""
    doubles = as_doubles(array)
    return _filled(array.shape, [Extended.of(v) for v in doubles.ravel().tolist()])


def rounded(exact_array: Any, dtype: Any) -> NDArray[Any]:
    """Round exact numbers to a float dtype, each once and correctly: to nearest, ties to even.

    Takes rationals (``Fraction``, ``fmpq``, ``int``), floats, extended reals, and balls narrow enough to decide.
    Overflow gives an infinity, underflow is gradual.

    >>> rounded([Fraction(1, 3), Fraction(2) ** 128, Fraction(-1, 2**200)], np.float32)
    array([ 0.33333334,         inf, -0.        ], dtype=float32)
    """
    target = float_format(dtype)
    refuse_mask("rounded", "array", exact_array)
    values = np.asarray(exact_array) if isinstance(exact_array, np.ndarray) else np.array(exact_array, dtype=object)
    floats = [_round_one(v, target) for v in values.ravel().tolist()]
    return np.array(floats, dtype=np.float64).astype(target.dtype).reshape(values.shape)


def round_rational(numerator: int, denominator: int, target: Format) -> float:
    """The float of format ``target`` nearest to numerator / denominator (denominator > 0), as a Python float."""
    if numerator == 0:
        return 0.0
    magnitude = abs(numerator)
    # floor(log2(magnitude / denominator)) is this or one less
    exponent = magnitude.bit_length() - denominator.bit_length()
    if _scaled_less(magnitude, denominator, exponent):
        exponent -= 1
    quantum = max(exponent, target.emin) - target.precision + 1
    if quantum >= 0:
        quotient, remainder = divmod(magnitude, denominator << quantum)
        unit = denominator << quantum
    else:
        quotient, remainder = divmod(magnitude << -quantum, denominator)
        unit = denominator
    if 2 * remainder > unit or (2 * remainder == unit and quotient & 1):
        quotient += 1
    overflows = quotient.bit_length() + quantum - 1 > target.emax
    result = math.inf if overflows else math.ldexp(quotient, quantum)
    return -result if numerator < 0 else result


def round_ball(ball: flint.arb, target: Format) -> float | None:
    """The float that every number of the ball rounds to, or None if the ball does not decide it.

    Zero is a boundary too: a ball with numbers of both signs that all round to zero has no one right sign.
    """
    if not ball.is_finite():
        return None
    # An exact ball is its own end; lower() and upper() would round it to the working precision.
    ends = (ball, ball) if ball.is_exact() else (ball.lower(), ball.upper())
    low, high = (_round_dyadic(end, target) for end in ends)
    same = low == high and math.copysign(1.0, low) == math.copysign(1.0, high)
    return low if same else None


def _round_dyadic(value: flint.arb, target: Format) -> float:
    """Round an exact ball; exponents of any size are clamped to where only the sign matters."""
    mantissa, exponent = (int(part) for part in value.man_exp())
    if mantissa == 0:
        return 0.0
    top = exponent + abs(mantissa).bit_length()
    if top > target.emax + 2:
        return math.inf if mantissa > 0 else -math.inf  # the mantissa may be too long for a float
    if top < target.quantum - 2:
        return 0.0 if mantissa > 0 else -0.0
    if exponent >= 0:
        return round_rational(mantissa << exponent, 1, target)
    return round_rational(mantissa, 1 << -exponent, target)


def _scaled_less(magnitude: int, denominator: int, exponent: int) -> bool:
    """magnitude / denominator < 2**exponent."""
    if exponent >= 0:
        return magnitude < denominator << exponent
    return magnitude << -exponent < denominator


def _round_one(value: Any, target: Format) -> float:
    if isinstance(value, (float, np.floating)):
        value = Extended.of(float(value))
    if isinstance(value, Extended):
        if value.value is None or value.value == 0:
            return math.nan if math.isnan(value.special) else value.special  # one NaN, without sign and payload
        value = value.value
    if isinstance(value, flint.arb):
        result = round_ball(value, target)
        if result is None:
            raise DTypeError(
                "rounded", f"value={value}", "the ball is too wide to decide the rounding; raise flint.ctx.prec", "X3"
            )
        return result
    q = _rational(value)
    return round_rational(int(q.p), int(q.q), target)


def _rational(value: Any) -> flint.fmpq:
    """Any exact scalar, or a finite Python float, as a rational."""
    if isinstance(value, flint.fmpq):
        return value
    if isinstance(value, Fraction):
        return flint.fmpq(value.numerator, value.denominator)
    if isinstance(value, (flint.fmpz, int, np.integer)) and not isinstance(value, bool):
        return flint.fmpq(int(value))
    if isinstance(value, (float, np.floating)) and math.isfinite(value):
        return flint.fmpq(*float(value).as_integer_ratio())
    raise DTypeError("exact", f"value={value!r}", "only finite numbers have an exact rational value", "X1")


def _filled(shape: tuple[int, ...], values: list[Any]) -> NDArray[Any]:
    """An object array of this shape; NumPy is never asked to look inside the values."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)
