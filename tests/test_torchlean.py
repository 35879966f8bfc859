"""The page that leads from TorchLean to halfulp: no definition is missing, and every row does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq

import halfulp as hu

PAGE = (Path(__file__).parent.parent / "docs" / "torchlean.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(.*?)` \| `(.*?)` \| `(.*?)` \|$", PAGE, re.MULTILINE)
SETUP = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0]

NAMES = """
    MaxPool2DSpec AvgPool2DSpec MaxPoolSpec AvgPoolSpec AdaptiveAvgPool2DSpec AdaptiveMaxPool2DSpec
    GlobalAvgPool2DSpec GlobalMaxPool2DSpec pool2dOutShape pool2dMultiOutShape pool2dOutShapePad
    pool2dMultiOutShapePad poolOutSpatial poolOutSpatialPad poolOutShape poolMultiOutShape poolOutShapePad
    poolMultiOutShapePad maxPool2dSpec maxPool2dMultiSpec maxPool2dMultiSpecPad maxPoolSpatialSpec maxPoolSpec
    maxPool maxPool2dJvpSpec maxPool2dMultiJvpSpec maxPool2dMultiJvpSpecPad maxPoolSpatialJvpSpec maxPoolJvpSpec
    maxPool2dBackwardSpec maxPool2dMultiBackwardSpec maxPool2dMultiBackwardSpecPad maxPoolSpatialBackwardSpec
    maxPoolBackwardSpec maxPoolBackward avgPool2dSpec avgPool2dMultiSpec avgPool2dMultiSpecPad avgPoolSpatialSpec
    avgPoolSpec avgPool avgPool2dBackwardSpec avgPool2dMultiBackwardSpecPad avgPoolSpatialBackwardSpec
    avgPoolBackwardSpec avgPoolBackward smoothMaxPool2dSpec smoothMaxPool2dMultiSpec smoothMaxPoolSpatialSpec
    smoothMaxPoolSpec smoothMaxPool smoothMaxPool2dJvpSpec smoothMaxPool2dMultiJvpSpec smoothMaxPoolSpatialJvpSpec
    smoothMaxPoolJvpSpec smoothMaxPool2dBackwardSpec smoothMaxPool2dMultiBackwardSpec
    smoothMaxPoolSpatialBackwardSpec smoothMaxPoolBackwardSpec smoothMaxPoolBackward adaptiveStart adaptiveEnd
    adaptiveAvgPool2dSpec adaptiveMaxPool2dSpec unpadImage unpadMultiChannel reduceSpatial globalChannelReduce
    channelSpatialMax globalPool2d1x1 globalPool2dFlat globalAvgPool2dSpec globalMaxPool2dSpec
    globalAvgPool2dFlatSpec globalMaxPool2dFlatSpec globalAvgPool2dBackwardSpec globalAvgPool2dFlatBackwardSpec
    globalMaxPool2dBackwardSpec globalMaxPool2dFlatBackwardSpec globalMaxPool2dBackwardDistributedSpec tensorOfDims
    foldlIndices' paddedCoords? unpadCoords? getPaddedAverageInputVal getPaddedMaxInputVal? maxPoolValue
    maxPoolJvpValue avgPoolValue smoothMaxPoolValue smoothMaxPoolJvpValue Tape.conv Tape.conv2d Tape.convTranspose
    Tape.convTranspose2d Tape.maxPool Tape.maxPool2d Tape.maxPool2dPad Tape.avgPool Tape.avgPool2d Tape.avgPool2dPad
    Tape.smoothMaxPool Tape.smoothMaxPool2d
"""
DEFINITIONS = set(NAMES.split())
"""The definitions of the original; two more have no name of their own there."""
UNNAMED = {"global shapes (C,1,1) and (C)", "a scalar as a 1×1 image"}


def namespace(**replaced: Any) -> dict[str, Any]:
    """The page's names, with some of its functions replaced before its values are made."""
    functions, values = SETUP.split("image = ", 1)
    names: dict[str, Any] = {}
    exec(functions, names)
    names.update(replaced)
    exec("image = " + values, names)
    return names


EXACT = namespace()
FLOATS = namespace(number=lambda values: np.array(values, dtype=float), show=lambda array: array)


def balls(values: Any) -> Any:
    return np.frompyfunc(lambda v: arb(v), 1, 1)(hu.exact(np.array(values, dtype=float)))


BALLS = namespace(number=balls, real=balls, show=lambda array: array)


def test_no_definition_is_missing() -> None:
    names = [name for name, _, _ in ROWS]
    assert len(names) == len(set(names)) == len(DEFINITIONS) + len(UNNAMED)
    assert set(names) == DEFINITIONS | UNNAMED
    assert len(DEFINITIONS) == 103


@pytest.mark.parametrize(("name", "expression", "value"), ROWS, ids=[name for name, _, _ in ROWS])
def test_row(name: str, expression: str, value: str) -> None:
    assert repr(eval(expression, EXACT)) == value
    for other in (FLOATS, BALLS):
        near(eval(expression, other), eval(value, {**vars(hu), "Window": hu.geometry.Window}))


def near(found: Any, shown: Any) -> None:
    """Floats and balls have the value that the page shows, to the places that it shows."""
    if isinstance(found, np.ndarray):
        found = found.tolist()
    if isinstance(found, (list, tuple)) and not isinstance(found, hu.geometry.Window):
        assert len(found) == len(shown)
        for a, b in zip(found, shown, strict=True):
            near(a, b)
    elif isinstance(found, (arb, fmpq, float)):
        assert abs(float(found) - float(shown)) < 6e-5
    else:
        assert found == shown
