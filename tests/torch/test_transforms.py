"""Every way in which PyTorch differentiates, maps and compiles a function works on every operator family."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.autograd import forward_ad

import halfulp.torch as ht
from tests.torch.cases import CASES, IDS, Case

assert_close = torch.testing.assert_close
every_case = pytest.mark.parametrize("case", CASES, ids=IDS)


def tangents_like(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(11)
    return tuple(torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in tensors)


@every_case
def test_gradcheck_in_both_modes(case: Case) -> None:
    assert torch.autograd.gradcheck(
        case.function,
        case.inputs(requires_grad=True),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


@every_case
def test_gradgradcheck_in_both_modes(case: Case) -> None:
    inputs = case.inputs(requires_grad=True)
    assert torch.autograd.gradgradcheck(case.function, inputs, check_fwd_over_rev=True, check_batched_grad=True)


@every_case
def test_forward_ad_is_func_jvp(case: Case) -> None:
    primals = case.inputs()
    tangents = tangents_like(primals)
    output, pushed = torch.func.jvp(case.function, primals, tangents)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(p, t) for p, t in zip(primals, tangents, strict=True)]
        dual = forward_ad.unpack_dual(case.function(*duals))
    assert torch.equal(dual.primal, output)
    assert torch.equal(dual.tangent, pushed)
    assert torch.equal(output, case.function(*primals))


@every_case
def test_vjp_is_the_transpose_of_jvp(case: Case) -> None:
    primals = case.inputs()
    tangents = tangents_like(primals)
    output, pullback = torch.func.vjp(case.function, *primals)
    (cotangent,) = tangents_like((output,))
    pulled = pullback(cotangent)
    pushed = torch.func.jvp(case.function, primals, tangents)[1]
    assert_close((cotangent * pushed).sum(), sum((p * t).sum() for p, t in zip(pulled, tangents, strict=True)))


@every_case
def test_jacrev_is_jacfwd(case: Case) -> None:
    primals = case.inputs()
    numbers = tuple(range(len(primals)))
    assert_close(
        torch.func.jacrev(case.function, numbers)(*primals), torch.func.jacfwd(case.function, numbers)(*primals)
    )


@every_case
def test_hessian_in_every_mix_of_modes(case: Case) -> None:
    primals = case.inputs()

    def scalar(*tensors: torch.Tensor) -> torch.Tensor:
        return case.function(*tensors).pow(3).sum()

    expected = torch.func.jacrev(torch.func.jacrev(scalar))(*primals)
    assert_close(torch.func.hessian(scalar)(*primals), expected)  # forward over reverse
    assert_close(torch.func.jacrev(torch.func.jacfwd(scalar))(*primals), expected)
    assert_close(torch.func.jacfwd(torch.func.jacfwd(scalar))(*primals), expected)


@every_case
def test_vmap_is_a_loop(case: Case) -> None:
    mapped = case.inputs(leading=(3,))
    looped = torch.stack([case.function(*one) for one in zip(*mapped, strict=True)])
    assert torch.equal(torch.vmap(case.function)(*mapped), looped)
    only_first = (mapped[0], *case.inputs()[1:])
    axes = (0, *(None for _ in only_first[1:]))
    looped = torch.stack([case.function(one, *only_first[1:]) for one in mapped[0]])
    assert torch.equal(torch.vmap(case.function, axes)(*only_first), looped)


@every_case
def test_vmap_of_grad_is_a_loop(case: Case) -> None:
    mapped = case.inputs(leading=(2,))
    gradient = torch.func.grad(lambda *tensors: case.function(*tensors).pow(2).sum())
    looped = torch.stack([gradient(*one) for one in zip(*mapped, strict=True)])
    assert torch.equal(torch.vmap(gradient)(*mapped), looped)


@every_case
def test_fake_tensors_know_the_shape_and_format(case: Case) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    inputs = case.inputs()
    real = case.function(*inputs)
    with FakeTensorMode() as mode:
        fake = case.function(*(mode.from_tensor(t) for t in inputs))
    assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())
    meta = case.function(*(t.to("meta") for t in inputs))
    assert (meta.shape, meta.device.type) == (real.shape, "meta")


def test_third_derivative_of_a_smooth_max() -> None:
    x = torch.tensor([[0.3, -0.2]], dtype=torch.float64)

    def f(a: torch.Tensor) -> torch.Tensor:
        return ht.smooth_max_pool1d(torch.stack([a, 0 * a]).reshape(1, 2), 2, 1.0).sum()

    third = torch.func.grad(torch.func.grad(torch.func.grad(f)))(x[0, 0])
    p = torch.sigmoid(x[0, 0])
    assert_close(third, p * (1 - p) * (1 - 2 * p))


def test_a_hard_max_has_no_second_derivative() -> None:
    x = torch.randn(1, 2, 6, dtype=torch.float64)
    hessian = torch.func.hessian(lambda a: ht.max_pool1d(a, 3, 1).sum())(x)
    assert torch.equal(hessian, torch.zeros_like(hessian))


def test_double_backward_of_the_direct_way() -> None:
    """The eager node keeps a pullback; with create_graph it must use operators that can be differentiated again."""
    x = torch.randn(2, 3, 5, 5, dtype=torch.float64, requires_grad=True)
    output = ht.max_pool2d(x, 3, 2, 1)
    cotangent = torch.randn_like(output, requires_grad=True)
    (first,) = torch.autograd.grad(output, x, cotangent, create_graph=True)
    (second,) = torch.autograd.grad(first, cotangent, torch.ones_like(first))
    assert torch.equal(second, torch.ones_like(second))  # the gather of ones at the winners


def test_backward_twice_and_retained_graph() -> None:
    x = torch.randn(1, 2, 6, 6, requires_grad=True)
    output = ht.max_pool2d(x, 2)
    (once,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
    (twice,) = torch.autograd.grad(output.sum(), x)
    assert torch.equal(once, twice)
    assert once.sum() == output.numel()


def test_an_input_changed_in_place_is_noticed() -> None:
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    doubled = x * 2
    output = ht.max_pool2d(doubled, 2)
    doubled.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_inference_mode_and_no_grad_take_the_direct_way() -> None:
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    with torch.no_grad():
        assert not ht.max_pool2d(x, 2).requires_grad
    with torch.inference_mode():
        assert ht.max_pool2d(x, 2).is_inference()
        assert torch.equal(ht.conv2d(x, torch.ones(1, 1, 1, 1)), x)


def test_autocast_computes_convolutions_in_its_type() -> None:
    x, weight = torch.randn(1, 2, 5), torch.randn(3, 2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = ht.conv1d(x, weight)
    assert output.dtype == torch.bfloat16
    assert torch.equal(output, ht.conv1d(x.bfloat16(), weight.bfloat16()))


def test_no_transform_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.vmap(torch.func.grad(lambda x: ht.max_pool2d(x, 2).sum()))(torch.randn(2, 1, 4, 4))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_recomputes_the_same_gradient(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(1, 2, 6, 6, requires_grad=True)

    def block(a: torch.Tensor) -> torch.Tensor:
        return ht.avg_pool2d(ht.max_pool2d(a.sin(), 3, 1, 1), 2)

    (plain,) = torch.autograd.grad(block(x).sum(), x)
    checkpointed = x.detach().clone().requires_grad_()
    checkpoint(block, checkpointed, use_reentrant=reentrant).sum().backward()
    assert torch.equal(checkpointed.grad, plain)


def test_a_tensor_subclass_goes_through_the_dispatcher() -> None:
    class Image(torch.Tensor):
        pass

    image = torch.arange(16.0).reshape(1, 4, 4).as_subclass(Image)
    assert isinstance(ht.max_pool2d(image, 2), Image)
    assert ht.max_pool2d(image, 2).tolist() == [[[5.0, 7.0], [13.0, 15.0]]]


def test_gradients_of_a_functional_call_per_sample() -> None:
    """vmap(grad) of a model with convolutions: weights mapped by nothing, cotangents by the batch."""
    model = torch.nn.Sequential(ht.Conv1d(1, 2, 2), ht.MaxPool1d(2), torch.nn.Flatten(0)).double()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    batch = torch.randn(3, 1, 5, dtype=torch.float64)

    def loss(values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, values, (x,)).pow(2).sum()

    mapped = torch.vmap(torch.func.grad(loss), (None, 0))(parameters, batch)
    for i, x in enumerate(batch):
        one = torch.func.grad(loss)(parameters, x)
        assert all(torch.equal(mapped[name][i], one[name]) for name in one)
