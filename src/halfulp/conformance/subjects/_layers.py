"""What frameworks call the operators without windows: reductions, products, normalisations, softmax, losses, resizing.

Each function gives the source of ``f`` for a record, or says why there is none. Where a framework has no function of
its own it is written as its users write it.
"""

from __future__ import annotations

from typing import Any

from halfulp.conformance.subjects._base import Unsupported
from halfulp.records import (
    Array,
    BatchNorm,
    CrossEntropy,
    GroupNorm,
    InstanceNorm,
    Interpolate,
    LayerNorm,
    Linear,
    LogSoftmax,
    Matmul,
    Mean,
    MSELoss,
    NormalisationOperator,
    Operator,
    ReductionOperator,
    Shape,
    Softmax,
    SoftmaxOperator,
    Var,
)

LAYERS = (
    *(ReductionOperator, Linear, Matmul, NormalisationOperator, SoftmaxOperator),
    *(MSELoss, CrossEntropy, Interpolate),
)


def is_layer(op: Operator) -> bool:
    """Whether this module has calls for the record."""
    return isinstance(op, LAYERS)


def torch_layer(op: Any, shape: Shape) -> str:
    """The function for PyTorch, on an input of this shape."""
    if isinstance(op, ReductionOperator):
        less = f", correction={op.correction}" if isinstance(op, Var) else ""
        return _written("x", f"torch.{op.name}(x, dim={list(op.axes_of(shape))}, keepdim={op.keepdim}{less})")
    if isinstance(op, Linear):
        return _written("x, weight, bias=None", "F.linear(x, weight, bias)")
    if isinstance(op, Matmul):
        return _written("x, other", "torch.matmul(x, other)")
    if isinstance(op, SoftmaxOperator):
        return _written("x", f"torch.{op.name}(x, dim={op.dim})")
    if isinstance(op, MSELoss):
        return _written("x, target", f"F.mse_loss(x, target, reduction={op.reduction!r})")
    if isinstance(op, CrossEntropy):
        settings = f"ignore_index={op.ignore_index}, reduction={op.reduction!r}, label_smoothing={op.label_smoothing}"
        lines = [
            "def f(x, target, weight=None):",
            "    target = target.to(x.dtype) if target.dim() == x.dim() else target",
            "    weight = None if weight is None else weight.to(x.dtype)",
            f"    return F.cross_entropy(x, target, weight, {settings})",
        ]
        return "\n".join(lines)
    if isinstance(op, Interpolate):
        where = f"size={list(op.size)}" if op.size is not None else f"scale_factor={list(op.scale_factor)}"
        return _written("x", f"F.interpolate(x, {where}, mode={op.mode!r}, align_corners={op.align_corners})")
    return _torch_norm(op)


def _torch_norm(op: Any) -> str:
    signature = "x, weight=None, bias=None"
    if isinstance(op, LayerNorm):
        return _written(signature, f"F.layer_norm(x, {list(op.normalized_shape)}, weight, bias, {op.eps!r})")
    if isinstance(op, GroupNorm):
        return _written(signature, f"F.group_norm(x, {op.num_groups}, weight, bias, {op.eps!r})")
    if isinstance(op, InstanceNorm):
        return _written(signature, f"F.instance_norm(x, weight=weight, bias=bias, eps={op.eps!r})")
    if op.training:
        return _written(signature, f"F.batch_norm(x, None, None, weight, bias, True, 0.0, {op.eps!r})")
    statistics = "running_mean.to(x.dtype), running_var.to(x.dtype)"
    call = f"F.batch_norm(x, {statistics}, weight, bias, False, 0.0, {op.eps!r})"
    return _written("x, weight, bias, running_mean, running_var", call)


def _written(signature: str, call: str) -> str:
    return f"def f({signature}):\n    return {call}"


