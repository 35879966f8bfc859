"""Which calls of PyTorch are ours, which are exact as they are, and which are neither.

``OURS`` maps the name of a function or method to the function that takes its place. ``EXACT`` are those whose value and
gradient are single IEEE operations, selections or moves of data, so that their bits cannot depend on threads, batch or
layout. ``GATHERS`` have exact values, but PyTorch adds up their gradients in an order of its own. Whatever is in none
of these is not covered, and reported by name.
"""

from __future__ import annotations

import math
import sys
from functools import cache, reduce
from inspect import signature
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import _get_tracing_state

from halfulp import torch as _package
from halfulp.functional._accepted import implied_axis, older_reduction
from halfulp.records import declarations
from halfulp.torch import unpooling
from halfulp.torch._sums import broadcast, same_shape

__all__ = ["BY_FUNCTION", "EXACT", "GATHERS", "INPLACE_AT", "LEFT", "LEFT_BY_FUNCTION", "OTHER_METHODS", "OURS"]

ours: Any = _package
_torch: Any = torch


def _words(text: str) -> list[str]:
    return text.split()


_MOVES = _words(
    """view reshape flatten unflatten ravel permute transpose t mT squeeze unsqueeze swapaxes swapdims movedim moveaxis
    contiguous cat concat concatenate stack hstack vstack split tensor_split chunk unbind narrow select flip roll
    pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle clone detach to float double half bfloat16 type
    type_as cpu view_as reshape_as alias copy_ zeros_like ones_like empty_like full_like new_zeros new_ones new_empty
    new_full tensor as_tensor zeros ones empty full eye zero_ fill_ tril triu diagonal atleast_1d atleast_2d
    atleast_3d"""
)
_SINGLE = _words(
    """neg negative abs absolute reciprocal maximum minimum fmax fmin clamp clip clamp_min clamp_max relu relu_ relu6
    hardtanh threshold leaky_relu where masked_fill sign sgn floor ceil round trunc frac square eq ne lt le gt ge equal
    not_equal greater less greater_equal less_equal logical_and logical_or logical_not isnan isfinite isinf max min amax
    amin argmax argmin any all topk sort argsort bitwise_and bitwise_or bitwise_not one_hot nonzero count_nonzero"""
)
_QUESTIONS = _words(
    """size dim ndimension numel nelement stride storage_offset element_size is_contiguous is_floating_point is_complex
    get_device data_ptr item tolist numpy len requires_grad_ retain_grad register_hook is_neg is_conj has_names backward
    is_same_size result_type promote_types allclose get iter bool int index hash repr format deepcopy reduce_ex setstate
    dtype shape grad is_inference is_nonzero untyped_storage is_set_to _assert
    _set_grad_enabled randint randperm"""
)
EXACT = frozenset((*_MOVES, *_SINGLE, *_QUESTIONS))
GATHERS = frozenset(
    _words("Tensor.unfold getitem index_select gather take take_along_dim embedding repeat repeat_interleave tile pad")
)
EXACT_IN_ATEN = frozenset(
    (
        *(EXACT | GATHERS),
        *_words(
            """_unsafe_view _to_copy as_strided slice constant_pad_nd lift_fresh empty_strided copy set resize add sub
            _reshape_alias scalar_tensor _local_scalar_dense split_with_sizes mul div rsub expand index fill zero"""
        ),
    )
)
"""Names in ``torch.ops.aten`` of what has exact values."""
EXACT_FOR_INTEGERS = frozenset(
    _words(
        """add sub mul div radd rsub rmul rdiv truediv rtruediv true_divide subtract multiply divide sum matmul mm bmm
        pow expand expand_as broadcast_to remainder floor_divide floordiv mod masked_fill copy_ fill_"""
    )
)
OTHER_METHODS = frozenset({"unfold"})
"""Methods of tensors that are not what the function of this name is."""


def _sized(*operands: Any) -> tuple[int, ...]:
    return tuple(_torch.broadcast_shapes(*(o.shape for o in operands if isinstance(o, Tensor))))


