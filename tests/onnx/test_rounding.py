"""The operators of ONNX are correctly rounded for every axis, layout, element type and value: compared by bits.

The expected values come from rationals and balls, one element at a time; floats only decide signs of zero and what
NaN and infinities give.
"""

import itertools
import math

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp.onnx
from halfulp.numbers import float_format, round_ball, round_rational
from tests.onnx.models import node_model
from tests.strategies import FLOATS, assert_same_bits, float_dtypes, in_layout, random_array, seeds

LAYOUTS = ("c", "channels_last", "fortran", "reversed", "stepped", "read_only", "misaligned")
layouts = st.sampled_from(LAYOUTS)
KINDS = ("usual", "any", "gaps", "equal", "extreme")


def run(op_type, *inputs, opset=22, **attributes):
    return halfulp.onnx.load(node_model(op_type, list(inputs), 1, opset, **attributes)).run(list(inputs))[0]


def drawn(rng, shape, dtype, kind):
    """Numbers as networks have them, of any bits, with wide gaps, equal ones, or at the ends of the range."""
    if kind == "any":
        return random_array(rng, shape, dtype)
    info = float_format(dtype)
    if kind == "equal":
        values = np.full(shape, rng.choice([0.0, 1.0, -3.0]))
    elif kind == "gaps":
        values = rng.choice([0.0, -0.0, 1.0, -1.0, 1e3, 1e5, -1e15, 1e17, -np.inf], shape)
    elif kind == "extreme":
        top = (2.0 - 2.0 ** (1 - info.precision)) * 2.0**info.emax
        values = rng.choice([top, -top, top / 2, 2.0**info.emin, math.ldexp(1.0, info.quantum), 0.0], shape)
    else:
        values = rng.standard_normal(shape) * rng.choice([0.1, 1.0, 4.0])
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def rational(value):
    return flint.fmpq(*float(value).as_integer_ratio())


def ball_rounded(ball, dtype):
    precision = 160
    while True:
        with flint.ctx.workprec(precision):
            value = round_ball(ball(), float_format(dtype))
        if value is not None:
            return value
        precision *= 2


def filled(shape, dtype, one):
    """An array whose element at every place is ``one(place)``."""
    out = np.zeros(shape, dtype)
    for place in np.ndindex(*shape):
        out[place] = one(place)
    return out


# Softmax --------------------------------------------------------------------------------------------------------------


