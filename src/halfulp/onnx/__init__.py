"""ONNX models, computed node by node with correct rounding: an official ONNX backend, and a differentiable loader.

``halfulp.onnx.load(path)`` gives a callable. The module itself is a backend in the sense of ``onnx.backend.base``:
:func:`prepare`, :func:`run_model`, :func:`run_node`, :func:`supports_device`, so ONNX's own test runner runs on it.
A model outside of the operators here is refused by the name of the node and the attribute, when it is loaded.
"""

try:
    import onnx as _onnx
except ImportError as _error:
    raise ImportError("halfulp.onnx needs the package onnx: pip install 'halfulp[onnx]'") from _error

from halfulp.onnx._backend import Backend, PreparedModel, is_compatible, prepare, run_model, run_node, supports_device
from halfulp.onnx._model import Model, load
from halfulp.onnx.operators import OPERATORS

del _onnx

__all__ = [
    "OPERATORS",
    "Backend",
    "Model",
    "PreparedModel",
    "is_compatible",
    "load",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
