"""Measures and writes every figure of README and documentation.

python -m benchmarks publish [--only pooling|model|check] [--rounds N] [--threads N] [--again]

- pooling: measures the pooling rows on every instruction set of the machine into docs/assets/pooling.json, and makes
  docs/assets/pooling.svg, docs/assets/pooling-all.svg, docs/reference/pooling-speed.md and a part of README.md of it.
- model: runs examples/faster_pytorch_model.py into docs/assets/model.json, and makes a part of README.md of it.
- check: runs `halfulp check` on three frameworks into docs/reference/frameworks.md and docs/assets/check.html, and
  makes the table of README.md, which has the rows of the best known operators.

--again measures nothing: it makes pictures and texts from the JSON files and that page. The home page of the
documentation shows the parts of README.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.older import ISA_NAMES
from benchmarks.plot import bar_chart, overview

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "assets" / "pooling.json"
MODEL = ROOT / "docs" / "assets" / "model.json"
REPORT = ROOT / "docs" / "assets" / "check.html"
GRADES = ROOT / "docs" / "reference" / "frameworks.md"
PACKAGES = ("torch", "onnxruntime", "openvino", "jax")
SUBJECTS = ("torch", "jax", "onnxruntime")
HEADLINES = {
    "max 3x3 s2 p1",
    "max 2x2 s2",
    "max 3x3 s1 p1",
    "max 13x13 s1 p6",
    "max 3-D k2",
    "max 3-D k3 s2 p1",
    "avg 3x3 s2 p1",
    "max 3x3 s2 p1 + VJP",
    "avg 3x3 s2 p1 + VJP",
    "tiny max 3x3 s2 p1",
}

KNOWN = (
    *("max_pool", "avg_pool", "adaptive_avg_pool", "global_avg_pool", "lp_pool", "conv", "conv_transpose", "linear"),
    *("matmul", "batch_norm", "layer_norm", "softmax", "cross_entropy", "gelu", "interpolate"),
)
"""The operators of the README's table."""


def processor() -> str:
    """The processor's own name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = [re.search(rf"^{key}\s*:\s*(.*)$", text, re.MULTILINE) for key in ("model name", "cpu family", "model")]
    if None in found:
        return platform.processor() or platform.machine()
    name, family, model = (match[1] for match in found if match)
    name = name.replace("(R)", "").replace("(TM)", "")
    return name if any(c.isdigit() for c in name) else f"{name} (family {family}, model {model})"


def measured(threads: int, rounds: int) -> dict[str, Any]:
    """All pooling rows on every instruction set of the machine, with what a reader must know about the run.

    Each has a process of its own: the peers are told before they are loaded.
    """
    from halfulp import _core

    found = {}
    for isa in reversed(_core.available_isas()):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            command = [sys.executable, "-m", "benchmarks", "pooling", "--isa", isa, "--json", str(file)]
            subprocess.run([*command, "--threads", str(threads), "--rounds", str(rounds)], check=True, cwd=ROOT)
            found[isa] = json.loads(file.read_text(encoding="utf-8"))
    versions = {name: version(name) for name in PACKAGES if name in {peers.NEEDS[p] for p in peers.available()}}
    return {
        "date": date.today().isoformat(),
        "processor": processor(),
        "threads": threads,
        "versions": versions,
        "rows": found,
    }


def caption(figures: dict[str, Any]) -> str:
    """When and on what, in a line; pictures show the best instruction set."""
    return f"{figures['date']}, {figures['processor']}, {ISA_NAMES[best_isa(figures)]}, {figures['threads']} threads"


def best_isa(figures: dict[str, Any]) -> str:
    """The instruction set that the machine uses by itself."""
    return str(next(iter(figures["rows"])))


def texts(figures: dict[str, Any]) -> dict[str, str]:
    """Every file and part of a file that is made of the figures; a part is named file#part."""
    results = [(row["name"], row["seconds"]) for row in figures["rows"][best_isa(figures)]]
    chosen = [(name, row) for name, row in results if name in HEADLINES]
    return {
        "docs/assets/pooling.svg": overview(chosen, caption(figures)),
        "docs/assets/pooling-all.svg": bar_chart(results, caption(figures)),
        "docs/reference/pooling-speed.md": page(figures),
        "README.md#pooling": summary(figures),
    }


