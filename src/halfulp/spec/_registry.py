"""What the records mean: the file of each operator registers its forward, JVP and VJP together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np

from halfulp.records import Operator

Array = np.ndarray[Any, Any]


class Rule(Protocol):
    """The meaning of an operator over object arrays: forward, JVP and VJP, all three."""

    forward: Callable[..., Array]
    jvp: Callable[..., Array]
    vjp: Callable[..., tuple[Array | None, ...]]


class Functions(NamedTuple):
    """A rule as three functions; ``surds``: floats are lifted to numbers with square roots."""

    forward: Callable[..., Array]
    jvp: Callable[..., Array]
    vjp: Callable[..., tuple[Array | None, ...]]
    surds: bool = False


RULES: dict[type[Operator], Rule] = {}


def register(record: type[Operator], rule: Any) -> None:
    """Register the specification of a record; forward, jvp and vjp are all required.

    ``forward(op, inputs)``, ``jvp(op, primals, tangents)`` and ``vjp(op, primals, cotangent)`` get tuples of object
    arrays. A tangent of None is zero; ``vjp`` gives a tuple with a cotangent, or None, for every input. A function that
    takes ``progress`` is told whether to show a progress bar.

    >>> from halfulp.records import MaxPool
    >>> register(MaxPool, None)
    Traceback (most recent call last):
        ...
    TypeError: MaxPool: an operator is registered with forward, jvp and vjp; forward, jvp, vjp missing [E6]
    """
    missing = [name for name in ("forward", "jvp", "vjp") if not callable(getattr(rule, name, None))]
    if missing:
        raise TypeError(
            f"{record.__name__}: an operator is registered with forward, jvp and vjp; {', '.join(missing)} missing [E6]"
        )
    RULES[record] = rule if record.__module__.startswith("halfulp.") else _adapted(record, rule)


_PARAMETERS = {"forward": ("op", "inputs"), "jvp": ("op", "primals", "tangents"), "vjp": ("op", "primals", "cotangent")}


def _adapted(record: type[Operator], rule: Any) -> Rule:
    """A rule from outside of the package whose functions need not take ``progress``; other parameters are refused."""
    plain = []
    for name, parameters in _PARAMETERS.items():
        signature = inspect.signature(getattr(rule, name))
        try:
            signature.bind(*parameters)
        except TypeError:
            text = f"{name} must take ({', '.join(parameters)}), not {signature} [E6]"
            raise TypeError(f"{record.__name__}: {text}") from None
        kinds = [p.kind for p in signature.parameters.values()]
        if "progress" not in signature.parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            plain.append(name)
    if not plain:
        return rule  # type: ignore[no-any-return]
    found = {name: getattr(rule, name) for name in _PARAMETERS}
    return SimpleNamespace(**found | {name: _without_progress(found[name]) for name in plain})


def _without_progress(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, progress=False: function(*arguments)
