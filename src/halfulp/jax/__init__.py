"""Convolution and pooling of halfulp on JAX arrays, through ``jax.ffi``: bit for bit the answers on NumPy arrays.

The functional forms have the names and arguments of ``halfulp``'s own; :func:`apply` takes any record. All of them work
under ``jit``, ``grad``, ``jvp``, ``vmap``, ``jacfwd``, ``jacrev``, ``hessian`` and ``shard_map``, on the CPU.
"""

try:
    import jax as _jax
except ImportError as _error:
    raise ImportError("halfulp.jax needs the package jax: pip install 'halfulp[jax]'") from _error

from halfulp.functional._generated import __all__ as _names
from halfulp.jax import _batching, _rules, _targets
from halfulp.jax._apply import apply, apply_with_indices, functions
from halfulp.jax._functions import *

_targets.register()
del _jax, _batching, _rules

__all__ = ["apply", "apply_with_indices", "functions", *_names]
