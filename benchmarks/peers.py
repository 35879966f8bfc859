"""The other libraries: for an operator and an input, a call that does the same work, or None where there is none."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import halfulp as hu

Call = Callable[[], Any]
SLIDING = (hu.MaxPool, hu.MinPool, hu.AvgPool, hu.SumPool, hu.LpPool, hu.Unfold, hu.Fold)
NEEDS = {
    "PyTorch": "torch",
    "PyTorch channels_last": "torch",
    "torch.compile": "torch",
    "ONNX Runtime": "onnxruntime",
    "OpenVINO": "openvino",
    "JAX": "jax",
}


def available() -> dict[str, bool]:
    """Which peers are installed."""
    return {name: importlib.util.find_spec(module) is not None for name, module in NEEDS.items()}


def peer_call(peer: str, op: Any, x: Any, mode: str, threads: int) -> Call | None:
    """A call of a peer on the same input; ``mode`` is forward, vjp (forward and backward), jvp or pullback."""
    try:
        call = _call(peer, op, x, mode, threads)
        if call is not None:
            call()
    except Exception as error:  # two compilers fail for the baseline instruction set
        print(f"{peer} does not take part: {type(error).__name__}", file=sys.stderr)
        return None
    return call


def _call(peer: str, op: Any, x: Any, mode: str, threads: int) -> Call | None:
    if peer == "ONNX Runtime":
        return _onnxruntime(op, x, threads) if mode == "forward" else None
    if peer == "OpenVINO":
        return _openvino(op, x, threads) if mode == "forward" else None
    if peer == "JAX":
        return _jax(op, x, mode)
    return _torch(peer, op, x, mode, threads)


def _torch_function(op: Any) -> Callable[[Any], Any] | None:
    import torch.nn.functional as F

    ndim = op.ndim
    if ndim > 3:
        return None
    if isinstance(op, SLIDING):
        if isinstance(op.padding, str) or any(a != b for a, b in op.padding):
            return None
        return _torch_sliding(op, [a for a, _ in op.padding])
    if isinstance(op, hu.AdaptiveMaxPool):
        return lambda t: getattr(F, f"adaptive_max_pool{ndim}d")(t, op.output_size)
    if isinstance(op, hu.AdaptiveAvgPool):
        return lambda t: getattr(F, f"adaptive_avg_pool{ndim}d")(t, op.output_size)
    axes = tuple(range(-ndim, 0))
    if isinstance(op, hu.GlobalMaxPool):
        return lambda t: t.amax(axes, keepdim=True)
    if isinstance(op, hu.GlobalAvgPool):
        return lambda t: t.mean(axes, keepdim=True)
    if isinstance(op, hu.SmoothMaxPool) and ndim == 2:

        def smooth(t: Any) -> Any:
            pad = [p for pair in reversed(op.padding) for p in pair]
            cells = (
                F.pad(t, pad).unfold(-2, op.kernel_size[0], op.stride[0]).unfold(-2, op.kernel_size[1], op.stride[1])
            )
            return (op.beta * cells).flatten(-2).logsumexp(-1) / op.beta

        return smooth
    return None


def _torch_sliding(op: Any, pad: list[int]) -> Callable[[Any], Any] | None:
    import torch.nn.functional as F

    ndim = op.ndim
    if isinstance(op, (hu.MaxPool, hu.MinPool)):
        pool = getattr(F, f"max_pool{ndim}d")
        arguments = (op.kernel_size, op.stride, pad, op.dilation, op.ceil_mode)
        if isinstance(op, hu.MaxPool):
            return lambda t: pool(t, *arguments)
        return lambda t: -pool(-t, *arguments)
    if isinstance(op, hu.AvgPool):
        pool = getattr(F, f"avg_pool{ndim}d")
        return lambda t: pool(t, op.kernel_size, op.stride, pad, op.ceil_mode, op.count_include_pad)
    if isinstance(op, hu.SumPool) and ndim > 1:
        pool = getattr(F, f"avg_pool{ndim}d")
        return lambda t: pool(t, op.kernel_size, op.stride, pad, op.ceil_mode, divisor_override=1)
    if isinstance(op, hu.LpPool) and op.p != np.inf:
        pool = getattr(F, f"lp_pool{ndim}d")
        around = [p for before in reversed(pad) for p in (before, before)]  # its pooling has no padding
        odd = op.p % 2 != 0  # of x^p it takes no magnitude
        return lambda t: pool(F.pad(t.abs() if odd else t, around), op.p, op.kernel_size, op.stride, op.ceil_mode)
    if isinstance(op, hu.Unfold) and ndim == 2:
        return lambda t: F.unfold(t, op.kernel_size, op.dilation, pad, op.stride)
    if isinstance(op, hu.Fold) and ndim == 2:
        return lambda t: F.fold(t, op.output_size, op.kernel_size, op.dilation, pad, op.stride)
    return None


def _torch(peer: str, op: Any, x: Any, mode: str, threads: int) -> Call | None:
    import torch

    torch.set_num_threads(threads)
    function = _torch_function(op)
    if function is None or x.dtype.kind not in "fV":
        return None
    tensor = torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16) if x.dtype.kind == "V" else torch.from_numpy(x)
    if peer == "PyTorch channels_last":
        if tensor.ndim != 4 or mode != "forward":
            return None
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    if peer == "torch.compile":
        if mode != "forward":
            return None
        torch._dynamo.reset()  # dynamo stops compiling after a few shapes of one function, and says so only in its log
        function = torch.compile(function, dynamic=False)
    if mode == "forward":

        def forward() -> Any:
            with torch.no_grad():
                return function(tensor)

        return forward
    if mode != "vjp":
        return None
    tensor.requires_grad_()
    cotangent = torch.ones_like(function(tensor))
    return lambda: torch.autograd.grad(function(tensor), tensor, cotangent)


def _onnx_model(op: Any, x: Any) -> bytes | None:
    if importlib.util.find_spec("onnx") is None or x.dtype not in (np.float32, np.float64):
        return None
    from onnx import TensorProto, helper

    kind: dict[Any, str] = {
        hu.MaxPool: "MaxPool",
        hu.AvgPool: "AveragePool",
        hu.LpPool: "LpPool",
        hu.GlobalMaxPool: "GlobalMaxPool",
        hu.GlobalAvgPool: "GlobalAveragePool",
    }
    if type(op) not in kind or (isinstance(op, hu.LpPool) and op.p not in (1, 2)):
        return None
    attributes: dict[str, Any] = {}
    if isinstance(op, (hu.MaxPool, hu.AvgPool, hu.LpPool)):
        if isinstance(op.padding, str) or any(d != 1 for d in op.dilation):
            return None
        pads = [before for before, _ in op.padding] + [after for _, after in op.padding]
        attributes = {"kernel_shape": op.kernel_size, "strides": op.stride, "pads": pads}
        if isinstance(op, hu.AvgPool):
            attributes["count_include_pad"] = int(op.count_include_pad)
        if isinstance(op, hu.LpPool):
            attributes["p"] = int(op.p)
    element = TensorProto.FLOAT if x.dtype == np.float32 else TensorProto.DOUBLE
    node = helper.make_node(kind[type(op)], ["x"], ["y"], **attributes)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [value("x", element, x.shape)], [value("y", element, op.output_shape(x.shape))]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _onnxruntime(op: Any, x: Any, threads: int) -> Call | None:
    import onnxruntime as ort

    model = _onnx_model(op, x)
    if model is None:
        return None
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # the runtime has no kernel for this case: it does not take part
        return None
    return lambda: session.run(None, {"x": x})


def _openvino(op: Any, x: Any, threads: int) -> Call | None:
    import openvino as ov

    model = _onnx_model(op, x)
    if model is None:
        return None
    if isinstance(op, hu.LpPool):  # it cannot read that node
        return None
    core = ov.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}  # else bfloat16 on some processors
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    return lambda: request.infer({0: x}, share_inputs=True)


_REDUCTIONS: dict[Any, tuple[float, str]] = {
    hu.MaxPool: (-np.inf, "max"),
    hu.MinPool: (np.inf, "min"),
    hu.AvgPool: (0.0, "add"),
    hu.SumPool: (0.0, "add"),
}


def _jax(op: Any, x: Any, mode: str) -> Call | None:
    if type(op) not in _REDUCTIONS or isinstance(op.padding, str) or x.dtype.kind != "f":
        return None
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    from jax import lax

    if x.dtype == np.float64:
        jax.config.update("jax_enable_x64", True)
    lead = (1,) * (x.ndim - op.ndim)
    start, reduction = _REDUCTIONS[type(op)]
    combine = getattr(lax, reduction)
    divisor = int(np.prod(op.kernel_size)) if isinstance(op, hu.AvgPool) else 1

    def pool(a: Any) -> Any:
        padding = ((0, 0),) * len(lead) + tuple(op.padding)
        dilation = lead + tuple(op.dilation)
        return (
            lax.reduce_window(
                a, start, combine, lead + op.kernel_size, lead + op.stride, padding, window_dilation=dilation
            )
            / divisor
        )

    data = jax.numpy.asarray(x)
    if mode == "forward":
        run = jax.jit(pool)
    elif mode == "vjp":
        ones = jax.numpy.ones(op.output_shape(x.shape), x.dtype)
        run = jax.jit(lambda a: jax.vjp(pool, a)[1](ones))
    elif mode == "jvp":
        run = jax.jit(lambda a: jax.jvp(pool, (a,), (a,)))
    else:
        return None
    return lambda: jax.block_until_ready(run(data))
