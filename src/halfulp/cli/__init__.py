"""The command line: ``halfulp check``, ``show``, ``explain``, ``run``, ``verify``, ``pyramid`` and ``completion``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from halfulp.cli import check, completion, explain, pyramid, show, verify
from halfulp.cli import run as run_
from halfulp.cli._words import Parser, print_in_any_encoding

__all__ = ["main"]


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    from halfulp import __version__

    top = Parser(
        prog="halfulp",
        description="Check, draw and run convolution and pooling with exact results.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"halfulp {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (check, show, explain, run_, verify, pyramid, completion):
        command.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the exit code.

    >>> main(["explain", "I3", "W3"])
    I3  the operator gets the number of inputs that it takes
    W3  every stride is an integer >= 1
    0
    """
    print_in_any_encoding()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser().print_help(sys.stderr)
        return 2
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        print("halfulp: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