def _wide(operand: Any, shape: Any, dtype: Any) -> Any:
    """A tensor of floats in this shape. Without axes it does not take part in PyTorch's choice of the type."""
    if not isinstance(operand, Tensor) or not operand.is_floating_point():
        return operand
    return broadcast(operand.to(dtype) if operand.dim() == 0 else operand, shape)


def _common(*tensors: Tensor) -> Any:
    """The type of floats that PyTorch computes with: that of the tensors with axes, if there are any."""
    floats = [t for t in tensors if t.is_floating_point()]
    return reduce(_torch.promote_types, [t.dtype for t in floats if t.dim()] or [t.dtype for t in floats])


def _arithmetic(name: str) -> Any:
    """An operation of two operands; what is broadcast gets an exact gradient, and alpha its own rounding."""
    plain = getattr(torch, name)

    def call(input: Any, other: Any, *, alpha: Any = 1, **keywords: Any) -> Any:
        if alpha != 1:
            other = other * alpha
        if isinstance(input, Tensor) and isinstance(other, Tensor) and not same_shape(input, other.shape):
            shape, dtype = _sized(input, other), _common(input, other)
            input, other = _wide(input, shape, dtype), _wide(other, shape, dtype)
        return plain(input, other, **keywords)

    call.__name__ = call.__qualname__ = name
    return call


add, sub, mul, div = (_arithmetic(name) for name in ("add", "sub", "mul", "div"))


def _arithmetic_in_place(name: str) -> Any:
    """The form that writes into its first operand: PyTorch's own, which is one operation per cell."""
    plain = getattr(Tensor, f"{name}_")

    def call(input: Tensor, other: Any, *, alpha: Any = 1, **keywords: Any) -> Any:
        if alpha != 1:
            other = other * alpha
        if isinstance(other, Tensor) and not same_shape(other, input.shape):
            other = _wide(other, input.shape, _common(input, other))
        return plain(input, other, **keywords)

    call.__name__ = call.__qualname__ = f"{name}_"
    return call


add_, sub_, mul_, div_ = (_arithmetic_in_place(name) for name in ("add", "sub", "mul", "div"))


def _selection(name: str) -> Any:
    """A choice between operands, which is exact; what is broadcast gets an exact gradient."""
    plain = getattr(torch, name)

    def call(*operands: Any, **keywords: Any) -> Any:
        tensors = [o for o in (*operands, *keywords.values()) if isinstance(o, Tensor)]
        shape = _sized(*tensors)
        if all(same_shape(t, shape) for t in tensors if t.is_floating_point()):
            return plain(*operands, **keywords)
        dtype = _common(*tensors)
        return plain(
            *[_wide(o, shape, dtype) for o in operands],
            **{key: _wide(value, shape, dtype) for key, value in keywords.items()},
        )

    call.__name__ = call.__qualname__ = name
    globals()[name] = call  # torch.fx writes the name
    return call


_SELECTIONS = ("where", "maximum", "minimum", "fmax", "fmin", "max", "min", "clamp", "clip", "clamp_min", "clamp_max")


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Any:
    """``masked_fill``; a value that is a tensor gets an exact gradient."""
    if not isinstance(value, Tensor):
        return torch.masked_fill(input, mask, value)
    shape = _sized(input, mask)
    filling = _wide(value.to(input.dtype), shape, input.dtype)
    return torch.where(mask, filling, _wide(input, shape, input.dtype))


def copy_(input: Tensor, other: Any, *flags: Any, **keywords: Any) -> Any:
    """``Tensor.copy_``; what is broadcast gets an exact gradient."""
    return input.copy_(_wide(other, input.shape, other.dtype), *flags, **keywords)


def fill_(input: Tensor, value: Any) -> Any:
    """``Tensor.fill_``; a value that is a tensor gets an exact gradient."""
    return copy_(input, value) if isinstance(value, Tensor) else input.fill_(value)


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input."""
    return sub(other, input, alpha=alpha)


def rdiv(input: Any, other: Any) -> Any:
    """Other / input."""
    return div(torch.as_tensor(other, dtype=input.dtype) if not isinstance(other, Tensor) else other, input)


def expand(input: Tensor, *sizes: Any) -> Tensor:
    """``Tensor.expand`` with an exact gradient."""
    shape = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    lead = len(shape) - input.dim()
    return broadcast(input, [input.shape[i - lead] if n == -1 else n for i, n in enumerate(shape)])


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``Tensor.expand_as`` with an exact gradient."""
    return broadcast(input, other.shape)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax`` as function, method or ``torch.nn.functional``'s."""
    return _normalised(ours.softmax, input, dim if dim is not None else implied_axis(input), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``log_softmax`` as function, method or ``torch.nn.functional``'s."""
    return _normalised(ours.log_softmax, input, dim if dim is not None else implied_axis(input), dtype)


def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None) -> Tensor:
    """``sum`` as function or method."""
    return _reduced(ours.sum, input, dim if axis is None else axis, keepdim, dtype)


