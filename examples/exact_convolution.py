"""How far is PyTorch's float32 convolution from the exact value? A picture, in ulps.

    python examples/exact_convolution.py [--output ulps.svg]

Every output of a 3x3 convolution is computed by PyTorch and by halfulp (correctly rounded, so within half an ulp of the
exact value); the specification confirms a few outputs with exact rationals. The picture shows the error of PyTorch's
result over one channel, and how often each error occurs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import halfulp as hu


def ulps(value: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The distance between two float32 arrays, in units of the reference's spacing."""
    return (value.astype(np.float64) - reference.astype(np.float64)) / np.spacing(np.abs(reference)).astype(np.float64)


def main() -> None:
    """Compute, confirm, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("ulps.svg"), help="where the picture goes")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 32, 48, 48)).astype(np.float32)
    w = rng.standard_normal((8, 32, 3, 3)).astype(np.float32)
    right = hu.conv2d(x, w, padding=1)
    theirs = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding=1).numpy()

    patch = x[:, :, :5, :5]
    exact = hu.spec.forward(hu.Conv(2), hu.exact(patch), hu.exact(w))
    assert np.array_equal(hu.rounded(exact, np.float32), hu.conv2d(patch, w))
    error = ulps(theirs, right)
    share = float((error == 0).mean())
    print(f"correctly rounded outputs: PyTorch {share:.1%}, halfulp 100.0% (confirmed exactly on {exact.size})")
    print(f"largest error of PyTorch: {np.abs(error).max():.0f} ulps")

    figure, (left, bars) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    limit = float(np.quantile(np.abs(error[0, 0]), 0.98)) or 1.0
    image = left.imshow(error[0, 0], cmap="RdBu", vmin=-limit, vmax=limit)
    left.set_title("PyTorch's error in channel 0 (ulps)")
    left.set_axis_off()
    figure.colorbar(image, ax=left)
    counts, edges = np.histogram(np.clip(error, -12, 12), bins=np.arange(-12.5, 13.5))
    bars.bar(edges[:-1] + 0.5, counts / error.size, color="#3f51b5")
    bars.set_title(f"{1 - share:.0%} of PyTorch's outputs are not the nearest float")
    bars.set_xlabel("error in ulps (the ends collect the rest)")
    bars.set_ylabel("share of outputs")
    figure.savefig(arguments.output)
    print(f"picture: {arguments.output}")


if __name__ == "__main__":
    main()
