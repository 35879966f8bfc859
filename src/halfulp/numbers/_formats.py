"""The four floating-point formats, by the two numbers that define each."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from halfulp.errors import DTypeError


class Format(NamedTuple):
    """A binary format: ``precision`` significant bits, exponents from ``emin`` to ``emax`` (of the leading bit)."""

    dtype: np.dtype[Any]
    precision: int
    emin: int
    emax: int

    @property
    def quantum(self) -> int:
        """The exponent of the smallest subnormal number, of which every finite number is a multiple."""
        return self.emin - self.precision + 1


FORMATS: dict[str, Format] = {
    "float16": Format(np.dtype(np.float16), 11, -14, 15),
    "bfloat16": Format(np.dtype(ml_dtypes.bfloat16), 8, -126, 127),
    "float32": Format(np.dtype(np.float32), 24, -126, 127),
    "float64": Format(np.dtype(np.float64), 53, -1022, 1023),
}

_BY_DTYPE: dict[np.dtype[Any], Format] = {f.dtype: f for f in FORMATS.values()}


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of the four formats (in any byte order)."""
    return dtype in _BY_DTYPE or dtype.newbyteorder("=") in _BY_DTYPE


def float_format(dtype: Any, operator: str = "rounded") -> Format:
    """The format of a dtype.

    >>> float_format("float32").precision
    24
    """
    try:
        if isinstance(dtype, str) and dtype in FORMATS:
            return FORMATS[dtype]
        return _BY_DTYPE[np.dtype(dtype).newbyteorder("=")]
    except (KeyError, TypeError):
        raise DTypeError(operator, f"dtype={dtype!r}", "must be float16, bfloat16, float32 or float64", "X2") from None
