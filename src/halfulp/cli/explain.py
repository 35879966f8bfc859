"""``halfulp explain``: a constraint of the specification in words, with an error that breaks it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from halfulp.errors import CONSTRAINTS, HalfulpError

__all__ = ["add_to"]

_GROUPS = {
    "W": "windows",
    "I": "inputs",
    "P": "policies",
    "A": "average",
    "S": "smooth maximum",
    "D": "adaptive pooling",
    "G": "global pooling",
    "C": "convolution",
    "T": "transposed convolution",
    "X": "exact numbers",
    "E": "the tape",
    "B": "the PyTorch bridge",
    "O": "ONNX models",
}


def _examples() -> dict[str, tuple[str, Callable[[], object]]]:
    """Label -> (a call that breaks the constraint, the call itself)."""
    import numpy as np

    import halfulp as hu

    x = np.zeros((1, 4, 4))
    return {
        "W1": ("hu.MaxPool((0, 2))", lambda: hu.MaxPool((0, 2))),
        "W2": ("hu.MaxPool((2, 2), padding=-1)", lambda: hu.MaxPool((2, 2), padding=-1)),
        "W3": ("hu.MaxPool((2, 2), stride=(0, 1))", lambda: hu.MaxPool((2, 2), stride=(0, 1))),
        "W4": ("hu.MaxPool((2, 2), dilation=0)", lambda: hu.MaxPool((2, 2), dilation=0)),
        "W5": ("hu.MaxPool((9, 9))(x)", lambda: hu.MaxPool((9, 9))(x)),
        "W6": ("hu.MaxPool((2, 2), stride=(1, 1, 1))", lambda: hu.MaxPool((2, 2), stride=(1, 1, 1))),
        "W7": ("hu.MaxPool((2, 2))(x[0, 0])", lambda: hu.MaxPool((2, 2))(x[0, 0])),
        "I1": ("hu.AvgPool((2, 2))(x.astype(int))", lambda: hu.AvgPool((2, 2))(x.astype(int))),
        "P1": ('hu.MaxPool((2, 2), ties="random")', lambda: hu.MaxPool((2, 2), ties="random")),
        "P2": ('hu.MaxPool((2, 2), nan="skip")', lambda: hu.MaxPool((2, 2), nan="skip")),
        "P3": ('hu.MaxPool((2, 2), nan="raise")(x * nan)', lambda: hu.MaxPool((2, 2), nan="raise")(x * np.nan)),
        "P4": ('hu.Conv(2, precision="sloppy")', lambda: hu.Conv(2, precision="sloppy")),
        "A1": ("hu.AvgPool((2, 2), divisor_override=0)", lambda: hu.AvgPool((2, 2), divisor_override=0)),
        "S1": ("hu.SmoothMaxPool((2, 2), beta=0.0)", lambda: hu.SmoothMaxPool((2, 2), beta=0.0)),
        "D1": ("hu.AdaptiveAvgPool((0, 2))", lambda: hu.AdaptiveAvgPool((0, 2))),
        "G1": ("hu.GlobalAvgPool(0)", lambda: hu.GlobalAvgPool(0)),
        "C1": ("hu.Conv(3)(x, np.zeros((1, 1, 1, 1, 1)))", lambda: hu.Conv(3)(x, np.zeros((1, 1, 1, 1, 1)))),
        "C3": ("hu.Conv(2, groups=0)", lambda: hu.Conv(2, groups=0)),
        "C4": ("hu.Conv(2)(x, np.zeros((1, 2, 1, 1)))", lambda: hu.Conv(2)(x, np.zeros((1, 2, 1, 1)))),
        "T1": ("hu.ConvTranspose(2, output_padding=1)", lambda: hu.ConvTranspose(2, output_padding=1)),
    }


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "explain",
        help="print a constraint of the specification",
        description="Print the constraint behind a label such as W3, as error messages show it in brackets.",
    )
    command.add_argument("labels", nargs="*", metavar="LABEL", help="labels or letters; without any, all constraints")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the constraints asked for."""
    if not options.labels:
        for letter in dict.fromkeys(label.rstrip("0123456789") for label in CONSTRAINTS):
            print(f"{_GROUPS.get(letter, letter)}:")
            _print_all(letter)
        return 0
    for given in options.labels:
        label = given.strip("[]").upper()
        if any(known.rstrip("0123456789") == label for known in CONSTRAINTS):
            _print_all(label)
        elif label in CONSTRAINTS:
            _print_one(label, alone=len(options.labels) == 1)
        else:
            known = ", ".join(CONSTRAINTS)
            print(f"halfulp explain: there is no constraint {given}; labels are {known}", file=sys.stderr)
            return 2
    return 0


def _print_all(letter: str) -> None:
    for label, rule in CONSTRAINTS.items():
        if label.rstrip("0123456789") == letter:
            print(f"  {label:3} {rule}")


def _print_one(label: str, alone: bool) -> None:
    print(f"{label}  {CONSTRAINTS[label]}")
    example = _examples().get(label)
    if example is None or not alone:
        return
    text, call = example
    try:
        call()
    except HalfulpError as error:
        print(f"\n    >>> {text}\n    {type(error).__name__}: {error}")
