"""``halfulp check SUBJECT --replay CASE``: one case of a campaign again, with its input and both answers."""

from __future__ import annotations

import sys

__all__ = ["replay"]


def replay(subject_names: list[str], keys: list[str], seed: int) -> int:
    """Print cases; the exit code is 1 if a subject fails in one of them."""
    from halfulp.conformance import SubjectError
    from halfulp.conformance.subjects import load_subjects

    failed = False
    try:
        for subject in load_subjects(subject_names):
            for key in keys:
                failed |= _replay_one(subject, key, seed)
    except (SubjectError, ValueError, KeyError, IndexError) as error:
        print(f"halfulp check: --replay: {_reason(error, keys)}", file=sys.stderr)
        return 2
    return int(failed)


def _reason(error: Exception, keys: list[str]) -> str:
    from halfulp.conformance import SubjectError

    if isinstance(error, SubjectError):
        return str(error)
    return f"{', '.join(keys)}: a case is called operator/mode/dtype/setting.filling, such as conv/vjp/float32/60.0"


def _replay_one(subject: object, key: str, seed: int) -> bool:
    from halfulp.conformance.reproduce import answer_text, script_for, verdict_on
    from halfulp.conformance.shrink import Sample
    from halfulp.conformance.subjects import Subject
    from halfulp.conformance.units import case_of

    assert isinstance(subject, Subject)
    case = case_of(key, seed)
    sample = Sample(subject.asked(case.setting.op), case.arrays())
    verdict = verdict_on(subject, sample, case.mode)
    print(f"{subject.name} {subject.version}: {key} (seed {seed}; {case.label}; layout {case.setting.layout})")
    print(f"{sample.op!r} on {', '.join(str(s) for s in case.setting.shapes)}")
    kind = f"{verdict.aspect}: " if verdict.aspect else ""
    print(f"{verdict.status}: {kind}{verdict.name or verdict.message or 'right'}")
    if verdict.worst:
        print(f"largest error: {verdict.worst:g} ulps, in element {verdict.position}")
    if verdict.got is not None and verdict.want is not None:
        print(f"got  {answer_text(verdict.got, verdict.which)}")
        print(f"want {answer_text(verdict.want, verdict.which)}")
    script = script_for(subject, sample, case.mode, verdict, f"{key}: {verdict.name or verdict.status}")
    if script is not None and verdict.status != "unsupported":
        print(f"\n{script}")
    return verdict.status in ("failed", "crashed")
