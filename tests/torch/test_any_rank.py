"""The functions without a suffix: any rank, with the bits of ``halfulp``'s own."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import halfulp as hu
import halfulp.torch as ht

ARGUMENTS = {
    "max_pool": ((2,) * 4,),
    "min_pool": ((2,) * 4,),
    "avg_pool": ((2,) * 4,),
    "sum_pool": ((2,) * 4,),
    "median_pool": ((2,) * 4,),
    "mode_pool": ((2,) * 4,),
    "lp_pool": (2.0, (2,) * 4),
    "smooth_max_pool": ((2,) * 4, 1.5),
    "adaptive_max_pool": ((1, 2, 3, 1),),
    "adaptive_avg_pool": ((1, 2, 3, 1),),
    "global_max_pool": (4,),
    "global_min_pool": (4,),
    "global_avg_pool": (4,),
    "global_lp_pool": (4, 2.0),
}


def planes() -> torch.Tensor:
    return torch.randn(2, 1, 4, 3, 3, 2, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_four_spatial_axes_have_the_bits_of_the_numpy_form(name: str) -> None:
    x = planes()
    got = getattr(ht, name)(x, *ARGUMENTS[name])
    assert got.numpy().tobytes() == getattr(hu, name)(x.numpy(), *ARGUMENTS[name]).tobytes()


@pytest.mark.parametrize("name", sorted(set(ARGUMENTS) - {"mode_pool"}))
def test_four_spatial_axes_have_a_gradient(name: str) -> None:
    x = planes().requires_grad_()
    output = getattr(ht, name)(x, *ARGUMENTS[name])
    output.sum().backward()
    assert x.grad is not None
    record = {"lp_pool": hu.LpPool((2,) * 4, 2.0), "smooth_max_pool": hu.SmoothMaxPool((2,) * 4, 1.5)}.get(name)
    if record is not None:
        want = record.vjp(x.detach().numpy())[1](np.ones(output.shape, np.float32))[0]
        assert x.grad.numpy().tobytes() == want.tobytes()


def test_every_operator_with_ranks_is_here() -> None:
    others = {"conv", "conv_transpose", "fractional_max_pool", "max_unpool"}
    assert {d.name for d in hu.records.declarations() if d.ranks and hasattr(hu, d.name)} == {*ARGUMENTS} | others


def test_convolutions_of_four_axes() -> None:
    x, w = planes(), torch.randn(3, 1, 2, 2, 2, 1, generator=torch.Generator().manual_seed(1))
    assert ht.conv(x, w, padding=1).numpy().tobytes() == hu.conv(x.numpy(), w.numpy(), padding=1).tobytes()
    got = ht.conv_transpose(ht.conv(x, w), w, stride=2)
    want = hu.conv_transpose(hu.conv(x.numpy(), w.numpy()), w.numpy(), stride=2)
    assert got.numpy().tobytes() == want.tobytes()


def test_unpooling_and_fractional_pooling_of_four_axes() -> None:
    x = planes()
    values, indices = ht.max_pool(x, (1, 1, 2, 2), return_indices=True)
    got = ht.max_unpool(values, indices, (1, 1, 2, 2), output_size=(4, 3, 3, 2))
    want = hu.max_unpool(values.numpy(), indices.numpy(), (1, 1, 2, 2), output_size=(4, 3, 3, 2))
    assert got.numpy().tobytes() == want.tobytes()
    samples = torch.full((2, 1, 4), 0.5)
    pooled = ht.fractional_max_pool(x, (1, 1, 1, 1), (2, 2, 2, 2), random_samples=samples)
    same = hu.fractional_max_pool(x.numpy(), (1, 1, 1, 1), (2, 2, 2, 2), random_samples=samples.numpy())
    assert pooled.numpy().tobytes() == same.tobytes()


@pytest.mark.parametrize("name", ["max_pool", "adaptive_avg_pool"])
def test_w6_an_integer_does_not_say_the_rank(name: str) -> None:
    word = next(iter(list(inspect.signature(getattr(ht, name)).parameters)[1:]))
    with pytest.raises(ht.TorchShapeError, match=rf"{name}: {word}=2: the rank is not known; give one {word} per axis"):
        getattr(ht, name)(planes(), 2)


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_c2_a_matrix_is_not_a_filter(name: str) -> None:
    with pytest.raises(
        ht.TorchShapeError, match=rf"{name}: weight shape=\(2, 2\): must be a tensor of at least 3 axes"
    ):
        getattr(ht, name)(planes(), torch.ones(2, 2))
    with pytest.raises(ht.TorchShapeError, match=rf"{name}: weight float: must be a tensor"):
        getattr(ht, name)(planes(), 1.0)
