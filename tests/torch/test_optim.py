"""Optimizers: every step equals the written sequence, element by element, whatever the layout and the neighbours."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

import halfulp.torch as ht

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}),
    ("SGD", {"lr": 0.03, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "maximize": True}),
    ("SGD", {"lr": 0.03, "momentum": 0.7, "dampening": 0.3}),
    ("Adam", {"lr": 1e-2}),
    ("Adam", {"lr": 1e-2, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 3e-3, "betas": (0.8, 0.95), "maximize": True}),
]


def power(base: float, exponent: int) -> float:
    """The square of the power of half the exponent, times the base if that was odd."""
    if exponent == 0:
        return 1.0
    half = power(base, exponent // 2)
    return half * half * base if exponent % 2 else half * half


class Written:
    """The documented sequence on one NumPy scalar."""

    def __init__(self, name: str, settings: dict[str, Any], dtype: type) -> None:
        model = getattr(ht.optim, name)([torch.zeros(1, requires_grad=True)], **settings)
        self.name, self.o, self.t = name, model.defaults, dtype
        self.b = self.m = self.v = self.w = None
        self.steps = 0

    def step(self, p: Any, g: Any) -> Any:
        g = -g if self.o["maximize"] else g
        return self.sgd(p, g) if self.name == "SGD" else self.adam(p, g)

    def sgd(self, p: Any, g: Any) -> Any:
        o, t = self.o, self.t
        if o["weight_decay"]:
            g = g + t(o["weight_decay"]) * p
        if o["momentum"]:
            damped = g if not o["dampening"] else t(1 - o["dampening"]) * g
            self.b = g if self.b is None else t(o["momentum"]) * self.b + damped
            g = g + t(o["momentum"]) * self.b if o["nesterov"] else self.b
        return p - t(o["lr"]) * g

    def adam(self, p: Any, g: Any) -> Any:
        o, t = self.o, self.t
        beta1, beta2 = o["betas"]
        self.steps += 1
        size, root = o["lr"] / (1 - power(beta1, self.steps)), math.sqrt(1 - power(beta2, self.steps))
        if self.name == "AdamW":
            p = t(1 - o["lr"] * o["weight_decay"]) * p
        elif o["weight_decay"]:
            g = g + t(o["weight_decay"]) * p
        zero = t(0)
        self.m = t(beta1) * (zero if self.m is None else self.m) + t(1 - beta1) * g
        self.v = t(beta2) * (zero if self.v is None else self.v) + t(1 - beta2) * (g * g)
        self.w = self.v if not o["amsgrad"] else max(zero if self.w is None else self.w, self.v)
        return p - t(size) * (self.m / (np.sqrt(self.w) / t(root) + t(o["eps"])))


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_the_written_sequence(name: str, settings: dict[str, Any], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(37, generator=generator, dtype=dtype)
    values[:4] = torch.tensor([0.0, 1e-40, 1e30, -3e-20], dtype=dtype)
    parameter = torch.nn.Parameter(values.clone())
    optimizer = getattr(ht.optim, name)([parameter], **settings)
    kind: Any = np.float32 if dtype is torch.float32 else np.float64
    scalars = [kind(v) for v in values.numpy()]
    written = [Written(name, settings, kind) for _ in scalars]
    for _ in range(6):
        gradient = torch.randn(37, generator=generator, dtype=dtype)
        gradient[:3] = torch.tensor([1e-30, 0.0, 1e10], dtype=dtype)
        parameter.grad = gradient.clone()
        optimizer.step()
        with np.errstate(all="ignore"):
            scalars = [w.step(p, kind(g)) for w, p, g in zip(written, scalars, gradient.numpy(), strict=True)]
        assert parameter.detach().numpy().tobytes() == np.array(scalars, kind).tobytes()


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_steps_do_not_depend_on_layout_or_neighbours(name: str, settings: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(4)
    whole = torch.nn.Parameter(torch.randn(3, 5, 7, 2, generator=generator))
    last = torch.nn.Parameter(whole.detach().clone().contiguous(memory_format=torch.channels_last))
    cells = [torch.nn.Parameter(v.clone()) for v in whole.detach().flatten()]
    optimizers = [getattr(ht.optim, name)(ps, **settings) for ps in ([whole], [last], cells)]
    for _ in range(3):
        gradient = torch.randn(3, 5, 7, 2, generator=generator)
        whole.grad, last.grad = gradient, gradient.contiguous(memory_format=torch.channels_last)
        for cell, g in zip(cells, gradient.flatten(), strict=True):
            cell.grad = g
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(whole, last)
    assert torch.equal(whole.flatten(), torch.stack(cells))


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_steps_are_close_to_pytorchs(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(50, dtype=torch.float64)) for _ in range(2))
    pairs = (
        (ours, getattr(ht.optim, name)([ours], **settings)),
        (theirs, getattr(torch.optim, name)([theirs], **settings)),
    )
    for _ in range(10):
        gradient = torch.randn(50, dtype=torch.float64)
        for parameter, optimizer in pairs:
            parameter.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_a_schedule_that_moves_the_betas_gives_pytorchs_steps(name: str) -> None:
    results = []
    for home in (ht.optim, torch.optim):
        torch.manual_seed(0)
        parameter = torch.nn.Parameter(torch.ones(20, dtype=torch.float64))
        optimizer = getattr(home, name)([parameter], lr=0.1)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
        for _ in range(9):
            parameter.grad = torch.randn(20, dtype=torch.float64)
            optimizer.step()
            schedule.step()
        results.append(parameter.detach())
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_narrow_parameters_are_updated_in_float32(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    narrow = torch.nn.Parameter(torch.randn(40, dtype=dtype))
    wide = torch.nn.Parameter(narrow.detach().float())
    optimizers = [getattr(ht.optim, name)([p], lr=0.05) for p in (narrow, wide)]
    for _ in range(3):
        gradient = torch.randn(40, dtype=dtype)
        narrow.grad, wide.grad = gradient, gradient.float()
        for optimizer in optimizers:
            optimizer.step()
        with torch.no_grad():
            wide.copy_(wide.to(dtype))
    assert torch.equal(narrow, wide.to(dtype))


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_state_dicts_continue_a_run(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(2)
    gradients = torch.randn(6, 9)
    first = torch.nn.Parameter(torch.ones(9))
    optimizer = getattr(ht.optim, name)([first], **settings)
    second = torch.nn.Parameter(torch.ones(9))
    for i, gradient in enumerate(gradients):
        if i == 3:
            second = torch.nn.Parameter(first.detach().clone())
            again = getattr(ht.optim, name)([second], **settings)
            again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        first.grad = gradient.clone()
        optimizer.step()
        if i >= 3:
            second.grad = gradient.clone()
            again.step()
    assert torch.equal(first, second)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_state_dicts_of_narrow_parameters_keep_their_moments(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(5)
    first = torch.nn.Parameter(torch.ones(9, dtype=torch.bfloat16))
    optimizer = getattr(ht.optim, name)([first], **settings)
    gradients = torch.randn(6, 9).bfloat16()
    for gradient in gradients[:3]:
        first.grad = gradient
        optimizer.step()
    second = torch.nn.Parameter(first.detach().clone())
    again = getattr(ht.optim, name)([second], **settings)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for gradient in gradients[3:]:
        first.grad, second.grad = gradient, gradient
        optimizer.step()
        again.step()
    assert torch.equal(first, second)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_state_of_pytorchs_optimizer_is_continued(name: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(6)
    theirs = torch.nn.Parameter(torch.ones(9, dtype=torch.float64))
    before = getattr(torch.optim, name)([theirs], **settings)
    gradients = torch.randn(6, 9, dtype=torch.float64)
    for gradient in gradients[:3]:
        theirs.grad = gradient.clone()
        before.step()
    ours = torch.nn.Parameter(theirs.detach().clone())
    after = getattr(ht.optim, name)([ours], **settings)
    after.load_state_dict(copy.deepcopy(before.state_dict()))
    for gradient in gradients[3:]:
        for parameter, optimizer in ((theirs, before), (ours, after)):
            parameter.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_pytorchs_choices_of_an_implementation_are_taken_without_effect(name: str) -> None:
    torch.manual_seed(7)
    start, gradient = torch.randn(2, 40)
    found = []
    for ways in ({}, {"foreach": True}, {"foreach": False, "differentiable": False}, {"fused": True}):
        parameter = torch.nn.Parameter(start.clone())
        parameter.grad = gradient.clone()
        getattr(ht.optim, name)([parameter], lr=0.1, weight_decay=0.01, **ways).step()
        found.append(parameter.detach())
    assert all(torch.equal(each, found[0]) for each in found)
    with pytest.raises(TypeError, match="unexpected keyword argument 'momentums'"):
        getattr(ht.optim, name)([parameter], lr=0.1, momentums=1)


def test_adam_with_decoupled_weight_decay_is_adamw() -> None:
    found = []
    for kind, ways in ((ht.optim.Adam, {"decoupled_weight_decay": True}), (ht.optim.AdamW, {})):
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.tensor([1.0, 2.0, 3.0])
        kind([parameter], lr=0.1, weight_decay=0.5, **ways).step()
        found.append(parameter.detach())
    assert torch.equal(*found)


def test_parameters_may_join_late_and_groups_have_their_own_settings() -> None:
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = ht.optim.Adam([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.25)
    a.grad = torch.ones(2)
    optimizer.step()
    assert torch.equal(b, torch.ones(2))
    b.grad = torch.ones(2)
    assert optimizer.step(lambda: torch.tensor(7.0)).item() == 7.0
    assert torch.allclose(b, torch.full((2,), 0.5), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("SGD", {"lr": -1.0}, "optim.SGD: lr=-1.0: must be finite and >= 0 [B6]"),
        ("SGD", {"differentiable": True}, "optim.SGD: differentiable=True: steps are not recorded for autograd"),
        ("Adam", {"capturable": True}, "optim.Adam: capturable=True: steps are not recorded for autograd"),
        ("SGD", {"lr": 0.1, "nesterov": True}, "optim.SGD: nesterov=True: takes a momentum > 0"),
        ("Adam", {"betas": (0.9, 1.0)}, "optim.Adam: betas=(0.9, 1.0): must be two numbers in [0, 1) [B6]"),
        ("AdamW", {"eps": float("nan")}, "optim.AdamW: eps=nan: must be finite and >= 0 [B6]"),
    ],
)
def test_B6_settings_out_of_range_are_refused(name: str, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match="optim") as error:
        getattr(ht.optim, name)([torch.zeros(1, requires_grad=True)], **settings)
    assert text in str(error.value)


def test_B6_sparse_and_complex_parameters_are_refused() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    parameter.grad = torch.zeros(2, dtype=torch.complex64)
    with pytest.raises(TypeError, match="must be dense and real"):
        ht.optim.SGD([parameter], lr=0.1).step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_pytorchs_optimizer_continues_our_state_and_ours_goes_on_from_there(name: str) -> None:
    """Two steps of ours, two of PyTorch's, two of ours: as six steps of PyTorch's, up to rounding."""
    settings: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.01}
    settings |= {"momentum": 0.9} if name == "SGD" else {"amsgrad": True}

    def run(*homes: Any) -> torch.Tensor:
        p = torch.nn.Parameter(torch.linspace(-1, 1, 5))
        state = None
        for home in homes:
            optimizer = getattr(home, name)([p], **settings)
            if state is not None:
                optimizer.load_state_dict(state)
            for _ in range(2):
                p.grad = p.detach().cos()
                optimizer.step()
            state = optimizer.state_dict()
        return p.detach()

    theirs = torch.optim
    torch.testing.assert_close(run(ht.optim, theirs, ht.optim), run(theirs, theirs, theirs))
