"""``dtype`` and ``nan`` of averages and sums through the tape, PyTorch, JAX and the bounds: the bits of the records."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.bounds as hb
import halfulp.jax as hj
import halfulp.torch as ht
from halfulp.torch._tensors import as_array, as_tensor
from tests.scaling import examples
from tests.strategies import FLOATS, INTEGERS, assert_same_bits

enable_x64: Any = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "avg_pool1d": (hu.AvgPool, {"kernel_size": (2,), "divisor_override": 3}),
    "avg_pool2d": (
        hu.AvgPool,
        {"kernel_size": (3, 2), "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    ),
    "adaptive_avg_pool2d": (hu.AdaptiveAvgPool, {"output_size": (2, 3)}),
    "global_avg_pool2d": (hu.GlobalAvgPool, {}),
    "sum_pool2d": (hu.SumPool, {"kernel_size": (2, 2), "stride": 1}),
}


def record(name: str, **options: Any) -> Any:
    kind, arguments = FORMS[name]
    return kind(**(arguments or {"ndim": 2}), **options)


def numbers(seed: int, dtype: np.dtype[Any], shape: tuple[int, ...], missing: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    x = rng.standard_normal(shape).astype(dtype)
    if missing:
        x[rng.random(shape) < 0.4] = np.nan
    return x


def outcome(function: Any) -> Any:
    """The result, or the label and rule of the refusal."""
    try:
        return function()
    except hu.HalfulpError as error:
        return error.label, error.rule
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
        return text[text.rindex("[") + 1 : -1], text[text.index(": ", text.index("dtype=")) + 2 : text.rindex(" [")]


def assert_agree(found: Any, expected: Any, what: str) -> None:
    if isinstance(expected, tuple) or isinstance(found, tuple):
        assert found == expected, what
    else:
        assert_same_bits(found, expected, what)


@given(
    st.sampled_from(sorted(FORMS)),
    st.sampled_from((*FLOATS, *INTEGERS)),
    st.sampled_from(("same", *FLOATS, *INTEGERS)),
    st.integers(0, 2**32 - 1),
)
@examples(120)
def test_dtype_gives_the_records_bits_in_every_bridge(name: str, source: Any, dtype: Any, seed: int) -> None:
    """Whatever fits, and the same refusal where it does not."""
    word = dtype if isinstance(dtype, str) else dtype.name
    shape = (2, 7) if name == "avg_pool1d" else (2, 5, 6)
    x = numbers(seed, source, shape)
    expected = outcome(lambda: record(name, dtype=word)(x))
    keywords = FORMS[name][1] | {"dtype": word}
    assert_agree(outcome(lambda: getattr(hu, name)(x, **keywords)), expected, "functional")
    theirs = keywords if isinstance(dtype, str) else keywords | {"dtype": getattr(torch, word)}
    assert_agree(outcome(lambda: as_array("", getattr(ht, name)(as_tensor(x), **theirs))), expected, "torch")
    with enable_x64(True):
        assert_agree(outcome(lambda: np.asarray(getattr(hj, name)(x, **keywords))), expected, "jax")
        assert_agree(
            outcome(lambda: np.asarray(jax.jit(lambda a: getattr(hj, name)(a, **keywords))(x))), expected, "jit"
        )

    def on_the_tape() -> Any:
        tape, i = hu.Tape().leaf(x, requires_grad=False)
        tape, y = tape.apply(record(name, dtype=word), i)
        return tape.value(y)

    assert_agree(outcome(on_the_tape), expected, "tape")


@given(st.sampled_from(sorted(FORMS)), st.sampled_from(FLOATS), st.booleans(), st.integers(0, 2**32 - 1))
@examples(80)
def test_missing_values_have_the_records_derivatives_in_every_bridge(
    name: str, dtype: Any, same: bool, seed: int
) -> None:
    """Value, JVP and VJP, with all-NaN windows among them; ``dtype="same"`` changes nothing."""
    shape = (2, 7) if name == "avg_pool1d" else (2, 5, 6)
    x, t = numbers(seed, dtype, shape, missing=True), numbers(seed + 1, dtype, shape)
    options = {"nan": "ignore"} | ({"dtype": "same"} if same else {})
    op = record(name, **options)
    value, tangent = op.jvp((x,), (t,))
    g = numbers(seed + 2, dtype, value.shape)
    (cotangent,) = op.vjp(x)[1](g)
    keywords = FORMS[name][1] | options
    form = getattr(hu, name)
    assert_agree(hu.jvp(lambda a: form(a, **keywords), (x,), (t,))[1], tangent, "tape's tangent")
    assert_agree(hu.vjp(lambda a: form(a, **keywords), x)[1](g)[0], cotangent, "tape's cotangent")

    def on_tensors(a: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = getattr(ht, name)(a, **keywords)
        return output

    leaf = as_tensor(x.copy()).requires_grad_()
    output = on_tensors(leaf)
    (pulled,) = torch.autograd.grad(output, leaf, as_tensor(g))
    assert_agree(as_array("", output), value, "torch's value")
    assert_agree(as_array("", pulled), cotangent, "torch's cotangent")
    pushed = torch.func.jvp(on_tensors, (as_tensor(x),), (as_tensor(t),))[1]
    assert_agree(as_array("", pushed), tangent, "torch's tangent")
    batched = torch.func.vmap(on_tensors)(torch.stack([as_tensor(x)] * 2))
    assert_agree(as_array("", batched[1]), value, "torch's vmap")
    with enable_x64(True):
        found, turned = jax.jit(lambda a, b: jax.jvp(lambda c: getattr(hj, name)(c, **keywords), (a,), (b,)))(x, t)
        assert_agree(np.asarray(found), value, "jax's value")
        assert_agree(np.asarray(turned), tangent, "jax's tangent")
        back = jax.vjp(lambda c: getattr(hj, name)(c, **keywords), x)[1](jax.numpy.asarray(g))[0]
        assert_agree(np.asarray(back), cotangent, "jax's cotangent")


@pytest.mark.parametrize("name", sorted(FORMS))
def test_second_derivatives_skip_missing_values(name: str) -> None:
    shape = (1, 7) if name == "avg_pool1d" else (1, 5, 6)
    x, v = numbers(0, np.dtype("f8"), shape, missing=True), numbers(1, np.dtype("f8"), shape)
    keywords = FORMS[name][1] | {"nan": "ignore"}

    def loss(a: Any, bridge: Any, square: Any) -> Any:
        y = getattr(bridge, name)(a, **keywords)
        return square(y)

    def on_the_tape(y: Any) -> Any:
        return hu.ops.sum(hu.ops.mul(y, y))

    output = getattr(hu, name)(x, **keywords)
    if np.isnan(output).any():  # windows without a number: their square is no number either
        x = np.where(np.isnan(x) & (np.indices(x.shape)[-1] % 2 == 0), 0.5, x)
    expected = hu.hvp(lambda a: loss(a, hu, on_the_tape), (x,), (v,))
    assert np.isfinite(expected).all()
    assert (expected[np.isnan(x)] == 0).all()
    t = torch.from_numpy(x).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(t, ht, lambda y: (y * y).sum()), t, create_graph=True)
    (found,) = torch.autograd.grad(gradient, t, torch.from_numpy(v))
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    with enable_x64(True):
        slope = jax.grad(lambda a: loss(a, hj, lambda y: (y * y).sum()))
        np.testing.assert_allclose(jax.jvp(slope, (x,), (v,))[1], expected, rtol=1e-14, atol=1e-14)


def test_a_changed_type_has_no_derivative_N3() -> None:
    x = np.ones((1, 4), np.float32)
    with pytest.raises(hu.DTypeError, match=r"avg_pool1d: dtype='float64': a derivative has .* float32.*\[N3\]"):
        hu.grad(lambda a: hu.avg_pool1d(a, 2, dtype="float64").sum())(x)
    t = torch.ones(1, 4, requires_grad=True)
    with pytest.raises(ht.TorchDTypeError, match=r"avg_pool1d: dtype='float64': a derivative has .*\[N3\]"):
        ht.avg_pool1d(t, 2, dtype=torch.float64)
    with pytest.raises(ht.TorchDTypeError, match=r"avg_pool1d: dtype='float64': a derivative has .*\[N3\]"):
        torch.func.jvp(lambda a: ht.avg_pool1d(a, 2, dtype=torch.float64), (t.detach(),), (t.detach(),))
    with pytest.raises(hu.DTypeError, match=r"avg_pool1d: dtype='bfloat16': a derivative has .*\[N3\]"):
        jax.grad(lambda a: hj.avg_pool1d(a, 2, dtype="bfloat16").astype("float32").sum())(x)
    with torch.no_grad():
        assert ht.avg_pool1d(t, 2, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64"])
def test_jax_holds_64_bits_only_where_it_is_told_to_J3(dtype: str) -> None:
    x = np.array([[1, 2, 3, 6]], np.uint8)
    with enable_x64(False), pytest.raises(hu.DTypeError, match=rf"sum_pool1d: dtype='{dtype}': jax holds .*\[J3\]"):
        hj.sum_pool1d(x, 2, dtype=dtype)
    with enable_x64(True):
        assert_same_bits(np.asarray(hj.sum_pool1d(x, 2, dtype=dtype)), np.array([[3, 9]], dtype))


def test_missing_values_that_may_not_be_are_named_P3() -> None:
    x = np.array([[1.0, np.nan]], np.float32)
    with pytest.raises(ht.TorchPolicyError, match=r"avg_pool1d: nan='raise': the input is NaN at \(0, 1\).*\[P3\]"):
        ht.avg_pool1d(torch.from_numpy(x), 2, nan="raise")
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"avg_pool1d: nan='raise': the input is NaN at \(0, 1\)"):
        jax.block_until_ready(hj.avg_pool1d(x, 2, nan="raise"))
    with pytest.raises(hu.PolicyError, match=r"avg_pool1d: nan='raise': the input is NaN at \(0, 1\).*\[P3\]"):
        hu.grad(lambda a: hu.avg_pool1d(a, 2, nan="raise").sum())(x)


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.complex64, object(), "float33", ml_dtypes.float8_e5m2])
def test_types_that_no_result_has_are_refused_by_pytorch_too_N1(dtype: Any) -> None:
    with pytest.raises(ht.TorchDTypeError, match=r"avg_pool1d: dtype=.*: must be None, 'same', or .*\[N1\]"):
        ht.avg_pool1d(torch.ones(1, 4), 2, dtype=dtype)


def test_the_options_are_compiled_and_exported() -> None:
    class Mean(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            whole = ht.avg_pool2d(x.to(torch.uint8), 2, dtype="same"), ht.sum_pool2d(x > 0, 3, dtype=torch.int32)
            return *whole, ht.avg_pool2d(x, 2, nan="ignore", dilation=2, padding=1)

    x = torch.arange(36.0).reshape(1, 6, 6)
    x[0, 1, 1] = torch.nan
    model = Mean()
    expected = model(x)
    assert [y.dtype for y in expected] == [torch.uint8, torch.int32, torch.float32]
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(model, (x,)).module()
    for found in (compiled(x), exported(x)):
        for a, b in zip(found, expected, strict=True):
            assert_same_bits(as_array("", a), as_array("", b))


def test_modules_of_our_own_take_the_options() -> None:
    x = torch.tensor([[1.0, torch.nan, 3.0, 4.0]])
    assert torch.equal(ht.SumPool1d(2, nan="ignore")(x), torch.tensor([[1.0, 7.0]]))
    assert torch.equal(ht.GlobalAvgPool1d(dtype="same")(torch.tensor([[1, 2, 4]])), torch.tensor([[2]]))
    assert repr(ht.MinPool1d(2, ties="all")).endswith("ceil_mode=False, ties=all)")


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("size", [3, 5, 8])
def test_windows_beyond_the_padding_with_dilation(size: int, kernel: int, stride: int, dilation: int) -> None:
    """A window that ceil_mode lets reach beyond the input counts the cells that are there."""
    x = torch.arange(1.0, size + 1).reshape(1, size)
    extent = dilation * (kernel - 1) + 1
    try:
        found = ht.sum_pool1d(x, kernel, stride, 0, dilation, True)
    except ht.TorchShapeError:
        assert extent - size >= stride
        return
    count = max(0, -(-(size - extent) // stride)) + 1
    starts = [i * stride for i in range(count) if i * stride < size]
    sums = [float(x[0, start : start + extent : dilation].sum()) for start in starts]
    assert found.tolist() == [sums]


@pytest.mark.parametrize("op", [hu.AvgPool((2,), nan="ignore"), hu.SumPool((2,), 1, nan="raise", dtype="same")])
def test_bounds_of_boxes_know_no_missing_values(op: Any) -> None:
    """A box has finite numbers, so every rule for NaN gives the same bounds."""
    plain = type(op)(op.kernel_size, op.stride)
    box = hb.Box(np.zeros((1, 4), np.float32), np.arange(4, dtype=np.float32).reshape(1, 4))
    for arithmetic in ("real", "halfulp", "any-order"):
        for method in ("ibp", "crown"):
            found, expected = (
                hb.bounds(hb.from_function(lambda x, f=f: f(x), (1, 4)), box, method, arithmetic) for f in (op, plain)
            )
            assert np.array_equal(found.lower, expected.lower)
            assert np.array_equal(found.upper, expected.upper)


def test_bounds_are_of_one_element_type_V3() -> None:
    for dtype in ("float16", "int8"):
        with pytest.raises(hu.ModelError, match=rf"avg_pool1d dtype='{dtype}': must be None or 'same'.*\[V3\]"):
            hb.from_function(lambda x, d=dtype: hu.avg_pool1d(x, 2, dtype=d), (1, 4))
