"""One case, one verdict: run a subject, compare with the exact answer, and name what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from halfulp.conformance.cases import Arrays
from halfulp.conformance.diagnosis import changed_record, explain
from halfulp.conformance.fill import float_limits
from halfulp.conformance.oracle import Answer, Oracle, answer
from halfulp.conformance.run import InputChanged, NoAnswer, printable, run_subject
from halfulp.conformance.subjects import Subject, Unsupported
from halfulp.conformance.ulps import BUCKETS, Difference, compare, same_bits
from halfulp.errors import HalfulpError
from halfulp.records import (
    Array,
    AvgPool,
    CrossEntropy,
    MaxPool,
    MSELoss,
    NormalisationOperator,
    Operator,
    SmoothMaxPool,
    SoftmaxOperator,
    Var,
    declaration_of,
    declarations,
)

__all__ = [
    "ASPECTS",
    "CANCELLATION",
    "EMPTY_WINDOW",
    "NOT_REPEATABLE",
    "ROUNDING_NAMES",
    "UNKNOWN",
    "Verdict",
    "judge",
    "judge_indices",
    "repeats",
    "run_subject",
]

ASPECTS: Final[dict[str, str]] = {
    "shape": "the output's shape and element type",
    "value": "finite values, correctly rounded",
    "padding": "what padding and cells beyond it contribute",
    "nan": "what a NaN does",
    "infinity": "infinities and overflow",
    "zero": "the sign of zero",
    "ties": "which of equal maxima wins the index and the derivative",
    "adjoint": "the VJP is the transpose of the subject's own JVP",
    "reproducible": "same bits for any threads, batch, layout and repetition",
    "error": "no crash, hang, exhausted memory, unexpected exception or changed input",
}
"""Aspect -> what is judged under it."""

NOT_REPEATABLE: Final = "differs from run to run"
UNKNOWN: Final = "wrong value, cause unknown"
CANCELLATION: Final = "cancellation: all digits lost"
EMPTY_WINDOW: Final = "a window without a real cell"
_ONE_ULP: Final = "one ulp off"
_SEVERAL_ULPS: Final = "rounding errors of several ulps"
_SHORTER: Final = "accumulates in, or rounds to,"
ROUNDING_NAMES: Final = (_ONE_ULP, _SEVERAL_ULPS, _SHORTER, "subnormal")
"""How the names of rounding errors begin."""

_HARD = tuple(d.record for d in declarations() if d.has_ties and not d.constant)
_LOOK_FURTHER = 16.0
"""Errors of more ulps than this may be more than rounding."""


@dataclass
class Verdict:
    """What one case says about a subject."""

    status: str = "passed"
    aspect: str = ""
    name: str = ""
    message: str = ""
    elements: int = 0
    correct: int = 0
    histogram: tuple[int, ...] = (0,) * BUCKETS
    worst: float = 0.0
    which: int = 0
    position: tuple[int, ...] | None = None
    tested: set[str] = field(default_factory=set)
    rules: dict[str, str] = field(default_factory=dict)
    got: Answer | None = None
    want: Answer | None = None


def judge(subject: Subject, op: Operator, mode: str, oracle: Oracle) -> Verdict:
    """Run one case and say what it shows. Exceptions of the subject are part of the verdict."""
    asked = subject.asked(op)
    try:
        got = run_subject(subject, asked, mode, oracle.arrays)
    except Unsupported as error:
        return Verdict("unsupported", message=printable(str(error)))
    except MemoryError as error:
        return Verdict("crashed", "error", "out of memory", printable(str(error)), tested={"error"})
    except InputChanged as error:
        return Verdict("failed", "error", "changes its input", str(error), tested={"error"})
    except NoAnswer as error:
        return Verdict("failed", "shape", "the result is not an array of numbers", str(error), tested={"shape"})
    except Exception as error:
        return _refused(subject, oracle(asked, mode), error)
    want = oracle(asked, mode)
    if isinstance(want, HalfulpError):
        return Verdict("failed", "error", f"accepts what the specification refuses [{want.label}]", tested={"error"})
    if _right(got, want):
        return compared(asked, mode, oracle, got, want)
    if not repeats(subject, asked, mode, oracle.arrays, got):
        return _not_repeatable(asked, oracle, got, want)
    return compared(asked, mode, oracle, got, want)


def _right(got: Answer, want: Answer) -> bool:
    return len(got) == len(want) and all(same_bits(g, w) for g, w in zip(got, want, strict=True))


def repeats(subject: Subject, op: Operator, mode: str, arrays: Arrays, got: Answer) -> bool:
    """Whether the subject gives the same answer twice more. What does not come back has no other cause."""
    try:
        again = [run_subject(subject, op, mode, arrays) for _ in range(2)]
    except Exception:
        return False
    return all(_right(other, got) for other in again)


def _not_repeatable(op: Operator, oracle: Oracle, got: Answer, want: Answer) -> Verdict:
    verdict = Verdict("failed", tested=_tested(op, oracle, want) | {"reproducible"}, got=got, want=want)
    verdict.aspect, verdict.name = "reproducible", NOT_REPEATABLE
    verdict.message = "a wrong answer that does not come back when the same call is made again"
    verdict.elements = sum(w.size for w in want)
    if not _shapes(got, want):
        verdict.correct = sum(compare(g, w).correct for g, w in zip(got, want, strict=True))
    verdict.histogram = (verdict.correct, *(0,) * (BUCKETS - 1))
    return verdict


def _refused(subject: Subject, want: Answer | HalfulpError, error: Exception) -> Verdict:
    """An exception: right if the specification refuses too, a failure for a complete subject, else no support."""
    kind = printable(type(error).__name__)
    text = f"{kind}: {first_line(error)}"
    if isinstance(want, HalfulpError):
        return Verdict("passed", message=text, tested={"error"})
    if subject.complete and not isinstance(error, NotImplementedError):
        return Verdict("failed", "error", f"raises {kind}", text, tested={"error"})
    return Verdict("unsupported", message=text)


def first_line(error: BaseException) -> str:
    """The first line of an exception's text that says something, at most 200 characters of it.

    >>> first_line(ValueError("Exception from core.cpp:117:\\nnot implemented"))
    'not implemented'
    """
    lines = [printable(line.strip()) for line in _text_of(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.endswith(":")]
    return (telling or lines or [""])[0][:200]


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception of a subject may fail at this, too
        return ""


def compared(op: Operator, mode: str, oracle: Oracle, got: Answer, want: Answer) -> Verdict:
    """The verdict on an answer, given the right one."""
    verdict = Verdict(tested=_tested(op, oracle, want), got=got, want=want)
    if isinstance(op, _HARD) and verdict.tested & {"ties", "nan"}:
        # which of equal maxima gives the value cannot be seen in it
        kept = ("nan",) if mode == "forward" else ("ties", "nan")
        verdict.rules = {k: getattr(op, k) for k in kept if k in verdict.tested}
    mismatch = _shapes(got, want)
    if mismatch:
        verdict.message = mismatch
        return _blame(verdict, "shape", _shape_name(op, mode, oracle, got, want))
    differences = [compare(g, w) for g, w in zip(got, want, strict=True)]
    _count(verdict, differences)
    if not all(d.same for d in differences):
        _classify(verdict, op, mode, oracle, differences)
    return verdict


def _tested(op: Operator, oracle: Oracle, want: Answer) -> set[str]:
    """The aspects that a case can show anything about."""
    tested = {"shape", "value", "error"}
    floats = [a for a in want if a.dtype.kind not in "iub"]
    if any(bool((a == 0).any()) for a in floats):
        tested.add("zero")
    if any(bool(np.isinf(a).any()) for a in floats):
        tested.add("infinity")
    if floats and oracle.has_nan():
        tested.add("nan")
    if isinstance(op, _HARD) and _has_ties(op, oracle):
        tested.add("ties")
    padding = getattr(op, "padding", 0)
    if isinstance(padding, tuple) and any(map(any, padding)) and isinstance(op, (MaxPool, AvgPool, SmoothMaxPool)):
        tested.add("padding")
    return tested


def _has_ties(op: Any, oracle: Oracle) -> bool:
    """Whether the first and the last winner of a window differ."""
    x = oracle.arrays.primals[0]
    if x is None or x.size < 2:
        return False
    quiet = replace(op, nan="propagate") if op.nan == "raise" else op
    first, last = (oracle.indices(replace(quiet, ties=rule)) for rule in ("first", "last"))
    return not np.array_equal(first, last)


def _shapes(got: Answer, want: Answer) -> str:
    """How shapes and types differ; empty if they do not."""
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape:
            return f"shape {g.shape} instead of {w.shape}"
        if g.dtype != w.dtype:
            return f"dtype {g.dtype} instead of {w.dtype}"
    return ""


def _shape_name(op: Operator, mode: str, oracle: Oracle, got: Answer, want: Answer) -> str:
    """Which other geometry gives the subject's shape."""
    if any(g.dtype != w.dtype for g, w in zip(got, want, strict=False)):
        return "wrong element type"
    shapes = [None if a is None else a.shape for a in oracle.arrays.primals]
    for name, changed in _other_geometries(op):
        try:
            if mode != "vjp" and changed.output_shape(*shapes) == got[0].shape:
                return name
        except HalfulpError:
            continue
    if (
        len(got) == len(want) == 1
        and getattr(op, "ceil_mode", False)
        and got[0].ndim == want[0].ndim
        and _keeps_last_window(op, shapes[0], got[0])
    ):
        return "ceil_mode keeps a last window that starts past the input"
    return "wrong shape"


