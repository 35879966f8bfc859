"""Curated settings by label: the places where implementations are known to go wrong, for every operator.

The settings of :func:`corpus` come first in a campaign and do not depend on its seed; the drawn ones follow.
"""

from __future__ import annotations

import random
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, Final

from halfulp.conformance.cases import Filling, Setting, derived_seed
from halfulp.conformance.fill import FILLINGS
from halfulp.records import AvgPool, Operator, Shape, SmoothMaxPool, named

__all__ = ["corpus"]

_STRUCTURE: Final = (("integers", "negative"), ("normal", "NaN"))
"""Fillings for settings whose difficulty is the geometry; they take turns."""

_LONG: Final = ("one infinity", "overflow on the way")
"""Fillings for sums of many terms."""

_NUMBERS: Final = tuple(tuple(FILLINGS)[i : i + 4] for i in range(0, len(FILLINGS), 4))
"""Every filling once, in groups, for settings whose difficulty is the numbers."""

# (label, arguments, input shape, layout) of windowed pooling. Kernels come with a stride, so that windows overlap.
_WINDOWS: Final[tuple[tuple[str, dict[str, Any], Shape, str], ...]] = (
    ("ceil_mode, partial last window", {"kernel_size": (2, 2), "stride": 2, "ceil_mode": True}, (1, 2, 5, 5), "C"),
    (
        "ceil_mode, last window starts in the padding",
        {"kernel_size": (2,), "stride": 3, "padding": 1, "ceil_mode": True},
        (1, 2, 2),
        "C",
    ),
    (
        "ceil_mode, last window reaches beyond the padding",
        {"kernel_size": (3,), "stride": 2, "padding": 1, "ceil_mode": True},
        (2, 1, 4),
        "C",
    ),
    ("symmetric padding", {"kernel_size": (3, 3), "stride": 2, "padding": 1}, (1, 2, 4, 4), "C"),
    ("asymmetric padding", {"kernel_size": (3, 2), "stride": 1, "padding": ((0, 2), (1, 0))}, (1, 1, 3, 3), "C"),
    ("padding same_lower", {"kernel_size": (2, 3), "stride": 2, "padding": "same_lower"}, (1, 1, 3, 4), "C"),
    (
        "dilation beyond the input",
        {"kernel_size": (3,), "stride": 1, "padding": 3, "dilation": 3},
        (1, 2, 2),
        "C",
    ),
    ("dilation", {"kernel_size": (2, 3), "stride": 1, "dilation": (2, 1)}, (1, 1, 4, 4), "C"),
    ("windows all in padding", {"kernel_size": (2,), "stride": 2, "padding": 2}, (1, 2, 3), "C"),
    ("axis of size 1", {"kernel_size": (1, 3), "stride": 1}, (1, 1, 1, 5), "C"),
    ("empty batch", {"kernel_size": (2, 2)}, (0, 2, 4, 4), "C"),
    ("stride beyond the window", {"kernel_size": (2,), "stride": 3}, (1, 2, 8), "C"),
    ("channels last", {"kernel_size": (2, 2), "stride": 1}, (1, 3, 3, 4), "channels_last"),
    ("negative strides", {"kernel_size": (3,), "stride": 1}, (2, 2, 6), "negative_strides"),
    ("large window", {"kernel_size": (5, 7), "stride": 1}, (1, 1, 5, 8), "C"),
    ("many channels", {"kernel_size": (2,), "stride": 1}, (1, 67, 3), "C"),
    ("three axes", {"kernel_size": (2, 2, 2), "stride": 1, "padding": 1}, (1, 1, 2, 2, 2), "C"),
    ("long window", {"kernel_size": (33,), "stride": 2}, (1, 1, 37), "C"),
)

_ADAPTIVE: Final[tuple[tuple[str, tuple[int | None, ...], Shape, str], ...]] = (
    ("overlapping bins", (3,), (1, 2, 7), "C"),
    ("more bins than cells", (5, 4), (1, 1, 2, 3), "C"),
    ("one bin", (1, 1), (1, 2, 3, 4), "C"),
    ("a kept axis", (None, 2), (1, 1, 3, 5), "C"),
    ("axis of size 1", (2, 1), (1, 2, 1, 1), "C"),
    ("empty batch", (2,), (0, 2, 4), "C"),
    ("channels last", (2, 3), (1, 3, 4, 4), "channels_last"),
    ("negative strides", (4,), (2, 2, 9), "negative_strides"),
    ("many channels", (2,), (1, 67, 3), "C"),
    ("large bins", (2,), (1, 1, 60), "C"),
    ("three axes", (2, 1, 2), (1, 1, 3, 2, 3), "C"),
    ("long window", (2,), (1, 1, 129), "C"),
)

