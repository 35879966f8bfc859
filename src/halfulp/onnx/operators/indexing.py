"""Gather, Scatter, Where, OneHot, TopK, ArgMax, NonZero, Compress: elements are chosen by index or by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd.traced import is_traced, strip
from halfulp.numbers import exact, is_float, rounded
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axis_of, move, scalar
from halfulp.onnx.operators._plain import index, reshape
from halfulp.onnx.operators.movement import _broadcast
from halfulp.onnx.operators.movement import where as choose


def gather(node: Node) -> Callable[..., Any]:
    """Gather: slices of the input along an axis, by index."""
    axis = node.integer("axis", 0)

    def run(x: Any, indices: Any) -> Any:
        place = axis_of(node, axis, len(x.shape))
        found = _indices(node, indices, x.shape[place])
        node.fits((*x.shape[:place], *found.shape, *x.shape[place + 1 :]), x)
        return index(x, (*(slice(None),) * place, found))

    return run


def gather_elements(node: Node) -> Callable[..., Any]:
    """GatherElements: one element of the input for every index, at the index's own place along the other axes."""
    axis = node.integer("axis", 0)

    def run(x: Any, indices: Any) -> Any:
        return index(x, _element_key(node, x, indices, axis))

    return run


def _element_key(node: Node, x: Any, indices: Any, axis: int) -> tuple[NDArray[np.int64], ...]:
    place = axis_of(node, axis, len(x.shape))
    found = _indices(node, indices, x.shape[place])
    others = [i for i in range(len(x.shape)) if i != place]
    if found.ndim != len(x.shape) or any(found.shape[i] > x.shape[i] for i in others):
        rule = f"must not be larger than an input of shape {tuple(x.shape)} but along axis {place}"
        raise node.refusal(f"indices shape={found.shape}", rule, "O9")
    key: list[NDArray[Any]] = list(np.indices(found.shape, sparse=True))
    key[place] = found
    return tuple(key)


def gather_nd(node: Node) -> Callable[..., Any]:
    """GatherND: slices of the input by index tuples."""
    batch = node.integer("batch_dims", 0)

    def run(x: Any, indices: Any) -> Any:
        return index(x, _tuple_key(node, x, indices, batch))

    return run


def _tuple_key(node: Node, x: Any, indices: Any, batch: int) -> tuple[Any, ...]:
    if not isinstance(indices, np.ndarray) or indices.dtype.kind not in "iu" or indices.ndim <= batch or batch < 0:
        raise node.refusal("indices", f"must be integers with more than batch_dims={batch} axes", "O9")
    depth = indices.shape[-1]
    if not batch + depth <= len(x.shape) or indices.shape[:batch] != tuple(x.shape[:batch]):
        rule = f"must fit an input of shape {tuple(x.shape)} with batch_dims={batch}"
        raise node.refusal(f"indices shape={indices.shape}", rule, "O9")
    leading = np.indices(indices.shape[:-1], sparse=True)[:batch] if batch else []
    columns = [_indices(node, indices[..., i], x.shape[batch + i]) for i in range(depth)]
    return (*leading, *columns) if columns or batch else (Ellipsis,)


def _indices(node: Node, indices: Any, size: int) -> NDArray[np.int64]:
    """Integers that count from the front, negative ones from the back."""
    if not isinstance(indices, np.ndarray) or indices.dtype.kind not in "iu":
        raise node.refusal("indices", "must be an array of integers", "O9")
    wide = indices.astype(np.int64)
    if ((wide < -size) | (wide >= size)).any():
        outside = int(wide[(wide < -size) | (wide >= size)].flat[0])
        raise node.refusal(f"index {outside}", f"must be from {-size} to {size - 1}", "O9")
    return np.asarray(np.where(wide < 0, wide + size, wide))


