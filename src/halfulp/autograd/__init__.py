"""The autograd tape: pure, over floats and exact scalars alike, and transforms of ordinary functions."""

from halfulp.autograd import ops
from halfulp.autograd.node import Node
from halfulp.autograd.operators._base import TapeOperator
from halfulp.autograd.pytree import flatten, tree_map
from halfulp.autograd.tape import Tape
from halfulp.autograd.traced import Traced, apply
from halfulp.autograd.transforms import grad, hvp, jvp, value_and_grad, vjp

__all__ = [
    "Node",
    "Tape",
    "TapeOperator",
    "Traced",
    "apply",
    "flatten",
    "grad",
    "hvp",
    "jvp",
    "ops",
    "tree_map",
    "value_and_grad",
    "vjp",
]