_GLOBAL: Final[tuple[tuple[str, int, Shape, str], ...]] = (
    ("a plane", 2, (1, 2, 3, 3), "C"),
    ("one cell", 2, (2, 2, 1, 1), "C"),
    ("empty batch", 1, (0, 2, 4), "C"),
    ("channels last", 2, (1, 3, 4, 4), "channels_last"),
    ("negative strides", 1, (2, 2, 9), "negative_strides"),
    ("many channels", 1, (1, 67, 3), "C"),
    ("large window", 1, (1, 1, 80), "C"),
    ("three axes", 3, (1, 1, 2, 3, 2), "C"),
    ("long window", 1, (1, 1, 129), "C"),
)

# (label, arguments, x, weight, bias, layout) of convolution
_CONV: Final[tuple[tuple[str, dict[str, Any], Shape, Shape, Shape | None, str], ...]] = (
    ("plain", {}, (1, 2, 4, 4), (2, 2, 3, 3), (2,), "C"),
    ("two channels in and out", {}, (1, 2, 4), (2, 2, 2), None, "C"),
    ("symmetric padding", {"padding": 1, "stride": 2}, (1, 1, 4, 4), (1, 1, 3, 3), None, "C"),
    ("asymmetric padding", {"padding": ((0, 2), (1, 0))}, (1, 1, 3, 3), (1, 1, 3, 2), (1,), "C"),
    ("padding same", {"padding": "same"}, (1, 1, 4, 3), (1, 1, 2, 3), None, "C"),
    ("dilation beyond the input", {"padding": 3, "dilation": 3}, (1, 2, 2), (1, 2, 3), None, "C"),
    ("windows all in padding", {"padding": 2, "stride": 2}, (1, 2, 3), (2, 2, 2), (2,), "C"),
    ("one tap", {}, (2, 3, 3, 2), (2, 3, 1, 1), (2,), "C"),
    ("groups", {"groups": 2}, (1, 4, 5), (2, 2, 3), (2,), "C"),
    ("depthwise", {"groups": 3, "padding": 1}, (1, 3, 3, 3), (3, 1, 3, 3), None, "C"),
    ("axis of size 1", {"padding": 1}, (1, 1, 1, 1), (2, 1, 3, 3), (2,), "C"),
    ("empty batch", {}, (0, 2, 4), (2, 2, 2), (2,), "C"),
    ("channels last", {}, (1, 3, 3, 4), (2, 3, 2, 2), None, "channels_last"),
    ("negative strides", {}, (2, 2, 6), (1, 2, 3), None, "negative_strides"),
    ("many channels", {}, (1, 129, 3), (1, 129, 2), None, "C"),
    ("three axes", {"padding": 1}, (1, 1, 2, 2, 2), (1, 1, 2, 2, 2), (1,), "C"),
    ("long window", {}, (1, 1, 35), (1, 1, 33), None, "C"),
)

_CONV_TRANSPOSE: Final[tuple[tuple[str, dict[str, Any], Shape, Shape, Shape | None, str], ...]] = (
    ("plain", {}, (1, 2, 3, 3), (2, 2, 2, 2), (2,), "C"),
    ("two channels in and out", {}, (1, 2, 4), (2, 2, 2), None, "C"),
    ("stride", {"stride": 2}, (1, 1, 2, 3), (1, 1, 3, 3), None, "C"),
    ("padding", {"stride": 2, "padding": 1}, (1, 1, 3, 3), (1, 1, 3, 3), (1,), "C"),
    ("output padding", {"stride": 3, "output_padding": 2}, (1, 1, 3), (1, 2, 2), (2,), "C"),
    ("dilation", {"dilation": 2}, (1, 2, 3), (2, 1, 3), None, "C"),
    ("asymmetric padding", {"stride": 2, "padding": ((0, 1),)}, (1, 1, 4), (1, 1, 3), None, "C"),
    ("groups", {"groups": 2}, (1, 4, 3), (4, 1, 2), (2,), "C"),
    ("stride beyond the kernel", {"stride": 3}, (1, 1, 3), (1, 1, 2), (1,), "C"),
    ("empty batch", {}, (0, 2, 4), (2, 2, 2), (2,), "C"),
    ("channels last", {}, (1, 3, 2, 3), (3, 2, 2, 2), None, "channels_last"),
    ("negative strides", {}, (2, 2, 4), (2, 1, 3), None, "negative_strides"),
    ("many channels", {}, (1, 129, 2), (129, 1, 2), None, "C"),
    ("three axes", {"stride": 2}, (1, 1, 2, 1, 2), (1, 1, 2, 2, 2), (1,), "C"),
    ("long window", {}, (1, 1, 5), (1, 1, 33), None, "C"),
)


