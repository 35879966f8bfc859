"""What the functions of the bridge share with PyTorch's, and where they differ on purpose."""

from __future__ import annotations

import inspect
import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import halfulp as hu
import halfulp.torch as ht
from halfulp.errors import HalfulpError
from halfulp.torch._tensors import as_array, as_tensor
from tests.scaling import examples

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NAN = float("nan")


@pytest.mark.parametrize("name", [n for n in ht.__all__ if n[-1] == "d" and hasattr(F, n) and n[0].islower()])
def test_signatures_are_pytorchs(name: str) -> None:
    """PyTorch's built-in functions tell their signature in the first line of their docstring only."""
    ours = inspect.signature(getattr(ht, name))
    positional = [p for p in ours.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in positional)
    text, takes = getattr(F, name).__doc__, "inplace" in ours.parameters
    if f"{name}(" in text.split("->")[0]:
        assert f"{name}({shown})" in " ".join(text.split())
    elif name.startswith("adaptive"):
        assert [p.name for p in positional] == ["input", "output_size"]
    else:
        theirs = [p for p in inspect.signature(getattr(F, name)).parameters.values() if p.name != "inplace" or takes]
        assert [(p.name, p.default) for p in positional] == [(p.name, p.default) for p in theirs]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_cross_without_a_copy(dtype: torch.dtype) -> None:
    tensor = torch.randn(3, 4).to(dtype).t()
    array = as_array("test", tensor)
    assert array.__array_interface__["data"][0] == tensor.data_ptr()
    assert array.dtype.name == str(dtype).removeprefix("torch.")
    back = as_tensor(array)
    assert (back.data_ptr(), back.stride(), back.dtype) == (tensor.data_ptr(), tensor.stride(), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_float_type_gives_the_records_bits(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 7, 6).to(dtype)
    weight, bias = torch.randn(4, 3, 2, 3).to(dtype), torch.randn(4).to(dtype)
    arrays = [as_array("test", t) for t in (x, weight, bias)]
    for output, expected in (
        (ht.max_pool2d(x, 3, 2, 1), hu.MaxPool((3, 3), 2, 1)(arrays[0])),
        (ht.avg_pool2d(x, 3, 2, 1), hu.AvgPool((3, 3), 2, 1)(arrays[0])),
        (ht.smooth_max_pool2d(x, 2, 0.5), hu.SmoothMaxPool((2, 2), 0.5)(arrays[0])),
        (ht.conv2d(x, weight, bias, padding=1), hu.Conv(2, padding=1)(*arrays)),
        (ht.conv_transpose2d(x[:, :, :2], weight.transpose(0, 1)), None),
    ):
        assert output.dtype == dtype
        if expected is not None:
            assert np.array_equal(as_array("test", output), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool], ids=str)
def test_integers_have_maxima(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (1, 2, 6, 6)).to(dtype)
    output, indices = ht.max_pool2d(x, 2, return_indices=True)
    expected, places = F.max_pool2d(x.to(torch.float64), 2, return_indices=True)
    assert output.dtype == dtype
    assert torch.equal(output, expected.to(dtype))
    assert torch.equal(indices, places)


windows = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2), st.integers(1, 3), st.booleans())


@examples(1000)
@given(size=st.integers(1, 9), window=windows, seed=st.integers(0, 99))
def test_every_window_is_accepted_and_refused_as_by_pytorch(
    size: int, window: tuple[int, int, int, int, bool], seed: int
) -> None:
    """W5 included: with ceil_mode PyTorch accepts a window larger than the padded input, and so does the bridge."""
    kernel, stride, padding, dilation, ceil_mode = window
    x = torch.randint(-3, 4, (2, size), generator=torch.Generator().manual_seed(seed)).double()
    calls = [
        (F.max_pool1d, ht.max_pool1d, (kernel, stride, padding, dilation, ceil_mode)),
        (F.avg_pool1d, ht.avg_pool1d, (kernel, stride, padding, ceil_mode, True)),
        (F.avg_pool1d, ht.avg_pool1d, (kernel, stride, padding, ceil_mode, False)),
    ]
    for theirs, ours, arguments in calls:
        try:
            expected = theirs(x, *arguments)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                ours(x, *arguments)
        else:
            expected[expected == -torch.inf] = 0  # a window of padding alone: -inf in PyTorch, 0 by our specification
            assert torch.equal(ours(x, *arguments), expected)


