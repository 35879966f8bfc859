"""Reproducibility: the same bits with other threads, batches and memory layouts and in a second run."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance.cases import Arrays, laid_out, numpy_dtype
from halfulp.conformance.circumstances import circumstance_script
from halfulp.conformance.corpus import made
from halfulp.conformance.oracle import Answer
from halfulp.conformance.run import run_subject
from halfulp.conformance.subjects import Subject, Unsupported
from halfulp.conformance.subjects._source import Seeded
from halfulp.conformance.ulps import same_bits
from halfulp.conformance.verdict import NOT_REPEATABLE, Verdict, repeats
from halfulp.errors import HalfulpError
from halfulp.records import Array, Operator, Shape, declaration_of, is_declared, named

__all__ = ["probe"]

# Large enough that frameworks share the work among threads; no exact answer is needed here.
_PLANES: Shape = (4, 8, 40, 40)
_WEIGHTS: tuple[Shape, ...] = ((4, 16, 14, 14), (16, 16, 3, 3), (16,))


def _setting(operator: str) -> tuple[Operator, tuple[Shape | None, ...]]:
    """A record of ordinary size, by the family that the operator's cases are drawn from."""
    declaration = named(operator)
    family = declaration.draw.family
    planes = (2, 4, 12, 12) if declaration.kind == "smooth" else _PLANES  # powers and exponentials take their time
    if operator == "smooth_max_pool":
        return made(operator, kernel_size=(2, 2)), (planes,)
    if family == "window":
        return made(operator, kernel_size=(3, 3), stride=2, padding=1), (planes,)
    if family == "adaptive":
        return made(operator, output_size=(7, 7)), (planes,)
    if family == "global":
        return made(operator, ndim=2), (planes,)
    if callable(family):  # the largest of some draws: what is empty shows nothing
        drawn = [family(random.Random(seed).choice) for seed in range(20)]
        return max(drawn, key=lambda setting: math.prod(setting[1][0] or (0,)))
    return made(operator, ndim=2, padding=1), _WEIGHTS


def probe(subject: Subject, operator: str, mode: str, dtype: str) -> Iterator[Verdict]:
    """One verdict per circumstance that could be changed; none if the subject does not support the operator."""
    op, shapes = _setting(operator)
    if not subject.takes_large(op):
        return
    asked = subject.asked(op)
    arrays = seeded_arrays(op, shapes, dtype)
    try:
        first = run_subject(subject, asked, mode, arrays)
    except Exception:  # support and errors are judged by the modes themselves
        return
    kind = arrays.cotangent.dtype
    if [a.shape for a in first] != _shapes(asked, mode, arrays) or any(a.dtype != kind for a in first):  # the same
        return
    steady = True
    for name, found in _circumstances(subject, asked, mode, arrays):
        same = found is not None and _same(first, found)
        if not same and not repeats(subject, asked, mode, arrays, first):
            steady, same = False, True  # what differs from run to run has no other cause
        yield _verdict(name, same)
    steady = steady and repeats(subject, asked, mode, arrays, first)
    yield _verdict(NOT_REPEATABLE, steady)


def _shapes(op: Operator, mode: str, arrays: Arrays) -> list[Shape]:
    if mode == "vjp":
        return [
            a.shape for a, t in zip(arrays.primals, arrays.tangents, strict=True) if a is not None and t is not None
        ]
    return [arrays.cotangent.shape]


def _circumstances(subject: Subject, op: Operator, mode: str, arrays: Arrays) -> Iterator[tuple[str, Answer | None]]:
    """(what the answer may depend on, the answer there); None where the subject fails only there."""
    for name, run in (("number of threads", _threads), ("batch size", _batches)):
        try:
            found: Answer | None = run(subject, op, mode, arrays)
        except Unsupported:
            continue
        except Exception:
            found = None
        yield f"depends on the {name}", found
    for layout in ("channels_last", "negative_strides"):
        try:
            found = run_subject(subject, op, mode, _laid_out(arrays, layout))
        except Unsupported:
            continue
        except Exception:
            found = None
        yield f"depends on the memory layout ({layout.replace('_', ' ')})", found


