"""Linear layers, normalisations, softmax, losses, embeddings, upsampling and dropout as modules."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import halfulp as hu
import halfulp.torch as ht
from halfulp.torch import modules_layer

x = torch.linspace(-3, 5, 120)
image, classes = x.view(2, 3, 4, 5), torch.tensor([0, 2])
CASES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], Any]] = {
    "Linear": ((5, 7), (image,), lambda m, x: ht.linear(x, m.weight, m.bias)),
    "LayerNorm": (((4, 5),), (image,), lambda m, x: ht.layer_norm(x, (4, 5), m.weight, m.bias)),
    "GroupNorm": ((3, 3), (image,), lambda m, x: ht.group_norm(x, 3, m.weight, m.bias)),
    "Softmax": ((1,), (image,), lambda m, x: ht.softmax(x, 1)),
    "Softmax2d": ((), (image,), lambda m, x: ht.softmax(x, 1)),
    "LogSoftmax": ((-1,), (image,), lambda m, x: ht.log_softmax(x, -1)),
    "CrossEntropyLoss": ((), (x[:6].view(2, 3), classes), lambda m, x, t: ht.cross_entropy(x, t)),
    "MSELoss": ((), (x, x.flip(0) / 3), lambda m, x, t: ht.mse_loss(x, t)),
    "Embedding": ((3, 4), (classes,), lambda m, i: ht.embedding(i, m.weight)),
    "Upsample": ((None, 1.7, "bilinear"), (image,), lambda m, x: ht.interpolate(x, None, 1.7, "bilinear")),
    "UpsamplingNearest2d": (((3, 9),), (image,), lambda m, x: ht.interpolate(x, (3, 9))),
    "UpsamplingBilinear2d": (((3, 9),), (image,), lambda m, x: ht.interpolate(x, (3, 9), None, "bilinear", True)),
}
for rank, shape in ((1, (8, 3, 5)), (2, (2, 3, 4, 5)), (3, (1, 3, 2, 4, 5))):
    cells = (x.view(shape),)
    CASES[f"BatchNorm{rank}d"] = (
        (3,),
        cells,
        lambda m, x: ht.batch_norm(x, None, None, m.weight, m.bias, training=True),
    )
    CASES[f"InstanceNorm{rank}d"] = ((3,), cells, lambda m, x: ht.instance_norm(x))
for rank in ("", "1d", "2d", "3d"):
    CASES[f"Dropout{rank}"] = (
        (0.5,),
        (x.view(2, 3, 4, 5, 1) if rank == "3d" else x.view(2, 60, 1) if rank == "1d" else image,),
        lambda m, x: getattr(ht, type(m).__name__.lower())(x, 0.5),
    )
every_layer = pytest.mark.parametrize("name", CASES)


def test_every_layer_is_here() -> None:
    assert sorted(CASES) == sorted(modules_layer.__all__)


def _made(name: str) -> Any:
    torch.manual_seed(3)
    layer = getattr(ht, name)(*CASES[name][0])
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -2, 2)
    return layer


def _gradients(function: Any, layer: Any, inputs: Any) -> list[Any]:
    given = [t.clone().requires_grad_(t.is_floating_point()) for t in inputs]
    torch.manual_seed(5)
    output = function(*given)
    (output * torch.linspace(-1, 1, output.numel()).view(output.shape)).sum().backward()
    found = [output.detach(), *(t.grad for t in given), *(p.grad for p in layer.parameters())]
    layer.zero_grad(set_to_none=True)
    return [t for t in found if t is not None]


@every_layer
def test_value_and_gradients_are_those_of_the_function(name: str) -> None:
    layer, (_, inputs, function) = _made(name), CASES[name]
    assert repr(layer) == repr(getattr(nn, name)(*CASES[name][0]))
    assert isinstance(layer, getattr(nn, name))
    names = [list(inspect.signature(getattr(home, name)).parameters) for home in (ht, nn)]
    assert names[0] == names[1]
    ours = _gradients(layer, layer, inputs)
    expected = _gradients(lambda *t: function(layer, *t), layer, inputs)
    assert len(ours) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


@every_layer
def test_state_pickles_copies_and_replaced_layers_have_the_same_bits(name: str) -> None:
    layer, inputs = _made(name), CASES[name][1]
    theirs = getattr(nn, name)(*CASES[name][0])
    theirs.load_state_dict(layer.state_dict())
    report = ht.replace(theirs, everything=True)
    assert report.swapped == {"(the model itself)": f"torch.nn.{name} -> halfulp.torch.{name}"}
    assert ht.replace(layer, everything=True).exact == {"(the model itself)": f"halfulp.torch.{name}"}
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    others = [theirs, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded]
    expected = _gradients(layer, layer, inputs)
    for other in others:
        assert type(other) is getattr(ht, name)
        found = _gradients(other, other, inputs)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@every_layer
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_compiled_and_exported(name: str) -> None:
    layer = _made(name).eval() if name.startswith("Dropout") else _made(name)
    inputs = CASES[name][1]
    expected = copy.deepcopy(layer)(*inputs)
    torch._dynamo.reset()
    found = torch.compile(copy.deepcopy(layer), fullgraph=True, backend="aot_eager")(*inputs)
    assert torch.equal(found, expected)
    program = torch.export.export(copy.deepcopy(layer), inputs)
    assert torch.equal(program.module()(*inputs), expected)
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert name.startswith("Dropout") or any(target.startswith("halfulp.") for target in called)


def test_layers_are_leaves_of_a_graph_of_fx() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(ht.Conv2d(3, 4, 3), ht.BatchNorm2d(4), ht.ReLU(), nn.Flatten(), ht.Linear(24, 2)).eval()
    traced = torch.fx.symbolic_trace(model)
    called = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    assert {"1", "4"} <= set(called)
    assert torch.equal(traced(image), model(image))
    alone = torch.fx.symbolic_trace(ht.LayerNorm(5))
    assert torch.equal(alone(image), ht.layer_norm(image, (5,)))


class Scaled(ht.Linear):
    """A user's own class, with a call in its forward that PyTorch would do in its own way."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input).softmax(-1)


