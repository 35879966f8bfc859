"""Geometry beyond any memory: refused at once, by kernels and specification, or computed where the result is small."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import numpy as np, halfulp as hu
P = 2**EXPONENT
z, e = np.zeros(4, "f4"), np.zeros((0, 4), "f4")
zc, w, view = z[None], np.ones((1, 1, 2), "f4"), np.broadcast_to(np.float32(0), (P,))
pads = ((P, P),)
ops = [hu.MaxPool((2,), padding=pads), hu.AvgPool((2,), padding=pads), hu.SmoothMaxPool((2,), 1.0, padding=pads)]
calls = [lambda op=op, x=x: op(x) for op in ops for x in (z, e)]
calls += [lambda op=op: op.vjp(z) for op in ops] + [lambda op=op: op.jvp((z,), (z,)) for op in ops]
calls += [lambda op=op: hu.spec.forward(op, z) for op in ops]
calls += [lambda make=make: make((P,))(z) for make in (hu.AdaptiveMaxPool, hu.AdaptiveAvgPool)]
calls += [lambda: hu.max_pool1d(view, 2), lambda: hu.max_pool1d(view, 2, return_indices=True)]
calls += [lambda: hu.avg_pool1d(view, 2), lambda: hu.conv_transpose1d(zc, w, stride=P)]
calls += [lambda: hu.smooth_max_pool1d(view, 2, 1.0), lambda: hu.conv1d(view[None], w)]
calls += [lambda: hu.conv1d(zc, w, padding=P), lambda: hu.Conv(1, padding=P).vjp(zc, w)]
calls += [lambda: hu.Conv(1, padding=P).jvp((zc, w), (zc, None)), lambda: hu.spec.forward(hu.Conv(1, padding=P), zc, w)]
for i, call in enumerate(calls):
    try:
        call()
        print(i, "no error")
    except hu.ShapeError as error:
        if not str(error).endswith("[I7]"):
            print(i, error)
small = hu.MaxPool((2,), stride=P // 2, padding=((P, P),))(z)
assert small.shape == (5,) and not small.any()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
@pytest.mark.parametrize("exponent", [40, 45, 58])
def test_arrays_beyond_memory_are_refused_at_once_I7(exponent: int) -> None:
    code = PROGRAM.replace("EXPONENT", str(exponent))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
