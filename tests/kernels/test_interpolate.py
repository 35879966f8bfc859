"""Interpolation in the compiled core against the specification, bit for bit, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import halfulp as hu
from tests.kernels.bits import assert_spec_bits, every_kind, every_type, numbers, same

CASES = [
    ((1, 2, 5), {"size": 8}, ("nearest", "nearest-exact", "linear")),
    ((2, 1, 3), {"scale_factor": 2.0}, ("nearest", "nearest-exact", "linear")),
    ((1, 1, 7), {"scale_factor": 0.3}, ("nearest", "linear")),
    ((1, 2, 3, 4), {"size": (5, 3)}, ("nearest", "bilinear", "bicubic")),
    ((1, 1, 2, 3), {"scale_factor": (2.0, 2.0)}, ("nearest-exact", "bilinear", "bicubic")),
    ((1, 1, 1, 1), {"size": (3, 2)}, ("nearest", "bilinear", "bicubic")),
    ((2, 3, 2, 2, 3), {"size": (3, 2, 5)}, ("nearest", "trilinear")),
    ((1, 1, 2, 2, 2), {"scale_factor": 2}, ("nearest-exact", "trilinear")),
]


@every_type
@every_kind
def test_the_kernels_have_the_bits_of_the_specification(kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(len(kind))
    for shape, settings, modes in CASES:
        for mode in modes:
            for corners in (None,) if mode.startswith("nearest") else (False, True):
                op = hu.Interpolate(**settings, mode=mode, align_corners=corners)
                x, t = (numbers(kind, rng, shape, dtype) for _ in range(2))
                assert_spec_bits(op, (x,), (t,), numbers(kind, rng, op.output_shape(shape), dtype))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [{"size": (9, 4)}, {"scale_factor": (2.0, 3.0)}, {"scale_factor": 1.7}, {"size": 1}])
def test_taps_are_those_of_pytorch(mode: str, size: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 7))
    for corners in (None,) if mode.startswith("nearest") else (None, False, True):
        theirs = F.interpolate(torch.tensor(x), **size, mode=mode, align_corners=corners).numpy()
        ours = hu.interpolate(x, **size, mode=mode, align_corners=corners)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_layout_batch_and_threads_do_not_matter() -> None:
    x = np.random.default_rng(3).standard_normal((6, 5, 17, 13)).astype(np.float32)
    for settings in ({"scale_factor": 2.0, "mode": "bilinear"}, {"size": (40, 9), "mode": "bicubic"}):
        y = hu.interpolate(x, **settings)
        last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
        assert same(hu.interpolate(last, **settings), y)
        assert same(
            hu.interpolate(x[..., ::-1], **settings), hu.interpolate(np.ascontiguousarray(x[..., ::-1]), **settings)
        )
        assert same(np.concatenate([hu.interpolate(part[None], **settings) for part in x]), y)
        before = hu.get_num_threads()
        try:
            hu.set_num_threads(1)
            assert same(hu.interpolate(x, **settings), y)
        finally:
            hu.set_num_threads(before)


def test_cells_without_weight_have_no_part() -> None:
    x = np.array([[[1.0, np.inf, np.nan]]])
    assert hu.interpolate(x, size=5, mode="linear", align_corners=True)[0, 0, 0] == 1.0
    assert hu.interpolate(np.zeros((0, 2, 3)), size=5).shape == (0, 2, 5)


def test_an_image_without_batch_axes() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert same(
        hu.interpolate(x, size=(4, 4), mode="bilinear"), hu.interpolate(x[None, None], 4, mode="bilinear")[0, 0]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hu.Interpolate(), r"interpolate: size=None and scale_factor=None: exactly one .* \[Z1\]"),
        (lambda: hu.Interpolate(2, 2.0), r"interpolate: size=2 and scale_factor=2.0: exactly one .* \[Z1\]"),
        (lambda: hu.Interpolate(0), r"interpolate: size=0: must be integers >= 1 \[Z1\]"),
        (lambda: hu.Interpolate(None, -1.0), r"interpolate: scale_factor=-1.0: must be finite numbers > 0 \[Z1\]"),
        (lambda: hu.Interpolate(None, "x"), r"interpolate: scale_factor='x': must be numbers > 0 \[Z1\]"),
        (lambda: hu.Interpolate(2, mode="cubic"), r"interpolate: mode='cubic': must be one of 'nearest', .* \[Z2\]"),
        (
            lambda: hu.Interpolate(2, align_corners=True),
            r"interpolate: align_corners=True: must be None: only linear and cubic modes have it \[Z2\]",
        ),
        (lambda: hu.Interpolate((2, 2), mode="linear"), r"interpolate: size=\(2, 2\): mode='linear' has 1 .* \[Z3\]"),
        (
            lambda: hu.interpolate(np.ones((2, 2)), 2),
            r"interpolate: input shape=\(2, 2\): must have a spatial axis after two others \[Z3\]",
        ),
        (
            lambda: hu.interpolate(np.ones((1, 1, 2)), scale_factor=0.25),
            r"interpolate: input shape=\(1, 1, 2\): every spatial size must be at least 1, but 2 becomes 0 \[Z3\]",
        ),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(hu.HalfulpError, match=message):
        call()
