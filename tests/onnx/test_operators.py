"""What each operator means: exact values, one rounding, derivatives through the tape."""

import itertools
import math
from fractions import Fraction

import flint
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.onnx
from halfulp import ModelError
from halfulp.numbers import float_format, round_ball, rounded
from tests.onnx.models import model, network, node_model
from tests.scaling import examples


def run(op_type, *inputs, outputs=1, opset=22, **attributes):
    proto = node_model(op_type, list(inputs), outputs, opset, **attributes)
    results = halfulp.onnx.load(proto).run([a for a in inputs if a is not None])
    return results[0] if outputs == 1 else results


def floats(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def assert_same(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.tobytes() == expected.tobytes()


# Pooling, against the formulas of ONNX's documents evaluated cell by cell ---------------------------------------------

AXIS = st.fixed_dictionaries(
    {
        "size": st.integers(3, 7),
        "kernel": st.integers(1, 3),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 2),
        "before": st.integers(0, 2),
        "after": st.integers(0, 2),
    }
)
MODES = st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])


def outputs_of(axis, mode, ceil_mode):
    """(number of windows, padding before, padding after) as ONNX's documents have it."""
    n, s, d = axis["size"], axis["stride"], axis["dilation"]
    extent = (axis["kernel"] - 1) * d + 1
    if mode == "VALID":
        return math.ceil(Fraction(n - extent + 1, s)), 0, 0
    if mode != "NOTSET":
        count = math.ceil(Fraction(n, s))
        total = max(0, (count - 1) * s + extent - n)
        small, large = total // 2, total - total // 2
        return (count, small, large) if mode == "SAME_UPPER" else (count, large, small)
    before, after = axis["before"], axis["after"]
    count = Fraction(n + before + after - extent, s) + 1
    count = math.ceil(count) if ceil_mode else math.floor(count)
    if ceil_mode and (count - 1) * s >= n + before:  # a window that would start in the padding at the end
        count -= 1
    return count, before, after


def windows_of(axes, mode, ceil_mode):
    """For every output: [(coordinates, is a real cell)] of the cells in the input and its padding."""
    per_axis = []
    for axis in axes:
        count, before, after = outputs_of(axis, mode, ceil_mode)
        rows = []
        for o in range(count):
            start = o * axis["stride"] - before
            cells = [start + w * axis["dilation"] for w in range(axis["kernel"])]
            rows.append([c for c in cells if c < axis["size"] + after])
        per_axis.append(rows)
    sizes = [axis["size"] for axis in axes]
    for rows in itertools.product(*per_axis):
        yield [(c, all(0 <= i < n for i, n in zip(c, sizes, strict=True))) for c in itertools.product(*rows)]


def attributes_of(axes, mode, **more):
    shared = {"kernel_shape": [a["kernel"] for a in axes], "strides": [a["stride"] for a in axes]}
    shared["dilations"] = [a["dilation"] for a in axes]
    if mode == "NOTSET":
        shared["pads"] = [a["before"] for a in axes] + [a["after"] for a in axes]
    else:
        shared["auto_pad"] = mode
    return shared | more


@examples(60)
@given(st.lists(AXIS, min_size=1, max_size=3), MODES, st.booleans(), st.booleans())
def test_max_pool_with_indices(axes, mode, ceil_mode, column_major):
    x = np.random.default_rng(0).permutation(2 * math.prod(a["size"] for a in axes)).astype(np.float32)
    x = x.reshape(1, 2, *(a["size"] for a in axes))
    attributes = attributes_of(axes, mode, ceil_mode=int(ceil_mode), storage_order=int(column_major))
    if any(outputs_of(a, mode, ceil_mode)[0] < 1 or outputs_fail(a, mode) for a in axes):
        with pytest.raises(ModelError):
            run("MaxPool", x, outputs=2, **attributes)
        return
    value, found = run("MaxPool", x, outputs=2, **attributes)
    expected, places = [], []
    for channel in range(2):
        for window in windows_of(axes, mode, ceil_mode):
            real = [c for c, is_real in window if is_real]
            if not real:
                expected.append(0.0)
                places.append(-1)
                continue
            best = max(real, key=lambda c: x[(0, channel, *c)])
            expected.append(x[(0, channel, *best)])
            order = "F" if column_major else "C"
            place = np.ravel_multi_index(best, x.shape[2:], order=order)
            places.append(channel * math.prod(x.shape[2:]) + place)
    assert value.ravel().tolist() == expected
    assert found.ravel().tolist() == places
    assert found.dtype == np.int64


