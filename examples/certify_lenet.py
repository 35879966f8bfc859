"""Train a LeNet with two max pools on scikit-learn's digits, then prove that its answers cannot change.

    pip install "halfulp[examples]"
    python examples/certify_lenet.py                  # 98.6 % accuracy, then certified radii of ten digits
    python examples/certify_lenet.py --digits 50
    python examples/certify_lenet.py --certificate proof.json    # and the proof for the first digit, replayed exactly

A radius is proved for float32 in any order of evaluation: whatever library runs the network, no image within the radius
gets another label.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from train_lenet import Adam, lenet, load, loss_of

import halfulp as hu
import halfulp.bounds as hb

SHAPES = {"conv1": (12, 1, 5, 5), "conv2": (16, 12, 3, 3), "full1": (48, 64), "full2": (10, 48)}


def train(epochs: int, seed: int = 0) -> tuple[dict[str, Any], float, Any, Any]:
    """(parameters, accuracy on the test digits, test images, labels)."""
    images, labels, test_images, test_labels = load(seed)
    generator = np.random.default_rng(seed)
    parameters: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        limit = (6 / np.prod(shape[1:])) ** 0.5
        parameters[f"{name}.weight"] = generator.uniform(-limit, limit, shape).astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(shape[0], dtype=np.float32)
    adam = Adam(parameters, rate=4e-3)
    gradient = hu.grad(loss_of)
    for epoch in track(range(epochs), description="training"):
        adam.rate = np.float32(4e-3 * (1 - epoch / epochs))
        order = generator.permutation(len(labels))
        for first in range(0, len(order), 64):
            batch = order[first : first + 64]
            parameters = adam.step(parameters, gradient(parameters, images[batch], labels[batch]))
    answers = np.argmax(lenet(parameters, test_images), axis=1)
    return parameters, float((answers == test_labels).mean()), test_images, test_labels


def network_of(parameters: dict[str, Any]) -> hb.Network:
    """The trained network on one image."""
    return hb.from_function(lambda x: lenet(parameters, x), (1, 1, 8, 8))


def main() -> None:
    """Train, certify, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=35)
    parser.add_argument("--digits", type=int, default=10)
    parser.add_argument("--certificate", type=Path)
    options = parser.parse_args()
    parameters, accuracy, images, labels = train(options.epochs)
    print(f"accuracy {100 * accuracy:.1f} %")
    network = network_of(parameters)
    print(network)
    radii = []
    for image, label in track(list(zip(images, labels, strict=True))[: options.digits], description="certifying"):
        radii.append(hb.certified_radius(network, image[None], int(label), arithmetic="any-order", clip=(0, 1)))
    print("certified radii, any-order float32:", " ".join(f"{r:.4f}" for r in radii))
    print(f"mean {np.mean(radii):.4f}")
    if options.certificate is not None:
        box = hb.Box.around(images[:1], radii[0] / 2, clip=(0, 1))
        answer = hb.verify(network, box, hb.robust(int(labels[0]), 10), arithmetic="any-order")
        answer.certificate.save(options.certificate)
        began = time.perf_counter()
        print(hb.replay(options.certificate, network), f"in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
