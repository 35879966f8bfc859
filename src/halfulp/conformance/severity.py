"""How bad a finding is: wrong, a rounding error, or another defensible rule."""

from __future__ import annotations

from typing import Final

from halfulp.conformance.diagnosis import EITHER
from halfulp.conformance.verdict import CANCELLATION, EMPTY_WINDOW, NOT_REPEATABLE, ROUNDING_NAMES

__all__ = ["SEVERITIES", "severity"]

SEVERITIES: Final[dict[str, str]] = {
    "wrong": "a value, index, shape or NaN that no reading of the rules allows, or no answer at all",
    "convention": "another defensible rule: ties, NaN, empty windows, padding times infinity, the sign of zero",
    "rounding": "the right value, but not rounded correctly, or not always in the same way",
}
"""Severity -> what it means, the worst first."""

_CONVENTIONS: Final = {
    "among several NaNs the last wins the derivative",
    "ceil_mode keeps a last window that starts past the input",
    "every tied maximum gets the full cotangent",
    "NaN is ignored",
    "NaN is propagated",
    "padding counts as zero, times the weight",
    "the index is not that of the first NaN",
    "the index is that of the first maximum",
    "the index is that of the last maximum",
    "the sign of zero is wrong",
    "tied maxima share the cotangent",
    "ties go to the first maximum",
    "ties go to the last maximum",
}


def severity(aspect: str, name: str) -> str:
    """The class of a finding, from its aspect and name.

    >>> [severity("value", "one ulp off"), severity("shape", "wrong shape"), severity("nan", "NaN is ignored")]
    ['rounding', 'wrong', 'convention']
    """
    classes = {_severity(aspect, part) for part in name.split(EITHER)}
    return next(known for known in SEVERITIES if known in classes)


def _severity(aspect: str, name: str) -> str:
    if name in _CONVENTIONS or name.startswith(EMPTY_WINDOW):
        return "convention"
    if name == CANCELLATION or name.startswith(ROUNDING_NAMES):
        return "rounding"
    if aspect == "reproducible" and name != NOT_REPEATABLE:
        return "rounding"
    return "wrong"