def outcome(function: Any, tensors: list[torch.Tensor], arguments: tuple[Any, ...]) -> list[torch.Tensor] | None:
    """The value and the gradients of the sum of its squares, or None where the call is refused."""
    leaves = [t.clone().requires_grad_() for t in tensors]
    try:
        output = function(*leaves, *arguments)
    except RuntimeError:
        return None
    return [output, *torch.autograd.grad(output.pow(2).sum(), leaves)]


@examples(300)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(1, 2)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 3),
    output_padding=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_every_convolution_is_accepted_and_refused_as_by_pytorch(
    sizes: tuple[int, ...], stride: int, padding: int, dilation: int, output_padding: int, seed: int
) -> None:
    """Of small integers, whose sums are exact: the value and all gradients equal PyTorch's."""
    size, kernel, groups, inputs, outputs = sizes
    generator = torch.Generator().manual_seed(seed)

    def integers(*shape: int) -> torch.Tensor:
        return torch.randint(-3, 4, shape, generator=generator).double()

    x, bias = integers(2, groups * inputs, size), integers(groups * outputs)
    for name, weight, arguments in (
        ("conv1d", integers(groups * outputs, inputs, kernel), (stride, padding, dilation, groups)),
        (
            "conv_transpose1d",
            integers(groups * inputs, outputs, kernel),
            (stride, padding, output_padding, groups, dilation),
        ),
    ):
        ours, theirs = (outcome(getattr(m, name), [x, weight, bias], arguments) for m in (ht, F))
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_W5_window_larger_than_input_keeps_its_gradient() -> None:
    x = torch.tensor([[[1.0, 5.0], [2.0, 3.0]]], requires_grad=True)
    for ours, theirs in ((ht.max_pool2d, F.max_pool2d), (ht.avg_pool2d, F.avg_pool2d)):
        gradients = [torch.autograd.grad(f(x, 4, 3, 1, ceil_mode=True).sum(), x)[0] for f in (ours, theirs)]
        assert torch.equal(*gradients)
    with pytest.raises(RuntimeError, match=r"\[W5\]"):
        ht.max_pool2d(x, 5)


FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


@pytest.mark.parametrize("memory_format", FORMATS.values(), ids=FORMATS)
def test_memory_formats_are_kept(memory_format: torch.memory_format) -> None:
    x = torch.randn(2, 3, 6, 6).contiguous(memory_format=memory_format).requires_grad_()
    weight = torch.randn(5, 3, 3, 3)
    for output in (
        ht.max_pool2d(x, 3, 2, 1),
        ht.avg_pool2d(x, 3, 2, 1),
        ht.adaptive_max_pool2d(x, 4),
        ht.adaptive_avg_pool2d(x, 4),
        ht.smooth_max_pool2d(x, 3, 1.0, 2),
        ht.conv2d(x, weight),
    ):
        assert output.is_contiguous(memory_format=memory_format)
        (gradient,) = torch.autograd.grad(output, x, torch.ones_like(output))
        assert gradient.is_contiguous(memory_format=memory_format)


def test_strided_and_expanded_inputs() -> None:
    x = torch.randn(4, 9, 8)
    for view in (x.transpose(1, 2), x[:, ::2, 1:], x[:1].expand(3, 9, 8), x.flip(1)):
        assert torch.equal(ht.max_pool2d(view, 2), F.max_pool2d(view, 2))
        assert torch.equal(ht.avg_pool2d(view.double(), 2), ht.avg_pool2d(view.double().contiguous(), 2))


def test_sum_backward_gives_an_expanded_cotangent() -> None:
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    ht.max_pool2d(x, 2).sum().backward()
    assert x.grad is not None
    assert x.grad.sum() == 4


def test_ties_and_nan_differ_from_pytorch_only_in_the_index_of_nan() -> None:
    ties = torch.tensor([[1.0, 1.0, 0.0, 1.0]])
    assert torch.equal(*(f(ties, 4, return_indices=True)[1] for f in (ht.max_pool1d, F.max_pool1d)))
    several = torch.tensor([[0.0, NAN, 2.0, NAN]])
    ours, theirs = (f(several, 4, return_indices=True) for f in (ht.max_pool1d, F.max_pool1d))
    assert torch.isnan(ours[0]).all()
    assert torch.isnan(theirs[0]).all()
    assert ours[1].item() == 1  # the first NaN, by the tie rule
    assert theirs[1].item() == 3  # the last
    assert ht.max_pool1d(several, 4, nan="ignore").item() == 2
    with pytest.raises(RuntimeError, match=r"\[P3\]"):
        ht.max_pool1d(several, 4, nan="raise")