def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None) -> Tensor:
    """``mean`` as function or method."""
    return _reduced(ours.mean, input, dim if axis is None else axis, keepdim, dtype)


def _reduced(function: Any, input: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    result: Tensor = function(input if dtype is None else input.to(dtype), dim, keepdim)
    return result


def _normalised(function: Any, input: Tensor, dim: int, dtype: Any) -> Tensor:
    result: Tensor = function(input if dtype is None else input.to(dtype), dim)
    return result


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``torch.addmm``: one rounding where beta and alpha are 1."""
    if beta == 1 and alpha == 1 and input.dim() == 1:
        return ours.linear(mat1, mat2.t(), input)
    product = ours.matmul(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return add(input if beta == 1 else input * beta, product)


def rmatmul(input: Tensor, other: Tensor) -> Any:
    """Other @ input."""
    return ours.matmul(other, input)


def power(input: Any, exponent: Any) -> Any:
    """``pow``; the square is one product."""
    if isinstance(exponent, (int, float)) and exponent in (1, 2):
        return input * input if exponent == 2 else input * 1
    return ours.pow(input, exponent)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    """``torch.nn.functional``'s: products, softmax and product, each correctly rounded."""
    if enable_gqa:
        heads = query.shape[-3]
        key, value = (_repeated(t, heads // t.shape[-3]) for t in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = ours.matmul(query, key.transpose(-2, -1)) * factor
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = torch.where(attn_mask, scores, float("-inf"))
    elif attn_mask is not None:
        scores = add(scores, attn_mask)
    weights = ours.softmax(scores, -1)
    if attn_mask is not None and attn_mask.dtype is torch.bool:  # a row without keys has no weights
        weights = torch.where(attn_mask.any(-1, keepdim=True), weights, 0.0)
    return ours.matmul(ours.dropout(weights, dropout_p) if dropout_p else weights, value)


def _repeated(heads: Tensor, times: int) -> Tensor:
    """Each head so many times in a row, with an exact gradient."""
    shape = (*heads.shape[:-2], times, *heads.shape[-2:])
    return broadcast(heads.unsqueeze(-3), shape).flatten(-4, -3)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """``torch._weight_norm``: g * (v / sqrt(sum of squares)), each step correctly rounded."""
    shape = [1] * v.dim()
    shape[dim] = v.shape[dim]
    axes = [i for i in range(v.dim()) if i != dim]
    squares = ours.sum(v * v, axes, keepdim=True)
    return mul(div(v, ours.sqrt(squares)), g.reshape(shape))


def batch_norm(input: Tensor, *arguments: Any, **keywords: Any) -> Any:
    """``torch.nn.functional.batch_norm`` and ``torch.batch_norm``, which has the parameters first and one flag more."""
    if len(arguments) == 8:
        weight, bias, mean, variance, training, momentum, eps, _ = arguments
        arguments = (mean, variance, weight, bias, training, momentum, eps)
    return ours.batch_norm(input, *arguments, **keywords)


def instance_norm(input: Tensor, *arguments: Any, **keywords: Any) -> Any:
    """``torch.nn.functional.instance_norm``, and ``torch.instance_norm``, which has the parameters first."""
    if len(arguments) == 8:
        weight, bias, mean, variance, own, momentum, eps, _ = arguments
        arguments = (mean, variance, weight, bias, own, momentum, eps)
    return ours.instance_norm(input, *arguments, **keywords)


def layer_norm(input: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    """``torch.nn.functional.layer_norm``, and ``torch.layer_norm``, which has one flag more."""
    return ours.layer_norm(input, shape, weight, bias, eps)


def group_norm(input: Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    """``torch.nn.functional.group_norm``, and ``torch.group_norm``, which has one flag more."""
    return ours.group_norm(input, groups, weight, bias, eps)


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    axis: Any = None,
) -> Any:
    """``var`` as function or method."""
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    return ours.var(input, dim if axis is None else axis, int(less), keepdim)


def std(input: Tensor, *arguments: Any, **keywords: Any) -> Any:
    """``std``: the root of the variance, two roundings."""
    return ours.sqrt(var(input, *arguments, **keywords))


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """``torch.nn.functional.mse_loss``; weighted, every step is rounded once."""
    reduction = older_reduction(size_average, reduce, reduction)
    if not same_shape(input, target.shape):
        shape = _sized(input, target)
        input, target = broadcast(input, shape), broadcast(target, shape)
    if weight is None:
        return ours.mse_loss(input, target, reduction=reduction)
    squares = mul(ours.mse_loss(input, target, reduction="none"), weight)
    if reduction == "none":
        return squares
    whole = ours.sum(squares)
    return whole if reduction == "sum" else div(whole, ours.sum(broadcast(weight, squares.shape)))


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """``torch.nn.functional.cross_entropy``; probabilities that need a gradient are multiplied step by step."""
    reduction = older_reduction(size_average, reduce, reduction)
    if not (isinstance(target, Tensor) and target.requires_grad):
        settings: dict[str, Any] = {"reduction": reduction, "label_smoothing": label_smoothing}
        return ours.cross_entropy(input, target, weight, ignore_index=ignore_index, **settings)
    axis = 1 if input.dim() > 1 else 0
    shares = add(mul(target, 1 - label_smoothing), label_smoothing / input.shape[axis])
    terms = mul(ours.log_softmax(input, axis), shares)
    if weight is not None:
        terms = mul(terms, weight.reshape([-1 if i == axis else 1 for i in range(input.dim())]))
    losses = -ours.sum(terms, axis)
    if reduction == "none":
        return losses
    whole = ours.sum(losses)
    return whole if reduction == "sum" else div(whole, losses.numel())


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    """``torch.nn.functional.interpolate``; antialiasing is PyTorch's own (see ``LEFT``)."""
    rank = input.dim() - 2
    if scale_factor is not None and (recompute_scale_factor or mode == "area"):
        factors = scale_factor if isinstance(scale_factor, (list, tuple)) else (scale_factor,) * rank
        size, scale_factor = [int(n * float(f)) for n, f in zip(input.shape[2:], factors, strict=True)], None
    if mode == "area":
        return getattr(ours, f"adaptive_avg_pool{rank}d")(input, size)
    return ours.interpolate(input, size, scale_factor, mode, align_corners)


def embedding(
    input: Any = None,
    weight: Any = None,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    indices: Any = None,
) -> Any:
    """``torch.nn.functional.embedding``, and ``torch.embedding``: weight, indices, padding_idx or -1, two flags."""
    if indices is not None or input.is_floating_point():
        table, places = (weight if input is None else input), (weight if indices is None else indices)
        padding = None if padding_idx == -1 else padding_idx
        return ours.embedding(places, table, padding, scale_grad_by_freq=bool(max_norm or scale_grad_by_freq))
    return ours.embedding(input, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq)


def prelu(input: Tensor, weight: Tensor) -> Any:
    """``torch.prelu``: one product where the input is not positive."""
    if weight.dim() and weight.numel() > 1:  # one slope for every channel
        weight = weight.reshape([-1 if axis == 1 else 1 for axis in range(input.dim())])
    return torch.where(input > 0, input, mul(weight.reshape(()) if weight.numel() == 1 else weight, input))


def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Any:
    """``torch.norm`` of vectors: the exact norm, rounded once in value and gradient."""
    axes = [dim] if isinstance(dim, int) else list(range(input.dim())) if dim is None else list(dim)
    axes = [axis % (input.dim() or 1) for axis in axes]
    input = input if dtype is None else input.to(dtype)
    lead = [axis for axis in range(input.dim()) if axis not in axes]
    sizes = [input.shape[axis] for axis in lead]
    cells = input.permute(*lead, *axes).reshape(1, math.prod(sizes), -1)
    found = ours.global_lp_pool1d(cells, 2.0 if p in ("fro", None) else float(p), keepdims=False)
    return found.reshape([1 if i in axes else input.shape[i] for i in range(input.dim())] if keepdim else sizes)


def _norm_left(args: Any, kwargs: Any) -> bool:
    """Norms of matrices, p < 1, and an input without cells."""
    input, p = _given(args, kwargs, 0, "input"), _given(args, kwargs, 1, "p", 2.0)
    return not (p in ("fro", None) or (isinstance(p, (int, float)) and p >= 1)) or (
        isinstance(input, Tensor) and input.numel() == 0
    )


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """``torch.nn.functional.normalize``: the norm, and a quotient."""
    return div(input, norm(input, p, dim, True).clamp_min(eps))


def _embedding_left(args: Any, kwargs: Any) -> bool:
    """Sparse gradients, and rows that are scaled to a norm."""
    if "indices" in kwargs or (args and isinstance(args[0], Tensor) and args[0].is_floating_point()):
        return bool(_given(args, kwargs, 4, "sparse", False))
    return _given(args, kwargs, 3, "max_norm") is not None or bool(_given(args, kwargs, 6, "sparse", False))


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Any:
    """``torch.nn.functional.upsample_nearest``."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Any:
    """``torch.nn.functional.upsample_bilinear``."""
    return interpolate(input, size, scale_factor, "bilinear", True)


_WRITTEN = {
    "upsample": interpolate,
    "upsample_nearest": upsample_nearest,
    "upsample_bilinear": upsample_bilinear,
    "var": var,
    "std": std,
    "mse_loss": mse_loss,
    "cross_entropy": cross_entropy,
    "interpolate": interpolate,
    "embedding": embedding,
    "prelu": prelu,
    "norm": norm,
    "normalize": normalize,
    "sum": sum,
    "mean": mean,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "addmm": addmm,
    "matmul": ours.matmul,
    "mm": ours.matmul,
    "bmm": ours.matmul,
    "rmatmul": rmatmul,
    "pow": power,
    "_weight_norm": weight_norm,
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
}
"""Name in PyTorch -> the function here, where PyTorch takes more arguments than ours."""


def _with_indices(name: str, function: Any) -> Any:
    """What ``torch.nn.functional`` calls for ``return_indices=True``, with the same parameters."""
    names = tuple(signature(function).parameters)

    def call(*arguments: Any, **keywords: Any) -> Any:
        return function(**dict(zip(names, arguments, strict=False)) | keywords | {"return_indices": True})

    call.__name__ = call.__qualname__ = f"{name}_with_indices"
    globals()[call.__name__] = call  # torch.fx writes the name
    return call


def _namesakes() -> dict[str, Any]:
    """The declared operators that PyTorch has a function of the same name for, where that is not exact as it is."""
    table: dict[str, Any] = {}
    own = [d for d in declarations() if d.record.__module__.startswith("halfulp.")]  # users declare theirs, too
    for declaration in own:
        for name in declaration.names if declaration.torch else ():
            function = getattr(unpooling if declaration.trailing else ours, name)
            if name not in EXACT and (hasattr(F, name) or hasattr(torch, name)):
                table[name] = function
            if hasattr(F, f"{name}_with_indices"):
                table[f"{name}_with_indices"] = _with_indices(name, function)
    return table


def written_back(function: Any, args: Any, kwargs: Any) -> Any:
    """An operation in place: the result goes into the first operand, and the gradient passes through a copy of it."""
    first, *rest = args
    if (torch.is_grad_enabled() and first.requires_grad) or _get_tracing_state() is not None:  # one graph for both
        return first.copy_(function(first.clone(), *rest, **kwargs))
    return first.copy_(function(first, *rest, **kwargs))


def _in_place(name: str, function: Any) -> Any:
    """The form of a function that writes into its first operand."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return written_back(function, arguments, keywords)

    call.__name__ = call.__qualname__ = f"{name}_"
    globals()[call.__name__] = call  # torch.fx writes the name
    return call


def _table() -> dict[str, Any]:
    table: dict[str, Any] = {
        name: globals()[name] for name in ("add", "sub", "mul", "div", "rsub", "expand", "expand_as")
    }
    table |= {"subtract": sub, "multiply": mul, "divide": div, "true_divide": div, "truediv": div, "rtruediv": rdiv}
    table |= {"radd": add, "rmul": mul, "rdiv": rdiv, "broadcast_to": expand}
    table |= {name: _selection(name) for name in _SELECTIONS}
    table |= {"masked_fill": masked_fill, "copy_": copy_, "fill_": fill_}
    table |= {name: getattr(ours, name) for name in ("dropout", "dropout1d", "dropout2d", "dropout3d")}
    table |= _namesakes() | _WRITTEN
    in_place = [n for n in table if any(hasattr(home, f"{n}_") for home in (Tensor, torch, F, _torch._C._nn))]
    written = {"add_": add_, "sub_": sub_, "mul_": mul_, "div_": div_}
    written |= {"subtract_": sub_, "multiply_": mul_, "divide_": div_, "true_divide_": div_}
    return (
        {f"{name}_": _in_place(name, table[name]) for name in in_place if f"{name}_" not in written} | written | table
    )


OURS: dict[str, Any] = _table()
"""The name of a function or method of PyTorch -> what takes its place."""


def _given(args: Any, kwargs: Any, at: int, name: str, default: Any = None) -> Any:
    return args[at] if at < len(args) else kwargs.get(name, default)


LEFT: dict[str, Any] = {
    "norm": _norm_left,
    "normalize": _norm_left,
    "embedding": _embedding_left,
    "pow": lambda args, kwargs: not isinstance(_given(args, kwargs, 1, "exponent"), (int, float)),
    "interpolate": lambda args, kwargs: _given(args, kwargs, 6, "antialias", False),
}
"""The name of a function -> whether PyTorch keeps a call of it: a form that ours does not have."""


def _by_function() -> dict[Any, Any]:
    """The same by function object, which is what ``torch.compile`` can look up."""
    table: dict[Any, Any] = {}
    for name, function in OURS.items():
        for home in (torch, F, Tensor, torch.special, _torch._C._nn):
            for spelled in (name, f"__{name}__", f"__i{name[:-1]}__" if name.endswith("_") else name):
                if hasattr(home, spelled) and not (home is Tensor and name in OTHER_METHODS):
                    table[getattr(home, spelled)] = function
    return table


def _inplace_at() -> dict[Any, int]:
    """A function of PyTorch with an argument ``inplace`` -> the position of that argument, which ours does not have."""
    table: dict[Any, int] = {}
    for function in BY_FUNCTION:
        if isinstance(function, FunctionType):
            names = function.__code__.co_varnames[: function.__code__.co_argcount]
            if "inplace" in names:
                table[function] = names.index("inplace")
    return table


def _left_by_function() -> dict[Any, Any]:
    """``LEFT`` by function object."""
    return {function: LEFT[name] for function, ours in BY_FUNCTION.items() for name in LEFT if ours is OURS[name]}


@cache
def ask_modes() -> None:
    """Have ``torch.compile`` ask a mode for these functions, as a call does; it takes them as they are otherwise."""
    kept = [F.hardswish, F.hardsigmoid, F.sigmoid, F.tanh, F.upsample, F.upsample_nearest, F.upsample_bilinear]
    kept.append(_torch._weight_norm)
    _torch.overrides.get_overridable_functions().setdefault(F, []).extend(kept)
    compiler = sys.modules.get("torch._dynamo.variables.torch")
    if compiler is not None:  # it has made its own set already
        compiler.get_overridable_functions().update(kept)


BY_FUNCTION = _by_function()
PYTHON_METHODS = tuple(
    (theirs, function, next((LEFT[name] for name in LEFT if function is OURS[name]), None))
    for theirs, function in BY_FUNCTION.items()
    if isinstance(theirs, FunctionType) and theirs.__qualname__.startswith("Tensor")
)
"""Methods of tensors that PyTorch wrote in Python; ``torch.compile`` does not find them in a dictionary."""
LEFT_BY_FUNCTION = _left_by_function()
INPLACE_AT = _inplace_at()
