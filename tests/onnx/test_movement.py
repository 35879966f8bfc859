"""Operators that move, choose and count elements, against ONNX's reference evaluator and NumPy; hostile sizes."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import halfulp as hu
import halfulp.onnx
from halfulp import ModelError
from halfulp.onnx._small import SMALL
from tests.onnx.models import model, node_model
from tests.scaling import examples

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def run(op_type, *inputs, outputs=1, opset=22, **attributes):
    proto = node_model(op_type, list(inputs), outputs, opset, **attributes)
    results = halfulp.onnx.load(proto).run([a for a in inputs if a is not None])
    return results[0] if outputs == 1 else results


def assert_refused(label, op_type, *inputs, words=(), **attributes) -> None:
    with pytest.raises(ModelError) as caught:
        run(op_type, *inputs, **attributes)
    assert caught.value.label == label
    for word in words:
        assert word in str(caught.value)


# Movement -------------------------------------------------------------------------------------------------------------

CASES = [
    ("Slice", (ints(2, -1), ints(-100, 0), ints(2, 0), ints(-1, -1)), {}),
    ("Slice", (ints(1), ints(2**62), ints(-1)), {}),
    ("Gather", (ints(-1, 0, 1),), {"axis": 1}),
    ("GatherElements", (np.array([[[0, -1, 2, 1]]] * 2),), {"axis": 1}),
    ("GatherND", (np.array([[1, -1], [0, 0]]),), {}),
    ("GatherND", (np.array([[1], [-1]]),), {"batch_dims": 1}),
    ("Expand", (ints(2, 1, 3, 1),), {}),
    ("Tile", (ints(2, 1, 2),), {}),
    ("Squeeze", (), {}),
    ("Unsqueeze", (ints(0, -1),), {}),
    ("Trilu", (np.array(1),), {"upper": 0}),
    ("TopK", (ints(2),), {"axis": 1, "outputs": 2}),
    ("Transpose", (), {"perm": [2, 0, 1]}),
    ("Compress", (np.array([True, False, True]),), {"axis": 1}),
    ("ReverseSequence", (ints(1, 2, 0),), {"time_axis": 0, "batch_axis": 1}),
    ("ScatterElements", (np.array([[[2, 0, 1, 0]]]), np.full((1, 1, 4), -1, np.float32)), {"axis": 1}),
    ("ScatterND", (np.array([[1, 2]]), np.full((1, 4), -1, np.float32)), {}),
    ("Split", (ints(1, 0, 3),), {"axis": 2, "outputs": 3}),
]


@pytest.mark.parametrize(("op_type", "more", "attributes"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_movement_and_its_derivatives(op_type, more, attributes) -> None:
    """The value is the reference's; the JVP moves the tangent, and the VJP is its transpose, exactly."""
    outputs = attributes.pop("outputs", 1) if "outputs" in attributes else 1
    attributes = dict(attributes)
    proto = node_model(op_type, [X, *more], outputs, **attributes)
    expected = ReferenceEvaluator(proto).run(None, {f"x{i}": a for i, a in enumerate((X, *more))})
    loaded = halfulp.onnx.load(proto)
    found = loaded.run([X, *more])
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)

    tangent = np.random.default_rng(0).integers(-9, 9, X.shape).astype(np.float32)
    first = lambda x: loaded.run([x, *more])[0]  # noqa: E731  # a function of one argument
    _, moved = hu.jvp(first, (X,), (tangent,))
    if op_type.startswith("Scatter"):
        assert np.array_equal(moved, np.where(first(X) < 0, 0, first(tangent)))
    elif op_type == "TopK":
        assert np.array_equal(moved, np.take_along_axis(tangent, found[1], 1))
    else:
        assert np.array_equal(moved, first(tangent))
    cotangent = np.random.default_rng(1).integers(-9, 9, found[0].shape).astype(np.float32)
    _, pullback = hu.vjp(first, X)
    (back,) = pullback(cotangent)
    assert (moved * cotangent).sum() == (tangent * back).sum()  # small integers: both sums are exact
    lifted = [hu.exact(a) if a.dtype == np.float32 else a for a in (X, *more)]
    assert np.array_equal(loaded.run(lifted)[0], hu.exact(found[0]))


