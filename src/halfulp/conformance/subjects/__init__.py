"""The backends that can be checked, by name. Each framework is imported only when its subject is asked for."""

from __future__ import annotations

import importlib
from typing import Final

from halfulp.conformance.subjects._base import Subject, Unsupported

__all__ = ["SUBJECTS", "Subject", "SubjectError", "Unsupported", "load_subject"]

SUBJECTS: Final[dict[str, tuple[str, str, str]]] = {
    "halfulp": ("halfulp_", "HalfulpSubject", "halfulp"),
    "torch": ("torch_", "TorchSubject", "torch"),
    "torch-compile": ("torch_", "TorchCompileSubject", "torch"),
    "torch-channels-last": ("torch_", "TorchChannelsLastSubject", "torch"),
    "jax": ("jax_", "JaxSubject", "jax"),
    "onnxruntime": ("onnxruntime_", "OnnxruntimeSubject", "onnx onnxruntime"),
    "openvino": ("openvino_", "OpenvinoSubject", "openvino"),
    "numpy-naive": ("numpy_naive", "NumpyNaiveSubject", "numpy"),
}
"""Name -> (module here, class, what must be installed)."""


class SubjectError(ValueError):
    """A subject that does not exist or cannot be loaded."""


def load_subject(name: str) -> Subject:
    """The subject of a name, or of ``module:object``.

    >>> load_subject("numpy-naive").name
    'numpy-naive'
    """
    if ":" in name:
        from halfulp.conformance.subjects.user import load

        try:
            return load(name)
        except (ImportError, AttributeError) as error:
            raise SubjectError(f"subject {name!r} cannot be loaded: {error}") from error
    if name not in SUBJECTS:
        known = ", ".join(SUBJECTS)
        raise SubjectError(f"there is no subject {name!r}; known are {known}, and module:object for your own backend")
    module, class_name, needed = SUBJECTS[name]
    try:
        loaded = importlib.import_module(f"halfulp.conformance.subjects.{module}")
    except ImportError as error:
        raise SubjectError(f"subject {name!r} needs {needed}: {error}") from error
    return getattr(loaded, class_name)()  # type: ignore[no-any-return]
