"""Declarations: what is left out is refused with a sentence, and every record of the package is declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import halfulp as hu
from halfulp import records
from halfulp.records import Operator, _declaration


@dataclass(frozen=True, repr=False)
class Cube(Operator):
    @property
    def name(self) -> str:
        return "cube"

    def output_shape(self, *input_shapes: Any) -> Any:
        return input_shapes[0]


def drawn(choose: Any) -> Any:
    return Cube(), ((choose((1, 2, 3)),),)


WHOLE = {"kind": "smooth", "curvature": "none", "draw": hu.Draw(drawn), "ranks": ()}


@pytest.mark.parametrize(
    ("without", "sentence"),
    [
        ("kind", "kind=None: must be one of 'linear', 'bilinear', 'selecting', 'smooth' [E8]"),
        (
            "curvature",
            "curvature=None: must be one of 'none', 'linear', 'bilinear' or a Curvature: "
            "what the second derivative is [E8]",
        ),
        ("draw", "draw=None: must say how the lab draws cases: a halfulp.Draw [E8]"),
    ],
)
def test_what_is_left_out_is_named(without: str, sentence: str) -> None:
    given = {key: value for key, value in WHOLE.items() if key != without}
    with pytest.raises(hu.DTypeError) as caught:
        hu.declare(Cube, **given)
    assert str(caught.value) == f"Cube: {sentence}"
    assert not _declaration.is_declared(Cube)


class Derived(Cube):
    """Not a dataclass of its own."""


@pytest.mark.parametrize(
    ("record", "more", "sentence"),
    [
        (Cube, {"colour": 3}, "Cube: colour=3: must be one of inputs, optional, constant, "),
        (Cube, {"keywords": ("nope",)}, "Cube: keywords=('nope',): must be among the record's fields: none [E8]"),
        (
            hu.MaxPool,
            {"order": ("size",)},
            "MaxPool: order=('size',): must be among the record's fields: kernel_size, ",
        ),
        (Cube, {"constant": ("indices",)}, "Cube: constant=('indices',): must be among the record's inputs: input, "),
        (
            Cube,
            {"draw": hu.Draw("window")},
            "Cube: draw='window': draws kernel_size, but the record's fields are: none",
        ),
        (Cube, {"draw": hu.Draw(drawn, beta=(1, 2))}, "draws beta, but the record's fields are: none [E8]"),
        (Derived, {}, "Derived: record: must be a frozen dataclass derived from halfulp.Operator [E8]"),
        (Cube, {"curvature": hu.Curvature("odd", None, None)}, "or a Curvature: what the second derivative is [E8]"),  # type: ignore[arg-type]
    ],
)
def test_names_that_nothing_has_are_refused(record: Any, more: Any, sentence: str) -> None:
    before = _declaration._declared.get(record)
    with pytest.raises(hu.DTypeError) as caught:
        hu.declare(record, **(WHOLE | more))
    assert sentence in str(caught.value)
    assert _declaration._declared.get(record) is before


def test_other_holes_are_named() -> None:
    with pytest.raises(hu.DTypeError, match=r"int: record: must be a frozen dataclass.* \[E8\]"):
        hu.declare(int, **WHOLE)  # type: ignore[type-var]
    with pytest.raises(hu.DTypeError, match=r"curvature='flat': must be one of"):
        hu.declare(Cube, **(WHOLE | {"curvature": "flat"}))
    with pytest.raises(hu.DTypeError, match=r"draw='window': must give values to choose from for beta"):
        hu.declare(hu.SmoothMaxPool, kind="smooth", curvature="none", draw=hu.Draw("window"))
    with pytest.raises(hu.DTypeError, match=r"inputs=\('a', 'b'\): must name every input: Cube.arity is 1"):
        hu.declare(Cube, **WHOLE, inputs=("a", "b"))
    with pytest.raises(ValueError, match=r"Draw\('windows'\): must be a function or one of .*\[E8\]"):
        hu.Draw("windows")
    assert not _declaration.is_declared(Cube)


def test_every_record_of_the_package_is_declared() -> None:
    classes = {value for name in records.__all__ if isinstance(value := getattr(records, name), type)}
    concrete = {c for c in classes if issubclass(c, Operator) and vars(c).get("base_name")}  # bases have none
    assert {d.record for d in records.declarations() if d.record.__module__.startswith("halfulp.")} == concrete
