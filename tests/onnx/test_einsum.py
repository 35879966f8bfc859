"""Einsum against NumPy on small integers, where every sum is exact, and with one rounding where it is not."""

from __future__ import annotations

import numpy as np
import pytest

import halfulp as hu
import halfulp.onnx
from halfulp import ModelError
from tests.onnx.models import node_model

CASES = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("...ij,...jk", [(2, 2, 3), (1, 3, 4)]),
    ("ii->i", [(3, 3)]),
    ("iijj->ij", [(3, 3, 2, 2)]),
    ("ij->", [(2, 3)]),
    ("bij,bk->bi", [(2, 3, 4), (2, 5)]),
    ("ij,kl->ijkl", [(2, 2), (3, 2)]),
    ("i,i", [(4,), (4,)]),
    ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 2)]),
    ("iij,j->i", [(3, 3, 2), (2,)]),
    ("b...d,b...d->b...", [(2, 3, 4), (2, 3, 4)]),
    ("ij,j->ij", [(0, 3), (3,)]),
]


@pytest.mark.parametrize(("equation", "shapes"), CASES)
def test_sums_of_products(equation: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-5, 5, shape).astype(np.float32) for shape in shapes]
    loaded = halfulp.onnx.load(node_model("Einsum", arrays, equation=equation))
    (found,) = loaded.run(arrays)
    assert np.array_equal(found, np.einsum(equation, *arrays))
    if found.size:
        gradients = hu.vjp(lambda *x: loaded.run(x)[0], *arrays)[1](np.ones_like(found))
        for i, gradient in enumerate(gradients):  # the sum is linear in each input
            assert (gradient * arrays[i]).sum() == np.einsum(equation, *arrays).sum()


def test_two_inputs_are_one_sum() -> None:
    """Letters of one input alone are summed in the same product: 2**24 + 1 + 1 is not rounded on the way."""
    a = np.array([[2.0**24, 1.0], [1.0, 0.0]], np.float32)
    b = np.array([1.0], np.float32)
    (found,) = halfulp.onnx.load(node_model("Einsum", [a, b], equation="ij,k->k")).run([a, b])
    assert found[0] == 2.0**24 + 2


@pytest.mark.parametrize(
    ("equation", "shapes", "text"),
    [
        ("ij;jk", [(2, 2), (2, 2)], "must be letters, commas"),
        ("ij,jk->iz", [(2, 2), (2, 2)], "output 'iz': must be letters of the inputs"),
        ("ij,jk->ii", [(2, 2), (2, 2)], "each once"),
        ("ijk,jk", [(2, 2), (2, 2)], r"term 'ijk': does not fit an input of shape \(2, 2\)"),
        ("ij", [(2, 2), (2, 2)], "has 1 terms for 2 inputs"),
        ("ij,jk", [(2, 3), (2, 2)], "sizes 3 and 2: of one letter must be equal"),
    ],
)
def test_equations_that_do_not_fit_O3_O9(equation, shapes, text) -> None:
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    with pytest.raises(ModelError, match=text) as caught:
        halfulp.onnx.load(node_model("Einsum", arrays, equation=equation)).run(arrays)
    assert caught.value.label in ("O3", "O9")
