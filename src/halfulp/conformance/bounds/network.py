"""The networks that verifiers are graded on: a chain of layers, a box of inputs, and three ways to look at them.

A network is written as an ONNX model (what a verifier reads), evaluated over rationals by the specification (the
truth), and evaluated with gradients by the kernels (to search for extreme points). All its numbers are multiples of
1/16 with few bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from halfulp import spec
from halfulp.errors import ShapeError
from halfulp.geometry import windows
from halfulp.numbers import exact, rounded
from halfulp.records import Conv, declaration_of

if TYPE_CHECKING:
    import onnx

__all__ = ["Layer", "Network", "features", "onnx_model"]

Array = NDArray[Any]
Shape = tuple[int, ...]
DOMAIN = "halfulp"
"""The ONNX domain of nodes that are records of ours."""
Pullback = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: windows (`conv`, `max`, `min`, `avg`, `sum`, `norm`) have an operator, `conv` and `linear` numbers.

    `record` is any operator with its constants, None where an optional one is absent; it can only be the last layer.
    """

    kind: str
    op: Any = None
    weight: Array | None = None
    bias: Array | None = None
    constants: tuple[Array | None, ...] = ()

    def output_shape(self, shape: Shape) -> Shape:
        """The shape after the layer; a ShapeError if it does not fit, or if a max window has no cell."""
        if self.kind == "relu":
            return shape
        if self.kind == "record":
            return tuple(self.op.output_shape(shape, *(None if c is None else c.shape for c in self.constants)))
        if self.kind == "linear":
            assert self.weight is not None
            if int(np.prod(shape)) != self.weight.shape[1]:
                raise ShapeError("linear", f"input shape={shape}", "does not fit the weight", "C4")
            return (self.weight.shape[0],)
        if self.kind == "conv":
            assert self.weight is not None
            return tuple(self.op.output_shape(shape, self.weight.shape))
        target = tuple(self.op.output_shape(shape))
        spatial = shape[len(shape) - self.op.ndim :]
        if any(not window.cells for window in windows(self.op.axes(spatial))):
            raise ShapeError(self.kind, f"input shape={shape}", "a window has no cell", "W5")
        return target

    def exact(self, x: Array) -> Array:
        """The layer over rationals, by the specification; irrational values of a record are rounded once, to float64.

        Bounds are float64 numbers and rounding is monotone, so a rounded value is outside of them if the exact one is.
        """
        if self.kind == "relu":
            return np.where(x < 0, x * 0, x)
        if self.kind == "record":
            if declaration_of(self.op).kind == "smooth":  # x has few bits and is exact in float64
                return exact(np.asarray(spec.forward(self.op, rounded(x, np.float64), *self.constants)))
            return np.asarray(spec.forward(self.op, x, *self._exact_constants()))
        if self.kind == "linear":
            return np.asarray(exact(_set(self.weight)) @ x.reshape(-1) + exact(_set(self.bias)))
        if self.kind == "conv":
            return np.asarray(spec.forward(self.op, x, exact(_set(self.weight)), exact(_set(self.bias))))
        return np.asarray(spec.forward(self.op, x))

    def _exact_constants(self) -> tuple[Any, ...]:
        """Numbers as rationals; indices and samples as they are."""
        fixed = declaration_of(self.op).constant
        names = declaration_of(self.op).inputs[1:]
        pairs = zip(names, self.constants, strict=False)
        return tuple(c if c is None or name in fixed else exact(c) for name, c in pairs)

    def vjp(self, x: Array) -> tuple[Array, Pullback]:
        """The layer over a batch of float64 inputs, and its pullback to them."""
        if self.kind == "record":
            found = [self.op.vjp(one, *self.constants) for one in x]
            return np.stack([y for y, _ in found]), lambda g: np.stack(
                [np.asarray(back(one)[0]) for one, (_, back) in zip(g, found, strict=True)]
            )
        if self.kind == "relu":
            return np.maximum(x, 0.0), lambda g: np.where(x > 0, g, 0.0)
        if self.kind == "linear":
            weight = _set(self.weight)
            return x.reshape(len(x), -1) @ weight.T + _set(self.bias), lambda g: (g @ weight).reshape(x.shape)
        inputs = (x, _set(self.weight), _set(self.bias)) if self.kind == "conv" else (x,)
        output, pullback = self.op.vjp(*inputs)
        return output, lambda g: pullback(g)[0]