def jax_layer(op: Any, inputs: tuple[Array | None, ...]) -> str:
    """The function for JAX."""
    x = inputs[0]
    assert x is not None
    if isinstance(op, ReductionOperator):
        less = f", ddof={op.correction}" if isinstance(op, Var) else ""
        return _written("x", f"jnp.{op.name}(x, axis={op.axes_of(x.shape)}, keepdims={op.keepdim}{less})")
    if isinstance(op, Linear):
        product = 'jnp.matmul(x, weight.T, precision="highest")'
        return _written(
            "x, weight, bias=None", product if len(inputs) < 3 or inputs[2] is None else f"{product} + bias"
        )
    if isinstance(op, Matmul):
        return _written("x, other", 'jnp.matmul(x, other, precision="highest")')
    if isinstance(op, SoftmaxOperator):
        return _written("x", f"jax.nn.{op.name}(x, axis={op.dim})")
    if isinstance(op, MSELoss):
        squares = "(x - target) ** 2"
        return _written("x, target", squares if op.reduction == "none" else f"jnp.{op.reduction}({squares})")
    if isinstance(op, CrossEntropy):
        return _jax_entropy(op, x.shape)
    if isinstance(op, Interpolate):
        return _jax_resize(op, x.shape)
    return _jax_norm(op, inputs)


def _jax_entropy(op: CrossEntropy, shape: Shape) -> str:
    if op.label_smoothing:
        raise Unsupported("jax has no label smoothing")
    axis = op.class_axis(shape)
    lines = [
        "def f(x, target, weight=None):",
        f"    logp = jax.nn.log_softmax(x, axis={axis})",
        "    weight = jnp.ones(1, x.dtype) if weight is None else jnp.asarray(weight, x.dtype)",
        "    if target.ndim == x.ndim:",
        f"        each = weight.reshape({(-1, *(1,) * (len(shape) - axis - 1))})",
        f"        loss = -jnp.sum(each * jnp.asarray(target, x.dtype) * logp, axis={axis})",
        "        share = jnp.ones_like(loss)",
        "    else:",
        f"        kept = target != {op.ignore_index}",
        "        place = jnp.where(kept, target, 0)",
        f"        picked = jnp.take_along_axis(logp, jnp.expand_dims(place, {axis}), {axis}).squeeze({axis})",
        "        share = jnp.where(kept, weight[place * (weight.size > 1)], 0)",
        "        loss = jnp.where(kept, -share * picked, 0)",
    ]
    ends = {"none": "loss", "sum": "jnp.sum(loss)", "mean": "jnp.sum(loss) / jnp.sum(share)"}
    return "\n".join([*lines, f"    return {ends[op.reduction]}"])