@examples(200)
@given(st.data())
def test_slices_count_as_onnx_says(data: st.DataObject) -> None:
    number = st.integers(-7, 7) | st.sampled_from([2**63 - 1, -(2**63)])
    axes = data.draw(st.permutations([0, 1, 2]))[: data.draw(st.integers(0, 3))]
    starts, ends = ([data.draw(number) for _ in axes] for _ in range(2))
    steps = [data.draw(st.integers(-3, 3).filter(bool)) for _ in axes]
    proto = node_model("Slice", [X, ints(*starts), ints(*ends), ints(*axes), ints(*steps)])
    inputs = {"x0": X, "x1": ints(*starts), "x2": ints(*ends), "x3": ints(*axes), "x4": ints(*steps)}
    (found,) = halfulp.onnx.load(proto).run(list(inputs.values()))
    key = [range(n) for n in X.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = X.shape[axis]
        start, end = (n + size if n < 0 else n for n in (start, end))
        start = min(max(start, 0), size if step > 0 else size - 1)
        key[axis] = range(start, min(end, size), step) if step > 0 else range(start, max(end, -1), step)
    assert np.array_equal(found, X[np.ix_(*map(list, key))])


def test_where_takes_every_bit() -> None:
    x = np.array([-0.0, np.nan, np.inf, 1], dtype=np.float32)
    y = np.array([[0.0], [2.0]], dtype=np.float32)
    found = run("Where", np.array([True, False, True, False]), x, y)
    assert found.tobytes() == np.where([True, False, True, False], x, y).tobytes()
    assert np.signbit(found[0, 0])


def test_scatter_adds_with_one_rounding() -> None:
    """1e8 + 4 + 4 in float32: one after the other nothing is added, the sum is 8 more."""
    x = np.array([1e8, 1], dtype=np.float32)
    updates = np.array([3, 3], dtype=np.float32)
    found = run("ScatterElements", x, ints(0, 0), updates, reduction="add")
    assert found[0] == np.float32(1e8 + 6)
    assert (np.float32(1e8) + np.float32(3)) + np.float32(3) == np.float32(1e8)
    assert run("ScatterElements", x, ints(0, 0), updates, reduction="mul")[0] == np.float32(9e8)
    assert run("ScatterElements", x, ints(1, 1), updates, reduction="max")[1] == 3


# Values from shapes and numbers ---------------------------------------------------------------------------------------


def test_ranges_are_exact_at_every_step() -> None:
    third = np.float32(1) / np.float32(3)
    found = run("Range", np.array(np.float32(0)), np.array(np.float32(100)), np.array(third))
    exact = [np.float32(i * float(third)) for i in range(len(found))]  # 24 + 9 bits: exact in float64
    assert np.array_equal(found, exact)
    assert run("Range", np.array(5), np.array(-4), np.array(-3)).tolist() == [5, 2, -1]
    assert run("Range", np.array(5), np.array(5), np.array(1)).size == 0


@pytest.mark.parametrize("source", [np.int64, np.uint64, np.int32, np.float64, np.float32, np.float16])
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
def test_casts_to_floats_round_once(source, target) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if target == "bfloat16" else target)
    rng = np.random.default_rng(3)
    if np.dtype(source).kind in "iu":
        limits = np.iinfo(source)
        hard = [limits.min, limits.max, 0, 1, 2**24 + 1, 2**31 - 129]
        hard += [(1 << k) + (1 << (k - 8)) + d for k in range(8, 30) for d in (-1, 0, 1)]
        if limits.max > 2**60:
            hard += [(1 << 60) + (1 << k) + d for k in (52, 36, 8, 7) for d in (-1, 0, 1)]
        x = np.array([v for v in hard if limits.min <= v <= limits.max] + list(rng.integers(0, 2**30, 50)), source)
        exact = np.array([hu.numbers.flint.fmpq(int(v)) for v in x], dtype=object)
    else:
        x = rng.standard_normal(400).astype(source) * np.array(rng.choice([1e-4, 1, 1e3], 400), source)
        if source is np.float64:
            x = np.concatenate([x, 1 + 2.0**-8 + 2.0 ** -np.arange(9, 53), 1 + 2.0**-11 + 2.0 ** -np.arange(12, 53)])
        exact = hu.exact(x)
    code = helper.np_dtype_to_tensor_dtype(kind)
    assert run("Cast", x, to=code).tobytes() == hu.rounded(exact, kind).tobytes()


