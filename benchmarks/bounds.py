"""Bounds of a trained LeNet: intervals beside a forward pass, CROWN beside auto_LiRPA, radii by relaxation, replay.

python -m benchmarks bounds [--digits 20] [--epochs 35] [--instances FOLDER]

auto_LiRPA takes part if it can be imported. FOLDER holds ONNX models and VNN-LIB properties of the competition
(``Convnet_maxpool.onnx``, ``maxpool_prop_0_0.004.vnnlib.gz``, …); each is verified, and its time is shown.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp.bounds as hb
from benchmarks.timing import best_times

EXAMPLES = Path(__file__).parent.parent / "examples"
SINGLE = ("deeppoly", "cnn-cert", "maxlin", "tilin")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks bounds", description=__doc__)
    parser.add_argument("--digits", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=35)
    parser.add_argument("--instances", type=Path)
    options = parser.parse_args(arguments)
    console = Console()
    if options.instances is not None:
        instances(options.instances, console)
    sys.path.insert(0, str(EXAMPLES))
    from certify_lenet import network_of, train  # type: ignore[import-not-found]

    parameters, accuracy, images, labels = train(options.epochs)
    console.print(f"LeNet with two max pools, accuracy {100 * accuracy:.1f} %")
    network = network_of(parameters)
    times(network, parameters, images[:1], console)
    radii(network, images[: options.digits], labels[: options.digits], console)
    replay(network, images[:1], int(labels[0]), console)


def times(network: hb.Network, parameters: dict[str, Any], image: Any, console: Console) -> None:
    box = hb.Box.around(image, 0.01, clip=(0, 1))
    runs: dict[str, Any] = {"forward": lambda: network(image)}
    for arithmetic in ("halfulp", "real", "any-order"):
        runs[f"ibp {arithmetic}"] = lambda a=arithmetic: hb.bounds(network, box, "ibp", a)
    runs["crown"] = lambda: hb.bounds(network, box, "crown")
    peer = _auto_lirpa(parameters, image)
    if peer is not None:
        runs["crown auto_LiRPA"] = peer
    found = best_times(runs)
    table = Table("run", "ms", "× forward")
    for name, seconds in found.items():
        table.add_row(name, f"{1e3 * seconds:.2f}", f"{seconds / found['forward']:.1f}")
    console.print(table)


def _auto_lirpa(parameters: dict[str, Any], image: Any) -> Any:
    try:
        import torch
        from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm
    except ImportError:
        return None
    nn = torch.nn
    module = nn.Sequential(
        nn.Conv2d(1, len(parameters["conv1.bias"]), 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(len(parameters["conv1.bias"]), len(parameters["conv2.bias"]), 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(*parameters["full1.weight"].shape[::-1]), nn.ReLU(),
        nn.Linear(*parameters["full2.weight"].shape[::-1]),
    )  # fmt: skip
    layers = [layer for layer in module if hasattr(layer, "weight")]
    with torch.no_grad():
        for layer, name in zip(layers, ("conv1", "conv2", "full1", "full2"), strict=True):
            layer.weight.copy_(torch.from_numpy(parameters[f"{name}.weight"]))
            layer.bias.copy_(torch.from_numpy(parameters[f"{name}.bias"]))
    x = torch.from_numpy(image)
    bounded = BoundedModule(module, x)
    box = PerturbationLpNorm(norm=np.inf, x_L=(x - 0.01).clamp(0, 1), x_U=(x + 0.01).clamp(0, 1))
    return lambda: bounded.compute_bounds(x=(BoundedTensor(x, box),), method="CROWN")


def radii(network: hb.Network, images: Any, labels: Any, console: Console) -> None:
    means = {}
    for relaxation in ("best", *SINGLE):
        found = [
            hb.certified_radius(network, image[None], int(label), relaxation=relaxation, clip=(0, 1))
            for image, label in zip(images, labels, strict=True)
        ]
        means[relaxation] = float(np.mean(found))
    table = Table("relaxation of max", "mean certified radius", "best / this")
    for name, mean in means.items():
        table.add_row(name, f"{mean:.5f}", f"{means['best'] / mean:.3f}")
    console.print(table)


def replay(network: hb.Network, image: Any, label: int, console: Console) -> None:
    box = hb.Box.around(image, 0.01, clip=(0, 1))
    answer = hb.verify(network, box, hb.robust(label, 10), arithmetic="any-order")
    if answer.status != "holds":
        console.print(f"replay: {answer}")
        return
    certificate = answer.certificate
    began = time.perf_counter()
    text = hb.replay(certificate, network)
    console.print(f"{text}; replay {time.perf_counter() - began:.1f} s")


def instances(folder: Path, console: Console) -> None:
    arithmetics = ("real", "halfulp", "any-order")
    table = Table("instance", *(column for name in arithmetics for column in (name, "s")))
    for path in sorted(folder.glob("*.vnnlib.gz")):
        network = hb.load(folder / f"Convnet_{path.name.split('_')[0]}.onnx")
        (question,) = hb.read_property(path, network.input_shape)
        cells = []
        for arithmetic in arithmetics:
            answer = hb.verify(
                network, question.box, question.property, arithmetic=arithmetic, attack_box=question.inner
            )
            cells += [answer.status, f"{answer.seconds:.2f}"]
        table.add_row(path.name, *cells)
    console.print(table)
