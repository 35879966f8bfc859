"""Names that every docstring example may use."""

from typing import Any

import numpy as np
import pytest

import halfulp as hu


@pytest.fixture(autouse=True)
def _example_names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["np"] = np
    doctest_namespace["hu"] = hu
