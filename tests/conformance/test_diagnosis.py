"""Other rules are tried only where there are such rules."""

from __future__ import annotations

import pytest

from halfulp.conformance.build import settings_of
from halfulp.conformance.cases import FLOATS, OPERATORS, make_arrays
from halfulp.conformance.corpus import corpus
from halfulp.conformance.diagnosis import alternatives, explain
from halfulp.conformance.oracle import answer
from halfulp.records import named


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_setting_has_valid_alternatives_and_none_explains_the_right_answer(operator: str) -> None:
    tried = 0
    for number, setting in enumerate([*corpus(operator), *settings_of(operator, 11, "float32", 0)]):
        arrays = make_arrays(setting, setting.fillings[0], FLOATS[number % 4])
        for mode in ("forward", "jvp", "vjp"):
            tried += sum(1 for _ in alternatives(setting.op, mode, arrays))
        if number % 8 == 0:
            want = answer(setting.op, "vjp", arrays)
            assert explain(setting.op, "vjp", arrays, want, want) is None
    assert tried > 0 or operator in ("adaptive_avg_pool", "global_avg_pool") or callable(named(operator).draw.family)
