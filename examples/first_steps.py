"""The README's example as a script: pooling with declared ties, exact rationals, and a gradient.

python examples/first_steps.py
"""

import numpy as np

import halfulp as hu

x = np.array([[1.0, 2.0], [2.0, 0.5]], dtype=np.float32)
value, index = hu.max_pool2d(x, 2, return_indices=True)
print("maximum", value, "at flat index", index)

output, pullback = hu.MaxPool((2, 2), ties="split").vjp(x)
print("cotangent, split between the two winners:\n", pullback(np.ones((1, 1), dtype=np.float32))[0])

print("exact average:", hu.spec.forward(hu.AvgPool((2, 2)), hu.exact(x)))

gradient = hu.grad(lambda w: hu.conv2d(x[None], w).sum())
print("gradient of a convolution's sum:", gradient(np.ones((1, 1, 1, 1), dtype=np.float32)))
