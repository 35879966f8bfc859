"""A finding as a Python script: it builds the model, asks the verifier and evaluates the point exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.conformance.bounds.judge import Verdict
from halfulp.conformance.bounds.network import Layer, Network

__all__ = ["script"]


def _array(value: Any) -> str:
    return f"np.array({np.asarray(value, dtype=np.float64).tolist()})"


def _layer(layer: Layer) -> str:
    parts = [repr(layer.kind)]
    if layer.op is not None:
        parts.append(f"hu.{layer.op!r}")
    for name in ("weight", "bias"):
        value = getattr(layer, name)
        if value is not None:
            parts.append(f"{name}={_array(value)}")
    if layer.constants:
        held = (c if c is None else f"np.array({c.tolist()}, dtype={str(c.dtype)!r})" for c in layer.constants)
        parts.append(f"constants=({', '.join(str(c) for c in held)},)")
    return f"    Layer({', '.join(parts)}),"


def script(name: str, network: Network, verdict: Verdict) -> str:
    """The text of the script. Its exit code is 1 while the finding is there.

    >>> from halfulp.conformance.bounds import draw
    >>> text = script("mine", draw(0, 1), Verdict("crashed", "the process ended"))
    >>> text.splitlines()[0]
    '# mine: crashed: the process ended'
    """
    lines = [
        f"# {name}: {verdict.status}: {verdict.text}",
        "import sys",
        "import tempfile",
        "from pathlib import Path",
        "",
        "import numpy as np",
        "",
        "import halfulp as hu",
        "from halfulp.conformance.bounds import Layer, Network, onnx_model",
        "from halfulp.conformance.bounds.verifiers import verifier",
        "",
        "layers = (",
        *(_layer(layer) for layer in network.layers),
        ")",
        f"lower = {_array(network.lower)}",
        f"upper = {_array(network.upper)}",
        "network = Network(layers, lower, upper)",
        'path = Path(tempfile.mkdtemp()) / "network.onnx"',
        "path.write_bytes(onnx_model(network).SerializeToString())",
        f"low, high = verifier({name!r})(str(path), lower[None], upper[None])",
        "low, high = np.ravel(low), np.ravel(high)",
        'print("lower bounds", low)',
        'print("upper bounds", high)',
    ]
    if verdict.point is None:
        return "\n".join([*lines, ""])
    bound = "low" if verdict.side == "lower" else "high"
    wrong = "<" if verdict.side == "lower" else ">"
    lines += [
        f"point = {_array(verdict.point)}  # inside the box",
        "assert (lower <= point).all() and (point <= upper).all()",
        f"value = network.exact(point)[{verdict.output}]  # exact, by the specification",
        f"bound = hu.exact({bound}[{verdict.output}].astype(np.float64))[()]",
        f'print("output {verdict.output}: exact value", value, "{verdict.side} bound", bound)',
        f"sys.exit(int(bool(value {wrong} bound)))",
        "",
    ]
    return "\n".join(lines)
