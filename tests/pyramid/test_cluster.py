"""--scheduler: the same bytes from two worker processes, one of which is killed on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import halfulp.pyramid as hp
from tests.pyramid.images import assert_is_pyramid_of, files_of, noise


def test_a_worker_is_killed_on_the_way(tmp_path: Path) -> None:
    x = noise((200, 320), "uint8")
    np.save(tmp_path / "x.npy", x)
    options = {"chunks": 16, "levels": 4, "memory": 268_470_000}
    plan = hp.write(tmp_path / "x.npy", tmp_path / "here.zarr", **options)
    killed = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=60) as cluster,
        Client(cluster) as client,
    ):

        def kill(done: int, total: int) -> None:
            if done == 5:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        address = cluster.scheduler_address
        hp.write(tmp_path / "x.npy", tmp_path / "there.zarr", scheduler=address, progress=kill, **options)
    assert killed
    assert files_of(tmp_path / "there.zarr") == files_of(tmp_path / "here.zarr")
    assert_is_pyramid_of(tmp_path / "there.zarr", x, plan)
