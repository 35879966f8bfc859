"""What the methods give back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from halfulp.bounds._certificate import Certificate
from halfulp.bounds._maps import Array


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper bounds of the output, and of every node, in the named arithmetic.

    ``certificate`` can be saved and replayed exactly; irrational values are enclosed by rationals.
    """

    lower: Array
    upper: Array
    method: str
    arithmetic: str
    dtype: Any
    nodes: tuple[tuple[str, Array, Array], ...]
    _certificate: Any = field(repr=False)

    @property
    def certificate(self) -> Certificate:
        """The proof of the bounds."""
        return self._certificate()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        widest = float((self.upper - self.lower).max(initial=0.0))
        where = "real numbers" if self.arithmetic == "real" else f"{self.arithmetic} {self.dtype}"
        return f"Bounds({self.method}, {where}; shape={self.lower.shape}, widest {widest:.6g})"


@dataclass(frozen=True, eq=False)
class Verdict:
    """The answer of :func:`halfulp.bounds.verify`: ``status`` is ``"holds"``, ``"violated"`` or ``"unknown"``.

    ``margin`` is the least proved distance to the unsafe set (negative if nothing is proved); ``counterexample`` and
    ``output`` are an executed input and what it gave; ``domains`` counts the parts of the box that were bounded.
    """

    status: str
    arithmetic: str
    dtype: Any
    method: str
    margin: float
    seconds: float
    domains: int
    counterexample: Any = None
    output: Any = None
    _certificate: Any = field(default=None, repr=False)

    @property
    def certificate(self) -> Certificate:
        """The proof, if the property holds."""
        if self._certificate is None:
            from halfulp.errors import CertificateError

            raise CertificateError(
                "certificate", f"status={self.status!r}", "only a property that holds has a certificate", "V7"
            )
        return self._certificate()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        where = "real numbers" if self.arithmetic == "real" else f"{self.arithmetic} {self.dtype}"
        detail = f"margin {self.margin:.6g}, " if self.status != "violated" else ""
        return f"Verdict({self.status}, {where}, {self.method}; {detail}{self.domains} domains)"
