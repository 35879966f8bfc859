"""Outputs of a case and their digests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from halfulp import kernels
from tests.corpus.cases import Case
from tests.corpus.generator import FORMATS, Array

RECORD = Path(__file__).parent / "digests.json"


def outputs(case: Case) -> dict[str, Any]:
    """Value, indices, tangent and cotangents, as far as the operator and the type have them."""
    op, inputs = case.op, case.inputs()
    found: dict[str, Any] = {"value": op(*inputs)}
    if kernels.entries[type(op)].indices is not None and getattr(op, "ties", "") in ("first", "last"):
        found["indices"] = kernels.forward_with_indices(op, *inputs)[1]
    if case.dtype not in FORMATS:
        return found
    constants = len(getattr(op, "constants", ()))
    moving = inputs[: len(inputs) - constants]
    tangents = tuple(case.direction(i, x) for i, x in enumerate(moving)) + (None,) * constants
    found["tangent"] = op.jvp(inputs, tangents)[1]
    value, pullback = op.vjp(*inputs)
    found["value of vjp"] = value
    for name, cotangent in zip(op.input_names, pullback(case.direction(9, value)), strict=False):
        if cotangent is not None:
            found[f"cotangent of {name}"] = cotangent
    return found


def digest(x: Array) -> str:
    """A digest of type, shape and bits; every NaN counts as the same one."""
    x = np.asarray(x)
    if x.dtype.name in FORMATS:
        x = np.where(x != x, np.array(np.nan).astype(x.dtype), x)
        x = x.view(FORMATS[x.dtype.name][1])
    bits = np.ascontiguousarray(x, x.dtype.newbyteorder("<"))
    return hashlib.sha256(f"{x.dtype.name} {x.shape} ".encode() + bits.tobytes()).hexdigest()[:16]


def computed(case: Case) -> dict[str, str]:
    return {name: digest(x) for name, x in outputs(case).items()}


def recorded() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def differences(cases: list[Case], record: dict[str, dict[str, str]]) -> list[str]:
    """A line for every output that differs, with everything needed to compute it again."""
    lines = []
    for case in cases:
        now, then = computed(case), record.get(case.name, {})
        for name in {**then, **now}:
            if now.get(name) != then.get(name):
                lines.append(f"{case.name}, seed {case.seed}: {name} is {now.get(name)}, recorded {then.get(name)}")
    return lines
