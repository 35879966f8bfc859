"""What an operator refuses to evaluate: both interpreters, the same labels; the specification's texts exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq

import halfulp as hu
from halfulp.records import _inputs

MAX, AVG = hu.MaxPool((2,)), hu.AvgPool((2,))
SMOOTH, CONV = hu.SmoothMaxPool((2,), 1.0), hu.Conv(1)
HARD = [MAX, hu.AdaptiveMaxPool((2,)), hu.GlobalMaxPool(1)]
SOFT = [AVG, SMOOTH, hu.AdaptiveAvgPool((2,)), hu.GlobalAvgPool(1)]


def assert_refused(text: str, *calls: Callable[[], Any], kind: type[hu.HalfulpError] = hu.DTypeError) -> None:
    """The first call gives exactly this text, the others the same class and label."""
    label = text[-3:-1]
    for i, call in enumerate(calls):
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.label == label
        if i == 0:
            assert str(caught.value) == text


@pytest.mark.parametrize("op", SOFT)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_I1_only_a_hard_max_takes_integers(op: Any, dtype: str) -> None:
    x = np.ones(4, dtype)
    hint = ", or give dtype='same' or another dtype" if hasattr(op, "dtype") else ""
    text = (
        f"{op.name}: input dtype={dtype}: must be float16, bfloat16, float32, float64 or objects (exact numbers); "
        f"convert with astype{hint} [I1]"
    )
    assert_refused(text, lambda: hu.spec.forward(op, x), lambda: op(x), lambda: op.vjp(x), lambda: op.jvp((x,), (x,)))


@pytest.mark.parametrize("op", [*HARD, *SOFT])
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "datetime64[s]", "S3", "U3", "longdouble", "f4,i4"])
def test_I1_element_types_that_no_operator_takes(op: Any, dtype: str) -> None:
    x = np.zeros(4, dtype)
    if x.dtype == np.float64:  # a platform whose long double is a double
        assert op(x).dtype == np.float64
        return
    kinds = "float16, bfloat16, float32, float64 or objects (exact numbers)"
    if hasattr(op, "ties"):
        kinds = "a float, integer or bool type or objects (exact numbers)"
    text = f"{op.name}: input dtype={x.dtype}: must be {kinds} [I1]"
    assert_refused(text, lambda: hu.spec.forward(op, x), lambda: op(x), lambda: op.vjp(x))


@pytest.mark.parametrize("op", HARD)
def test_I1_integers_have_no_derivative(op: Any) -> None:
    x = np.arange(4)
    text = f"{op.name}: input dtype=int64: integers have no derivative; convert with astype to a float type [I1]"
    g = np.zeros(op.output_shape(x.shape), np.int64)
    assert_refused(
        text,
        lambda: hu.spec.jvp(op, (x,), (x,)),
        lambda: hu.spec.vjp(op, (x,), g),
        lambda: op.jvp((x,), (x,)),
        lambda: op.vjp(x)[1](g),
    )


@pytest.mark.parametrize("scalar", [True, 1j, "a", None, np.bool_(True), np.complex64(1)])
def test_I1_objects_that_are_not_ordered_numbers(scalar: Any) -> None:
    x = np.array([scalar, scalar], dtype=object)
    kind = {bool: "bool", np.bool_: "bool", complex: "complex", np.complex64: "complex", str: "str"}.get(type(scalar))
    text = (
        f"max_pool1d: scalars of kind {kind or 'NoneType'}: must be ordered numbers, such as Fraction, fmpq, arb or "
        "float [I1]"
    )
    assert_refused(text, lambda: hu.spec.forward(MAX, x), lambda: MAX(x), lambda: hu.spec.vjp(MAX, (x,), x[:1]))


def test_I2_scalars_of_several_kinds() -> None:
    x = np.array([Fraction(1), 0.5], dtype=object)
    text = "avg_pool1d: scalars of kinds Fraction, float: all scalars of a call must be of one kind [I2]"
    assert_refused(text, lambda: hu.spec.forward(AVG, x), lambda: AVG(x))
    balls, rationals = np.array([arb(1), arb(2)]), np.array([fmpq(1), fmpq(2)])
    text = "avg_pool1d: scalars of kinds arb, fmpq: all scalars of a call must be of one kind [I2]"
    assert_refused(text, lambda: hu.spec.jvp(AVG, (balls,), (rationals,)), lambda: AVG.jvp((balls,), (rationals,)))
    assert_refused(text, lambda: hu.spec.vjp(AVG, (rationals,), balls[:1]), lambda: AVG.vjp(rationals)[1](balls[:1]))


def test_integers_join_any_kind() -> None:
    assert hu.spec.forward(AVG, np.array([1, Fraction(1, 2)], dtype=object))[0] == Fraction(3, 4)
    assert hu.spec.forward(AVG, np.array([1, 2], dtype=object))[0] == fmpq(3, 2)
    assert hu.spec.forward(AVG, np.array([float("inf"), 2], dtype=object))[0] == float("inf")


def test_I2_arrays_of_several_dtypes() -> None:
    x, weight = np.ones((1, 3)), np.ones((1, 1, 2), np.float32)
    text = "conv1d: dtypes float64 and float32: all inputs must have one element type; convert with astype [I2]"
    assert_refused(text, lambda: hu.spec.forward(CONV, x, weight), lambda: CONV(x, weight))
    bias = np.ones(1, np.float16)
    text = "conv1d: dtypes float64 and float16: all inputs must have one element type; convert with astype [I2]"
    assert_refused(
        text, lambda: hu.spec.forward(CONV, x, np.ones((1, 1, 2)), bias), lambda: CONV(x, np.ones((1, 1, 2)), bias)
    )


def test_I2_a_ball_for_beta_over_floats() -> None:
    beta = arb(1, 0.5)
    op = hu.SmoothMaxPool((2,), beta)
    text = f"smooth_max_pool1d: beta={beta!r}: floats need a beta that is a float or a rational [I2]"
    assert_refused(
        text,
        lambda: hu.spec.forward(op, np.zeros(2)),
        lambda: hu.spec.forward(op, np.array([0.0, 1.0], object)),
        lambda: op(np.zeros(2)),
    )


class Unreadable:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no numbers here.")


class Tensor(Unreadable):
    __module__ = "torch"


def test_I1_what_is_no_array_is_refused_by_the_operator() -> None:
    text = "max_pool1d: input of type Unreadable: cannot be read as an array: no numbers here [I1]"
    assert_refused(
        text, lambda: MAX(Unreadable()), lambda: hu.spec.forward(MAX, Unreadable()), lambda: MAX([[1.0], [1.0, 2.0]])
    )
    text = (
        "avg_pool1d: input of type Tensor: cannot be read as an array: no numbers here; torch has functions of its own "
        "in halfulp.torch [I1]"
    )
    assert_refused(text, lambda: AVG(Tensor()))


def test_I1_names_the_input_that_is_wrong() -> None:
    x = np.ones((1, 3))
    text = "conv1d: weight dtype=<U5: must be float16, bfloat16, float32, float64 or objects (exact numbers) [I1]"
    assert_refused(text, lambda: CONV(x, "hello"), lambda: hu.spec.forward(CONV, x, "hello"))
    assert_refused(
        "avg_pool1d: input dtype=<U5: must be float16, bfloat16, float32 or float64 [I1]", lambda: AVG("hello")
    )


def test_I3_the_number_of_inputs() -> None:
    x, shape = np.ones((1, 3)), hu.ShapeError
    assert_refused(
        "max_pool1d: 0 inputs: takes one input [I3]", lambda: hu.spec.forward(MAX), lambda: MAX(), kind=shape
    )
    assert_refused("max_pool1d: 2 inputs: takes one input [I3]", lambda: hu.spec.forward(MAX, x, x), kind=shape)
    text = "avg_pool1d: input=None: must be an array: takes one input [I3]"
    assert_refused(text, lambda: hu.spec.forward(AVG, None), lambda: AVG(None), kind=shape)
    text = "conv1d: weight=None: must be an array: takes x, weight and optionally a bias [I3]"
    assert_refused(text, lambda: CONV(x, None), lambda: hu.spec.forward(CONV, x, None), kind=shape)
    text = "conv1d: 1 inputs: takes x, weight and optionally a bias [I3]"
    assert_refused(text, lambda: hu.spec.forward(CONV, x), lambda: CONV(x), kind=shape)
    text = "conv1d: 4 inputs: takes x, weight and optionally a bias [I3]"
    assert_refused(text, lambda: hu.spec.forward(CONV, x, x, x, x), kind=shape)


def test_I4_tangents() -> None:
    x = np.arange(4.0)
    text = "max_pool1d: tangent shape=(3,): must be (4,), the shape of its primal [I4]"
    shape = hu.ShapeError
    assert_refused(text, lambda: hu.spec.jvp(MAX, (x,), (x[:3],)), lambda: MAX.jvp((x,), (x[:3],)), kind=shape)
    text = "max_pool1d: tangent dtype=float32: must be float64, the element type of its primal [I4]"
    low = x.astype(np.float32)
    assert_refused(text, lambda: hu.spec.jvp(MAX, (x,), (low,)), lambda: MAX.jvp((x,), (low,)))
    text = "max_pool1d: 0 tangents: takes one tangent for each primal [I4]"
    assert_refused(text, lambda: hu.spec.jvp(MAX, (x,), ()), lambda: MAX.jvp((x,), ()), kind=shape)
    assert_refused(
        "max_pool1d: 2 tangents: takes one tangent for each primal [I4]",
        lambda: hu.spec.jvp(MAX, (x,), (x, x)),
        kind=shape,
    )
    image, weight = np.ones((1, 3)), np.ones((1, 1, 2))
    text = "conv1d: a tangent for an absent bias: must be None [I4]"
    assert_refused(
        text,
        lambda: hu.spec.jvp(CONV, (image, weight), (image, weight, np.ones(1))),
        lambda: CONV.jvp((image, weight), (image, weight, np.ones(1))),
        kind=shape,
    )


def test_I5_cotangents() -> None:
    x = np.arange(4.0)
    text = "avg_pool1d: cotangent shape=(4,): must be (2,), the shape of the output [I5]"
    assert_refused(text, lambda: hu.spec.vjp(AVG, (x,), x), lambda: AVG.vjp(x)[1](x), kind=hu.ShapeError)
    text = "avg_pool1d: cotangent dtype=int64: must be float64, the element type of the output [I5]"
    assert_refused(text, lambda: hu.spec.vjp(AVG, (x,), np.ones(2, int)), lambda: AVG.vjp(x)[1](np.ones(2, int)))


@pytest.mark.parametrize(
    "op", [hu.MaxPool((2,), nan="raise"), hu.AdaptiveMaxPool((2,), nan="raise"), hu.GlobalMaxPool(1, nan="raise")]
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "object"])
def test_P3_nan_raise_names_the_first(op: Any, dtype: str) -> None:
    x = np.ones((2, 3), dtype)
    assert op(x).shape == op.output_shape(x.shape)
    x[1, 2] = np.nan
    x[1, 1] = np.nan
    text = f"{op.name}: nan='raise': the input is NaN at (1, 1); it must have no NaN [P3]"
    assert_refused(
        text,
        lambda: hu.spec.forward(op, x),
        lambda: op(x),
        lambda: op.vjp(x),
        lambda: op.jvp((x,), (x,)),
        lambda: hu.spec.jvp(op, (x,), (x,)),
        lambda: hu.spec.indices(op, x),
        kind=hu.PolicyError,
    )


def test_P3_in_balls() -> None:
    x = np.array([arb(1), arb("nan")])
    with pytest.raises(hu.PolicyError, match=r"the input is NaN at \(1,\); it must have no NaN \[P3\]"):
        hu.MaxPool((2,), nan="raise")(x)


@pytest.mark.parametrize("code", [">f4", ">f8", ">f2", ">i4"])
def test_other_byte_orders_are_converted(code: str) -> None:
    swapped, native = np.arange(4).astype(code), np.arange(4).astype(np.dtype(code).newbyteorder("="))
    for interpret in (lambda x: hu.spec.forward(MAX, x), MAX):
        output = interpret(swapped)
        assert output.dtype == native.dtype
        assert output.dtype.isnative
        assert np.array_equal(output, [1, 3])
    if swapped.dtype.kind == "f":
        assert np.array_equal(hu.spec.jvp(MAX, (swapped,), (native,))[1], [1, 3])


def test_lists_are_arrays() -> None:
    assert np.array_equal(hu.spec.forward(MAX, [1.0, 2.0]), [2.0])
    assert np.array_equal(MAX([1.0, 2.0]), [2.0])


def test_an_operator_without_a_meaning() -> None:
    with pytest.raises(TypeError, match="Operator has no specification; register one"):
        hu.spec.forward(hu.Operator(), np.ones(2))


def test_E6_a_meaning_without_all_three_is_refused() -> None:
    class OnlyForward:
        def forward(self) -> None: ...

    text = r"^MaxPool: an operator is registered with forward, jvp and vjp; jvp, vjp missing \[E6\]$"
    with pytest.raises(TypeError, match=text):
        hu.spec.register(hu.MaxPool, OnlyForward())


def test_only_a_hard_max_has_indices() -> None:
    for op, x in ((AVG, np.ones(2)), (SMOOTH, np.ones(2))):
        with pytest.raises(TypeError, match=f"^{op.name}: only a hard max has indices$"):
            hu.spec.indices(op, x)


def test_inputs_become_arrays_of_the_operator_s_arity() -> None:
    x, weight = np.ones((1, 3)), np.ones((1, 1, 2))
    arrays = _inputs.as_arrays(CONV, (x, weight))
    assert arrays[0] is x
    assert arrays[1] is weight
    assert arrays[2] is None
