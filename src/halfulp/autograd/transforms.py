"""Transforms of ordinary functions of arrays, or of nested structures of them: vjp, jvp, grad, value_and_grad, hvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from halfulp.autograd.backward import sweep
from halfulp.autograd.operators.arithmetic import add
from halfulp.autograd.pytree import flatten
from halfulp.autograd.scalars import as_array, full, is_differentiable, kind_name, kind_of, leaf_value
from halfulp.autograd.traced import Traced, new_level, strip
from halfulp.autograd.values import Dual, Recorder, Variable
from halfulp.errors import DTypeError, TapeError


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of a function and its pullback, which may be called any number of times.

    The pullback takes a cotangent of the output's structure and gives a tuple with one entry per primal. Arrays that
    the function has seen must not be written into before the pullback's last call.

    >>> import numpy as np, halfulp as hu
    >>> output, pullback = hu.vjp(lambda x, w: (x * w).sum(), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> output
    array(11.)
    >>> pullback(np.array(1.0))
    (array([3., 4.]), array([1., 2.]))
    """
    leaves, build = flatten(primals)
    arrays = [_input("vjp", leaf) for leaf in leaves]
    recorder = Recorder()
    outputs, build_output = flatten(function(*build([recorder.leaf(array) for array in arrays])))
    values = [_value(output, recorder) for output in outputs]
    # The pullback outlives the values: it remembers where they stand on the tape and what they look like.
    positions = [_position(output, recorder) for output in outputs]
    looks, input_looks = [_Look.of(value) for value in values], [_Look.of(array) for array in arrays]

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        given, _ = flatten(cotangent)
        if len(given) != len(looks):
            raise TapeError(
                "vjp", f"cotangent with {len(given)} arrays", f"must have the output's structure of {len(looks)}", "E3"
            )
        seeds = [_like("cotangent", g, look) for g, look in zip(given, looks, strict=True)]
        return build(_pull(recorder, positions, seeds, input_looks))  # type: ignore[no-any-return]

    return build_output(values), pullback


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of a function and its derivative in the direction ``tangents``, one per primal.

    >>> import numpy as np, halfulp as hu
    >>> hu.jvp(lambda x: x * x, (np.array([3.0]),), (np.array([1.0]),))
    (array([9.]), array([6.]))
    """
    leaves, build = flatten(tuple(primals))
    directions, _ = flatten(tuple(tangents))
    if len(leaves) != len(directions):
        raise TapeError(
            "jvp", f"{len(directions)} tangents", f"there must be one for each of the {len(leaves)} primals", "E3"
        )
    level = new_level()
    duals = []
    for leaf, direction in zip(leaves, directions, strict=True):
        array = _input("jvp", leaf)
        duals.append(Dual(level, array, _like("tangent", direction, array)))
    outputs, build_output = flatten(function(*build(duals)))
    values, changes = [], []
    for output in outputs:
        own = isinstance(output, Dual) and output.level == level
        value = output.value if own else _plain(output)
        values.append(value)
        changes.append(output.tangent if own and output.tangent is not None else full(value.shape, strip(value), 0))
    return build_output(values), build_output(changes)


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """The value and the gradient of a scalar function, as a function.

    ``argnums`` are the arguments to differentiate by; a sequence gives a tuple. With ``has_aux`` the function returns
    ``(value, anything)``, and the result is ``((value, anything), gradient)``.

    >>> import numpy as np, halfulp as hu
    >>> hu.value_and_grad(lambda p: (p["w"] * p["w"]).sum())({"w": np.array([1.0, 3.0])})
    (array(10.), {'w': array([2., 6.])})
    """
    single = isinstance(argnums, (int, np.integer))
    numbers: Sequence[int] = (argnums,) if single else tuple(argnums)  # type: ignore[assignment,arg-type]

    def evaluate(*arguments: Any, **keywords: Any) -> tuple[Any, Any]:
        if any(not -len(arguments) <= number < len(arguments) for number in numbers):
            raise TapeError("grad", f"argnums={argnums}", f"the call has {len(arguments)} positional arguments", "I3")
        leaves, build = flatten(tuple(arguments[number] for number in numbers))
        arrays = [_input("grad", leaf) for leaf in leaves]
        recorder = Recorder()
        chosen = build([recorder.leaf(array) for array in arrays])
        replaced = list(arguments)
        for number, argument in zip(numbers, chosen, strict=True):
            replaced[number] = argument
        output = function(*replaced, **keywords)
        aux = None
        if has_aux:
            output, aux = output
        value = _scalar(output, recorder)
        gradients = build(
            _pull(
                recorder,
                [_position(output, recorder)],
                [full((), strip(value), 1)],
                [_Look.of(array) for array in arrays],
                consume=True,
            )
        )
        result = gradients[0] if single else gradients
        return ((value, _released(aux, recorder)) if has_aux else value), result

    return evaluate


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The gradient of a scalar function, as a function.

    >>> import numpy as np, halfulp as hu
    >>> hu.grad(lambda x: (x * x * x).sum())(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> hu.grad(hu.grad(lambda x: x * x * x))(np.array(2.0))
    array(12.)
    """
    evaluate = value_and_grad(function, argnums)

    def gradient(*arguments: Any, **keywords: Any) -> Any:
        return evaluate(*arguments, **keywords)[1]

    return gradient


def hvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of a scalar function times ``tangents``.

    One primal gives one result of its structure; several give a tuple of them, the Hessian over all primals together.

    >>> import numpy as np, halfulp as hu
    >>> hu.hvp(lambda x: (x * x * x).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    array([  6., 120.])
    """
    gradient = grad(function, argnums=tuple(range(len(primals))))
    products = jvp(gradient, primals, tangents)[1]
    return products[0] if len(primals) == 1 else products


class _Look(NamedTuple):
    """The shape and element type of an array, and one of its elements, from which zeros of its kind are made."""

    shape: tuple[int, ...]
    dtype: Any
    unit: Any

    @staticmethod
    def of(value: Any) -> _Look:
        array = strip(value)
        unit = np.array(array.flat[0], dtype=array.dtype) if array.size else np.empty(0, dtype=array.dtype)
        return _Look(array.shape, array.dtype, unit)


def _position(output: Any, recorder: Recorder) -> int:
    """Where an output stands among the recorded nodes; -1 for a constant."""
    return output.position if isinstance(output, Variable) and output.recorder is recorder else -1


def _input(operator: str, leaf: Any) -> Any:
    """A leaf of the arguments as an array or an enclosing transform's value, of a kind that has derivatives."""
    value, kind = (leaf, kind_of(strip(leaf))) if isinstance(leaf, Traced) else leaf_value(operator, leaf)
    if not is_differentiable(kind):
        raise DTypeError(
            operator, f"argument dtype={kind_name(kind)}", "has no derivative; use astype(float) or leave it out", "I1"
        )
    return value


def _plain(output: Any) -> Any:
    return output if isinstance(output, Traced) else as_array(output)


def _value(output: Any, recorder: Recorder) -> Any:
    """What an output is outside of the transform."""
    return output.value if isinstance(output, Variable) and output.recorder is recorder else _plain(output)


def _released(tree: Any, recorder: Recorder) -> Any:
    leaves, build = flatten(tree)
    return build([leaf.value if isinstance(leaf, Variable) and leaf.recorder is recorder else leaf for leaf in leaves])


def _scalar(output: Any, recorder: Recorder) -> Any:
    if isinstance(output, (list, tuple, dict)) or output is None:
        raise TapeError("grad", f"output={type(output).__name__}", "must be one number; use vjp for more", "E4")
    value = _value(output, recorder)
    if value.shape != ():
        raise TapeError("grad", f"output shape={value.shape}", "must be (), one number; use vjp for more", "E4")
    return value


def _like(what: str, given: Any, expected: Any) -> Any:
    """A tangent or cotangent of the right shape and kind."""
    value = _plain(given)
    if value.shape != expected.shape:
        raise TapeError(what, f"shape={value.shape}", f"must be {expected.shape}", "E3")
    if value.dtype != expected.dtype:
        raise TapeError(what, f"dtype={value.dtype}", f"must be {expected.dtype}", "E3")
    return value


def _pull(
    recorder: Recorder, positions: Sequence[int], seeds: Sequence[Any], inputs: Sequence[_Look], consume: bool = False
) -> list[Any]:
    """The cotangents of the inputs, which are the recorder's first nodes."""
    cotangents: dict[int, Any] = {}
    for position, seed in zip(positions, seeds, strict=True):
        if position >= 0:
            cotangents[position] = add(cotangents[position], seed) if position in cotangents else seed
    sweep(recorder.nodes, cotangents, max(positions, default=-1), consume)
    found = [cotangents[i] if i in cotangents else full(look.shape, look.unit, 0) for i, look in enumerate(inputs)]
    return _owned(found, seeds)


def _owned(arrays: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The arrays, copied where one is a view or stands for two inputs: a gradient may be written into."""
    seen = {id(other) for other in others}
    owned = []
    for array in arrays:
        if isinstance(array, np.ndarray) and (isinstance(array.base, np.ndarray) or id(array) in seen):
            array = np.array(array, order="C")
        seen.add(id(array))
        owned.append(array)
    return owned
