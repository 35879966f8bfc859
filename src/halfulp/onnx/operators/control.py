"""If, Loop and Scan: subgraphs that run once, until they say so, or for every slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from halfulp.onnx._memory import iterations
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axis_of, scalar
from halfulp.onnx.operators._plain import concatenate, index, reshape

MOST_ITERATIONS = 1 << 20
"""So many iterations all loops of a run may have together, loops in loops included: a hostile model must end."""


def _count(node: Node) -> None:
    """One more iteration of this run."""
    done = iterations.get()
    if done[0] >= MOST_ITERATIONS:
        raise node.refusal(f"iteration {done[0]}", f"all loops may run {MOST_ITERATIONS} times together", "O10")
    done[0] += 1


def _run(node: Node, graph: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> tuple[Any, ...]:
    from halfulp.onnx._running import run_subgraph  # the runner knows the operators

    around = dict(zip(node.captured, captured, strict=True))
    return run_subgraph(node, graph, inputs, [around[name] for name in graph.captured])


def if_(node: Node) -> Callable[..., Any]:
    """If: one of two subgraphs."""
    branches = {True: node.subgraph("then_branch"), False: node.subgraph("else_branch")}
    for graph in branches.values():
        if graph.inputs or len(graph.outputs) != len(node.outputs):
            raise node.refusal("branch", f"must have no inputs and {len(node.outputs)} outputs", "O9")

    def run(condition: Any, *captured: Any) -> tuple[Any, ...]:
        chosen = branches[bool(scalar(node, condition, "condition"))]
        return _run(node, chosen, (), captured)

    return run


def loop(node: Node) -> Callable[..., Any]:
    """Loop: the body runs at most ``M`` times, while its condition holds; slices of its scan outputs are stacked."""
    body = node.subgraph("body")
    carried = len(node.inputs) - 2
    scans = len(body.outputs) - 1 - carried
    if carried < 0 or len(body.inputs) != carried + 2 or scans < 0 or len(node.outputs) > carried + scans:
        counts = f"{carried + 2} inputs and at least {carried + 1} outputs"
        raise node.refusal("body", f"must have {counts} for {carried} carried values", "O9")

    def run(limit: Any, condition: Any, *rest: Any) -> tuple[Any, ...]:
        state, captured = list(rest[:carried]), rest[carried:]
        most = None if limit is None else int(scalar(node, limit, "M"))
        goes_on = True if condition is None else bool(scalar(node, condition, "cond"))
        slices: list[list[Any]] = [[] for _ in range(scans)]
        count = 0
        while goes_on and (most is None or count < most):
            _count(node)
            step = (np.array(count, dtype=np.int64), np.array(True), *state)
            outputs = _run(node, body, step, captured)
            goes_on = bool(scalar(node, np.asarray(outputs[0]), "cond"))
            state = list(outputs[1 : 1 + carried])
            for held, value in zip(slices, outputs[1 + carried :], strict=True):
                held.append(value)
                node.fits((len(held), *value.shape), value)
            count += 1
        return (*state, *(_stacked(node, held, 0, 0) for held in slices))

    return run


def scan(node: Node) -> Callable[..., Any]:
    """Scan: the body runs for every slice of the scanned inputs, with a state that is handed on."""
    body, scanned = node.subgraph("body"), node.integer("num_scan_inputs", 0)
    if node.opset < 9:
        raise node.refusal(f"opset={node.opset}", "Scan is computed from operator set 9 on")
    carried = len(node.inputs) - scanned
    made = len(body.outputs) - carried
    if scanned < 1 or carried < 0 or len(body.inputs) != len(node.inputs) or made < 0:
        raise node.refusal("body", f"must have {len(node.inputs)} inputs and at least {carried} outputs", "O9")
    in_axes, out_axes = (node.integers(f"scan_{way}_axes") or () for way in ("input", "output"))
    backward_in, backward_out = (node.integers(f"scan_{way}_directions") or () for way in ("input", "output"))

    def run(*inputs: Any) -> tuple[Any, ...]:
        state, sequences = list(inputs[:carried]), inputs[carried : carried + scanned]
        captured = inputs[carried + scanned :]
        axes = [axis_of(node, a, len(x.shape)) for a, x in zip(in_axes or (0,) * scanned, sequences, strict=True)]
        lengths = {x.shape[axis] for x, axis in zip(sequences, axes, strict=True)}
        if len(lengths) != 1:
            raise node.refusal(f"sequence lengths {sorted(lengths)}", "must be equal", "O9")
        (length,) = lengths
        slices: list[list[Any]] = [[] for _ in range(made)]
        for step in range(length):
            _count(node)
            places = [length - 1 - step if back else step for back in backward_in or (0,) * scanned]
            cells = [
                index(x, (*(slice(None),) * axis, place))
                for x, axis, place in zip(sequences, axes, places, strict=True)
            ]
            outputs = _run(node, body, (*state, *cells), captured)
            state = list(outputs[:carried])
            for held, value in zip(slices, outputs[carried:], strict=True):
                held.append(value)
                node.fits((len(held), *value.shape), value)
        directions = backward_out or (0,) * made
        stacked = [
            _stacked(node, held, axis, back)
            for held, axis, back in zip(slices, out_axes or (0,) * made, directions, strict=True)
        ]
        return (*state, *stacked)

    return run


def _stacked(node: Node, held: list[Any], axis: int, backward: int) -> Any:
    """Slices as one array along a new axis."""
    if not held:
        return np.zeros((0,), dtype=np.float32)
    if len({tuple(value.shape) for value in held}) > 1:
        raise node.refusal("scan output", "must have the same shape in every iteration", "O9")
    place = axis_of(node, axis, len(held[0].shape) + 1)
    shape = (*held[0].shape[:place], 1, *held[0].shape[place:])
    ordered = held[::-1] if backward else held
    node.fits((*shape[:place], len(held), *shape[place + 1 :]), held[0])
    return concatenate([reshape(value, shape) for value in ordered], place)
