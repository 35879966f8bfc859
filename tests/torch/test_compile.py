"""torch.compile, torch.export and torch.library.opcheck."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import halfulp.torch as ht
from halfulp.conformance.build import small
from halfulp.records import Declaration, declarations
from halfulp.torch._bridge import bridge_of
from tests.torch.cases import CASES, IDS, Case

every_case = pytest.mark.parametrize("case", CASES, ids=IDS)
# Warnings of the compiler itself, about its own use of Python and of PyTorch.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def compiled(function: object, **options: object) -> object:
    """One graph or an error; the backend that traces both ways but generates no C++, which is not ours to test."""
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


@every_case
def test_compile_forward_and_backward_in_one_graph(case: Case) -> None:
    inputs = case.inputs(requires_grad=True)

    def function(*tensors: torch.Tensor) -> torch.Tensor:
        return case.function(*tensors).exp()

    expected = function(*inputs)
    output = compiled(function)(*inputs)
    assert torch.equal(output, expected)
    cotangent = torch.ones_like(expected)
    for mine, other in zip(
        torch.autograd.grad(output, inputs, cotangent), torch.autograd.grad(expected, inputs, cotangent), strict=True
    ):
        assert torch.equal(mine, other)


def test_compile_with_inductor_keeps_channels_last() -> None:
    def function(a: torch.Tensor) -> torch.Tensor:
        return ht.avg_pool2d(ht.max_pool2d(a * 2, 3, 2, 1) + 1, 2)

    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    output, expected = torch.compile(function, fullgraph=True)(x), function(x)
    assert output.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(output, expected)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (output, expected)))


def test_compile_of_func_transforms() -> None:
    x = torch.randn(1, 2, 6, dtype=torch.float64)
    t = torch.randn_like(x)
    function = CASES[1].function
    pushed = compiled(lambda a, b: torch.func.jvp(function, (a,), (b,))[1])(x, t)
    assert torch.equal(pushed, torch.func.jvp(function, (x,), (t,))[1])
    gradient = compiled(torch.func.grad(lambda a: function(a).pow(2).sum()))(x)
    assert torch.equal(gradient, torch.func.grad(lambda a: function(a).pow(2).sum())(x))
    assert torch.equal(compiled(torch.vmap(lambda a: ht.avg_pool1d(a, 2)))(x), ht.avg_pool1d(x, 2))


def test_compile_with_dynamic_shapes_compiles_once() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    function = torch.compile(lambda a: ht.max_pool2d(a, 3, 2, 1, ceil_mode=True), backend=backend, dynamic=True)
    for size in (9, 12, 17):
        x = torch.randn(2, 3, size, size + 1)
        assert torch.equal(function(x), torch.nn.functional.max_pool2d(x, 3, 2, 1, ceil_mode=True))
    assert len(graphs) == 1


@every_case
def test_export_keeps_our_operators(case: Case) -> None:
    class Model(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return case.function(*tensors)

    inputs = case.inputs()
    program = torch.export.export(Model(), inputs)
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert any(target.startswith("halfulp.") for target in targets), targets
    assert torch.equal(program.module()(*inputs), case.function(*inputs))


def test_a_replaced_model_goes_through_aotinductor(tmp_path: Path) -> None:
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(64, 5), nn.SiLU()).eval()
    ht.replace(model, everything=True)
    x = torch.randn(2, 3, 8, 8)
    program = torch.export.export(model, (x,))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    assert torch.equal(torch._inductor.aoti_load_package(path)(x), model(x))


def test_export_with_a_dynamic_batch() -> None:
    model = torch.nn.Sequential(ht.Conv2d(1, 2, 3), ht.MaxPool2d(2), ht.GlobalAvgPool2d())
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (torch.randn(2, 1, 8, 8),), dynamic_shapes=({0: batch},))
    x = torch.randn(5, 1, 8, 8)
    assert torch.equal(program.module()(x), model(x))


X = torch.randn(1, 2, 4, dtype=torch.float64)
G = torch.randn(1, 2, 5, dtype=torch.float64)
W = torch.randn(2, 1, 2, dtype=torch.float64)
CONV = ([1], [1, 1], [1], 2, "correct")
CONV_T = ([1], [0], [0], [1], 1, "correct")
OPCHECKS: dict[str, tuple[Any, ...]] = {
    "conv": (X, W, X[0, :, 0], *CONV),
    "conv_tangent": (X, W, X, None, X[0, :, 0], *CONV),
    "conv_input_cotangent": (G, W, [1, 2, 4], *CONV),
    "conv_weight_cotangent": (G, X, [2, 1, 2], *CONV),
    "conv_transpose": (X, W, None, *CONV_T),
    "conv_transpose_tangent": (X, W, X, W, None, *CONV_T),
    "conv_transpose_input_cotangent": (G[:, :1], W, [1, 2, 4], *CONV_T),
    "conv_transpose_weight_cotangent": (G[:, :1], X, [2, 1, 2], *CONV_T),
    "channel_sum": (X,),
    "embedding": (X[0], torch.tensor([[0, 1], [1, 1]]), 0, False),
    "embedding_pull": (X[0].repeat(2, 1), torch.tensor([0, 1, 1, 1]), 3, 0, True),
}


def drawn(declaration: Declaration, names: tuple[str, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
    """(tensors, parameters, output) of a case of the registry that PyTorch's signatures can express."""
    rng, numbers = random.Random(5), np.random.default_rng(5)
    while True:
        op, shapes = small(declaration, rng)
        padding = getattr(op, "padding", ())
        if isinstance(padding, str) or any(b != a for b, a in padding) or len(shapes[0]) > 4 or 0 in shapes[0]:
            continue
        made = declaration.draw.constants
        constants = () if made is None else tuple(torch.from_numpy(a) for a in made(op, shapes, numbers))
        constants = tuple(c.float() if c.is_floating_point() else c for c in constants)  # without a gradient
        x = torch.from_numpy(numbers.standard_normal(shapes[0]))
        x = x.abs() + 0.5 if getattr(op, "elementwise", False) else x  # where roots and logarithms are numbers
        values = {name: getattr(op, name) for name in names} | {"padding": tuple(b for b, _ in padding)}
        kernel = getattr(op, "kernel_size", None)
        if kernel and declaration.torch and any(2 * p > k for p, k in zip(values["padding"], kernel, strict=False)):
            continue
        parameters = [list(v) if isinstance(v, tuple) else v for v in (values[name] for name in names)]
        parameters = [float(v) if name in ("p", "beta") else v for name, v in zip(names, parameters, strict=True)]
        output = torch.from_numpy(numbers.standard_normal(op.output_shape(*shapes)))
        return (x, *constants), tuple(parameters), output


