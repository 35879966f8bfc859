"""The base of the tape's own operators: three formulas make the forward/JVP/VJP triple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from halfulp.autograd.scalars import Array, Unknown, as_array, kind_name, kind_of
from halfulp.autograd.traced import apply, is_traced
from halfulp.errors import DTypeError, ShapeError, TapeError

PullbackRule: TypeAlias = Callable[[Any], tuple[Any, ...]]


class TapeOperator:
    """An operator with the forward/JVP/VJP triple, made of :meth:`forward`, :meth:`tangent` and :meth:`pullback`.

    ``forward`` computes on arrays. The other two are written with operators again, so that they can themselves be
    differentiated: this is all that second derivatives need. A tangent of None is zero.
    """

    name: ClassVar[str] = "operator"
    takes_bias: ClassVar[bool] = False
    """Whether the last input may be absent, as the bias of a linear layer may."""

    def forward(self, *inputs: Array) -> Any:
        """The value on arrays."""
        raise AssertionError("every operator of the tape has a forward formula")

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        """The output's tangent, at least one of ``tangents`` not being None."""
        raise AssertionError("every operator of the tape has a tangent formula")

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        """A function from the output's cotangent to one cotangent per input, None where it is not needed."""
        raise AssertionError("every operator of the tape has a pullback formula")

    def output_shape(self, *input_shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The output's shape for inputs of these shapes."""
        return tuple(self(*(np.zeros(shape, dtype=np.float32) for shape in input_shapes)).shape)

    def __call__(self, *inputs: Any) -> Any:
        """The operator's value."""
        for value in inputs:
            if type(value) is not np.ndarray and value is not None:
                if is_traced(*inputs):
                    return apply(self, *inputs)
                inputs = tuple(as_array(v, self.name) if isinstance(v, np.ndarray) else v for v in inputs)
                break
        if len(inputs) > 1:
            self._check_kinds(inputs)
        with np.errstate(all="ignore"):  # IEEE arithmetic: overflow is infinity, 0/0 is NaN, and neither is an error
            value = self.forward(*inputs)
        return value if isinstance(value, np.ndarray) else as_array(value)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """The value and its derivative in the direction ``tangents``, where None is no direction."""
        primals, tangents = tuple(primals), tuple(tangents)
        if len(primals) != len(tangents):
            raise ShapeError(
                self.name,
                f"{len(tangents)} tangents",
                f"there must be one for each of the {len(primals)} primals",
                "I3",
            )
        for primal, tangent in zip(primals, tangents, strict=True):
            if tangent is not None:
                self._check("tangent", tangent, primal, "I4")
        output = self(*primals)
        return output, None if all(t is None for t in tangents) else self.tangent(primals, output, tangents)

    def vjp(self, *primals: Any) -> tuple[Any, PullbackRule]:
        """The value and a pullback from an output cotangent to a tuple of input cotangents."""
        output = self(*primals)
        rule = self.pullback(primals, output, (True,) * len(primals))

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            self._check("cotangent", cotangent, output, "I5")
            return rule(cotangent)

        return output, pullback

    def _check(self, what: str, given: Any, expected: Any, label: str) -> None:
        if given.shape != expected.shape:
            raise ShapeError(self.name, f"{what} shape={given.shape}", f"must be {expected.shape}", label)
        if given.dtype != expected.dtype:
            raise DTypeError(self.name, f"{what} dtype={given.dtype}", f"must be {expected.dtype}", label)

    def _check_kinds(self, inputs: Sequence[Any]) -> None:
        """NumPy would promote, and no promotion of float32 with float64 or Fraction with float is the right one."""
        first = inputs[0].dtype
        for value in inputs[1:]:
            if value is not None and (first != value.dtype or (first.hasobject and not _one_kind(inputs[0], value))):
                kinds = f"{kind_name(kind_of(inputs[0]))} and {kind_name(kind_of(value))}"
                raise TapeError(
                    self.name,
                    f"inputs of kinds {kinds}",
                    "all inputs must be of one kind; convert with astype, hu.exact or hu.rounded",
                    "E5",
                )

    def _fail(self, argument: str, rule: str) -> TapeError:
        """The error of inputs whose shapes do not fit."""
        return TapeError(self.name, argument, rule, "E2")


def _one_kind(a: Array, b: Array) -> bool:
    first, second = kind_of(a), kind_of(b)
    return first is second or Unknown in (first, second)


class LinearMap(TapeOperator):
    """A linear map between arrays and its transpose, as functions; its derivative is itself."""

    name = "linear_map"

    def __init__(self, push: Callable[[Any], Any], pull: Callable[[Any], Any], name: str = "linear_map") -> None:
        self._push = push
        self._pull = pull
        self.name = name  # type: ignore[misc]  # named after the operator whose derivative it is

    def forward(self, *inputs: Array) -> Any:
        return self._push(inputs[0])

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self, tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        transpose = LinearMap(self._pull, self._push, self.name)
        return lambda g: (apply(transpose, g),)
