"""``halfulp run``: run an ONNX model, and name the first node for which a runtime gives another answer."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfulp.cli._node_times import node_times, print_times, report_of
from halfulp.cli._words import at_least, check_writable
from halfulp.errors import HalfulpError

if TYPE_CHECKING:
    from halfulp.conformance.models import NodeResult

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "run",
        help="run an ONNX model with correctly rounded nodes, and compare a runtime with it",
        description="Run an ONNX model, every node correctly rounded. With --compare, every node is also given the "
        "runtime's own inputs, and the first one whose output differs is named. Exit codes: 0 done and equal, "
        "1 a node differs, 2 usage.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL", help="an ONNX model")
    command.add_argument(
        "--input", action="append", default=[], metavar="[NAME=]FILE.npy", help="an input; the others are drawn"
    )
    command.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224", help="the shape of a drawn input"
    )
    command.add_argument("--seed", type=partial(at_least, 0), default=0, help="of drawn inputs (default: 0)")
    command.add_argument("--output", type=Path, metavar="FOLDER", help="write every output there as NAME.npy")
    command.add_argument("--compare", metavar="RUNTIME", help="onnxruntime, reference, or a module with run_model")
    command.add_argument(
        "--tolerance",
        type=partial(at_least, 0),
        default=0,
        metavar="ULPS",
        help="differences up to this are no findings",
    )
    command.add_argument("--script", type=Path, metavar="FOLDER", help="write a script for the first node that differs")
    command.add_argument(
        "--profile",
        type=partial(at_least, 1),
        nargs="?",
        const=5,
        metavar="RUNS",
        help="print the time of every operator and of the slowest nodes, the best of some runs (default: 5)",
    )
    command.add_argument("--json", metavar="FILE", help="write the result as JSON; - is the standard output")
    command.add_argument(
        "--max-bytes", type=partial(at_least, 1), default=1 << 32, help="limit of all values in memory"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the model, and compare."""
    from halfulp.conformance.subjects import SubjectError

    try:
        if options.json and options.json != "-":
            check_writable("--json", Path(options.json))
        if options.script and not options.compare:
            raise ValueError("--script: is written by --compare")
        return _run(options)
    except (HalfulpError, SubjectError, OSError, ImportError, ValueError) as error:
        print(f"halfulp run: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    import halfulp.onnx
    from halfulp.cli.verify import _Bar
    from halfulp.conformance.models import draw_inputs, load_runtime, read_inputs

    runtime = load_runtime(options.compare) if options.compare else None
    model = halfulp.onnx.load(options.model, max_bytes=options.max_bytes)
    inputs = draw_inputs(model, read_inputs(model, options.input), _shapes(options.shape, model), options.seed)
    count = len(model._program.steps)
    started = time.perf_counter()
    with _Bar(f"{count} nodes") as bar:
        ordered = [inputs[value.name] for value in model.inputs]
        outputs = model.run(ordered, watch=lambda position, step, values: bar.at((position + 1) / count))
    seconds = time.perf_counter() - started
    report: dict[str, Any] = {
        "model": str(options.model),
        "nodes": count,
        "seconds": seconds,
        "inputs": {name: _described(array) for name, array in inputs.items()},
        "outputs": {name: _described(array) for name, array in zip(model.outputs, outputs, strict=True)},
    }
    quiet = options.json == "-"
    if not quiet:
        _print_values(report)
    if options.profile:
        times = node_times(model, ordered, options.profile)
        report["profile"] = report_of(times, options.profile)
        if not quiet:
            print_times(times, options.profile)
    if options.output:
        _write_outputs(options.output, model.outputs, outputs)
    code = 0
    if runtime is not None:
        code = _compare(options, inputs, runtime, report, quiet)
    if options.json:
        text = json.dumps(report, indent=2) + "\n"
        if quiet:
            sys.stdout.write(text)
        else:
            Path(options.json).write_text(text, encoding="utf-8")
    return code


def _shapes(words: list[str], model: Any) -> dict[str, list[int]]:
    names = [value.name for value in model.inputs]
    found = {}
    for word in words:
        name, _, sizes = word.rpartition("=")
        if not name and len(names) == 1:
            name = names[0]
        if name not in names:
            raise ValueError(f"--shape {word}: the model has no input {name!r}; it has {names}")
        try:
            found[name] = [int(size) for size in sizes.split(",")] if sizes else []
        except ValueError:
            raise ValueError(f"--shape {word}: must be sizes with commas between them, as in 1,3,224,224") from None
        if any(size < 0 for size in found[name]):
            raise ValueError(f"--shape {word}: every size must be >= 0")
    return found


def _described(array: Any) -> dict[str, Any]:
    import numpy as np

    data = np.ascontiguousarray(array)
    found: dict[str, Any] = {
        "dtype": str(data.dtype),
        "shape": list(data.shape),
        "sha256": hashlib.sha256(data.tobytes()).hexdigest(),
    }
    if data.size:
        wide = data.astype(np.float64)
        found["least"], found["most"] = float(wide.min()), float(wide.max())
    return found


def _print_values(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "", "name", "type", "least", "most", "SHA-256", title=f"{report['nodes']} nodes, {report['seconds']:.2f} s"
    )
    for kind in ("inputs", "outputs"):
        for name, value in report[kind].items():
            shape = "x".join(str(n) for n in value["shape"])
            ends = [f"{value[k]:.6g}" if k in value else "" for k in ("least", "most")]
            table.add_row(kind[:-1], name, f"{value['dtype']}[{shape}]", *ends, value["sha256"][:12])
    Console().print(table)


def _write_outputs(folder: Path, names: Any, outputs: Any) -> None:
    import re

    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, outputs, strict=True):
        np.save(folder / (re.sub(r"[^A-Za-z0-9_.-]+", "_", name) + ".npy"), value)