@pytest.mark.parametrize("ties", ["first", "last", "all", "split"])
def test_tie_policies_reach_the_gradient(ties: str) -> None:
    x = torch.tensor([[2.0, 2.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(ht.max_pool1d(x, 2, ties=ties), x, torch.tensor([[4.0]]))
    expected = {"first": [4.0, 0.0], "last": [0.0, 4.0], "all": [4.0, 4.0], "split": [2.0, 2.0]}[ties]
    assert gradient.tolist() == [expected]


def test_empty_batches_and_empty_adaptive_outputs() -> None:
    empty = torch.empty(0, 2, 4, 4, requires_grad=True)
    for output in (ht.max_pool2d(empty, 2), ht.avg_pool2d(empty, 2), ht.conv2d(empty, torch.ones(1, 2, 2, 2))):
        assert output.shape[0] == 0
        output.sum().backward()
    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    for ours, theirs in (
        (ht.adaptive_avg_pool2d, F.adaptive_avg_pool2d),
        (ht.adaptive_max_pool2d, F.adaptive_max_pool2d),
    ):
        assert ours(x, (0, 2)).shape == theirs(x, (0, 2)).shape == (1, 2, 0, 2)
        assert ours(x, (0, 2)).requires_grad


def assert_refused(call: Any, label: str, text: str) -> None:
    with pytest.raises(HalfulpError) as caught:
        call()
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.label == label
    assert text in str(caught.value)


def test_B1_padding_is_at_most_half_the_kernel() -> None:
    x = torch.zeros(1, 8, 8)
    assert_refused(
        lambda: ht.max_pool2d(x, 2, padding=2), "B1", "padding=(2, 2): must be at most half the kernel size (2, 2)"
    )
    assert_refused(lambda: ht.avg_pool2d(x, 3, padding=2), "B1", "avg_pool2d")
    assert_refused(lambda: ht.max_pool2d(x, 3, padding=2, dilation=2), "B1", "max_pool2d")  # dilation does not help
    assert ht.smooth_max_pool2d(x, 2, 1.0, padding=2).shape == (1, 6, 6)  # PyTorch has no such function to follow


@pytest.mark.parametrize("name", ["max_pool2d", "min_pool2d", "avg_pool2d", "sum_pool2d", "lp_pool2d"])
def test_padding_of_one_side_in_every_mode(name: str) -> None:
    x = torch.linspace(-2, 3, 60).view(2, 1, 5, 6)
    settings: dict[str, Any] = {"norm_type": 2.0} if name == "lp_pool2d" else {}
    record = {"max_pool2d": hu.MaxPool, "min_pool2d": hu.MinPool, "avg_pool2d": hu.AvgPool, "sum_pool2d": hu.SumPool}
    op: Any = record[name]((3, 3), 2, ((1, 0), 1)) if name in record else hu.LpPool((3, 3), 2.0, 2, ((1, 0), 1))

    def pooled(x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = getattr(ht, name)(x, kernel_size=3, stride=2, padding=((1, 0), 1), **settings)
        return output

    expected = torch.from_numpy(op(x.numpy()))
    _, tangent = torch.func.jvp(pooled, (x,), (torch.ones_like(x),))
    assert torch.equal(pooled(x), expected)
    assert torch.equal(torch.vmap(pooled)(x), expected)
    assert torch.equal(torch.compile(pooled, backend="eager", fullgraph=True)(x), expected)
    assert torch.equal(tangent, torch.from_numpy(op.jvp((x.numpy(),), (np.ones_like(x.numpy()),))[1]))
    pull = torch.func.vjp(pooled, x)[1](torch.ones_like(expected))[0]
    assert torch.equal(pull, torch.from_numpy(op.vjp(x.numpy())[1](np.ones(expected.shape, np.float32))[0]))
    with pytest.raises(RuntimeError, match=r"padding='same'.*pair \[W2\]"):
        torch.vmap(lambda x: getattr(ht, name)(x, kernel_size=3, padding="same", **settings))(x)


def test_B2_only_the_cpu() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(1, 1, 4, 4, device="cuda")
        assert_refused(
            lambda: ht.max_pool2d(x, 2),
            "B2",
            "device='cuda:0': halfulp computes on the CPU; move the tensor with .cpu()",
        )
        assert_refused(lambda: ht.conv2d(x, torch.empty(1, 1, 1, 1)), "B2", "CPU")
        assert_refused(lambda: torch.ops.halfulp.global_avg_pool(x, 2, True), "B2", "CPU")


def test_B3_ranks_and_empty_planes() -> None:
    assert_refused(lambda: ht.max_pool2d(torch.zeros(4, 4), 2), "B3", "must have 3 or 4 axes, as in PyTorch")
    assert_refused(lambda: ht.max_pool1d(torch.zeros(1, 0, 3), 2), "B3", "only the batch may be empty")
    assert_refused(lambda: ht.conv1d(torch.zeros(3), torch.zeros(1, 1, 1)), "B3", "must have 2 or 3 axes")


def test_B4_same_padding_takes_stride_1() -> None:
    assert_refused(
        lambda: ht.conv1d(torch.zeros(1, 4), torch.zeros(1, 1, 3), stride=2, padding="same"), "B4", "stride 1 only"
    )


def test_other_refusals_are_runtime_errors_too() -> None:
    x = torch.zeros(1, 8, 8)
    assert_refused(lambda: ht.max_pool2d(x, 0), "W1", "max_pool2d")
    assert_refused(lambda: ht.max_pool2d(x, 2, 0), "W3", "max_pool2d")
    assert_refused(lambda: ht.max_pool2d(x, 2, padding=-1), "W2", "max_pool2d")
    assert_refused(lambda: ht.max_pool2d(x, (2, 2, 2)), "W6", "kernel_size=(2, 2, 2)")
    assert_refused(lambda: ht.max_pool2d(x, 2, ties="any"), "P1", "ties")
    assert_refused(lambda: ht.avg_pool2d(x, 2, divisor_override=0), "A1", "divisor_override=0")
    assert_refused(lambda: ht.avg_pool2d(x.long(), 2), "I1", "astype")
    assert_refused(lambda: ht.max_pool2d(x.cfloat(), 2), "I1", "complex64")
    assert_refused(lambda: ht.max_pool2d(x.to_sparse(), 2), "I1", "layout")
    assert_refused(lambda: ht.conv2d(x, torch.zeros(1, 1, 2, 2).double()), "I2", "one element type")
    assert_refused(lambda: ht.conv2d(x, torch.zeros(1, 2, 2, 2)), "C4", "channels")
    assert_refused(lambda: ht.conv2d(x, torch.zeros(1, 1, 2)), "C2", "weight shape=(1, 1, 2)")
    assert_refused(lambda: ht.conv2d(x, torch.zeros(1, 1, 2, 2), padding="full"), "W2", "'full'")
    assert_refused(lambda: ht.Conv2d(1, 1, 1, precision="exact"), "P4", "'exact'")
    with pytest.raises(TypeError, match=r"must be a torch\.Tensor, not ndarray"):
        ht.max_pool2d(np.zeros((1, 4, 4)), 2)


def test_without_pytorch_the_import_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import halfulp\n"
        "try:\n"
        "    import halfulp.torch\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "halfulp.torch needs PyTorch: install it with `pip install 'halfulp[torch]'`"


def test_global_and_smooth_pooling_mean_what_the_records_mean() -> None:
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    for keepdims, (name, record) in itertools.product(
        (True, False), (("avg", hu.GlobalAvgPool), ("max", hu.GlobalMaxPool))
    ):
        output = getattr(ht, f"global_{name}_pool2d")(x, keepdims)
        assert np.array_equal(output.numpy(), record(2, keepdims)(x.numpy()))
    assert np.array_equal(
        ht.smooth_max_pool1d(x[0], 2, -3.0, 1, 1).numpy(), hu.smooth_max_pool1d(x[0].numpy(), 2, -3.0, 1, 1)
    )


def test_threads_are_pytorchs_too() -> None:
    code = (
        "import torch, halfulp as hu, halfulp.torch\n"
        "torch.set_num_threads(1)\n"
        "assert hu.get_num_threads() == 1\n"
        "torch.set_num_threads(2)\n"
        "assert hu.get_num_threads() == 2\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
