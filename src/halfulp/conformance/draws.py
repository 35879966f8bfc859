"""What the lab draws for each operator: its declaration names a family, which says how geometry is drawn, and choices
for fields of its own.

The values of a family's options are *kinds*: ``"mixed"`` stands for values that differ from axis to axis.
:mod:`halfulp.conformance.pairwise` chooses the cases, so that every two values of two options meet.
:mod:`halfulp.conformance.build` makes a record with shapes of a choice.
"""

from __future__ import annotations

from typing import Any, Final

from halfulp.records import Draw, named

__all__ = ["FAMILIES", "RANKS", "Options", "draws_of", "options_of"]

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


def draws_of(operator: str) -> Draw:
    """What an operator's declaration says about its cases.

    >>> draws_of("max_pool").family
    'window'
    """
    return named(operator).draw


def options_of(operator: str, rank: int) -> Options:
    """Every option of an operator with its values, for one spatial rank.

    >>> options_of("global_avg_pool", 2)["long"]
    ('nothing', 'batch', 'channels', 'axis 0', 'axis 1')
    """
    draws = draws_of(operator)
    axes = tuple(f"axis {i}" for i in range(rank))
    long: tuple[str, ...] = ("nothing", "batch", "channels", *axes)
    if callable(draws.family):
        return {**draws.choices, "long": ("nothing",), "layout": _LAYOUT}
    if draws.family.startswith("conv"):
        long = ("nothing", "batch", "inputs", "outputs", *axes, "kernel")
    elif draws.family == "window":
        long = (*long, "kernel")
    return {**FAMILIES[draws.family], **draws.choices, "long": long, "layout": _LAYOUT}
