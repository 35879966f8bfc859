"""replace(everything=True): what is replaced, what is exact, what is not covered; and taking the model away again."""

import copy
import io
import pickle
from contextlib import nullcontext
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import halfulp.torch as ht


class Block(nn.Module):
    """Functions, operators and methods inside ``forward``, and an operand that is broadcast."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.scale = nn.Parameter(torch.rand(channels, 1, 1) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(F.relu(self.conv(x)), 3, 1, 1)
        return torch.cat([x + y * self.scale, -y], 1)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(3), Block(6)
        self.act = nn.ReLU()
        self.head = nn.Conv2d(12, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.second(F.avg_pool2d(self.first(x), 2)))
        return torch.flatten(self.head(F.adaptive_avg_pool2d(x, 1)), 1)


class Same(nn.Conv2d):
    """A convolution that pads by itself, as timm's Conv2dSame."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.pad(input, (0, 1, 0, 1)), self.weight, self.bias, self.stride)


class Simple(nn.Conv3d):
    """A convolution with another constructor only, as torchvision's Conv3DSimple."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, (1, 3, 3), padding=(0, 1, 1), bias=False)


def made() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = Network()
    ht.replace(model, everything=True)
    return model, torch.randn(2, 3, 12, 12)


def test_layers_and_calls_are_ours_and_the_report_says_so() -> None:
    torch.manual_seed(0)
    model = Network()
    expected = copy.deepcopy(model).double()
    report = ht.replace(model, everything=True)
    assert set(report.swapped) == {"(the model itself)", "first", "first.conv", "second", "second.conv", "head"}
    assert report.exact == {"act": "torch.nn.ReLU"}
    assert report.calls == {}
    x = torch.randn(2, 3, 12, 12)
    report.run(x)
    assert report.calls == dict.fromkeys(["max_pool2d", "mul", "add", "avg_pool2d", "adaptive_avg_pool2d"], "ours")
    assert report.not_covered == {}
    assert "not covered: nothing seen" in repr(report)
    assert isinstance(model, Network)
    torch.testing.assert_close(model(x).double(), expected(x.double()), rtol=1e-5, atol=1e-6)
    assert ht.replace(model, everything=True).swapped == {}


def test_what_is_not_covered_is_named() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fft(self.rnn(x)[0]).real.cumsum(0)[torch.tensor([0, 0])]

    report = ht.replace(Odd(), everything=True)
    assert report.left == {"rnn": "torch.nn.GRU: PyTorch's own"}
    report.run(torch.ones(2, 1, 4))
    assert {"rnn", "fft_fft", "cumsum"} <= set(report.not_covered)
    report.model(torch.ones(2, 1, 4))
    assert "its gradient in its own order" in report.calls["getitem"]
    assert "not covered\n" in repr(report)


def test_the_gradient_of_a_broadcast_operand_is_the_rounded_exact_sum() -> None:
    torch.manual_seed(1)
    x = torch.randn(4, 3, 50, 50) * 1e3
    scale = torch.rand(3, 1, 1, requires_grad=True)
    g = torch.randn(4, 3, 50, 50)
    exact = (g.double() * x.double()).float()  # what the chain rule hands to the sum, rounded as an element
    for layout in (torch.contiguous_format, torch.channels_last):
        with ht.patched(everything=True):
            y = x.contiguous(memory_format=layout) * scale
        (found,) = torch.autograd.grad(y, scale, g)
        expected = [float(np.float32(sum(map(float_of, exact[:, c].flatten().tolist())))) for c in range(3)]
        assert found.flatten().tolist() == expected
    a = torch.randn(3, 1, dtype=torch.float64, requires_grad=True)
    b = torch.randn(2, 1, 4, dtype=torch.float64, requires_grad=True)

    def both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with ht.patched(everything=True):
            return (a * b + a - b / (2 + a * a)) * 2

    assert torch.autograd.gradcheck(both, (a, b), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(both, (a, b))


def float_of(value: float) -> Any:
    from fractions import Fraction

    return Fraction(value)


@pytest.mark.parametrize("everything", [False, True])
def test_subclasses_that_change_only_their_constructor_are_swapped(everything: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Simple(2))
    x = torch.randn(1, 2, 3, 5, 5)
    plain = ht.conv3d(x, model[0].weight, None, 1, (0, 1, 1))
    report = ht.replace(model, convolutions=True, everything=everything)
    assert list(report.swapped) == ["0"]
    assert isinstance(model[0], Simple)
    for other in (model, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(other(x), plain)


def test_subclasses_with_their_own_forward_run_with_our_functions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Same(2, 3, 2))
    x = torch.randn(1, 2, 5, 5)
    plain = ht.conv2d(F.pad(x, (0, 1, 0, 1)), model[0].weight, model[0].bias)
    left = ht.replace(model, convolutions=True)
    assert "everything=True runs it with our functions" in left.left["0"]
    ht.replace(model, everything=True)
    assert torch.equal(model(x), plain)


@pytest.mark.parametrize("everything", [False, True])
def test_parametrised_layers_are_swapped(everything: bool) -> None:
    torch.manual_seed(0)
    layer = nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 3, 3))
    x = torch.randn(1, 2, 5, 5)
    report = ht.replace(nn.Sequential(layer), convolutions=True, everything=everything)
    assert "0" in report.swapped
    assert torch.equal(report.model(x), ht.conv2d(x, layer.weight, layer.bias))
    report.model(x).sum().backward()
    assert layer.parametrizations.weight.original0.grad is not None
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is ht.Conv2d


def test_copies_pickles_and_saved_models_give_the_same_bits() -> None:
    model, x = made()
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    loaded = torch.load(stream, weights_only=False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert torch.equal(other(x), model(x))
        other.load_state_dict(model.state_dict())
    Network().load_state_dict(model.state_dict())
    assert "halfulp" not in "".join(model.state_dict())


def test_tracers_record_our_functions() -> None:
    model, x = made()
    traced = torch.fx.symbolic_trace(model)
    names = [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function"]
    assert {"conv2d", "max_pool2d", "mul", "add", "avg_pool2d", "adaptive_avg_pool2d"} <= set(names)
    assert all(n.op != "call_module" or n.target == "act" for n in traced.graph.nodes)
    for graph in (traced, pickle.loads(pickle.dumps(traced))):
        assert torch.equal(graph(x), model(x))
    exported = torch.export.export(model, (x,))
    assert torch.equal(exported.module()(x), model(x))
    with pytest.raises(ValueError, match="TorchScript cannot compile this module"):
        torch.jit.script(model)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's own tracing does
def test_compiled_models_give_the_same_bits_and_gradients() -> None:
    model, x = made()
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), model(x))
    for each in (model, compiled):
        each(x).square().sum().backward()
    pairs = zip(model.parameters(), compiled.parameters(), strict=True)
    assert all(torch.equal(a.grad, b.grad) for a, b in pairs)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", ["SiLU", "Hardswish", "Hardsigmoid", "ELU", "Mish"])
def test_activations_with_an_inplace_argument_are_ours_in_traced_models(name: str, inplace: bool) -> None:
    torch._dynamo.reset()  # the limit of recompilations counts those of other tests
    layers = [nn.Linear(4, 5), getattr(nn, name)(inplace=inplace)]
    model, x = nn.Sequential(*layers), torch.randn(30, 4)
    ht.replace(model, everything=True)
    program = torch.export.export(model, (x,))
    assert torch.equal(program.module()(x), model(x))
    assert torch.equal(torch.compile(model, fullgraph=True, backend="aot_eager")(x), model(x))


def test_autocast_computes_convolutions_in_its_type() -> None:
    model, x = made()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(x).dtype is torch.bfloat16


class Mixed(nn.Module):
    """The layers that autocast treats differently: products, normalisations, activations, losses."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.batch, self.group = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
        self.layer, self.head = nn.LayerNorm(4), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.hardswish(self.group(self.batch(self.conv(x))))
        return self.head(self.layer(x.mean((2, 3))) @ torch.eye(4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_train_under_autocast_with_the_types_of_pytorch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, labels = Mixed(), torch.tensor([1, 4])
    theirs, x = copy.deepcopy(ours), torch.randn(2, 3, 6, 6)
    report = ht.replace(ours, everything=True)
    found = []
    for model in (ours, theirs):
        with torch.autocast("cpu", dtype=dtype), ht.patched(everything=True) if model is ours else nullcontext():
            output = model(x)
            loss = F.cross_entropy(output, labels) + F.mse_loss(output, torch.zeros(2, 5))
        loss.backward()
        found.append([output, loss, *(p.grad for p in model.parameters()), *model.buffers()])
    assert report.not_covered == {}
    for a, b in zip(*found, strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(a.double(), b.double(), rtol=0.1, atol=0.1)


_POOLS = [
    *(getattr(nn, f"{name}{d}d")(2) for name in ("MaxPool", "AvgPool", "AdaptiveAvgPool") for d in (1, 2, 3)),
    *(getattr(nn, f"AdaptiveMaxPool{d}d")(2, return_indices=i) for d in (1, 2, 3) for i in (False, True)),
    *(getattr(nn, f"MaxPool{d}d")(2, return_indices=True) for d in (1, 2, 3)),
    *(getattr(nn, f"LPPool{d}d")(2, 2) for d in (1, 2, 3)),
    *(getattr(nn, f"FractionalMaxPool{d}d")(2, output_size=2, return_indices=i) for d in (2, 3) for i in (False, True)),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("layer", _POOLS, ids=str)
def test_pools_under_autocast_have_the_types_of_pytorch(layer: nn.Module, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rank = int(type(layer).__name__[-2])
    theirs = copy.deepcopy(layer)
    ours = nn.Sequential(copy.deepcopy(layer))
    ht.replace(ours, everything=True)
    x = torch.randn(1, 2, *[6] * rank).to(dtype)
    found = []
    for model in (ours, theirs):
        point = x.clone().requires_grad_()
        torch.manual_seed(1)  # fractional pooling draws
        with torch.autocast("cpu", dtype=torch.bfloat16 if dtype is torch.float64 else dtype):
            output = model(point)
        output = output[0] if isinstance(output, tuple) else output
        output.double().sum().backward()
        found.append((output, point.grad))
    (y, dx), (z, dz) = found
    assert y.dtype is z.dtype
    assert dx.dtype is dz.dtype is dtype
    if "Fractional" not in type(layer).__name__:  # samples of another type are other samples
        torch.testing.assert_close(y, z, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_under_autocast_has_the_type_of_pytorch(rank: int) -> None:
    x = torch.randn(1, 1, *[4] * rank).bfloat16()
    y, where = getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = (getattr(home, f"max_unpool{rank}d")(y, where, 2) for home in (ht, F))
        whole = ht.avg_pool3d(x.reshape(1, 1, -1, 1, 1), (2, 1, 1))
    assert found.dtype is expected.dtype is torch.float32
    assert torch.equal(found, expected)
    assert torch.equal(whole.flatten(), ht.avg_pool1d(x.float().reshape(1, 1, -1), 2).flatten())  # one rounding


def test_a_normalisation_with_wider_parameters_rounds_to_float32_then_to_its_input() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(4, 6).bfloat16(), torch.randn(6), torch.randn(6)
    for function, arguments in (
        (ht.layer_norm, ((6,), weight, bias)),
        (ht.group_norm, (2, weight, bias)),
        (ht.batch_norm, (torch.zeros(6), torch.ones(6), weight, bias, True)),
    ):
        assert torch.equal(function(x, *arguments), function(x.float(), *arguments).bfloat16())


def test_autocast_leaves_float64_alone() -> None:
    x, w = torch.randn(1, 2, 5, dtype=torch.float64), torch.randn(3, 2, 2, dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ht.conv1d(x, w).dtype is F.conv1d(x, w).dtype is torch.float64
        assert ht.linear(x, torch.ones(3, 5, dtype=torch.float64)).dtype is torch.float64


def test_empty_batches_have_zero_gradients() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.scale, self.head = nn.Conv2d(3, 4, 1), nn.Parameter(torch.ones(4, 1, 1)), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x) * self.scale
            return self.head((y * F.hardsigmoid(F.adaptive_avg_pool2d(y, 1))).mean((2, 3)))

    model = ht.replace(Scaled(), everything=True).model
    output = model(torch.zeros(0, 3, 2, 2))
    assert output.shape == (0, 2)
    output.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_one_value_per_channel_is_refused_in_training_as_in_pytorch() -> None:
    model = ht.replace(nn.Sequential(nn.BatchNorm2d(3)), everything=True).model
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        model(torch.ones(1, 3, 1, 1))
    assert model[0].running_var.tolist() == [1, 1, 1]
    model.eval()(torch.ones(1, 3, 1, 1))


def test_data_parallel_of_the_cpu_is_a_container() -> None:
    report = ht.replace(nn.DataParallel(Network()), everything=True).run(torch.randn(2, 3, 12, 12))
    assert report.not_covered == {}


class Added(nn.Module):
    """A block that adds in place, to its own shape and along broadcast axes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scale = nn.Conv2d(3, 3, 1), nn.Parameter(torch.rand(3, 1, 1))
        self.act, self.relu = nn.Hardswish(inplace=True), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        y += x
        y *= self.scale
        y.sub_(x, alpha=0.5)
        return self.relu(self.act(y))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_operations_in_place_write_into_their_operand() -> None:
    torch.manual_seed(0)
    model, x = Added(), torch.randn(2, 3, 5, 5)
    report = ht.replace(model, everything=True)
    y = ht.conv2d(x, model.conv.weight, model.conv.bias)
    y = (y + x) * model.scale - x * 0.5
    expected = F.relu(ht.hardswish(y))
    assert torch.equal(model(x), expected)
    assert report.not_covered == {}
    a = torch.ones(2, 3)
    with ht.patched(everything=True):
        b = a.add_(torch.ones(3))
    assert b is a
    assert a.tolist() == [[2, 2, 2]] * 2
    g = torch.randn(2, 3, 5, 5)
    (found,) = torch.autograd.grad(model(x), model.scale, g)
    with ht.patched(everything=True):
        again = F.relu(F.hardswish((model.conv(x) + x) * model.scale - x * 0.5))
    assert torch.equal(found, torch.autograd.grad(again, model.scale, g)[0])
    for traced in (torch.jit.trace(model, x), torch.fx.symbolic_trace(model)):
        assert torch.equal(traced(x), expected)


def test_attention_is_ours() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 7, 6, dtype=torch.float64).unbind()
    mask = torch.rand(7, 7) > 0.5
    mask[2] = False  # a query without keys
    for keywords in ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": torch.randn(7, 7)}, {"scale": 0.3}):
        keywords = {a: b.double() if a == "attn_mask" and b.is_floating_point() else b for a, b in keywords.items()}
        expected = F.scaled_dot_product_attention(q, k, v, **keywords)
        with ht.patched(everything=True) as calls:
            found = F.scaled_dot_product_attention(q, k, v, **keywords)
        torch.testing.assert_close(found, expected)
        assert calls == {"scaled_dot_product_attention": "ours"}
    with ht.patched(everything=True):
        shared = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
        rows = [F.scaled_dot_product_attention(*(t[i : i + 1].float() for t in (q, k, v))) for i in range(2)]
        assert torch.equal(torch.cat(rows), F.scaled_dot_product_attention(q.float(), k.float(), v.float()))
    torch.testing.assert_close(shared, F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["hardsigmoid", "hardtanh", "relu6", "abs", "expm1", "log1p", "rsqrt", "reciprocal"])
def test_elementwise_functions_are_standard_nodes(name: str) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return getattr(ht, name)(x)

    x = torch.rand(3, 4) + 0.5
    program = torch.onnx.export(Model().eval(), (x,), verbose=False)
    assert program is not None
    assert all(node.domain == "" for node in program.model.graph)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, getattr(ht, name)(x).numpy(), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_onnx_export_gives_standard_nodes(tmp_path: Any) -> None:
    model, x = made()
    program = torch.onnx.export(model.eval(), (x,), verbose=False)
    assert program is not None
    kinds = {node.op_type for node in program.model.graph}
    assert {"Conv", "MaxPool", "AveragePool", "Relu"} <= kinds
    assert all(node.domain == "" for node in program.model.graph)
    program.save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("layer", "kind"),
    [
        (ht.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), "ConvTranspose"),
        (ht.Conv2d(3, 2, 4, padding="same"), "Conv"),
        (ht.MaxPool2d(3, 2, 1, ceil_mode=True), "MaxPool"),
        (ht.AvgPool2d(3, 2, 1, count_include_pad=False), "AveragePool"),
        (ht.AdaptiveMaxPool2d(1), "ReduceMax"),
        (ht.GlobalAvgPool2d(), "ReduceMean"),
        (nn.Sequential(nn.BatchNorm2d(3), nn.GELU()), "BatchNormalization"),
        (nn.Sequential(nn.GroupNorm(3, 3), nn.SiLU()), "Sigmoid"),
        (nn.Sequential(nn.LayerNorm([3, 8, 8]), nn.Softplus(), nn.Hardswish()), "LayerNormalization"),
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ELU(), nn.Mish(), nn.Softmax(1)), "Softmax"),
        (nn.Sequential(nn.InstanceNorm2d(3, affine=True), nn.Tanh(), nn.LogSoftmax(1)), "LogSoftmax"),
    ],
)
def test_every_layer_with_a_namesake_is_exported(layer: nn.Module, kind: str, tmp_path: Any) -> None:
    x = torch.randn(1, 3, 8, 8)
    assert ht.replace(layer.eval(), everything=True).run(x).not_covered == {}
    program = torch.onnx.export(nn.Sequential(layer).eval(), (x,), verbose=False)
    assert program is not None
    assert kind in {node.op_type for node in program.model.graph}
    program.save(tmp_path / "layer.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, layer(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_operations_in_place_keep_their_meaning() -> None:
    x = torch.ones(2, 3)
    with ht.patched(everything=True) as calls:
        y = x * 2
        y += torch.ones(3)
        y.mul_(2)
    assert y.tolist() == [[6.0] * 3] * 2
    assert {"add_", "mul_"} <= set(calls or {})


def test_second_derivatives_of_a_replaced_model_are_right() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2, 2), nn.Softmax(1))
    assert ht.replace(model.double(), everything=True).left == {}
    x = torch.randn(2, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model, (x,))
    assert torch.autograd.gradgradcheck(model, (x,))


class Called(nn.Module):
    """A model that is one call."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x)


def windows_of_axis(x: torch.Tensor) -> torch.Tensor:
    return x.unfold(2, 3, 1)


def test_the_method_unfold_is_not_the_function() -> None:
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    report = ht.replace(model := Called(windows_of_axis), everything=True)
    assert torch.equal(model(x), windows_of_axis(x))
    assert "Tensor.unfold" in str(report)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), windows_of_axis(x))
    torch._dynamo.reset()
    assert torch.equal(torch.compile(model, backend="eager")(x), windows_of_axis(x))


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("rsqrt", torch.rsqrt, ht.rsqrt),
        ("log1p", torch.log1p, ht.log1p),
        ("expm1", torch.expm1, ht.expm1),
        ("hardsigmoid", F.hardsigmoid, ht.hardsigmoid),
        (
            "max_pool2d_with_indices",
            lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
            lambda x: ht.max_pool2d(x, 2, return_indices=True)[1],
        ),
        (
            "adaptive_max_pool2d_with_indices",
            lambda x: F.adaptive_max_pool2d(x, 3, True)[0],
            lambda x: ht.adaptive_max_pool2d(x, 3),
        ),
        (
            "max_unpool2d",
            lambda x: F.max_unpool2d(x, torch.tensor([[[[3, 1], [6, 7]]]]), 2),
            lambda x: ht.max_unpool2d(x, torch.tensor([[[[3, 1], [6, 7]]]]), 2),
        ),
        (
            "fractional_max_pool2d",
            lambda x: F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.zeros(1, 1, 2)),
            lambda x: ht.fractional_max_pool2d(x, 2, 2, random_samples=torch.zeros(1, 1, 2)),
        ),
    ],
)
def test_calls_of_every_declared_operator_are_ours(name: str, theirs: Any, ours: Any) -> None:
    size = 2 if name == "max_unpool2d" else 5
    x = torch.rand(1, 1, size, size, generator=torch.Generator().manual_seed(0)) + 0.25
    report = ht.replace(model := Called(theirs), everything=True)
    assert torch.equal(model(x), ours(x))
    assert name in str(report)
    assert "not covered: nothing seen" in str(report)


def test_no_declared_operator_with_a_namesake_is_left_out() -> None:
    from halfulp.records import declarations
    from halfulp.torch._covered import EXACT, OURS

    names = {n for d in declarations() if d.torch and d.record.__module__.startswith("halfulp.") for n in d.names}
    assert {n for n in names if hasattr(F, n) or hasattr(torch, n)} <= {*EXACT, *OURS}


class Calls(nn.Module):
    """One expression in ``forward``, with a parameter that is broadcast over batch and pixels."""

    def __init__(self, expression: Any) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.randn(24, 1, 1, generator=torch.Generator().manual_seed(1)))
        self.expression = expression

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.expression(self.p, x)
        return result


def gradients(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    y = model(x)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(2)))
    return [tensor.detach().contiguous() for tensor in (y, x.grad, *(p.grad for p in model.parameters()))]


COVERED: dict[str, Any] = {
    "matmul": lambda p, x: x.flatten(2).transpose(1, 2) @ (p[:, :, 0] * p[:5, 0, 0]),
    "where": lambda p, x: torch.where(x > 0, x, p),
    "maximum": lambda p, x: torch.maximum(x, p),
    "max": lambda p, x: torch.max(x, p),
    "clamp": lambda p, x: x.clamp(min=p),
    "masked_fill": lambda p, x: x.masked_fill(x > 0, p[0, 0, 0]),
    "copy_": lambda p, x: torch.empty_like(x).copy_(p) * x,
    "linear": lambda p, x: F.linear(input=x.transpose(1, 3), weight=p[:, :, 0].t()),
    "pow": lambda p, x: torch.pow(x.abs() * p, exponent=3),
    "hardswish": lambda p, x: F.hardswish(x * p),
    "sigmoid": lambda p, x: F.sigmoid(x * p),
    "sigmoid_": lambda p, x: (x * p).sigmoid_(),
    "power": lambda p, x: (x * p) ** 3,
    "reciprocal": lambda p, x: 3 / (x.abs() + p.abs() + 1),
    "silu_": lambda p, x: F.silu(x * p, inplace=True),
    "prelu": lambda p, x: F.prelu(x, p[:, 0, 0]),
    "normalize": lambda p, x: F.normalize(x * p),
    "norm": lambda p, x: (x * p).norm(dim=(2, 3), keepdim=True),
    "norm of magnitudes": lambda p, x: torch.norm(x * p, 1, 1),
    "upsample": lambda p, x: F.upsample(x * p, scale_factor=2, mode="bilinear"),
}