def test_casts_to_integers_saturate() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, 2.0**63, -(2.0**63), 2.0**31], dtype=np.float64)
    big, small = 2**63 - 1, -(2**63)
    assert run("Cast", x, to=TensorProto.INT64).tolist() == [0, big, small, big, small, 2, -2, big, small, 2**31]
    assert run("Cast", x, to=TensorProto.UINT8).tolist() == [0, 255, 0, 255, 0, 2, 0, 255, 0, 255]
    assert run("Cast", x, to=TensorProto.BOOL).tolist() == [True] * 10


def test_a_cast_is_differentiable() -> None:
    loaded = halfulp.onnx.load(node_model("Cast", [X], to=TensorProto.DOUBLE))
    gradient = hu.vjp(loaded, X)[1](np.full(X.shape, 1 / 3))[0]
    assert gradient.dtype == np.float32
    assert np.array_equal(gradient, np.full(X.shape, np.float32(1 / 3)))


# Reductions and arithmetic --------------------------------------------------------------------------------------------


@examples(150)
@given(st.data())
def test_reductions_are_rounded_once(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["Sum", "Mean", "Max", "Min", "L1", "SumSquare", "Prod"]))
    axes = data.draw(st.lists(st.integers(0, 2), unique=True, max_size=3))
    keep = data.draw(st.integers(0, 1))
    seed = data.draw(st.integers(0, 2**32 - 1))
    x = np.random.default_rng(seed).standard_normal((2, 3, 4)).astype(np.float32) * np.float32(1e3)
    found = run(f"Reduce{name}", x, ints(*axes) if axes else None, keepdims=keep)
    over = tuple(axes) or (0, 1, 2)
    lifted = hu.exact(x)
    if name in ("Max", "Min"):
        expected = getattr(x, name.lower())(axis=over, keepdims=bool(keep))
    else:
        powers = {"L1": abs, "SumSquare": lambda v: v * v}
        terms = np.frompyfunc(powers.get(name, lambda v: v), 1, 1)(lifted)
        total = (np.multiply if name == "Prod" else np.add).reduce(terms, axis=over, keepdims=bool(keep))
        count = np.prod([x.shape[a] for a in over]) if name == "Mean" else 1
        expected = hu.rounded(np.asarray(total, dtype=object) / int(count), np.float32)
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_empty_reductions() -> None:
    x = np.zeros((2, 0), dtype=np.float32)
    assert run("ReduceSum", x, ints(1)).tolist() == [[0], [0]]
    assert run("ReduceProd", x, ints(1)).tolist() == [[1], [1]]
    assert run("ReduceMax", x, ints(1)).tolist() == [[-np.inf]] * 2
    assert np.isnan(run("ReduceMean", x, ints(1))).all()
    assert run("ReduceSum", X, ints(), noop_with_empty_axes=1).tobytes() == X.tobytes()


def test_sums_and_means_of_inputs_are_rounded_once() -> None:
    big, one = np.array([2.0**24], np.float32), np.array([1], np.float32)
    assert run("Sum", big, one, one)[0] == 2.0**24 + 2  # (2**24 + 1) + 1 stays at 2**24
    assert run("Mean", big, one, one)[0] == np.float32((2.0**24 + 2) / 3)


def test_integers_divide_toward_zero() -> None:
    x, y = ints(7, -7, 7, -7, -6), ints(2, 2, -2, -2, 2)
    assert run("Div", x, y).tolist() == [3, -3, -3, 3, -3]
    assert run("Mod", x, y).tolist() == [1, 1, -1, -1, 0]
    assert run("Mod", x, y, fmod=1).tolist() == [1, -1, 1, -1, 0]
    assert_refused("O9", "Div", x, ints(0), words=("divisor 0",))


