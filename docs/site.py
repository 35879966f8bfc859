"""What the documentation site needs beyond Markdown.

- formulas between dollars become MathML, so a reader's browser fetches nothing for them;
- a label such as [W3] links to the register of constraints;
- the copy button copies code without prompts and output;
- the home page shows the figures of README.md;
- one API page for every module, made of its public names;
- notebooks are shown as pages.

MkDocs loads this file as a hook, and mkdocstrings as an extension (see mkdocs.yml).
"""

from __future__ import annotations

import html
import importlib
import inspect
import json
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
_CODE = re.compile(r"(^[ ]*```.*?^[ ]*```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"\$([^$]+?)\$")
_EXAMPLE = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.DOTALL | re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`([^`]+)`")
_LABEL = re.compile(r"(?<![\]\w\\])\[([A-Z]\d+)\](?![(\[:])")
_PROMPTS = re.compile(r"^( *)```python\n(?=\s*>>> )", re.MULTILINE)
_COMMANDS = re.compile(r"^( *)```console\n(?! *\$ )", re.MULTILINE)
_HIGHLIGHT = re.compile(r'<div class="([^"]*\bhighlight)">(.*?)</div>', re.DOTALL)
_README = re.compile(r"^<!-- README: (\w+) -->$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """The version in the header and in titles, from pyproject.toml."""
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    config.site_name = f"halfulp {version}"
    return config


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Pages that are made of the package and of notebooks."""
    made = {f"reference/api/{name}.md": text for name, text in api_pages().items()}
    notebooks = [file for file in files if file.src_uri.endswith(".ipynb")]
    made |= {file.src_uri.replace(".ipynb", ".md"): notebook_page(Path(file.abs_src_path)) for file in notebooks}
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def api_pages() -> dict[str, str]:
    """Page -> Markdown with one entry for every public name."""
    pages = {}
    for page, (title, text) in TOP_LEVEL.items():
        names = [name for name in importlib.import_module("halfulp").__all__ if group(name) == page]
        pages[page] = entries(title, text, "halfulp", names)
    for page, (module, text) in MODULES.items():
        found = imported(module)
        names = [name for name in found.__all__ if not inspect.ismodule(getattr(found, name))]
        pages[page] = entries(module, text, module, names)
    return pages


def imported(module: str) -> Any:
    """A public module; ``halfulp.ops`` is one by its name only."""
    name = module.removeprefix("halfulp.")
    found = getattr(importlib.import_module("halfulp"), name, None)
    return found or importlib.import_module(module)


def api_table() -> str:
    """The modules and their pages."""
    titles = {page: title for page, (title, _) in (TOP_LEVEL | MODULES).items()}
    names = {page: re.findall(r"^::: halfulp\.(\S+)$", text, re.MULTILINE) for page, text in api_pages().items()}
    rows = [f"| [{titles[page]}]({page}.md) | {len(found)} | `{found[0]}`, … |" for page, found in names.items()]
    return "\n".join(["| page | names | |", "|---|---|---|", *rows])


TOP_LEVEL = {
    "functions": (
        "halfulp: functions",
        "The names, argument names and defaults of `torch.nn.functional`, on NumPy arrays. A name without "
        "`1d`, `2d` or `3d` takes any number of spatial axes.",
    ),
    "operators": (
        "halfulp: operators",
        "Operators as objects; see [the specification](../../spec.md) for their meaning, and "
        "[your own operator](../../how-to/your-own-operator.md).",
    ),
    "autograd": ("halfulp: derivatives", "Derivatives of Python functions, and the tape that they use."),
    "numbers": ("halfulp: numbers, threads, errors", "Exact numbers, rounding, the number of threads, exceptions."),
}
MODULES = {
    "ops": ("halfulp.ops", "Functions of networks. They take arrays and traced values."),
    "spec": ("halfulp.spec", "The executable [specification](../../spec.md)."),
    "geometry": ("halfulp.geometry", "Windows, padding and output sizes."),
    "torch": ("halfulp.torch", "See [use it from PyTorch](../../how-to/pytorch.md)."),
    "torch-optim": ("halfulp.torch.optim", "See [reproducible training](../../how-to/reproducible-training.md)."),
    "torch-distributed": (
        "halfulp.torch.distributed",
        "See [reproducible training](../../how-to/reproducible-training.md).",
    ),
    "jax": ("halfulp.jax", "See [use it from JAX](../../how-to/jax.md)."),
    "onnx": ("halfulp.onnx", "See [run an ONNX model](../../how-to/onnx.md)."),
    "bounds": ("halfulp.bounds", "See [bound a network](../../how-to/bound-a-network.md)."),
    "xarray": ("halfulp.xarray", "See [images larger than memory](../../how-to/images-larger-than-memory.md)."),
    "pyramid": ("halfulp.pyramid", "See [images larger than memory](../../how-to/images-larger-than-memory.md)."),
    "conformance": ("halfulp.conformance", "See [check a backend](../../how-to/check-your-backend.md)."),
}


def group(name: str) -> str:
    """The page of a name of ``halfulp`` itself, by where it is defined."""
    package = importlib.import_module("halfulp")
    value = getattr(package, name)
    if inspect.ismodule(value):
        return "a module of its own"
    layer = value.__module__.split(".")[1]
    return {"functional": "functions", "records": "operators", "autograd": "autograd"}.get(layer, "numbers")


def entries(title: str, text: str, module: str, names: list[str]) -> str:
    """One API page."""
    return "\n".join([f"# {title}\n", f"{text}\n", *(f"::: {module}.{name}\n" for name in sorted(names))])


def notebook_page(path: Path) -> str:
    """A notebook as Markdown, with the outputs that are stored in it."""
    parts = [f'<p><a href="../{path.name}" download>Download this notebook</a></p>']
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := output_as_markdown(output))]
    title, _, rest = parts[1].partition("\n")
    return "\n\n".join([title, parts[0], rest, *parts[2:]]) + "\n"


