"""python-flint, imported when it is first needed: it takes longer to load than the rest of the package together.

Everything that ``import halfulp`` brings in says ``from halfulp.numbers import flint``; of the work on floats only
smooth max pooling loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flint import arb as arb
    from flint import ctx as ctx
    from flint import fmpq as fmpq
    from flint import fmpz as fmpz
    from flint import fmpz_mat as fmpz_mat


def __getattr__(name: str) -> Any:
    """A name of the package ``flint``, kept here so that the next use finds it at once."""
    if name.startswith("__"):
        raise AttributeError(name)
    import flint

    value = getattr(flint, name)
    globals()[name] = value
    return value
