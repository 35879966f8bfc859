"""The peers of the convolution benchmark: the same call for PyTorch, ONNX Runtime, OpenVINO and JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import halfulp as hu

Array = np.ndarray[Any, Any]
Contender = tuple[Callable[[], Sequence[Any]], Callable[[Any], Array]]
Operator = hu.Conv | hu.ConvTranspose

NAMES = ("torch f32", "torch f64", "onnxruntime", "openvino", "jax")


def contenders(op: Operator, mode: str, arrays: Sequence[Array], threads: int) -> dict[str, Contender]:
    """What can run this mode: ONNX Runtime and OpenVINO have no derivatives."""
    found = {
        "torch f32": torch_contender(op, mode, arrays, threads, "float32"),
        "torch f64": torch_contender(op, mode, arrays, threads, "float64"),
        "jax": jax_contender(op, mode, arrays),
    }
    if mode == "forward":
        model = onnx_model(op, arrays)
        found["onnxruntime"] = onnxruntime_contender(model, arrays[0], threads)
        found["openvino"] = openvino_contender(model, arrays[0], threads)
    return found


def torch_contender(op: Operator, mode: str, arrays: Sequence[Array], threads: int, dtype: str) -> Contender:
    import torch
    import torch.nn.functional as functional

    torch.set_num_threads(threads)
    x, weight, dx, dweight, cotangent = (torch.from_numpy(a).to(getattr(torch, dtype)) for a in arrays)
    padding = tuple(before for before, _ in op.padding)
    name = f"conv{'_transpose' if isinstance(op, hu.ConvTranspose) else ''}{op.ndim}d"
    function = getattr(functional, name)
    settings: dict[str, Any] = {"stride": op.stride, "padding": padding, "dilation": op.dilation, "groups": op.groups}

    def apply(x: Any, weight: Any) -> Any:
        return function(x, weight, **settings)

    def forward() -> Sequence[Any]:
        with torch.no_grad():
            return [apply(x, weight)]

    def jvp() -> Sequence[Any]:
        with torch.no_grad():
            return list(torch.func.jvp(apply, (x, weight), (dx, dweight)))

    if mode == "vjp":
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        output = apply(*leaves)
        return lambda: list(torch.autograd.grad(output, leaves, cotangent, retain_graph=True)), lambda t: t.numpy()
    return {"forward": forward, "jvp": jvp}[mode], lambda t: t.detach().numpy()


def jax_contender(op: Operator, mode: str, arrays: Sequence[Array]) -> Contender:
    import jax
    from jax import lax

    x, weight, dx, dweight, cotangent = (jax.numpy.asarray(a) for a in arrays)
    spatial = "".join("DHW"[-op.ndim :])
    layout = ("NC" + spatial, "OI" + spatial, "NC" + spatial)

    def apply(x: Any, weight: Any) -> Any:
        if not isinstance(op, hu.ConvTranspose):
            return lax.conv_general_dilated(
                x,
                weight,
                op.stride,
                op.padding,
                rhs_dilation=op.dilation,
                dimension_numbers=layout,
                feature_group_count=op.groups,
                precision=lax.Precision.HIGHEST,
            )
        kernel = weight.shape[2:]
        pads = [(k - 1 - before, k - 1 - after) for k, (before, after) in zip(kernel, op.padding, strict=True)]
        flipped = jax.numpy.flip(weight, range(2, weight.ndim)).swapaxes(0, 1)
        return lax.conv_general_dilated(
            x,
            flipped,
            (1,) * op.ndim,
            pads,
            lhs_dilation=op.stride,
            dimension_numbers=layout,
            precision=lax.Precision.HIGHEST,
        )

    forward = jax.jit(apply)
    if mode == "forward":
        return lambda: [forward(x, weight).block_until_ready()], np.asarray
    if mode == "jvp":
        both = jax.jit(lambda *a: jax.jvp(apply, a[:2], a[2:]))
        return lambda: jax.block_until_ready(both(x, weight, dx, dweight)), np.asarray
    pull = jax.jit(lambda x, weight, g: jax.vjp(apply, x, weight)[1](g))
    return lambda: jax.block_until_ready(pull(x, weight, cotangent)), np.asarray


def onnx_model(op: Operator, arrays: Sequence[Array]) -> bytes:
    """A model of the one operator, its weight inside."""
    import onnx
    from onnx import helper, numpy_helper

    x, weight = arrays[:2]
    output = op.output_shape(x.shape, weight.shape)
    node = helper.make_node(
        "ConvTranspose" if isinstance(op, hu.ConvTranspose) else "Conv",
        ["x", "weight"],
        ["y"],
        strides=op.stride,
        dilations=op.dilation,
        group=op.groups,
        pads=[before for before, _ in op.padding] + [after for _, after in op.padding],
    )
    graph = helper.make_graph(
        [node],
        "convolution",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, output)],
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def onnxruntime_contender(model: bytes, x: Array, threads: int) -> Contender:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: list(session.run(None, {"x": x})), np.asarray


def openvino_contender(model: bytes, x: Array, threads: int) -> Contender:
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
    return lambda: [request.infer([x], share_inputs=True)[0]], np.asarray