def test_maxima_keep_nan_and_derivatives() -> None:
    x, y = np.array([1, np.nan, 3], np.float32), np.array([2, 1, 3], np.float32)
    assert np.array_equal(run("Max", x, y), np.array([2, np.nan, 3], np.float32), equal_nan=True)
    assert np.array_equal(run("Min", y, x), np.array([1, np.nan, 3], np.float32), equal_nan=True)
    loaded = halfulp.onnx.load(node_model("Max", [x, y]))
    gradients = hu.vjp(lambda a, b: loaded(a, b), x, y)[1](np.ones(3, np.float32))
    assert [g.tolist() for g in gradients] == [[0, 1, 1], [1, 0, 0]]  # of equal elements the first counts


def test_half_types_take_their_attributes_exactly() -> None:
    """alpha = 0.01 is no float16 number; the product is still rounded once."""
    x = np.array([-3.0, 5.0, -60000.0], dtype=np.float16)
    alpha = float(np.float32(0.01))
    expected = hu.rounded(hu.exact(x[[0, 2]]) * hu.exact(np.array([alpha]))[0], np.float16)
    assert run("LeakyRelu", x)[[0, 2]].tobytes() == expected.tobytes()
    hard = run("HardSigmoid", np.array([-3, 0, 0.5, 3], np.float16))
    a, b = hu.exact(np.array([np.float32(0.2), np.float32(0.5)]))
    line = hu.rounded(np.array([b, b + a * hu.exact(np.array([0.5]))[0]], dtype=object), np.float16)
    assert hard.tolist() == [0.0, *line.tolist(), 1.0]


# Control --------------------------------------------------------------------------------------------------------------

FACTORIAL = """m (int64 n) => (int64 product, int64[steps] all)
<int64 one = {1}, bool yes = {1}>
{
    product, all = Loop (n, yes, one) <body = step (int64 i, bool c, int64 held) => (bool on, int64 next, int64 out)
    {
        k = Add(i, one)
        next = Mul(held, k)
        out = Identity(next)
        on = Identity(c)
    }>
}"""


def test_a_loop_carries_and_stacks() -> None:
    product, steps = halfulp.onnx.load(model(FACTORIAL))(np.array(5))
    assert product == 120
    assert steps.tolist() == [1, 2, 6, 24, 120]


def test_a_branch_uses_values_around_it_and_has_derivatives() -> None:
    proto = model(
        """m (float[3] x, bool c) => (float[3] y)
        {
            double = Add(x, x)
            y = If (c) <then_branch = t () => (float[3] a) { a = Mul(double, x) },
                        else_branch = e () => (float[3] b) { b = Identity(double) }>
        }"""
    )
    loaded = halfulp.onnx.load(proto)
    x = np.array([1, 2, 3], np.float32)
    assert loaded(x, np.array(True)).tolist() == [2, 8, 18]
    assert loaded(x, np.array(False)).tolist() == [2, 4, 6]
    assert hu.grad(lambda x: loaded(x, np.array(True)).sum())(x).tolist() == [4, 8, 12]
    assert loaded(hu.exact(x) / 2, np.array(True)).tolist() == [hu.exact(np.array([v]))[0] for v in (0.5, 2, 4.5)]


def test_an_endless_loop_ends_O10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfulp.onnx.operators.control.MOST_ITERATIONS", 500)
    started = time.process_time()
    with pytest.raises(ModelError, match=r"iteration 500: all loops may run 500 times together \[O10\]"):
        halfulp.onnx.load(model(FACTORIAL))(np.array(2**62))
    assert time.process_time() - started < 30


