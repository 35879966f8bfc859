"""Transposed convolution: the bits of the specification, whatever the parameters, values and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp import ShapeError, _core
from halfulp.records import Conv, ConvTranspose
from tests.kernels.convolutions import Case, cases, check_against_spec, check_fast, check_fast_specials, long_cases
from tests.scaling import examples
from tests.strategies import FLOATS, assert_same_bits


@given(cases(transposed=True))
def test_value_jvp_and_vjp_have_the_bits_of_the_specification(case: Case) -> None:
    check_against_spec(case)


@examples(40)
@given(cases(transposed=True))
def test_fast_stays_within_its_bound(case: Case) -> None:
    check_fast(case)


@pytest.mark.usefixtures("restore")
@examples(20)
@given(long_cases(transposed=True), st.sampled_from(_core.available_isas()))
def test_long_kernels_and_many_channels_on_every_instruction_set(case: Case, isa: str) -> None:
    _core.set_isa(isa)
    check_against_spec(case)


@pytest.mark.usefixtures("restore")
@examples(10)
@given(long_cases(transposed=True), st.sampled_from(_core.available_isas()))
def test_fast_has_infinities_and_nans_where_the_exact_sums_have(case: Case, isa: str) -> None:
    _core.set_isa(isa)
    check_fast_specials(case)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_is_the_input_cotangent_of_a_convolution(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 12, 9, 11)).astype(dtype)
    weight = rng.standard_normal((12, 5, 4, 4)).astype(dtype)
    output = ConvTranspose(2, 2, 1)(x, weight)
    primal = np.zeros(output.shape, dtype)
    cotangent = Conv(2, 2, 1).vjp(primal, weight)[1](x)[0]
    assert_same_bits(output, cotangent)


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")], ids=str)
def test_large_sums_and_many_tiles(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(6)
    op = ConvTranspose(2, 2, 1)
    x = rng.standard_normal((1, 30, 17, 19)).astype(dtype)
    weight = rng.standard_normal((30, 20, 4, 4)).astype(dtype)
    cotangent = rng.standard_normal(op.output_shape(x.shape, weight.shape)).astype(dtype)
    check_against_spec(Case(op, (x, weight, None), (x, weight, None), cotangent))


X, W = np.zeros((1, 4, 5, 5), np.float32), np.zeros((4, 2, 3, 3), np.float32)
ERRORS: list[tuple[str, Any]] = [
    ("C1", lambda: ConvTranspose(2)(np.zeros(5, np.float32), W)),
    ("C2", lambda: ConvTranspose(2)(X, W[0])),
    ("C3", lambda: ConvTranspose(2, groups=3)(X, W)),
    ("C4", lambda: ConvTranspose(2)(X[:, :3], W)),
    ("C5", lambda: ConvTranspose(2)(X, W, np.zeros(3, np.float32))),
    ("T1", lambda: ConvTranspose(2, stride=2, output_padding=2)),
    ("T2", lambda: ConvTranspose(2, padding=4)(X, W)),
]


@pytest.mark.parametrize(("label", "call"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_name_operator_argument_rule_and_label(label: str, call: Any) -> None:
    with pytest.raises(ShapeError, match=rf"^conv_transpose(2d)?: .+: .+ \[{label}\]$"):
        call()
