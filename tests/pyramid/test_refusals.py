"""Sources that are broken, targets that exist, options without a meaning: told by name, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

from halfulp.cli import main
from tests.pyramid.images import noise


def refused(capsys: Any, *words: object) -> str:
    """What the command says when it refuses."""
    assert main(["pyramid", *map(str, words)]) == 2
    return str(capsys.readouterr().err).strip()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", noise((3, 40, 50)))
    return tmp_path / "x.npy"


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.98])
def test_a_truncated_tiff(tmp_path: Path, capsys: Any, compression: Any, share: float) -> None:
    tifffile.imwrite(
        tmp_path / "x.tif", noise((4, 200, 200)), photometric="minisblack", compression=compression, tile=(64, 64)
    )
    data = (tmp_path / "x.tif").read_bytes()
    (tmp_path / "x.tif").write_bytes(data[: int(share * len(data))])
    for words in ((), ("--axes", "zyx"), ("--axes", "yx")):
        text = refused(capsys, tmp_path / "x.tif", tmp_path / "y.zarr", *words)
        assert text.startswith(f"halfulp pyramid: {tmp_path / 'x.tif'}: is ")
        assert text.endswith("[Y3]")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.tif"]


def test_a_broken_chunk_of_the_source(tmp_path: Path, capsys: Any) -> None:
    stored = zarr.create_array(str(tmp_path / "x.zarr"), shape=(64, 64), chunks=(32, 32), dtype="u2")
    stored[:] = noise((64, 64))
    chunk = tmp_path / "x.zarr" / "c" / "1" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[: len(whole) // 2])
    text = refused(capsys, tmp_path / "x.zarr", tmp_path / "y.zarr", "--levels", 1)
    assert "x.zarr: cannot be read at [0:64, 0:64]: " in text
    assert not (tmp_path / "y.zarr").exists()
    chunk.write_bytes(whole)
    assert main(["pyramid", str(tmp_path / "x.zarr"), str(tmp_path / "y.zarr"), "--levels", "1"]) == 0


def test_sources(tmp_path: Path, image: Path, capsys: Any) -> None:
    target = tmp_path / "y.zarr"
    assert "there is no such file or folder [Y3]" in refused(capsys, tmp_path / "none.npy", target)
    (tmp_path / "x.jpg").write_bytes(b"")
    assert "must be a Zarr array or group (a folder), a TIFF file or a .npy file [Y3]" in refused(
        capsys, tmp_path / "x.jpg", target
    )
    (tmp_path / "short.npy").write_bytes(image.read_bytes()[:-10])
    assert "is not a complete .npy file" in refused(capsys, tmp_path / "short.npy", target)
    np.save(tmp_path / "complex.npy", np.zeros((4, 4), complex))
    assert "must be bool, an integer type, float16, float32 or float64 [Y3]" in refused(
        capsys, tmp_path / "complex.npy", target
    )
    np.save(tmp_path / "empty.npy", np.zeros((0, 4)))
    assert "has no cell [Y3]" in refused(capsys, tmp_path / "empty.npy", target)
    zarr.create_group(str(tmp_path / "group.zarr")).create_array("a", data=noise((4, 4)))
    assert "is a group without multiscales; name one of its arrays: a [Y3]" in refused(
        capsys, tmp_path / "group.zarr", target
    )
    (tmp_path / "folder").mkdir()
    assert "is not a Zarr array or group" in refused(capsys, tmp_path / "folder", target)
    assert not target.exists()
    assert not target.with_name("y.zarr.partial").exists()


@pytest.mark.parametrize("axes", ["yx", "zyy", "zya", "tcz", "tczyx"])
def test_axes(tmp_path: Path, image: Path, capsys: Any, axes: str) -> None:
    text = refused(capsys, image, tmp_path / "y.zarr", "--axes", axes)
    assert text.startswith(f"halfulp pyramid: axes='{axes}': must ")
    assert text.endswith("[Y4]")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--factor", "1"), "factor=1: must be at least 2 along one axis [Y6]"),
        (("--factor", "q=2"), "factor q=2: must name one of the axes zyx [Y6]"),
        (("--factor", "x=0"), "factor x=0: must be an integer >= 1 [Y6]"),
        (("--chunks", "4,4"), "chunks=(4, 4): must be one per axis of zyx [Y6]"),
        (("--chunks", "y=0"), "chunks y=0: must be >= 1 along one of the axes zyx [Y6]"),
        (("--compressor", "rar"), "compressor='rar': must be blosc, zstd, gzip, none, or name:level [Y6]"),
        (("--dtype", "words"), "dtype='words': must be 'same' or the name of a dtype [Y6]"),
        (("--dtype", "uint8"), "dtype='uint8': must hold every uint16 [Y6]"),
        (("--memory", "1MB"), "memory=1000000: must be at least"),
        (("--scheduler", "what://x"), "scheduler='what://x': "),
    ],
)
def test_options(tmp_path: Path, image: Path, capsys: Any, words: Any, text: str) -> None:
    assert text in refused(capsys, image, tmp_path / "y.zarr", *words)
    assert not (tmp_path / "y.zarr").exists()


@pytest.mark.parametrize(
    "words",
    [("--levels", "0"), ("--memory", "much"), ("--factor", "a,b"), ("--jobs", "0"), ("--scale", "1"), ("--nan", "x")],
)
def test_words_that_are_none(words: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["pyramid", "x.npy", "y.zarr", *words])
    assert stopped.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_targets(tmp_path: Path, image: Path, capsys: Any) -> None:
    target = tmp_path / "y.zarr"
    target.mkdir()
    assert "exists already; --overwrite replaces it [Y5]" in refused(capsys, image, target)
    assert main(["pyramid", str(image), str(target), "--overwrite", "--quiet"]) == 0
    assert main(["pyramid", str(image), str(target), "--overwrite", "--quiet", "--method", "max"]) == 0
    other = tmp_path / "z.zarr.partial"
    other.mkdir()
    (other / "precious").write_text("data")
    for words in ((), ("--overwrite",)):
        text = refused(capsys, image, tmp_path / "z.zarr", *words)
        assert "is in the way: no pyramid that was begun here [Y5]" in text
    assert (other / "precious").read_text() == "data"
    assert refused(capsys, image) == "halfulp pyramid: SOURCE and TARGET are missing, or --verify TARGET"
    assert refused(capsys, image, "--verify", target) == "halfulp pyramid: --verify takes no SOURCE"


def test_overwrite_replaces_zarr_data_alone_and_never_the_source(tmp_path: Path, image: Path, capsys: Any) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "precious").write_text("data")
    assert "is a folder of other files, which is never replaced [Y5]" in refused(capsys, image, home, "--overwrite")
    assert "is a file; a pyramid is a folder [Y5]" in refused(capsys, image, home / "precious", "--overwrite")
    assert (home / "precious").read_text() == "data"
    stored = zarr.create_array(str(tmp_path / "s.zarr"), shape=(8, 8), chunks=(4, 4), dtype="u2")
    stored[:] = cells = noise((8, 8))
    for source, target in (("s.zarr", "s.zarr"), ("s.zarr", "s.zarr/inner"), ("x.npy", "."), ("x.npy", "x.npy")):
        text = refused(capsys, tmp_path / source, tmp_path / target, "--overwrite")
        assert f"is, holds or lies in the source {tmp_path / source} [Y5]" in text
    assert np.array_equal(zarr.open_array(str(tmp_path / "s.zarr"))[:], cells)
    assert image.exists()


def test_what_the_command_prints(tmp_path: Path, image: Path, capsys: Any) -> None:
    assert main(["pyramid", str(image), str(tmp_path / "y.zarr"), "--levels", "2", "--method", "max"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["0  3x40x50  uint16", "1  2x20x25  uint16", "2  1x10x13  uint16"]
    assert lines[3].startswith(f"{tmp_path / 'y.zarr'}: 3 levels, max, ")