def seeded_arrays(op: Operator, shapes: tuple[Shape | None, ...], dtype: str) -> Arrays:
    """Normal numbers everywhere, each array from a seed of its own, so that a script can make them again."""
    kind = numpy_dtype(dtype)

    def made(first: int) -> tuple[Array | None, ...]:
        return tuple(None if s is None else Seeded.make(first + i, s, kind) for i, s in enumerate(shapes))

    primals, tangents = made(1), made(11)
    drawn = declaration_of(op).draw.constants if is_declared(op) else None
    if drawn is not None and op.required is not None:  # normal numbers are no class indices, and no variances
        fixed = drawn(op, shapes, np.random.default_rng(31))
        count = len(primals) - len(fixed)
        primals, tangents = (*primals[:count], *fixed), (*tangents[:count], *(None for _ in fixed))
    return Arrays(primals, tangents, Seeded.make(21, op.output_shape(*shapes), kind))  # type: ignore[arg-type]


def script(subject: Subject, operator: str, mode: str, dtype: str, name: str) -> str | None:
    """A script that shows a circumstance changing the bits, for subjects that can write one."""
    op, shapes = _setting(operator)
    return circumstance_script(subject, subject.asked(op), mode, seeded_arrays(op, shapes, dtype), name)


def _verdict(name: str, same: bool) -> Verdict:
    verdict = Verdict(tested={"reproducible"})
    if not same:
        verdict.aspect, verdict.name = "reproducible", name
    return verdict


def _same(a: Answer, b: Answer) -> bool:
    """Whether answers agree; of answers of different length, the first parts."""
    return all(same_bits(np.ascontiguousarray(x), np.ascontiguousarray(y)) for x, y in zip(a, b, strict=False))


def _threads(subject: Subject, op: Operator, mode: str, arrays: Arrays) -> Answer:
    subject.set_num_threads(2)
    try:
        return run_subject(subject, op, mode, arrays)
    finally:
        subject.set_num_threads(1)


def _batches(subject: Subject, op: Operator, mode: str, arrays: Arrays) -> Answer:
    """Each sample alone. A weight's cotangent is a sum over the batch, so only the input's is compared."""
    x = arrays.primals[0]
    assert x is not None
    others = [None if a is None else a.shape for a in arrays.primals[1:]]
    try:
        one_row = op.output_shape((1, *x.shape[1:]), *others)  # type: ignore[arg-type]  # a bias may be None
    except HalfulpError:
        raise Unsupported(f"{op.name} has other inputs with samples") from None
    whole = arrays.cotangent.shape == (one_row[0] * len(x), *one_row[1:]) if one_row else False
    if not whole or _along_batch(op, x.ndim):
        raise Unsupported(f"{op.name} combines the samples of a batch")  # such as a sum over the first axis
    parts: list[Array] = []
    for row in range(x.shape[0]):
        cut = slice(row, row + 1)
        sample = Arrays(
            (x[cut], *arrays.primals[1:]), (_cut(arrays.tangents[0], cut), *arrays.tangents[1:]), arrays.cotangent[cut]
        )
        parts.append(run_subject(subject, op, mode, sample)[0])
    return (np.concatenate(parts),)


def _along_batch(op: Operator, ndim: int) -> bool:
    """Whether the operator works along the first axis, as a softmax over it does, or with statistics of the batch."""
    named = getattr(op, "dim", None)
    dims = named if isinstance(named, tuple) else () if named is None else (named,)
    return bool(getattr(op, "training", False)) or any(axis in (0, -ndim) for axis in dims)


def _cut(array: Any, cut: slice) -> Any:
    return None if array is None else array[cut]


def _laid_out(arrays: Arrays, layout: str) -> Arrays:
    x, tangent = arrays.primals[0], arrays.tangents[0]
    assert x is not None
    assert tangent is not None
    return Arrays(
        (laid_out(x, layout), *arrays.primals[1:]),
        (laid_out(tangent, layout), *arrays.tangents[1:]),
        arrays.cotangent,
    )
