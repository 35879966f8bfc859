"""The two functions of this package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from halfulp.pyramid._build import build
from halfulp.pyramid._plan import Plan, make_plan
from halfulp.pyramid._sources import open_source
from halfulp.pyramid._verify import LevelReport, check

__all__ = ["verify", "write"]


def write(
    source: str | Path,
    target: str | Path,
    *,
    axes: str | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **options: Any,
) -> Plan:
    """Write a multiscale OME-Zarr image, or resume an unfinished one.

    ``options`` are those of the command line: ``method``, ``factor``, ``levels``, ``chunks``, ``compressor``,
    ``version``, ``nan``, ``dtype``, ``memory``, ``scale``, ``unit`` and ``name``.

    >>> import tempfile, zarr
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/image.npy", np.arange(16.0).reshape(4, 4))
    >>> plan = write(f"{folder}/image.npy", f"{folder}/image.zarr", levels=1)
    >>> [level.shape for level in plan.levels]
    [(4, 4), (2, 2)]
    >>> zarr.open(f"{folder}/image.zarr")["1"][:]
    array([[ 2.5,  4.5],
           [10.5, 12.5]])
    """
    with open_source(str(source), axes) as opened:
        plan = make_plan(opened, jobs=jobs, **options)
        return build(plan, opened, Path(target), jobs=jobs, scheduler=scheduler, overwrite=overwrite, progress=progress)


def verify(
    target: str | Path,
    method: str | None = None,
    *,
    nan: str = "propagate",
    memory: int = 10**9,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[LevelReport]:
    """Compare every level of an OME-Zarr image with the pooling of its base.

    ``method`` is the pooling of the levels; the default is the one in the metadata, or the mean.
    """
    return check(str(target), method, nan, memory, progress)[1]
