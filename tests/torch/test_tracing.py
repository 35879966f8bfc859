"""The older tracers: ``torch.fx`` records our functions, ``torch.jit.script`` is refused. Lazy views are resolved."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import halfulp.torch as ht
from tests.scaling import examples

POOLS = {
    "MaxPool": lambda n: (2,),
    "AvgPool": lambda n: (2,),
    "AdaptiveAvgPool": lambda n: (3,),
    "AdaptiveMaxPool": lambda n: (3,),
    "SmoothMaxPool": lambda n: (2, 1.5),
    "GlobalAvgPool": lambda n: (),
    "GlobalMaxPool": lambda n: (),
    "Conv": lambda n: (2, 3, 2),
    "ConvTranspose": lambda n: (2, 3, 2),
}
MODULES = [(f"{name}{n}d", arguments(n), n) for name, arguments in POOLS.items() for n in (1, 2, 3)]
SIZES = (2, 2, 5, 4, 6)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return a.dtype == b.dtype and torch.equal(a.contiguous().view(bits), b.contiguous().view(bits))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = ht.Conv2d(2, 4, 3, padding=1)
        self.pool = ht.MaxPool2d(2, return_indices=True)
        self.up = ht.ConvTranspose2d(4, 2, 2, stride=2, precision="fast")

    def forward(self, x):
        y, indices = self.pool(torch.relu(self.conv(x)))
        z = ht.avg_pool2d(self.up(y), 2)
        return ht.smooth_max_pool2d(z, 2, beta=2.0), indices


@pytest.mark.parametrize(("name", "arguments", "n"), MODULES)
def test_fx_traces_every_module(name, arguments, n):
    torch.manual_seed(0)
    module = getattr(ht, name)(*arguments)
    x = torch.randn(SIZES[: n + 2])
    # A transposed convolution takes output_size, so it cannot be the root of a trace, neither ours nor PyTorch's.
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(module) if "Transpose" in name else module)
    calls = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert [call.__module__.startswith("halfulp.torch.") for call in calls] == [True]
    for graph in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert same(graph(x), module(x))


@pytest.mark.parametrize("mode", ["reflect", "circular"])
def test_fx_traces_convolutions_that_pad_by_themselves(mode):
    module = ht.Conv2d(2, 3, 3, padding=1, padding_mode=mode)
    x = torch.randn(1, 2, 5, 5)
    assert same(torch.fx.symbolic_trace(module)(x), module(x))


def test_fx_traces_a_network_of_modules_and_functions_and_exports_it():
    torch.manual_seed(0)
    network, x = Network(), torch.randn(2, 2, 8, 8)
    traced = torch.fx.symbolic_trace(network)
    for found, expected in zip(traced(x), network(x), strict=True):
        assert same(found, expected)
    exported = torch.export.export(traced, (x,)).module()
    for found, expected in zip(exported(x), network(x), strict=True):
        assert same(found, expected)
    value = x.clone().requires_grad_()
    traced(value)[0].sum().backward()
    other = x.clone().requires_grad_()
    network(other)[0].sum().backward()
    assert same(value.grad, other.grad)
    assert same(ht.max_pool2d(x, 2), torch.fx.symbolic_trace(lambda v: ht.max_pool2d(v, 2))(x))


@pytest.mark.parametrize(("name", "arguments", "n"), MODULES)
def test_B5_scripting_is_refused_with_a_sentence(name, arguments, n):
    module = getattr(ht, name)(*arguments)
    for scripted in (module, torch.nn.Sequential(torch.nn.ReLU(), module)):
        with pytest.raises(RuntimeError) as caught, pytest.warns() as _:
            torch.jit.script(scripted)
        assert str(caught.value) == (
            f"{name}: torch.jit.script: TorchScript cannot compile this module; "
            "use torch.compile, torch.export, torch.fx or torch.jit.trace [B5]"
        )


@examples(60)
@given(
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    st.sampled_from(["max", "max indices", "avg", "smooth", "conv", "transpose", "adaptive"]),
    st.sampled_from(["neg", "imag", "neg of a slice"]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_lazily_negated_views_are_resolved(dtype, name, way, gradient, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, 2, 6, 6, generator=generator).to(dtype)
    weight = torch.randn(2, 2, 2, 2, generator=generator).to(dtype)
    if way == "imag" and dtype in (torch.float32, torch.float64):
        lazy = torch.complex(x, x).conj().imag
    elif way == "neg of a slice":
        lazy = torch._neg_view(torch.stack([x, x], -1)[..., 1])
    else:
        lazy = torch._neg_view(x)
    assert lazy.is_neg()
    plain = lazy.resolve_neg().contiguous()
    functions = {
        "max": lambda v: ht.max_pool2d(v, 2),
        "max indices": lambda v: ht.max_pool2d(v, 2, return_indices=True)[0],
        "avg": lambda v: ht.avg_pool2d(v, 2),
        "smooth": lambda v: ht.smooth_max_pool2d(v, 2, beta=1.0),
        "conv": lambda v: ht.conv2d(v, weight),
        "transpose": lambda v: ht.conv_transpose2d(v, torch._neg_view(weight)),
        "adaptive": lambda v: ht.adaptive_max_pool2d(v, 3),
    }
    f = functions[name]
    assert same(f(lazy), f(plain))
    if gradient:
        shares = []
        for value in (lazy, plain):
            value = value.detach().requires_grad_()
            output = f(value)
            (share,) = torch.autograd.grad(output, value, torch._neg_view(torch.ones_like(output)))
            shares.append(share)
        assert same(*shares)


@pytest.mark.parametrize("conjugate", [False, True])
def test_I1_complex_tensors_are_refused_by_their_type(conjugate):
    z = torch.complex(torch.ones(1, 4), torch.ones(1, 4))
    z = z.conj() if conjugate else z
    with pytest.raises(RuntimeError, match=r"complex64: must be float16, bfloat16, float32, float64.* \[I1\]"):
        ht.max_pool1d(z, 2)
    with pytest.raises(RuntimeError, match=r"complex64: must be float16, bfloat16, float32, float64.* \[I1\]"):
        ht.conv1d(z, z.reshape(1, 1, 4))
