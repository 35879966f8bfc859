"""What the documentation site needs beyond Markdown: formulas as MathML, and docstrings as a page can show them.

MkDocs loads it as a hook and mkdocstrings as an extension (see mkdocs.yml). A reader's browser fetches nothing for it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe
from latex2mathml.converter import convert

_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"\$([^$]+?)\$")
_EXAMPLE = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.DOTALL | re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`([^`]+)`")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Formulas between dollars, outside of code, as MathML."""
    pieces = _CODE.split(markdown)
    return "".join(piece if i % 2 else with_formulas(piece) for i, piece in enumerate(pieces))


def with_formulas(text: str) -> str:
    """``$…$`` and ``$$…$$`` of a text as MathML."""
    text = _BLOCK.sub(lambda match: convert(match.group(1).strip(), display="block"), text)
    # Markdown takes a line that begins with an unknown tag for a block of its own; a span is part of a sentence.
    return _INLINE.sub(lambda match: f"<span>{convert(match.group(1))}</span>", text)


def as_markdown(docstring: str) -> str:
    """Examples in fences, and names without the roles of reStructuredText."""
    fenced = _EXAMPLE.sub(lambda match: f"```python\n{match.group().rstrip()}\n```\n", docstring)
    return _ROLE.sub(r"`\1`", fenced)


class Docstrings(griffe.Extension):
    """Every docstring as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
