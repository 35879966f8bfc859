"""Losses, variance and interpolation on tensors: the bits of the records, derivatives, and replaced modules."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import halfulp as hu
import halfulp.torch as ht

LABELS = torch.tensor([0, 2, -100, 1])


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


CALLS = {
    "cross_entropy": (lambda f, x: f.cross_entropy(x, LABELS, label_smoothing=0.1), (4, 3)),
    "cross_entropy of probabilities": (lambda f, x: f.cross_entropy(x, torch.full((4, 3), 0.25).to(x)), (4, 3)),
    "mse_loss": (lambda f, x: f.mse_loss(x, torch.ones_like(x), reduction="sum"), (3, 5)),
    "interpolate": (lambda f, x: f.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 3, 4)),
    "interpolate to a size": (lambda f, x: f.interpolate(x, size=(5, 2), mode="nearest"), (1, 2, 3, 4)),
}
every_call = pytest.mark.parametrize("name", CALLS)


@every_call
def test_functions_are_those_of_pytorch(name: str) -> None:
    call, shape = CALLS[name]
    x = numbers(*shape, dtype=torch.float64)
    torch.testing.assert_close(call(ht, x), call(F, x), rtol=1e-12, atol=1e-12)


@every_call
def test_derivatives_of_first_and_second_order(name: str) -> None:
    call, shape = CALLS[name]
    x = numbers(*shape, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: call(ht, x), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: call(ht, x), (x,))


@every_call
def test_compiled_functions_have_the_same_bits(name: str) -> None:
    call, shape = CALLS[name]
    x = numbers(*shape)
    compiled: Any = torch.compile(lambda x: call(ht, x), backend="aot_eager")
    assert torch.equal(compiled(x), call(ht, x))


def test_the_bits_are_those_of_the_records() -> None:
    x = numbers(4, 3)
    found = ht.cross_entropy(x, LABELS)
    assert found.item() == hu.cross_entropy(x.numpy(), LABELS.numpy()).item()
    assert torch.equal(ht.var(x, 1), torch.from_numpy(np.asarray(hu.var(x.numpy(), 1))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.near = nn.UpsamplingNearest2d(size=(8, 8))
        self.loss, self.error = nn.CrossEntropyLoss(label_smoothing=0.1), nn.MSELoss()

    def forward(self, x: Any, labels: Any) -> Any:
        y = self.up(x)
        extra = F.cross_entropy(y, labels) + F.mse_loss(x.mean(1, keepdim=True).expand_as(x), x, reduction="sum")
        area = F.interpolate(x, size=(2, 2), mode="area").sum()
        return self.loss(y, labels) + self.error(self.near(x), y) + extra + area + x.var() + x.std(1).sum()


def test_modules_and_calls_of_a_model_are_replaced() -> None:
    x, labels = numbers(2, 3, 4, 4), torch.randint(0, 3, (2, 8, 8), generator=torch.Generator().manual_seed(0))
    model = Model()
    expected = model(x.double(), labels)
    report = ht.replace(model, everything=True)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for form in (torch.contiguous_format, torch.channels_last):
            given = x.clone(memory_format=form).requires_grad_()
            value = model(given, labels)
            value.backward()
            results.append((value.detach(), given.grad))
    assert report.not_covered == {}
    assert set(report.swapped) == {"(the model itself)", "up", "near", "loss", "error"}
    torch.testing.assert_close(results[0][0].double(), expected, rtol=1e-5, atol=1e-5)
    for value, gradient in results[1:]:
        assert torch.equal(value, results[0][0])
        assert torch.equal(gradient, results[0][1])


def test_calls_that_only_pytorch_has_words_for() -> None:
    x, y = numbers(4, 3), torch.softmax(numbers(4, 3) * 2, 1).requires_grad_()
    with ht.patched(everything=True) as calls:
        assert F.mse_loss(x, x[:, :1], weight=torch.ones(4, 3)).isfinite()
        assert F.mse_loss(x, x * 2, size_average=False) == ht.mse_loss(x, x * 2, reduction="sum")
        F.cross_entropy(x, y, weight=torch.ones(3)).backward()  # a gradient of the probabilities
        grown = F.interpolate(x[None], scale_factor=2.5, recompute_scale_factor=True)
    assert calls is not None
    assert {calls[name] for name in ("mse_loss", "cross_entropy", "interpolate")} == {"ours"}
    assert grown.shape == (1, 4, 7)
    torch.testing.assert_close(y.grad, -ht.log_softmax(x, 1) / 4)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("form", [torch.channels_last, torch.channels_last_3d])
def test_softmax_has_the_memory_format_of_pytorch(name: str, form: Any) -> None:
    x = numbers(*(2, 3, 4, 4, 2)[: 4 if form is torch.channels_last else 5])
    last = x.contiguous(memory_format=form).requires_grad_()
    for dim in range(-1, x.dim()):
        results = [getattr(home, name)(last, dim) for home in (torch, ht)]
        gradients = [torch.autograd.grad(y, last, x.contiguous(memory_format=form))[0] for y in results]
        assert results[0].stride() == results[1].stride()
        assert gradients[0].stride() == gradients[1].stride()
        assert torch.equal(results[1], getattr(ht, name)(x, dim))
        with torch.no_grad():
            assert getattr(ht, name)(last, dim).stride() == getattr(torch, name)(last, dim).stride()


def test_nll_loss_takes_the_log_softmax_of_channels_last_scores() -> None:
    x = numbers(2, 3, 4, 4).contiguous(memory_format=torch.channels_last).requires_grad_()
    F.nll_loss(ht.log_softmax(x, 1), torch.zeros(2, 4, 4, dtype=torch.long)).backward()
    expected = torch.autograd.grad(F.cross_entropy(x, torch.zeros(2, 4, 4, dtype=torch.long)), x)[0]
    torch.testing.assert_close(x.grad, expected)


X4 = torch.arange(96.0).reshape(2, 4, 3, 4).sin()
W4 = torch.arange(1.0, 5.0)
Z = torch.arange(8.0).reshape(2, 4).cos()


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.instance_norm(X4, None, None, W4, W4, True, 0.1, 1e-5),
        lambda f: f.instance_norm(X4, W4, W4, W4, W4, False),
        lambda f: f.cross_entropy(Z, torch.tensor([1, 3]), None, None, 1),
        lambda f: f.cross_entropy(Z, torch.tensor([1, 3]), size_average=False),
        lambda f: f.mse_loss(Z, Z + 1, None, False),
        lambda f: f.mse_loss(Z, Z + 1, None, None, "sum"),
        lambda f: f.softmax(Z, 1, dtype=torch.float64),
        lambda f: f.softmax(X4[0], _stacklevel=5),
        lambda f: f.log_softmax(Z, 1, 3, torch.float64),
        lambda f: f.leaky_relu(Z.clone(), 0.1, True),
        lambda f: f.elu(Z.clone(), 1.0, True),
        lambda f: f.hardtanh(Z.clone(), -0.5, 0.5, True),
        lambda f: f.interpolate(X4, scale_factor=1.4, mode="bilinear", recompute_scale_factor=True),
        lambda f: f.interpolate(X4, size=2, mode="area"),
        lambda f: f.embedding(torch.tensor([1, 0]), Z, None, None, 2.0, False, False),
    ],
)
def test_arguments_stand_where_pytorch_has_them(call: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of its older words
        expected = call(F)
    found = call(ht)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_what_only_pytorch_has_is_refused_with_a_reason() -> None:
    for call, text in (
        (lambda: ht.mse_loss(Z, Z, weight=Z), r"mse_loss: weight given: .*multiply .* \[Z4\]"),
        (lambda: ht.interpolate(X4, 2, antialias=True), r"interpolate: antialias=True: must be False \[Z2\]"),
        (lambda: ht.embedding(torch.tensor([1]), Z, max_norm=1.0), r"embedding: max_norm=1.0: .*PyTorch.* \[Z4\]"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


@pytest.mark.parametrize("name", ["relu", "silu", "mish", "hardswish", "hardsigmoid", "elu", "leaky_relu"])
def test_inplace_writes_into_the_input_and_keeps_the_gradient(name: str) -> None:
    x = Z.clone().requires_grad_()
    y = x * 1
    output = getattr(ht, name)(y, inplace=True)
    assert output is y
    plain = Z.clone().requires_grad_()
    expected = getattr(ht, name)(plain)
    assert torch.equal(output, expected)
    assert torch.equal(torch.autograd.grad(output.sum(), x)[0], torch.autograd.grad(expected.sum(), plain)[0])
