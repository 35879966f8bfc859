"""What the lab draws for each operator: one table. A family says how geometry is drawn; fields are the record's own.

The values of a family's options are *kinds*: ``"mixed"`` stands for values that differ from axis to axis. Which cases
are drawn from the table, and that every two values of two options meet, is the affair of
:mod:`halfulp.conformance.pairwise`; how a choice becomes a record with shapes, that of
:mod:`halfulp.conformance.build`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    SmoothMaxPool,
)

__all__ = ["DRAWS", "FAMILIES", "RANKS", "Draws", "Options", "options_of"]

Options = dict[str, tuple[Any, ...]]
"""Option -> its values."""

RANKS: Final = (1, 2, 3)

_STEP: Final = (1, 2, "mixed")
_PADDING: Final = ("none", "symmetric", "asymmetric", "same", "same_lower", "wide")
_KERNEL: Final = ("small", "mixed", "one")
_LAYOUT: Final = ("C", "channels_last", "negative_strides", "strided")

FAMILIES: Final[dict[str, Options]] = {
    "window": {
        "kernel_size": _KERNEL,
        "stride": ("kernel", *_STEP),
        "padding": _PADDING,
        "dilation": _STEP,
        "ceil_mode": (False, True),
    },
    "adaptive": {"output_size": ("fewer", "more", "one", "kept", "mixed")},
    "global": {"keepdims": (True, False)},
    "conv": {
        "kernel_size": _KERNEL,
        "stride": _STEP,
        "padding": _PADDING,
        "dilation": _STEP,
        "groups": (1, 2, "depthwise"),
        "bias": (True, False),
    },
    "conv_transpose": {
        "kernel_size": _KERNEL,
        "stride": _STEP,
        "padding": ("none", "symmetric", "asymmetric"),
        "output_padding": ("none", "mixed"),
        "dilation": _STEP,
        "groups": (1, 2, "depthwise"),
        "bias": (True, False),
    },
}
"""Family -> the options of its geometry. ``long`` and ``layout`` come to every one of them."""


@dataclass(frozen=True)
class Draws:
    """How the lab draws cases of one operator."""

    record: type[Any]
    family: str
    fields: Options = field(default_factory=dict)
    """Fields of the record with values that are taken as they are."""
    terms: int = 3000
    """How many terms an exact answer may have: a term is a cell of a window, counted once per window."""


_TIES: Final = ("first", "last", "all", "split")
_POLICIES: Final[Options] = {"ties": _TIES, "nan": ("propagate", "ignore")}

DRAWS: Final[dict[str, Draws]] = {
    "max_pool": Draws(MaxPool, "window", _POLICIES),
    "avg_pool": Draws(AvgPool, "window", {"count_include_pad": (True, False), "divisor_override": (None, 3, 7, -2)}),
    "smooth_max_pool": Draws(SmoothMaxPool, "window", {"beta": (1.0, 0.5, -1.0, 8.0)}, terms=260),
    "adaptive_avg_pool": Draws(AdaptiveAvgPool, "adaptive"),
    "adaptive_max_pool": Draws(AdaptiveMaxPool, "adaptive", _POLICIES),
    "global_avg_pool": Draws(GlobalAvgPool, "global"),
    "global_max_pool": Draws(GlobalMaxPool, "global", _POLICIES),
    "conv": Draws(Conv, "conv"),
    "conv_transpose": Draws(ConvTranspose, "conv_transpose"),
}
"""Operator -> how its cases are drawn."""


def options_of(operator: str, rank: int) -> Options:
    """Every option of an operator with its values, for one spatial rank.

    >>> options_of("global_avg_pool", 2)["long"]
    ('nothing', 'batch', 'channels', 'axis 0', 'axis 1')
    """
    draws = DRAWS[operator]
    axes = tuple(f"axis {i}" for i in range(rank))
    long: tuple[str, ...] = ("nothing", "batch", "channels", *axes)
    if draws.family.startswith("conv"):
        long = ("nothing", "batch", "inputs", "outputs", *axes, "kernel")
    elif draws.family == "window":
        long = (*long, "kernel")
    return {**FAMILIES[draws.family], **draws.fields, "long": long, "layout": _LAYOUT}
