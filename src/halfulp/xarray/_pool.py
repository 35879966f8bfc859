"""Blocks of cells of an xarray object, and their reductions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

import xarray as xr
from halfulp import functional
from halfulp.errors import PolicyError, ShapeError
from halfulp.records._base import is_integer

__all__ = ["Pool"]

_BOUNDARIES = ("exact", "trim", "pad")
_SIDES = ("left", "right")


class Pool:
    """What ``.halfulp.pool(…)`` returns: every method reduces the blocks and gives an object like the one it is of.

    ``nan`` is ``"ignore"`` unless another policy is given, as ``coarsen`` skips NaN.
    """

    def __init__(self, data: Any, windows: Mapping[Hashable, int], boundary: Any, side: Any, coord_func: Any) -> None:
        if not windows:
            raise ShapeError("pool", "no window", "must name dimensions, such as x=2, y=2", "Y8")
        for name, window in windows.items():
            if name not in data.dims:
                text = f"must name a dimension: {', '.join(map(str, data.dims))}"
                raise ShapeError("pool", f"{name}={window!r}", text, "Y8")
            if not is_integer(window) or window < 1:
                raise ShapeError("pool", f"{name}={window!r}", "must be an integer >= 1", "Y8")
        self._data, self._windows = data, {name: int(window) for name, window in windows.items()}
        self._boundary = _by_dimension("boundary", boundary, self._windows, _BOUNDARIES, "exact")
        self._side = _by_dimension("side", side, self._windows, _SIDES, "left")
        self._coord_func = coord_func
        for name, window in self._windows.items():
            size = int(data.sizes[name])
            if self._boundary[name] == "exact" and size % window:
                text = f"must divide the {size} cells; boundary='trim' cuts the rest, boundary='pad' keeps it"
                raise ShapeError("pool", f"{name}={window}", text, "Y8")

    def __repr__(self) -> str:
        return f"Pool({', '.join(f'{name}={window}' for name, window in self._windows.items())})"

    def mean(self, *, dtype: Any = None, nan: str = "ignore", keep_attrs: bool | None = None) -> Any:
        """The mean of every block. Integers become float64, as in xarray, unless ``dtype`` says otherwise."""

        def reduce(x: Any, kernel: tuple[int, ...]) -> Any:
            given = dtype if dtype is not None or x.dtype.kind == "f" else "float64"
            return functional.avg_pool(x, kernel, ceil_mode=True, dtype=given, **_policy(x, nan))

        return self._reduced(reduce, keep_attrs)

    def sum(self, *, dtype: Any = None, nan: str = "ignore", keep_attrs: bool | None = None) -> Any:
        """The sum of every block. Integers become int64 or uint64 unless ``dtype`` says otherwise."""

        def reduce(x: Any, kernel: tuple[int, ...]) -> Any:
            wide = {"f": None, "u": "uint64"}.get(x.dtype.kind, "int64")
            given = wide if dtype is None else dtype
            return functional.sum_pool(x, kernel, ceil_mode=True, dtype=given, **_policy(x, nan))

        return self._reduced(reduce, keep_attrs)

    def max(self, *, nan: str = "ignore", keep_attrs: bool | None = None) -> Any:
        """The maximum of every block."""
        return self._reduced(
            lambda x, kernel: functional.max_pool(x, kernel, ceil_mode=True, **_policy(x, nan)), keep_attrs
        )

    def min(self, *, nan: str = "ignore", keep_attrs: bool | None = None) -> Any:
        """The minimum of every block."""
        return self._reduced(
            lambda x, kernel: functional.min_pool(x, kernel, ceil_mode=True, **_policy(x, nan)), keep_attrs
        )

    def median(self, *, nan: str = "ignore", keep_attrs: bool | None = None) -> Any:
        """The median of every block; of the middle two of an even number the mean, rounded once."""
        return self._reduced(
            lambda x, kernel: functional.median_pool(x, kernel, ceil_mode=True, **_policy(x, nan)), keep_attrs
        )

    def mode(self, *, nan: str = "ignore", keep_attrs: bool | None = None) -> Any:
        """The most frequent value of every block, the smallest of several."""
        return self._reduced(
            lambda x, kernel: functional.mode_pool(x, kernel, ceil_mode=True, **_policy(x, nan)), keep_attrs
        )

    def _reduced(self, reduce: Any, keep_attrs: bool | None) -> Any:
        data, kept = self._data, _kept(keep_attrs)
        coords = self._coords(kept)
        if isinstance(data, xr.Dataset):
            variables = {name: self._variable(v.variable, reduce, kept) for name, v in data.data_vars.items()}
            return xr.Dataset(variables, coords=coords, attrs=data.attrs if kept else None)
        variable = self._variable(data.variable, reduce, kept)
        if data.name in coords:
            coords = {**coords, data.name: variable}
        return xr.DataArray(variable, coords=coords, name=data.name)

    def _coords(self, kept: bool) -> Any:
        """The coordinates as ``coarsen`` makes them."""
        plain = self._data.coords.to_dataset()
        own = {name: window for name, window in self._windows.items() if name in plain.dims}
        if not own:
            return dict(plain.coords)
        boundary = {name: self._boundary[name] for name in own}
        side = {name: self._side[name] for name in own}
        coarse: Any = plain.coarsen(own, boundary=boundary, side=side, coord_func=self._coord_func)
        return dict(coarse.mean(keep_attrs=kept).coords)

    def _variable(self, variable: Any, reduce: Any, kept: bool) -> Any:
        """One variable; one without any of the dimensions is left as it is."""
        attrs = variable.attrs if kept else None
        axes = [i for i, name in enumerate(variable.dims) if name in self._windows]
        if not axes:
            return xr.Variable(variable.dims, variable.data, attrs)
        x, turned = variable.data, []
        for i in axes:
            name = variable.dims[i]
            window, size = self._windows[name], x.shape[i]
            if self._boundary[name] == "trim":
                cut = slice(0, size - size % window) if self._side[name] == "left" else slice(size % window, None)
                x = x[(slice(None),) * i + (cut,)]
            elif self._side[name] == "right" and size % window:
                turned.append(i)  # the window with fewer cells comes first
        order = tuple(slice(None, None, -1 if i in turned else None) for i in range(x.ndim))
        first = axes[0]
        wanted = [self._windows.get(name, 1) for name in variable.dims[first:]]
        kernel = tuple(max(1, min(k, n)) for k, n in zip(wanted, x.shape[first:], strict=True))
        result = reduce(x[order] if turned else x, kernel)
        return xr.Variable(variable.dims, result[order] if turned else result, attrs)


def _policy(x: Any, nan: str) -> dict[str, Any]:
    return {"nan": nan} if np.dtype(x.dtype).kind == "f" else {}


def _kept(keep_attrs: bool | None) -> bool:
    """Whether attributes are kept: as asked for, or as xarray's own option says."""
    if keep_attrs is not None:
        return keep_attrs
    option = xr.get_options()["keep_attrs"]
    return True if option == "default" else bool(option)


def _by_dimension(
    name: str, value: Any, windows: Mapping[Hashable, int], allowed: tuple[str, ...], default: str
) -> dict[Hashable, str]:
    found = {d: value.get(d, default) if isinstance(value, Mapping) else value for d in windows}
    for d, word in found.items():
        if word not in allowed:
            text = f"must be one of {', '.join(map(repr, allowed))}"
            raise PolicyError("pool", f"{name}={word!r} for {d}", text, "Y8")
    return found
