"""``halfulp check``: grade backends against the exact answer."""

from __future__ import annotations

import argparse
import sys
from typing import Any

__all__ = ["add_to"]

_DESCRIPTION = """\
Compare backends with the exact, correctly rounded answer: shapes, values, NaN and tie rules, derivatives, and
reproducibility. Without a SUBJECT, halfulp itself is checked."""

_EPILOG = """\
subjects: halfulp, torch, torch-compile, torch-channels-last, jax, onnxruntime, openvino, numpy-naive, and
module:object for a backend of your own: a function f(op, *inputs) -> array, with optional jvp and vjp.

exit code: 0 if every subject meets what --fail-on asks, 1 if not, 2 for a wrong command line, 130 if interrupted."""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "check",
        help="grade backends against the exact answer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("subjects", nargs="*", metavar="SUBJECT", default=["halfulp"], help="what to check")
    command.add_argument("--op", action="append", metavar="NAME", help="only this operator (repeatable)")
    command.add_argument("--mode", action="append", metavar="MODE", help="forward, jvp or vjp (repeatable)")
    command.add_argument("--dtype", action="append", metavar="DTYPE", help="only this element type (repeatable)")
    command.add_argument(
        "--cases", type=int, default=100, metavar="N", help="cases per operator, mode and dtype (%(default)s)"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the drawn cases (%(default)s)")
    command.add_argument(
        "--fail-on", default="any", metavar="WORDS", help="aspects that must hold, comma-separated (%(default)s)"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the campaign that the options describe."""
    from rich.console import Console

    from halfulp.conformance import Demand, Plan, SubjectError, check
    from halfulp.conformance.cases import DTYPES, MODES, OPERATORS
    from halfulp.conformance.report.terminal import print_result

    try:
        plan = Plan(
            _chosen("--op", options.op, OPERATORS),
            _chosen("--mode", options.mode, MODES),
            _chosen("--dtype", options.dtype, DTYPES),
            options.cases,
            options.seed,
        )
        result = check(options.subjects, plan, Demand.parse(options.fail_on))
    except (SubjectError, ValueError) as error:
        print(f"halfulp check: {error}", file=sys.stderr)
        return 2
    print_result(result, Console())
    return 0 if result.passed else 1


def _chosen(flag: str, given: list[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The values of a repeatable option; commas work too."""
    if not given:
        return known
    asked = [word for item in given for word in item.split(",")]
    for word in asked:
        if word not in known:
            raise ValueError(f"{flag} {word}: must be one of {', '.join(known)}")
    return tuple(word for word in known if word in asked)
