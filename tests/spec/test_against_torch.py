"""Agreement with PyTorch in float64 on random input without ties: value, VJP and JVP, every option PyTorch has.

PyTorch rounds at every step, so a tolerance is in place here, and only here and against ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw
from tests.scaling import examples

pytestmark = pytest.mark.filterwarnings("ignore")  # what PyTorch warns about is not ours
EXAMPLES = examples(25)


def assert_close(found: Any, expected: torch.Tensor) -> None:
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-11, atol=1e-11)


def assert_agrees(op: Any, theirs: Callable[..., torch.Tensor], *arrays: Any, seed: int) -> None:
    """Value, VJP and JVP of the specification beside PyTorch's."""
    rng = np.random.default_rng(seed)
    tensors = tuple(torch.tensor(a, requires_grad=True) for a in arrays)
    output = theirs(*tensors)
    tangents = tuple(rng.standard_normal(a.shape) for a in arrays)
    g = rng.standard_normal(output.shape)
    value, jt = hu.spec.jvp(op, arrays, tangents)
    assert_close(value, output)
    pulled = hu.spec.vjp(op, arrays, g)
    gradients = torch.autograd.grad(output, tensors, torch.tensor(g))
    for mine, other in zip(pulled[: len(gradients)], gradients, strict=True):
        assert_close(mine, other)
    primals = tuple(t.detach() for t in tensors)
    assert_close(jt, jvp_of(theirs, primals, tuple(torch.tensor(t) for t in tangents)))


def jvp_of(f: Callable[..., torch.Tensor], primals: Any, tangents: Any) -> torch.Tensor:
    """torch.func.jvp, or the double-backward identity for the operators that have no forward mode in PyTorch."""
    try:
        return torch.func.jvp(f, primals, tangents)[1]
    except (NotImplementedError, RuntimeError):
        return torch.autograd.functional.jvp(f, primals, tangents)[1]


