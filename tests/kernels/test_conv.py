"""Convolution: the bits of the specification, whatever the parameters, values, layout, threads or instruction set."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.kernels.convolutions import Case, cases, check_against_spec

FLOAT32 = np.dtype("float32")


@given(cases(transposed=False))
def test_value_jvp_and_vjp_have_the_bits_of_the_specification(case: Case) -> None:
    check_against_spec(case)
