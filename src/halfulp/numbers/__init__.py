"""Numbers: floating-point formats, exact rationals and extended reals, and the one correct rounding between them."""

from halfulp.numbers._arrays import plain, refuse_mask
from halfulp.numbers._extended import Extended
from halfulp.numbers._factors import factors
from halfulp.numbers._formats import FORMATS, Format, float_format, is_float
from halfulp.numbers._rounding import as_doubles, exact, lift, on_grid, round_ball, round_rational, rounded

__all__ = [
    "FORMATS",
    "Extended",
    "Format",
    "as_doubles",
    "exact",
    "factors",
    "float_format",
    "is_float",
    "lift",
    "on_grid",
    "plain",
    "refuse_mask",
    "round_ball",
    "round_rational",
    "rounded",
]
