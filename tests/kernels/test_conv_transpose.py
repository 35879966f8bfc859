"""Transposed convolution: the bits of the specification, whatever the parameters, values and layout."""

from __future__ import annotations

from hypothesis import given

from tests.kernels.convolutions import Case, cases, check_against_spec


@given(cases(transposed=True))
def test_value_jvp_and_vjp_have_the_bits_of_the_specification(case: Case) -> None:
    check_against_spec(case)
