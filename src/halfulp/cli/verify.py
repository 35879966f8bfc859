"""``halfulp verify``: whether a network has a property, with an exit code for each answer."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfulp.errors import HalfulpError

if TYPE_CHECKING:
    from halfulp.bounds import Network, Verdict

__all__ = ["add_to"]

CODES = {"holds": 0, "violated": 1, "unknown": 3}


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "verify",
        help="prove that a network has a property, or find an input that violates it",
        description="Prove a VNN-LIB property of an ONNX model. Exit codes: 0 holds, 1 violated, 3 unknown, 2 usage.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL", help="an ONNX model")
    command.add_argument("property", nargs="?", metavar="PROPERTY", help="a .vnnlib or .vnnlib.gz file")
    command.add_argument("--arithmetic", choices=("real", "halfulp", "any-order"), default="real")
    command.add_argument("--method", choices=("ibp", "crown", "alpha-crown"), default="alpha-crown")
    command.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="seconds for each box")
    command.add_argument("--certificate", metavar="FILE", help="write the proof of a property that holds")
    command.add_argument("--json", metavar="FILE", help="write the answer as JSON; - is the standard output")
    command.add_argument("--picture", metavar="FILE.svg", help="draw the bounds of every output")
    command.add_argument("--replay", metavar="CERTIFICATE", help="check a certificate of MODEL with exact arithmetic")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answer the question."""
    try:
        if options.replay is not None:
            return _replay(options)
        if options.property is None:
            print("halfulp verify: PROPERTY is missing", file=sys.stderr)
            return 2
        return _verify(options)
    except (HalfulpError, OSError, ImportError) as error:
        print(f"halfulp verify: {error}", file=sys.stderr)
        return 2


def _replay(options: argparse.Namespace) -> int:
    import halfulp.bounds as hb
    from halfulp.errors import CertificateError

    network = hb.load(options.model)
    try:
        print(hb.replay(options.replay, network))
    except CertificateError as error:
        print(f"halfulp verify: {error}", file=sys.stderr)
        return 1
    return 0


def _verify(options: argparse.Namespace) -> int:
    import halfulp.bounds as hb

    network = hb.load(options.model)
    questions = hb.read_property(options.property, network.input_shape)
    if options.certificate and len(questions) > 1:
        print(f"halfulp verify: {len(questions)} boxes: a certificate is for one", file=sys.stderr)
        return 2
    verdicts: list[Verdict] = []
    for question in questions:
        with _Bar(f"{options.method}, {options.arithmetic}") as bar:
            verdicts.append(
                hb.verify(
                    network,
                    question.box,
                    question.property,
                    arithmetic=options.arithmetic,
                    method=options.method,
                    time_limit=options.time_limit,
                    attack_box=question.inner,
                    progress=bar.at,
                )
            )
        if verdicts[-1].status == "violated":
            break
    answer = max(verdicts, key=lambda v: ("holds", "unknown", "violated").index(v.status))
    quiet = options.json == "-"
    if not quiet:
        _print(answer, len(verdicts), network)
    if options.json:
        _write(options.json, json.dumps(_report(answer, options), indent=2) + "\n")
    if options.picture:
        from halfulp.bounds._picture import bounds_svg

        method = "ibp" if options.method == "ibp" else "crown"
        found = hb.bounds(network, questions[0].box, method, options.arithmetic)
        _write(options.picture, bounds_svg(found.lower, found.upper, title=repr(found)))
    if options.certificate and answer.status == "holds":
        answer.certificate.save(options.certificate)
    return CODES[answer.status]


def _print(answer: Verdict, boxes: int, network: Network) -> None:
    where = "real numbers" if answer.arithmetic == "real" else f"{answer.arithmetic} {network.dtype}"
    print(answer.status)
    print(f"{where}, {answer.method}, {answer.domains} domains, {boxes} boxes, {answer.seconds:.2f} s")
    if answer.status == "violated":
        print("input:", " ".join(float(v).hex() for v in answer.counterexample.reshape(-1).tolist()))
        print("output:", " ".join(str(v) for v in answer.output.reshape(-1).tolist()))
    else:
        print(f"proved margin {answer.margin:.6g}")


def _report(answer: Verdict, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {
        "status": answer.status,
        "model": options.model,
        "property": options.property,
        "arithmetic": answer.arithmetic,
        "dtype": str(answer.dtype),
        "method": answer.method,
        "margin": answer.margin if abs(answer.margin) < float("inf") else None,
        "domains": answer.domains,
        "seconds": answer.seconds,
    }
    if answer.status == "violated":
        found["counterexample"] = [float(v).hex() for v in answer.counterexample.reshape(-1).tolist()]
        found["output"] = [str(v) for v in answer.output.reshape(-1).tolist()]
    return found


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


class _Bar:
    """A progress bar on the error stream, where that is a terminal."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.progress.add_task(title, total=1.0)

    def __enter__(self) -> _Bar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def at(self, share: float) -> None:
        """Show that this share is done."""
        self.progress.update(self.task, completed=share)