def summary(figures: dict[str, Any]) -> str:
    """The README's picture, and what all rows say in one sentence."""
    rows = [row["seconds"] for row in figures["rows"][best_isa(figures)] if "PyTorch" in row["seconds"]]
    ratios = [row["PyTorch"] / row["halfulp"] for row in rows]
    best = sum(all(row["halfulp"] < row[peer] for peer in peers.NEEDS if peer in row) for row in rows)
    return (
        "![Ten pooling operations: time as a multiple of a copy of the same bytes, for halfulp and its peers]"
        f"(docs/assets/pooling.svg)\n\nMeasured on {caption(figures)}, in one run. Of {len(rows)} measured operations, "
        f"halfulp is faster than PyTorch in {sum(ratio > 1 for ratio in ratios)} (median "
        f"{statistics.median(ratios):.2g} times) and faster than every peer in {best}. "
        "[All rows](docs/reference/pooling-speed.md): milliseconds, versions, and a table for each instruction set."
    )


def model_measured(rounds: int) -> dict[str, Any]:
    """The times of the example, in milliseconds: PyTorch's layers, halfulp's layers."""
    example = runpy.run_path(str(ROOT / "examples" / "faster_pytorch_model.py"))
    times = example["compare"](batch=4, size=112, rounds=rounds)
    return {
        "date": date.today().isoformat(),
        "processor": processor(),
        "torch": version("torch"),
        "milliseconds": {name: [float(f"{time:.3g}") for time in pair] for name, pair in times.items()},
    }


def model_texts(figures: dict[str, Any]) -> dict[str, str]:
    """The README's table of the model."""
    lines = [
        "| 4 images, 112×112, float32 | PyTorch's layers | halfulp's pooling layers | speedup |",
        "|---|---|---|---|",
    ]
    for name, (before, after) in figures["milliseconds"].items():
        lines.append(f"| {name} | {before:g} ms | {after:g} ms | {before / after:.2g} × |")
    where = f"{figures['date']}, {figures['processor']}, torch {figures['torch']}"
    lines += [
        "",
        f"`python examples/faster_pytorch_model.py`, {where}: three convolutions, three max poolings, one average "
        "pooling; one thread, processor time. The outputs of all max pooling layers keep their bits.",
    ]
    return {"README.md#model": "\n".join(lines)}


def page(figures: dict[str, Any]) -> str:
    """The documentation's page of figures."""
    versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items())
    lines = [
        "---\nhide: [toc]\n---",
        "",
        "# Pooling speed",
        "",
        f"Measured on {caption(figures)}, with {versions}.",
        "",
        "All libraries get the same input and the same number of threads. They take turns, and the best of several",
        "rounds counts. *Ours / copy* is our time divided by the time of a copy that moves as many bytes. A peer's",
        "column is the peer's time divided by ours: above 1 ours is faster. A dash: the peer does not have the",
        "operation. Most inputs are 32×64×112×112 in float32; `benchmarks/pooling.py` lists them.",
        "",
        "![Ten pooling operations: halfulp and its peers](../assets/pooling.svg)",
        "",
        f"The pictures show {ISA_NAMES[best_isa(figures)]}. In the other tables halfulp, PyTorch and JAX are told to",
        "use no later instruction set than the one named, as on an older processor. ONNX Runtime and OpenVINO cannot",
        "be told, and use all that this processor has. `HALFULP_ISA` forces an instruction set of halfulp.",
        "",
    ]
    for isa in figures["rows"]:
        lines += table(figures, isa)
    return "\n".join([*lines, "![Every row in milliseconds](../assets/pooling-all.svg)", ""])


