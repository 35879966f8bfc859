"""Applying a record to JAX arrays, and the functional forms on them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection
from functools import wraps
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from halfulp.errors import DTypeError, ShapeError
from halfulp.functional._source import functions as numpy_functions
from halfulp.jax._codec import check_plain
from halfulp.jax._primitives import bind, complete, forward, indices_p
from halfulp.records import Operator, _inputs, declaration_of
from halfulp.records._missing import output_dtype

P = ParamSpec("P")
R = TypeVar("R")


def apply(op: Operator, *inputs: Any) -> Any:
    """An operator's value on JAX arrays: the same bits as on NumPy arrays, under every transform of JAX.

    >>> import jax, jax.numpy as jnp, halfulp as hu, halfulp.jax
    >>> op = hu.MaxPool((2,), stride=1, dilation=2)
    >>> jax.grad(lambda x: halfulp.jax.apply(op, x).sum())(jnp.array([1.0, 5.0, 2.0, 0.0, 3.0]))
    Array([0., 1., 1., 0., 1.], dtype=float32)
    """
    arrays = [None if value is None else jnp.asarray(value) for value in inputs]
    stand_ins = [None if a is None else np.empty(0, a.dtype) for a in arrays]
    _inputs.as_arrays(op, stand_ins)  # the number of inputs and their element types; shapes come next
    shapes: list[Any] = [None if a is None else a.shape for a in arrays]
    op.output_shape(*shapes)
    given = complete(op, arrays)
    check_plain(op)
    _check_held(op, output_dtype(op, given[0].dtype))
    return forward(op, *given)


def _check_held(op: Operator, dtype: Any) -> None:
    """JAX has types of 64 bits only where they are switched on."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise DTypeError(op.name, f"dtype={dtype.name!r}", "jax holds it only with jax_enable_x64 switched on", "J3")


def apply_with_indices(op: Operator, x: Any, *constants: Any) -> tuple[Any, Any]:
    """The value of a hard max and the flat index of every winner in its plane, in JAX's default integer type.

    >>> import jax.numpy as jnp, halfulp as hu, halfulp.jax
    >>> halfulp.jax.apply_with_indices(hu.MaxPool((2,)), jnp.array([1.0, 5.0, 2.0, 0.0]))
    (Array([5., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    value = apply(op, x, *constants)
    array = jnp.asarray(x)
    spatial = array.shape[array.ndim - op.ndim :]  # type: ignore[attr-defined]  # a hard max has a rank
    if math.prod(spatial) > np.iinfo(jax.dtypes.canonicalize_dtype(jnp.int64)).max:
        rule = "indices into a plane this large need jax_enable_x64"
        raise ShapeError(op.name, f"input shape={array.shape}", rule, "I7")
    return value, bind(indices_p, array, *map(jnp.asarray, constants), op=op)


class _Lifted:
    """A JAX array on its way through a functional form, which only looks at its rank and hands it to a record."""

    def __init__(self, array: Any, with_indices: bool = False) -> None:
        self.array = array
        self.ndim = array.ndim
        self.shape = array.shape
        self._with_indices = with_indices

    def astype(self, dtype: Any) -> Any:
        """The array cast to another type, on its way, too."""
        return _Lifted(self.array.astype(dtype), self._with_indices)

    def __halfulp_apply__(self, op: Operator, inputs: tuple[Any, ...]) -> Any:
        arrays = [value.array if isinstance(value, _Lifted) else value for value in inputs]
        return apply_with_indices(op, *arrays) if self._with_indices else apply(op, *arrays)


def bridged(function: Callable[P, R], inputs: Collection[str]) -> Callable[P, Any]:
    """A functional form of halfulp, on JAX arrays; ``inputs`` are the parameters that take them."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        with_indices = bool(arguments.pop("return_indices", False))
        for name in inputs:
            if arguments.get(name) is not None:
                arguments[name] = _Lifted(jnp.asarray(arguments[name]), with_indices)
        return function(**arguments)  # type: ignore[call-arg]  # bound above

    first = (function.__doc__ or "").split(">>>")[0].rstrip()
    call.__doc__ = f"{first}\n\n    On JAX arrays: :func:`halfulp.{function.__name__}` under jit, grad, vmap and so on."
    return call


def functions(record: type[Operator]) -> SimpleNamespace:
    """The functional forms of any declared operator, on JAX arrays.

    >>> import jax.numpy as jnp, halfulp as hu, halfulp.jax
    >>> halfulp.jax.functions(hu.MaxPool).max_pool1d(jnp.array([1.0, 5.0, 2.0, 0.0]), 2)
    Array([5., 2.], dtype=float32)
    """
    inputs = declaration_of(record).given
    plain = vars(numpy_functions(record))
    return SimpleNamespace(**{name: bridged(function, inputs) for name, function in plain.items()})
