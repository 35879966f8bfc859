"""PyTorch's own operator samples: the same outputs, formats, gradients and refusals as ``torch.nn.functional``.

The tensors of the samples are rounded to small integers, so that PyTorch's sums are exact and equality can be asked
for: of every hard max and convolution bit for bit, and of averages up to the one rounding of their division.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import halfulp.torch as ht

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

RANKS = (1, 2, 3)
SELECTING = [f"{kind}{n}d" for kind in ("max_pool", "adaptive_max_pool") for n in RANKS]
AVERAGING = [f"{kind}{n}d" for kind in ("avg_pool", "adaptive_avg_pool") for n in RANKS]
CONVOLVING = [f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in RANKS]
DTYPES = (torch.float32, torch.float64)


@functools.cache
def entry(name: str) -> Any:
    return next(op for op in op_db if op.name == f"nn.functional.{name}")


def integers(value: Any, magnitude: float) -> Any:
    """A sample's tensor with small integers in the same memory format."""
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return value
    with torch.no_grad():
        return value.detach().mul(magnitude).round().nan_to_num(0.0)


def samples(name: str, dtype: torch.dtype) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(entry(name).sample_inputs("cpu", dtype))
    out = []
    for sample in found:
        args = tuple(integers(a, 2) for a in (sample.input, *sample.args))
        out.append((args, {key: integers(a, 2) for key, a in sample.kwargs.items()}))
    return out


def run(function: Any, args: Any, kwargs: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The outputs, and the gradients of every float tensor under an integer cotangent."""
    args = [a.clone().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args]
    kwargs = {k: a.clone().requires_grad_() if isinstance(a, torch.Tensor) else a for k, a in kwargs.items()}
    output = function(*args, **kwargs)
    outputs = list(output) if isinstance(output, tuple) else [output]
    leaves = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    generator = torch.Generator().manual_seed(5)
    cotangent = torch.randint(-4, 5, outputs[0].shape, generator=generator).to(outputs[0].dtype)
    return outputs, list(torch.autograd.grad(outputs[0], leaves, cotangent))


def compare(name: str, dtype: torch.dtype, exact: bool) -> int:
    count = 0
    for args, kwargs in samples(name, dtype):
        theirs, their_gradients = run(getattr(F, name), args, kwargs)
        ours, our_gradients = run(getattr(ht, name), args, kwargs)
        for mine, other in zip((*ours, *our_gradients), (*theirs, *their_gradients), strict=True):
            assert mine.dtype == other.dtype
            assert mine.shape == other.shape
            note = f"{name} {[getattr(a, 'shape', a) for a in args]} {kwargs}"
            if exact:
                assert torch.equal(mine, other), note
            else:  # PyTorch rounds the terms of a sum of quotients, we round the sum
                torch.testing.assert_close(
                    mine, other, rtol=2 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps
                )
        assert ours[0].is_contiguous() == theirs[0].is_contiguous()
        count += 1
    return count


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SELECTING)
def test_max_pooling_samples_are_bit_identical(name: str, dtype: torch.dtype) -> None:
    assert compare(name, dtype, exact=True) > 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", AVERAGING)
def test_average_samples_agree(name: str, dtype: torch.dtype) -> None:
    assert compare(name, dtype, exact=False) > 0


UNPOOLING = [f"max_unpool{n}d" for n in RANKS]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*UNPOOLING, "unfold"])
def test_samples_that_only_move_and_add_are_bit_identical(name: str, dtype: torch.dtype) -> None:
    count = 0
    for args, kwargs in samples(name, dtype):
        x, rest = args[0], args[1:]
        if name in UNPOOLING:  # PyTorch leaves open which of several values at one index counts
            planes = rest[0].flatten(0, x.dim() - int(name[-2]) - 1).flatten(1)
            if any(len(plane.unique()) < len(plane) for plane in planes):
                continue
        assert all(torch.equal(mine, theirs) for theirs, mine in both(name, x, *rest, **kwargs)), (name, kwargs)
        count += 1
    assert count > 0


def both(name: str, x: torch.Tensor, *rest: Any, **kwargs: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(PyTorch's, ours) of the output and of the gradient of its sum."""
    results = []
    for function in (getattr(F, name), getattr(ht, name)):
        leaf = x.clone().requires_grad_()
        output = function(leaf, *rest, **kwargs)
        results.append((output, torch.autograd.grad(output.sum(), leaf)[0]))
    return list(zip(*results, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("settings", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": (1, 2)}], ids=str)
def test_fold_of_integers_is_bit_identical(settings: dict[str, Any], dtype: torch.dtype) -> None:
    columns = F.unfold(torch.arange(2 * 3 * 7 * 8, dtype=dtype).reshape(2, 3, 7, 8), (2, 3), **settings)
    for x in (columns, columns[0]):
        assert all(torch.equal(mine, theirs) for theirs, mine in both("fold", x, (7, 8), (2, 3), **settings))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("p", [1, 2, 3.0, 2.5])
@pytest.mark.parametrize("ndim", RANKS)
def test_norms_of_positive_numbers_agree(ndim: int, p: float, dtype: torch.dtype) -> None:
    """PyTorch takes x^p, which is |x|^p for positive numbers; its several roundings are ours to forgive.

    It scales a partial last window of ceil_mode as if it were whole, so that is left out.
    """
    x = torch.rand(2, 3, *(7,) * ndim, dtype=dtype, generator=torch.Generator().manual_seed(1)) + 0.5
    for settings in ({}, {"stride": 2}, {"stride": 1}):
        for theirs, mine in both(f"lp_pool{ndim}d", x, p, 2, **settings):
            torch.testing.assert_close(mine, theirs, rtol=32 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ndim", [2, 3])
def test_fractional_max_pooling_chooses_as_pytorch_does(ndim: int, dtype: torch.dtype) -> None:
    name, generator = f"fractional_max_pool{ndim}d", torch.Generator().manual_seed(7)
    for size, kernel, outputs in ((9, 2, 4), (12, 3, 5), (7, 2, 5), (10, 1, 1)):
        x = torch.randint(-9, 10, (2, 3, *(size,) * ndim), generator=generator).to(dtype)
        samples = torch.rand(2, 3, ndim, generator=generator, dtype=dtype)
        results = []
        for function in (getattr(F, name), getattr(ht, name)):
            leaf = x.clone().requires_grad_()
            output, indices = function(leaf, kernel, outputs, return_indices=True, _random_samples=samples)
            results.append((output, indices, torch.autograd.grad(output.sum(), leaf)[0]))
        assert all(torch.equal(mine, theirs) for theirs, mine in zip(*results, strict=True)), (size, kernel, outputs)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")  # PyTorch's own remark
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CONVOLVING)
def test_convolution_samples_of_integers_are_equal(name: str, dtype: torch.dtype) -> None:
    assert compare(name, dtype, exact=True) > 0


@pytest.mark.parametrize("name", [n for n in (*SELECTING, *AVERAGING, *CONVOLVING) if entry(n).error_inputs_func])
def test_refused_samples_are_refused(name: str) -> None:
    refused = 0
    for error in entry(name).error_inputs("cpu"):
        sample = error.sample_input
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            getattr(F, name)(sample.input, *sample.args, **sample.kwargs)
        with pytest.raises((RuntimeError, TypeError)):
            getattr(ht, name)(sample.input, *sample.args, **sample.kwargs)
        refused += 1
    assert refused > 0
