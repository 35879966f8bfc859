"""``halfulp check``: grade backends against the exact answer."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfulp.cli._words import at_least, check_writable, operator_name, positive_seconds, refuse, suggestion

if TYPE_CHECKING:
    from rich.console import Console

    from halfulp.conformance import Result

__all__ = ["add_to"]

_positive = partial(at_least, 1)
_natural = partial(at_least, 0)

_DESCRIPTION = """\
Compare backends with the exact, correctly rounded answer: shapes, values, NaN
and tie rules, derivatives, and reproducibility. Without a SUBJECT, halfulp
itself is checked."""

_EPILOG = """\
subjects:
  halfulp, torch, torch-compile, torch-channels-last, jax, onnxruntime,
  openvino, numpy-naive
  module:object   a backend of your own: a function f(op, *inputs) -> array,
                  with optional jvp and vjp
  onnx:module     an ONNX backend: a module with run_model or prepare

  with --mode bounds: halfulp, halfulp-ibp, halfulp-alpha-crown, maraboupy,
  auto_LiRPA, auto_LiRPA-ibp, and module:function for your own verifier:
  bounds(model_path, lower, upper) -> (lower, upper)

examples:
  halfulp check                                   halfulp itself, in under a minute
  halfulp check torch jax --report report.html    two frameworks side by side
  halfulp check torch --op conv --mode vjp --dtype float32 --cases 2000
  halfulp check my_kernels:backend --fail-on "shape,nan,ties,ulps>2"
  halfulp check --mode bounds maraboupy my_verifier:bounds --cases 200
  halfulp check --compare old.json new.json       what changed between two runs

classes of findings:
  wrong        a value, index, shape or NaN that no reading of the rules allows
  convention   another defensible rule, such as the winner of a tie
  rounding     the right value, not correctly rounded

