"""The compiled interpreter of the operators: the correctly rounded value of the specification, at memory speed.

A registry: each operator's file registers its forward, JVP and VJP together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from halfulp import _core
from halfulp.records import Operator, Pullback

__all__ = [
    "forward",
    "forward_with_indices",
    "get_num_threads",
    "jvp",
    "register",
    "set_num_threads",
    "supports",
    "vjp",
]


class Entry(NamedTuple):
    """What the kernels know about one record type."""

    forward: Callable[..., Any]
    jvp: Callable[..., tuple[Any, Any]]
    vjp: Callable[..., tuple[Any, Pullback]]
    indices: Callable[..., tuple[Any, Any]] | None


_entries: dict[type[Operator], Entry] = {}


def register(
    record: type[Operator],
    *,
    forward: Callable[..., Any] | None = None,
    jvp: Callable[..., tuple[Any, Any]] | None = None,
    vjp: Callable[..., tuple[Any, Pullback]] | None = None,
    indices: Callable[..., tuple[Any, Any]] | None = None,
) -> None:
    """Make a record type known. Each function takes the record first; an operator without all three is refused.

    ``forward(op, *inputs)``, ``jvp(op, primals, tangents)``, ``vjp(op, *primals)`` and, for a hard max,
    ``indices(op, x) -> (output, indices)``.

    >>> from halfulp.records import MaxPool
    >>> register(MaxPool, forward=lambda op, x: x)
    Traceback (most recent call last):
        ...
    TypeError: MaxPool: an operator is registered with forward, jvp and vjp; jvp, vjp missing [E6]
    """
    given = {"forward": forward, "jvp": jvp, "vjp": vjp}
    missing = [name for name, function in given.items() if function is None]
    if forward is None or jvp is None or vjp is None:
        raise TypeError(
            f"{record.__name__}: an operator is registered with forward, jvp and vjp; {', '.join(missing)} missing [E6]"
        )
    _entries[record] = Entry(forward, jvp, vjp, indices)


def supports(op: Operator) -> bool:
    """Whether there are kernels for this operator.

    >>> from halfulp.records import MaxPool
    >>> supports(MaxPool((2,)))
    True
    """
    return type(op) in _entries


def forward(op: Operator, inputs: tuple[Any, ...]) -> Any:
    """The operator's value.

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> forward(MaxPool((2,)), (np.array([1.0, 3.0, 2.0, 0.0]),))
    array([3., 2.])
    """
    return _entries[type(op)].forward(op, *inputs)


def forward_with_indices(op: Operator, x: Any) -> tuple[Any, Any]:
    """The value of a hard max and the flat index of every winner in its plane (int64; -1 for a window without cells).

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> forward_with_indices(MaxPool((2,)), np.array([1.0, 3.0, 2.0, 0.0]))
    (array([3., 2.]), array([1, 2]))
    """
    indices = _entries[type(op)].indices
    if indices is None:
        raise TypeError(f"{op.name}: only a hard max has indices")
    return indices(op, x)


def jvp(op: Operator, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and its derivative in the direction of the tangents.

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> jvp(MaxPool((2,)), (np.array([1.0, 3.0]),), (np.array([5.0, 7.0]),))
    (array([3.]), array([7.]))
    """
    return _entries[type(op)].jvp(op, primals, tangents)


def vjp(op: Operator, primals: tuple[Any, ...]) -> tuple[Any, Pullback]:
    """The value and a pullback from an output cotangent to a tuple of input cotangents.

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> output, pullback = vjp(MaxPool((2,)), (np.array([1.0, 3.0]),))
    >>> pullback(np.array([5.0]))
    (array([0., 5.]),)
    """
    return _entries[type(op)].vjp(op, *primals)


def get_num_threads() -> int:
    """The number of threads that kernels use: the last :func:`set_num_threads`, else OpenMP's.

    >>> get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def set_num_threads(count: int) -> None:
    """Use ``count`` threads; 0 leaves the number to OpenMP (``OMP_NUM_THREADS``, threadpoolctl).

    >>> set_num_threads(2)
    >>> get_num_threads()
    2
    >>> set_num_threads(0)
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 1 << 16:
        raise ValueError(f"set_num_threads: count={count!r}: must be an integer >= 0")
    _core.set_num_threads(count)
