"""A masked array is refused wherever an array can be given; other subclasses are read as the array they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.onnx
from halfulp import DTypeError, HalfulpError, ops, spec
from halfulp.autograd.operators.arithmetic import power

OPERATORS = [
    hu.MaxPool((2,)),
    hu.AvgPool((2,)),
    hu.SmoothMaxPool((2,), 1.0),
    hu.AdaptiveMaxPool((2,)),
    hu.AdaptiveAvgPool((2,)),
    hu.GlobalMaxPool(1),
    hu.GlobalAvgPool(1),
    hu.Conv(1),
    hu.ConvTranspose(1),
]
MODEL = '<ir_version: 8, opset_import: ["": 17]> d (double[1, 4] x) => (double[1, 4] y) { y = Relu(x) }'


def masked(array: Any) -> Any:
    return np.ma.masked_array(array, mask=np.arange(array.size).reshape(array.shape) % 2 == 1)


def uses(op: Any, dtype: Any) -> dict[str, Callable[[Callable[[Any], Any]], Any]]:
    """Every place of an operator where an array can be given; the function goes around that array."""
    x, w = np.arange(4.0).reshape(1, 4).astype(dtype), np.ones((1, 1, 2), dtype)
    rest = (w, np.ones(1, dtype)) if op.arity == 3 else ()
    y = np.array(op(x, *rest))
    return {
        "value": lambda m: op(m(x), *rest),
        "rows": lambda m: op([m(row) for row in x], *rest),
        "out": lambda m: op(x, *rest, out=m(np.empty_like(y))),
        "input besides out": lambda m: op(m(x), *rest, out=np.empty_like(y)),
        "last input": lambda m: op(x, *rest[:-1], m(rest[-1])) if rest else op(m(x)),
        "weight": lambda m: op(x, m(w), rest[1]) if rest else op(m(x)),
        "primal": lambda m: op.jvp((m(x), *rest), (x, *rest)),
        "tangent": lambda m: op.jvp((x, *rest), (m(x), *rest)),
        "vjp": lambda m: op.vjp(m(x), *rest),
        "cotangent": lambda m: op.vjp(x, *rest)[1](m(y)),
        "spec": lambda m: spec.forward(op, m(x), *rest),
        "spec tangent": lambda m: spec.jvp(op, (x, *rest), (m(x), *rest)),
        "spec cotangent": lambda m: spec.vjp(op, (x, *rest), m(y)),
        "tape": lambda m: hu.Tape().leaf(m(x)),
        "traced": lambda m: hu.grad(lambda v: ops.sum(op(v, *rest)))(m(x)),
        "traced tangent": lambda m: hu.jvp(lambda v: op(v, *rest), (x,), (m(x),)),
        "traced cotangent": lambda m: hu.vjp(lambda v: op(v, *rest), x)[1](m(y)),
    }


@given(
    st.sampled_from(OPERATORS),
    st.sampled_from(sorted(uses(OPERATORS[0], np.float64))),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_I8_masked_arrays_are_refused(op: Any, where: str, dtype: Any) -> None:
    call = uses(op, dtype)[where]
    call(np.array)  # the same call without a mask has an answer
    with pytest.raises(DTypeError, match=r"of type MaskedArray: masked arrays are not supported; .* \[I8\]$"):
        call(masked)


X = np.arange(4.0).reshape(1, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: hu.max_pool1d(m(X), 2),
        lambda m: hu.max_pool1d(m(X), 2, return_indices=True),
        lambda m: hu.conv1d(X, m(np.ones((1, 1, 2)))),
        lambda m: hu.exact(m(X)),
        lambda m: hu.rounded(m(hu.exact(X)), "float32"),
        lambda m: hu.MaxPool((2,))(m(hu.exact(X))),
        lambda m: ops.relu(m(X)),
        lambda m: ops.mul(X, m(X)),
        lambda m: ops.sum(m(X)),
        lambda m: ops.cross_entropy(X, m(np.array([1]))),
        lambda m: hu.grad(lambda v: ops.sum(v * m(X)))(X),
        lambda m: hu.Tape().leaf(X)[0].backward(0, m(X)),
        lambda m: hu.Tape().leaf(X)[0].jvp(0, {0: m(X)}),
        lambda m: halfulp.onnx.load(onnx.parser.parse_model(MODEL))(m(X)),
    ],
)
def test_I8_everywhere_else(call: Callable[[Callable[[Any], Any]], Any]) -> None:
    call(np.array)
    with pytest.raises(HalfulpError, match=r"MaskedArray: masked arrays are not supported.*\[I8\]"):
        call(masked)


def test_a_matrix_is_read_as_an_array() -> None:
    x = np.arange(4.0).reshape(2, 2)
    matrix: Any = x.view(np.matrix)  # whose * is the matrix product
    assert type(hu.max_pool2d(matrix, 2)) is np.ndarray
    assert power(matrix, 2).tolist() == (x * x).tolist()
    assert type(ops.relu(matrix)) is np.ndarray
    assert hu.grad(lambda v: ops.sum(power(v, 2)))(matrix).tolist() == (2 * x).tolist()
