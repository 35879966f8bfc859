"""The functions of the core that XLA calls through ``jax.ffi``: their registration, and which one serves a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from halfulp import _core, kernels
from halfulp.errors import PolicyError
from halfulp.jax import _host
from halfulp.jax._codec import encode
from halfulp.records import AdaptiveMaxPool, GlobalMaxPool, MaxPool, Operator

_DIRECT = {"forward": "halfulp_max_forward", "tangent": "halfulp_max_jvp", "cotangent": "halfulp_max_vjp"}


def register() -> None:
    """Make the targets known to XLA, once per process."""
    for name, capsule in _core.xla_targets().items():
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    _core.set_xla_host(_host.run)


def lower(context: Any, *operands: Any, op: Operator, work: str) -> Sequence[Any]:
    """The lowering of one piece of work to a call of a target."""
    direct = _DIRECT.get(work.partition(":")[0])
    if direct is not None and isinstance(op, (MaxPool, AdaptiveMaxPool, GlobalMaxPool)) and kernels.supports(op):
        rule, attributes = jax.ffi.ffi_lowering(direct), _max_attributes(op)
    else:
        rule, attributes = jax.ffi.ffi_lowering("halfulp_host"), {"record": encode(op), "work": work}
    results: Sequence[Any] = rule(context, *operands, **attributes)
    return results


def refuse(context: Any, *operands: Any, op: Operator, **_: Any) -> Sequence[Any]:
    """The lowering for every other platform."""
    platforms = ", ".join(context.module_context.platforms)
    rule = "runs on the CPU: use jax.device_put or jax.default_device"
    raise PolicyError(op.name, f"platform={platforms!r}", rule, "J1")


def _max_attributes(op: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {"name": op.name, "ties": op.ties, "nan": op.nan}
    if isinstance(op, MaxPool):
        given = not isinstance(op.padding, str)
        pairs = op.padding if given else ((0, 0),) * op.ndim
        window = {"kernel": op.kernel_size, "stride": op.stride, "dilation": op.dilation}
        window |= {"before": [before for before, _ in pairs], "after": [after for _, after in pairs]}
        window |= {"ceil_mode": [int(op.ceil_mode)], "output_size": op.kernel_size}
        attributes |= {name: np.array(value, dtype=np.int64) for name, value in window.items()}
        return attributes | {"kind": "sliding", "padding": "given" if given else op.padding}
    if isinstance(op, AdaptiveMaxPool):
        sizes = [-1 if size is None else size for size in op.output_size]
        return attributes | {"kind": "adaptive", "output_size": np.array(sizes, dtype=np.int64)}
    return attributes | {"kind": "global", "output_size": np.ones(op.ndim, dtype=np.int64)}
