"""The subject ``module:object``: a user's own backend."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Subject, Unsupported
from halfulp.records import Array, Operator


class UserSubject(Subject):
    """A backend given as ``module:object``.

    The object is a function ``f(op, *inputs) -> array``, or has methods of its own: ``forward(op, *inputs)``,
    ``jvp(op, primals, tangents) -> (output, tangent)``, ``vjp(op, primals, cotangent) -> tuple`` and
    ``set_num_threads(n)``. Missing methods, and calls that raise ``NotImplementedError``, are reported as unsupported.
    An attribute ``complete = True`` claims every answer, correctly rounded: every exception and every finding is a
    failure, unless ``--fail-on`` says otherwise; ``policies = True`` says that the
    ``ties`` and ``nan`` of a record are obeyed.
    """

    def __init__(self, target: str, thing: Any, made: bool = False) -> None:
        """``made`` says that ``target`` names a class, of which ``thing`` is an instance."""
        self.target = target
        self.made = made
        self.thing = thing
        self.name = target  # type: ignore[misc]  # a class variable of the built-in subjects
        self.complete = bool(getattr(thing, "complete", False))  # type: ignore[misc]
        self.ties = getattr(thing, "ties", "first")  # type: ignore[misc]
        self.global_ties = getattr(thing, "global_ties", "all")  # type: ignore[misc]

    @property
    def version(self) -> str:
        from halfulp.conformance.run import printable

        return printable(str(getattr(self.thing, "version", getattr(self.thing, "__version__", ""))))

    def asked(self, op: Operator) -> Operator:
        return op if getattr(self.thing, "policies", False) else super().asked(op)

    def _method(self, name: str) -> Callable[..., Any]:
        method = getattr(self.thing, name, None)
        if method is None:
            raise Unsupported(f"{self.target} has no {name}")
        return method  # type: ignore[no-any-return]

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        function = getattr(self.thing, "forward", None) or self.thing
        return function(op, *inputs)  # type: ignore[no-any-return]  # the caller checks its type

    def indices(self, op: Operator, x: Array) -> Array:
        return self._method("indices")(op, x)  # type: ignore[no-any-return]

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        return self._method("jvp")(op, primals, tangents)  # type: ignore[no-any-return]

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        return self._method("vjp")(op, primals, cotangent)  # type: ignore[no-any-return]

    def set_num_threads(self, threads: int) -> None:
        self._method("set_num_threads")(threads)

    def with_threads(self, script: str) -> str:
        if not hasattr(self.thing, "set_num_threads"):
            return script
        return script.replace("\ngot = ", "\nbackend.set_num_threads(threads)\ngot = ", 1)

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        module, _, name = self.target.partition(":")
        thing = name.split(".")[0]
        lines = ["import numpy as np", f"from halfulp import {type(op).__name__}", f"from {module} import {thing}", ""]
        lines += [*source.numpy_arrays(mode, arrays), *source.inputs_line(arrays, mode), f"op = {op!r}"]
        lines.append(f"backend = {name}{'()' if self.made else ''}")
        if indices:
            return "\n".join([*lines, "got = np.asarray(backend.indices(op, x))"])
        if mode == "forward":
            called = "backend.forward" if hasattr(self.thing, "forward") else "backend"
            return "\n".join([*lines, f"got = np.asarray({called}(op, *inputs))"])
        if mode == "jvp":
            return "\n".join([*lines, "got = np.asarray(backend.jvp(op, inputs, tangents)[1])"])
        return "\n".join([*lines, "got = np.asarray(backend.vjp(op, inputs, cotangent)[which])"])


def load(target: str) -> UserSubject:
    """The subject behind ``module:object``; modules in the working directory are found, as ``python -m`` finds them."""
    module_name, _, path = target.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    thing: Any = importlib.import_module(module_name)
    for part in path.split("."):
        thing = getattr(thing, part)
    made = isinstance(thing, type)
    return UserSubject(target, thing() if made else thing, made)