def scatter_elements(node: Node) -> Callable[..., Any]:
    """ScatterElements: a copy of the input in which elements are replaced, or updated by ``reduction``.

    Of updates without a reduction for the same element the last in row-major order counts. A sum is rounded once.
    """
    axis, reduction = node.integer("axis", 0), _reduction(node, 18 if node.opset >= 18 else 16)

    def run(x: Any, indices: Any, updates: Any) -> Any:
        node.same_types(x, updates)
        if tuple(updates.shape) != tuple(indices.shape):
            raise node.refusal(f"updates shape={tuple(updates.shape)}", f"must be {tuple(indices.shape)}", "O9")
        return _scattered(node, x, _element_key(node, x, indices, axis), updates, reduction)

    return run


def scatter_nd(node: Node) -> Callable[..., Any]:
    """ScatterND, as ScatterElements but by index tuples."""
    reduction = _reduction(node, 16)

    def run(x: Any, indices: Any, updates: Any) -> Any:
        node.same_types(x, updates)
        key = _tuple_key(node, x, indices, 0)
        shape = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        if tuple(updates.shape) != shape:
            raise node.refusal(f"updates shape={tuple(updates.shape)}", f"must be {shape}", "O9")
        return _scattered(node, x, key, updates, reduction)

    return run


def _reduction(node: Node, since: int) -> str:
    reduction = node.text("reduction", "none") if node.opset >= since else "none"
    if reduction not in ("none", "add", "mul", "max", "min"):
        raise node.refusal(f"reduction={reduction!r}", "must be none, add, mul, max or min")
    return reduction


def _scattered(node: Node, x: Any, key: Any, updates: Any, reduction: str) -> Any:
    node.fits(tuple(x.shape), x, 0 if reduction == "none" else 8)
    if reduction == "none":

        def put(a: Any, u: Any) -> Any:
            out = a.copy()
            out[key] = u
            return out

        return move(put, x, updates)
    if is_traced(x, updates):
        raise node.refusal(f"reduction={reduction!r}", "has no derivative here; reduction='none' has one", "O3")
    if reduction in ("max", "min"):
        out = x.copy()
        (np.maximum if reduction == "max" else np.minimum).at(out, key, updates)
        return out
    return _accumulated(node, x, key, updates, np.add if reduction == "add" else np.multiply)


def _accumulated(node: Node, x: NDArray[Any], key: Any, updates: NDArray[Any], function: np.ufunc) -> NDArray[Any]:
    """Sums or products of all updates of an element, each rounded once."""
    out = x.copy()
    counts = np.zeros(x.shape, dtype=np.int64)
    np.add.at(counts, key, 1)
    with np.errstate(all="ignore"):
        function.at(out, key, updates)
    if is_float(x.dtype) and (counts > 1).any():
        node.fits((x.size + updates.size,), x, 200)  # exact numbers
        wide = exact_where_finite(x)
        function.at(wide, key, exact_where_finite(updates))
        several = (counts > 1) & np.isfinite(out.astype(np.float64))
        out[several] = rounded(wide[several], x.dtype)
    return np.asarray(out)


def exact_where_finite(x: NDArray[Any]) -> NDArray[Any]:
    """Exact rationals, 0 for what is not finite."""
    return np.asarray(exact(np.where(np.isfinite(x), x, x.dtype.type(0))))


def where(node: Node) -> Callable[..., Any]:
    """Where: one of two inputs, element by element."""

    def run(condition: Any, x: Any, y: Any) -> Any:
        node.same_types(x, y)
        if condition.dtype != np.bool_:
            raise node.refusal(f"condition dtype={condition.dtype}", "must be bool", "O9")
        node.fits(_broadcast(condition.shape, _broadcast(tuple(x.shape), tuple(y.shape))), x)
        return choose(condition, x, y)

    return run


def one_hot(node: Node) -> Callable[..., Any]:
    """OneHot: a new axis with one value at the index and another elsewhere."""
    axis = node.integer("axis", -1)

    def run(indices: Any, depth: Any, values: Any) -> Any:
        count = int(scalar(node, depth, "depth"))
        if count < 0 or tuple(values.shape) != (2,):
            raise node.refusal(f"depth={count}, values shape={tuple(values.shape)}", "must be >= 0, and (2,)", "O9")
        place = axis_of(node, axis, indices.ndim + 1)
        node.fits((*indices.shape[:place], count, *indices.shape[place:]), values)
        wide = np.expand_dims(strip(indices), place)
        steps = np.arange(count).reshape([count if i == place else 1 for i in range(indices.ndim + 1)])
        chosen = (wide == steps) | (wide + count == steps)
        return index(values, chosen.astype(np.int64))

    return run