def test_functions_of_a_model_are_called_with_their_attributes() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 22, "own": 1]>
        m (float[3] x) => (float[3] y) { y = own.lift<by = 2.5>(x) }
        <domain: "own", opset_import: ["": 22]> lift <by> (a) => (b)
        { c = Constant<value_float: float = @by>()  b = Add(a, c) }""")
    assert halfulp.onnx.load(proto)(np.zeros(3, np.float32)).tolist() == [2.5] * 3


def test_a_function_that_calls_itself_is_refused_O4() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 22, "own": 1]>
        m (float[3] x) => (float[3] y) { y = own.f(x) }
        <domain: "own", opset_import: ["": 22, "own": 1]> f (a) => (b) { b = own.f(a) }""")
    with pytest.raises(ModelError, match=r"function 'f': calls itself \[O4\]"):
        halfulp.onnx.load(proto)


def test_subgraphs_cannot_define_a_name_again_O4() -> None:
    proto = model(
        """m (float[3] x, bool c) => (float[3] y)
        { y = If (c) <then_branch = t () => (float[3] x) { x = Relu(x) },
                      else_branch = e () => (float[3] b) { b = Relu(x) }> }"""
    )
    with pytest.raises(ModelError, match="is defined a second time") as caught:
        halfulp.onnx.load(proto)
    assert caught.value.label == "O4"


# Hostile sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "op_type", "inputs", "words"),
    [
        ("O6", "Range", (np.array(0), np.array(2**62), np.array(1)), ("max_bytes",)),
        ("O9", "Range", (np.array(0), np.array(5), np.array(0)), ("delta not 0",)),
        ("O6", "Range", (np.array(0.0), np.array(1e300), np.array(1e-300)), ("max_bytes",)),
        ("O9", "Range", (np.array(0.0), np.array(np.inf), np.array(1.0)), ("must be finite",)),
        ("O6", "Expand", (X, ints(2**40, 1, 1, 1)), ("max_bytes",)),
        ("O9", "Expand", (X, ints(-1, 1, 1)), (">= 0",)),
        ("O6", "Tile", (X, ints(2**40, 2**20, 1)), ("max_bytes",)),
        ("O9", "Tile", (X, ints(-2, 1, 1)), (">= 0",)),
        ("O6", "ConstantOfShape", (ints(2**33, 2**31),), ("max_bytes",)),
        ("O9", "ConstantOfShape", (ints(-4),), (">= 0",)),
        ("O9", "Gather", (X, ints(2)), ("index 2: must be from -2 to 1",)),
        ("O9", "GatherND", (X, ints(5)), ("index 5: must be from -2 to 1",)),
        ("O9", "GatherElements", (X, np.full((2, 3, 4), -3)), ("index -3",)),
        ("O9", "TopK", (X, ints(9)), ("k=9: must be from 0 to 4",)),
        ("O6", "OneHot", (ints(1, 2), np.array(2**50), np.array([0.0, 1.0], np.float32)), ("max_bytes",)),
        ("O9", "Slice", (X, ints(0), ints(1), ints(0), ints(0)), ("step other than 0",)),
        ("O9", "Slice", (X, ints(0), ints(1), ints(3)), ("axes=3",)),
        ("O9", "Unsqueeze", (X, ints(0, 0)), ("must be different axes",)),
        ("O9", "Squeeze", (X, ints(1)), ("must have size 1",)),
    ],
)
def test_hostile_sizes_are_refused_at_once(label, op_type, inputs, words) -> None:
    started = time.process_time()
    assert_refused(label, op_type, *inputs, words=words, outputs=2 if op_type == "TopK" else 1)
    assert time.process_time() - started < 5


def test_integers_without_axes_stay_arrays() -> None:
    """NumPy gives scalars for arrays without axes; a node after them gets an array."""
    proto = model(
        """m (int64 n) => (int64[k] y) <int64 zero = {0}, int64 one = {1}, int64 two = {2}> {
            half = Div(n, two)
            y = Range(zero, half, one)
        }"""
    )
    assert halfulp.onnx.load(proto)(np.array(7)).tolist() == [0, 1, 2]


def test_a_loop_may_leave_out_its_limit() -> None:
    proto = model(
        """m (int64 n, bool go) => (int64 y) {
        y = Loop<body = b (int64 i, bool c, int64 v) => (bool more, int64 w) {
            w = Sub(v, one) \n more = Greater(w, one) }>("", go, n)
    }""".replace("w = Sub", "one = Constant<value_int = 1>() \n w = Sub")
    )
    assert halfulp.onnx.load(proto)(np.array(7), np.array(True)) == 1


