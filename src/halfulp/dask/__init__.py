"""Dask arrays in, Dask arrays out: what ``halfulp.avg_pool2d(x, 2)`` does where ``x`` is a Dask array.

Nothing is computed before Dask is asked to. Every output block is one task: the operator on the cells under its
windows, which are pieces of as few chunks as possible. The bits do not depend on the chunks, because every value is the
correctly rounded one of its own window. ``import halfulp`` does not import Dask; the first Dask array does.

>>> import dask.array as da
>>> x = da.from_array(np.arange(16.0).reshape(4, 4), chunks=3)
>>> y = hu.avg_pool2d(x, 2)
>>> y.chunks
((2,), (2,))
>>> y.compute()
array([[ 2.5,  4.5],
       [10.5, 12.5]])
"""

from __future__ import annotations

from halfulp.dask._apply import Chunked

__all__ = ["Chunked"]
