"""``data.halfulp.pool(x=2, y=2).mean()`` for xarray: importing this module registers the accessor.

Coordinates, attributes, names and boundaries are those of ``data.coarsen``; the values are exact and rounded once. Data
in Dask arrays stay lazy.

>>> import xarray as xr
>>> import halfulp.xarray
>>> data = xr.DataArray(np.array([1, 2, 4, 5], np.uint8), dims="x", coords={"x": [10, 20, 30, 40]}, name="counts")
>>> data.halfulp.pool(x=2).mean(dtype="same")
<xarray.DataArray 'counts' (x: 2)> Size: 2B
array([2, 4], dtype=uint8)
Coordinates:
  * x        (x) float64 16B 15.0 35.0
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import xarray as xr
from halfulp.xarray._pool import Pool

__all__ = ["Accessor", "Pool"]


@xr.register_dataset_accessor("halfulp")
@xr.register_dataarray_accessor("halfulp")
class Accessor:
    """The accessor ``.halfulp`` of data arrays and datasets."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def pool(
        self,
        windows: Mapping[Hashable, int] | None = None,
        boundary: Any = "exact",
        side: Any = "left",
        coord_func: Any = "mean",
        **more: int,
    ) -> Pool:
        """Blocks of cells along the named dimensions, to be reduced by a method of the result.

        ``boundary``, ``side`` and ``coord_func`` are those of ``coarsen``. A size that is not a multiple of the window
        is refused (``"exact"``), cut (``"trim"``) or gets a smaller last window (``"pad"``). Each may be a dict by
        dimension.

        >>> import xarray as xr
        >>> import halfulp.xarray
        >>> data = xr.DataArray([1.0, np.nan, 4.0], dims="x")
        >>> data.halfulp.pool(x=2, boundary="pad").mean().values
        array([1., 4.])
        """
        named: dict[Hashable, int] = {**(windows or {})}
        named.update(more)
        return Pool(self._data, named, boundary, side, coord_func)