def outputs_fail(axis, mode):
    """A window larger than the padded input has no output in halfulp."""
    extent = (axis["kernel"] - 1) * axis["dilation"] + 1
    padding = axis["before"] + axis["after"] if mode == "NOTSET" else 0
    return mode in ("NOTSET", "VALID") and extent > axis["size"] + padding


@examples(60)
@given(st.lists(AXIS, min_size=1, max_size=2), MODES, st.booleans(), st.booleans())
def test_average_pool(axes, mode, ceil_mode, include):
    x = floats((1, 1, *(a["size"] for a in axes)))
    attributes = attributes_of(axes, mode, ceil_mode=int(ceil_mode), count_include_pad=int(include))
    if any(outputs_of(a, mode, ceil_mode)[0] < 1 or outputs_fail(a, mode) for a in axes):
        with pytest.raises(ModelError):
            run("AveragePool", x, **attributes)
        return
    exact = []
    for window in windows_of(axes, mode, ceil_mode):
        real = [Fraction(float(x[(0, 0, *c)])) for c, is_real in window if is_real]
        count = len(window) if include else len(real)
        exact.append(sum(real, Fraction(0)) / count if count else Fraction(0))
    expected = rounded(np.array(exact, dtype=object), np.float32)
    assert np.array_equal(run("AveragePool", x, **attributes).ravel(), expected)


def test_strides_default_to_one():
    x = floats((1, 1, 6))
    assert_same(run("MaxPool", x, kernel_shape=[3]), hu.max_pool1d(x, 3, stride=1))
    assert_same(run("AveragePool", x, kernel_shape=[3]), hu.avg_pool1d(x, 3, stride=1))


def test_nan_and_empty_windows():
    x = np.array([[[np.nan, 1.0, 2.0, 3.0]]], np.float32)
    value, found = run("MaxPool", x, outputs=2, kernel_shape=[2], strides=[2], pads=[2, 0])
    assert np.array_equal(value, np.array([[[0.0, np.nan, 3.0]]], np.float32), equal_nan=True)
    assert found.tolist() == [[[-1, 0, 3]]]


# Convolution ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_conv_auto_pad(mode, stride, dilation):
    x, w, b = floats((2, 4, 7, 6)), floats((6, 2, 2, 3), 1), floats(6, 2)
    padding = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}[mode]
    found = run("Conv", x, w, b, auto_pad=mode, strides=[stride] * 2, dilations=[dilation] * 2, group=2)
    assert_same(found, hu.conv2d(x, w, b, stride, padding, dilation, 2))
    if mode != "VALID":
        assert found.shape[2:] == (math.ceil(7 / stride), math.ceil(6 / stride))


def test_conv_transpose_output_shape_and_auto_pad():
    x, w = floats((1, 2, 4)), floats((2, 3, 3), 1)
    # (4 - 1) * 2 + 3 = 9 cells; 8 of them leave one to cut: at the start, unless auto_pad is SAME_UPPER
    everything = hu.conv_transpose1d(x, w, stride=2)
    assert_same(run("ConvTranspose", x, w, strides=[2], output_shape=[8]), everything[..., 1:].copy())
    assert_same(run("ConvTranspose", x, w, strides=[2], auto_pad="SAME_LOWER"), everything[..., 1:].copy())
    assert_same(run("ConvTranspose", x, w, strides=[2], auto_pad="SAME_UPPER"), everything[..., :-1].copy())
    larger = run("ConvTranspose", x, w, strides=[2], output_shape=[10])
    assert_same(larger[..., :9].copy(), everything)
    assert (larger[..., 9] == 0).all()
    with pytest.raises(ModelError, match="two contradictory splits before operator set 11"):
        run("ConvTranspose", x, w, opset=10, strides=[2], output_shape=[8])
    with pytest.raises(ModelError, match=r"output_shape=\(8, 8\)"):
        run("ConvTranspose", x, w, strides=[2], output_shape=[8, 8])


