"""Graphs: one task for every output block, one for every piece that crosses a chunk's border."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from dask.array import Array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from halfulp.dask import _blocks as blocks
from halfulp.dask._cuts import Part, bounds_of, pieces
from halfulp.records import Operator

__all__ = ["build", "build_pair", "meta_of", "one_block"]

Fitted = Callable[[tuple[Part, ...]], Operator]
"""The operator for a combination of parts."""


def build(
    op: Operator,
    x: Any,
    parts: Sequence[list[Part]],
    fitted: Fitted,
    meta: Any,
    others: Sequence[Any] = (),
    channels: int | None = None,
) -> Any:
    """A Dask array of the outputs; ``channels`` is their number if the axis before the last ones is a convolution's."""
    keys, sources = _others(others)
    name = f"{op.name}-{tokenize(repr(op), x.name, x.chunks, [o if o is None else _token(o) for o in others])}"
    graph: dict[Any, Any] = {}
    chunks = _fill(graph, name, name, op, x, parts, fitted, blocks.run, keys, channels is not None)
    if channels is not None:
        chunks = (*chunks[: -len(parts) - 1], (channels,), *chunks[len(chunks) - len(parts) :])
    return Array(HighLevelGraph.from_collections(name, graph, [x, *sources]), name, chunks, meta=meta)


def build_pair(
    op: Operator, x: Any, parts: Sequence[list[Part]], fitted: Fitted, meta: Any, indices: Any
) -> tuple[Any, Any]:
    """Dask arrays of the values and of their flat indices; a block computes both at once."""
    token = tokenize(repr(op), x.name, x.chunks)
    both, names = f"{op.name}-both-{token}", (f"{op.name}-{token}-value", f"{op.name}-{token}-indices")
    graph: dict[Any, Any] = {}
    chunks = _fill(graph, both, both, op, x, parts, fitted, blocks.run_with_indices, (indices,), False)
    layer = HighLevelGraph.from_collections(both, graph, [x])
    found = []
    for place, name in enumerate(names):
        items: dict[Any, Any] = {(name, *key[1:]): (_item, key, place) for key in graph if key[0] == both}
        whole = HighLevelGraph({**layer.layers, name: items}, {**layer.dependencies, name: {both}})
        found.append(Array(whole, name, chunks, meta=meta if place == 0 else np.empty((0,) * x.ndim, np.int64)))
    return found[0], found[1]


def meta_of(op: Operator, dtype: Any, spatial: Sequence[int], others: Sequence[Any], rank: int) -> Any:
    """An empty array like a block of the output: the operator on no plane at all, which also checks the arguments."""
    stand_ins = [None if o is None else np.zeros(o.shape, o.dtype) for o in others]
    value = op(np.empty((0, *spatial), dtype), *stand_ins)
    return np.empty((0,) * rank, value.dtype)


def one_block(value: Any) -> Any:
    """A Dask array in one chunk; anything else as it is."""
    return value.rechunk(-1) if isinstance(value, Array) else value


def _item(pair: tuple[Any, Any], place: int) -> Any:
    return pair[place]


def _token(value: Any) -> Any:
    return value.name if isinstance(value, Array) else np.asarray(value)


def _others(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What a task refers to for each further input, and the collections that those come from."""
    import dask.array as da

    keys: list[Any] = []
    sources = []
    for value in values:
        if value is None:
            keys.append(None)
            continue
        array = one_block(value) if isinstance(value, Array) else da.from_array(np.asarray(value), chunks=-1)
        sources.append(array)
        keys.append((array.name,) + (0,) * array.ndim)
    return keys, sources


def _fill(
    graph: dict[Any, Any],
    name: str,
    token: str,
    op: Operator,
    x: Any,
    parts: Sequence[list[Part]],
    fitted: Fitted,
    function: Any,
    others: Sequence[Any],
    channels: bool,
) -> tuple[tuple[int, ...], ...]:
    """Add the tasks of every output block; the result is the outputs' chunks."""
    rank = len(parts)
    ends = [bounds_of(c) for c in x.chunks]
    leading = x.ndim - rank - channels
    rows: list[list[tuple[Part, list[tuple[int, int, int]]]]] = []
    for axis, sizes in enumerate(x.chunks):
        if axis < leading:
            rows.append(
                [(Part(n, a, a + n), [(i, 0, n)]) for i, (n, a) in enumerate(zip(sizes, ends[axis], strict=False))]
            )
        elif axis < leading + channels:
            rows.append([(Part(sum(sizes), 0, sum(sizes)), [(i, 0, n) for i, n in enumerate(sizes)])])
        else:
            rows.append([(p, pieces(ends[axis], p.lo, p.hi)) for p in parts[axis - leading - channels]])
    sizes = x.shape[x.ndim - rank :]
    known: dict[tuple[Part, ...], tuple[Operator, tuple[slice, ...] | None]] = {}
    for index in product(*(range(len(row)) for row in rows)):
        chosen = [row[i] for row, i in zip(rows, index, strict=True)]
        spatial = tuple(part for part, _ in chosen[x.ndim - rank :])
        if spatial not in known:
            wanted = tuple(slice(p.skip, p.skip + p.count) for p in spatial)
            known[spatial] = fitted(spatial), wanted
        fit, wanted_here = known[spatial]
        block = blocks.Block(fit, wanted_here, tuple(part.lo for part, _ in chosen), sizes)
        nested = _nested(graph, token, x, [found for _, found in chosen], ())
        key = (name, *index)
        graph[key] = (function, block, nested, *others)
    return tuple(tuple(part.count for part, _ in row) for row in rows)


def _nested(graph: dict[Any, Any], token: str, x: Any, found: Any, done: tuple[tuple[int, int, int], ...]) -> Any:
    """The keys of the pieces as nested lists; a piece that is not a whole chunk gets a task of its own."""
    if len(done) < x.ndim:
        return [_nested(graph, token, x, found, (*done, item)) for item in found[len(done)]]
    source = (x.name, *(i for i, _, _ in done))
    if all(start == 0 and stop == x.chunks[axis][i] for axis, (i, start, stop) in enumerate(done)):
        return source
    key = (f"{token}-piece", *(n for item in done for n in item))
    if key not in graph:
        graph[key] = (blocks.cut_piece, source, [[start, stop] for _, start, stop in done])
    return key


def with_padding(op: Any) -> Fitted:
    """A window operator with the padding of its parts."""

    def fitted(parts: tuple[Part, ...]) -> Operator:
        found: Operator = replace(op, padding=tuple((p.before, p.after) for p in parts))
        return found

    return fitted
