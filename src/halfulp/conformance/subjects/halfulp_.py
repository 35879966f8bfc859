"""The subject ``halfulp``: this package's own operators, which must be right in every case."""

from __future__ import annotations

from typing import Any, ClassVar

import halfulp
from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Subject
from halfulp.records import Array, Operator


class HalfulpSubject(Subject):
    """halfulp against its own specification."""

    name: ClassVar[str] = "halfulp"
    complete: ClassVar[bool] = True

    @property
    def version(self) -> str:
        return halfulp.__version__

    def asked(self, op: Operator) -> Operator:
        return op

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        return op(*inputs)  # type: ignore[no-any-return]

    def indices(self, op: Operator, x: Array) -> Array:
        from halfulp import kernels

        return kernels.forward_with_indices(op, x)[1]  # type: ignore[no-any-return]

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        return op.jvp(primals, tangents)

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        return op.vjp(*primals)[1](cotangent)

    def set_num_threads(self, threads: int) -> None:
        halfulp.set_num_threads(threads)

    def takes_large(self, op: Operator) -> bool:
        from halfulp import kernels

        return kernels.supports(op)  # the specification alone is exact, not fast

    def with_threads(self, script: str) -> str:
        return script.replace("\ngot = ", "\nhalfulp.set_num_threads(threads)\ngot = ", 1)

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        lines = ["import numpy as np", "import halfulp", f"from halfulp import {type(op).__name__}", ""]
        lines += source.numpy_arrays(mode, arrays)
        lines += source.inputs_line(arrays, mode)
        lines.append(f"op = {op!r}")
        if indices:
            return "\n".join([*lines, "from halfulp.dispatch import indices", "got = indices(op, x)[1]"])
        return "\n".join([*lines, *source.halfulp_call(mode)])
