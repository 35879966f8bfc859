"""The persistent sequence under the tape, against lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scaling import examples

from halfulp.autograd.persistent import Persistent


@pytest.mark.parametrize(
    "length", [0, 1, 31, 32, 33, 64, 1023, 1024, 1025, 1056, 1057, 2080, 32767, 32768, 33000, 34000]
)
def test_a_long_sequence_has_every_item_in_its_place(length: int) -> None:
    sequence: Persistent[int] = Persistent()
    for i in range(length):
        sequence = sequence.append(i)
    assert len(sequence) == length
    assert list(sequence) == list(range(length))
    assert [sequence[i] for i in range(length)] == list(range(length))
    assert sequence.upto(length // 2) == list(range(length // 2))


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 70)), min_size=1, max_size=25))
def test_branches_never_see_each_other(moves: Any) -> None:
    known: list[tuple[Persistent[int], list[int]]] = [(Persistent(), [])]
    for choice, count in moves:
        sequence, items = known[choice % len(known)]
        items = list(items)
        for i in range(count):
            sequence = sequence.append(choice + i)
            items.append(choice + i)
        known.append((sequence, items))
    for sequence, items in known:
        assert list(sequence) == items
        assert all(sequence[i] == item for i, item in enumerate(items))
