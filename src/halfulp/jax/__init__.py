"""Convolution and pooling of halfulp on JAX arrays, through ``jax.ffi``: bit for bit the answers on NumPy arrays.

The functional forms have the names and arguments of ``halfulp``'s own; :func:`apply` takes any record. All of them work
under ``jit``, ``grad``, ``jvp``, ``vmap``, ``jacfwd``, ``jacrev``, ``hessian`` and ``shard_map``, on the CPU.
"""

try:
    import jax as _jax
except ImportError as _error:
    raise ImportError("halfulp.jax needs the package jax: pip install 'halfulp[jax]'") from _error

from halfulp import functional as _functional
from halfulp.jax import _batching, _rules, _targets
from halfulp.jax._apply import apply, apply_with_indices
from halfulp.jax._apply import bridged as _bridged

_targets.register()
del _jax, _batching, _rules

adaptive_avg_pool = _bridged(_functional.adaptive_avg_pool)
adaptive_avg_pool1d = _bridged(_functional.adaptive_avg_pool1d)
adaptive_avg_pool2d = _bridged(_functional.adaptive_avg_pool2d)
adaptive_avg_pool3d = _bridged(_functional.adaptive_avg_pool3d)
adaptive_max_pool = _bridged(_functional.adaptive_max_pool)
adaptive_max_pool1d = _bridged(_functional.adaptive_max_pool1d)
adaptive_max_pool2d = _bridged(_functional.adaptive_max_pool2d)
adaptive_max_pool3d = _bridged(_functional.adaptive_max_pool3d)
avg_pool = _bridged(_functional.avg_pool)
avg_pool1d = _bridged(_functional.avg_pool1d)
avg_pool2d = _bridged(_functional.avg_pool2d)
avg_pool3d = _bridged(_functional.avg_pool3d)
conv = _bridged(_functional.conv)
conv1d = _bridged(_functional.conv1d)
conv2d = _bridged(_functional.conv2d)
conv3d = _bridged(_functional.conv3d)
conv_transpose = _bridged(_functional.conv_transpose)
conv_transpose1d = _bridged(_functional.conv_transpose1d)
conv_transpose2d = _bridged(_functional.conv_transpose2d)
conv_transpose3d = _bridged(_functional.conv_transpose3d)
global_avg_pool = _bridged(_functional.global_avg_pool)
global_avg_pool1d = _bridged(_functional.global_avg_pool1d)
global_avg_pool2d = _bridged(_functional.global_avg_pool2d)
global_avg_pool3d = _bridged(_functional.global_avg_pool3d)
global_max_pool = _bridged(_functional.global_max_pool)
global_max_pool1d = _bridged(_functional.global_max_pool1d)
global_max_pool2d = _bridged(_functional.global_max_pool2d)
global_max_pool3d = _bridged(_functional.global_max_pool3d)
max_pool = _bridged(_functional.max_pool)
max_pool1d = _bridged(_functional.max_pool1d)
max_pool2d = _bridged(_functional.max_pool2d)
max_pool3d = _bridged(_functional.max_pool3d)
smooth_max_pool = _bridged(_functional.smooth_max_pool)
smooth_max_pool1d = _bridged(_functional.smooth_max_pool1d)
smooth_max_pool2d = _bridged(_functional.smooth_max_pool2d)
smooth_max_pool3d = _bridged(_functional.smooth_max_pool3d)

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "apply",
    "apply_with_indices",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "global_avg_pool",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "smooth_max_pool",
    "smooth_max_pool1d",
    "smooth_max_pool2d",
    "smooth_max_pool3d",
]
