"""Modules, state dicts, replace and patched."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import halfulp.torch as ht

CONVOLUTIONS = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
POOLINGS = [n for n in ht.__all__ if "Pool" in n and hasattr(nn, n) and n[:2] not in ("LP", "Fr")]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.MaxPool2d(3, 2, 1, return_indices=False)),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_state_dicts_load_both_ways(name: str) -> None:
    ours, theirs = getattr(ht, name)(4, 6, 3, groups=2), getattr(nn, name)(4, 6, 3, groups=2)
    ours.load_state_dict(theirs.state_dict())
    again = getattr(nn, name)(4, 6, 3, groups=2)
    again.load_state_dict(ours.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), theirs.parameters(), strict=True))
    x = torch.randint(-3, 4, (1, 4, *(5,) * int(name[-2]))).float()
    with torch.no_grad():
        for module in (ours, theirs):
            for parameter in module.parameters():
                parameter.mul_(8).round_()
    assert torch.equal(ours(x), theirs(x))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_constructors_show_the_parameters_of_pytorchs(name: str) -> None:
    ours, theirs = (list(inspect.signature(getattr(home, name)).parameters.values()) for home in (ht, nn))
    assert [(p.name, p.default) for p in ours] == [*((p.name, p.default) for p in theirs), ("precision", "correct")]


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [1, "same"])
def test_padding_modes(mode: str, padding: Any) -> None:
    theirs = nn.Conv2d(1, 2, 3, padding=padding, padding_mode=mode, dtype=torch.float64)
    ours = ht.Conv2d(1, 2, 3, padding=padding, padding_mode=mode, dtype=torch.float64)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 1, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x))


def test_transposed_output_size() -> None:
    ours, theirs = ht.ConvTranspose2d(1, 1, 3, stride=2), nn.ConvTranspose2d(1, 1, 3, stride=2)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(1, 1, 4, 4)
    torch.testing.assert_close(ours(x, output_size=[10, 9]), theirs(x, output_size=[10, 9]))


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_modules_are_pytorchs(name: str) -> None:
    arguments = (2,) if "Adaptive" not in name else (3,)
    ours, theirs = getattr(ht, name)(*arguments), getattr(nn, name)(*arguments)
    assert repr(ours) == repr(theirs)
    assert isinstance(ours, type(theirs))
    x = torch.randint(-9, 9, (2, 3, *(6,) * int(name[-2]))).double()
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-15)
    if "Max" in name:
        assert torch.equal(*(getattr(m, name)(*arguments, return_indices=True)(x)[1] for m in (ht, nn)))


def test_replace_swaps_poolings_in_place_and_says_so() -> None:
    model = network()
    reference = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    model[2].register_forward_hook(lambda *_: seen.append("hook"))
    report = ht.replace(model)
    assert report.model is model
    assert repr(report) == (
        "replaced 3 layers\n"
        "  2    torch.nn.MaxPool2d -> halfulp.torch.MaxPool2d\n"
        "  3.1  torch.nn.MaxPool2d -> halfulp.torch.MaxPool2d\n"
        "  4    torch.nn.AdaptiveAvgPool2d -> halfulp.torch.AdaptiveAvgPool2d"
    )
    assert type(model[0]) is nn.Conv2d
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(model(x), reference(x))
    assert seen == ["hook"]
    model(x).sum().backward()
    optimizer.step()
    assert not torch.equal(model[0].weight, reference[0].weight)
    model.load_state_dict(reference.state_dict())
    reference.load_state_dict(model.state_dict())
    assert ht.replace(model).swapped == {}  # nothing left to do


def test_replace_leaves_every_max_pool_output_bit_identical() -> None:
    model = network()
    replaced = ht.replace(model, inplace=False).model
    outputs: dict[nn.Module, list[torch.Tensor]] = {model: [], replaced: []}
    for owner, collected in outputs.items():
        for layer in owner.modules():
            if isinstance(layer, nn.MaxPool2d):
                layer.register_forward_hook(lambda _m, _i, output, collected=collected: collected.append(output))
        owner(torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)))
    assert len(outputs[model]) == 2
    assert all(torch.equal(a, b) for a, b in zip(*outputs.values(), strict=True))


def test_replace_convolutions_in_a_copy() -> None:
    model = network()
    report = ht.replace(model, convolutions=True, precision="fast", inplace=False)
    assert report.model is not model
    assert type(model[0]) is nn.Conv2d
    assert type(report.model[0]) is ht.Conv2d
    assert report.model[0].precision == "fast"
    assert "precision='fast'" in repr(report.model[0])
    assert list(report.swapped) == ["0", "2", "3.0", "3.1", "4"]
    x = torch.randn(1, 3, 16, 16)
    torch.testing.assert_close(report.model(x), model(x), rtol=1e-4, atol=1e-5)


class Odd(nn.MaxPool2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(-input)


def test_replace_leaves_subclasses_and_takes_the_model_itself() -> None:
    report = ht.replace(nn.Sequential(Odd(2)))
    assert report.swapped == {}
    assert "left: its own forward" in repr(report)
    alone = nn.MaxPool1d(2)
    assert list(ht.replace(alone).swapped) == ["(the model itself)"]
    assert type(alone) is ht.MaxPool1d
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, not function"):
        ht.replace(network)
    with pytest.raises(RuntimeError, match=r"precision='exact'.*\[P4\]"):
        ht.replace(alone, precision="exact")


def test_patched_swaps_and_restores() -> None:
    before = {name: getattr(F, name) for name in ("max_pool2d", "avg_pool1d", "conv2d")}
    model = network().double()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    expected = model(x)
    with ht.patched():
        assert F.max_pool2d is ht.max_pool2d
        assert F.conv2d is before["conv2d"]
        with ht.patched(convolutions=True, precision="fast"):
            assert F.conv2d is not before["conv2d"]
            torch.testing.assert_close(model(x), expected)
        assert F.conv2d is before["conv2d"]
        torch.testing.assert_close(model(x), expected)
    with pytest.raises(ZeroDivisionError), ht.patched():
        raise ZeroDivisionError
    assert {name: getattr(F, name) for name in before} == before


def test_modules_of_our_own() -> None:
    x = torch.randn(2, 3, 4, 4)
    assert ht.GlobalMaxPool2d(keepdims=False)(x).shape == (2, 3)
    assert ht.SmoothMaxPool2d(2, beta=2.0, stride=1)(x).shape == (2, 3, 3, 3)
    assert repr(ht.GlobalAvgPool1d(False)) == "GlobalAvgPool1d(keepdims=False)"


def test_modules_pickle_and_copy() -> None:
    model = ht.replace(network(), convolutions=True).model
    again = copy.deepcopy(model)
    x = torch.randn(1, 3, 16, 16)
    assert torch.equal(again(x), model(x))
