"""Every example runs, as a user would run it, and prints what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

PROMISES = {
    "first_steps.py": ([], "exact average: [[11/8]]"),
    "faster_pytorch_model.py": (["--batch", "1", "--size", "32"], "the same, bit for bit"),
    "grade_your_kernel.py": ([], "cells beyond the padding are counted"),
    "exact_convolution.py": (["--output", "ulps.svg"], "halfulp 100.0%"),
    "jax_dilated_gradient.py": ([], "equal, bit for bit"),
    "certify_lenet.py": (["--epochs", "1", "--digits", "2"], "certified radii, any-order float32"),
    "reproducible_resnet.py": (["--steps", "1", "--batch", "16"], "2 processes\n  different digests: 1\nPyTorch alone"),
    "train_lenet.py": (["--epochs", "1", "--curve", "loss.svg"], "accuracy"),
}


def test_every_example_is_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_keeps_its_promise(name: str, tmp_path: Path) -> None:
    arguments, promise = PROMISES[name]
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert promise in result.stdout
