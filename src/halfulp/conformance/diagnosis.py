"""Naming a defect: which other rule would explain a wrong answer?

Each alternative is a change of the record or of its inputs. If the specification, so changed, gives what the subject
gave, then that is what the subject computes, and the finding gets the alternative's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from halfulp.conformance.cases import Arrays
from halfulp.conformance.fill import float_limits
from halfulp.conformance.oracle import Answer, answer
from halfulp.conformance.ulps import distance, same_bits
from halfulp.errors import HalfulpError
from halfulp.geometry import Axis, unpad
from halfulp.records import (
    Array,
    AvgPool,
    Conv,
    ConvTranspose,
    MaxPool,
    Operator,
    Shape,
    WindowOperator,
    declarations,
)

__all__ = ["EITHER", "Alternative", "alternatives", "changed_record", "explain"]

EITHER: Final = ", or else "
"""Stands between causes that one case cannot tell apart."""

_HARD = tuple(d.record for d in declarations() if d.has_ties and not d.constant)


@dataclass(frozen=True)
class Alternative:
    """A rule that a subject may follow instead of the specified one."""

    aspect: str
    name: str
    op: Operator
    arrays: Arrays
    undo: Callable[[Answer], Answer] = lambda found: found
    rule: str = ""
    group: str = ""
    """Alternatives of one group that explain an answer equally well share the blame."""


def explain(op: Operator, mode: str, arrays: Arrays, got: Answer, want: Answer) -> Alternative | None:
    """The alternative whose answer the subject gave, if there is one; exact matches come before near ones."""
    near = None
    exact: list[Alternative] = []
    finite = all(bool(np.isfinite(a).all()) for a in got)
    for other in alternatives(op, mode, arrays, want):
        if other.aspect == "value" and not finite:  # infinities and NaN are alike under many rules
            continue
        if exact and other.group != exact[0].group:
            continue
        try:
            found = other.undo(answer(other.op, mode, other.arrays))
        except (HalfulpError, ValueError):
            continue
        if len(found) != len(got) or any(f.shape != g.shape for f, g in zip(found, got, strict=True)):
            continue
        if all(same_bits(f, g) for f, g in zip(found, got, strict=True)):
            if not all(same_bits(f, w) for f, w in zip(found, want, strict=True)):
                exact.append(other)
                if not other.group:
                    return other
        elif near is None and not exact and _closer(got, found, want):
            near = other
    if len(exact) > 1:
        return replace(exact[0], name=EITHER.join(sorted(other.name for other in exact)))
    return exact[0] if exact else near


def _closer(got: Answer, found: Answer, want: Answer) -> bool:
    """Whether an answer is the alternative up to rounding, and the right one is not."""
    return _near(got, found) and not _near(got, want)


def _near(got: Answer, other: Answer) -> bool:
    """At most some rounding errors apart, everywhere."""
    for a, b in zip(got, other, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind in "iub":
            return False
        if np.any(np.isnan(a) != np.isnan(b)) or int(distance(a, b).max(initial=0)) > 8:
            return False
    return True


def alternatives(op: Operator, mode: str, arrays: Arrays, want: Answer | None = None) -> Iterator[Alternative]:
    """Every other rule worth trying for a record; ``want`` is the right answer, for those that change only that."""
    if isinstance(op, _HARD):
        yield from _policies(op, arrays)
    if isinstance(op, MaxPool):
        yield from _padded_zeros(op, mode, arrays)
    if isinstance(op, AvgPool):
        yield from _divisors(op, arrays)
    if isinstance(op, (Conv, ConvTranspose)):
        yield from _weights(op, mode, arrays)
    if isinstance(op, WindowOperator) and "ceil_mode" in op.__dataclass_fields__ and mode != "vjp":
        other = changed_record(op, ceil_mode=not op.ceil_mode)
        yield Alternative("shape", "ceil_mode is the wrong way round", other, arrays)
    yield from _steps(op, arrays)
    if want is not None:
        less = tuple(map(_without_subnormals, want))
        yield Alternative(
            "value", "subnormal results are flushed to zero", op, arrays, lambda _: less, group="subnormal"
        )
    flushed = _flushed(arrays)
    if flushed is not None:
        yield Alternative("value", "subnormal inputs count as zero", op, flushed, group="subnormal")


def _steps(op: Any, arrays: Arrays) -> Iterator[Alternative]:
    """Dilations and strides that are ignored, or read in the wrong order."""
    for name in ("dilation", "stride", "padding", "kernel_size"):
        value = getattr(op, name, None)
        if isinstance(value, tuple) and value != value[::-1]:
            other = changed_record(op, **{name: value[::-1]})
            if other is not None:
                yield Alternative("shape", f"{name} is read from the last axis to the first", other, arrays, group=name)
        if name in ("dilation", "stride") and isinstance(value, tuple) and any(d != 1 for d in value):
            plain = changed_record(op, **{name: 1})
            if plain is not None:
                yield Alternative("shape", f"{name} is ignored", plain, arrays, group=name)


def changed_record(op: Any, **changes: Any) -> Any:
    """A record with other fields; None if there is no such record."""
    try:
        return replace(op, **changes)
    except HalfulpError:
        return None


def _policies(op: Any, arrays: Arrays) -> Iterator[Alternative]:
    """Other tie rules, other NaN rules, and both."""
    spoken = {
        "first": "ties go to the first maximum",
        "last": "ties go to the last maximum",
        "all": "every tied maximum gets the full cotangent",
        "split": "tied maxima share the cotangent",
    }
    x = arrays.primals[0]
    assert x is not None
    nans = x.dtype.kind not in "iub" and bool(np.isnan(x).any())
    if nans and op.nan != "ignore":
        ranked = _ranked_nans(arrays, x)
        if ranked is not None:
            yield Alternative("nan", "among several NaNs the last wins the derivative", op, ranked, rule="last NaN")
    for ties in spoken:
        if ties != op.ties:
            yield Alternative("ties", spoken[ties], replace(op, ties=ties), arrays, rule=ties)
    if nans:
        other = "propagate" if op.nan == "ignore" else "ignore"
        name = "NaN is propagated" if op.nan == "ignore" else "NaN is ignored"
        for ties in ("first", "last", "all", "split"):
            yield Alternative("nan", name, replace(op, nan=other, ties=ties), arrays, rule=other)


def _ranked_nans(arrays: Arrays, x: Array) -> Arrays | None:
    """NaNs become numbers above all others, each larger than the one before, so that the last one wins."""
    positions = np.flatnonzero(np.isnan(x))
    rest = x[np.isfinite(x)].astype(float)
    start = int(np.ceil(np.log2(max(1.0, float(np.abs(rest).max(initial=1.0)))))) + 1
    if start + len(positions) >= int(float_limits(x.dtype).maxexp) or bool(np.isposinf(x).any()):
        return None
    changed = np.array(x, order="C")
    changed.ravel()[positions] = 2.0 ** (start + np.arange(len(positions)))
    return replace(arrays, primals=(changed,))


def _padded_zeros(op: MaxPool, mode: str, arrays: Arrays) -> Iterator[Alternative]:
    """Padding that takes part in the maximum as zero."""
    x = arrays.primals[0]
    assert x is not None
    yield from _explicit(
        op, mode, arrays, op.axes(x.shape[x.ndim - op.ndim :]), "padding counts as zero in the maximum"
    )


def _explicit(op: Any, mode: str, arrays: Arrays, axes: tuple[Axis, ...], name: str) -> Iterator[Alternative]:
    """The padding as zeros that are there: a record without padding on a larger input."""
    x, tangent = arrays.primals[0], arrays.tangents[0]
    assert x is not None
    assert tangent is not None
    pairs = [(a.before, a.after) for a in axes]
    if not any(before or after for before, after in pairs):
        return
    wide = [(0, 0)] * (x.ndim - op.ndim) + pairs
    padded = replace(
        arrays,
        primals=(np.pad(x, wide), *arrays.primals[1:]),
        tangents=(np.pad(tangent, wide), *arrays.tangents[1:]),
    )
    undo = _cut(pairs) if mode == "vjp" else _cropped(arrays.cotangent.shape)
    yield Alternative("padding", name, replace(op, padding=0), padded, undo)


def _cut(pairs: list[tuple[int, int]]) -> Callable[[Answer], Answer]:
    return lambda found: (unpad(found[0], pairs), *found[1:])


def _cropped(shape: Shape) -> Callable[[Answer], Answer]:
    """Without the windows that ceil_mode keeps only where padding is input."""
    return lambda found: tuple(a[tuple(slice(n) for n in shape)] for a in found)


def _divisors(op: AvgPool, arrays: Arrays) -> Iterator[Alternative]:
    """Averages over another number of cells."""
    include = not op.count_include_pad
    name = "padding is counted" if include else "padding is not counted"
    yield Alternative("padding", name, replace(op, count_include_pad=include), arrays)
    if op.divisor_override is not None:
        yield Alternative("padding", "divisor_override is ignored", replace(op, divisor_override=None), arrays)
    else:
        whole = int(np.prod(op.kernel_size))
        name = "cells beyond the padding are counted"
        yield Alternative("padding", name, replace(op, divisor_override=whole), arrays)


def _weights(op: Conv | ConvTranspose, mode: str, arrays: Arrays) -> Iterator[Alternative]:
    """Weights read in another order, and a bias left out."""
    x, weight = arrays.primals[0], arrays.primals[1]
    assert x is not None
    assert weight is not None
    if isinstance(op, Conv):
        axes = op.axes(x.shape[x.ndim - op.ndim :], weight.shape[2:])
        yield from _explicit(op, mode, arrays, axes, "padding counts as zero, times the weight")
    if _special(arrays):  # NaN and infinities spread so far that many orders of the weight would explain them
        return
    spatial = tuple(range(2, weight.ndim))
    turns: list[tuple[str, Callable[[Array], Array]]] = [
        ("the weight is flipped", lambda w: np.flip(w, spatial)),
    ]
    if weight.shape[0] == weight.shape[1]:
        turns.append(("the weight's channels are transposed", lambda w: w.swapaxes(0, 1)))
    if len(spatial) >= 2 and weight.shape[-1] == weight.shape[-2]:
        turns.append(("the kernel's axes are transposed", lambda w: w.swapaxes(-1, -2)))
    for name, turn in turns:
        changed = _with_weight(arrays, turn)
        yield Alternative("value", name, op, changed, _turned(turn) if mode == "vjp" else lambda a: a)
    if len(arrays.primals) > 2 and arrays.primals[2] is not None and mode == "forward":
        without = replace(arrays, primals=(*arrays.primals[:2], None), tangents=(*arrays.tangents[:2], None))
        yield Alternative("value", "the bias is left out", op, without)


def _special(arrays: Arrays) -> bool:
    return not all(bool(np.isfinite(a).all()) for a in (*arrays.primals, *arrays.tangents) if a is not None)


def _with_weight(arrays: Arrays, turn: Callable[[Array], Array]) -> Arrays:
    def changed(given: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        return tuple(turn(a) if i == 1 and a is not None else a for i, a in enumerate(given))

    return replace(arrays, primals=changed(arrays.primals), tangents=changed(arrays.tangents))


def _turned(turn: Callable[[Array], Array]) -> Callable[[Answer], Answer]:
    """The weight's cotangent is turned back; every turn here undoes itself."""
    return lambda found: tuple(turn(a) if i == 1 else a for i, a in enumerate(found))


def _without_subnormals(array: Array) -> Array:
    """Zeros, with their signs, in place of subnormal numbers."""
    if array.dtype.kind in "iub":
        return array
    with np.errstate(invalid="ignore"):
        small = np.abs(array) < float_limits(array.dtype).smallest_normal
    flushed: Array = np.where(small, np.copysign(array.dtype.type(0), array), array).astype(array.dtype)
    return flushed


def _flushed(arrays: Arrays) -> Arrays | None:
    """The same arrays with zeros for subnormal numbers; None if there are no such numbers."""
    first = arrays.primals[0]
    assert first is not None
    if first.dtype.kind in "iub":
        return None
    given = [a for a in (*arrays.primals, *arrays.tangents, arrays.cotangent) if a is not None]
    if all(np.array_equal(a, _without_subnormals(a), equal_nan=True) for a in given):
        return None

    def flush(listed: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        return tuple(None if a is None else _without_subnormals(a) for a in listed)

    return Arrays(flush(arrays.primals), flush(arrays.tangents), _without_subnormals(arrays.cotangent))
