"""--verify: pyramids of others, planted errors, and what cannot be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from ome_zarr.scale import Methods
from ome_zarr.writer import write_image

import dask
import halfulp as hu
import halfulp.pyramid as hp
from halfulp.cli import main
from tests.pyramid.images import noise, pooled


@pytest.fixture
def written(tmp_path: Path) -> Path:
    x = noise((130, 150), "uint16")
    np.save(tmp_path / "x.npy", x)
    hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", levels=3, chunks=16)
    return tmp_path / "x.zarr"


def test_the_first_wrong_chunk_is_named(written: Path, capsys: Any) -> None:
    level = zarr.open_group(str(written))["2"]
    right = int(level[20, 33])
    level[20, 33] = right + 5
    level[32, 1] = int(level[32, 1]) + 1
    reports = hp.verify(written)
    assert [report.wrong for report in reports] == [0, 2, 0]
    assert (reports[1].chunk, reports[1].position) == ((1, 2), (20, 33))
    assert (reports[1].found, reports[1].right, reports[1].largest) == (right + 5, right, 5.0)
    assert main(["pyramid", "--verify", str(written)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "level 1: right: all 4875 cells are the mean of 2x2 cells of the base"
    assert lines[1].startswith("level 2: wrong: 2 of 1254 cells (0.159 %) are not the mean of 4x4 cells of the base; ")
    assert lines[2] == f"  first wrong chunk 1/2: cell (20, 33) is {right + 5}, right is {right}"


def test_the_method_is_that_of_the_metadata_or_as_given(written: Path) -> None:
    assert sum(report.wrong for report in hp.verify(written)) == 0
    assert all(report.wrong for report in hp.verify(written, "max"))


def test_levels_by_ome_zarr_are_truncated(tmp_path: Path) -> None:
    x = noise((1, 256, 256), "uint16")
    with dask.config.set(scheduler="threads"):
        write_image(
            da.from_array(x, chunks=(1, 64, 64)),
            str(tmp_path / "ome.zarr"),
            axes="cyx",
            scale_factors=(2, 4, 8),
            method=Methods.LOCAL_MEAN,
        )
    reports = hp.verify(tmp_path / "ome.zarr", "mean")
    assert all(report.wrong > 0 for report in reports)
    assert all(report.bias < 0 for report in reports)


def test_shapes_that_are_rounded_down(tmp_path: Path) -> None:
    x = noise((9, 11), "uint8")
    group = zarr.create_group(str(tmp_path / "x.zarr"), zarr_format=3)
    for name, cells in (("a", x), ("b", pooled(x[:8, :10], (2, 2), "mean", "uint8"))):
        group.create_array(name, data=cells)
    image = {"axes": [{"name": "y"}, {"name": "x"}], "datasets": [{"path": "a"}, {"path": "b"}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [image]}
    (report,) = hp.verify(tmp_path / "x.zarr")
    assert (report.wrong, report.cells, report.factor) == (0, 20, (2, 2))


def test_an_axis_that_ends_within_a_window(tmp_path: Path) -> None:
    """One cell for 12 of the base has a factor of 16 where the metadata say so, not the 8 that it also fits."""
    np.save(tmp_path / "x.npy", noise((12, 64, 70), "uint8"))
    hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="zyx", levels=4, chunks=16)
    reports = hp.verify(tmp_path / "x.zarr")
    assert [report.factor for report in reports] == [(2, 2, 2), (4, 4, 4), (8, 8, 8), (16, 16, 16)]
    assert sum(report.wrong for report in reports) == 0


@pytest.mark.parametrize("scale", [None, [2.0], ["x", 2.0], [0.0, 2.0], [3.0, 2.5]])
def test_scales_that_do_not_help(tmp_path: Path, scale: Any) -> None:
    x = noise((9, 11), "uint8")
    group = zarr.create_group(str(tmp_path / "x.zarr"), zarr_format=3)
    for name, cells in (("a", x), ("b", pooled(x, (2, 2), "mean", "uint8"))):
        group.create_array(name, data=cells)
    datasets: list[Any] = [
        {"path": "a"},
        {"path": "b", "coordinateTransformations": [{"type": "scale", "scale": scale}]},
    ]
    datasets[0]["coordinateTransformations"] = [{"type": "scale", "scale": [1.0, 1.0]}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": ["y", "x"], "datasets": datasets}]}
    (report,) = hp.verify(tmp_path / "x.zarr")
    assert (report.wrong, report.factor) == (0, (2, 2))


def test_what_cannot_be_checked(tmp_path: Path, capsys: Any) -> None:
    zarr.create_group(str(tmp_path / "empty.zarr"))
    with pytest.raises(hu.HalfulpError, match=r"is not an OME-Zarr image: .* \[Y7\]"):
        hp.verify(tmp_path / "empty.zarr")
    group = zarr.create_group(str(tmp_path / "odd.zarr"))
    group.create_array("0", data=noise((9, 9)))
    group.create_array("1", data=noise((7, 7)))
    image = {"axes": [{"name": "y"}, {"name": "x"}], "datasets": [{"path": "0"}, {"path": "1"}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [image]}
    with pytest.raises(hu.HalfulpError, match="level 1 has 7 cells for 9 of the base, which is not an integer factor"):
        hp.verify(tmp_path / "odd.zarr")
    assert main(["pyramid", "--verify", str(tmp_path / "nothing")]) == 2
    assert "there is no such folder [Y7]" in capsys.readouterr().err
