"""The calls of frameworks for operators without windows: each computes what the record means, and its script runs."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import halfulp as hu
from halfulp.conformance.cases import Filling, Setting, make_arrays
from halfulp.conformance.subjects import Unsupported, load_subject
from halfulp.conformance.subjects._layers import LAYERS
from halfulp.records import Operator, declarations

OWN = [d for d in declarations() if d.record.__module__.startswith("halfulp.") and issubclass(d.record, LAYERS)]
HAS: dict[str, set[str]] = {
    "torch": {d.name for d in OWN},
    "jax": {d.name for d in OWN},
    "onnxruntime": {d.name for d in OWN} - {"var", "mse_loss"},
}


@pytest.fixture(autouse=True)
def doubles_of_jax() -> Iterator[None]:
    """JAX's subject switches 64 bits on for the whole process; other tests want them off."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def drawn(declaration: Any, count: int) -> list[Setting]:
    found = []
    for seed in range(count):
        op, shapes = declaration.draw.family(random.Random(seed).choice)
        found.append(Setting(op, shapes, (Filling("normal", seed),)))
    return found


def close(a: Any, b: Any) -> bool:
    return bool(np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-3, atol=1e-4, equal_nan=True))


def given(backend: Any, op: Any, arrays: Any) -> Any:
    """The value, or None where there is none: PyTorch refuses one value per channel, for example."""
    try:
        return backend.forward(op, arrays.primals)
    except (Unsupported, ValueError):
        return None


@pytest.mark.parametrize("subject", HAS)
@pytest.mark.parametrize("declaration", OWN, ids=lambda d: d.name)
def test_a_call_computes_what_the_record_means(subject: str, declaration: Any) -> None:
    backend, ran = load_subject(subject), 0
    for setting in drawn(declaration, 60 if subject == "onnxruntime" else 6):
        op: Operator = setting.op
        arrays = make_arrays(setting, setting.fillings[0], "float32")
        value = given(backend, op, arrays)
        if value is None or ran == 6:
            continue
        ran += 1
        assert close(value, hu.spec.forward(op, *arrays.primals)), op
        if subject == "onnxruntime":
            continue
        pulled, expected = (
            backend.vjp(op, arrays.primals, arrays.cotangent),
            op.vjp(*arrays.primals)[1](arrays.cotangent),
        )
        assert all(
            (a is None) == (b is None) and (a is None or close(a, b)) for a, b in zip(pulled, expected, strict=True)
        )
        pushed = backend.jvp(op, arrays.primals, arrays.tangents)[1]
        assert close(pushed, op.jvp(arrays.primals, arrays.tangents)[1]), op
    assert (ran > 0) == (declaration.name in HAS[subject])


@pytest.mark.parametrize("mode", ["forward", "vjp"])
@pytest.mark.parametrize("subject", ["torch", "onnxruntime"])
def test_scripts_run(subject: str, mode: str) -> None:
    backend = load_subject(subject)
    setting = Setting(hu.CrossEntropy(), ((4, 3), (4,), (3,)), (Filling("normal", 1),))
    arrays = make_arrays(setting, setting.fillings[0], "float32")
    if subject == "onnxruntime" and mode == "vjp":
        with pytest.raises(Unsupported, match="no derivatives"):
            backend.vjp(setting.op, arrays.primals, arrays.cotangent)
        return
    text = backend.script(setting.op, mode, arrays)
    assert text is not None
    assert "target" in text
    run = subprocess.run([sys.executable, "-c", f"which = 0\n{text}\nprint(got.shape)"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == ("()" if mode == "forward" else "(4, 3)")
