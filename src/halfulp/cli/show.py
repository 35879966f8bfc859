"""``halfulp show``: one operator on one small input, with its windows, winners, ties and cotangents."""

from __future__ import annotations

import argparse
import re
import sys
from fractions import Fraction
from functools import partial
from math import isfinite, prod
from pathlib import Path
from typing import Any

from halfulp.cli._words import at_least, check_writable, operator_name, suggestion

__all__ = ["add_to"]

_EPILOG = """\
numbers: rows are separated by ';' or new lines, numbers by spaces or commas;
0.1 means 1/10; fractions such as 1/3, nan and inf are numbers too

examples:
  halfulp show max_pool --kernel 2 --stride 1 --input "1 3 3; 0 3 2"
  halfulp show avg_pool --kernel 3 --padding 1 --size 4x5 --output average.svg
  halfulp show conv --weight "1 0; 0 -1" --size 4x4 --window 0,1 --output conv.png"""

_FIELDS = {
    "kernel": ("kernel_size", "kernel size, such as 3 or 2x3 (default 2)"),
    "stride": ("stride", "stride (default: the kernel size; 1 for convolutions)"),
    "padding": ("padding", "padding, such as 1, 1x0, or same, same_lower, valid"),
    "dilation": ("dilation", "dilation"),
    "output_size": ("output_size", "output size of adaptive pooling (default 2)"),
    "output_padding": ("output_padding", "output padding of a transposed convolution"),
}
"""Options with a number per axis: the field of the record, and their help."""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "show",
        help="draw an operator on a small input",
        description="Draw one operator on one input: windows, padding, winners, ties, and where\nthe cotangent flows.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("operator", metavar="OP", help=", ".join(shown_operators()))
    group = command.add_argument_group("the operator")
    for option, (_, text) in _FIELDS.items():
        group.add_argument(f"--{option.replace('_', '-')}", metavar="N", help=text)
    group.add_argument("--ceil-mode", action="store_true", default=None, help="keep a last, partial window")
    group.add_argument("--ties", help="first, last, all or split")
    group.add_argument("--nan", help="propagate or ignore")
    group.add_argument("--exclude-pad", action="store_true", default=None, help="averages do not count padding")
    group.add_argument("--beta", type=float, help="sharpness of a smooth maximum (default 1)")
    group.add_argument("--p", type=float, help="exponent of a norm (default 2)")
    group.add_argument("--weight", help="the kernel of a convolution (default: ones of --kernel)")
    given = command.add_argument_group("the input")
    given.add_argument("--input", help="its numbers")
    given.add_argument("--size", help="its size if no numbers are given (default 4x4)")
    given.add_argument("--seed", type=int, help="seed of the numbers (default 0)")
    given.add_argument("--cotangent", help="numbers to send back (default: ones)")
    output = command.add_argument_group("output")
    output.add_argument("--window", metavar="PLACE", help="the output whose window is marked, such as 1,2")
    output.add_argument("--output", type=Path, metavar="FILE", help="write a picture: .svg, or .png with matplotlib")
    output.add_argument(
        "--windows",
        type=partial(at_least, 0),
        default=12,
        metavar="N",
        help="windows to list (default %(default)s)",
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the scene, and draw it if asked."""
    from halfulp.drawing.scene import make_scene
    from halfulp.drawing.text import to_text
    from halfulp.errors import HalfulpError

    try:
        if options.output is not None:
            _check_picture(options.output)
        declaration = _declaration(options.operator)
        x = _plane(options)
        op, weight = _operator(options, declaration, x.ndim)
        cotangent = None if options.cotangent is None else _numbers("--cotangent", options.cotangent)
        scene = make_scene(op, x, weight, cotangent, _place(options.window))
        if options.output is not None:
            _draw(scene, options.output)
    except (HalfulpError, ValueError, ImportError, OSError) as error:
        print(f"halfulp show: {error}", file=sys.stderr)
        return 2
    print(to_text(scene, options.windows))
    return 0


def _check_picture(path: Path) -> None:
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"--output {path}: must end in .svg or .png")
    check_writable("--output", path)


def _draw(scene: Any, path: Path) -> None:
    from halfulp.drawing.canvas import lay_out

    canvas = lay_out(scene)
    if path.suffix == ".svg":
        from halfulp.drawing.svg import to_svg

        path.write_text(to_svg(canvas, repr(scene.op)), encoding="utf-8")
    else:
        from halfulp.drawing.png import write_png

        write_png(canvas, path)


def _numbers(flag: str, text: str) -> Any:
    """An array of one or two axes, of fractions and of floats that are infinite or NaN."""
    import numpy as np

    rows = [row.replace(",", " ").split() for row in text.replace("\n", ";").split(";") if row.strip()]
    if not rows or len({len(row) for row in rows}) != 1:
        raise ValueError(f"{flag} {text!r}: every row must have the same number of numbers, at least one")
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for place, word in np.ndenumerate(np.array(rows)):
        try:
            array[place] = _number(word)
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"{flag} {text!r}: {str(word)!r} is not a number") from None
    return array[0] if len(rows) == 1 and ";" not in text else array


def _number(word: str) -> Any:
    """A finite number as a fraction; NaN, infinities and -0 as floats."""
    if "/" in word:
        return Fraction(word)
    value = float(word)
    return Fraction(word) if isfinite(value) and value else value


def _plane(options: argparse.Namespace) -> Any:
    import numpy as np

    rank = re.search(r"(\d)d$", options.operator)
    if rank and int(rank[1]) > 2:
        raise ValueError(f"{options.operator}: pictures have one or two axes")
    if options.input is not None:
        for flag in ("size", "seed"):
            if getattr(options, flag) is not None:
                raise ValueError(f"--{flag}: cannot be used with --input")
        x = _numbers("--input", options.input)
    else:
        text = options.size or ("6" if rank and rank[1] == "1" else "4x4")
        sizes = _sizes("--size", text)
        if rank and len(sizes) == 1:
            sizes *= int(rank[1])  # max_pool2d --size 6 is a square
        if len(sizes) > 2:
            raise ValueError(f"--size {text}: pictures have one or two axes")
        if not 0 < prod(sizes) <= 1_000_000 or min(sizes) < 1:
            raise ValueError(f"--size {text}: must be between 1 and a million cells")
        x = np.random.default_rng(options.seed or 0).integers(0, 6, sizes).astype(float)
    if rank and int(rank[1]) != x.ndim:
        raise ValueError(f"{options.operator}: the input has {_axes(x.ndim)}")
    return x


def _place(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.strip("()").replace(",", " ").split())
    except ValueError:
        raise ValueError(f"--window {text}: must be a place in the output, such as 1,2") from None


def _sizes(flag: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.lower().split("x"))
    except ValueError as error:
        raise ValueError(f"{flag} {text}: must be a number per axis, such as 3 or 2x3") from error


def _per_axis(options: argparse.Namespace, name: str, ndim: int, default: Any) -> Any:
    text = getattr(options, name)
    if text is None:
        return default
    if name == "padding" and text in ("same", "same_lower", "valid"):
        return text
    sizes = _sizes(f"--{name.replace('_', '-')}", text)
    return sizes * ndim if len(sizes) == 1 else sizes


def shown_operators() -> tuple[str, ...]:
    """The operators of which there are pictures: a plane in, a plane out, with a weight if need be."""
    from halfulp.records import declarations

    return tuple(d.name for d in declarations() if d.shown)


def _declaration(word: str) -> Any:
    """The operator by any of its names."""
    from halfulp.records import named

    known = shown_operators()
    name = operator_name(word)
    plain = {item.replace("_", ""): item for item in known}
    name = plain.get(name.replace("_", ""), name)
    if name not in known:
        raise ValueError(f"there is no picture of {word!r}{suggestion(name, known)}; there are {', '.join(known)}")
    return named(name)


def _operator(options: argparse.Namespace, declaration: Any, ndim: int) -> tuple[Any, Any]:
    """The record that the options describe, field by field, and a weight for convolutions."""
    from dataclasses import fields

    import numpy as np

    known = {f.name for f in fields(declaration.record)}
    has_weight = "weight" in declaration.inputs
    given: dict[str, Any] = {}
    for option, (name, _) in _FIELDS.items():
        if getattr(options, option) is not None:
            given[name] = _per_axis(options, option, ndim, None)
    for option in ("ceil_mode", "ties", "nan", "beta", "p"):
        if getattr(options, option) is not None:
            given[option] = getattr(options, option)
    if options.exclude_pad:
        given["count_include_pad"] = False
    allowed = known | ({"kernel_size"} if has_weight and options.weight is None else set())
    refused = [name for name in given if name not in allowed] + ["weight"] * bool(options.weight and not has_weight)
    if refused:
        raise ValueError(f"{', '.join(map(_flag, refused))}: does not apply to {_what(declaration, options)}")
    kernel = given.get("kernel_size", (2,) * ndim)
    defaults = {"ndim": ndim, "kernel_size": kernel, "output_size": (2,) * ndim, "beta": 1.0, "p": 2.0}
    op = declaration.record(**{name: value for name, value in (defaults | given).items() if name in known})
    if not has_weight:
        return op, None
    weight = np.ones(kernel) if options.weight is None else _numbers("--weight", options.weight)
    if weight.ndim != ndim:
        raise ValueError(f"--weight has {_axes(weight.ndim)}, but the input has {_axes(ndim)}")
    return op, weight


def _flag(name: str) -> str:
    """The option that gives a field of the record."""
    option = next((option for option, (field, _) in _FIELDS.items() if field == name), name)
    return "--" + {"count_include_pad": "exclude-pad"}.get(option, option).replace("_", "-")


def _what(declaration: Any, options: argparse.Namespace) -> str:
    weighted = "weight" in declaration.inputs and options.weight is not None
    return f"{declaration.name} with --weight" if weighted else str(declaration.name)


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"
