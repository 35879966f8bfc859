"""Steps in their order: values are made, counted, and given back after their last use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from halfulp.autograd.traced import is_traced, strip
from halfulp.errors import HalfulpError, ModelError
from halfulp.numbers import exact, is_float
from halfulp.onnx._memory import Memory, in_use
from halfulp.onnx._node import Node
from halfulp.onnx._program import Program, Step, Subgraph
from halfulp.onnx._tensors import check_size

SCRATCH = {"Relu": 0, "Clip": 16, "Identity": 0}
"""Operators whose output has the shape of their first input, and what they need besides in bytes per element."""


def last_uses(graph: Program | Subgraph) -> dict[int, list[str]]:
    """Position of a step -> the values that nothing needs after it."""
    last: dict[str, int] = {}
    for position, step in enumerate(graph.steps):
        node = step.node
        last.update(dict.fromkeys((n for n in (*node.inputs, *node.captured, *node.outputs) if n), position))
    drop: dict[int, list[str]] = {}
    for name, position in last.items():
        if name not in graph.outputs:
            drop.setdefault(position, []).append(name)
    return drop


def run_steps(
    graph: Program | Subgraph,
    values: dict[str, Any],
    memory: Memory,
    lifted: bool,
    drop: dict[int, list[str]],
    watch: Callable[[int, Step, Sequence[Any]], None] | None = None,
) -> None:
    """Run every step on ``values``, which gains what they make and loses what no later step needs."""
    for position, step in enumerate(graph.steps):
        in_use.set(memory.live)
        outputs = run_step(step, values)
        for name, value in zip(step.node.outputs, outputs, strict=False):
            if lifted:
                value = lift(memory, step.node.label, name, value)
            memory.add(step.node.label, f"output {name!r}", value)
            values[name] = value
        if watch is not None:
            watch(position, step, outputs)
        for name in drop.get(position, ()):
            memory.drop(values.pop(name))


def run_step(step: Step, values: dict[str, Any]) -> tuple[Any, ...]:
    """One node's outputs; whatever goes wrong is an error that names the node."""
    node = step.node
    arguments = [values[name] for name in (*node.inputs, *node.captured)]
    _check_room(step, arguments)
    try:
        outputs = step.function(*arguments)
    except ModelError:
        raise
    except HalfulpError as error:
        raise node.refusal(error.argument, f"{error.rule} [{error.label}]", "O9") from error
    except MemoryError as error:
        raise node.refusal("output", "there is not enough memory for it", "O6") from error
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        shapes = [None if a is None else tuple(a.shape) for a in arguments]
        raise node.refusal(f"input shapes={shapes}", str(error), "O9") from error
    return outputs if isinstance(outputs, tuple) else (outputs,)


def run_subgraph(node: Node, graph: Subgraph, inputs: Iterable[Any], captured: Iterable[Any]) -> tuple[Any, ...]:
    """The outputs of a subgraph of a node, whose values count from what is in use around it."""
    values: dict[str, Any] = {"": None}
    values.update(zip(graph.inputs, inputs, strict=True))
    values.update(zip(graph.captured, captured, strict=True))
    before = in_use.get()
    present = [value for value in values.values() if value is not None]
    memory = Memory(node.limit, before, keeps=is_traced(*present))
    lifted = any(strip(value).dtype == object for value in present)
    for value in present:
        memory.held_elsewhere(strip(value))
    for name, constant in graph.constants.items():
        memory.held_elsewhere(constant)
        values[name] = lift(memory, node.label, name, constant) if lifted else constant
    try:
        run_steps(graph, values, memory, lifted, last_uses(graph))
        return tuple(values[name] for name in graph.outputs)
    finally:
        in_use.set(before)


def lift(memory: Memory, owner: str, name: str, value: Any) -> Any:
    """A float value as exact rationals, if there is room for them, so that it can meet exact inputs."""
    if isinstance(value, np.ndarray) and is_float(value.dtype):
        check_size(owner, f"exact value {name!r}", value.shape, np.dtype(object), memory.limit, memory.live)
        return exact(value)
    return value  # integers stay indices


def _check_room(step: Step, arguments: Sequence[Any]) -> None:
    """Refuse the output of an operator that gives its first input's shape; the others ask by themselves."""
    operator, first = step.node.operator, arguments[0] if arguments else None
    if first is None:
        return
    copies = operator in ("Reshape", "Flatten") and isinstance(first, np.ndarray) and not first.flags.c_contiguous
    if copies or operator in SCRATCH:
        step.node.fits(tuple(first.shape), first, 0 if first.dtype == object else SCRATCH.get(operator, 0))
