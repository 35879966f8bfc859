"""The accessor: coordinates, attributes, names and boundaries as ``coarsen`` has them, values exact."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.xarray
import xarray as xr
from tests.scaling import examples


def data_array(shape: tuple[int, int, int] = (3, 7, 8), dtype: str = "float64") -> Any:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, shape).astype(dtype)
    coords = {
        "t": np.arange(shape[0]),
        "y": ("y", np.linspace(0, 1, shape[1]), {"units": "m"}),
        "x": np.arange(shape[2]) * 10.0,
        "lat": (("y", "x"), rng.random(shape[1:])),
        "height": 2.0,
    }
    return xr.DataArray(x, dims=("t", "y", "x"), coords=coords, name="heat", attrs={"units": "K"})


@pytest.mark.parametrize("boundary", ["trim", "pad", {"y": "trim", "x": "pad"}])
@pytest.mark.parametrize("side", ["left", "right", {"y": "right", "x": "left"}])
@pytest.mark.parametrize("name", ["mean", "max", "min", "sum", "median"])
def test_everything_is_as_coarsen_has_it(name: str, boundary: Any, side: Any) -> None:
    data = data_array()
    found = getattr(data.halfulp.pool(y=2, x=3, boundary=boundary, side=side), name)()
    expected = getattr(data.coarsen(y=2, x=3, boundary=boundary, side=side), name)()
    if name in ("max", "min"):
        xr.testing.assert_equal(found, expected)
    else:
        xr.testing.assert_allclose(found, expected)  # coarsen's own sums are not correctly rounded
    assert found.attrs == expected.attrs
    assert found.name == expected.name
    assert found.y.attrs == expected.y.attrs
    for coordinate in expected.coords:
        xr.testing.assert_identical(found.coords[coordinate].variable, expected.coords[coordinate].variable)


def test_options_of_coarsen() -> None:
    data = data_array()
    for more in ({"coord_func": {"y": "max", "x": "min"}}, {"coord_func": "max"}):
        found = data.halfulp.pool({"y": 7}, x=4, **more).max()
        xr.testing.assert_identical(found, data.coarsen(y=7, x=4, **more).max())
    assert data.halfulp.pool(x=2).mean(keep_attrs=False).attrs == {}
    with xr.set_options(keep_attrs=False):
        assert data.halfulp.pool(x=2).mean().attrs == {}
    assert repr(data.halfulp.pool(x=2, y=7)) == "Pool(x=2, y=7)"


@examples(40)
@given(st.data())
def test_the_mean_of_integers_is_rounded_once(data: Any) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(["u1", "i2", "u8", "i8"])))
    shape = (data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7)))
    info = np.iinfo(dtype)
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    y, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    chunks = (data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7)))
    lazy = xr.DataArray(da.from_array(x, chunks=chunks), dims=("y", "x"))
    found = lazy.halfulp.pool(y=y, x=k, boundary="pad").mean(dtype="same")
    assert isinstance(found.data, da.Array)
    assert found.dtype == dtype
    starts = [(i, j) for i in range(0, shape[0], y) for j in range(0, shape[1], k)]
    blocks = [[int(v) for v in x[i : i + y, j : j + k].ravel()] for i, j in starts]
    expected = [round(Fraction(sum(block), len(block))) for block in blocks]
    assert found.values.ravel().tolist() == expected


def test_element_types() -> None:
    data = data_array(dtype="uint8")
    pool = data.halfulp.pool(y=7, x=2)
    assert [pool.mean().dtype, pool.sum().dtype, pool.max().dtype, pool.median().dtype, pool.mode().dtype] == [
        "float64", "uint64", "uint8", "uint8", "uint8",
    ]  # fmt: skip
    xr.testing.assert_identical(pool.sum().astype("int64"), data.coarsen(y=7, x=2).sum().astype("int64"))


def test_nan_is_skipped_unless_asked() -> None:
    data = xr.DataArray([1.0, np.nan, np.nan, np.nan], dims="x")
    assert data.halfulp.pool(x=2).mean().values.tolist()[0] == 1.0
    assert np.isnan(data.halfulp.pool(x=2).mean().values[1])
    assert np.isnan(data.halfulp.pool(x=2).mean(nan="propagate").values).all()
    with pytest.raises(hu.PolicyError, match="P3"):
        data.halfulp.pool(x=2).max(nan="raise")


def test_the_most_frequent_value() -> None:
    data = xr.DataArray(np.array([[3, 3, 1, 2], [7, 3, 2, 1]]), dims=("y", "x"))
    assert data.halfulp.pool(y=2, x=2).mode().values.tolist() == [[3, 1]]


def test_datasets() -> None:
    data = xr.Dataset(
        {"heat": data_array(), "depth": (("x",), np.arange(8.0), {"units": "m"}), "place": ((), 5)}, attrs={"a": 1}
    )
    found, expected = data.halfulp.pool(x=4).max(), data.coarsen(x=4).max()
    xr.testing.assert_identical(found, expected)
    assert found.attrs == {"a": 1}
    assert isinstance(data.chunk(x=2).halfulp.pool(x=4).max().heat.data, da.Array)
    chunked = data.chunk(x=3)  # xarray's own mean of a chunked coordinate has other last bits
    xr.testing.assert_identical(chunked.halfulp.pool(x=4).max().compute(), chunked.coarsen(x=4).max().compute())


def test_refusals() -> None:
    data = data_array()
    for call, text in [
        (lambda: data.halfulp.pool(), "pool: no window: must name dimensions, such as x=2, y=2 [Y8]"),
        (lambda: data.halfulp.pool(z=2), "pool: z=2: must name a dimension: t, y, x [Y8]"),
        (lambda: data.halfulp.pool(x=0), "pool: x=0: must be an integer >= 1 [Y8]"),
        (lambda: data.halfulp.pool(x=2.0), "pool: x=2.0: must be an integer >= 1 [Y8]"),
        (lambda: data.halfulp.pool(y=2), "pool: y=2: must divide the 7 cells; boundary='trim' cuts the rest"),
        (
            lambda: data.halfulp.pool(x=2, boundary="wrap"),
            "pool: boundary='wrap' for x: must be one of 'exact'",
        ),
        (lambda: data.halfulp.pool(x=2, side="top"), "pool: side='top' for x: must be one of 'left', 'right' [Y8]"),
    ]:
        with pytest.raises(hu.HalfulpError, match=re.escape(text)):
            call()


def test_importing_registers_the_accessor() -> None:
    assert halfulp.xarray.Accessor is type(data_array().halfulp)
