"""halfulp's own bounds under ``halfulp check --mode bounds``, and the same narrowed by one ulp."""

from __future__ import annotations

import pytest

from halfulp.conformance.bounds import check_bounds


@pytest.mark.parametrize(("method", "networks"), [("halfulp-ibp", 80), ("halfulp", 60), ("halfulp-alpha-crown", 20)])
def test_our_bounds_are_sound_and_refuse_nothing(method: str, networks: int) -> None:
    grade = check_bounds(method, networks, seed=7, isolated=False)
    assert grade.statuses == {"sound": networks}
    assert grade.mean_tightness is not None
    assert grade.mean_tightness < (1.2 if method == "halfulp-ibp" else 1.000001)


def test_one_ulp_less_is_found() -> None:
    grade = check_bounds("verifiers:halfulp_one_ulp", 20, isolated=False)
    assert grade.statuses["rounding"] >= 1
    assert grade.findings[0].verdict.excess > 0