def _set(value: Array | None) -> Array:
    assert value is not None
    return value


@dataclass(frozen=True, eq=False)
class Network:
    """Layers, and the box of inputs: float64 arrays of one shape (channels, spatial…)."""

    layers: tuple[Layer, ...]
    lower: Array
    upper: Array

    @property
    def shapes(self) -> list[Shape]:
        """The shape of the input and after every layer."""
        shapes = [tuple(self.lower.shape)]
        for layer in self.layers:
            shapes.append(layer.output_shape(shapes[-1]))
        return shapes

    def exact(self, x: Array) -> Array:
        """The exact output, flat, for an input of floats or rationals."""
        value = x if x.dtype == object else exact(x)
        for layer in self.layers:
            value = layer.exact(value)
        return value.reshape(-1)

    def run(self, x: Array) -> Array:
        """The outputs over float64 for a batch of inputs, each flat."""
        for layer in self.layers:
            x = layer.vjp(x)[0]
        return x.reshape(len(x), -1)

    def gradient(self, x: Array, outputs: Array) -> Array:
        """For a batch of inputs, the derivative of one output each, over float64."""
        pullbacks: list[Pullback] = []
        for layer in self.layers:
            x, pullback = layer.vjp(x)
            pullbacks.append(pullback)
        chosen = np.zeros((len(x), int(np.prod(x.shape[1:]))))
        chosen[np.arange(len(x)), outputs] = 1.0
        cotangent: Array = chosen.reshape(x.shape)
        for pullback in reversed(pullbacks):
            cotangent = pullback(cotangent)
        return cotangent

    @property
    def affine(self) -> bool:
        """Whether the output is an affine function of the input."""
        return all(layer.kind in ("conv", "avg", "sum", "linear") for layer in self.layers)

    @property
    def monotone(self) -> bool:
        """Whether no output falls when an input rises."""
        rising = all(layer.weight is None or bool((layer.weight >= 0).all()) for layer in self.layers)
        return rising and all(layer.kind not in ("norm", "record") for layer in self.layers)


def features(network: Network) -> tuple[str, ...]:
    """What is special about the windows of a network, in words."""
    found = {layer.kind if layer.kind != "record" else type(layer.op).__name__ for layer in network.layers}
    for layer in network.layers:
        if layer.op is None or layer.kind == "record":
            continue
        op, kind = layer.op, layer.kind
        kernel = op.kernel_size if kind != "conv" else _set(layer.weight).shape[2:]
        pairs = op.padding
        reach = [d * (k - 1) + 1 for d, k in zip(op.dilation, kernel, strict=True)]
        tests = {
            "padding": any(p for pair in pairs for p in pair),
            "asymmetric padding": any(before != after for before, after in pairs),
            "dilation": any(d > 1 and k > 1 for d, k in zip(op.dilation, kernel, strict=True)),
            "ceil_mode": getattr(op, "ceil_mode", False),
            "overlap": kind != "conv" and any(r > s for r, s in zip(reach, op.stride, strict=True)),
            "count_include_pad=False": not getattr(op, "count_include_pad", True),
            "groups": getattr(op, "groups", 1) > 1,
        }
        found.update(f"{kind}: {name}" for name, there in tests.items() if there)
    return tuple(sorted(found))