def top_k(node: Node) -> Callable[..., Any]:
    """TopK: the largest or smallest k elements in order, and their indices; of equal ones the first comes first."""
    axis, largest = node.integer("axis", -1), node.flag("largest", 1) if node.opset >= 11 else True
    ordered = node.flag("sorted", 1) if node.opset >= 11 else True
    fixed = node.integer("k", -1) if node.opset < 10 else None

    def run(x: Any, k: Any = None) -> tuple[Any, Any]:
        place = axis_of(node, axis, len(x.shape))
        count = fixed if fixed is not None else int(scalar(node, k, "k"))
        if count is None or not 0 <= count <= x.shape[place]:
            raise node.refusal(f"k={count}", f"must be from 0 to {x.shape[place]}", "O9")
        order = _order(strip(x), place, largest).take(np.arange(count), axis=place)
        found = order if ordered else np.sort(order, axis=place)
        return move(lambda a: np.take_along_axis(a, found, place), x), found.astype(np.int64)

    return run


def _order(x: NDArray[Any], axis: int, largest: bool) -> NDArray[np.int64]:
    """Indices by value; equal elements keep their order, NaN counts as the largest."""
    if not largest:
        return np.argsort(x, axis=axis, kind="stable")
    reverse = np.flip(x, axis)
    order = np.flip(np.argsort(reverse, axis=axis, kind="stable"), axis)
    return np.asarray(x.shape[axis] - 1 - order)


def arg_max(node: Node) -> Callable[..., Any]:
    """ArgMax: the index of the largest element along an axis."""
    return _arg(node, np.argmax)


def arg_min(node: Node) -> Callable[..., Any]:
    """ArgMin: the index of the smallest element along an axis."""
    return _arg(node, np.argmin)


def _arg(node: Node, function: Callable[..., Any]) -> Callable[..., Any]:
    axis, keep = node.integer("axis", 0), node.flag("keepdims", 1)
    last = node.flag("select_last_index") if node.opset >= 12 else False

    def run(x: Any) -> Any:
        value = strip(x)
        place = axis_of(node, axis, value.ndim)
        if value.shape[place] == 0:
            raise node.refusal(f"input shape={value.shape}", f"axis {place} has no elements", "O9")
        found = function(np.flip(value, place) if last else value, axis=place)
        found = value.shape[place] - 1 - found if last else found
        return np.asarray(np.expand_dims(found, place) if keep else found, dtype=np.int64)

    return run


def non_zero(node: Node) -> Callable[..., Any]:
    """NonZero: the indices of all elements other than 0, one row for each axis."""

    def run(x: Any) -> Any:
        value = strip(x)
        node.fits((2 * value.ndim, int(np.count_nonzero(value))), np.empty(0, np.int64))
        return np.array(np.nonzero(np.atleast_1d(value))[: value.ndim], dtype=np.int64).reshape(value.ndim, -1)

    return run


def compress(node: Node) -> Callable[..., Any]:
    """Compress: the slices or elements at which a condition holds."""
    axis = node.integer("axis", 0) if node.has("axis") else None

    def run(x: Any, condition: Any) -> Any:
        chosen = np.flatnonzero(strip(condition))
        flat = reshape(x, (int(np.prod(x.shape)),)) if axis is None else x
        place = 0 if axis is None else axis_of(node, axis, len(x.shape))
        if chosen.size and chosen[-1] >= flat.shape[place]:
            raise node.refusal(f"condition of {condition.size}", f"must be at most {flat.shape[place]} long", "O9")
        return index(flat, (*(slice(None),) * place, chosen))

    return run
