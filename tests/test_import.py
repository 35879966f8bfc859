"""``import halfulp`` brings in nothing but NumPy and ml_dtypes; python-flint comes with the first exact number."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

FRAMEWORKS = ["torch", "jax", "onnx", "onnxruntime", "dask", "distributed", "xarray", "zarr", "tifffile"]
HEAVY = ["flint", *FRAMEWORKS, "rich", "hypothesis", "sympy", "matplotlib"]


def imported(statement: str) -> list[str]:
    """Which of the heavy modules a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_import_is_light() -> None:
    assert imported("import halfulp") == []


def test_the_tape_and_the_specification_come_with_their_first_use() -> None:
    code = "import sys, halfulp as hu\nprint('halfulp.spec' in sys.modules, 'halfulp.autograd' in sys.modules)"
    code += "\nprint(hu.spec.forward.__module__, hu.grad.__module__, {'grad', 'spec', 'Tape'} <= set(dir(hu)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["False False", "halfulp.spec._interpreter halfulp.autograd.transforms True"]


def test_floats_stay_light() -> None:
    statement = (
        "import numpy as np, halfulp as hu\n"
        "x = np.ones((1, 4, 4))\n"
        "hu.MaxPool((2, 2)).vjp(x)[1](np.ones((1, 2, 2)))\n"
        "hu.grad(lambda w: hu.ops.relu(hu.conv2d(hu.avg_pool2d(x, 2), w)).sum())(np.ones((1, 1, 1, 1)))"
    )
    assert imported(statement) == []


def test_exact_numbers_bring_in_flint_alone() -> None:
    statement = (
        "import numpy as np, halfulp as hu\n"
        "x = np.ones((1, 4, 4))\n"
        "hu.spec.forward(hu.SmoothMaxPool((2, 2), 1.0), x)\n"
        "hu.spec.vjp(hu.AvgPool((2, 2)), (hu.exact(x),), hu.exact(np.ones((1, 2, 2))))"
    )
    assert imported(statement) == ["flint"]


@pytest.mark.parametrize("name", ["sympy", "rich", "hypothesis"])
def test_this_test_can_fail(name: str) -> None:
    assert name in imported(f"import halfulp, {name}")


def test_a_progress_bar_is_what_brings_rich_in() -> None:
    statement = (
        "import numpy as np, halfulp as hu\nhu.spec.forward(hu.MaxPool((2,)), hu.exact(np.ones(2)), progress=True)"
    )
    assert imported(statement) == ["flint", "rich"]


def test_the_version_is_that_of_the_package() -> None:
    import halfulp

    assert halfulp.__version__ == version("halfulp")
    with pytest.raises(AttributeError, match="module 'halfulp' has no attribute 'nothing'"):
        halfulp.nothing  # noqa: B018
