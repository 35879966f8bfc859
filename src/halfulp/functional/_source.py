"""The functional forms as source, made of declarations: for ``tools.generate``, and at run time for anyone's operators.

The forms of the package's own operators are written to ``_generated.py``, where editors and type checkers see them.
"""

from __future__ import annotations

import textwrap
from dataclasses import MISSING, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from halfulp.dispatch import indices
from halfulp.functional._ranks import builder, spatial_rank, value
from halfulp.functional._running import with_running_statistics
from halfulp.records import Declaration, Operator, declaration_of

WIDTH = 120
_AXES = {1: "axis", 2: "two axes", 3: "three axes"}
_OUT = "``out`` is an array of the output's shape and element type that gets the values, and is returned."
_INDICES = (
    "``return_indices=True`` also gives the flat index of that cell within its plane (int64; -1 for a window that has "
    "no real cell)."
)
_EXAMPLES = {
    "kernel_size": (
        "np.array([1.0, 4.0, 2.0, 3.0]), {kernel}(2,){extra}, stride=1",
        "np.array([1.0, 4.0, 2.0, 3.0]), {kernel}2{extra}",
        "np.arange(16.0).reshape(4, 4), {kernel}2{extra}",
        "np.arange(8.0).reshape(2, 2, 2), {kernel}2{extra}",
    ),
    "output_size": (
        "np.array([1.0, 2.0, 6.0]), (2,)",
        "np.array([1.0, 2.0, 6.0]), 2",
        "np.arange(6.0).reshape(2, 3), (1, None)",
        "np.arange(8.0).reshape(2, 2, 2), 1",
    ),
    "ndim": (
        "np.array([1.0, 5.0, 2.0]), 1{extra}",
        "np.array([1.0, 5.0, 2.0]){extra}",
        "np.arange(4.0).reshape(1, 2, 2){extra}, keepdims=False",
        "np.arange(8.0).reshape(2, 2, 2){extra}",
    ),
}


def functions(record: type[Operator]) -> SimpleNamespace:
    """The functional forms of any declared operator, by name.

    >>> import halfulp as hu
    >>> hu.functions(hu.MaxPool).max_pool1d(np.array([1.0, 4.0, 2.0, 3.0]), 2)
    array([4., 3.])
    """
    declaration = declaration_of(record)
    scope: dict[str, Any] = {"Any": Any, record.__name__: record, "builder": builder, "indices": indices}
    scope |= {"with_running_statistics": with_running_statistics}
    scope |= {"spatial_rank": spatial_rank, "value": value, "__name__": record.__module__}
    declaration = replace(declaration, accepts=(), before="")  # those are for the package's own names
    source = "\n\n".join([built(declaration), *forms(declaration, examples=False)])
    exec(compile(source, f"<functional forms of {record.__name__}>", "exec"), scope)
    return SimpleNamespace(**{name: scope[name] for name in declaration.names})


def built(declaration: Declaration) -> str:
    """The line that makes the record's builder."""
    return f"_{declaration.name} = builder({declaration.record.__name__})"


def forms(declaration: Declaration, examples: bool = True) -> list[str]:
    """The source of every form: the plain one, then those with a rank."""
    found = functions(declaration.record) if examples else None
    return [_form(declaration, rank, found) for rank in (None, *declaration.ranks)]


def signature(declaration: Declaration, rank: int | None, annotation: str = "Any", out: bool = True) -> list[str]:
    """The parameters of a form, as source."""
    least = declaration.arity - declaration.optional - len(declaration.trailing)
    parts = [f"{name}: {annotation}" for name in declaration.inputs[:least]]
    optional = annotation if annotation == "Any" else f"{annotation} | None"
    parts += [f"{name}: {optional} = None" for name in declaration.inputs[least:] if name not in declaration.trailing]
    if rank is None and takes_rank(declaration):
        parts.append("ndim: int")
    parameters = declaration.parameters
    parts += [parameter(p) for p in parameters if not p.keyword] + list(declaration.accepts)
    if declaration.before.startswith("if dim is None"):
        parts = [part.replace("dim: int = -1", "dim: int | None = None") for part in parts]
    if declaration.form:
        parts.sort(key=lambda part: declaration.form.index(part.partition(":")[0]))
    if declaration.indices:
        parts.append("return_indices: bool = False")
    keywords = [f"{declaration.renamed.get(name, name)}: {annotation}" for name in declaration.trailing]
    keywords += [parameter(p) for p in parameters if p.keyword] + (["out: Any = None"] if out else [])
    return [*parts, "*", *keywords] if keywords else parts


def takes_rank(declaration: Declaration) -> bool:
    """Whether the form without a suffix asks for the rank: nothing else says it."""
    return declaration.rank_field == "ndim" and not declaration.convolution