OWN = [d for d in declarations() if d.record.__module__.startswith("halfulp.")]
POOLINGS = [d for d in OWN if not d.several and not d.convolution]
for _declaration in POOLINGS:
    _bridge = bridge_of(_declaration.record)
    for _family in filter(None, (_bridge.family, _bridge.typed)):
        _fields = tuple(word.split(" ")[1] for word in _family.schema.split(", ") if word)
        (_x, *_more), _parameters, _g = drawn(_declaration, _fields)
        OPCHECKS[_family.name] = (_x, *_more, *_parameters)
        if not _family.depends_on_input:
            OPCHECKS[f"{_family.name}_cotangent"] = (_g, list(_x.shape), *_parameters)
            continue
        OPCHECKS[f"{_family.name}_tangent"] = (_x, *_more, torch.randn_like(_x), *_parameters)
        OPCHECKS[f"{_family.name}_cotangent"] = (_x, *_more, _g, *_parameters)
        if hasattr(_family, "indices"):
            OPCHECKS[f"{_family.name}_with_indices"] = (_x, *_more, *_parameters)


for _declaration in (d for d in OWN if d.several):
    _several = bridge_of(_declaration.record)
    _drawn = [small(_declaration, random.Random(seed)) for seed in range(20)]
    _moving = len(_declaration.inputs) - len(_declaration.constant)  # statistics that are given have no gradient
    _op, _shapes = next((o, s) for o, s in _drawn if 0 not in s[0] and not any(s[_moving:]))
    _numbers = np.random.default_rng(5)
    _arrays = [None if s is None else np.asarray(_numbers.random(s) + 0.5) for s in _shapes]
    if _declaration.draw.constants is not None:  # class indices
        _arrays[_moving:] = _declaration.draw.constants(_op, _shapes, _numbers)
    _inputs = [None if a is None else torch.from_numpy(np.asarray(a)) for a in _arrays]
    _inputs += [None] * (_several.count - len(_inputs))
    _values = [make(getattr(_op, name)) for make, name in zip(_several._makers, _several.fields, strict=True)]
    _parameters = [list(v) if isinstance(v, tuple) else v for v in _values]
    _g = torch.from_numpy(_numbers.standard_normal(_op.output_shape(*_shapes)))
    OPCHECKS[_several.name] = (*_inputs, *_parameters)
    OPCHECKS[f"{_several.name}_push"] = (
        *_inputs,
        *_inputs[:_moving],
        *[None] * (_several.count - _moving),
        *_parameters,
    )
    OPCHECKS[f"{_several.name}_pull"] = (*_inputs, _g, 0, *_parameters)


def test_every_registered_operator_is_checked() -> None:
    registered = {
        name.split("::")[1].split(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("halfulp::")
    }
    own = {name for name in registered if name.startswith(("mean_square_pool", "dot_rows"))}  # declared by other tests
    own |= {"dropout_mask", "batch_norm_statistic"}  # neither has a derivative
    assert registered - own == set(OPCHECKS)


@pytest.mark.parametrize("name", OPCHECKS)
def test_opcheck(name: str) -> None:
    tensors = [isinstance(a, torch.Tensor) and a.dtype == torch.float64 for a in OPCHECKS[name]]
    args = tuple(a.detach().clone().requires_grad_() if t else a for a, t in zip(OPCHECKS[name], tensors, strict=True))
    operator = getattr(torch.ops.halfulp, name).default
    results = torch.library.opcheck(operator, args)
    assert set(results.values()) == {"SUCCESS"}