def test_kernel_shape_must_be_the_weights():
    with pytest.raises(ModelError, match=r"kernel_shape=\(2,\): must be \(3,\)"):
        run("Conv", floats((1, 1, 5)), floats((1, 1, 3)), kernel_shape=[2])


# The operators around them: one rounding each -------------------------------------------------------------------------


def exactly_rounded(ball, dtype):
    """What a real number, enclosed by balls of any precision, rounds to."""
    precision = 200
    while True:
        with flint.ctx.workprec(precision):
            value = round_ball(ball(), float_format(dtype))
        if value is not None:
            return value
        precision *= 2


def rational(value):
    return flint.fmpq(*float(value).as_integer_ratio())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_softmax_is_correctly_rounded(dtype):
    x = (floats((5, 6), 3, np.float64) * 4).astype(dtype)
    x[1, 2] = -np.inf
    found = run("Softmax", x, axis=-1)
    assert found.dtype == dtype
    for row, out in zip(x, found, strict=True):
        for value, result in zip(row, out, strict=True):
            if np.isinf(value):
                assert result == 0
                continue
            terms = [rational(v) - rational(value) for v in row if np.isfinite(v)]
            expected = exactly_rounded(lambda t=terms: 1 / sum((flint.arb(v).exp() for v in t), flint.arb(0)), dtype)
            assert float(result) == expected
    assert run("Softmax", np.zeros((1, 3), dtype)).tolist() == [[float(rounded([Fraction(1, 3)], dtype)[0])] * 3]
    assert np.isnan(run("Softmax", np.array([[1, np.inf]], dtype))).all()


def test_softmax_before_operator_set_13_flattens():
    x = floats((2, 3, 4))
    old = run("Softmax", x, opset=12, axis=1)
    assert_same(old, run("Softmax", x.reshape(2, 12), axis=1).reshape(2, 3, 4))
    assert_same(run("Softmax", x, axis=1), run("Softmax", x.transpose(0, 2, 1)).transpose(0, 2, 1).copy())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_batch_normalization_is_correctly_rounded(dtype):
    x = floats((2, 3, 4), 0, dtype)
    scale, shift, mean = (floats(3, i, dtype) for i in (1, 2, 3))
    variance = np.array([0.25, 1.0, 3.0], dtype)  # the first two are squares
    for epsilon in (0.0, 1e-5):
        found = run("BatchNormalization", x, scale, shift, mean, variance, epsilon=epsilon)
        stored = float(np.float32(epsilon))
        for n, c, i in itertools.product(range(2), range(3), range(4)):
            value, s, b, m, v = (rational(a) for a in (x[n, c, i], scale[c], shift[c], mean[c], variance[c]))
            square = v + rational(stored)
            product = (value - m) * s
            root = None
            if square.p.is_square() and square.q.is_square():
                root = flint.fmpq(square.p.isqrt(), square.q.isqrt())
                expected = float(rounded([product / root + b], dtype)[0])
            else:
                expected = exactly_rounded(
                    lambda p=product, q=square, b=b: flint.arb(p) / flint.arb(q).sqrt() + b, dtype
                )
            assert float(found[n, c, i]) == expected


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lp_pool_is_correctly_rounded(p, dtype):
    x = floats((1, 2, 5), 0, dtype)
    x[0, 0, :2] = (3, -4)  # 3, 4 -> 5 exactly
    found = run("LpPool", x, kernel_shape=[2], pads=[1, 0], p=p)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0)))
    for c, o in itertools.product(range(2), range(5)):
        total = sum((abs(rational(v)) ** p for v in padded[0, c, o : o + 2]), flint.fmpq(0))
        whole = [flint.fmpz(part).root(p) for part in (total.p, total.q)]
        if whole[0] ** p == total.p and whole[1] ** p == total.q:
            expected = float(rounded([flint.fmpq(*whole)], dtype)[0])
        else:
            expected = exactly_rounded(lambda t=total: flint.arb(t).root(p), dtype)
        assert float(found[0, c, o]) == expected


