"""Agreement with ONNX's reference evaluator on what PyTorch lacks: asymmetric pads and auto_pad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import halfulp as hu
from tests import strategies as draw
from tests.scaling import examples

pytestmark = pytest.mark.filterwarnings("ignore")
EXAMPLES = examples(25)
MODES = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}


def evaluate(kind: str, inputs: dict[str, Any], **attributes: Any) -> Any:
    """The output of a one-node model."""
    node = helper.make_node(kind, list(inputs), ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in inputs]
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    return ReferenceEvaluator(model).run(None, inputs)[0]


@st.composite
def windows(draw_: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], Any, tuple[int, ...]]:
    """(kernel, stride, pairs of padding or a mode, spatial sizes)."""
    ndim = draw_(st.integers(1, 2))
    kernel = tuple(draw_(st.integers(1, 3)) for _ in range(ndim))
    # the evaluator's auto_pad asks for a negative padding where a stride is larger than the kernel
    stride = tuple(draw_(st.integers(1, k)) for k in kernel)
    pairs = tuple((draw_(st.integers(0, k - 1)), draw_(st.integers(0, k - 1))) for k in kernel)
    padding = draw_(st.sampled_from([pairs, pairs, *MODES]))
    return kernel, stride, padding, tuple(k + draw_(st.integers(0, 4)) for k in kernel)


def attributes_of(padding: Any) -> tuple[dict[str, Any], Any]:
    """(ONNX attributes, halfulp's padding)."""
    if isinstance(padding, str):
        return {"auto_pad": padding}, MODES[padding]
    return {"pads": [b for b, _ in padding] + [a for _, a in padding]}, padding


@EXAMPLES
@given(windows(), draw.seeds)
def test_max_pool(window: Any, seed: int) -> None:
    """The evaluator's MaxPool fails on asymmetric pads, so it gets its pads, found as for Conv above, as -inf cells."""
    kernel, stride, padding, spatial = window
    _, mine = attributes_of(padding)
    x = np.random.default_rng(seed).standard_normal((1, 2, *spatial))
    pairs = mine
    if isinstance(mine, str):
        total = [
            0 if mine == "valid" else max(0, (-(-n // s) - 1) * s + k - n)
            for n, s, k in zip(spatial, stride, kernel, strict=True)
        ]
        pairs = [(t // 2, t - t // 2) if mine == "same" else (t - t // 2, t // 2) for t in total]
    padded = np.pad(x, [(0, 0), (0, 0), *pairs], constant_values=-np.inf)
    expected = evaluate("MaxPool", {"x": padded}, kernel_shape=kernel, strides=stride)
    assert np.array_equal(hu.spec.forward(hu.MaxPool(kernel, stride, mine), x), expected)


@EXAMPLES
@given(windows(), st.booleans(), draw.seeds)
def test_average_pool(window: Any, include: bool, seed: int) -> None:
    kernel, stride, padding, spatial = window
    attributes, mine = attributes_of(padding)
    x = np.random.default_rng(seed).standard_normal((1, 2, *spatial))
    expected = evaluate(
        "AveragePool", {"x": x}, kernel_shape=kernel, strides=stride, count_include_pad=int(include), **attributes
    )
    op = hu.AvgPool(kernel, stride, mine, count_include_pad=include)
    np.testing.assert_allclose(hu.spec.forward(op, x), expected, rtol=1e-12, atol=1e-12)


@EXAMPLES
@given(windows(), st.integers(1, 2), draw.seeds)
def test_convolution(window: Any, groups: int, seed: int) -> None:
    kernel, stride, padding, spatial = window
    attributes, mine = attributes_of(padding)
    rng = np.random.default_rng(seed)
    x, w, b = (rng.standard_normal(s) for s in ((1, 2 * groups, *spatial), (groups, 2, *kernel), (groups,)))
    expected = evaluate("Conv", {"x": x, "w": w, "b": b}, strides=stride, group=groups, **attributes)
    op = hu.Conv(len(kernel), stride, mine, groups=groups)
    np.testing.assert_allclose(hu.spec.forward(op, x, w, b), expected, rtol=1e-12, atol=1e-12)


@EXAMPLES
@given(windows(), draw.seeds)
def test_transposed_convolution(window: Any, seed: int) -> None:
    kernel, stride, padding, spatial = window
    pairs = padding if not isinstance(padding, str) else ((0, 0),) * len(kernel)
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((1, 2, *spatial)), rng.standard_normal((2, 1, *kernel))
    attributes, _ = attributes_of(pairs)
    expected = evaluate("ConvTranspose", {"x": x, "w": w}, strides=stride, **attributes)
    found = hu.spec.forward(hu.ConvTranspose(len(kernel), stride, pairs), x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global(kind: str) -> None:
    op = hu.GlobalAvgPool(2) if kind == "GlobalAveragePool" else hu.GlobalMaxPool(2)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    np.testing.assert_allclose(hu.spec.forward(op, x), evaluate(kind, {"x": x}), rtol=1e-12, atol=1e-12)