def _jax_resize(op: Interpolate, shape: Shape) -> str:
    methods = {"nearest-exact": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear"}
    if op.mode not in methods or op.align_corners:
        raise Unsupported(f"jax.image.resize has no mode={op.mode!r} with align_corners={op.align_corners}")
    if any(factor is not None and n * factor != m for n, m, factor in op.spatial(shape)):
        raise Unsupported("jax.image.resize takes no scale that is not the quotient of the sizes")
    method = f'method="{methods[op.mode]}", antialias=False'
    return _written("x", f"jax.image.resize(x, {op.output_shape(shape)}, {method})")


def _jax_norm(op: Any, inputs: tuple[Array | None, ...]) -> str:
    x = inputs[0]
    assert x is not None
    given = [name for name, a in zip(("weight", "bias"), inputs[1:3], strict=False) if a is not None]
    columns = (-1, *(1,) * (x.ndim - 2))
    settings = f"epsilon={op.eps!r}"
    signature = ", ".join(["x", *given])
    lines = []
    if isinstance(op, LayerNorm):
        axes: Any = tuple(range(-len(op.normalized_shape), 0))
    elif isinstance(op, GroupNorm):
        grouped = (x.shape[0], op.num_groups, -1)
        lines = [f"    n = jax.nn.standardize(x.reshape({grouped}), axis=-1, {settings}).reshape(x.shape)"]
    elif isinstance(op, InstanceNorm):
        axes = tuple(range(2, x.ndim))
    else:
        axes = (0, *range(2, x.ndim))
        if not op.training:
            signature = "x, weight, bias, running_mean, running_var"
            lines = [
                f"    mean, var = (jnp.asarray(s, x.dtype).reshape({columns}) for s in (running_mean, running_var))"
            ]
            settings = f"mean=mean, variance=var, {settings}"
    if not isinstance(op, GroupNorm):
        lines.append(f"    n = jax.nn.standardize(x, axis={axes}, {settings})")
    own = "" if isinstance(op, LayerNorm) else f".reshape({columns})"
    out = "n" + (f" * weight{own}" if "weight" in given else "") + (f" + bias{own}" if "bias" in given else "")
    return "\n".join([f"def f({signature}):", *lines, f"    return {out}"])


def onnx_layer(op: Any, shapes: tuple[Shape | None, ...]) -> tuple[str, dict[str, Any], list[tuple[str, Any]]]:
    """(ONNX operator, attributes, constant inputs after the record's own as (type, numbers))."""
    x = shapes[0] or ()
    if isinstance(op, ReductionOperator):
        if isinstance(op, Var):
            raise Unsupported("ONNX has no variance")
        name = "ReduceMean" if isinstance(op, Mean) else "ReduceSum"
        return name, {"keepdims": int(op.keepdim)}, [("INT64", list(op.axes_of(x)))]
    if isinstance(op, Linear):
        if len(x) != 2:
            raise Unsupported("ONNX Gemm takes matrices")
        return "Gemm", {"transB": 1}, []
    if isinstance(op, Matmul):
        return "MatMul", {}, []
    if isinstance(op, (Softmax, LogSoftmax)):
        return type(op).__name__, {"axis": op.dim}, []
    if isinstance(op, CrossEntropy):
        if op.label_smoothing or len(shapes[1] or ()) == len(x) or len(x) < 2:
            raise Unsupported("ONNX SoftmaxCrossEntropyLoss takes class indices of a batch, without smoothing")
        return "SoftmaxCrossEntropyLoss", {"ignore_index": op.ignore_index, "reduction": op.reduction}, []
    if isinstance(op, Interpolate):
        return _onnx_resize(op, x)
    if isinstance(op, MSELoss):
        raise Unsupported("ONNX has no squared error")
    return _onnx_norm(op, shapes)


def _onnx_resize(op: Interpolate, x: Shape) -> tuple[str, dict[str, Any], list[tuple[str, Any]]]:
    modes = {"nearest": "nearest", "nearest-exact": "nearest", "bicubic": "cubic"}
    attributes: dict[str, Any] = {"mode": modes.get(op.mode, "linear")}
    if op.mode == "nearest":
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        corners = "align_corners" if op.align_corners else "half_pixel"
        attributes["coordinate_transformation_mode"] = corners
    if op.mode == "nearest-exact":
        attributes["nearest_mode"] = "round_prefer_ceil"
    if op.mode == "bicubic":
        attributes["cubic_coeff_a"] = -0.75
    if op.size is not None:
        return "Resize", attributes, [("", None), ("", None), ("INT64", list(op.output_shape(x)))]
    factors = [1.0] * (len(x) - len(op.spatial(x))) + [float(f or 1) for _, _, f in op.spatial(x)]
    _check_float32(factors)
    return "Resize", attributes, [("", None), ("FLOAT", factors)]


def _onnx_norm(op: Any, shapes: tuple[Shape | None, ...]) -> tuple[str, dict[str, Any], list[tuple[str, Any]]]:
    _check_float32([op.eps])
    given = sum(shape is not None for shape in shapes[1:3])
    if isinstance(op, BatchNorm) and op.training:
        raise Unsupported("ONNX BatchNormalization in training gives running statistics, too")
    if given < (1 if isinstance(op, LayerNorm) else 2):
        raise Unsupported("ONNX normalisations take a weight and a bias")
    attributes: dict[str, Any] = {"epsilon": op.eps}
    if isinstance(op, LayerNorm):
        return "LayerNormalization", attributes | {"axis": -len(op.normalized_shape)}, []
    if isinstance(op, GroupNorm):
        return "GroupNormalization", attributes | {"num_groups": op.num_groups}, []
    return ("InstanceNormalization" if isinstance(op, InstanceNorm) else "BatchNormalization"), attributes, []


def _check_float32(values: Any) -> None:
    import numpy as np

    if any(float(np.float32(v)) != v for v in values):
        raise Unsupported("an attribute of ONNX is a float32 number")
