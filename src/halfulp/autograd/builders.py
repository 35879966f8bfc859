"""The tape's methods for convolution and pooling. Their settings are those of the functional forms of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from halfulp import functional
from halfulp.autograd._handle import Handle
from halfulp.autograd.builders_math import MathBuilders

if TYPE_CHECKING:
    from halfulp.autograd.tape import Tape


class Builders(MathBuilders):
    """Every method appends one node and gives ``(tape, id)``."""

    __slots__ = ()

    def _pooled(
        self, function: Any, x: int, arguments: tuple[Any, ...], settings: Any, name: str | None
    ) -> tuple[Tape, int]:
        """A functional form, called with a handle in place of the array: what it gives back is the tape's answer."""
        return cast("tuple[Tape, int]", function(Handle(cast("Tape", self), x, name), *arguments, **settings))

    def _convolved(
        self, function: Any, ids: tuple[int, int, int | None], arguments: tuple[Any, ...], settings: Any, name: str
    ) -> tuple[Tape, int]:
        handles = (None if id is None else Handle(cast("Tape", self), id, name) for id in ids)
        return cast("tuple[Tape, int]", function(*handles, *arguments, **settings))

    def conv(
        self,
        kernel: int,
        bias: int | None,
        input: int,
        stride: Any = 1,
        padding: Any = 0,
        name: str = "conv",
        **settings: Any,
    ) -> tuple[Tape, int]:
        """Convolution over ``kernel.ndim - 2`` axes; further settings are dilation, groups and precision.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([[1.0, 2.0, 4.0]]))
        >>> tape, w = tape.leaf(np.array([[[1.0, 10.0]]]))
        >>> tape, y = tape.conv(w, None, x)
        >>> tape.value(y)
        array([[21., 42.]])
        """
        return self._convolved(functional.conv, (input, kernel, bias), (stride, padding), settings, name)

    def conv2d(
        self,
        kernel: int,
        bias: int | None,
        input: int,
        stride: Any = 1,
        padding: Any = 0,
        name: str = "conv2d",
        **settings: Any,
    ) -> tuple[Tape, int]:
        """Convolution over the last two axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.ones((1, 2, 2)))
        >>> tape, w = tape.leaf(np.ones((1, 1, 2, 2)))
        >>> tape, b = tape.leaf(np.array([0.5]))
        >>> tape, y = tape.conv2d(w, b, x)
        >>> tape.value(y)
        array([[[4.5]]])
        """
        return self._convolved(functional.conv2d, (input, kernel, bias), (stride, padding), settings, name)

    def conv_transpose(
        self,
        kernel: int,
        bias: int | None,
        input: int,
        stride: Any = 1,
        padding: Any = 0,
        name: str = "conv_transpose",
        **settings: Any,
    ) -> tuple[Tape, int]:
        """Transposed convolution over ``kernel.ndim - 2`` axes; settings as :func:`halfulp.conv_transpose`.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([[1.0, 2.0]]))
        >>> tape, w = tape.leaf(np.array([[[1.0, 10.0]]]))
        >>> tape, y = tape.conv_transpose(w, None, x)
        >>> tape.value(y)
        array([[ 1., 12., 20.]])
        """
        return self._convolved(functional.conv_transpose, (input, kernel, bias), (stride, padding), settings, name)

    def conv_transpose2d(
        self,
        kernel: int,
        bias: int | None,
        input: int,
        stride: Any = 1,
        padding: Any = 0,
        name: str = "conv_transpose2d",
        **settings: Any,
    ) -> tuple[Tape, int]:
        """Transposed convolution over the last two axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.ones((1, 1, 1)))
        >>> tape, w = tape.leaf(np.arange(4.0).reshape(1, 1, 2, 2))
        >>> tape, y = tape.conv_transpose2d(w, None, x)
        >>> tape.value(y)
        array([[[0., 1.],
                [2., 3.]]])
        """
        return self._convolved(functional.conv_transpose2d, (input, kernel, bias), (stride, padding), settings, name)

    def max_pool(
        self, x: int, kernel_size: Any, stride: Any = None, padding: Any = 0, name: str | None = None, **settings: Any
    ) -> tuple[Tape, int]:
        """Hard max pooling over the last ``len(kernel_size)`` axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 3.0, 2.0, 0.0]))
        >>> tape, y = tape.max_pool(x, (2,))
        >>> tape.value(y)
        array([3., 2.])
        """
        return self._pooled(functional.max_pool, x, (kernel_size, stride, padding), settings, name)

    def max_pool2d(
        self, x: int, kernel_size: Any, stride: Any = None, padding: Any = 0, name: str | None = None, **settings: Any
    ) -> tuple[Tape, int]:
        """Hard max pooling over the last two axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.arange(4.0).reshape(2, 2))
        >>> tape, y = tape.max_pool2d(x, 2)
        >>> tape.value(y)
        array([[3.]])
        """
        return self._pooled(functional.max_pool2d, x, (kernel_size, stride, padding), settings, name)

    def avg_pool(
        self, x: int, kernel_size: Any, stride: Any = None, padding: Any = 0, name: str | None = None, **settings: Any
    ) -> tuple[Tape, int]:
        """Average pooling over the last ``len(kernel_size)`` axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 3.0]))
        >>> tape, y = tape.avg_pool(x, (2,))
        >>> tape.value(y)
        array([2.])
        """
        return self._pooled(functional.avg_pool, x, (kernel_size, stride, padding), settings, name)

    def avg_pool2d(
        self, x: int, kernel_size: Any, stride: Any = None, padding: Any = 0, name: str | None = None, **settings: Any
    ) -> tuple[Tape, int]:
        """Average pooling over the last two axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.arange(4.0).reshape(2, 2))
        >>> tape, y = tape.avg_pool2d(x, 2)
        >>> tape.value(y)
        array([[1.5]])
        """
        return self._pooled(functional.avg_pool2d, x, (kernel_size, stride, padding), settings, name)

    def smooth_max_pool(
        self,
        x: int,
        kernel_size: Any,
        beta: Any,
        stride: Any = None,
        padding: Any = 0,
        name: str | None = None,
        **settings: Any,
    ) -> tuple[Tape, int]:
        """Smooth max pooling over the last ``len(kernel_size)`` axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([0.0, 0.0]))
        >>> tape, y = tape.smooth_max_pool(x, (2,), beta=1.0)
        >>> tape.value(y)
        array([0.69314718])
        """
        arguments = (kernel_size, beta, stride, padding)
        return self._pooled(functional.smooth_max_pool, x, arguments, settings, name)

    def smooth_max_pool2d(
        self,
        x: int,
        kernel_size: Any,
        beta: Any,
        stride: Any = None,
        padding: Any = 0,
        name: str | None = None,
        **settings: Any,
    ) -> tuple[Tape, int]:
        """Smooth max pooling over the last two axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.zeros((1, 2)))
        >>> tape, y = tape.smooth_max_pool2d(x, (1, 2), beta=1.0)
        >>> tape.value(y)
        array([[0.69314718]])
        """
        arguments = (kernel_size, beta, stride, padding)
        return self._pooled(functional.smooth_max_pool2d, x, arguments, settings, name)

    def adaptive_avg_pool(self, x: int, output_size: Any, name: str | None = None) -> tuple[Tape, int]:
        """Average pooling to a given output size over the last ``len(output_size)`` axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 3.0, 5.0]))
        >>> tape, y = tape.adaptive_avg_pool(x, (2,))
        >>> tape.value(y)
        array([2., 4.])
        """
        return self._pooled(functional.adaptive_avg_pool, x, (output_size,), {}, name)

    def adaptive_max_pool(self, x: int, output_size: Any, name: str | None = None, **settings: Any) -> tuple[Tape, int]:
        """Max pooling to a given output size over the last ``len(output_size)`` axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 3.0, 5.0]))
        >>> tape, y = tape.adaptive_max_pool(x, (2,))
        >>> tape.value(y)
        array([3., 5.])
        """
        return self._pooled(functional.adaptive_max_pool, x, (output_size,), settings, name)

    def global_avg_pool(
        self, x: int, ndim: int = 2, keepdims: bool = True, name: str | None = None
    ) -> tuple[Tape, int]:
        """The mean over the last ``ndim`` axes.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([[1.0, 2.0], [3.0, 6.0]]))
        >>> tape, y = tape.global_avg_pool(x)
        >>> tape.value(y)
        array([[3.]])
        """
        return self._pooled(functional.global_avg_pool, x, (ndim, keepdims), {}, name)

    def global_max_pool(
        self, x: int, ndim: int = 2, keepdims: bool = True, name: str | None = None, **settings: Any
    ) -> tuple[Tape, int]:
        """The maximum over the last ``ndim`` axes; every maximiser gets the full cotangent unless ``ties`` says else.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([[1.0, 2.0], [3.0, 6.0]]))
        >>> tape, y = tape.global_max_pool(x)
        >>> tape.value(y)
        array([[6.]])
        """
        return self._pooled(functional.global_max_pool, x, (ndim, keepdims), settings, name)
