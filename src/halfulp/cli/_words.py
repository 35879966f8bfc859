"""Helpers of all commands: suggestions, numbers, files, and terminals without Unicode."""

from __future__ import annotations

import argparse
import codecs
import difflib
import io
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = [
    "Parser",
    "at_least",
    "check_writable",
    "operator_name",
    "positive_seconds",
    "print_in_any_encoding",
    "refuse",
    "suggestion",
]

_PLAIN = {"✓": "y", "✗": "x", "–": "-", "—": "-", "±": "+-", "…": "...", "·": "-", "×": "x", "≤": "<=", "≥": ">="}
_PLAIN |= {"→": "->", "²": "^2", "ᵀ": "^T", "━": "=", "─": "-", "│": "|", "█": "#", "╸": "-", "╺": "-", "•": "*"}


def refuse(options: argparse.Namespace, flag: str, allowed: tuple[str, ...] | None = None, *refused: str) -> None:
    """Refuse the options that do nothing beside ``flag``: all that are not ``allowed``, or those named ``refused``."""
    parser: argparse.ArgumentParser = options.parser
    given = [a for a in parser._actions if getattr(options, a.dest, a.default) != a.default]
    useless = [a for a in given if (a.dest in refused if allowed is None else a.dest not in allowed)]
    if useless:
        names = ", ".join(max(a.option_strings, key=len) if a.option_strings else str(a.metavar) for a in useless)
        raise ValueError(f"{names}: cannot be used with {flag}")


class Parser(argparse.ArgumentParser):
    """A parser that suggests the word that was probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            kind = "command" if action.dest == "command" else action.metavar or action.dest
            raise argparse.ArgumentError(
                None, f"there is no {kind} {value!r}{suggestion(str(value), known)}; known are {', '.join(known)}"
            )


def suggestion(word: str, known: Iterable[str]) -> str:
    """A remark in brackets that names the closest known word; empty if none is close.

    >>> suggestion("pytorch", ["torch", "jax"])
    " (did you mean 'torch'?)"
    >>> suggestion("x", ["torch", "jax"])
    ''
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def operator_name(word: str) -> str:
    """The name of an operator from its function or class.

    >>> operator_name("max_pool2d"), operator_name("MaxPool"), operator_name("AvgPool2d"), operator_name("conv")
    ('max_pool', 'max_pool', 'avg_pool', 'conv')
    """
    plain = re.sub(r"[1-9]d$", "", word)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", plain).lower()


def at_least(least: int, text: str) -> int:
    """An integer of the command line."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text}: must be an integer of at least {least}")
    return number


def positive_seconds(text: str) -> float:
    """A time of the command line."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a number of seconds above 0")
    return seconds


def check_writable(flag: str, path: Path) -> None:
    """Refuse a file that cannot be written before the work, and not after it."""
    folder = path.absolute().parent
    if path.is_dir():
        raise ValueError(f"{flag} {path}: is a folder; give the name of a file")
    if not folder.is_dir():
        raise ValueError(f"{flag} {path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ValueError(f"{flag} {path}: cannot be written; check the permissions")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in text), error.end


def print_in_any_encoding() -> None:
    """From now on, what a terminal cannot show is printed in ASCII."""
    codecs.register_error("halfulp", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="halfulp")
