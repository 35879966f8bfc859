"""Networks and properties from elsewhere; the readers are imported when they are first used."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from halfulp.bounds._box import Box
from halfulp.bounds._maps import Array, Shape
from halfulp.bounds._network import Network
from halfulp.bounds._property import Property
from halfulp.errors import ModelError


def load(source: Any, *, max_bytes: int = 1 << 32) -> Network:
    """The network of an ONNX model: a path, the bytes of a file or a ``ModelProto``.

    The model has one input of fixed sizes (a free batch size becomes 1) and one output. An operator without
    bounds is a :class:`halfulp.ModelError` that names the node and lists the supported ones.

    >>> import halfulp.bounds as hb, onnx.parser
    >>> proto = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ... demo (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y)
    ... { y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }''')
    >>> hb.load(proto)
    Network(float32 (1, 1, 4, 4) -> (1, 1, 2, 2); 2 nodes: input, max_pool2d)
    """
    from halfulp.bounds import _onnx_reader

    return _onnx_reader.load(source, max_bytes=max_bytes)


def from_torch(module: Any, example: Any) -> Network:
    """The network of a PyTorch module in evaluation mode, read through ``torch.export`` with an example input.

    >>> import torch, halfulp.bounds as hb
    >>> hb.from_torch(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU()), torch.zeros(1, 2, 2))
    Network(float32 (1, 2, 2) -> (1, 4); 3 nodes: input, reshape, relu)
    """
    from halfulp.bounds import _torch_reader

    return _torch_reader.from_torch(module, example)


class Question(NamedTuple):
    """One box and the property to hold on it; ``inner`` is the largest float64 box inside the exact one, or None."""

    box: Box
    inner: Box | None
    property: Property


def read_property(path: Any, input_shape: Shape) -> list[Question]:
    """The questions of a VNN-LIB file (``.vnnlib`` or ``.vnnlib.gz``) for inputs of this shape.

    Bounds of inputs are rounded outward to float64; ``inner`` is rounded inward, so that every counterexample found in
    it satisfies the file exactly.
    """
    from halfulp.bounds._vnnlib import read_property as read

    found = read(path)
    if found.inputs != int(np.prod(input_shape)):
        rule = f"must have {int(np.prod(input_shape))}, as many as the network's input"
        raise ModelError("read_property", f"{found.inputs} inputs", rule, "V2")
    questions = []
    for case in found.cases:
        outer = [_ends(values, way, input_shape) for values, way in ((case.lower, -1), (case.upper, 1))]
        inner = [_ends(values, way, input_shape) for values, way in ((case.lower, 1), (case.upper, -1))]
        fits = bool((inner[0] <= inner[1]).all())
        unsafe = [found.arrays(conjunction) for conjunction in case.unsafe]
        questions.append(Question(Box(*outer), Box(*inner) if fits else None, Property(unsafe)))
    return questions


def _ends(values: tuple[Fraction, ...], way: int, shape: Shape) -> Array:
    """Rationals rounded down (way -1) or up (way 1)."""
    out = np.array([float(v) for v in values])
    for k, value in enumerate(values):
        near = Fraction(out[k])
        if (near > value and way < 0) or (near < value and way > 0):
            out[k] = np.nextafter(out[k], way * np.inf)
    return out.reshape(shape)