@pytest.mark.filterwarnings("ignore:.*upsample:UserWarning", "ignore:.*should not be:DeprecationWarning")
@pytest.mark.parametrize("name", COVERED)
def test_calls_and_their_gradients_do_not_change_with_threads_layout_or_tracer(name: str) -> None:
    x = torch.randn(8, 24, 20, 20, generator=torch.Generator().manual_seed(0))
    model = Calls(COVERED[name])
    report = ht.replace(model, everything=True)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = gradients(model, x)
        torch.set_num_threads(2)
        others = [gradients(model, x), gradients(model, x.to(memory_format=torch.channels_last))]
    finally:
        torch.set_num_threads(threads)
    torch._dynamo.reset()
    others.append(gradients(torch.compile(model, backend="aot_eager", fullgraph=True), x))
    others.append(gradients(torch.fx.symbolic_trace(model), x))
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(expected, other, strict=True))
    assert report.not_covered == {}


@pytest.mark.parametrize("dim", [None, 1, -1, (0, 2)])
@pytest.mark.parametrize("p", [2, 1.0, 3, float("inf"), "fro"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norms_are_pytorchs_and_have_no_gradient_at_zero(dim: Any, p: Any, keepdim: bool) -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    x[0] = 0
    model = Called(lambda x: x.norm(p, dim, keepdim))
    report = ht.replace(model, everything=True)
    results = []
    for function in (model, lambda x: x.norm(p, dim, keepdim)):
        leaf = x.clone().requires_grad_()
        y = function(leaf)
        y.sum().backward()
        results.append((y.detach(), leaf.grad))
    torch.testing.assert_close(*results)
    assert report.not_covered == {}


@pytest.mark.parametrize("p", [0.5, 0, "nuc"])
def test_norms_that_are_left_are_named(p: Any) -> None:
    report = ht.replace(Called(lambda x: x.norm(p)), everything=True).run(torch.randn(2, 3))
    assert report.not_covered == {"norm": "torch.Tensor.norm: PyTorch's own"}


@pytest.mark.parametrize("count", [1, 3])
def test_prelu_is_ours(count: int) -> None:
    model = nn.Sequential(nn.PReLU(count))
    report = ht.replace(model, everything=True)
    assert report.swapped == {"0": "torch.nn.PReLU -> its forward with our functions"}
    for x in (torch.randn(2, 3), torch.randn(2, 3, 4), torch.randn(2, 3, 4, 5)):
        weight = model[0].weight.detach()
        assert torch.equal(model(x), F.prelu(x, weight))
    assert report.not_covered == {}


def test_an_operand_without_axes_does_not_choose_the_type() -> None:
    x, small = torch.randn(3, 4), torch.tensor(0.1, dtype=torch.float64)
    with ht.patched(everything=True):
        assert (x * small).dtype is torch.float32
        assert (x.half() + torch.tensor(0.1)).dtype is torch.float16
        assert torch.where(x > 0, x, small).dtype is torch.float32
        assert (torch.arange(4) * torch.tensor(0.5)).dtype is torch.float32


def test_forms_that_are_left_to_pytorch_are_named() -> None:
    x = torch.rand(2, 3, 8, 8)

    def forward(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = x**2 + torch.full_like(x, 0.5) ** x + x**2
        y = F.interpolate(y, size=(4, 4), mode="bilinear", antialias=True) + F.interpolate(y, size=(4, 4))
        y = F.pad(y, (1, 1, 1, 1), mode="reflect")
        return torch.exp(y, out=torch.empty_like(y)) if not torch.is_grad_enabled() else y

    report = ht.replace(Calls(forward), everything=True)
    report.model(x)
    assert set(report.not_covered) == {"pow", "interpolate", "pad"}
    report.run(x)
    assert set(report.not_covered) == {"pow", "interpolate", "pad", "exp"}


def test_running_statistics_of_an_instance_norm_of_a_users_class_move() -> None:
    class Own(nn.InstanceNorm2d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input)

    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4)
    plain = Own(3, track_running_stats=True)
    model = copy.deepcopy(plain)
    report = ht.replace(model, everything=True)
    plain(x), model(x)
    torch.testing.assert_close(plain.running_mean, model.running_mean)
    assert report.not_covered == {}
    assert report.calls["instance_norm"] == "ours"


def test_what_another_class_cannot_reach_is_named() -> None:
    patched = nn.Conv2d(3, 3, 1)
    patched.forward = lambda x: F.conv2d(x, patched.weight)  # type: ignore[method-assign]
    hooked = nn.Conv2d(3, 3, 1)
    hooked.register_forward_hook(lambda layer, inputs, output: output.logsumexp(1, keepdim=True))
    for convolutions, everything in ((True, False), (False, True)):
        model = nn.Sequential(patched, nn.LazyConv2d(3, 1))
        report = ht.replace(model, convolutions=convolutions, everything=everything)
        assert report.swapped == {}
        assert "attribute of the object" in report.not_covered["0"]
        assert "run the model once, then replace it" in report.not_covered["1"]
    assert list(ht.replace(nn.Sequential(hooked), everything=True).not_covered) == ["0 (hooks)"]
    inside = ht.replace(Wrapped(hooked), everything=True).run(torch.rand(1, 3, 2, 2))
    assert list(inside.not_covered) == ["logsumexp"]


class Wrapped(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm])
def test_weight_norm_is_replaced(norm: Any) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(30, 4), torch.randn(5, 30)
    direction, bias = layer.weight.detach(), layer.bias
    model = nn.Sequential(norm(layer))
    report = ht.replace(model, everything=True)
    assert report.not_covered == {}
    root = ht.sqrt(ht.sum(direction * direction, 1, keepdim=True))
    size = layer.weight_g if hasattr(layer, "weight_g") else layer.parametrizations.weight.original0
    with torch.no_grad():
        assert torch.equal(model(x), ht.linear(x, direction / root * size, bias))
    if norm is nn.utils.weight_norm:
        nn.utils.remove_weight_norm(layer)
    else:
        nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert torch.equal(model(x), ht.linear(x, direction / root * size, bias))


def test_counting_batches_is_exact() -> None:
    report = ht.replace(nn.Sequential(nn.BatchNorm2d(3)), everything=True)
    report.model(torch.rand(2, 3, 2, 2))
    assert report.not_covered == {}


def test_a_second_report_names_layers_that_were_replaced_before() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    ht.replace(model, everything=True)
    report = ht.replace(model, everything=True)
    assert report.exact == {
        "0": "halfulp.torch.Linear",
        "1": "halfulp.torch.LayerNorm",
    }
