"""The functional forms on JAX arrays: the names and signatures of :mod:`halfulp.functional`."""

from typing import TYPE_CHECKING

from halfulp import functional
from halfulp.functional import __all__ as __all__
from halfulp.jax._apply import bridged
from halfulp.records import declarations

if TYPE_CHECKING:
    from halfulp.functional import *  # noqa: F403
else:
    globals().update(
        (name, bridged(getattr(functional, name), {*declaration.given, "running_mean", "running_var"}))
        for declaration in declarations()
        if declaration.record.__module__.startswith("halfulp.")
        for name in declaration.names
    )
