"""Which records have kernels: each operator's file registers its forward, JVP and VJP together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from halfulp.records import Operator, Pullback


class Entry(NamedTuple):
    """What the kernels know about one record type."""

    forward: Callable[..., Any]
    jvp: Callable[..., tuple[Any, Any]]
    vjp: Callable[..., tuple[Any, Pullback]]
    indices: Callable[..., tuple[Any, Any]] | None


entries: dict[type[Operator], Entry] = {}


def register(
    record: type[Operator],
    *,
    forward: Callable[..., Any] | None = None,
    jvp: Callable[..., tuple[Any, Any]] | None = None,
    vjp: Callable[..., tuple[Any, Pullback]] | None = None,
    indices: Callable[..., tuple[Any, Any]] | None = None,
) -> None:
    """Make a record type known. Each function takes the record first; an operator without all three is refused.

    ``forward(op, *inputs, out=None)`` (which returns ``out`` if it has filled it), ``jvp(op, primals, tangents)``,
    ``vjp(op, *primals)`` and, for a hard max, ``indices(op, x) -> (output, indices)``.

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
    entries[record] = Entry(forward, jvp, vjp, indices)
