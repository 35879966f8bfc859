"""What the tests of the kernels share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from halfulp import _core, kernels


@pytest.fixture
def restore() -> Iterator[None]:
    """Gives back the instruction set and the number of threads that a test has changed."""
    isa = _core.get_isa()
    yield
    kernels.set_num_threads(0)
    _core.set_isa(isa)
