"""The subject ``jax``: ``lax.reduce_window``, ``lax.conv_general_dilated`` and ``jax.numpy`` on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Subject
from halfulp.conformance.subjects._jax_source import function_source
from halfulp.records import Array, Operator

_IMPORTS = """\
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)"""


@lru_cache(maxsize=256)
def _function(text: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(f"{_IMPORTS}\n{text}", namespace)
    return namespace["f"]  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _jitted(text: str, mode: str) -> Callable[..., Any]:
    """One compiled function per record, shape and mode: the fillings of a setting share it."""
    function = _function(text)
    if mode == "forward":
        return jax.jit(function)
    if mode == "jvp":
        return jax.jit(lambda primals, tangents, fixed: jax.jvp(lambda *p: function(*p, *fixed), primals, tangents))
    return jax.jit(lambda primals, g, fixed: jax.vjp(lambda *p: function(*p, *fixed), *primals)[1](g))


def _split(op: Operator, primals: tuple[Array | None, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """(the inputs that have derivatives, those that have none)."""
    count = op.arity - len(op.constants)
    return tuple(a for a in primals[:count] if a is not None), tuple(a for a in primals[count:] if a is not None)


class JaxSubject(Subject):
    """JAX on the CPU, compiled by XLA."""

    name: ClassVar[str] = "jax"

    @property
    def version(self) -> str:
        return jax.__version__

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        given = [a for a in inputs if a is not None]
        return np.asarray(self._prepared(op, inputs, "forward")(*given))

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        given, fixed = _split(op, primals)
        directions = tuple(t for t in tangents if t is not None)
        out, tangent = self._prepared(op, primals, "jvp")(given, directions, fixed)
        return np.asarray(out), np.asarray(tangent)

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        given, fixed = _split(op, primals)
        found = [np.asarray(item) for item in self._prepared(op, primals, "vjp")(given, cotangent, fixed)]
        return tuple(None if p is None or not found else found.pop(0) for p in primals)

    def _prepared(self, op: Operator, inputs: tuple[Array | None, ...], mode: str) -> Callable[..., Any]:
        _function("def f():\n    return None")  # switches 64-bit types on before anything is compiled
        return _jitted(function_source(op, inputs), mode)

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        if indices:
            return None
        named = source.named_arrays(mode, arrays, source.names_of(op))
        dtype = named[0][1].dtype.name
        lines = [_IMPORTS, ""]
        types = {name: source.type_of(a, dtype) for name, a in named}
        lines += [f"{name} = jnp.asarray({source.literal(a)}, dtype=jnp.{types[name]})" for name, a in named]
        lines += ["", function_source(op, arrays.primals), ""]
        names = source.given_names(arrays, source.names_of(op))
        moving = [name for name in names if name not in op.constants]
        listed, directions = ", ".join(moving), ", ".join(f"d{name}" for name in moving)
        given = ", ".join(names)
        function = "jax.jit(f)"
        if moving != names:
            function = f"jax.jit(lambda {listed}: f({given}))"
        call = {
            "forward": f"jax.jit(f)({given})",
            "jvp": f"jax.jvp({function}, ({listed},), ({directions},))[1]",
            "vjp": f"jax.vjp({function}, {listed})[1](cotangent)[which]",
        }[mode]
        widened = ".astype(jnp.float32)" if dtype == "bfloat16" else ""
        return "\n".join([*lines, f"got = np.asarray({call}{widened})"])
