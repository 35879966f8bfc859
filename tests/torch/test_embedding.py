"""Embeddings: gradients are exact sums over repeated indices, rounded once."""

import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import halfulp as hu
import halfulp.torch as ht

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


class Tables(nn.Module):
    """A module and a call, that share a table with the last product."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.rows = nn.Embedding(11, 3, **options)
        self.other = nn.Parameter(torch.randn(11, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.rows(x) + F.embedding(x, self.other, 2)) @ self.rows.weight.t()


def exact(g: torch.Tensor, indices: torch.Tensor, count: int, padding: int, mean: bool) -> torch.Tensor:
    """Over rationals."""
    result = torch.zeros(count, g.shape[-1], dtype=g.dtype)
    for row in range(count):
        cells = g[indices == row].double()
        for column in range(g.shape[-1]):
            values = cells[:, column].tolist()
            if values and row != padding:
                total = sum(map(Fraction, values)) / (len(values) if mean else 1)
                kind = np.dtype(np.float64) if g.dtype is torch.float64 else str(g.dtype).removeprefix("torch.")
                result[row, column] = float(hu.rounded(total, kind)) + 0.0
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("padding", [None, 3, -1])
@pytest.mark.parametrize("mean", [False, True])
def test_gradients_are_the_exact_sums_rounded_once(dtype: torch.dtype, padding: int | None, mean: bool) -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 9, (4, 37)) ** 2 // 8  # some rows often, some never
    g = (torch.randn(4, 37, 5) * 2.0 ** torch.randint(-8, 8, (4, 37, 5))).to(dtype)
    g[x == 8] = -0.0
    weight = torch.randn(10, 5).to(dtype).requires_grad_()
    output = ht.embedding(x, weight, padding, scale_grad_by_freq=mean)
    assert torch.equal(output, F.embedding(x, weight))
    output.backward(g)
    expected = exact(g, x, 10, -1 if padding is None else padding % 10, mean)
    assert torch.equal(weight.grad, expected)
    assert torch.equal(torch.signbit(weight.grad), torch.signbit(expected))
    order = torch.randperm(x.numel())
    again = weight.detach().clone().requires_grad_()
    ht.embedding(x.flatten()[order].int(), again, padding, scale_grad_by_freq=mean).backward(g.flatten(0, 1)[order])
    assert torch.equal(again.grad, weight.grad)


@pytest.mark.parametrize("shape", [(0,), (), (2, 0), (1,)])
def test_few_indices(shape: tuple[int, ...]) -> None:
    weight, x = torch.randn(4, 2, requires_grad=True), torch.zeros(shape, dtype=torch.int64)
    y, theirs = ht.embedding(x, weight), F.embedding(x, weight)
    assert torch.equal(y, theirs)
    found, expected = (torch.autograd.grad(each.sum(), weight)[0] for each in (y, theirs))
    assert torch.equal(found, expected)


def test_specials_are_sums_of_specials() -> None:
    inf = float("inf")
    weight = torch.zeros(3, 1, requires_grad=True)
    g = torch.tensor([[inf], [1.0], [inf], [-inf], [1.0], [3e38], [3e38]])
    ht.embedding(torch.tensor([0, 0, 1, 1, 1, 2, 2]), weight).backward(g)
    assert weight.grad.tolist()[0] == [inf]
    assert weight.grad.isnan().tolist() == [[False], [True], [False]]
    assert weight.grad.tolist()[2] == [inf]


def test_wrong_indices_are_refused_as_in_pytorch() -> None:
    weight = torch.zeros(3, 1)
    for x in ([3], [-1]):
        with pytest.raises(IndexError):
            ht.embedding(torch.tensor(x), weight)
    with pytest.raises(AssertionError, match="within num_embeddings"):
        ht.embedding(torch.tensor([0]), weight, 3)


def test_modules_and_calls_are_ours_in_a_replaced_model() -> None:
    torch.manual_seed(0)
    model = Tables(padding_idx=1, scale_grad_by_freq=True)
    theirs = copy.deepcopy(model)
    report = ht.replace(model, everything=True)
    assert report.swapped["rows"] == "torch.nn.Embedding -> halfulp.torch.Embedding"
    x = torch.randint(0, 11, (5, 40))
    g = torch.randn(5, 40, 11)

    def gradients(model: nn.Module) -> list[torch.Tensor]:
        model.zero_grad()
        model(x).backward(g)
        return [p.grad for p in model.parameters()]

    expected = [grad.clone() for grad in gradients(model)]
    assert report.calls["embedding"] == "ours"
    assert report.not_covered == {}
    for a, b in zip(expected, gradients(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()
    others = [copy.deepcopy(model), torch.fx.symbolic_trace(model)]
    others.append(torch.compile(model, backend="aot_eager", fullgraph=True))
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(expected, gradients(other), strict=True))


def test_both_spellings_of_pytorch_are_ours() -> None:
    x, weight = torch.tensor([0, 1, 1]), torch.randn(3, 2, requires_grad=True)
    with ht.patched(everything=True) as calls:
        outputs = [
            torch.embedding(weight, x, 1),
            torch.embedding(weight=weight, indices=x, padding_idx=1),
            F.embedding(x, weight, padding_idx=1),
            F.embedding(input=x, weight=weight, padding_idx=-2),
        ]
        free = torch.embedding(weight, x)
    assert calls == {"embedding": "ours"}
    for output in outputs:
        assert torch.autograd.grad(output.sum(), weight)[0].tolist() == [[1, 1], [0, 0], [0, 0]]
    assert torch.autograd.grad(free.sum(), weight)[0].tolist() == [[1, 1], [2, 2], [0, 0]]


def test_sparse_gradients_and_norms_are_left_and_named() -> None:
    model = nn.ModuleList([nn.Embedding(4, 2, sparse=True), nn.Embedding(4, 2, max_norm=1.0), nn.EmbeddingBag(4, 2)])
    report = ht.replace(model, everything=True)
    assert report.not_covered == {
        "0": "torch.nn.Embedding: PyTorch's own, for its sparse=True",
        "1": "torch.nn.Embedding: PyTorch's own, for its max_norm=1.0",
        "2": "torch.nn.EmbeddingBag: PyTorch's own",
    }
    x, weight = torch.tensor([0, 0]), torch.randn(3, 2, requires_grad=True)
    with ht.patched(everything=True) as calls:
        sparse = F.embedding(x, weight, sparse=True)
    assert "its gradient in its own order" in calls["embedding"]
    assert torch.autograd.grad(sparse.sum(), weight)[0].is_sparse
    with ht.patched(everything=True) as calls, torch.no_grad():
        F.embedding(x, weight, max_norm=0.5)
    assert "PyTorch's own" in calls["embedding"]


def test_derivatives_of_higher_order_and_maps() -> None:
    torch.manual_seed(0)
    x, weight = torch.tensor([[0, 2], [2, 1]]), torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    for padding, mean in ((None, False), (2, False), (None, True)):

        def function(w: torch.Tensor, padding: Any = padding, mean: bool = mean) -> torch.Tensor:
            return ht.embedding(x, w, padding, scale_grad_by_freq=mean) ** 3

        if padding is None and not mean:  # with these the gradient is not that of the value, as in PyTorch
            assert torch.autograd.gradcheck(function, (weight,), check_forward_ad=True)
            assert torch.autograd.gradgradcheck(function, (weight,))
        theirs = F.embedding(x, weight, padding, scale_grad_by_freq=mean) ** 3
        (g,) = torch.autograd.grad(function(weight).sum(), weight)
        torch.testing.assert_close(g, torch.autograd.grad(theirs.sum(), weight)[0])
    batch = torch.randn(4, 3, 2)
    mapped = torch.func.vmap(lambda w: ht.embedding(x, w))(batch)
    assert torch.equal(mapped, torch.stack([F.embedding(x, w) for w in batch]))
    loss = torch.func.vmap(torch.func.grad(lambda w: (ht.embedding(x, w) ** 2).sum()))(batch)
    assert torch.equal(loss, torch.stack([torch.tensor([2.0, 2.0, 4.0])[:, None] * w for w in batch]))


@pytest.mark.parametrize("cuts", [[6], [1] * 6, [2, 4]])
@pytest.mark.parametrize("mean", [False, True])
def test_pieces_give_the_bits_of_the_whole(cuts: list[int], mean: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 3, padding_idx=1, scale_grad_by_freq=mean), nn.Linear(3, 2))
    ht.replace(model, everything=True)
    x, weights = torch.randint(0, 5, (6, 20)), torch.randn(6, 20, 2)
    (model(x) * weights).sum().backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    with ht.pieces(model):
        for piece, share in zip(x.split(cuts), weights.split(cuts), strict=True):
            (model(piece) * share).sum().backward()
    assert all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected, strict=True))
