"""The functions of the core that XLA calls through ``jax.ffi``: their registration, and which one serves a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from halfulp import _core
from halfulp.errors import PolicyError
from halfulp.jax import _host
from halfulp.jax._codec import encode
from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    Operator,
)

# The targets that go straight to the kernels, by the family of the record and the work.
_DIRECT = {
    ("max", "forward"): "halfulp_max_forward",
    ("max", "tangent"): "halfulp_max_jvp",
    ("max", "cotangent"): "halfulp_max_vjp",
    ("avg", "forward"): "halfulp_avg_forward",
    ("avg", "spread"): "halfulp_avg_spread",
}
_FAMILIES: dict[type[Operator], tuple[str, str]] = {
    MaxPool: ("max", "sliding"),
    AdaptiveMaxPool: ("max", "adaptive"),
    GlobalMaxPool: ("max", "global"),
    AvgPool: ("avg", "sliding"),
    AdaptiveAvgPool: ("avg", "adaptive"),
    GlobalAvgPool: ("avg", "global"),
}


def register() -> None:
    """Make the targets known to XLA, once per process."""
    for name, capsule in _core.xla_targets().items():
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    _core.set_xla_host(_host.run)


def lower(context: Any, *operands: Any, op: Operator, work: str) -> Sequence[Any]:
    """The lowering of one piece of work to a call of a target."""
    family, _ = _FAMILIES.get(type(op), ("", ""))
    target = _DIRECT.get((family, work.partition(":")[0]), "halfulp_host")
    if family == "avg" and (getattr(op, "dtype", None) is not None or getattr(op, "nan", None) != "propagate"):
        target = "halfulp_host"
    attributes: dict[str, Any] = {"record": encode(op), "work": work}
    if target != "halfulp_host":
        attributes |= _window_attributes(op)
    results: Sequence[Any] = jax.ffi.ffi_lowering(target)(context, *operands, **attributes)
    return results


def refuse(context: Any, *operands: Any, op: Operator, **_: Any) -> Sequence[Any]:
    """The lowering for every other platform."""
    platforms = ", ".join(context.module_context.platforms)
    rule = "runs on the CPU: use jax.device_put or jax.default_device"
    raise PolicyError(op.name, f"platform={platforms!r}", rule, "J1")


def _window_attributes(op: Any) -> dict[str, Any]:
    """What the core needs to know of a pooling record, as words and vectors of integers."""
    family, kind = _FAMILIES[type(op)]
    numbers: dict[str, Any] = {}
    words = {"name": op.name, "kind": kind}
    if family == "max":
        words |= {"ties": op.ties, "nan": op.nan}
    elif kind == "sliding":
        numbers["counting"] = [int(op.count_include_pad), op.divisor_override or 0]
    else:
        numbers["counting"] = [0, 0]
    if kind == "sliding":
        given = not isinstance(op.padding, str)
        pairs = op.padding if given else ((0, 0),) * op.ndim
        words["padding"] = "given" if given else op.padding
        numbers |= {"kernel": op.kernel_size, "stride": op.stride, "dilation": op.dilation}
        numbers |= {"before": [before for before, _ in pairs], "after": [after for _, after in pairs]}
        numbers |= {"ceil_mode": [int(op.ceil_mode)], "output_size": op.kernel_size}
    elif kind == "adaptive":
        numbers["output_size"] = [-1 if size is None else size for size in op.output_size]
    else:
        numbers["output_size"] = [1] * op.ndim
    return words | {name: np.array(value, dtype=np.int64) for name, value in numbers.items()}