def test_lp_pool_at_the_ends_of_the_range():
    tiny, huge = np.float32(1e-44), np.finfo(np.float32).max
    x = np.array([[[tiny, tiny, huge, huge, 0.0, 0.0, np.inf, np.nan]]], np.float32)
    found = run("LpPool", x, kernel_shape=[2], strides=[2], p=2)[0, 0]
    assert (
        found[0]
        == rounded([exactly_rounded(lambda: flint.arb(2 * rational(tiny) ** 2).sqrt(), np.float32)], np.float32)[0]
    )
    assert found[1] == np.inf
    assert found[2] == 0
    assert np.isnan(found[3])


def test_gemm_rounds_once_where_it_says_so():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((3, 40), (40, 5), (5,)))
    left, right = (np.array([Fraction(float(v)) for v in m.ravel()]).reshape(m.shape) for m in (a, b))
    exact = left @ right
    bias = np.array([Fraction(float(v)) for v in c])
    assert_same(run("MatMul", a, b), rounded(exact, np.float32))
    assert_same(run("Gemm", a, b, c), rounded(exact + bias, np.float32))
    assert_same(run("Gemm", a.T.copy(), b.T.copy(), c[None], transA=1, transB=1), rounded(exact + bias, np.float32))
    product = rounded(exact, np.float32)
    steps = product * np.float32(0.5) + c * np.float32(2.0)
    assert_same(run("Gemm", a, b, c, alpha=0.5, beta=2.0), steps)
    with pytest.raises(ModelError, match=r"alpha=0\.1\d*: is not exact in float16 \[O3\]"):
        run("Gemm", a.astype(np.float16), b.astype(np.float16), alpha=0.1)


def test_types_are_never_mixed_O9():
    with pytest.raises(ModelError, match=r"element types \['float32', 'float64'\]: must be one type"):
        run("Add", floats(2), floats(2, 0, np.float64))


def test_clip_and_relu_keep_nan_and_bits():
    x = np.array([np.nan, -np.inf, -0.0, 0.5, np.inf], np.float32)
    assert_same(run("Clip", x, np.float32(0).reshape(()), None), np.array([np.nan, 0, -0.0, 0.5, np.inf], np.float32))
    assert_same(
        run("Clip", x, None, np.float32(0.25).reshape(())), np.array([np.nan, -np.inf, -0.0, 0.25, 0.25], np.float32)
    )
    assert_same(run("Clip", x, opset=6, min=-1.0, max=1.0), np.array([np.nan, -1, -0.0, 0.5, 1], np.float32))
    assert_same(run("Relu", x), np.array([np.nan, 0, 0, 0.5, np.inf], np.float32))


def test_pad_modes_and_negative_pads():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for mode in ("constant", "reflect", "edge", "wrap"):
        found = run("Pad", x, np.array([1, 0, 0, 2]), mode=mode)
        assert np.array_equal(found, np.pad(x, ((1, 0), (0, 2)), mode=mode))
    assert run("Pad", x, np.array([0, -1, 0, 1]), np.float32(7).reshape(())).tolist() == [[1, 2, 7], [4, 5, 7]]
    assert run("Pad", x, np.array([1, 0]), None, np.array([-1])).tolist() == [[0, 0, 1, 2], [0, 3, 4, 5]]
    assert run("Pad", x, opset=10, pads=[0, 1, 0, 0], value=9.0).tolist() == [[9, 0, 1, 2], [9, 3, 4, 5]]
    with pytest.raises(ModelError, match="cuts off more"):
        run("Pad", x, np.array([0, -2, 0, -2]))


