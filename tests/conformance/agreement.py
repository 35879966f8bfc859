"""A subject on small integers, whose answers are the same however they are rounded. Run with the subject's name."""

from __future__ import annotations

import sys
import warnings

import numpy as np

import halfulp as hu
from halfulp.conformance import load_subject

FURTHER = {
    "torch": "MinPool GlobalMinPool SumPool LpPool GlobalLpPool Unfold Fold",
    "torch-channels-last": "MinPool GlobalMinPool SumPool LpPool GlobalLpPool Unfold",
    "jax": "MinPool GlobalMinPool SumPool",
    "onnxruntime": "LpPool",
}
"""The rest of the pooling family, where a subject has it."""


def further_cases(name: str, x: np.ndarray) -> list[tuple[hu.Operator, tuple[np.ndarray, ...]]]:
    patches = hu.Unfold((2, 2), stride=2)
    cases = [
        (hu.MinPool((3, 2), stride=2, padding=1), (x,)),
        (hu.GlobalMinPool(2), (x,)),
        (hu.SumPool((2, 2), stride=1), (x,)),
        (hu.LpPool((2, 2), 1), (abs(x),)),  # PyTorch sums x, not |x|
        (hu.GlobalLpPool(2, 1), (x,)),
        (patches, (x,)),
        (hu.Fold((6, 6), (2, 2), stride=2), (patches(x),)),
    ]
    known = FURTHER.get(name, "" if name != "halfulp" else FURTHER["torch"]).split()
    return [case for case in cases if type(case[0]).__name__ in known]


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
    cases += further_cases(name, x)
    for op, inputs in cases[:1] if name == "torch-compile" else cases:
        got = subject.forward(subject.asked(op), inputs)
        assert got.dtype == np.float32, op
        assert np.array_equal(got, hu.spec.forward(op, *inputs)), op
    print(name, subject.version)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
