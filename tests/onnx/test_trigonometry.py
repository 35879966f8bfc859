"""Sin and Cos against balls, on arguments of every size."""

from __future__ import annotations

import flint
import numpy as np
import pytest

import halfulp as hu
import halfulp.onnx
from halfulp.numbers import float_format, round_ball
from tests.onnx.models import node_model

HARD = [0.0, -0.0, 1e-30, 1.0, -2.5, 3.14159274, 1.57079637, 1e4, 1e22, 3e38, 1e-45, 6.2831855, 710.0]


def expected(name: str, x: np.ndarray) -> np.ndarray:
    target = float_format(x.dtype)
    out = np.empty(x.shape, x.dtype)
    with flint.ctx.workprec(2000):
        for i, value in enumerate(x):
            if value == 0:
                out[i] = value if name == "Sin" else 1
                continue
            ball = getattr(flint.arb(flint.fmpq(*float(value).as_integer_ratio())), name.lower())()
            out[i] = round_ball(ball, target)
    return out


@pytest.mark.parametrize("name", ["Sin", "Cos"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_correctly_rounded(name: str, dtype) -> None:
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        x = np.array([*HARD, *(rng.standard_normal(150) * 10.0 ** rng.integers(-8, 5, 150))]).astype(dtype)
    x = x[np.isfinite(x)]
    loaded = halfulp.onnx.load(node_model(name, [x]))
    assert loaded(x).tobytes() == expected(name, x).tobytes()
    assert np.isnan(loaded(np.array([np.nan, np.inf, -np.inf], dtype))).all()
    slope = hu.grad(lambda x: loaded(x).sum())(x)
    other = expected("Cos" if name == "Sin" else "Sin", x)
    assert slope.tobytes() == (other if name == "Sin" else -other).tobytes()