def test_legacy_broadcasting():
    x, y = floats((2, 3, 4)), floats((3,), 1)
    assert_same(run("Add", x, y, opset=6, broadcast=1, axis=1), x + y[:, None])
    with pytest.raises(ModelError, match="broadcast=0"):
        run("Mul", x, y, opset=6)


# Derivatives and exact numbers ----------------------------------------------------------------------------------------


def test_a_network_is_differentiable_through_the_tape():
    loaded = halfulp.onnx.load(network())
    x = floats((2, 2, 8, 8))
    output, pullback = hu.vjp(loaded, x)
    assert_same(output, loaded(x))
    g = floats(output.shape, 1)
    (dx,) = pullback(g)
    t = floats(x.shape, 2)
    _, tangent = hu.jvp(loaded, (x,), (t,))
    assert dx.dtype == np.float32
    # The two modes are transposes of each other, up to the roundings of their steps.
    assert abs(float((tangent * g).sum()) - float((dx * t).sum())) < 1e-5
    # And they are derivatives: a central difference in float64 of the same network.
    step = 1e-3
    high, low = (loaded((x + s * t).astype(np.float32)).astype(np.float64) for s in (step, -step))
    assert np.abs((high - low) / (2 * step) - tangent).max() < 2e-2


@pytest.mark.parametrize(
    ("op_type", "attributes", "others"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]}, []),
        ("AveragePool", {"kernel_shape": [2, 3], "pads": [1, 1, 0, 0], "count_include_pad": 1}, []),
        ("GlobalAveragePool", {}, []),
        ("GlobalMaxPool", {}, []),
        ("LpPool", {"kernel_shape": [2, 2], "p": 1}, []),
        ("Conv", {"pads": [1, 1, 1, 1]}, [(3, 2, 3, 3), (3,)]),
        ("ConvTranspose", {"strides": [2, 2], "output_padding": [1, 1]}, [(2, 3, 3, 3), (3,)]),
        ("Relu", {}, []),
        ("Add", {}, [(4,)]),
        ("Mul", {}, [(2, 1, 1)]),
        ("Flatten", {"axis": 2}, []),
        ("Transpose", {"perm": [3, 0, 1, 2]}, []),
        ("Concat", {"axis": 1}, [(2, 1, 5, 4)]),
        ("Identity", {}, []),
        ("MatMul", {}, [(4, 3)]),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_derivatives_are_exact_on_rationals(op_type, attributes, others):
    """Exact inputs give exact derivatives: JVP and VJP are transposes without any tolerance."""
    shapes = [(2, 2, 5, 4), *others]
    rng = np.random.default_rng(0)
    arrays = [hu.exact(rng.integers(-9, 10, s) / 4) for s in shapes]
    loaded = halfulp.onnx.load(node_model(op_type, [np.zeros(s, np.float64) for s in shapes], **attributes))
    tangents = [hu.exact(rng.integers(-9, 10, s).astype(float)) for s in shapes]
    output, pullback = hu.vjp(loaded, *arrays)
    cotangent = hu.exact(rng.integers(-9, 10, output.shape).astype(float))
    _, pushed = hu.jvp(loaded, tuple(arrays), tuple(tangents))
    left = (pushed * cotangent).sum()
    right = sum((d * t).sum() for d, t in zip(pullback(cotangent), tangents, strict=True))
    assert left == right
    floating = loaded(*(hu.rounded(a, np.float64) for a in arrays))
    assert np.array_equal(floating, hu.rounded(output, np.float64))