def _other_geometries(op: Any) -> list[tuple[str, Any]]:
    others = []
    if hasattr(op, "ceil_mode"):
        others.append(("ceil_mode is the wrong way round", changed_record(op, ceil_mode=not op.ceil_mode)))
    if any(d != 1 for d in getattr(op, "dilation", ())):
        others.append(("dilation is ignored", changed_record(op, dilation=1)))
    return [(name, changed) for name, changed in others if changed is not None]


def _keeps_last_window(op: Any, shape: Any, got: Array) -> bool:
    axes = op.axes(shape[len(shape) - op.ndim :])
    kept = tuple(-(-(a.padded_size - a.extent) // a.stride) + 1 for a in axes)
    return got.shape[got.ndim - op.ndim :] == kept


def _count(verdict: Verdict, differences: list[Difference]) -> None:
    verdict.elements = sum(d.elements for d in differences)
    verdict.correct = sum(d.correct for d in differences)
    verdict.histogram = tuple(map(sum, zip(*(d.histogram for d in differences), strict=True)))
    verdict.worst = max((d.worst for d in differences), default=0.0)
    wrong = [i for i, d in enumerate(differences) if not d.same]
    if wrong:
        verdict.which = max(wrong, key=lambda i: (differences[i].nan + differences[i].infinity, differences[i].worst))
        verdict.position = differences[verdict.which].position


def _blame(verdict: Verdict, aspect: str, name: str) -> Verdict:
    verdict.status, verdict.aspect, verdict.name = "failed", aspect, name
    if aspect != "value":  # ulps measure rounding; where a rule is broken they say nothing
        verdict.worst = 0.0
        verdict.histogram = (verdict.correct, *(0,) * (BUCKETS - 1))
    verdict.tested.add(aspect)
    return verdict


def _classify(verdict: Verdict, op: Operator, mode: str, oracle: Oracle, differences: list[Difference]) -> None:
    """Give a wrong answer its aspect and name."""
    assert verdict.got is not None
    assert verdict.want is not None
    only_zeros = not any(d.nan or d.infinity or d.value for d in differences)
    special = any(d.nan or d.infinity for d in differences)
    if special or verdict.worst > _LOOK_FURTHER or isinstance(op, _HARD):
        other = explain(op, mode, oracle.arrays, verdict.got, verdict.want)
        if other is not None and (not only_zeros or other.rule in ("first", "last")):  # signs alone explain little
            verdict.rules = {other.aspect: other.rule} if other.rule and other.aspect in verdict.rules else {}
            _blame(verdict, other.aspect, other.name)
            return
    if only_zeros:
        _blame(verdict, "zero", "the sign of zero is wrong")
        return
    aspect, name = _plain_name(verdict, op, mode, oracle, differences)
    verdict.rules = {aspect: "other"} if aspect in verdict.rules else {}
    _blame(verdict, aspect, name)


def _plain_name(
    verdict: Verdict, op: Operator, mode: str, oracle: Oracle, differences: list[Difference]
) -> tuple[str, str]:
    """The name of an error that no other rule explains."""
    assert verdict.got is not None
    assert verdict.want is not None
    got, want = verdict.got[verdict.which], verdict.want[verdict.which]
    difference = differences[verdict.which]
    if isinstance(op, _HARD) and mode != "forward" and oracle.has_nan():
        return "nan", "no rule explains the derivative at a NaN"
    if isinstance(op, _HARD) and mode != "forward" and "ties" in verdict.tested:
        return "ties", "no tie rule explains the derivative"
    if isinstance(op, MaxPool) and _empty_windows_differ(op, mode, oracle, got, want):
        return "padding", f"{EMPTY_WINDOW} gives {_sample(got, want)} instead of 0"
    if difference.nan:
        if oracle.has_nan() or bool(np.isnan(want).any() and not np.isnan(got).any()):
            return "nan", "NaN where there should be none" if _extra_nan(got, want) else "a NaN is lost"
        return "infinity", "NaN out of infinities or overflow" if _extra_nan(got, want) else "a NaN is lost"
    if difference.infinity:
        return "infinity", "overflows although the result is finite" if _extra_inf(got, want) else "loses an infinity"
    return "value", _rounding_name(verdict, op, mode, oracle)


def _rounding_name(verdict: Verdict, op: Operator, mode: str, oracle: Oracle) -> str:
    assert verdict.got is not None
    assert verdict.want is not None
    got, want = verdict.got[verdict.which], verdict.want[verdict.which]
    if isinstance(op, _HARD) and mode == "forward":
        return "not the maximum"
    if _flushes(got, want):
        return "subnormal results are flushed to zero"
    if verdict.worst <= 1:
        return _ONE_ULP
    shorter = _shorter_type(got, want)
    if shorter:
        return f"{_SHORTER} {shorter}"
    if not _is_rounding(verdict, op, mode, oracle.arrays):
        return UNKNOWN
    return CANCELLATION if _no_digit_left(got, want) else _SEVERAL_ULPS


def _no_digit_left(got: Array, want: Array) -> bool:
    """Whether some element is off by its own size or more: its ulps say no more than that."""
    with np.errstate(all="ignore"):
        off = (got != want) & (np.abs(got.astype(float) - want.astype(float)) >= np.abs(want.astype(float)))
    large = np.abs(want) >= float_limits(want.dtype).smallest_normal
    return bool((off & (large | (want == 0)) & np.isfinite(got)).any())


def _flushes(got: Array, want: Array) -> bool:
    wrong = (got != want) & ~(np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        small = np.abs(want) < float_limits(want.dtype).smallest_normal
    return bool(np.all((got == 0) & small | ~wrong))


def _shorter_type(got: Array, want: Array) -> str:
    """A shorter float type that holds every wrong element, though not the right ones; empty if there is none."""
    with np.errstate(all="ignore"):
        off = (got != want) & np.isfinite(got) & np.isfinite(want)
        wrong, right = got[off], want[off]
        for kind in map(np.dtype, (ml_dtypes.bfloat16, np.float16, np.float32)):
            if kind.itemsize >= got.dtype.itemsize:
                continue
            held = (wrong.astype(kind).astype(got.dtype) == wrong) & (wrong != 0)
            distinct = right.astype(kind).astype(got.dtype) != right
            near = np.abs(wrong - right) <= np.abs(right) * (2.0 ** -int(float_limits(kind).nmant) * 8)
            if wrong.size > 1 and held.all() and near.all() and distinct.mean() > 0.9:
                return str(kind.name)
    return ""


def _is_rounding(verdict: Verdict, op: Operator, mode: str, arrays: Arrays) -> bool:
    """Whether the error is small beside the sum of the terms' sizes: then it is rounding, else it is wrong."""
    assert verdict.got is not None
    assert verdict.want is not None
    if isinstance(op, _CENTRED):
        return _moves_so_far(verdict, op, mode, arrays)
    primals = arrays.primals if isinstance(op, _HARD) else _sizes(arrays.primals)  # a maximum keeps its winners
    sizes = Arrays(primals, _sizes(arrays.tangents), np.abs(arrays.cotangent))
    if isinstance(op, AvgPool) and op.divisor_override is not None:
        op = replace(op, divisor_override=abs(op.divisor_override))
    try:
        scale = answer(op, mode, sizes)[verdict.which].astype(float)
    except HalfulpError:
        return False
    got, want = (a[verdict.which].astype(float) for a in (verdict.got, verdict.want))
    limits = float_limits(verdict.want[verdict.which].dtype)
    with np.errstate(all="ignore"):
        if isinstance(op, SmoothMaxPool):
            scale = np.maximum(scale, 1.0)
            share = float(limits.eps) ** 0.5
        else:  # each term rounds a few times at most
            terms = sum(a.size for a in arrays.primals if a is not None)
            share = min(float(limits.eps) ** 0.5, (terms + 16) * float(limits.eps))
        allowed = scale * share + 64 * float(limits.smallest_subnormal)
        off = np.abs(got - want) > allowed
    return not bool(off[np.isfinite(got) & np.isfinite(want)].any())


_CENTRED = (NormalisationOperator, SoftmaxOperator, CrossEntropy, MSELoss, Var)
"""Operators of differences: the sizes of their terms are not those of their inputs."""
_MOVES = 8


def _moves_so_far(verdict: Verdict, op: Operator, mode: str, arrays: Arrays) -> bool:
    """Whether rounding errors of the inputs move the answer as far as it is off."""
    assert verdict.got is not None
    assert verdict.want is not None
    got, want = (a[verdict.which].astype(float) for a in (verdict.got, verdict.want))
    limits = float_limits(verdict.want[verdict.which].dtype)
    rng, eps = np.random.default_rng(0), float(limits.eps)

    def wide(given: Array | None, step: float) -> Array | None:
        if given is None or given.dtype.kind in "iu":
            return given
        return np.asarray(given.astype(float) * (1 + step * rng.uniform(-1, 1, given.shape)))

    def moved(step: float) -> Array:
        primals, tangents = (tuple(wide(a, step) for a in arrays_) for arrays_ in (arrays.primals, arrays.tangents))
        g = wide(arrays.cotangent, step)
        assert g is not None
        if mode == "forward":
            return np.asarray(op(*primals))
        if mode == "jvp":
            return np.asarray(op.jvp(primals, tangents)[1])
        return np.asarray([a for a in op.vjp(*primals)[1](g) if a is not None][verdict.which])

    terms = sum(a.size for a in arrays.primals if a is not None) + 16
    with np.errstate(all="ignore"):
        still = moved(0.0)
        reach = np.max([np.abs(moved(eps) - still) for _ in range(_MOVES)], axis=0)
        allowed = terms * (reach + eps * np.abs(still)) + 64 * float(limits.smallest_subnormal)
        off = np.abs(got - want) > allowed
    return not bool(off[np.isfinite(got) & np.isfinite(want) & np.isfinite(allowed)].any())


def _sizes(arrays: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
    return tuple(None if a is None else np.abs(a) for a in arrays)


def _extra_nan(got: Array, want: Array) -> bool:
    return bool((np.isnan(got) & ~np.isnan(want)).any())


def _extra_inf(got: Array, want: Array) -> bool:
    return bool((np.isinf(got) & np.isfinite(want)).any())


def _empty_windows_differ(op: MaxPool, mode: str, oracle: Oracle, got: Array, want: Array) -> bool:
    """Whether everything that is wrong is wrong in windows without a real cell."""
    if mode != "forward" or got.shape != want.shape:
        return False
    empty = oracle.indices(replace(op, nan="propagate")) == -1
    return bool(empty.any()) and same_bits(np.where(empty, want, got).astype(want.dtype), want)


def _sample(got: Array, want: Array) -> str:
    wrong = got[~((got == want) | (np.isnan(got) & np.isnan(want)))]
    return str(wrong.ravel()[0]) if wrong.size else "-0.0"


def judge_indices(subject: Subject, op: Any, oracle: Oracle) -> Verdict | None:
    """The verdict on a subject's indices; None where it gives none."""
    asked: Any = subject.asked(op)
    x = oracle.arrays.primals[0]
    if not declaration_of(asked).indices or len(oracle.arrays.primals) > 1 or x is None:
        return None
    try:
        got = np.asarray(subject.indices(asked, x))
        want = oracle.indices(asked)
    except Exception:  # support and errors are judged by the forward mode
        return None
    if got.shape == want.shape and np.array_equal(got, want):
        return None
    if got.shape != want.shape or got.dtype.kind not in "iu":
        verdict = Verdict(tested={"shape"}, got=(got,), want=(want,))
        verdict.message = f"indices of shape {got.shape} and dtype {got.dtype} instead of {want.shape}, int64"
        return _blame(verdict, "shape", "the indices have a wrong shape or element type")
    verdict = Verdict(tested={"ties"}, got=(got,), want=(want,))
    verdict.position = tuple(int(i) for i in np.argwhere(got != want)[0])
    if oracle.has_nan():
        return _blame(verdict, "ties", "the index is not that of the first NaN")
    rules = {rule: oracle.indices(replace(asked, ties=rule)) for rule in ("first", "last")}
    for rule, indices in rules.items():
        if np.array_equal(got, indices):
            return _blame(verdict, "ties", f"the index is that of the {rule} maximum")
    empty = want == -1
    if np.array_equal(np.where(empty, -1, got), want):
        return _blame(verdict, "padding", f"{EMPTY_WINDOW} has an index other than -1")
    return _blame(verdict, "ties", "wrong index")