def softmax_of(row, position, dtype):
    numbers = [float(v) for v in row]
    if any(v != v or v == math.inf for v in numbers) or all(v == -math.inf for v in numbers):
        return math.nan
    if numbers[position] == -math.inf:
        return 0.0
    own = rational(numbers[position])
    terms = [rational(v) - own for v in numbers if v != -math.inf]
    return ball_rounded(lambda: 1 / sum((flint.arb(t).exp() for t in terms), flint.arb(0)), dtype)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 3),
    st.booleans(),
    float_dtypes,
    layouts,
    st.sampled_from(KINDS),
    seeds,
)
def test_softmax(shape, axis, flattens, dtype, layout, kind, seed):
    axis %= len(shape)
    x = drawn(np.random.default_rng(seed), shape, dtype, kind)
    found = run("Softmax", in_layout(x, layout), opset=12 if flattens else 22, axis=axis)
    if flattens:
        rows = x.reshape(math.prod(shape[:axis]), -1)
        expected = filled(rows.shape, dtype, lambda i: softmax_of(rows[i[0]], i[1], dtype)).reshape(shape)
    else:
        expected = filled(
            x.shape, dtype, lambda i: softmax_of(x[(*i[:axis], slice(None), *i[axis + 1 :])], i[axis], dtype)
        )
    assert_same_bits(found, expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_of_wide_gaps_off_the_last_axis(dtype):
    with np.errstate(over="ignore"):
        x = np.array([[[0, 0], [3e4, 1]]]).astype(dtype)
    found = run("Softmax", x, axis=1)
    assert found[0, :, 0].tolist() == [0, 1]
    assert found[0, 0, 1] == softmax_of(x[0, :, 1], 0, dtype)


def test_softmax_where_the_answer_is_one():
    assert run("Softmax", np.array([[[0, 0], [1e17, 1]]], np.float32), axis=1)[0, 1, 0] == 1
    assert run("Softmax", np.array([[0, 0], [1e15, 1]], np.float32), axis=0)[1, 0] == 1


# BatchNormalization ---------------------------------------------------------------------------------------------------


def normalized(x, scale, shift, mean, variance, epsilon, dtype):
    floats = [float(v) for v in (x, scale, shift, mean, variance)]
    x, scale, shift, mean, variance = floats
    square = variance + epsilon
    if not all(math.isfinite(v) for v in floats) or square <= 0:
        with np.errstate(all="ignore"):
            return special_normalized(*(np.float64(v) for v in (x, scale, shift, mean, square)))
    product = (rational(x) - rational(mean)) * rational(scale)
    if product == 0:
        return math.copysign(0.0, x - mean) * math.copysign(1.0, scale) + shift
    exact = rational(variance) + rational(epsilon)
    if exact.p.is_square() and exact.q.is_square():
        value = product * exact.q.isqrt() / exact.p.isqrt() + rational(shift)
        return round_rational(int(value.p), int(value.q), float_format(dtype))
    return ball_rounded(lambda: flint.arb(product) / flint.arb(exact).sqrt() + flint.arb(rational(shift)), dtype)


def special_normalized(x, scale, shift, mean, square):
    """The IEEE value, of numbers of size 1 in place of finite ones that are not 0: no overflow, the same signs."""
    sign = lambda v: v if v == 0 or not np.isfinite(v) else np.copysign(1.0, v)  # noqa: E731
    finite = np.isfinite(x) and np.isfinite(mean)
    centred = np.float64((x > mean) * 1.0 - (x < mean) * 1.0) if finite and x != mean else x - mean
    scaled = sign(centred) / np.sqrt(square if not np.isfinite(square) or square <= 0 else np.float64(1.0))
    return scaled * sign(scale) + shift


@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=5),
    float_dtypes,
    layouts,
    st.sampled_from(KINDS),
    st.sampled_from(["usual", "squares", "any", "extreme"]),
    st.sampled_from([0.0, 1e-5, 0.25]),
    seeds,
)
def test_batch_normalization(shape, dtype, layout, kind, parameters, epsilon, seed):
    rng = np.random.default_rng(seed)
    epsilon = float(np.float32(epsilon))
    channels = (shape[1],)
    x = drawn(rng, shape, dtype, kind)
    usual = "usual" if parameters == "squares" else parameters
    scale, shift, mean = (drawn(rng, channels, dtype, usual) for _ in range(3))
    variance = drawn(rng, channels, dtype, usual)
    if parameters == "squares":
        variance = rng.choice([0.0, 0.25, 1.0, 4.0], channels).astype(dtype)
    elif parameters == "usual":
        variance = np.abs(variance)
    found = run(
        "BatchNormalization",
        in_layout(x, layout),
        *(in_layout(a, layout) for a in (scale, shift, mean, variance)),
        epsilon=epsilon,
    )
    c = lambda i: i[1]  # noqa: E731
    expected = filled(
        x.shape,
        dtype,
        lambda i: normalized(x[i], scale[c(i)], shift[c(i)], mean[c(i)], variance[c(i)], epsilon, dtype),
    )
    assert_same_bits(found, expected)


# LpPool ---------------------------------------------------------------------------------------------------------------


def norm(cells, p, dtype):
    floats = [abs(float(v)) for v in cells]
    if any(v != v for v in floats):
        return math.nan
    if math.inf in floats:
        return math.inf
    total = sum((rational(v) ** p for v in floats), flint.fmpq(0))
    roots = [flint.fmpz(part).root(p) for part in (total.p, total.q)]
    if roots[0] ** p == total.p and roots[1] ** p == total.q:
        return round_rational(int(roots[0]), int(roots[1]), float_format(dtype))
    return ball_rounded(lambda: flint.arb(total).root(p), dtype)


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 1)), min_size=1, max_size=3
    ),
    st.sampled_from([1, 2, 2, 3, 5, 64]),
    float_dtypes,
    layouts,
    st.sampled_from(KINDS),
    seeds,
)
def test_lp_pool(axes, p, dtype, layout, kind, seed):
    axes = [(max(n, k), k, s, pad) for n, k, s, pad in axes]
    rng = np.random.default_rng(seed)
    x = drawn(rng, (rng.integers(1, 3), 2, *(a[0] for a in axes)), dtype, kind)
    found = run(
        "LpPool",
        in_layout(x, layout),
        kernel_shape=[a[1] for a in axes],
        strides=[a[2] for a in axes],
        pads=[a[3] for a in axes] * 2,
        p=p,
    )
    padded = np.pad(x, [(0, 0), (0, 0), *((a[3], a[3]) for a in axes)])
    counts = [(n + 2 * pad - k) // s + 1 for n, k, s, pad in axes]

    def one(place):
        starts = [o * a[2] for o, a in zip(place[2:], axes, strict=True)]
        window = tuple(slice(b, b + a[1]) for b, a in zip(starts, axes, strict=True))
        return norm(padded[(*place[:2], *window)].ravel(), p, dtype)

    assert_same_bits(found, filled((*x.shape[:2], *counts), dtype, one))


# MatMul and Gemm ------------------------------------------------------------------------------------------------------


def dot(left, right, start, dtype):
    pairs = [(float(a), float(b)) for a, b in zip(left, right, strict=True)]
    numbers = [v for pair in pairs for v in pair] + ([] if start is None else [float(start)])
    if not all(math.isfinite(v) for v in numbers):
        # The sum over the extended reals: which infinities and NaN meet decides, not the size of the finite terms.
        terms = [np.sign(a) * np.sign(b) if math.isfinite(a) and math.isfinite(b) else a * b for a, b in pairs]
        finite = [t for t in [*terms, *([] if start is None else [float(start)])] if not math.isfinite(t)]
        return sum(finite) if finite else None
    total = sum((rational(a) * rational(b) for a, b in pairs), flint.fmpq(0))
    total += 0 if start is None else rational(start)
    if total == 0:
        return None  # the sign of an exact zero is the convolution's own rule, tested with it
    return round_rational(int(total.p), int(total.q), float_format(dtype))


@given(
    st.tuples(*(st.integers(1, 6),) * 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["matmul", "gemm", "bias"]),
    float_dtypes,
    st.tuples(layouts, layouts, layouts),
    st.sampled_from(KINDS),
    seeds,
)
def test_matmul_and_gemm(sizes, flip_a, flip_b, form, dtype, where, kind, seed):
    rng = np.random.default_rng(seed)
    rows, inner, columns = sizes
    a, b, c = (drawn(rng, s, dtype, kind) for s in ((rows, inner), (inner, columns), (columns,)))
    if form == "matmul":
        batch = in_layout(np.stack([a, a]), where[0])
        found = run("MatMul", batch, in_layout(b, where[1]))
        assert_same_bits(found[0], found[1])
        found = found[1]
    else:
        left = in_layout(np.ascontiguousarray(a.T) if flip_a else a, where[0])
        right = in_layout(np.ascontiguousarray(b.T) if flip_b else b, where[1])
        bias = [in_layout(c, where[2])] if form == "bias" else []
        found = run("Gemm", left, right, *bias, transA=int(flip_a), transB=int(flip_b))
    for i, j in itertools.product(range(rows), range(columns)):
        expected = dot(a[i], b[:, j], c[j] if form == "bias" else None, dtype)
        if expected is None:
            assert found[i, j] == 0
        else:
            assert_same_bits(found[i, j].reshape(1), np.array([expected]).astype(dtype))


# Elementwise ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4), float_dtypes, layouts, layouts, st.sampled_from(KINDS), seeds
)
def test_elementwise(shape, dtype, first, second, kind, seed):
    rng = np.random.default_rng(seed)
    x, y = drawn(rng, shape, dtype, kind), drawn(rng, shape[1:], dtype, kind)
    low, high = (np.array(v, dtype) for v in (-0.5, 0.75))
    one, two = in_layout(x, first), in_layout(y, second)
    spread = np.broadcast_to(y, x.shape)

    def arithmetic(i, exactly, plainly):
        p, q = float(x[i]), float(spread[i])
        if not (math.isfinite(p) and math.isfinite(q)):
            return plainly(p, q)
        value = exactly(rational(p), rational(q))
        return round_rational(int(value.p), int(value.q), float_format(dtype)) if value != 0 else plainly(p, q)

    with np.errstate(all="ignore"):
        sums = filled(x.shape, dtype, lambda i: arithmetic(i, lambda p, q: p + q, lambda p, q: p + q))
        products = filled(x.shape, dtype, lambda i: arithmetic(i, lambda p, q: p * q, lambda p, q: p * q))
        clipped = filled(
            x.shape, dtype, lambda i: x[i] if x[i] != x[i] or low <= x[i] <= high else low if x[i] < low else high
        )
        rectified = filled(x.shape, dtype, lambda i: x[i] if x[i] > 0 or x[i] != x[i] else 0.0)
    assert_same_bits(run("Add", one, two), sums)
    assert_same_bits(run("Mul", one, two), products)
    assert_same_bits(run("Clip", one, low, high), clipped)
    assert_same_bits(run("Relu", one), rectified)