def onnx_model(network: Network) -> onnx.ModelProto:
    """The network as an ONNX model with one input `x`, of batch size 1, and one output `y`, in float32."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, tensors, name = [], [], "x"
    shapes = network.shapes
    opset = 13
    for number, layer in enumerate(network.layers):
        inputs, target = [name], f"v{number}" if number + 1 < len(network.layers) else "y"
        if layer.kind == "linear":
            nodes.append(helper.make_node("Flatten", [name], [f"flat{number}"], axis=1))
            inputs = [f"flat{number}"]
        if layer.kind == "record":
            for slot, constant in enumerate(layer.constants):
                inputs.append("" if constant is None else f"constant{number}_{slot}")
                if constant is not None:
                    held = constant if constant.dtype.kind == "i" else constant.astype(np.float32)
                    tensors.append(numpy_helper.from_array(held, inputs[-1]))
            text = {"fields": repr(_fields(layer.op))}
            nodes.append(helper.make_node(type(layer.op).__name__, inputs, [target], domain=DOMAIN, **text))
            name = target
            continue
        for role, array in (("weight", layer.weight), ("bias", layer.bias)):
            if array is not None:
                tensors.append(numpy_helper.from_array(array.astype(np.float32), f"{role}{number}"))
                inputs.append(f"{role}{number}")
        if layer.kind == "avg" and any(d > 1 for d in layer.op.dilation):
            opset = 19
        if layer.kind == "norm":
            opset = max(opset, 18)
        factors = _factors(layer)
        for place, factor in factors.items():
            tensors.append(numpy_helper.from_array(np.array(factor, dtype=np.float32), f"{place}{number}"))
        if "before" in factors:
            nodes.append(helper.make_node("Mul", [name, f"before{number}"], [f"scaled{number}"]))
            inputs[0] = f"scaled{number}"
        made = f"pooled{number}" if "after" in factors else target
        nodes.append(helper.make_node(_NAMES[layer.kind], inputs, [made], **_attributes(layer)))
        if "after" in factors:
            nodes.append(helper.make_node("Mul", [made, f"after{number}"], [target]))
        name = target
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *shapes[0]])]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, *shapes[-1]])]
    graph = helper.make_graph(nodes, "network", ends, out, tensors)
    imports = [helper.make_opsetid("", opset)]
    if any(layer.kind == "record" for layer in network.layers):
        imports.append(helper.make_opsetid(DOMAIN, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _fields(op: Any) -> dict[str, Any]:
    """The fields of a record as literals; a float is a pair of a word and its text, since infinity has no literal."""
    values = {field.name: getattr(op, field.name) for field in fields(op)}
    return {name: ("float", repr(v)) if isinstance(v, float) else v for name, v in values.items()}


_NAMES = {
    "conv": "Conv", "max": "MaxPool", "min": "MaxPool", "avg": "AveragePool", "sum": "AveragePool", "norm": "LpPool",
    "relu": "Relu", "linear": "Gemm",
}  # fmt: skip


def _factors(layer: Layer) -> dict[str, float]:
    """What ONNX multiplies by, before and after: it has no minimum (-max(-x)) and no sum (cells times the average)."""
    if layer.kind == "min":
        return {"before": -1.0, "after": -1.0}
    return {"after": float(np.prod(layer.op.kernel_size))} if layer.kind == "sum" else {}


def _attributes(layer: Layer) -> dict[str, Any]:
    if layer.kind == "linear":
        return {"transB": 1}
    if layer.op is None:
        return {}
    op: Any = layer.op
    attributes: dict[str, Any] = {
        "strides": list(op.stride),
        "pads": [pair[0] for pair in op.padding] + [pair[1] for pair in op.padding],
    }
    if layer.kind not in ("avg", "sum") or any(d > 1 for d in op.dilation):
        attributes["dilations"] = list(op.dilation)
    if isinstance(op, Conv):
        return {**attributes, "group": op.groups, "kernel_shape": list(_set(layer.weight).shape[2:])}
    attributes |= {"kernel_shape": list(op.kernel_size), "ceil_mode": int(op.ceil_mode)}
    if layer.kind in ("avg", "sum"):
        attributes["count_include_pad"] = int(getattr(op, "count_include_pad", True))
    if layer.kind == "norm":
        attributes["p"] = int(op.p)
    return attributes
