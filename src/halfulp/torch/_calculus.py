"""The arithmetic of second derivatives on tensors (:class:`halfulp.records._curvature.Calculus`)."""

from __future__ import annotations

from typing import Any

import torch

from halfulp.numbers import factors
from halfulp.records import Operator


class TorchArithmetic:
    """Operations that PyTorch differentiates; the families add the operator's value, push and pull."""

    op: Any

    def nonzero(self, x: Any) -> Any:
        return torch.where(x == 0, torch.ones_like(x), x)

    def ones(self, x: Any) -> Any:
        return torch.ones_like(x)

    def exponential(self, x: Any) -> Any:
        return torch.exp(x)

    def inverse_root(self, x: Any) -> Any:
        return torch.rsqrt(x)

    def apply(self, op: Operator, x: Any) -> Any:
        from halfulp.torch._bridge import apply_record

        return apply_record(op, x)

    def constant(self, x: Any) -> Any:
        return x

    def scaled(self, x: Any, factor: Any) -> Any:
        for part in factors(float(factor), str(x.dtype).removeprefix("torch.")):
            x = x * part
        return x
