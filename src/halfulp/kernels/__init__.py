"""The compiled interpreter of the operators: the correctly rounded value of the specification, at memory speed.

A registry: each operator's file registers its forward, JVP and VJP together.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from halfulp import _core
from halfulp.kernels._registry import entries, register
from halfulp.records import Operator, Pullback

__all__ = [
    "entries",
    "forward",
    "forward_with_indices",
    "get_num_threads",
    "jvp",
    "register",
    "set_num_threads",
    "supports",
    "vjp",
]

for _module in iter_modules(__path__):  # the file of each operator registers its kernels
    import_module(f"{__name__}.{_module.name}")


def supports(op: Operator) -> bool:
    """Whether there are kernels for this operator.

    >>> from halfulp.records import MaxPool
    >>> supports(MaxPool((2,)))
    True
    """
    return type(op) in entries


def forward(op: Operator, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """The operator's value: in ``out`` if that is an array that the kernels can fill as it lies, else in a new one.

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> forward(MaxPool((2,)), (np.array([1.0, 3.0, 2.0, 0.0]),))
    array([3., 2.])
    """
    return entries[type(op)].forward(op, *inputs, out=out)


def forward_with_indices(op: Operator, x: Any, *constants: Any) -> tuple[Any, Any]:
    """The value of a hard max and the flat index of every winner in its plane (int64; -1 for a window without cells).

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> forward_with_indices(MaxPool((2,)), np.array([1.0, 3.0, 2.0, 0.0]))
    (array([3., 2.]), array([1, 2]))
    """
    indices = entries[type(op)].indices
    if indices is None:
        raise TypeError(f"{op.name}: only a hard max has indices")
    return indices(op, x, *constants)


def jvp(op: Operator, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and its derivative in the direction of the tangents.

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> jvp(MaxPool((2,)), (np.array([1.0, 3.0]),), (np.array([5.0, 7.0]),))
    (array([3.]), array([7.]))
    """
    return entries[type(op)].jvp(op, primals, tangents)


def vjp(op: Operator, primals: tuple[Any, ...], wanted: tuple[bool, ...] | None = None) -> tuple[Any, Pullback]:
    """The value and a pullback from an output cotangent to a tuple of input cotangents.

    For a convolution ``wanted`` says which of the three cotangents to compute; the others are None.

    >>> import numpy as np
    >>> from halfulp.records import MaxPool
    >>> output, pullback = vjp(MaxPool((2,)), (np.array([1.0, 3.0]),))
    >>> pullback(np.array([5.0]))
    (array([0., 5.]),)
    """
    rule = entries[type(op)].vjp
    return rule(op, *primals) if wanted is None else rule(op, *primals, wanted=wanted)


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