def literal(default: Any) -> str:
    """A default as source."""
    return f'"{default}"' if isinstance(default, str) else repr(default)


def parameter(parameter: Any) -> str:
    """A parameter of a signature, as source."""
    text = f"{parameter.name}: {parameter.annotation}"
    return text if parameter.default is MISSING else f"{text} = {literal(parameter.default)}"


def literal_tuple(words: tuple[str, ...]) -> str:
    """Words as the source of a tuple."""
    return "(" + ", ".join(map(literal, words)) + (",)" if len(words) == 1 else ")")


def wrapped(head: str, parts: list[str], tail: str, indent: int = 0) -> str:
    """A call or signature on as few lines as fit."""
    line = f"{head}({', '.join(parts)}){tail}"
    if len(line) <= WIDTH - indent:
        return line
    joined = ", ".join(part.replace(" ", "\0") for part in parts)  # a part stays on one line
    inside = textwrap.wrap(joined, WIDTH - 4 - indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"{head}(", *(f"    {row}".replace("\0", " ") for row in inside), f"){tail}"])


def _form(declaration: Declaration, rank: int | None, found: SimpleNamespace | None) -> str:
    name = declaration.name if rank is None else f"{declaration.name}{rank}d"
    head = wrapped(f"def {name}", signature(declaration, rank), " -> Any:")
    doc = _docstring(declaration, rank, None if found is None else getattr(found, name))
    body = prelude(declaration, rank) + _body(declaration, rank)
    return "\n".join([head, textwrap.indent(doc, "    "), textwrap.indent(body, "    "), "", ""])


def _docstring(declaration: Declaration, rank: int | None, function: Any) -> str:
    if rank is None:
        summary = declaration.summary or str(declaration.record.__doc__).split("\n")[0].rstrip(".")
        if declaration.rank_field == "kernel_size" and len(summary) < 60:
            summary += " over the last ``len(kernel_size)`` axes"
        notes = [_INDICES if declaration.indices else "", declaration.note, _OUT]
        paragraphs = [f"{summary}.", " ".join(note for note in notes if note)]
    else:
        paragraphs = [f":func:`{declaration.name}` over the last {_AXES.get(rank, f'{rank} axes')}."]
    lines = ["\n".join(textwrap.wrap(p, WIDTH - 6)) for p in paragraphs]
    example = example_of(declaration, rank)
    if function is not None and example:
        lines.append(f">>> {function.__name__}({example})\n{eval(f'f({example})', {'np': np, 'f': function})!r}")
    return '"""' + "\n\n".join(lines) + '\n"""'


def example_of(declaration: Declaration, rank: int | None) -> str:
    """The arguments of a form's example, as source."""
    at = 0 if rank is None else 1 + declaration.ranks.index(rank)
    if declaration.examples:
        return declaration.examples[at] if at < len(declaration.examples) else ""
    texts = _EXAMPLES.get(declaration.rank_field or "", ())
    if not texts:
        return ""
    extra = f", {declaration.extra}" if declaration.extra else ""
    return texts[rank or 0].format(kernel="kernel_size=" if declaration.order else "", extra=extra)


def prelude(declaration: Declaration, rank: int | None, out: str = ", out=out") -> str:
    """The statements in front of a call."""
    return declaration.before.format(out=out, rank=rank) + "\n" if declaration.before else ""


def _body(declaration: Declaration, rank: int | None) -> str:
    by_field = {p.field: p.name for p in declaration.parameters}
    values = [by_field[f.name] for f in fields(declaration.record) if f.name in by_field]
    first = str(rank)
    if rank is None and declaration.rank_field == "ndim":
        first = "ndim" if takes_rank(declaration) else f'spatial_rank("{declaration.name}", weight)'
    made = f"_{declaration.name}({', '.join([first, *values])})"
    if len(made) > WIDTH - 9:
        made = f"_{declaration.name}(\n    {', '.join([first, *values])}\n)"
    if declaration.through:
        return f"op = {made}\nreturn {declaration.through}(op, ({', '.join(declaration.inputs)}), out)"
    if declaration.arity > 1:
        first, *others = (declaration.renamed.get(name, name) for name in declaration.inputs)
        given = f"({', '.join([first, *others])}, out=out)"
        if declaration.indices:
            found = f"indices(op, {first}, out, ({', '.join(others)},))"
            return f"op = {made}\nreturn {found} if return_indices else op{given}"
        call = f"return {made}{given}"
        return call if len(call) < WIDTH - 4 else f"op = {made}\nreturn op{given}"
    if declaration.indices:
        return f"op = {made}\nreturn indices(op, input, out) if return_indices else value(op, input, out)"
    call = f"return value({made}, input, out)"
    return call if len(call) < WIDTH - 4 else f"op = {made}\nreturn value(op, input, out)"
