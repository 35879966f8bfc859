"""Data parallel: 1, 2, 3 and 4 processes give the bits of one with the whole batch; a lost worker is an error."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import halfulp.torch as ht
from halfulp.torch._rounding import narrowed
from halfulp.torch.distributed import rounded_sum
from tests.torch import workers

SCRIPT = Path(workers.__file__)


def run(task: str, kind: str, world: int, folder: Path) -> list[tuple[int, Any]]:
    """The exit code and the result of every process."""
    command = [sys.executable, str(SCRIPT), task, kind]
    processes = [
        subprocess.Popen([*command, str(rank), str(world), str(folder / "store")], stdout=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    try:
        outputs = [process.communicate(timeout=100)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [(p.returncode, json.loads(out) if out else None) for p, out in zip(processes, outputs, strict=True)]


def whole(kind: str) -> str:
    """The digest of one process without any distribution."""
    model, dtype = workers.typed(kind)
    optimizer = ht.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, weights = (t.to(dtype) for t in workers.batch(kind))
    for _ in range(2):
        optimizer.zero_grad()
        (model(x) * weights).sum().backward()
        optimizer.step()
    return workers.digest(model)


@pytest.mark.parametrize(
    "kind",
    [
        *("float", "half", "double", "ties", "norm", "norms", "norms of halves", "norms of 16 bits"),
        *("norms of doubles", "norms of infinity", "words", "words by count", "instances"),
    ],
)
def test_any_number_of_processes_gives_the_bits_of_one(kind: str, tmp_path: Path) -> None:
    results = run("sizes", kind, 4, tmp_path)
    assert [code for code, _ in results] == [0] * 4
    expected = whole(kind)
    for _, by_size in results:
        assert {size: result["digest"] for size, result in by_size.items()} == dict.fromkeys(by_size, expected)
    if kind == "float":
        for size, result in results[0][1].items():
            one_reduction = 2 * 2 * (int(size) - 1) / int(size) * 4 * result["elements"]
            assert result["sent"] <= 4 * one_reduction + 4096
            assert result["exchanged"] == 0
    if kind == "norm":  # no activations: three exchanges per step of some sums for each of four channels
        for size, result in results[0][1].items():
            of_weights = 24 * (int(size) - 1) * (result["elements"] / int(size) + 8)
            assert result["exchanged"] == 0
            assert result["sent"] <= of_weights + (int(size) - 1) * 3 * 2 * (4 * 2 * 24 + 100)


@pytest.mark.parametrize("kind", ["float", "norms"])
def test_B9_a_lost_worker_is_an_error_on_all_others(kind: str, tmp_path: Path) -> None:
    *others, (code, _) = run("lost", kind, 3, tmp_path)
    assert code == 3
    for code, result in others:
        assert code == 0
        assert "another worker ended or did not answer in 20 s" in result["error"]
        assert "[B9]" in result["error"]
        assert result["seconds"] < 60


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_float64_is_rounded_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = torch.randn(500, dtype=torch.float64) * 2.0 ** torch.randint(-30, 15, (500,)).double()
    middles = (
        values.to(dtype).double() + torch.nextafter(values.to(dtype), torch.tensor(9e9, dtype=dtype)).double()
    ) / 2
    for x in (values, middles, middles * (1 + 2.0**-52), middles * (1 - 2.0**-53)):
        found = narrowed(x, dtype)
        # The nearest of three neighbours, ties to the even one, in exact arithmetic.
        for value, result in zip(x.tolist(), found, strict=True):
            around = [result, *(torch.nextafter(result, torch.tensor(s * 9e9, dtype=dtype)) for s in (-1, 1))]
            off = [abs(Fraction(value) - Fraction(each.item())) for each in around if torch.isfinite(each)]
            assert off[0] == min(off)
            if off.count(off[0]) > 1:
                assert result.view(torch.int16 if dtype.itemsize == 2 else torch.int32).item() % 2 == 0


def test_sums_that_are_not_certain_are_not_claimed() -> None:
    half = 2.0**-24
    certain = torch.tensor([[1.0, -0.0, 3.0], [half * 1.1, -0.0, float("inf")]], dtype=torch.float64)
    total, sure = rounded_sum(certain, torch.float32)
    assert sure.all()
    assert total.tolist() == [1 + 2**-23, 0.0, float("inf")]
    assert torch.signbit(total).tolist() == [False, True, False]
    for column in ([1.0, half], [1.0, -1.0], [1.0 + 2**-52, half]):
        assert not rounded_sum(torch.tensor(column, dtype=torch.float64)[:, None], torch.float32)[1].all()


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))


def test_B8_models_whose_gradients_are_not_known_sums_are_refused() -> None:
    fast = nn.Sequential(nn.Conv2d(1, 1, 1))
    ht.replace(fast, everything=True, precision="fast")
    cases = [
        (Pair(), "pieces: parameter 'scale' of Pair: must belong to a convolution"),
        (nn.Linear(2, 2), "pieces: parameter 'weight' of Linear: is PyTorch's own"),
        (fast, "has precision='fast'"),
    ]
    for model, text in cases:
        with pytest.raises(ValueError, match="pieces") as error:
            ht.pieces(model)
        assert text in str(error.value)
        assert "[B8]" in str(error.value)
    with pytest.raises(ValueError, match="init_process_group"):
        ht.distributed.ExactDataParallel(ht.Conv2d(1, 1, 1))


@pytest.mark.parametrize("cuts", [[7], [1] * 7, [3, 4], [2, 2, 3], [0, 7]])
def test_pieces_give_the_bits_of_the_whole(cuts: list[int]) -> None:
    expected = workers.network("float")
    x, weights = workers.batch("float")
    (expected(x) * weights).sum().backward()
    model = workers.network("float")
    for _ in range(2):  # a second block adds to the gradients, as backward does
        with ht.pieces(model):
            for piece, share in zip(x.split(cuts), weights.split(cuts), strict=True):
                (model(piece) * share).sum().backward()
    pairs = list(zip(model.parameters(), expected.parameters(), strict=True))
    assert all(torch.equal(p.grad, q.grad + q.grad) for p, q in pairs)
    (model(x) * weights).sum().backward()  # outside the block layers are as before
    assert all(torch.equal(p.grad, q.grad + q.grad + q.grad) for p, q in pairs)


def test_pieces_refuse_layers_that_mix_the_rows_of_a_batch() -> None:
    for norm in (ht.BatchNorm2d(3), ht.InstanceNorm2d(3, track_running_stats=True)):
        with pytest.raises(ValueError, match=r"mixes the rows of a piece.*\[B8\]"), ht.pieces(nn.Sequential(norm)) as _:
            norm(torch.ones(1, 3, 2, 2))


def test_pieces_that_fail_leave_the_model_as_it_was() -> None:
    model = workers.network("float")
    x, weights = workers.batch("float")

    def failing() -> None:
        with ht.pieces(model):
            (model(x) * weights).sum().backward()
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert all(p.grad is None for p in model.parameters())
    assert all("forward" not in vars(layer) for layer in model.modules())
