"""The tape's methods for the other operations of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from halfulp.autograd.operators.arithmetic import Add, Div, Mul, Neg, Power, Sub
from halfulp.autograd.operators.loss import MSE, LabelEntropy
from halfulp.autograd.operators.reduction import Mean, Sum
from halfulp.autograd.operators.shape import Concatenate, Flatten, Index, Reshape, Transpose

if TYPE_CHECKING:
    from halfulp.autograd.tape import Tape

_ADD, _SUB, _MUL, _DIV, _NEG = Add(), Sub(), Mul(), Div(), Neg()


class MathBuilders:
    """Every method appends one node and gives ``(tape, id)``."""

    __slots__ = ()

    def apply(self, operator: Any, *ids: int | None, name: str | None = None) -> tuple[Tape, int]:
        """Append the value of an operator."""
        raise AssertionError("the tape says how to append a node")

    def add(self, x: int, y: int, name: str | None = None) -> tuple[Tape, int]:
        """x + y, broadcast as NumPy does.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([3.0]))
        >>> tape, y = tape.leaf(np.array([2.0]))
        >>> tape, out = tape.add(x, y)
        >>> tape.value(out)
        array([5.])
        """
        return self.apply(_ADD, x, y, name=name)

    def sub(self, x: int, y: int, name: str | None = None) -> tuple[Tape, int]:
        """x - y.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([3.0]))
        >>> tape, y = tape.leaf(np.array([2.0]))
        >>> tape, out = tape.sub(x, y)
        >>> tape.value(out)
        array([1.])
        """
        return self.apply(_SUB, x, y, name=name)

    def mul(self, x: int, y: int, name: str | None = None) -> tuple[Tape, int]:
        """x * y.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([3.0]))
        >>> tape, y = tape.leaf(np.array([2.0]))
        >>> tape, out = tape.mul(x, y)
        >>> tape.value(out)
        array([6.])
        """
        return self.apply(_MUL, x, y, name=name)

    def div(self, x: int, y: int, name: str | None = None) -> tuple[Tape, int]:
        """x / y.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([3.0]))
        >>> tape, y = tape.leaf(np.array([2.0]))
        >>> tape, out = tape.div(x, y)
        >>> tape.value(out)
        array([1.5])
        """
        return self.apply(_DIV, x, y, name=name)

    def neg(self, x: int, name: str | None = None) -> tuple[Tape, int]:
        """-x.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([3.0]))
        >>> tape, out = tape.neg(x)
        >>> tape.value(out)
        array([-3.])
        """
        return self.apply(_NEG, x, name=name)

    def power(self, x: int, exponent: int, name: str | None = None) -> tuple[Tape, int]:
        """x ** exponent for an integer exponent >= 0.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([3.0]))
        >>> tape, out = tape.power(x, 2)
        >>> tape.value(out)
        array([9.])
        """
        return self.apply(Power(exponent), x, name=name)

    def sum(
        self, x: int, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, name: str | None = None
    ) -> tuple[Tape, int]:
        """The sum over some axes, correctly rounded.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1e16, 1.0, -1e16]))
        >>> tape, out = tape.sum(x)
        >>> tape.value(out)
        array(1.)
        """
        return self.apply(Sum(axis, keepdims), x, name=name)

    def mean(
        self, x: int, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, name: str | None = None
    ) -> tuple[Tape, int]:
        """The mean over some axes, correctly rounded.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 2.0, 6.0]))
        >>> tape, out = tape.mean(x)
        >>> tape.value(out)
        array(3.)
        """
        return self.apply(Mean(axis, keepdims), x, name=name)

    def reshape(self, x: int, shape: Sequence[int], name: str | None = None) -> tuple[Tape, int]:
        """The same elements in another shape.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 2.0]))
        >>> tape, out = tape.reshape(x, (2, 1))
        >>> tape.value(out)
        array([[1.],
               [2.]])
        """
        return self.apply(Reshape(tuple(shape)), x, name=name)

    def flatten(self, x: int, start: int = 1, name: str | None = None) -> tuple[Tape, int]:
        """The axes from ``start`` on as one.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([[[1.0], [2.0]]]))
        >>> tape, out = tape.flatten(x)
        >>> tape.value(out)
        array([[1., 2.]])
        """
        return self.apply(Flatten(start), x, name=name)

    def transpose(self, x: int, axes: Sequence[int] | None = None, name: str | None = None) -> tuple[Tape, int]:
        """The axes in another order, reversed by default.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([[1.0, 2.0]]))
        >>> tape, out = tape.transpose(x)
        >>> tape.value(out)
        array([[1.],
               [2.]])
        """
        return self.apply(Transpose(None if axes is None else tuple(axes)), x, name=name)

    def concatenate(self, xs: Sequence[int], axis: int = 0, name: str | None = None) -> tuple[Tape, int]:
        """The nodes ``xs`` one after the other along an axis.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0]))
        >>> tape, y = tape.leaf(np.array([2.0]))
        >>> tape, out = tape.concatenate([x, y])
        >>> tape.value(out)
        array([1., 2.])
        """
        return self.apply(Concatenate(axis), *xs, name=name)

    def index(self, x: int, key: Any, name: str | None = None) -> tuple[Tape, int]:
        """``x[key]``.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 2.0, 3.0]))
        >>> tape, out = tape.index(x, slice(1, None))
        >>> tape.value(out)
        array([2., 3.])
        """
        return self.apply(Index(key), x, name=name)

    def cross_entropy(self, logits: int, labels: Any, name: str | None = None) -> tuple[Tape, int]:
        """The mean cross entropy of logits (…, classes) with an array of integer labels (…).

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([[0.0, 0.0]]))
        >>> tape, out = tape.cross_entropy(x, [1])
        >>> tape.value(out)
        array(0.69314718)
        """
        return self.apply(LabelEntropy(labels), logits, name=name)

    def mse(self, prediction: int, target: int, name: str | None = None) -> tuple[Tape, int]:
        """The mean squared error.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 2.0]))
        >>> tape, y = tape.leaf(np.array([1.0, 4.0]))
        >>> tape, out = tape.mse(x, y)
        >>> tape.value(out)
        array(2.)
        """
        return self.apply(MSE, prediction, target, name=name)