@lru_cache(maxsize=64)
def corpus(operator: str) -> tuple[Setting, ...]:
    """The curated settings of an operator.

    >>> corpus("max_pool")[0].label
    'ceil_mode, partial last window'
    """
    structure = [
        Setting(
            op, shapes, _fillings(label, _LONG if label == "long window" else _STRUCTURE[number % 2]), label, layout
        )
        for number, (label, op, shapes, layout) in enumerate(_entries(operator))
    ]
    plain = _plain(operator)
    numbers = [
        Setting(op, shapes, _fillings(f"numbers {i}", group), "overlapping windows" if i else "plain numbers")
        for i, group in enumerate(_NUMBERS)
        for op, shapes in [plain]
    ]
    return (*structure[:2], *numbers, *structure[2:])


def _fillings(label: str, kinds: tuple[str, ...]) -> tuple[Filling, ...]:
    return tuple(Filling(kind, derived_seed("corpus", label, kind)) for kind in kinds)


def _entries(operator: str) -> list[tuple[str, Operator, tuple[Shape | None, ...], str]]:
    """(label, record, input shapes, layout) of an operator's structural settings."""
    family = named(operator).draw.family
    if family in ("conv", "conv_transpose"):
        table = _CONV if family == "conv" else _CONV_TRANSPOSE
        return [
            (label, made(operator, ndim=len(weight) - 2, **arguments), (x, weight, bias), layout)
            for label, arguments, x, weight, bias, layout in table
        ]
    if family == "adaptive":
        return [(label, made(operator, output_size=n), (shape,), layout) for label, n, shape, layout in _ADAPTIVE]
    if family == "global":
        return [(label, made(operator, ndim=ndim), (shape,), layout) for label, ndim, shape, layout in _GLOBAL]
    if family != "window":
        return []
    entries = [(label, made(operator, **arguments), (shape,), layout) for label, arguments, shape, layout in _WINDOWS]
    return [*entries, *_extra(operator)]


def _extra(operator: str) -> list[tuple[str, Operator, tuple[Shape, ...], str]]:
    """Settings that only one windowed operator has."""
    if operator == "avg_pool":
        window: dict[str, Any] = {"kernel_size": (3,), "stride": 2, "padding": 1, "ceil_mode": True}
        return [
            ("padding not counted", AvgPool(**window, count_include_pad=False), ((1, 2, 4),), "C"),
            ("divisor of its own", AvgPool(**window, divisor_override=7), ((1, 2, 4),), "C"),
        ]
    if named(operator).has_ties:
        overlapping: dict[str, Any] = {"kernel_size": (3,), "stride": 1, "padding": 1}
        return [
            (f"ties={ties}, nan={nan}", made(operator, **overlapping, ties=ties, nan=nan), ((1, 2, 5),), "C")
            for ties, nan in (("last", "propagate"), ("all", "ignore"), ("split", "propagate"))
        ]
    if operator != "smooth_max_pool":
        return []
    return [
        ("sharp and negative beta", SmoothMaxPool((2, 2), beta=-20.0, stride=1), ((1, 1, 3, 3),), "C"),
    ]


def made(operator: str, **arguments: Any) -> Operator:
    """A record with these arguments; a field that has no default gets the first value that is drawn for it."""
    declaration = named(operator)
    needed = [f.name for f in fields(declaration.record) if f.default is MISSING and f.name not in arguments]
    return declaration.record(**{name: declaration.draw.choices[name][0] for name in needed}, **arguments)


def _plain(operator: str) -> tuple[Operator, tuple[Shape | None, ...]]:
    """A setting without any difficulty of its own, whose windows overlap."""
    family = named(operator).draw.family
    if callable(family):
        return family(random.Random(0).choice)
    if family == "conv":
        return made(operator, ndim=1), ((1, 2, 8), (1, 2, 3), (1,))
    if family == "conv_transpose":
        return made(operator, ndim=1), ((1, 2, 6), (2, 1, 3), (1,))
    if family == "adaptive":
        return made(operator, output_size=(5,)), ((1, 1, 12),)
    if family == "global":
        return made(operator, ndim=1), ((2, 4, 4),)
    return made(operator, kernel_size=(3,), stride=1), ((1, 2, 8),)
