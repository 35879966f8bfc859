"""Scripts that compare a subject with itself: other threads, batches or layouts, and its VJP with its JVP.

They are made of the script that a subject writes for one call. Its lines become a function whose arguments are what
changes; imports and arrays stay outside.
"""

from __future__ import annotations

import re
from typing import Any

from halfulp.conformance.cases import Arrays
from halfulp.conformance.fill import float_limits
from halfulp.conformance.subjects import Subject
from halfulp.conformance.subjects import _source as source
from halfulp.records import Operator

__all__ = ["adjoint_script", "circumstance_script"]

_LAYOUTS = {
    "channels last": "np.moveaxis(np.ascontiguousarray(np.moveaxis({0}, 1, -1)), -1, 1)",
    "negative strides": "np.ascontiguousarray({0}[..., ::-1])[..., ::-1]",
}
_COMPARE = """\
same = ((first == second) & (np.signbit(first) == np.signbit(second))) | ((first != first) & (second != second))
print((~same).sum(), "of", same.size, "elements differ")
raise SystemExit(0 if same.all() else "the bits differ")
"""
_TRANSPOSE = """\
def terms(a, b):
    return [Fraction(float(p)) * Fraction(float(q)) for p, q in zip(np.ravel(a), np.ravel(b), strict=True)]

pushed = terms(g, tangent())
pulled = [term for i, direction in zip(places, directions) for term in terms(cotangent(i), direction)]
print("<g, J t>  =", float(sum(pushed)))
print("<Jᵀ g, t> =", float(sum(pulled)))
"""


def circumstance_script(subject: Subject, op: Operator, mode: str, arrays: Arrays, name: str) -> str | None:
    """A script that shows how a circumstance changes the bits; None for a subject that writes no scripts."""
    own = subject.circumstance_script(op, mode, arrays, name)
    body = subject.script(op, mode, arrays)
    if own is not None or body is None:
        return own
    body = subject.with_threads(body)
    moved = {"forward": ["x"], "jvp": ["x", "dx"], "vjp": ["x", "cotangent"]}[mode]
    listed = ", ".join(moved)
    lines = [*_imports(body), *_assigned(body, moved), "", *_function("answer", [*moved, "threads=1", "which=0"], body)]
    places = range(sum(a is not None for a in arrays.primals)) if mode == "vjp" and "batch" not in name else [0]

    def answers(target: str, arguments: str) -> str:
        calls = [f"answer({arguments}, which={i}).ravel()" for i in places]
        return f"{target} = np.concatenate([{', '.join(calls)}])"

    lines.append(answers("first", listed))
    if "threads" in name:
        lines.append(answers("second", f"{listed}, threads=2"))
    elif "batch" in name:
        alone = subject.with_threads(subject.script(op, mode, _one_sample(arrays)) or "")
        lines += ["", *_function("alone", [*moved, "threads=1", "which=0"], alone)]
        cut = ", ".join(f"{item}[i : i + 1]" for item in moved)
        lines.append(f"second = np.concatenate([alone({cut}).ravel() for i in range(len(x))])")
    elif "layout" in name:
        form = next(text for words, text in _LAYOUTS.items() if words in name)
        lines += [f"{item} = {form.format(item)}" for item in moved if item != "cotangent"]
        lines.append(answers("second", listed))
    else:
        lines.append(answers("second", listed))
    return "\n".join([*lines, _COMPARE])


def adjoint_script(subject: Subject, op: Operator, arrays: Arrays) -> str | None:
    """A script that sets <g, J t> beside <Jᵀ g, t>, both exact sums of what the subject gives."""
    push, pull = subject.script(op, "jvp", arrays), subject.script(op, "vjp", arrays)
    if push is None or pull is None:
        return None
    given = [(i, t) for i, t in enumerate(arrays.tangents) if t is not None]
    allowed = 64 * float(float_limits(arrays.cotangent.dtype).eps)
    lines = ["from fractions import Fraction", "", *_imports(push), ""]
    lines += [*_function("tangent", [], push), *_function("cotangent", ["which"], pull)]
    lines.append(f"g = {source.literal(arrays.cotangent)}")
    lines.append(f"directions = [{', '.join(source.literal(t) for _, t in given)}]")
    lines.append(f"places = {[i for i, _ in given]}")
    end = [
        f"allowed = {allowed!r} * (sum(map(abs, pushed)) + sum(map(abs, pulled)))",
        "transposes = abs(sum(pushed) - sum(pulled)) <= allowed",
        'raise SystemExit(0 if transposes else "the VJP is not the transpose of the JVP")',
        "",
    ]
    return "\n".join([*lines, "", _TRANSPOSE + "\n".join(end)])


def _is_import(line: str) -> bool:
    return line.startswith(("import ", "from ", "jax.config."))


def _imports(body: str) -> list[str]:
    return [line for line in body.splitlines() if _is_import(line)]


def _assigned(body: str, names: list[str]) -> list[str]:
    """The lines that make these arrays."""
    return [line for line in body.splitlines() if re.match(rf"({'|'.join(names)}) = ", line)]


def _function(name: str, arguments: list[str], body: str) -> list[str]:
    """The body as a function; what it gets as arguments it does not make itself."""
    made = set(_assigned(body, [a for a in arguments if "=" not in a] or ["-"]))
    inside = [line for line in body.splitlines() if line not in made and not _is_import(line)]
    indented = [f"    {line}".rstrip() for line in inside]
    return [f"def {name}({', '.join(arguments)}):", *indented, "    return np.asarray(got)", ""]


def _one_sample(arrays: Arrays) -> Arrays:
    """Arrays of a batch of one; their numbers are given when the script calls."""

    def first(array: Any) -> Any:
        return None if array is None else source.Seeded.make(0, (1, *array.shape[1:]), array.dtype)

    x, dx = first(arrays.primals[0]), first(arrays.tangents[0])
    return Arrays((x, *arrays.primals[1:]), (dx, *arrays.tangents[1:]), first(arrays.cotangent))