def _compare(options: argparse.Namespace, inputs: Any, runtime: Any, report: dict[str, Any], quiet: bool) -> int:
    import onnx

    from halfulp.cli.verify import _Bar
    from halfulp.conformance.models import compare_nodes, first_beyond, write_script

    path = Path(options.model)
    proto = onnx.load(path, load_external_data=False)
    with _Bar(f"comparing with {runtime.name}") as bar:
        results = compare_nodes(proto, path.parent, inputs, runtime, max_bytes=options.max_bytes, progress=bar.at)
    first = first_beyond(results, options.tolerance)
    beyond = [result for result in results if result.ulps > options.tolerance]
    report["compare"] = {
        "runtime": f"{runtime.name} {runtime.version}",
        "tolerance": options.tolerance,
        "first": None if first is None else _finding(first),
        "differ": len(beyond),
        "operators": _by_operator(results),
    }
    if not quiet:
        _print_comparison(results, first, runtime, options.tolerance)
    if first is not None and options.script:
        values = {**inputs, **_initializers(proto, path.parent), **{r.output: r.got for r in results}}
        script = write_script(options.script, proto, values, first, runtime)
        if not quiet:
            print(f"script: {script}")
    return 0 if first is None else 1


def _initializers(proto: Any, folder: Path) -> dict[str, Any]:
    from halfulp.onnx._tensors import array_of

    return {tensor.name: array_of(tensor, folder, 1 << 62) for tensor in proto.graph.initializer}


def _finding(result: NodeResult) -> dict[str, Any]:
    ulps = result.ulps
    return {
        "node": result.node,
        "operator": result.operator,
        "output": result.output,
        "ulps": ulps if ulps != float("inf") else "infinite",
        "relative": result.relative if result.relative != float("inf") else "infinite",
        "text": result.text,
    }


def _by_operator(results: list[NodeResult]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for result in results:
        row = found.setdefault(result.operator, {"outputs": 0, "differ": 0, "ulps": 0.0, "relative": 0.0})
        row["outputs"] += 1
        row["differ"] += not result.same
        row["ulps"] = max(row["ulps"], result.ulps)
        row["relative"] = max(row["relative"], result.relative)
    for row in found.values():
        for key in ("ulps", "relative"):
            row[key] = row[key] if row[key] != float("inf") else "infinite"
    return found


def _print_comparison(results: list[NodeResult], first: NodeResult | None, runtime: Any, tolerance: int) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{runtime.name} {runtime.version}, every node from its own inputs"
    table = Table("operator", "outputs", "differ", "ulps", "of the largest value", title=title)
    rows = _by_operator(results).items()
    for operator, row in sorted(
        rows, key=lambda row: -float("inf" if row[1]["ulps"] == "infinite" else row[1]["ulps"])
    ):
        sizes = [row[key] if row[key] == "infinite" else f"{row[key]:.3g}" for key in ("ulps", "relative")]
        table.add_row(operator, str(row["outputs"]), str(row["differ"]), *(sizes if row["differ"] else ("equal", "")))
    Console().print(table)
    if first is None:
        print("no node differs" + (f" by more than {tolerance} ulps" if tolerance else ""))
        return
    print(f"first node that differs: {first.node}, output {first.output!r}: {first.text}")
    if first.difference is not None and first.difference.position is not None:
        place = first.difference.position
        print(f"  at {place}: {runtime.name} {first.got[place].item()!r}, exact {first.want[place].item()!r}")
