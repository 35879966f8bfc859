"""Settings, fillings and distances: what a campaign is made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.conformance.cases import DTYPES, FLOATS, OPERATORS, laid_out, make_arrays, numpy_dtype, takes
from halfulp.conformance.corpus import corpus
from halfulp.conformance.fill import FILLINGS, filled
from halfulp.conformance.strategies import STRATEGIES, settings_of
from halfulp.conformance.ulps import compare, distance, histogram_of, same_bits
from halfulp.conformance.units import Plan, case_of, setting_at, units_of

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
    settings = settings_of(operator, 3, 0)
    assert settings == settings_of.__wrapped__(operator, 3, 0)
    assert settings != settings_of(operator, 4, 0)
    assert len({(setting.op, setting.shapes) for setting in settings}) > 20
    for setting in settings:
        assert setting.output_shape is not None
        assert sum(int(np.prod(shape)) for shape in setting.shapes if shape is not None) < 2000


@given(st.data())
def test_drawn_settings_cover_layouts_and_ranks(data: st.DataObject) -> None:
    setting = data.draw(STRATEGIES[data.draw(st.sampled_from(OPERATORS))]())
    arrays = make_arrays(setting, setting.fillings[0], data.draw(st.sampled_from(FLOATS)))
    x = arrays.primals[0]
    assert x is not None
    assert x.shape == setting.shapes[0]
    assert same_bits(np.ascontiguousarray(x), x)


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
    plan = Plan(operators=("conv",), dtypes=("float32",), cases=70, probes=False)
    places = [
        (index, filling)
        for unit in units_of(plan)
        for index in range(unit.start, unit.stop)
        for filling in range(unit.fillings)
    ]
    assert len(places) == len(set(places)) == 70


def test_a_case_is_found_by_its_key() -> None:
    case = case_of("conv/vjp/float16/30.2", seed=5)
    assert case.setting == setting_at("conv", 5, 30)
    assert case.filling == case.setting.fillings[2]
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
