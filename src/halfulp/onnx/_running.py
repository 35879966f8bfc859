"""Steps in their order: values are made, counted, and given back after their last use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from halfulp.autograd.traced import is_traced, strip
from halfulp.errors import HalfulpError, ModelError
from halfulp.numbers import exact, is_float
from halfulp.onnx._memory import Memory, in_use, iterations
from halfulp.onnx._node import Node
from halfulp.onnx._program import Line, Step, Subgraph
from halfulp.onnx._small import CARRIERS, is_small
from halfulp.onnx._tensors import check_size

SCRATCH = {"Relu": 0, "Clip": 16, "Identity": 0}
"""Operators whose output has the shape of their first input, and what they need besides in bytes per element."""
_LAST_OF_NUMPY = max(np.dtype(code).num for code in np.typecodes["All"])
_SHAPED = {*SCRATCH, "Reshape", "Flatten"}


def run_steps(
    plan: Sequence[Line],
    values: dict[str, Any],
    memory: Memory,
    lifted: bool,
    watch: Callable[[int, Step, Sequence[Any]], None] | None = None,
) -> None:
    """Run every step on ``values``, which gains what they make and loses what no later step needs."""
    for position, (step, reads, makes, last) in enumerate(plan):
        in_use.set(memory.live)
        outputs = run_step(step, [values[name] for name in reads])
        for name, value in zip(makes, outputs, strict=False):
            if lifted:
                value = lift(memory, step.node.label, name, value)
            memory.add(step.node.label, name, value)
            values[name] = value
        if watch is not None:
            watch(position, step, outputs)
        for name in last:
            memory.drop(values.pop(name))


def run_alone(step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """One node's outputs, from values by name."""
    counted = iterations.set([0])
    try:
        with np.errstate(all="ignore"):
            return run_step(step, [values[name] for name in (*step.node.inputs, *step.node.captured)])
    finally:
        iterations.reset(counted)


def run_step(step: Step, arguments: list[Any]) -> tuple[Any, ...]:
    """One node's outputs; whatever goes wrong is an error that names the node."""
    node, function = step
    if node.operator in _SHAPED:
        _check_room(step, arguments)
    for value in arguments:
        if value is not None and value.dtype.num > _LAST_OF_NUMPY:
            _check_type(node, value.dtype)
    try:
        outputs = function(*arguments)
    except ModelError:
        raise
    except HalfulpError as error:
        raise node.refusal(error.argument, f"{error.rule} [{error.label}]", "O9") from error
    except MemoryError as error:
        raise node.refusal("output", "there is not enough memory for it", "O6") from error
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        shapes = [None if a is None else tuple(a.shape) for a in arguments]
        raise node.refusal(f"input shapes={shapes}", str(error), "O9") from error
    if type(outputs) is np.ndarray:
        return (outputs,)
    made = outputs if isinstance(outputs, tuple) else (outputs,)
    return tuple(np.asarray(value) if isinstance(value, np.generic) else value for value in made)


def _check_type(node: Node, dtype: np.dtype[Any]) -> None:
    """Refuse an element type of eight bits or less where numbers are computed."""
    if is_small(dtype) and node.operator not in CARRIERS:
        raise node.refusal(f"element type {dtype}", "is only cast, quantised and moved", "O9")


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
        run_steps(graph.plan, values, memory, lifted)
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