class Named(ht.LayerNorm):
    """A user's own class without a forward."""

    def __init__(self, size: int, title: str) -> None:
        super().__init__(size)
        self.title = title


def test_classes_derived_from_ours() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Scaled(5, 3), Named(3, "last"))
    report = ht.replace(model, everything=True)
    assert "its forward with our functions" in report.swapped["0"]
    assert list(report.exact) == ["1"]
    model(image)
    assert report.calls["softmax"] == "ours"
    expected = ht.layer_norm(ht.softmax(ht.linear(image, model[0].weight, model[0].bias), -1), (3,))
    assert torch.equal(model(image), expected)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(other(image), expected)
        assert other[1].title == "last"


def test_what_an_embedding_does_not_have() -> None:
    with pytest.raises(hu.PolicyError, match=r"max_norm=1.0.*\[Z4\]"):
        ht.Embedding(3, 2, max_norm=1.0)
    with pytest.raises(hu.PolicyError, match=r"sparse=True.*\[Z4\]"):
        ht.Embedding(3, 2, sparse=True)


def _moved(old: list[float], new: list[float], momentum: float, dtype: Any) -> list[float]:
    """(1 - momentum) * old + momentum * new, every step rounded once."""

    def rounded(number: Fraction) -> Fraction:
        return Fraction(float(hu.rounded(np.array([number], dtype=object), dtype)[0]))

    kept, added = rounded(Fraction(1 - momentum)), rounded(Fraction(momentum))
    pairs = zip(old, new, strict=True)
    return [float(rounded(rounded(Fraction(o) * kept) + rounded(Fraction(n) * added))) for o, n in pairs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_running_statistics_of_an_instance_norm(dtype: Any) -> None:
    torch.manual_seed(1)
    layer = ht.InstanceNorm2d(3, track_running_stats=True, dtype=dtype)
    theirs = nn.InstanceNorm2d(3, track_running_stats=True, dtype=dtype)
    kind = np.dtype(str(dtype).removeprefix("torch.")) if dtype != torch.bfloat16 else np.dtype(ml_dtypes.bfloat16)
    mean, variance = [0.0] * 3, [1.0] * 3
    for _ in range(3):
        cells = torch.randn(2, 3, 4, 5).to(dtype)
        assert torch.equal(layer(cells), ht.instance_norm(cells))
        new_mean = ht.mean(cells, (0, 2, 3)).tolist()
        new_variance = ht.mean(ht.var(cells, (2, 3)), 0).tolist()
        mean, variance = _moved(mean, new_mean, 0.1, kind), _moved(variance, new_variance, 0.1, kind)
        assert layer.running_mean.tolist() == mean
        assert layer.running_var.tolist() == variance
        theirs(cells)
    torch.testing.assert_close(layer.running_var, theirs.running_var, rtol=1e-2, atol=1e-2)
    assert torch.equal(layer.eval()(cells), ht.batch_norm(cells, layer.running_mean, layer.running_var, training=False))


def test_running_statistics_of_an_instance_norm_of_arrays_are_those_of_tensors() -> None:
    cells = torch.linspace(-3, 7, 120).view(2, 3, 4, 5) ** 3
    tensors = torch.zeros(3), torch.ones(3)
    arrays = np.zeros(3, np.float32), np.ones(3, np.float32)
    ht.instance_norm(cells, *tensors, momentum=0.3)
    hu.instance_norm(cells.numpy(), *arrays, momentum=0.3)
    for tensor, array in zip(tensors, arrays, strict=True):
        assert tensor.tolist() == array.tolist()
    with pytest.raises(hu.ShapeError, match=r"running_mean shape=\(2,\).*\[R4\]"):
        hu.instance_norm(cells.numpy(), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        ht.instance_norm(torch.zeros(2, 3, 1), *tensors)


def test_instance_norm_by_its_other_name() -> None:
    statistics = torch.zeros(3), torch.ones(3)
    with ht.patched(everything=True) as calls:
        found = torch.instance_norm(image, None, None, *statistics, True, 0.1, 1e-5, False)
    assert calls == {"instance_norm": "ours"}
    assert torch.equal(found, ht.instance_norm(image))
    assert statistics[0].tolist() != [0.0] * 3
