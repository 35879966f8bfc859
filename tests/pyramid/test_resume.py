"""A pyramid that is killed at any moment and begun again has the bytes of one that was not."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import halfulp as hu
import halfulp.pyramid as hp
from halfulp.cli import main
from halfulp.pyramid import _build
from tests.pyramid.images import assert_is_pyramid_of, files_of, noise

OPTIONS = {"chunks": 16, "levels": 4, "memory": 268_470_000}
"""With so little memory a tile is small, and there are many."""
WORDS = ["--chunks", "16", "--levels", "4", "--memory", "268.47MB", "--jobs", "1", "--quiet"]
SLOW = """
import sys, time
from halfulp.pyramid import _store
from halfulp.cli import main
write = _store.Chunks.write
def slowly(*arguments):
    time.sleep(0.005)
    write(*arguments)
_store.Chunks.write = slowly
sys.exit(main(sys.argv[1:]))
"""
KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from halfulp.cli import main
calls, replace = itertools.count(), Path.replace
def killed(path, target):
    target = Path(target)
    if {condition}:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)
Path.replace = killed
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def image(tmp_path: Path) -> Any:
    x = noise((1, 200, 320), "uint8")
    np.save(tmp_path / "x.npy", x)
    return x


def kills() -> int:
    """How often: a few times, twenty times under the thorough profile."""
    return 20 if settings.default.max_examples > 100 else 4


def test_killed_at_random_moments(tmp_path: Path, image: Any) -> None:
    plan = hp.write(tmp_path / "x.npy", tmp_path / "whole.zarr", axes="cyx", **OPTIONS)
    assert np.prod(plan.counts) > 10
    rng, target, killed = random.Random(7), tmp_path / "x.zarr", 0
    command = [sys.executable, "-c", SLOW, "pyramid", str(tmp_path / "x.npy"), str(target), "--axes", "cyx", *WORDS]
    state = _build.partial_of(target) / _build.STATE / "done"
    while killed < kills():
        before = state.stat().st_size if state.exists() else 0
        process = subprocess.Popen(command)
        while process.poll() is None and (not state.exists() or state.stat().st_size <= before):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        code = process.wait()
        killed += code == -signal.SIGKILL
        assert target.exists() or not (_build.partial_of(target) / "zarr.json").exists()
        assert code in (0, -signal.SIGKILL)
        if target.exists():  # it was done before the signal came: once more
            shutil.rmtree(target)
    assert subprocess.run(command, check=False).returncode == 0
    assert files_of(target) == files_of(tmp_path / "whole.zarr")
    assert_is_pyramid_of(target, image, plan)


@pytest.mark.parametrize("moment", ["chunk", "metadata"])
def test_killed_between_writing_a_file_and_moving_it_into_place(tmp_path: Path, image: Any, moment: str) -> None:
    plan = hp.write(tmp_path / "x.npy", tmp_path / "whole.zarr", axes="cyx", **OPTIONS)
    words = [str(tmp_path / "x.npy"), str(tmp_path / "x.zarr"), "--axes", "cyx", *WORDS]
    moments = {"chunk": "next(calls) == 9", "metadata": "target.name == 'zarr.json' and 'group' in path.parts"}
    program = KILLED.format(condition=moments[moment])
    killed = subprocess.run([sys.executable, "-c", program, "pyramid", *words], check=False)
    assert killed.returncode == -signal.SIGKILL
    state = _build.partial_of(tmp_path / "x.zarr") / _build.STATE
    assert files_of(state).keys() > {"plan.json", "done"}
    assert main(["pyramid", *words]) == 0
    assert files_of(tmp_path / "x.zarr") == files_of(tmp_path / "whole.zarr")
    assert_is_pyramid_of(tmp_path / "x.zarr", image, plan)


def test_a_torn_line_of_the_journal_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "done"
    path.write_bytes(b"0 f4dbdf21\n1 83dcefb7\n2 00000000\nx\n3 6dd28")
    journal = _build.Journal(path)
    assert journal.done == {0, 1}
    journal.add(3)
    journal.close()
    again = _build.Journal(path)
    assert again.done == {0, 1, 3}
    again.close()


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    journal = _build.Journal(tmp_path / "done")
    with pytest.raises(hu.HalfulpError, match=r"another process is writing this pyramid \[Y5\]"):
        _build.Journal(tmp_path / "done")
    journal.close()


@pytest.mark.parametrize("after", [0, 9, 40])
def test_a_full_disk(tmp_path: Path, image: Any, monkeypatch: Any, capsys: Any, after: int) -> None:
    """The error is told, nothing looks whole, and there is room afterwards to go on."""
    written: list[Path] = []
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if len(written) >= after:
            write(path, data[: len(data) // 2])
            raise OSError(28, "No space left on device", str(path))
        written.append(path)
        return write(path, data)

    words = ["pyramid", str(tmp_path / "x.npy"), str(tmp_path / "x.zarr"), "--axes", "cyx", *WORDS]
    monkeypatch.setattr(Path, "write_bytes", full)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "No space left on device; what is written is kept: make room and give the command again" in error
    assert not (tmp_path / "x.zarr").exists()
    partial = _build.partial_of(tmp_path / "x.zarr")
    assert not (partial / "zarr.json").exists()
    assert files_of(partial / _build.STATE).keys() == {"plan.json", "done"}  # no half chunk either
    monkeypatch.setattr(Path, "write_bytes", write)
    assert main(words) == 0
    plan = hp.write(tmp_path / "x.npy", tmp_path / "whole.zarr", axes="cyx", **OPTIONS)
    assert files_of(tmp_path / "x.zarr") == files_of(tmp_path / "whole.zarr")
    assert_is_pyramid_of(tmp_path / "x.zarr", image, plan)


def stopped(tmp_path: Path, monkeypatch: Any) -> None:
    """Leave an unfinished pyramid behind."""
    seen: list[int] = []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", progress=stop, **OPTIONS)


def test_other_options_do_not_go_on(tmp_path: Path, image: Any, monkeypatch: Any) -> None:
    stopped(tmp_path, monkeypatch)
    with pytest.raises(hu.HalfulpError, match=r"is an unfinished pyramid with another method; --overwrite .* \[Y5\]"):
        hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", method="max", **OPTIONS)
    os.utime(tmp_path / "x.npy", (1, 1))
    with pytest.raises(hu.HalfulpError, match="with another fingerprint"):
        hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", **OPTIONS)
    plan = hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", overwrite=True, **OPTIONS)
    assert_is_pyramid_of(tmp_path / "x.zarr", image, plan)


def test_other_memory_goes_on_with_the_same_tiles(tmp_path: Path, image: Any, monkeypatch: Any) -> None:
    stopped(tmp_path, monkeypatch)
    plan = hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", **{**OPTIONS, "memory": 10**9})
    assert np.prod(plan.counts) > 10
    assert_is_pyramid_of(tmp_path / "x.zarr", image, plan)


def test_a_chunk_that_went_away_is_noticed(tmp_path: Path, image: Any, monkeypatch: Any) -> None:
    stopped(tmp_path, monkeypatch)
    (_build.partial_of(tmp_path / "x.zarr") / "0" / "c" / "0" / "0" / "0").unlink()
    with pytest.raises(hu.HalfulpError, match=r"is gone; --overwrite starts again \[Y5\]"):
        hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", **OPTIONS)
    assert not (tmp_path / "x.zarr").exists()


def test_killed_between_the_last_two_steps(tmp_path: Path, image: Any) -> None:
    hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", **OPTIONS)
    (tmp_path / "x.zarr" / _build.STATE).mkdir()
    hp.write(tmp_path / "x.npy", tmp_path / "x.zarr", axes="cyx", **OPTIONS)
    assert not (tmp_path / "x.zarr" / _build.STATE).exists()
