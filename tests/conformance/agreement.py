"""A subject on small integers, whose answers are the same however they are rounded. Run with the subject's name."""

from __future__ import annotations

import sys
import warnings

import numpy as np

import halfulp as hu
from halfulp.conformance import load_subject


def main(name: str) -> None:
    subject = load_subject(name)
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (2, 4, 6, 6)).astype(np.float32)
    weight = rng.integers(-4, 5, (4, 2, 3, 2)).astype(np.float32)
    bias = rng.integers(-4, 5, 4).astype(np.float32)
    cases = [
        (hu.MaxPool((3, 2), stride=2, padding=1), (x,)),
        (hu.AvgPool((2, 2), stride=1), (x,)),
        (hu.GlobalMaxPool(2), (x,)),
        (hu.Conv(2, stride=(1, 2), padding=1, groups=2), (x, weight, bias)),
        (hu.ConvTranspose(2, stride=2, padding=1, output_padding=1), (x, weight, bias[:2])),
    ]
    for op, inputs in cases[:1] if name == "torch-compile" else cases:
        got = subject.forward(subject.asked(op), inputs)
        assert got.dtype == np.float32, op
        assert np.array_equal(got, hu.spec.forward(op, *inputs)), op
    print(name, subject.version)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
