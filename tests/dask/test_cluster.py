"""The same bits on a cluster of processes, one of which is killed on the way."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import halfulp as hu
from tests.strategies import assert_same_bits


def slowly(block: Any) -> Any:
    time.sleep(0.05)
    return block


def test_a_worker_is_killed_on_the_way() -> None:
    x = np.random.default_rng(0).normal(size=(1, 96, 96)).astype("float32")
    w = np.random.default_rng(1).normal(size=(2, 1, 3, 3)).astype("float32")
    expected = hu.avg_pool2d(hu.conv2d(x, w, padding=1), 3, stride=2, padding=1)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=60) as cluster,
        Client(cluster) as client,
    ):
        lazy = da.from_array(x, chunks=(1, 16, 16)).map_blocks(slowly, dtype=x.dtype)
        future = client.compute(hu.avg_pool2d(hu.conv2d(lazy, w, padding=1), 3, stride=2, padding=1))
        time.sleep(0.6)
        assert not future.done()
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        wait(future, timeout=60)
        assert_same_bits(future.result(), expected)
