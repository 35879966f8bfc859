"""The page about operators of one's own, done as it says: one file outside of the package, and the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/how-to/your-own-operator.md").read_text(encoding="utf-8")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), *sys.path])
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )


def test_the_file_of_the_page_is_checked_from_the_command_line(tmp_path: Path) -> None:
    (source,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if ">>>" not in block]
    (tmp_path / "mean_square.py").write_text(source, encoding="utf-8")
    done = run(tmp_path, "-m", "halfulp", "check", "--declare", "mean_square", "--cases", "40", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mean_square_pool" in done.stdout
    assert "passes: every answer is right" in done.stdout


def test_a_wrong_backend_for_it_is_found(tmp_path: Path) -> None:
    (source,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if ">>>" not in block]
    (tmp_path / "mean_square.py").write_text(source, encoding="utf-8")
    (tmp_path / "mine.py").write_text("def backend(op, x):\n    return op(x) * 3\n", encoding="utf-8")
    command = ("-m", "halfulp", "check", "mine:backend", "--declare", "mean_square", "--cases", "20", "--jobs", "0")
    done = run(tmp_path, *command, "--mode", "forward", "--dtype", "float32")
    assert done.returncode == 1, done.stdout + done.stderr


HOLES = {
    "curvature=None: must be one of": ('curvature=hu.Curvature("mean square", change_of_push, change_of_pull),', ""),
    "draw=None: must say how the lab draws cases": ('draw=hu.Draw("window"),', ""),
    "the VJP is not the JVP's transpose": ("return [2 * x * g", "return [3 * x * g"),
    "but the second derivative is declared as 'none'": (
        'curvature=hu.Curvature("mean square", change_of_push, change_of_pull)',
        'curvature="none"',
    ),
    "has no specification; register one": ("hu.spec.register(MeanSquarePool,", "(lambda *_: None)(MeanSquarePool,"),
}


@pytest.mark.parametrize("sentence", HOLES)
def test_a_hole_in_it_is_refused_with_a_sentence(tmp_path: Path, sentence: str) -> None:
    (source,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if ">>>" not in block]
    there, instead = HOLES[sentence]
    assert there in source
    (tmp_path / "mean_square.py").write_text(source.replace(there, instead), encoding="utf-8")
    done = run(tmp_path, "-m", "halfulp", "check", "--declare", "mean_square", "--cases", "5", "--jobs", "0")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--declare mean_square: " in done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "halfulp", "check", "--declare", "nowhere")
    assert done.returncode == 2
    assert "--declare nowhere: No module named 'nowhere'" in done.stderr


DOT = """
from dataclasses import dataclass
import numpy as np
import halfulp as hu

@dataclass(frozen=True, repr=False)
class DotRows(hu.Operator):
    arity, required, input_names = 2, 2, ("input", "weight")
    base_name = name = "dot_rows"

    def output_shape(self, *shapes):
        return shapes[0][:-1]

class DotRule:
    def forward(op, inputs):
        return np.asarray((inputs[0] * inputs[1]).sum(-1), dtype=object)

    def jvp(op, primals, tangents):
        (x, w), (dx, dw) = primals, tangents
        pairs = [(a, b) for a, b in ((dx, w), (x, dw)) if a is not None and b is not None]
        return sum(DotRule.forward(op, pair) for pair in pairs)

    def vjp(op, primals, cotangent):
        x, w = primals
        return cotangent[..., None] * w, cotangent[..., None] * x

hu.spec.register(DotRows, DotRule)
draw = hu.Draw(lambda choose: (DotRows(), ((choose((1, 2)), 3),) * 2))
hu.declare(DotRows, kind="bilinear", curvature="bilinear", draw=draw, ranks=())
"""
USE = """
import dot, jax, numpy as np, torch
import halfulp as hu, halfulp.jax as hj, halfulp.torch as ht

x = np.arange(6.0, dtype="float32").reshape(2, 3)
plain, tensors, arrays = (f.functions(dot.DotRows).dot_rows for f in (hu, ht, hj))
print(hu.hvp(lambda x: hu.ops.sum(plain(x, x)), (x,), (np.ones_like(x),)).tolist())
t = torch.tensor(x, requires_grad=True)
(g,) = torch.autograd.grad(tensors(t, t).sum(), t, create_graph=True)
print(torch.autograd.grad(g.sum(), t)[0].tolist())
loss = lambda x: arrays(x, x).sum()
print(jax.jvp(jax.grad(loss), (jax.numpy.asarray(x),), (jax.numpy.ones((2, 3)),))[1].tolist())
w = torch.tensor(x)
(g,) = torch.autograd.grad(tensors(t, w).sum(), t)
print(g.tolist() == x.tolist())
"""


def test_a_bilinear_operator_has_second_derivatives_in_every_layer(tmp_path: Path) -> None:
    (tmp_path / "dot.py").write_text(DOT, encoding="utf-8")
    done = run(tmp_path, "-m", "halfulp", "check", "--declare", "dot", "--cases", "10", "--jobs", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(tmp_path, "-c", USE)
    assert done.stdout.splitlines() == [str([[2.0] * 3] * 2)] * 3 + ["True"], done.stdout + done.stderr


def test_a_rule_with_other_parameters_is_refused(tmp_path: Path) -> None:
    wrong = DOT.replace("def forward(op, inputs):", "def forward(op, x, w):")
    (tmp_path / "dot.py").write_text(wrong, encoding="utf-8")
    done = run(tmp_path, "-m", "halfulp", "check", "--declare", "dot", "--cases", "5", "--jobs", "0")
    assert done.returncode == 2
    assert "DotRows: forward must take (op, inputs), not (op, x, w) [E6]" in done.stderr
