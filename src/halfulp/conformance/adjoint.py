"""Whether a subject's VJP is the transpose of its own JVP, for any tie rule.

For the same point, <g, J t> must equal <Jᵀ g, t>. The question is put with small integers, for which all sums and
products are exact in every element type; only averages and smooth maxima then round, and far less than the bound.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.fill import float_limits
from halfulp.conformance.oracle import Oracle
from halfulp.conformance.run import run_subject
from halfulp.conformance.subjects import Subject
from halfulp.conformance.verdict import NOT_REPEATABLE, Verdict, repeats
from halfulp.records import Array, Operator

__all__ = ["judge_adjoint"]

_EXACT_FILLINGS = frozenset({"integers", "ties", "constant", "negative"})


def judge_adjoint(subject: Subject, op: Operator, label: str, oracle: Oracle) -> Verdict | None:
    """The verdict on transposition, or None where it cannot be asked."""
    if label not in _EXACT_FILLINGS:
        return None
    asked = subject.asked(op)
    arrays = oracle.arrays
    try:
        (tangent,) = run_subject(subject, asked, "jvp", arrays)
        cotangents = run_subject(subject, asked, "vjp", arrays)
    except Exception:  # support and errors are judged by the modes themselves
        return None
    directions = [t for t in arrays.tangents if t is not None]
    if len(cotangents) != len(directions) or any(
        a.shape != b.shape for a, b in zip(cotangents, directions, strict=True)
    ):
        return None
    if tangent.shape != arrays.cotangent.shape or any(a.dtype != tangent.dtype for a in (*cotangents, *directions)):
        return None
    forward = _terms(arrays.cotangent, tangent)
    backward = [term for c, t in zip(cotangents, directions, strict=True) for term in _terms(c, t)]
    if any(term is None for term in (*forward, *backward)):
        return None
    verdict = Verdict(tested={"adjoint"})
    size = sum(map(abs, forward)) + sum(map(abs, backward))
    allowed = size * Fraction(float(float_limits(tangent.dtype).eps)) * 64
    if abs(sum(forward) - sum(backward)) > allowed:
        if not (
            repeats(subject, asked, "jvp", arrays, (tangent,)) and repeats(subject, asked, "vjp", arrays, cotangents)
        ):
            return Verdict(tested={"reproducible"}, aspect="reproducible", name=NOT_REPEATABLE)
        verdict.aspect, verdict.name = "adjoint", "the VJP is not the transpose of the JVP"
        verdict.message = f"<g, J t> = {float(sum(forward))}, <Jᵀ g, t> = {float(sum(backward))}"
    return verdict


def _terms(a: Array, b: Array) -> Any:
    """The products of two arrays, element by element, exact."""
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return [None]
    return [Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a.ravel(), b.ravel(), strict=True)]