SMALL_FLOATS = [
    entry.dtype for entry in SMALL.values() if "float" in entry.dtype.name and entry.dtype.name[-4:] != "0fnu"
]


@pytest.mark.parametrize("kind", SMALL_FLOATS, ids=str)
@pytest.mark.parametrize("saturate", [0, 1])
def test_casts_to_float8_round_once(kind, saturate) -> None:
    """Every number of the type, every tie and what lies beside it, from float64, in rationals."""
    every = np.unique(np.arange(256, dtype=np.uint8).view(kind).astype(np.float64))
    numbers = np.sort(every[np.isfinite(every)])
    ties = (numbers[1:] + numbers[:-1]) / 2
    x = np.concatenate([numbers, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    proto = node_model(
        "Cast", [x], opset=22, to=next(code for code, e in SMALL.items() if e.dtype == kind), saturate=saturate
    )
    found = halfulp.onnx.load(proto)(x).astype(np.float64)
    codes = {float(v): int(i) for i, v in enumerate(np.arange(128, dtype=np.uint8).view(kind).astype(np.float64))}
    for value, got in zip(x, found, strict=True):
        apart = np.abs(numbers - value)
        nearest = numbers[apart == apart.min()]
        want = nearest[0] if len(nearest) == 1 else min(nearest, key=lambda v: codes[abs(v)] % 2)
        assert got == want
    most = numbers[-1]
    beyond = halfulp.onnx.load(proto)(np.array([most * 4, -np.inf, np.nan])).astype(np.float64)
    if saturate or "float4" in kind.name:
        assert beyond[:2].tolist() == [most, -most]
    else:
        assert not np.isfinite(beyond).any()


def test_packed_initializers_of_few_bits() -> None:
    """Two or four elements in a byte, the first in the lowest bits; a file that is too short is refused."""
    for code, dims, data, values in (
        (TensorProto.INT4, [3], b"\x8f\x07", [-1, -8, 7]),
        (TensorProto.UINT4, [3], b"\x8f\x07", [15, 8, 7]),
        (TensorProto.FLOAT4E2M1, [2], b"\x9f", [-6.0, -0.5]),
        (TensorProto.FLOAT8E5M2, [2], b"\x3c\xc0", [1.0, -2.0]),
    ):
        proto = model("m () => (float[N] y) { y = Cast<to = 1>(t) }")
        tensor = proto.graph.initializer.add(name="t", data_type=code, dims=dims, raw_data=data)
        assert halfulp.onnx.load(proto)().tolist() == values
        tensor.raw_data = data[:-1]
        with pytest.raises(ModelError, match=f"has {len(data) - 1} bytes, but .* has {len(data)}"):
            halfulp.onnx.load(proto)


def test_small_types_are_not_computed_in_O9() -> None:
    x = np.zeros(2, ml_dtypes.int4)
    with pytest.raises(ModelError, match=r"element type int4: is only cast, quantised and moved \[O9\]"):
        halfulp.onnx.load(node_model("Add", [x, x])).run([x, x])
    arguments = [np.ones(2, np.float32), np.ones((), np.float32), np.array(1, ml_dtypes.float8_e4m3fn)]
    with pytest.raises(ModelError, match="zero point: must be 0 for a float type"):
        halfulp.onnx.load(node_model("QuantizeLinear", arguments)).run(arguments)


def test_inputs_of_a_body_hide_values_around_it() -> None:
    """ONNX forbids it, exporters do it, and ONNX Runtime takes the inner value."""
    proto = model(
        """m (int64 n, float[2] x) => (float[2] y) <bool yes = {1}> {
            y = Loop(n, yes, x) <body = b (int64 i, bool c, float[2] x) => (bool on, float[2] next) {
                next = Add(x, x)
                on = Identity(c)
            }>
        }"""
    )
    assert halfulp.onnx.load(proto)(np.array(3), np.array([1, 2], np.float32)).tolist() == [8, 16]
