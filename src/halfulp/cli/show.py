"""``halfulp show``: one operator on one small input, with its windows, winners, ties and cotangents."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

__all__ = ["add_to"]

_EPILOG = """\
numbers: rows are separated by ';' or new lines, numbers by spaces or commas;
nan and inf are numbers too

examples:
  halfulp show max_pool --kernel 2 --stride 1 --input "1 3 3; 0 3 2"
  halfulp show avg_pool --kernel 3 --padding 1 --size 4x5 --output average.svg
  halfulp show conv --weight "1 0; 0 -1" --size 4x4 --output conv.png"""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "show",
        help="draw an operator on a small input",
        description="Draw one operator on one input: windows, padding, winners, ties, and where\nthe cotangent flows.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    operators = shown_operators()
    command.add_argument("operator", choices=operators, metavar="OP", help=", ".join(operators))
    group = command.add_argument_group("the operator")
    for flag, text in (
        ("kernel", "kernel size, such as 3 or 2x3 (default 2)"),
        ("stride", "stride (default: the kernel size; 1 for convolutions)"),
        ("padding", "padding, such as 1, 1x0, or same, same_lower, valid"),
        ("dilation", "dilation"),
        ("output-size", "output size of adaptive pooling (default 2)"),
        ("output-padding", "output padding of a transposed convolution"),
    ):
        group.add_argument(f"--{flag}", metavar="N", help=text)
    group.add_argument("--ceil-mode", action="store_true", help="keep a last, partial window")
    group.add_argument("--ties", help="first, last, all or split")
    group.add_argument("--nan", help="propagate or ignore")
    group.add_argument("--exclude-pad", action="store_true", help="averages do not count padding")
    group.add_argument("--beta", type=float, default=1.0, help="sharpness of a smooth maximum (default %(default)s)")
    group.add_argument("--p", type=float, default=2.0, help="exponent of a norm (default %(default)s)")
    group.add_argument("--weight", help="the kernel of a convolution (default: ones of --kernel)")
    given = command.add_argument_group("the input")
    given.add_argument("--input", help="its numbers")
    given.add_argument("--size", default="4x4", help="its size if no numbers are given (default %(default)s)")
    given.add_argument("--seed", type=int, default=0, help="seed of the numbers (default %(default)s)")
    given.add_argument("--cotangent", help="numbers to send back (default: ones)")
    output = command.add_argument_group("output")
    output.add_argument("--output", type=Path, metavar="FILE", help="write a picture: .svg, or .png with matplotlib")
    output.add_argument("--windows", type=int, default=12, metavar="N", help="windows to list (default %(default)s)")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the scene, and draw it if asked."""
    from halfulp.cli.drawing.scene import make_scene
    from halfulp.cli.drawing.text import to_text
    from halfulp.errors import HalfulpError

    try:
        x = _plane(options)
        op, weight = _operator(options, x.ndim)
        cotangent = None if options.cotangent is None else _numbers(options.cotangent)
        scene = make_scene(op, x, weight, cotangent)
        if options.output is not None:
            _draw(scene, options.output)
    except (HalfulpError, ValueError, ImportError) as error:
        print(f"halfulp show: {error}", file=sys.stderr)
        return 2
    print(to_text(scene, options.windows))
    return 0


def _draw(scene: Any, path: Path) -> None:
    from halfulp.cli.drawing.canvas import lay_out

    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"--output {path}: must end in .svg or .png")
    canvas = lay_out(scene)
    if path.suffix == ".svg":
        from halfulp.cli.drawing.svg import to_svg

        path.write_text(to_svg(canvas, repr(scene.op)), encoding="utf-8")
    else:
        from halfulp.cli.drawing.png import write_png

        write_png(canvas, path)


def _numbers(text: str) -> Any:
    """An array of one or two axes."""
    import numpy as np

    rows = [row.replace(",", " ").split() for row in text.replace("\n", ";").split(";") if row.strip()]
    if not rows or len({len(row) for row in rows}) != 1:
        raise ValueError(f"{text!r}: every row must have the same number of numbers, at least one")
    try:
        array = np.array([[float(item) for item in row] for row in rows])
    except ValueError as error:
        wrong = str(error).removeprefix("could not convert string to float: ")
        raise ValueError(f"{text!r}: {wrong} is no number") from None
    return array[0] if len(rows) == 1 and ";" not in text else array


def _plane(options: argparse.Namespace) -> Any:
    import numpy as np

    if options.input is not None:
        return _numbers(options.input)
    sizes = _sizes("--size", options.size)
    if len(sizes) > 2:
        raise ValueError(f"--size {options.size}: pictures have one or two axes")
    return np.random.default_rng(options.seed).integers(0, 6, sizes).astype(float)


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


def _operator(options: argparse.Namespace, ndim: int) -> tuple[Any, Any]:
    """The record that the options describe, field by field, and a weight for convolutions."""
    from dataclasses import fields

    import numpy as np

    from halfulp.records import named

    declaration = named(options.operator)
    known = {f.name for f in fields(declaration.record)}
    kernel = _per_axis(options, "kernel", ndim, (2,) * ndim)
    given = {"ndim": ndim, "kernel_size": kernel, "output_size": _per_axis(options, "output_size", ndim, (2,) * ndim)}
    for name in ("stride", "padding", "dilation", "output_padding"):
        if getattr(options, name) is not None:
            given[name] = _per_axis(options, name, ndim, None)
    given |= {"ceil_mode": options.ceil_mode, "count_include_pad": not options.exclude_pad}
    given |= {"beta": options.beta, "p": options.p}
    given |= {key: value for key in ("ties", "nan") if (value := getattr(options, key)) is not None}
    op = declaration.record(**{name: value for name, value in given.items() if name in known})
    if "weight" not in declaration.inputs:
        return op, None
    weight = np.ones(kernel) if options.weight is None else _numbers(options.weight)
    if weight.ndim != ndim:
        raise ValueError(f"--weight has {weight.ndim} axes, but the input has {ndim}")
    return op, weight
