"""An ONNX chain as a PyTorch module, for verifiers that read modules."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["torch_module"]


def torch_module(path: str) -> Any:
    """A `torch.nn.Sequential` of the model's nodes. ValueError for what PyTorch's layers cannot say."""
    import onnx
    import torch

    model = onnx.load(path)
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    layers = []
    for node in model.graph.node:
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        numbers = [torch.tensor(np.array(tensors[name])) for name in node.input if name in tensors]
        if node.op_type == "Conv":
            layers += _padding(torch, attributes)
        layers.append(_layer(torch, node.op_type, attributes, numbers))
    return torch.nn.Sequential(*layers).eval()


def _padding(torch: Any, attributes: dict[str, Any]) -> list[Any]:
    """Zeros in a layer of their own where they differ before and after; `attributes` then has none."""
    ndim = len(attributes["kernel_shape"])
    before, after = attributes["pads"][:ndim], attributes["pads"][ndim:]
    if before == after:
        return []
    attributes["pads"] = [0] * 2 * ndim
    sides = [side for pair in zip(reversed(before), reversed(after), strict=True) for side in pair]
    return [getattr(torch.nn, f"ZeroPad{ndim}d")(tuple(sides))]


def _layer(torch: Any, kind: str, attributes: dict[str, Any], numbers: list[Any]) -> Any:
    if kind == "Relu":
        return torch.nn.ReLU()
    if kind == "Flatten":
        return torch.nn.Flatten()
    if kind == "Gemm":
        linear = torch.nn.Linear(numbers[0].shape[1], numbers[0].shape[0])
        linear.weight.data, linear.bias.data = numbers
        return linear
    if kind not in ("Conv", "MaxPool", "AveragePool"):
        raise ValueError(f"{kind}: has no module in this conversion")
    ndim = len(attributes["kernel_shape"])
    before, after = attributes["pads"][:ndim], attributes["pads"][ndim:]
    if before != after:
        raise ValueError(f"{kind}: padding differs before and after")
    shared = {"kernel_size": tuple(attributes["kernel_shape"]), "stride": tuple(attributes["strides"])}
    shared["padding"] = tuple(before)
    dilation = tuple(attributes.get("dilations", [1] * ndim))
    if kind == "Conv":
        weight, bias = numbers
        groups = attributes["group"]
        module = getattr(torch.nn, f"Conv{ndim}d")(
            weight.shape[1] * groups, weight.shape[0], dilation=dilation, groups=groups, **shared
        )
        module.weight.data, module.bias.data = weight, bias
        return module
    ceil_mode = bool(attributes["ceil_mode"])
    if kind == "MaxPool":
        return getattr(torch.nn, f"MaxPool{ndim}d")(dilation=dilation, ceil_mode=ceil_mode, **shared)
    if any(d > 1 for d in dilation):
        raise ValueError("AveragePool: dilation")
    include = bool(attributes["count_include_pad"])
    return getattr(torch.nn, f"AvgPool{ndim}d")(ceil_mode=ceil_mode, count_include_pad=include, **shared)
