"""Written pyramids: every method, axis order, chunking and format, against brute force; opened by others."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import given
from hypothesis import strategies as st
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader

import halfulp.pyramid as hp
from halfulp.pyramid import _plan
from tests.pyramid.images import METHODS, assert_is_pyramid_of, noise, pooled
from tests.scaling import examples


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method(tmp_path: Path, method: str, version: str) -> None:
    x = noise((2, 37, 45), "uint8")
    np.save(tmp_path / "x.npy", x)
    target = tmp_path / "x.zarr"
    plan = hp.write(
        tmp_path / "x.npy", target, axes="cyx", method=method, version=version, levels=3, chunks={"y": 8, "x": 16}
    )
    assert [level.shape for level in plan.levels] == [(2, 37, 45), (2, 19, 23), (2, 10, 12), (2, 5, 6)]
    assert plan.stored == ("uint64" if method == "sum" else "uint8")
    assert_is_pyramid_of(target, x, plan)
    assert not (tmp_path / "x.zarr.partial").exists()
    assert {p.name for p in target.iterdir()} - {str(i) for i in range(4)} <= {"zarr.json", ".zgroup", ".zattrs"}
    assert [report.wrong for report in hp.verify(target)] == [0, 0, 0]


@examples(25)
@given(st.data())
def test_any_shape_factor_chunks_and_tile(tmp_path_factory: Any, data: Any) -> None:
    folder = tmp_path_factory.mktemp("pyramid")
    axes = data.draw(st.sampled_from(["yx", "cyx", "zyx", "yxc", "tczyx"]))
    x = noise(
        tuple(data.draw(st.integers(1, 3 if a in "tc" else 20)) for a in axes), "int16", data.draw(st.integers(0, 9))
    )
    np.save(folder / "x.npy", x)
    factor = {a: data.draw(st.integers(1, 3)) for a in axes if a in "zyx"}
    if max(factor.values()) == 1:
        factor["x"] = 2
    source = hp._api.open_source(str(folder / "x.npy"), axes)
    chunks = {a: data.draw(st.integers(1, 9)) for a in axes}
    method = data.draw(st.sampled_from(["mean", "max"]))
    plan = _plan.make_plan(source, method=method, factor=factor, levels=data.draw(st.integers(1, 4)), chunks=chunks)
    # Tiles as small as they may be: whole windows of the coarsest level, whatever the chunks.
    coarsest = plan.levels[-1].factor
    tile = tuple(f * data.draw(st.integers(1, 3)) for f in coarsest)
    plan = replace(plan, tile=tile)
    hp._api.build(plan, source, folder / "x.zarr", jobs=2)
    assert_is_pyramid_of(folder / "x.zarr", x.transpose(source.order), plan)


def test_floats_are_rounded_once_from_the_base(tmp_path: Path) -> None:
    x = noise((33, 30), "float32")
    np.save(tmp_path / "x.npy", x)
    plan = hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", levels=4, chunks=8)
    assert_is_pyramid_of(tmp_path / "x.zarr", x, plan)


def test_missing_values(tmp_path: Path) -> None:
    x = noise((8, 8), "float32")
    x[:2, :2], x[4, 4] = np.nan, np.nan
    np.save(tmp_path / "x.npy", x)
    hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", levels=1, nan="ignore")
    level = zarr.open_group(str(tmp_path / "x.zarr"))["1"][:]
    assert np.isnan(level[0, 0])
    assert level[2, 2] == pooled(np.array([[x[4, 5], x[5, 4], x[5, 5]]]), (1, 3), "mean", "float32")[0, 0]


@pytest.mark.parametrize("compressor", ["blosc", "blosc:9", "zstd", "zstd:7", "gzip", "none"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_compressors(tmp_path: Path, compressor: str, version: str) -> None:
    x = noise((40, 40), "float64")
    np.save(tmp_path / "x.npy", x)
    plan = hp.write(
        tmp_path / "x.npy",
        tmp_path / "x.zarr",
        levels=1,
        chunks=16,
        compressor=compressor,
        version=version,
        method="max",
    )
    assert_is_pyramid_of(tmp_path / "x.zarr", x, plan)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_sources(tmp_path: Path, zarr_format: Any) -> None:
    x = noise((3, 50, 61), ">u2" if zarr_format == 2 else "uint16")
    stored = zarr.create_array(
        str(tmp_path / "x.zarr"), shape=x.shape, chunks=(1, 17, 19), dtype=x.dtype, zarr_format=zarr_format
    )
    stored[:] = x
    plan = hp.write(tmp_path / "x.zarr", tmp_path / "y.zarr", axes="zyx", factor=2, levels=2)
    assert_is_pyramid_of(tmp_path / "y.zarr", x, plan)
    again = hp.write(tmp_path / "y.zarr", tmp_path / "z.zarr", levels=1, method="min")
    assert (again.axes, again.method) == ("zyx", "min")
    assert_is_pyramid_of(tmp_path / "z.zarr", x, again)


def test_tiff_sources(tmp_path: Path) -> None:
    x = noise((2, 3, 40, 48), "uint16")
    size = {"PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.5, "PhysicalSizeYUnit": "µm"}
    tifffile.imwrite(tmp_path / "x.ome.tif", x, metadata={"axes": "CZYX", **size}, tile=(16, 16), compression="zlib")
    plan = hp.write(tmp_path / "x.ome.tif", tmp_path / "x.zarr", levels=1)
    assert (plan.axes, plan.scale, plan.unit[-1]) == ("czyx", (1.0, 1.0, 0.5, 0.25), "micrometer")
    assert_is_pyramid_of(tmp_path / "x.zarr", x, plan)
    colours = noise((40, 48, 3), "uint8")
    tifffile.imwrite(tmp_path / "rgb.tif", colours, photometric="rgb")
    plan = hp.write(tmp_path / "rgb.tif", tmp_path / "rgb.zarr", levels=1)
    assert (plan.axes, plan.shape) == ("cyx", (3, 40, 48))
    assert_is_pyramid_of(tmp_path / "rgb.zarr", colours.transpose(2, 0, 1), plan)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_others_open_it(tmp_path: Path, version: str) -> None:
    x = noise((2, 3, 40, 48), "uint16")
    np.save(tmp_path / "x.npy", x)
    target = tmp_path / "x.zarr"
    hp.write(
        tmp_path / "x.npy", target, levels=2, version=version, scale={"y": 0.5, "x": 0.5}, unit={"x": "micrometer"}
    )
    location = parse_url(str(target))
    assert location is not None
    (node,) = [n for n in Reader(location)() if n.data]
    assert [level.shape for level in node.data] == [(2, 3, 40, 48), (2, 2, 20, 24), (2, 1, 10, 12)]
    assert np.array_equal(node.data[0].compute(), x)
    check = [str(Path(sys.executable).with_name("ome-zarr-models")), "validate", str(target)]
    run = subprocess.run(check, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Valid" in run.stdout, run.stdout


def test_the_tile_fits_the_memory_and_owns_the_fine_levels() -> None:
    class Terabyte:
        path, fingerprint, axes, order, scale, unit = "x", "", "yx", (0, 1), {}, {}
        shape, dtype, chunks = (2**20, 2**20), np.dtype("u1"), (1024, 1024)

    plan = _plan.make_plan(Terabyte(), memory=10**9, jobs=2)
    assert len(plan.levels) == 11
    assert np.prod(plan.tile) * _plan.COPIES * 2 + _plan.BASELINE <= 10**9
    assert [plan.owns(level) for level in range(3)] == [True, True, True]
