"""What runs on a worker: one output block from its pieces of the inputs. No Dask here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from halfulp.errors import PolicyError
from halfulp.numbers import as_doubles
from halfulp.records import Operator

__all__ = ["Block", "cut_piece", "joined", "run", "run_with_indices"]


@dataclass(frozen=True, slots=True)
class Block:
    """An output block: the operator on its piece, which of its outputs are wanted, and where the piece lies.

    ``origin`` and ``sizes`` are the piece's first cell and the whole array's sizes along the last axes.
    """

    op: Operator
    wanted: tuple[slice, ...] | None
    origin: tuple[int, ...]
    sizes: tuple[int, ...] = field(default=())


def cut_piece(block: Any, wanted: Sequence[tuple[int, int]]) -> Any:
    """A part of a block, small enough to be sent elsewhere."""
    return np.ascontiguousarray(block[tuple(slice(start, stop) for start, stop in wanted)])


def joined(nested: Any, axis: int = 0) -> Any:
    """Nested lists of pieces as one array; a single piece is not copied."""
    if not isinstance(nested, list):
        return np.asarray(nested)
    arrays = [joined(item, axis + 1) for item in nested]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis)


def run(block: Block, pieces: Any, *others: Any) -> Any:
    """The value of an output block."""
    x = joined(pieces)
    try:
        value = block.op(x, *others)
    except PolicyError as error:
        raise _placed(error, block, x) from None
    return value if block.wanted is None else _wanted(value, block.wanted)


def run_with_indices(block: Block, pieces: Any, indices: Any) -> tuple[Any, Any]:
    """The value of a hard max, and the flat indices of its cells in the planes of the whole array.

    ``indices`` is the function of that name in ``dispatch``, a layer above.
    """
    x = joined(pieces)
    try:
        value, where = indices(block.op, x)
    except PolicyError as error:
        raise _placed(error, block, x) from None
    if block.wanted is not None:
        value, where = _wanted(value, block.wanted), _wanted(where, block.wanted)
    rank = len(block.sizes)
    position = np.unravel_index(np.maximum(where, 0), x.shape[x.ndim - rank :])
    index = tuple(p + start for p, start in zip(position, block.origin[len(block.origin) - rank :], strict=True))
    return value, np.where(where < 0, -1, np.ravel_multi_index(index, block.sizes))


def _wanted(value: Any, spatial: tuple[slice, ...]) -> Any:
    """The part of the last axes that is wanted."""
    index = (Ellipsis, *spatial)
    return value[index]


def _placed(error: PolicyError, block: Block, x: Any) -> PolicyError:
    """The refusal of a NaN with its position in the whole array; any other error as it is."""
    if error.label != "P3":
        return error
    first = np.unravel_index(int(np.flatnonzero(np.isnan(as_doubles(x.ravel())))[0]), x.shape)
    where = tuple(int(i) + start for i, start in zip(first, block.origin, strict=True))
    return PolicyError(error.operator, error.argument, f"the input is NaN at {where}; it must have no NaN", "P3")