def test_derivatives_of_the_irrational_operators():
    x, t = floats((1, 2, 6), 0, np.float64), floats((1, 2, 6), 1, np.float64)
    cases = [
        node_model("LpPool", [x], kernel_shape=[3], strides=[2], pads=[1, 1], p=2),
        node_model("LpPool", [x], kernel_shape=[2], p=3),
        node_model("Softmax", [x], axis=1),
        node_model("Clip", [x, x[0, 0, 0], x[0, 0, 0]]),
    ]
    for proto in cases:
        loaded = halfulp.onnx.load(proto)
        extra = [np.array(-0.5), np.array(0.5)] if proto.graph.node[0].op_type == "Clip" else []
        f = lambda v, loaded=loaded, extra=extra: loaded(v, *extra)  # noqa: E731
        _, tangent = hu.jvp(f, (x,), (t,))
        step = 1e-6
        difference = (f(x + step * t) - f(x - step * t)) / (2 * step)
        assert np.abs(difference - tangent).max() < 1e-8
        output, pullback = hu.vjp(f, x)
        g = floats(output.shape, 2, np.float64)
        assert abs((pullback(g)[0] * t).sum() - (g * tangent).sum()) < 1e-12


def test_exact_inputs_lift_the_weights():
    proto = model("m (float[1, 1, 4] x) => (float[1, 1, 3] y) { y = Conv(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([[[0.1, 0.2]]], np.float32), "w"))
    loaded = halfulp.onnx.load(proto)
    x = np.array([[[1.0, 2.0, 3.0, 4.0]]], np.float32)
    exact = loaded(hu.exact(x))
    assert exact[0, 0, 0] == rational(np.float32(0.1)) + 2 * rational(np.float32(0.2))
    assert_same(hu.rounded(exact, np.float32), loaded(x))
    for op_type in ("Softmax", "LpPool"):
        attributes = {"kernel_shape": [2], "p": 2} if op_type == "LpPool" else {}
        with pytest.raises(ModelError, match=r"is needed: flint\.arb|is not rational; give flint\.arb"):
            halfulp.onnx.load(node_model(op_type, [x], **attributes)).run([hu.exact(x)])


def test_outputs_never_share_memory_with_inputs_or_weights():
    proto = model(
        """m (float[2, 2] x) => (float[2, 2] y, float[4] z, float[2, 2] v) {
            y = Transpose(x) z = Reshape(x, s) v = Identity(w)
        }"""
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([4]), "s"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "w"))
    loaded = halfulp.onnx.load(proto)
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    for output in loaded(x):
        output[...] = -1
    assert x.tolist() == [[0, 1], [2, 3]]
    assert loaded(x)[2].tolist() == [[1, 1], [1, 1]]


def test_run_node_and_named_outputs():
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2])
    x = np.array([[[1.0, 3.0, 2.0]]], np.float32)
    result = halfulp.onnx.run_node(node, [x])
    assert result["y"].tolist() == [[[3, 3]]]
    assert result["i"].tolist() == [[[1, 1]]]
    with pytest.raises(ModelError, match="O7"):
        halfulp.onnx.run_node(node, [])
    legacy = onnx.helper.make_node("Softmax", ["x"], ["y"])
    assert halfulp.onnx.run_node(legacy, [x], opset_version=12)[0].shape == x.shape
    assert halfulp.onnx.is_compatible(network())
    assert not halfulp.onnx.is_compatible(model("m (float[1] x) => (float[1] y) { y = Det(x) }"))
    assert halfulp.onnx.run_model(network(), [np.zeros((1, 2, 8, 8), np.float32)])["y"].shape == (1, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_along_any_axis(dtype) -> None:
    """The large element decides its column, whatever the axis."""
    x = np.array([[0, 0], [1e15, 1]], dtype=dtype)
    found = run("Softmax", x, axis=0)
    assert found[:, 0].tolist() == [0, 1]
    assert found.tobytes() == hu.softmax(x, 0).tobytes()
    assert found.tobytes() == run("Softmax", x.T.copy(), axis=1).T.copy().tobytes()
    assert run("LogSoftmax", x, axis=0)[1, 0] == 0