exit code: 0 if every subject passes, 1 if one fails (also if it answers no
case), 2 for a mistake in the command line or in a file, 130 if interrupted"""


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
    _what(command.add_argument_group("what is checked"))
    _how(command.add_argument_group("how"))
    _output(command.add_argument_group("output"))
    command.set_defaults(run=run, parser=command)


def _what(group: Any) -> None:
    group.add_argument(
        "--op", "--operator", action="append", metavar="NAME", help="only this operator (repeatable, or with commas)"
    )
    group.add_argument(
        "--declare", action="append", metavar="MODULE", help="a module that declares operators of your own (repeatable)"
    )
    group.add_argument(
        "--mode", action="append", metavar="MODE", help="forward, jvp or vjp (repeatable); or bounds, for verifiers"
    )
    group.add_argument("--dtype", action="append", metavar="DTYPE", help="only this element type (repeatable)")
    group.add_argument(
        "--cases",
        type=_positive,
        default=200,
        metavar="N",
        help="cases per operator, mode and element type (default %(default)s)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the drawn cases (default %(default)s)")
    group.add_argument(
        "--replay", action="append", metavar="CASE", help="only print this case, such as conv/vjp/float32/60.0"
    )
    group.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("OLD", "NEW"),
        help="run nothing: show what changed between two reports written with --json",
    )
    group.add_argument(
        "--fail-on",
        metavar="WORDS",
        help="what makes a subject fail, comma-separated: classes (wrong, convention, rounding), aspects (shape, "
        "value, padding, nan, infinity, zero, ties, adjoint, reproducible, error), ulps>N for larger rounding errors "
        "only, unsupported, any, none (default: wrong; any for a subject that claims to be complete, as halfulp does)",
    )


def _how(group: Any) -> None:
    cores = os.cpu_count() or 1
    group.add_argument(
        "--jobs",
        type=_natural,
        default=min(cores, 8),
        metavar="N",
        help="processes (default %(default)s); 0 runs without isolation",
    )
    group.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://host:8786")
    group.add_argument(
        "--time-limit", type=positive_seconds, metavar="S", help="start no new work after this many seconds"
    )
    group.add_argument(
        "--case-timeout",
        type=positive_seconds,
        default=60.0,
        metavar="S",
        help="a case that takes longer counts as a hang (default %(default)s)",
    )
    group.add_argument(
        "--memory-limit", type=_positive, metavar="MiB", help="address space of a process (not on Windows)"
    )
    group.add_argument("--journal", type=Path, metavar="FILE", help="save finished work here, and continue from it")


def _output(group: Any) -> None:
    group.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    group.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML, for a CI system")
    group.add_argument("--report", type=Path, metavar="FILE", help="write a single-file HTML report")
    group.add_argument("--markdown", type=Path, metavar="FILE", help="write the comparison as a Markdown table")
    group.add_argument("--scripts", type=Path, metavar="FOLDER", help="write every reproducer to a file of its own")
    group.add_argument(
        "--show", type=_natural, default=3, metavar="N", help="reproducers to print per subject (default %(default)s)"
    )
    group.add_argument("--quiet", action="store_true", help="print only the last line of each subject")


def run(options: argparse.Namespace) -> int:
    """Run the campaign that the options describe."""
    from rich.console import Console

    from halfulp.conformance import SubjectError
    from halfulp.conformance.report.terminal import print_result

    console = Console()
    try:
        if options.replay:
            from halfulp.cli.replay import replay

            refuse(options, "--replay", ("replay", "subjects", "seed", "declare"))
            _declared(options)
            return replay(options.subjects, options.replay, options.seed)
        if options.compare:
            refuse(options, "--compare", ("compare",))
            return _compare(options.compare[0], options.compare[1], console)
        _refuse_idle(options)
        _writable(options)
        if _bounds_asked(options.mode):
            from halfulp.conformance.bounds.command import run as run_bounds

            return run_bounds(options, console)
        result = _campaign(options, console)
        _write(result, options)
    except (SubjectError, ValueError) as error:
        print(f"halfulp check: {error}", file=sys.stderr)
        return 2
    print_result(result, console, options.show, options.quiet)
    return 0 if result.passed else 1


def _writable(options: argparse.Namespace) -> None:
    """Refuse files that cannot be written before the work, and not after it."""
    for flag in ("json", "junit", "report", "markdown", "journal"):
        path: Path | None = getattr(options, flag)
        if path is not None:
            check_writable(f"--{flag}", path)
    if options.scripts is not None and options.scripts.exists() and not options.scripts.is_dir():
        raise ValueError(f"--scripts {options.scripts}: is a file; give the name of a folder")


def _refuse_idle(options: argparse.Namespace) -> None:
    """Refuse options that would do nothing beside others."""
    if options.jobs == 0:
        refuse(options, "--jobs 0, which has no processes to limit", None, "memory_limit", "case_timeout")
    if options.scheduler is not None:
        refuse(options, "--scheduler", None, "jobs")
    if options.quiet:
        refuse(options, "--quiet", None, "show")


def _compare(old: Path, new: Path, console: Console) -> int:
    """Print what changed between two reports; 1 if something that was right is wrong now."""
    import json

    from halfulp.conformance.report.changes import changes, changes_table
    from halfulp.conformance.report.data import from_json

    reports = []
    for path in (old, new):
        try:
            reports.append(from_json(json.loads(path.read_text(encoding="utf-8"))))
        except OSError as error:
            raise ValueError(f"--compare {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"--compare {path}: not a report written with --json ({error})") from error
    before, after = reports
    if not set(before.names()) & set(after.names()):
        raise ValueError(f"--compare: {old} and {new} have no subject in common")
    console.print(changes_table(before, after))
    worse = [change for change in changes(before, after) if change.worse]
    console.print(f"{len(worse)} new {'failure' if len(worse) == 1 else 'failures'} of class wrong")
    return int(bool(worse))


def _bounds_asked(modes: list[str] | None) -> bool:
    """Whether verifiers are to be graded: the only mode then, since their subjects are others."""
    return {word for item in modes or [] for word in item.split(",")} == {"bounds"}


def _declared(options: argparse.Namespace) -> tuple[str, ...]:
    """Import the modules that declare operators of the user, and check the laws of these operators."""
    from halfulp.conformance import laws
    from halfulp.conformance.units import import_modules
    from halfulp.errors import HalfulpError
    from halfulp.records import declarations

    declare = tuple(options.declare or ())
    before = {declaration.record for declaration in declarations()}
    try:
        import_modules(declare)
        for declaration in [d for d in declarations() if d.record not in before]:
            laws.check(declaration.record)
    except (ImportError, HalfulpError, TypeError) as error:
        raise ValueError(f"--declare {' '.join(declare)}: {error}") from error
    return declare


def _campaign(options: argparse.Namespace, console: Console) -> Result:
    from halfulp.conformance import Demand, Plan, check
    from halfulp.conformance.cases import DTYPES, MODES, OPERATORS, known
    from halfulp.conformance.report.progress import live_progress

    declare = _declared(options)
    for word in options.subjects:
        if operator_name(word) in known():
            raise ValueError(f"{word!r} is an operator, not a subject; write --op {word}")
    own = [name for name in known() if name not in OPERATORS]
    plan = Plan(
        _chosen("--op", [operator_name(word) for word in _words(options.op)] or own, known()),
        _chosen("--mode", options.mode, MODES),
        _chosen("--dtype", options.dtype, DTYPES),
        options.cases,
        options.seed,
        declare=declare,
    )
    demand = Demand() if options.fail_on is None else Demand.parse(options.fail_on)
    with live_progress(console, options.quiet) as progress:
        return check(
            options.subjects,
            plan,
            demand,
            jobs=options.jobs,
            journal=options.journal,
            scheduler=options.scheduler,
            time_limit=options.time_limit,
            case_timeout=options.case_timeout,
            memory_limit=None if options.memory_limit is None else options.memory_limit << 20,
            progress=progress,
        )


def _write(result: Result, options: argparse.Namespace) -> None:
    """Every file that was asked for."""
    if options.json:
        from halfulp.conformance.report.data import write_json

        write_json(result, options.json)
    if options.junit:
        from halfulp.conformance.report.junit import write_junit

        write_junit(result, options.junit)
    if options.report:
        from halfulp.conformance.report.html import write_html

        write_html(result, options.report)
    if options.markdown:
        from halfulp.conformance.report.markdown import to_markdown

        options.markdown.write_text(to_markdown(result), encoding="utf-8")
    if options.scripts:
        from halfulp.conformance.report.scripts import write_scripts

        write_scripts(result, options.scripts)


def _chosen(flag: str, given: list[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The values of a repeatable option; commas work too."""
    asked = _words(given)
    if not asked:
        return known
    plain = {name.replace("_", ""): name for name in known}
    asked = [plain.get(word.replace("_", ""), word) for word in asked]
    for word in asked:
        if word not in known:
            raise ValueError(f"{flag} {word}{suggestion(word, known)}: must be one of {', '.join(known)}")
    return tuple(word for word in known if word in asked)


def _words(given: list[str] | None) -> list[str]:
    return [word for item in given or [] for word in item.split(",")]
