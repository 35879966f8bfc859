"""A failure as a script: shrunk to the smallest input that still shows it, runnable with the framework and NumPy."""

from __future__ import annotations

from halfulp.conformance import probes
from halfulp.conformance.adjoint import judge_adjoint
from halfulp.conformance.cases import Case
from halfulp.conformance.circumstances import adjoint_script
from halfulp.conformance.oracle import Oracle
from halfulp.conformance.report.result import Reproducer
from halfulp.conformance.shrink import Sample, shrink
from halfulp.conformance.subjects import Subject
from halfulp.conformance.subjects import _source as source
from halfulp.conformance.units import case_of
from halfulp.conformance.verdict import Verdict, judge, judge_indices
from halfulp.records import Array

__all__ = ["answer_text", "reproduce", "script_for", "verdict_on"]

_COMPARE = """\
got = np.asarray(got)
print("got ", got.tolist())
print("want", want.tolist())
same = got.shape == want.shape and np.all(
    ((got == want) & (np.signbit(got) == np.signbit(want))) | ((got != got) & (want != want))
)
raise SystemExit(0 if same else "the answer differs from the exact one, rounded once")"""


def reproduce(subject: Subject, key: str, aspect: str, name: str, seed: int) -> Reproducer | None:
    """The reproducer of a failing case; None where a single call cannot show the failure."""
    if key.endswith("probes"):
        return _circumstance(subject, key, aspect, name)
    case = case_of(key, seed)
    if aspect == "adjoint":
        return _adjoint(subject, key, case, name)
    sample = Sample(subject.asked(case.setting.op), case.arrays())
    if aspect != "error":
        sample = shrink(sample, lambda smaller: _shows(subject, smaller, case.mode, aspect, name), case.mode)
        verdict = verdict_on(subject, sample, case.mode)
        if (verdict.aspect, verdict.name) != (aspect, name):  # a failure that does not come back
            return None
    else:
        verdict = Verdict()
    script = script_for(subject, sample, case.mode, verdict, f"{case.operator}, {case.mode}, {case.dtype}: {name}")
    if script is None:
        return None
    return Reproducer(
        aspect,
        name,
        case.operator,
        case.mode,
        case.dtype,
        key,
        repr(sample.op),
        script,
        answer_text(verdict.got, verdict.which),
        answer_text(verdict.want, verdict.which),
    )


def _circumstance(subject: Subject, key: str, aspect: str, name: str) -> Reproducer | None:
    """A script for bits that depend on threads, batch or layout; the input is as large as threads need."""
    operator, mode, dtype, _ = key.split("/")
    body = probes.script(subject, operator, mode, dtype, name)
    if body is None:
        return None
    head = [f"# {subject.name} {subject.version}".rstrip(), f"# {operator}, {mode}, {dtype}: {name}", ""]
    return Reproducer(aspect, name, operator, mode, dtype, key, operator, "\n".join([*head, body]))


def _adjoint(subject: Subject, key: str, case: Case, name: str) -> Reproducer | None:
    """A script for a VJP that is not the transpose of the JVP."""

    def shows(sample: Sample) -> bool:
        verdict = judge_adjoint(subject, sample.op, "integers", Oracle(sample.arrays))
        return verdict is not None and verdict.aspect == "adjoint"

    sample = shrink(Sample(subject.asked(case.setting.op), case.arrays()), shows)
    body = adjoint_script(subject, sample.op, sample.arrays)
    if body is None:
        return None
    title = f"{case.operator}, {case.mode}, {case.dtype}: {name}"
    text = "\n".join([f"# {subject.name} {subject.version}".rstrip(), f"# {title}", f"# {sample.op!r}", "", body])
    return Reproducer("adjoint", name, case.operator, case.mode, case.dtype, key, repr(sample.op), text)


def verdict_on(subject: Subject, sample: Sample, mode: str) -> Verdict:
    """The verdict on a sample, its indices included."""
    oracle = Oracle(sample.arrays)
    verdict = judge(subject, sample.op, mode, oracle)
    if mode == "forward" and verdict.status == "passed" and hasattr(sample.op, "ties"):
        return judge_indices(subject, sample.op, oracle) or verdict
    return verdict


def _shows(subject: Subject, sample: Sample, mode: str, aspect: str, name: str) -> bool:
    verdict = verdict_on(subject, sample, mode)
    return (verdict.aspect, verdict.name) == (aspect, name)


def script_for(subject: Subject, sample: Sample, mode: str, verdict: Verdict, title: str) -> str | None:
    """The whole script: what it shows, the call, the exact answer, and the comparison."""
    indices = "index" in verdict.name
    body = subject.script(sample.op, mode, sample.arrays, indices)
    if body is None:
        return None
    lines = [f"# {subject.name} {subject.version}".rstrip(), f"# {title}", f"# {sample.op!r}", ""]
    if mode == "vjp":
        lines.append(f"which = {verdict.which}  # the input whose cotangent is wrong")
    lines.append(body)
    if verdict.want is None:
        return "\n".join([*lines, "print(got)", ""])
    want = verdict.want[verdict.which]
    dtype = {"bfloat16": "float32"}.get(want.dtype.name, want.dtype.name)
    comment = f"  # in {want.dtype.name}, which float32 holds exactly" if want.dtype.name == "bfloat16" else ""
    lines.append(f"want = {source.literal(want)}.astype(np.{dtype}){comment}")
    return "\n".join([*lines, _COMPARE, ""])


def answer_text(answers: tuple[Array, ...] | None, which: int) -> str:
    """One of several answers as text, of at most 2000 characters."""
    return "" if answers is None or which >= len(answers) else str(answers[which].tolist())[:2000]
