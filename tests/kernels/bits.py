"""What the tests of losses, variance and interpolation share: element types, hard numbers, and comparison by bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)
KINDS = ("normal", "integers", "equal", "near", "zeros", "tiny", "huge", "wide", "special")
every_kind = pytest.mark.parametrize("kind", KINDS)


def same(a: Any, b: Any) -> bool:
    """The same bits; any NaN equals any NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (np.where(np.isnan(v.astype(np.float64)), np.nan, v.astype(np.float64)) for v in (a, b))
    return bool(a.tobytes() == b.tobytes())


def numbers(kind: str, rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    """Numbers that are hard in one way."""
    normal = np.asarray(rng.standard_normal(shape))
    limits: Any = ml_dtypes.finfo(dtype)
    powers = 2.0 ** rng.integers(int(limits.minexp) // 3, int(limits.maxexp) // 3, shape)
    step = float(limits.eps)
    made = {
        "normal": normal,
        "integers": rng.integers(-4, 5, shape) * 1.0,
        "equal": np.full(shape, rng.integers(-3, 4) * 0.3),
        "near": 1 + step * rng.integers(-3, 4, shape),
        "zeros": rng.choice([0.0, -0.0, -0.0, 1.0], shape, p=[0.3, 0.3, 0.3, 0.1]),
        "tiny": normal * float(limits.tiny) * 4,
        "huge": normal * (float(limits.max) / 4),
        "wide": normal * powers,
        "special": np.where(
            rng.random(shape) < 0.15, rng.choice([np.inf, -np.inf, np.nan, -0.0], shape), rng.integers(-4, 5, shape)
        ),
    }[kind]
    with np.errstate(over="ignore"):
        return np.asarray(made).astype(dtype)


def assert_spec_bits(op: Any, primals: Any, tangents: Any, cotangent: Any) -> None:
    """Value, JVP and VJP have the bits of the specification."""
    context = (op, [None if p is None else p.tolist() for p in primals])
    assert same(op(*primals), hu.spec.forward(op, *primals)), context
    pushed, expected = op.jvp(primals, tangents)[1], hu.spec.jvp(op, primals, tangents)[1]
    assert same(pushed, expected), (*context, "jvp", tangents, pushed, expected)
    pulled, wanted = op.vjp(*primals)[1](cotangent), hu.spec.vjp(op, primals, cotangent)
    for a, b in zip(pulled, wanted, strict=True):
        assert (a is None) == (b is None)
        assert a is None or same(a, b), (*context, "vjp", cotangent, a, b)
