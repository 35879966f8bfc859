"""The backends that can be checked, by name. Each framework is imported only when its subject is asked for."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from typing import Final

from halfulp.conformance.subjects._base import Subject, Unsupported

__all__ = ["SUBJECTS", "Subject", "SubjectError", "Unsupported", "load_subject", "load_subjects"]

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
    if name.startswith("onnx:"):
        from halfulp.conformance.subjects.onnx_backend import load_backend

        return load_backend(name)
    if ":" in name:
        from halfulp.conformance.subjects.user import load

        try:
            return load(name)
        except (ImportError, AttributeError) as error:
            raise SubjectError(f"subject {name!r} cannot be loaded: {error}") from error
    if name not in SUBJECTS:
        raise SubjectError(_unknown([name]))
    module, class_name, needed = SUBJECTS[name]
    try:
        loaded = importlib.import_module(f"halfulp.conformance.subjects.{module}")
    except ImportError as error:
        raise SubjectError(f"subject {name!r} needs {needed}: pip install {needed} ({error})") from error
    return getattr(loaded, class_name)()  # type: ignore[no-any-return]


def load_subjects(names: Sequence[str]) -> list[Subject]:
    """Several subjects; those that cannot be loaded are named together.

    >>> load_subjects(["troch", "theano"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    halfulp.conformance.subjects.SubjectError: there is no subject 'troch' (did you mean 'torch'?), 'theano'; ...
    """
    unknown = [name for name in names if ":" not in name and name not in SUBJECTS]
    problems = [_unknown(unknown)] if unknown else []
    loaded = []
    for name in names:
        try:
            if name not in unknown:
                loaded.append(load_subject(name))
        except SubjectError as error:
            problems.append(str(error))
    if problems:
        raise SubjectError("; ".join(problems))
    return loaded


def _unknown(names: Sequence[str]) -> str:
    """The sentence about subjects that there are not."""
    listed = []
    for name in names:
        close = difflib.get_close_matches(name, SUBJECTS, n=1)
        listed.append(f"{name!r} (did you mean {close[0]!r}?)" if close else repr(name))
    return (
        f"there is no subject {', '.join(listed)}; known are {', '.join(SUBJECTS)}, module:object for your own "
        "backend, and onnx:module for an ONNX backend"
    )