def table(figures: dict[str, Any], isa: str) -> list[str]:
    """The lines of one instruction set."""
    lines = [
        f"## {ISA_NAMES[isa]}, {figures['processor']}",
        "",
        f"| work | ours, ms | ours / copy | {' | '.join(peers.NEEDS)} |",
        f"|---|---|---|{'---|' * len(peers.NEEDS)}",
    ]
    for row in figures["rows"][isa]:
        times = row["seconds"]
        ours = times["halfulp"]
        ratios = [plain(f"{times[peer] / ours:.2g}") if peer in times else "–" for peer in peers.NEEDS]
        name = row["name"].replace(" ", "&nbsp;")
        lines.append(f"| {name} | {ours * 1e3:.3g} | {ours / times['copy']:.2f} | {' | '.join(ratios)} |")
    return [*lines, ""]


def plain(number: str) -> str:
    """Two digits without an exponent."""
    return f"{float(number):.0f}" if "e+" in number else number


def write(made: dict[str, str]) -> None:
    """Write files, and parts of files between their marks."""
    for name, text in made.items():
        file, _, part = name.partition("#")
        path = ROOT / file
        if part:
            text = with_part(path.read_text(encoding="utf-8"), part, text)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {name}")


def with_part(text: str, part: str, content: str) -> str:
    """The text with what stands between the marks of a part replaced."""
    begin, end = f"<!-- made by python -m benchmarks publish: {part} -->", f"<!-- end of {part} -->"
    before, _, rest = text.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise SystemExit(f"no part {part} between {begin} and {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def conformance() -> str:
    """The page of all operators, with the table of ``halfulp check --markdown``; the report goes to the site, too."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.md"
        command = [sys.executable, "-m", "halfulp", "check", *SUBJECTS, "--mode", "forward", "--dtype", "float32"]
        command += ["--cases", "64", "--fail-on", "none", "--quiet", "--markdown", str(file), "--report", str(REPORT)]
        subprocess.run(command, check=True)
        return grades_page(file.read_text(encoding="utf-8").strip())


def grades_page(table: str) -> str:
    """The documentation's page of the check."""
    return f"""---
hide: [toc]
---

# Frameworks graded

The inputs are chosen to be hard: ties, values between two floats, cancellation, infinities, window edges. They are not
typical data. A cell shows the share of outputs that are the nearest float, and the largest error. *All digits lost*:
some output is off by a quarter of its size or more. [The report](../assets/check.html) of the same run shows every kind
of failure with a script.

{table}
"""


def grades_texts(page: str) -> dict[str, str]:
    """The README's table: the rows of the best known operators."""
    head, rule, *rows = [line for line in page.splitlines() if line.startswith("|")]
    chosen = {row.split("|")[1].strip(): row for row in rows}
    (command,) = [line for line in page.splitlines() if line.startswith("`halfulp check")]
    command = command.partition(": ")[0]
    note = f"{command}. [All {len(rows)} operators](docs/reference/frameworks.md)."
    return {"README.md#check": "\n".join([head, rule, *(chosen[name] for name in KNOWN), "", note])}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks publish", description=__doc__)
    parser.add_argument("--only", choices=["pooling", "model", "check"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--again", action="store_true", help="measure nothing; use the JSON files in docs/assets")
    options = parser.parse_args(arguments)
    if options.only in (None, "pooling"):
        if not options.again:
            missing = [name for name, installed in peers.available().items() if not installed]
            if missing:
                sys.exit(f"figures to publish need every peer: {', '.join(missing)} not installed")
            figures = measured(options.threads, options.rounds)
            FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        write(texts(json.loads(FIGURES.read_text(encoding="utf-8"))))
    if options.only in (None, "model"):
        if not options.again:
            MODEL.write_text(json.dumps(model_measured(options.rounds), indent=1) + "\n", encoding="utf-8")
        write(model_texts(json.loads(MODEL.read_text(encoding="utf-8"))))
    if options.only in (None, "check"):
        if not options.again:
            GRADES.write_text(conformance(), encoding="utf-8")
        write(grades_texts(GRADES.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
