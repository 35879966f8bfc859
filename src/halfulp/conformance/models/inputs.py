"""Arrays for the inputs of a model: from files, or drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from halfulp.errors import ModelError
from halfulp.numbers import is_float
from halfulp.onnx import Model
from halfulp.records import Array

__all__ = ["draw_inputs", "read_inputs"]


def read_inputs(model: Model, words: Sequence[str]) -> dict[str, Array]:
    """``NAME=FILE.npy``, or ``FILE.npy`` for the inputs in their order; no pickled objects."""
    names = [value.name for value in model.inputs]
    found: dict[str, Array] = {}
    for word in words:
        name, separator, path = word.partition("=")
        if not separator or name not in names:
            left = [n for n in names if n not in found]
            if separator and not Path(word).exists():
                raise ModelError("run", f"--input {word}", f"the model has no input {name!r}; it has {names}", "O7")
            if not left:
                raise ModelError("run", f"--input {word}", f"the model has {len(names)} inputs: {names}", "O7")
            name, path = left[0], word
        try:
            found[name] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ModelError("run", f"--input {word}", f"cannot be read as an .npy file: {error}", "O7") from error
        if not isinstance(found[name], np.ndarray):
            raise ModelError("run", f"--input {word}", "holds several arrays; give one .npy file for each input", "O7")
    return found


def draw_inputs(
    model: Model, given: Mapping[str, Array], shapes: Mapping[str, Sequence[int]], seed: int
) -> dict[str, Array]:
    """All inputs: those given, and the others drawn. A size that is not fixed is 1 unless a shape says otherwise.

    Floats are drawn from a normal distribution. Integers are 0 and truth values True, since they often are indices,
    lengths or switches.
    """
    rng = np.random.default_rng(seed)
    sizes: dict[str, int] = {}
    for declared in model.inputs:
        array = given.get(declared.name)
        shape = shapes.get(declared.name) if array is None else array.shape
        for size, name in zip(shape or (), declared.shape or (), strict=False):
            if isinstance(name, str):
                sizes.setdefault(name, int(size))
    found: dict[str, Array] = {}
    for declared in model.inputs:
        if declared.name in given:
            found[declared.name] = given[declared.name]
            continue
        chosen = shapes.get(declared.name)
        if chosen is None:
            known = declared.shape or ()
            chosen = [n if isinstance(n, int) else sizes.get(n, 1) if isinstance(n, str) else 1 for n in known]
        if is_float(declared.dtype):
            found[declared.name] = rng.standard_normal(tuple(chosen)).astype(declared.dtype)
        else:
            found[declared.name] = np.full(tuple(chosen), declared.dtype == np.bool_, dtype=declared.dtype)
    return found
