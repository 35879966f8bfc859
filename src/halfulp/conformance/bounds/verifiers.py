"""The verifiers that can be graded. Each is a function ``bounds(model_path, lower, upper) -> (lower, upper)``.

`lower` and `upper` have the shape of the model's input with its batch axis. An exception is a refusal.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.conformance.bounds.network import DOMAIN, Array

__all__ = ["VERIFIERS", "verifier"]

Verifier = Callable[[str, Array, Array], tuple[Any, Any]]


def _halfulp(method: str) -> Callable[[], Verifier]:
    def build() -> Verifier:
        hb: Any = importlib.import_module("halfulp.bounds")

        def bounds(path: str, lower: Array, upper: Array) -> tuple[Any, Any]:
            result = hb.bounds(_loaded(hb, path, lower.shape), hb.Box(lower, upper), method=method, arithmetic="real")
            return result.lower, result.upper

        return bounds

    return build


def _loaded(hb: Any, path: str, shape: tuple[int, ...]) -> Any:
    """The model of a path; nodes of our own domain are records."""
    import onnx

    from halfulp.conformance.bounds.records import function_of

    model = onnx.load(path)
    if any(node.domain == DOMAIN for node in model.graph.node):
        return hb.from_function(function_of(model), shape)
    return hb.load(path)


def _maraboupy() -> Verifier:
    """Marabou's symbolic bound tightening."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        marabou: Any = importlib.import_module("maraboupy.Marabou")

    def bounds(path: str, lower: Array, upper: Array) -> tuple[Any, Any]:
        network = marabou.read_onnx(path)
        variables = np.asarray(network.inputVars[0]).reshape(-1)
        for variable, low, high in zip(variables, lower.reshape(-1), upper.reshape(-1), strict=True):
            network.setLowerBound(int(variable), float(low))
            network.setUpperBound(int(variable), float(high))
        status, found, _ = network.calculateBounds(verbose=False, options=marabou.createOptions(verbosity=0))
        outputs = [int(variable) for variable in np.asarray(network.outputVars[0]).reshape(-1)]
        if status == "unsat":  # an empty set of outputs, for a box that is not empty
            return np.full(len(outputs), np.inf), np.full(len(outputs), -np.inf)
        ends = np.array([found[variable] for variable in outputs])
        return ends[:, 0], ends[:, 1]

    return bounds


def _auto_lirpa(method: str) -> Callable[[], Verifier]:
    def build() -> Verifier:
        lirpa: Any = importlib.import_module("auto_LiRPA")
        torch: Any = importlib.import_module("torch")
        from halfulp.conformance.bounds.modules import torch_module

        def bounds(path: str, lower: Array, upper: Array) -> tuple[Any, Any]:
            low, high = torch.tensor(lower, dtype=torch.float32), torch.tensor(upper, dtype=torch.float32)
            module = lirpa.BoundedModule(torch_module(path), low)
            perturbation = lirpa.PerturbationLpNorm(norm=np.inf, x_L=low, x_U=high)
            ends = module.compute_bounds(x=(lirpa.BoundedTensor((low + high) / 2, perturbation),), method=method)
            return ends[0].detach().numpy(), ends[1].detach().numpy()

        return bounds

    return build


VERIFIERS: dict[str, Callable[[], Verifier]] = {
    "halfulp": _halfulp("crown"),
    "halfulp-ibp": _halfulp("ibp"),
    "halfulp-alpha-crown": _halfulp("alpha-crown"),
    "maraboupy": _maraboupy,
    "auto_LiRPA": _auto_lirpa("CROWN"),
    "auto_LiRPA-ibp": _auto_lirpa("IBP"),
}
"""Name -> a function that imports the library and gives its bounds."""


def verifier(name: str) -> Verifier:
    """A verifier by name, or the reader's own as ``module:function`` (``module`` alone means its ``bounds``).

    The current folder is searched for modules too. ValueError says what is missing.
    """
    if name in VERIFIERS:
        try:
            return VERIFIERS[name]()
        except ImportError as error:
            raise ValueError(f"{name} cannot be imported: {error}") from None
    module, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found: Verifier = getattr(importlib.import_module(module), attribute or "bounds")
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join(VERIFIERS)
        raise ValueError(f"{name} is neither one of {known} nor module:function: {error}") from None
    if not callable(found):
        raise ValueError(f"{name} is not a function bounds(model_path, lower, upper) -> (lower, upper)")
    return found
