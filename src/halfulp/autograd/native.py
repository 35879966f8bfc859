"""The pullback of a record on arrays, without the work for inputs whose cotangent is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfulp.autograd.operators._base import PullbackRule
from halfulp.dispatch import wanted_vjp
from halfulp.records import Operator


def native_vjp(op: Operator, primals: Sequence[Any], needs: Sequence[bool]) -> tuple[Any, PullbackRule]:
    """The value and a pullback; a convolution's first layer, say, needs no cotangent of its input."""
    if _has_factors(op) and False in needs and not _exact(primals):
        return wanted_vjp(op, tuple(primals), tuple(needs))
    return op.vjp(*primals)


def _has_factors(op: Operator) -> bool:
    """Whether the operator has derivatives in several inputs, as convolutions and matrix products have."""
    return op.arity > 1 + len(op.constants)


def _exact(primals: Sequence[Any]) -> bool:
    return bool(primals[0].dtype.hasobject)