def output_as_markdown(output: dict[str, Any]) -> str:
    """One output of a cell: a picture, a table, or text."""
    data = output.get("data", {})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            return f'<div class="output">{"".join(data[kind])}</div>'
    text = "".join(data.get("text/plain", output.get("text", "")))
    return f"```text\n{text.rstrip()}\n```" if text else ""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Parts of README.md, formulas, labels, and the languages of code blocks."""
    markdown = _README.sub(lambda match: readme_part(match.group(1)), markdown)
    markdown = markdown.replace("<!-- API -->", api_table() if "<!-- API -->" in markdown else "")
    markdown = re.sub(r"(\]\([\w/.-]+)\.ipynb\)", r"\1.md)", markdown)
    register = posixpath.relpath("spec.md", posixpath.dirname(page.file.src_uri) or ".")
    pieces = _CODE.split(markdown)
    text = "".join(p if i % 2 else with_labels(with_formulas(p), register) for i, p in enumerate(pieces))
    return _COMMANDS.sub(r"\1```bash\n", _PROMPTS.sub(r"\1```pycon\n", text))


def on_page_content(content: str, **_: Any) -> str:
    """Blocks with prompts get the text that the copy button copies."""
    return _HIGHLIGHT.sub(with_copy, content)


def with_copy(match: re.Match[str]) -> str:
    """A highlighted block; Material's copy button copies the attribute ``data-copy`` if there is one."""
    classes, block = match.groups()
    if '<span class="gp">' not in block:
        return match.group()
    return f'<div class="{classes}" data-copy="{copied(block)}">{block}</div>'


def readme_part(name: str) -> str:
    """What stands between the marks of a part of README.md, with links from the folder docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (part,) = re.findall(rf"publish: {name} -->\n(.*?)\n<!-- end of {name} -->", text, re.DOTALL)
    return part.replace("](docs/", "](")


def with_formulas(text: str) -> str:
    """``$…$`` and ``$$…$$`` of a text as MathML."""
    text = _BLOCK.sub(
        lambda match: f'<div class="formula">{convert(match.group(1).strip(), display="block")}</div>', text
    )
    # Markdown takes a line that begins with an unknown tag for a block of its own; a span is part of a sentence.
    return _INLINE.sub(lambda match: f'<span class="formula">{convert(match.group(1))}</span>', text)


def with_labels(text: str, register: str) -> str:
    """Labels as links to the register, and the rows of the register as their targets."""
    text = re.sub(
        r"^\| \[([A-Z]\d+)\] \|", lambda m: f'| <a id="{m.group(1)}"></a>\\[{m.group(1)}\\] |', text, flags=re.MULTILINE
    )
    return _LABEL.sub(lambda m: f"[\\[{m.group(1)}\\]]({register}#{m.group(1)})", text)


def copied(block: str) -> str:
    """The code of a block with prompts, escaped for an attribute."""
    lines = html.unescape(re.sub(r"<[^>]+>", "", block)).splitlines()
    code = [re.sub(r"^(>>>|\.\.\.|\$) ?", "", line) for line in lines if re.match(r"(>>>|\.\.\.|\$)( |$)", line)]
    return html.escape("\n".join(code))


def as_markdown(docstring: str) -> str:
    """Examples in fences, names without the roles of reStructuredText, and labels as links."""
    fenced = _EXAMPLE.sub(lambda match: f"```pycon\n{match.group().rstrip()}\n```\n", docstring)
    pieces = _CODE.split(_ROLE.sub(r"`\1`", fenced))
    return "".join(piece if i % 2 else _LABEL.sub(r"`[\1]`", piece) for i, piece in enumerate(pieces))


class Docstrings(griffe.Extension):
    """Every docstring as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
