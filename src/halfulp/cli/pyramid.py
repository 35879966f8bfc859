"""``halfulp pyramid``: a multiscale OME-Zarr image, every level the correctly rounded pooling of the base."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from halfulp.errors import HalfulpError

if TYPE_CHECKING:
    from halfulp.pyramid import LevelReport

__all__ = ["add_to"]

_DESCRIPTION = """\
Write a multiscale OME-Zarr image from a Zarr array (v2, v3), a TIFF or OME-TIFF
file, or a .npy file. Every level is the correctly rounded pooling of the base,
not of the previous level; the base is read once. A command that was killed
resumes when it is given again."""

_EPILOG = """\
examples:
  halfulp pyramid image.ome.tif image.zarr
  halfulp pyramid labels.npy labels.zarr --axes zyx --method mode --factor z=1,y=2,x=2
  halfulp pyramid raw.zarr image.zarr --memory 4GB --compressor zstd:3 --scheduler tcp://host:8786
  halfulp pyramid --verify image.zarr --method mean

exit code: 0 for success, 1 if --verify finds a wrong level, 2 for a wrong
command line, a source that cannot be read or a target that cannot be written,
130 if interrupted"""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "pyramid",
        help="write or verify a multiscale OME-Zarr image",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("source", nargs="?", metavar="SOURCE", help="a Zarr array or image, a TIFF or a .npy file")
    command.add_argument("target", nargs="?", metavar="TARGET", help="the folder to write")
    command.add_argument("--verify", metavar="TARGET", help="compare the levels of any OME-Zarr image with its base")
    _what(command.add_argument_group("what is written"))
    _how(command.add_argument_group("how"))
    command.set_defaults(run=run)


def _what(group: Any) -> None:
    methods = ("mean", "max", "min", "median", "mode", "sum")
    group.add_argument("--method", choices=methods, help="how the cells of a window are combined (default mean)")
    group.add_argument(
        "--factor", type=_numbers, default=2, metavar="N", help="along z, y and x (default 2), or as in z=1,y=2,x=2"
    )
    group.add_argument(
        "--levels", type=_levels, metavar="N", help="levels above the base; auto: until one fits a chunk"
    )
    group.add_argument("--axes", metavar="NAMES", help="the source's axes, such as tczyx (default: as the source says)")
    group.add_argument(
        "--chunks", type=_numbers, metavar="N", help="one size for z, y and x, one per axis, or y=512,x=512"
    )
    group.add_argument(
        "--compressor", default="blosc", metavar="NAME", help="blosc (default), zstd, gzip or none; name:level"
    )
    group.add_argument(
        "--format", choices=("0.4", "0.5"), default="0.5", help="version of OME-Zarr (default %(default)s)"
    )
    group.add_argument("--dtype", metavar="NAME", help="element type of all levels (default: the source's)")
    group.add_argument(
        "--nan",
        choices=("propagate", "ignore", "raise"),
        default="propagate",
        help="what a NaN means (default %(default)s)",
    )
    group.add_argument("--scale", type=_lengths, metavar="LIST", help="size of a cell, such as z=2,y=0.5,x=0.5")
    group.add_argument("--unit", metavar="NAME", help="unit of the sizes along z, y and x, such as micrometer")
    group.add_argument("--name", default="image", metavar="NAME", help="name of the image (default %(default)s)")


def _how(group: Any) -> None:
    group.add_argument(
        "--memory", type=_bytes, default=10**9, metavar="SIZE", help="memory limit, such as 500MB (default 1GB)"
    )
    group.add_argument(
        "--jobs", type=_positive, default=min(os.cpu_count() or 1, 8), metavar="N", help="threads (default %(default)s)"
    )
    group.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://host:8786")
    group.add_argument(
        "--overwrite", action="store_true", help="replace a pyramid or Zarr array that exists, or start again"
    )
    group.add_argument("--quiet", action="store_true", help="print nothing")


def run(options: argparse.Namespace) -> int:
    """Write or verify a pyramid."""
    try:
        if options.verify is not None:
            return _verify(options)
        if options.target is None:
            print("halfulp pyramid: SOURCE and TARGET are missing, or --verify TARGET", file=sys.stderr)
            return 2
        return _write(options)
    except HalfulpError as error:
        print(f"halfulp {error}" if error.operator == "pyramid" else f"halfulp pyramid: {error}", file=sys.stderr)
    except OSError as error:
        text = f"{error.filename or options.target}: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            text += "; what is written is kept: make room and give the command again"
        print(f"halfulp pyramid: {text}", file=sys.stderr)
    except ImportError as error:
        print(f"halfulp pyramid: {error}; pip install 'halfulp[arrays]'", file=sys.stderr)
    return 2


def _write(options: argparse.Namespace) -> int:
    from halfulp.kernels import get_num_threads, set_num_threads
    from halfulp.pyramid import write

    began, threads = time.monotonic(), get_num_threads()
    set_num_threads(1)  # tiles run in threads of their own
    try:
        with _bar("pyramid", options.quiet) as progress:
            plan = write(
                options.source,
                options.target,
                axes=options.axes,
                jobs=options.jobs,
                scheduler=options.scheduler,
                overwrite=options.overwrite,
                progress=progress,
                method=options.method or "mean",
                factor=options.factor,
                levels=options.levels,
                chunks=options.chunks,
                compressor=options.compressor,
                version=options.format,
                nan=options.nan,
                dtype=options.dtype,
                memory=options.memory,
                scale=options.scale,
                unit=dict.fromkeys("zyx", options.unit) if options.unit else None,
                name=options.name,
            )
    finally:
        set_num_threads(threads)
    if not options.quiet:
        for number, level in enumerate(plan.levels):
            print(f"{number}  {'x'.join(map(str, level.shape))}  {plan.stored}")
        count = f"{len(plan.levels)} level{'' if len(plan.levels) == 1 else 's'}"
        print(f"{options.target}: {count}, {plan.method}, {time.monotonic() - began:.1f} s")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from halfulp.pyramid._verify import check

    if options.source is not None:
        print("halfulp pyramid: --verify takes no SOURCE", file=sys.stderr)
        return 2
    with _bar("verifying", options.quiet) as progress:
        method, reports = check(options.verify, options.method, options.nan, options.memory, progress)
    if not options.quiet:
        for report in reports:
            print(_line(report, method))
    return int(any(report.wrong for report in reports))


def _line(report: LevelReport, method: str) -> str:
    window = "x".join(map(str, report.factor))
    if not report.wrong:
        return f"level {report.path}: right: all {report.cells} cells are the {method} of {window} cells of the base"
    share = 100 * report.wrong / report.cells
    return (
        f"level {report.path}: wrong: {report.wrong} of {report.cells} cells ({share:.3g} %) are not the {method} of "
        f"{window} cells of the base; largest error {report.largest:g}, mean error {report.bias:+.3g}\n"
        f"  first wrong chunk {'/'.join(map(str, report.chunk or ()))}: cell {report.position} is {report.found}, "
        f"right is {report.right}"
    )


@contextmanager
def _bar(title: str, quiet: bool) -> Iterator[Any]:
    """A function to call with (done, total); it moves a bar where the error stream is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tiles"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _numbers(text: str) -> Any:
    """``2``, ``1,256,256`` or ``y=2,x=2``."""
    try:
        if "=" in text:
            return {key.strip(): int(value) for key, value in (item.split("=") for item in text.split(","))}
        return int(text) if "," not in text else tuple(int(item) for item in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be as in 2 or y=2,x=2") from error


def _lengths(text: str) -> dict[str, float]:
    try:
        return {key.strip(): float(value) for key, value in (item.split("=") for item in text.split(","))}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be as in y=0.5,x=0.5") from error


def _levels(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be auto or an integer >= 1")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be an integer >= 1")
    return int(text)


def _bytes(text: str) -> int:
    """``500MB``, ``1GB``, ``2GiB`` or a number of bytes."""
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
    number = text.rstrip("BKMGIbkmgi ")
    try:
        return int(float(number) * units[text[len(number) :].strip().upper()])
    except (ValueError, KeyError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be as in 500MB or 1GB") from error