@st.composite
def windows(draw_: st.DrawFn, dilated: bool = True) -> tuple[int, dict[str, Any], tuple[int, ...]]:
    """(rank, window arguments within PyTorch's rules, input shape)."""
    ndim = draw_(st.integers(1, 3))

    def axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw_(st.integers(low, high)) for _ in range(ndim))

    kernel = axis(1, 4 if ndim < 3 else 3)
    dilation = axis(1, 2) if dilated else (1,) * ndim
    padding = tuple(draw_(st.integers(0, k // 2)) for k in kernel)
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    # the 3-D average of PyTorch wants an unpadded input as large as its kernel
    least = [max(1, e - 2 * p) if dilated else e for e, p in zip(extents, padding, strict=True)]
    spatial = tuple(n + draw_(st.integers(0, 5)) for n in least)
    stride = draw_(st.one_of(st.none(), st.just(axis(1, 3))))
    arguments = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": draw_(st.booleans())}
    if dilated:
        arguments["dilation"] = dilation
    return ndim, arguments, (draw_(st.integers(1, 2)), draw_(st.integers(1, 2)), *spatial)


def without_ties(shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.permutation(int(np.prod(shape))) / 8 - 3.0).reshape(shape)


@EXAMPLES
@given(windows(), draw.seeds)
def test_max_pool(window: Any, seed: int) -> None:
    ndim, arguments, shape = window
    x, op = without_ties(shape, seed), hu.MaxPool(**arguments)
    assume((hu.spec.indices(op, x) >= 0).all())  # a window without a real cell is -inf in PyTorch, 0 here
    theirs = getattr(F, f"max_pool{ndim}d")
    assert_agrees(op, lambda t: theirs(t, **arguments), x, seed=seed)
    output, indices = theirs(torch.tensor(x), **arguments, return_indices=True)
    mine, places = getattr(hu, f"max_pool{ndim}d")(x, **arguments, return_indices=True)
    assert np.array_equal(mine, output.numpy())  # a selection is exact
    assert np.array_equal(places, indices.numpy())
    assert np.array_equal(hu.spec.indices(op, x), indices.numpy())


@EXAMPLES
@given(windows(dilated=False), st.booleans(), st.none() | st.sampled_from([1, 3, -2]), draw.seeds)
def test_avg_pool(window: Any, count_include_pad: bool, divisor: int | None, seed: int) -> None:
    ndim, arguments, shape = window
    arguments = {**arguments, "count_include_pad": count_include_pad}
    if ndim > 1:
        arguments["divisor_override"] = divisor
    theirs = getattr(F, f"avg_pool{ndim}d")
    x = np.random.default_rng(seed).standard_normal(shape)
    assert_agrees(hu.AvgPool(**arguments), lambda t: theirs(t, **arguments), x, seed=seed)
    assert_close(getattr(hu, f"avg_pool{ndim}d")(x, **arguments), theirs(torch.tensor(x), **arguments))


@EXAMPLES
@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=3), draw.seeds)
def test_adaptive_and_global(pairs: list[tuple[int, int]], seed: int) -> None:
    ndim, sizes, bins = len(pairs), tuple(n for n, _ in pairs), tuple(m for _, m in pairs)
    x = without_ties((2, 2, *sizes), seed)
    average, maximum = getattr(F, f"adaptive_avg_pool{ndim}d"), getattr(F, f"adaptive_max_pool{ndim}d")
    assert_agrees(hu.AdaptiveAvgPool(bins), lambda t: average(t, bins), x, seed=seed)
    assert_agrees(hu.AdaptiveMaxPool(bins), lambda t: maximum(t, bins), x, seed=seed)
    assert_agrees(hu.GlobalAvgPool(ndim), lambda t: average(t, 1), x, seed=seed)
    assert_agrees(hu.GlobalMaxPool(ndim), lambda t: maximum(t, 1), x, seed=seed)
    _, indices = maximum(torch.tensor(x), bins, return_indices=True)
    assert np.array_equal(hu.spec.indices(hu.AdaptiveMaxPool(bins), x), indices.numpy())
    assert_close(getattr(hu, f"adaptive_avg_pool{ndim}d")(x, bins), average(torch.tensor(x), bins))
    assert_close(getattr(hu, f"adaptive_max_pool{ndim}d")(x, bins), maximum(torch.tensor(x), bins))


@EXAMPLES
@given(windows(), st.sampled_from([0.5, 3.0, -2.0]), draw.seeds)
def test_smooth_max_pool_is_a_logsumexp_of_unfolded_windows(window: Any, beta: float, seed: int) -> None:
    ndim, arguments, shape = window
    arguments["ceil_mode"] = False
    op = hu.SmoothMaxPool(beta=beta, **arguments)

    def theirs(t: torch.Tensor) -> torch.Tensor:
        padded = F.pad(t, [p for pad in reversed(op.padding) for p in pad])
        for axis in range(ndim):
            # windows of one axis at a time: the sum of exponentials is separable
            count = op.output_shape(shape)[2 + axis]
            starts = [w * op.dilation[axis] for w in range(op.kernel_size[axis])]
            taps = [padded.narrow(2 + axis, start, (count - 1) * op.stride[axis] + 1) for start in starts]
            steps = [slice(None)] * padded.ndim
            steps[2 + axis] = slice(None, None, op.stride[axis])
            padded = torch.logsumexp(beta * torch.stack([tap[tuple(steps)] for tap in taps]), 0) / beta
        return padded

    assert_agrees(op, theirs, np.random.default_rng(seed).standard_normal(shape), seed=seed)


@st.composite
def convolutions(draw_: st.DrawFn, transposed: bool) -> tuple[int, dict[str, Any], Any, Any, int]:
    """(rank, arguments, input shape, weight shape, output channels)."""
    ndim = draw_(st.integers(1, 3))

    def axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw_(st.integers(low, high)) for _ in range(ndim))

    kernel, stride, dilation, groups = axis(1, 3), axis(1, 3), axis(1, 2), draw_(st.integers(1, 2))
    padding: Any = axis(0, 2)
    arguments: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    small, large = 2 * groups, draw_(st.integers(1, 2)) * groups
    if transposed:
        arguments["output_padding"] = tuple(
            draw_(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)
        )
        spatial = tuple(2 * p + draw_(st.integers(1, 4)) for p in padding)
        weight: tuple[int, ...] = (small, large // groups, *kernel)
    else:
        if draw_(st.booleans()):
            arguments["stride"], arguments["padding"] = 1, draw_(st.sampled_from(["same", "valid"]))
        spatial = tuple(e + draw_(st.integers(0, 4)) for e in extents)
        weight = (large, small // groups, *kernel)
    return ndim, arguments, (draw_(st.integers(1, 2)), small, *spatial), weight, large


@pytest.mark.parametrize("transposed", [False, True])
@EXAMPLES
@given(st.data(), draw.seeds)
def test_convolutions(transposed: bool, data: Any, seed: int) -> None:
    ndim, arguments, shape, weight_shape, channels = data.draw(convolutions(transposed))
    rng = np.random.default_rng(seed)
    x, weight, bias = (rng.standard_normal(s) for s in (shape, weight_shape, (channels,)))
    record, name = (hu.ConvTranspose, f"conv_transpose{ndim}d") if transposed else (hu.Conv, f"conv{ndim}d")
    theirs, mine = getattr(F, name), getattr(hu, name)
    op = record(ndim, **arguments)
    assert_agrees(op, lambda t, w, b: theirs(t, w, b, **arguments), x, weight, bias, seed=seed)
    assert_agrees(op, lambda t, w: theirs(t, w, **arguments), x, weight, seed=seed)
    assert_close(mine(x, weight, bias, **arguments), theirs(*map(torch.tensor, (x, weight, bias)), **arguments))
    assert_close(hu.spec.forward(op, x[0], weight), theirs(torch.tensor(x[0]), torch.tensor(weight), **arguments))
