"""Node by node: every node gets the runtime's own inputs, so that a difference is that node's alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from halfulp.conformance.models.runtimes import Runtime
from halfulp.conformance.ulps import Difference, compare
from halfulp.errors import ModelError
from halfulp.onnx._model import DEFAULT_LIMIT
from halfulp.onnx._program import Step
from halfulp.onnx._reading import program_of
from halfulp.onnx._running import run_alone
from halfulp.records import Array

__all__ = ["NodeResult", "compare_nodes", "first_beyond"]


@dataclass(frozen=True)
class NodeResult:
    """One output of one node, by the runtime and exactly."""

    position: int
    node: str
    operator: str
    output: str
    got: Array
    want: Array
    difference: Difference | None
    """None where shape or type differ."""

    @property
    def same(self) -> bool:
        """Whether every bit agrees."""
        return self.difference is not None and self.difference.same

    @property
    def ulps(self) -> float:
        """The largest distance in ulps; infinite where a NaN, an infinity, a shape or a type differs."""
        if self.difference is None or self.difference.nan or self.difference.infinity:
            return float("inf")
        return max(self.difference.worst, float(self.difference.zero > 0))

    @property
    def relative(self) -> float:
        """The largest difference as a share of the largest value: where terms cancel, ulps alone look worse."""
        if self.ulps == float("inf"):
            return self.ulps
        got, want = self.got.astype(np.float64), self.want.astype(np.float64)
        finite = np.isfinite(want)
        size = float(np.abs(want[finite]).max(initial=0.0))
        largest = float(np.abs(got[finite] - want[finite]).max(initial=0.0))
        return largest / size if size else largest

    @property
    def text(self) -> str:
        """The difference in words."""
        found = self.difference
        if found is None:
            return f"{self.got.dtype}{list(self.got.shape)} instead of {self.want.dtype}{list(self.want.shape)}"
        if found.same:
            return "equal"
        unit = "ulp" if found.worst == 1 else "ulps"
        words = [f"{found.elements - found.correct} of {found.elements} differ, by up to {found.worst:.6g} {unit}"]
        words += [f"{n} {what}" for n, what in ((found.nan, "NaN"), (found.infinity, "infinities")) if n]
        return ", ".join(words)


def compare_nodes(
    model: onnx.ModelProto,
    folder: Path,
    inputs: Mapping[str, Array],
    runtime: Runtime,
    *,
    max_bytes: int = DEFAULT_LIMIT,
    progress: Callable[[float], None] | None = None,
) -> list[NodeResult]:
    """All outputs of all nodes, in the model's order.

    The runtime gives the values between all nodes. Each node is then computed exactly from the runtime's own inputs.
    """
    program = program_of(model, folder, max_bytes)
    inner = [name for step in program.steps for name in step.node.outputs if name]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    shown = {value.name for value in whole.graph.output}
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner if name not in shown)
    values: dict[str, Any] = {"": None, **program.constants, **inputs}
    values.update(zip(inner, runtime.run(whole, folder, inputs, inner), strict=True))
    results: list[NodeResult] = []
    for position, step in enumerate(program.steps):
        results.extend(_results(step, values))
        if progress is not None:
            progress((position + 1) / len(program.steps))
    return results


def _results(step: Step, values: dict[str, Any]) -> Iterable[NodeResult]:
    try:
        outputs = run_alone(step, values)
    except ModelError as error:
        if any(values[name] is None for name in step.node.inputs if name):
            raise ModelError(step.node.label, "inputs", f"the runtime gives none: {error}", "O7") from error
        raise
    for name, want in zip(step.node.outputs, outputs, strict=False):
        if not name:
            continue
        got, want = np.asarray(values[name]), np.asarray(want)
        fits = got.shape == want.shape and got.dtype == want.dtype
        difference = compare(got, want) if fits else None
        yield NodeResult(step.node.position, step.node.label, step.node.operator, name, got, want, difference)


def first_beyond(results: Iterable[NodeResult], ulps: float) -> NodeResult | None:
    """The first output that differs by more than this."""
    return next((result for result in results if result.ulps > ulps), None)
