"""What a type checker sees: the stub of the core is in step with it, and a user's program passes in strict mode."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import halfulp

PACKAGE = Path(__file__).parent.parent / "src" / "halfulp"

PROGRAM = """
import numpy as np
from numpy.typing import NDArray

import halfulp as hu
from halfulp import ops


def features(image: NDArray[np.float32], weight: NDArray[np.float32]) -> NDArray[np.float32]:
    pooled, where = hu.max_pool2d(hu.conv2d(image, weight, padding=1), 2, return_indices=True)
    assert where.shape == pooled.shape
    return np.asarray(hu.AvgPool((2, 2), count_include_pad=False)(pooled))


def loss(weight: NDArray[np.float32]) -> object:
    return ops.relu(hu.conv2d(np.ones((1, 8, 8), np.float32), weight)).sum()


op: hu.Operator = hu.MaxPool((2, 2), stride=1, padding=((0, 1), (1, 0)), ties="split")
shape: tuple[int, ...] = op.output_shape((3, 8, 8))
output, pullback = op.vjp(np.ones((3, 8, 8), np.float32))
(cotangent,) = pullback(np.ones_like(output))
gradient = hu.grad(loss)(np.ones((1, 1, 3, 3), np.float32))
exact = hu.spec.forward(op, hu.exact(np.ones((1, 4, 4))))
back: NDArray[np.float32] = hu.rounded(exact, np.float32)
threads: int = hu.get_num_threads()
hu.set_num_threads(threads)
try:
    hu.avg_pool2d(np.ones(3), 2)
except hu.ShapeError as error:
    label: str = error.label
version: str = hu.__version__
"""


def declared(path: Path) -> dict[str, str]:
    """Every function and class of a stub with its signature; docstrings and items of tuples and lists do not count."""

    class Plain(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
            self.generic_visit(node)
            plain = ast.unparse(node.value) in ("tuple", "list") or ast.unparse(node) == "Sequence[Any]"
            return node.value if plain else node

        def visit_Expr(self, node: ast.Expr) -> ast.Expr:
            return ast.Expr(ast.Constant(...))

    tree = Plain().visit(ast.parse(path.read_text(encoding="utf-8")))
    found = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return {node.name: ast.unparse(node) for node in found}


def test_the_stub_of_the_core_is_in_step(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "halfulp._core", "-O", str(tmp_path)]
    subprocess.run(command, check=True)
    made = declared(tmp_path / "_core.pyi")
    assert len(made) > 10
    assert made == declared(PACKAGE / "_core.pyi")


def test_a_program_passes_in_strict_mode(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    exec(compile(PROGRAM, "program.py", "exec"), {})


def test_a_wrong_program_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import halfulp as hu\nhu.set_num_threads('two')\nhu.no_such_name\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "[arg-type]" in done.stdout
    assert "no_such_name" in done.stdout


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(halfulp.__file__).parent / "py.typed").exists()
