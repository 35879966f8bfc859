"""Settings, fillings and distances: what a campaign is made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.conformance.build import settings_of
from halfulp.conformance.cases import DTYPES, FLOATS, OPERATORS, laid_out, make_arrays, numpy_dtype, takes
from halfulp.conformance.corpus import corpus
from halfulp.conformance.draws import RANKS, draws_of, options_of
from halfulp.conformance.fill import FILLINGS, filled
from halfulp.conformance.pairwise import pairs_of, possible_pairs
from halfulp.conformance.probes import probe
from halfulp.conformance.report.coverage import coverage_of
from halfulp.conformance.subjects import load_subject
from halfulp.conformance.ulps import compare, distance, histogram_of, same_bits
from halfulp.conformance.units import Plan, case_of, place_of, setting_at, units_of

LABELS = {
    "ceil_mode, partial last window",
    "ceil_mode, last window starts in the padding",
    "asymmetric padding",
    "dilation beyond the input",
    "windows all in padding",
    "axis of size 1",
    "empty batch",
    "channels last",
    "negative strides",
    "large window",
    "many channels",
}


IN_FAMILIES = [name for name in OPERATORS if not callable(draws_of(name).family)]
"""Operators whose geometry the lab draws; the others draw their own."""


def test_the_corpus_has_every_label() -> None:
    assert {setting.label for setting in corpus("max_pool")} >= LABELS


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_curated_setting_is_valid_and_sees_every_filling(operator: str) -> None:
    settings = corpus(operator)
    assert {filling.label for setting in settings for filling in setting.fillings} == set(FILLINGS)
    for setting in settings:
        arrays = make_arrays(setting, setting.fillings[0], "float32")
        assert arrays.cotangent.shape == setting.output_shape


@pytest.mark.parametrize("operator", OPERATORS)
def test_drawn_settings_are_valid_varied_and_repeatable(operator: str) -> None:
    settings = settings_of(operator, 3, "float32", 0)
    assert settings == settings_of.__wrapped__(operator, 3, "float32", 0)
    assert settings != settings_of(operator, 4, "float32", 0)
    assert settings != settings_of(operator, 3, "float16", 0)
    assert len({(setting.op, setting.shapes) for setting in settings}) > 40
    for setting in settings:
        assert setting.output_shape is not None
        assert sum(int(np.prod(shape)) for shape in setting.shapes if shape is not None) < 8000


@pytest.mark.parametrize("operator", IN_FAMILIES)
def test_sizes_around_vectors_and_blocks_are_drawn_along_every_axis(operator: str) -> None:
    settings = [s for seed in range(3) for block in range(3) for s in settings_of(operator, seed, "float32", block)]
    for rank in RANKS:
        of_rank = [s for s in settings if s.op.ndim == rank]  # type: ignore[attr-defined]
        shapes = [s.shapes[0] for s in of_rank if s.shapes[0] is not None]
        for axis in range(rank):
            drawn = {shape[len(shape) - rank + axis] for shape in shapes}
            for low in (15, 31, 63, 127) if rank == 1 or draws_of(operator).terms > 260 else (15, 31):
                assert drawn & {low, low + 1, low + 2}, (rank, axis, low)
        full = [shape for shape in shapes if len(shape) == rank + 2]
        assert max(shape[0] for shape in full) > 64
        assert max(shape[1] for shape in full) > 64


@given(st.sampled_from(OPERATORS), st.sampled_from(FLOATS), st.integers(0, 5), st.integers(0, 2**20))
def test_drawn_settings_give_arrays_of_their_shapes(operator: str, dtype: str, block: int, seed: int) -> None:
    for setting in settings_of(operator, seed % 4, dtype, block)[seed % 7 :: 7]:
        arrays = make_arrays(setting, setting.fillings[0], dtype)
        x = arrays.primals[0]
        assert x is not None
        assert x.shape == setting.shapes[0]
        assert same_bits(np.array(x, order="C"), x)


@pytest.mark.parametrize("operator", IN_FAMILIES)
def test_every_two_values_of_two_options_meet(operator: str) -> None:
    """At default settings, over the float types; each rank by itself."""
    plan = Plan(operators=(operator,), dtypes=FLOATS)
    for item in coverage_of(plan):
        assert item.possible == possible_pairs(operator, item.rank)
        assert item.covered == item.possible, item
    one = coverage_of(Plan(operators=(operator,), dtypes=("float32",)))
    assert all(item.covered > 0.9 * item.possible for item in one)


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name not in IN_FAMILIES])
def test_operators_that_draw_their_own_geometry_are_covered(operator: str) -> None:
    covered = coverage_of(Plan(operators=(operator,), dtypes=("float32",), cases=120))
    assert all(item.covered == item.possible for item in covered)


def test_a_sum_over_the_batch_is_not_compared_with_single_samples() -> None:
    names = [verdict.name for verdict in probe(load_subject("halfulp"), "sum", "forward", "float32")]
    assert names
    assert not any(names), names


def test_coverage_counts_what_was_finished() -> None:
    plan = Plan(operators=("conv",), dtypes=("float32",))
    assert all(item.covered == 0 for item in coverage_of(plan, finished=()))
    assert coverage_of(plan, {unit.key for unit in units_of(plan)}) == coverage_of(plan)


def test_a_choice_has_a_value_for_every_option() -> None:
    for operator in IN_FAMILIES:
        for setting in settings_of(operator, 0, "float32", 0):
            rank = setting.op.ndim  # type: ignore[attr-defined]
            options = options_of(operator, rank)
            assert [name for name, _ in setting.choice] == list(options)
            assert all(value in options[name] for name, value in setting.choice)
            assert sum(1 for _ in pairs_of(setting.choice)) == len(options) * (len(options) - 1) // 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("label", list(FILLINGS))
def test_fillings_have_their_type_and_seed(label: str, dtype: str) -> None:
    kind = numpy_dtype(dtype)
    first, again = (filled(label, (5, 7), kind, np.random.default_rng(4)) for _ in range(2))
    assert first.dtype == kind
    assert same_bits(first, again)


@pytest.mark.parametrize("layout", ["channels_last", "negative_strides", "strided"])
def test_layouts_change_the_memory_and_not_the_numbers(layout: str) -> None:
    array = np.arange(24.0).reshape(1, 2, 3, 4)
    changed = laid_out(array, layout)
    assert np.array_equal(changed, array)
    assert changed.strides != array.strides


def test_integers_are_asked_only_what_has_a_meaning() -> None:
    assert takes("max_pool", "forward", "int8")
    assert not takes("max_pool", "vjp", "int8")
    assert not takes("conv", "forward", "int8")


def test_units_cover_a_plan_once() -> None:
    plan = Plan(operators=("conv",), dtypes=("float32",), cases=170, probes=False)
    places = [place_of("conv", number) for unit in units_of(plan) for number in range(unit.start, unit.stop)]
    assert len(places) == len(set(places)) == 170


def test_a_case_is_found_by_its_key() -> None:
    case = case_of("conv/vjp/float16/3.2", seed=5)
    assert case.setting == setting_at("conv", 5, "float16", 3)
    assert case.filling == case.setting.fillings[2]
    drawn = case_of("conv/vjp/float16/60.0", seed=5)
    assert drawn.setting == setting_at("conv", 5, "float16", 60) != setting_at("conv", 5, "float32", 60)
    assert (case.mode, case.dtype) == ("vjp", "float16")


@given(st.floats(width=32), st.floats(width=32))
def test_distance_counts_floats(a: float, b: float) -> None:
    x, y = np.array([a], np.float32), np.array([b], np.float32)
    steps = int(distance(x, y)[0])
    assert steps == int(distance(y, x)[0])
    if np.isfinite(a) and abs(a) < 3e38:
        up = np.nextafter(x, np.float32(np.inf))
        assert int(distance(x, up)[0]) == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_compare_tells_kinds_of_errors_apart(dtype: str) -> None:
    kind = numpy_dtype(dtype)
    want = np.array([1.0, 0.0, np.nan, np.inf, 2.0, np.nan], kind)
    got = np.array([1.0, -0.0, 3.0, 4.0, np.nan, -np.nan], kind)
    found = compare(got, want)
    assert (found.elements, found.correct) == (6, 2)
    assert (found.zero, found.nan, found.infinity, found.value) == (1, 2, 1, 0)


def test_histograms_have_a_bucket_per_power_of_two() -> None:
    counts = histogram_of(np.array([0, 1, 2, 3, 4, 5, 8, 9, 128, 129, 2**40], np.uint64))
    assert counts == (1, 1, 1, 2, 2, 1, 0, 0, 1, 2)
