"""The subject ``openvino``: one-operator models on the CPU plugin. Forward only; it has no derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import openvino

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import ForwardSubject, Unsupported
from halfulp.conformance.subjects._layout import batched, unbatched
from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Array,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    Operator,
    Shape,
)

_IMPORTS = "import numpy as np\nimport openvino\nfrom openvino import opset14 as ops"


def node_source(op: Operator, shapes: tuple[Shape | None, ...]) -> str:
    """The expression that makes the record's node from the parameters ``x`` and ``weight``."""
    if op.elementwise:
        raise Unsupported(f"the openvino subject has no call for {op.name}")
    x = shapes[0] or ()
    spatial = x[len(x) - op.ndim :]  # type: ignore[attr-defined]  # every record has a rank
    if isinstance(op, (MaxPool, AvgPool)):
        return _pool(op, spatial)
    if isinstance(op, (AdaptiveAvgPool, AdaptiveMaxPool)):
        name = "adaptive_avg_pool" if isinstance(op, AdaptiveAvgPool) else "adaptive_max_pool"
        index = ', "i32"' if isinstance(op, AdaptiveMaxPool) else ""
        return f"ops.{name}(x, np.array({list(op.spatial_output(spatial))}){index})"
    if isinstance(op, (GlobalAvgPool, GlobalMaxPool)):
        name = "reduce_mean" if isinstance(op, GlobalAvgPool) else "reduce_max"
        return f"ops.{name}(x, np.array({list(range(2, op.ndim + 2))}), keep_dims=True)"
    if isinstance(op, (Conv, ConvTranspose)):
        return _convolution(op, spatial, shapes[1] or ())
    raise Unsupported(f"OpenVINO has no {op.name}")


def _pool(op: MaxPool | AvgPool, spatial: Shape) -> str:
    axes = op.axes(spatial)
    rounding = "ceil_torch" if op.ceil_mode else "floor"
    begin, end = [a.before for a in axes], [a.after for a in axes]
    if isinstance(op, MaxPool):
        return (
            f"ops.max_pool(x, {list(op.stride)}, {list(op.dilation)}, {begin}, {end}, {list(op.kernel_size)}, "
            f'"{rounding}", "explicit", "i64", 2)'
        )
    if any(d != 1 for d in op.dilation) or op.divisor_override is not None:
        raise Unsupported("OpenVINO AvgPool has neither dilation nor divisor_override")
    return (
        f"ops.avg_pool(x, {list(op.stride)}, {begin}, {end}, {list(op.kernel_size)}, "
        f'{not op.count_include_pad}, "{rounding}", "explicit")'
    )


def _convolution(op: Conv | ConvTranspose, spatial: Shape, weight: Shape) -> str:
    axes = op.axes(spatial, weight[2:])
    begin, end = [a.before for a in axes], [a.after for a in axes]
    kernel, prefix = "weight", ""
    if op.groups > 1:
        grouped = [op.groups, weight[0] // op.groups, *weight[1:]]
        kernel, prefix = f"ops.reshape(weight, np.array({grouped}), False)", "group_"
    if isinstance(op, Conv):
        return f"ops.{prefix}convolution(x, {kernel}, {list(op.stride)}, {begin}, {end}, {list(op.dilation)})"
    return (
        f"ops.{prefix}convolution_backprop_data(x, {kernel}, strides={list(op.stride)}, pads_begin={begin}, "
        f"pads_end={end}, dilations={list(op.dilation)}, output_padding={list(op.output_padding)})"
    )


def function_source(op: Operator, shapes: tuple[Shape | None, ...], dtype: str) -> str:
    """``def build()`` that compiles a model of the record for inputs of these shapes."""
    kind = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}.get(dtype)
    kind = kind or {"int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64"}[dtype]
    hint = "f16" if dtype == "float16" else "bf16" if dtype == "bfloat16" else "f32"
    names = [n for n, s in zip(source.INPUT_NAMES, shapes, strict=False) if s is not None]
    lines = ["def build(threads=1):"]
    lines += [
        f'    {n} = ops.parameter({list(s)}, openvino.Type.{kind}, name="{n}")'
        for n, s in zip(source.INPUT_NAMES, shapes, strict=False)
        if s is not None
    ]
    lines.append(f"    out = {node_source(op, shapes)}")
    if "bias" in names:
        ones = [1, -1, *(1,) * op.ndim]  # type: ignore[attr-defined]
        lines.append(f"    out = ops.add(out, ops.reshape(bias, np.array({ones}), False))")
    lines.append(f"    model = openvino.Model([out.output(0)], [{', '.join(names)}])")
    settings = f'{{"INFERENCE_PRECISION_HINT": "{hint}", "INFERENCE_NUM_THREADS": threads}}'
    return "\n".join([*lines, f'    return openvino.Core().compile_model(model, "CPU", {settings})'])


@lru_cache(maxsize=64)
def _built(text: str, threads: int) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(f"{_IMPORTS}\n{text}", namespace)
    return namespace["build"](threads)  # type: ignore[no-any-return]


class OpenvinoSubject(ForwardSubject):
    """OpenVINO's CPU plugin, asked to compute in the element type of the input."""

    name: ClassVar[str] = "openvino"
    title: ClassVar[str] = "OpenVINO"

    @property
    def version(self) -> str:
        return str(openvino.__version__).split("-")[0]

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        x = inputs[0]
        assert x is not None
        if x.dtype.name == "bfloat16":
            raise Unsupported("OpenVINO takes no bfloat16 arrays from NumPy")
        if x.dtype.name in ("float64", "int64"):
            raise Unsupported(f"OpenVINO's CPU plugin computes {x.dtype.name} in 32 bits")
        if x.size == 0:
            raise Unsupported("the openvino subject is not asked for empty inputs")
        given = [np.ascontiguousarray(batched(op, x)), *inputs[1:]]
        shapes = tuple(None if a is None else a.shape for a in given)
        compiled = _built(function_source(op, shapes, x.dtype.name), self.threads)
        return unbatched(op, x.shape, np.array(compiled([a for a in given if a is not None])[0]))

    def with_threads(self, script: str) -> str:
        return script.replace("got = build()(", "got = build(threads)(")

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        if indices:
            return None
        given = (batched(op, arrays.primals[0]), *arrays.primals[1:])
        shapes = tuple(None if a is None else a.shape for a in given)
        dtype = given[0].dtype.name
        named = [(n, a) for n, a in zip(source.INPUT_NAMES, given, strict=False) if a is not None]
        lines = [_IMPORTS, "", *(f"{n} = {source.literal(a)}.astype(np.{dtype})" for n, a in named), ""]
        lines += [function_source(op, shapes, dtype), ""]
        lines.append(f"got = build()([{', '.join(n for n, _ in named)}])[0]")
        shape = op.output_shape(*(None if a is None else a.shape for a in arrays.primals))  # type: ignore[arg-type]
        if len(shape) != given[0].ndim:
            lines.append(f"got = got.reshape(got.shape[{given[0].ndim - arrays.primals[0].ndim}:])")
        return "\n".join(lines)
