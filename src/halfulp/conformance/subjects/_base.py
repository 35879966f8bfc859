"""The base of all subjects: a subject evaluates operator records on NumPy arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from halfulp.records import Array, GlobalOperator, Operator

__all__ = ["ForwardSubject", "Subject", "Unsupported"]


class Unsupported(Exception):
    """Raised by a subject for what it does not offer; the text is shown in the report."""


class Subject:
    """A backend under test. A subclass evaluates records, and raises :class:`Unsupported` for what it does not offer.

    Every other exception is taken as "unsupported" too, with its own text, unless ``complete`` is set: then the subject
    claims to support everything and an exception is a failure.
    """

    name: ClassVar[str] = ""
    complete: ClassVar[bool] = False
    ties: ClassVar[str] = "first"
    """The tie rule that the subject documents for windowed maxima, asked of it where it has no choice."""
    global_ties: ClassVar[str] = "split"

    @property
    def version(self) -> str:
        """The version of the framework behind the subject."""
        return ""

    def asked(self, op: Operator) -> Operator:
        """The record that the subject is compared with: a policy that it cannot express becomes its documented one."""
        if not hasattr(op, "ties"):
            return op
        ties = self.global_ties if isinstance(op, GlobalOperator) else self.ties
        return replace(op, ties=ties, nan="propagate")  # type: ignore[call-arg]  # it has these fields

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        """The operator's value."""
        raise Unsupported(f"{self.name} has no {op.name}")

    def indices(self, op: Operator, x: Array) -> Array:
        """Flat indices of the maxima, where the subject gives them."""
        raise Unsupported(f"{self.name} gives no indices")

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        """The value and its derivative in a direction."""
        raise Unsupported(f"{self.name} has no forward-mode derivative")

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        """The input cotangents of an output cotangent."""
        raise Unsupported(f"{self.name} has no derivative")

    def set_num_threads(self, threads: int) -> None:
        """Use this many threads from now on."""
        raise Unsupported(f"{self.name} cannot set its number of threads")

    def takes_large(self, op: Operator) -> bool:
        """Whether the subject is fast enough for tens of thousands of cells, as the probes of reproducibility need."""
        return True

    def circumstance_script(self, op: Operator, mode: str, arrays: Any, name: str) -> str | None:
        """Source that shows how a circumstance changes the bits; None uses the general form."""
        return None

    def with_threads(self, script: str) -> str:
        """The source of :meth:`script` with ``threads`` as the number of threads, if the subject can set it."""
        return script

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        """Source that computes ``got`` (or the indices of the maxima) with the framework and NumPy only, or None."""
        return None


class ForwardSubject(Subject):
    """A runtime without derivatives, which takes its number of threads when a model is loaded."""

    title: ClassVar[str] = ""
    threads = 1

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        raise Unsupported(f"{self.title} has no derivatives")

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        raise Unsupported(f"{self.title} has no derivatives")

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads
