"""A loaded model: a callable on arrays, exact numbers and traced values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp.autograd.traced import Traced, is_traced, strip
from halfulp.errors import HalfulpError, ModelError
from halfulp.numbers import exact, is_float, plain
from halfulp.onnx._memory import Memory, in_use
from halfulp.onnx._reading import Input, Program, Step, read
from halfulp.onnx._tensors import check_size

DEFAULT_LIMIT = 1 << 32
_SCRATCH = {"Relu": 0, "Clip": 16, "Identity": 0, "Softmax": 128, "BatchNormalization": 128}
"""Operators whose output has the shape of their first input, and what they need besides in bytes per element."""


class Model:
    """An ONNX model as a function: ``model(x)``, or ``model(input_name=x)``.

    It gives one array, or a tuple if the model has several outputs. Every node is computed with halfulp's meaning, so
    under ``halfulp.grad``, ``vjp``, ``jvp`` or a tape the model is differentiable, and on arrays of exact rationals it
    is exact (its float weights are lifted).

    >>> import halfulp.onnx, onnx.parser
    >>> proto = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ... demo (float[1, 1, 2, 4] x) => (float[1, 1, 1, 2] y)
    ... { y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }''')
    >>> model = halfulp.onnx.load(proto)
    >>> model
    Model(x: float32[1, 1, 2, 4] -> y; 1 nodes: MaxPool)
    >>> x = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    >>> model(x).tolist()
    [[[[5.0, 7.0]]]]
    >>> hu.grad(lambda x: model(x).sum())(x).tolist()
    [[[[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]]]]
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._last_use = _last_uses(program)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Name, dtype and declared shape of every input without a default."""
        return self._program.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self._program.outputs

    def __repr__(self) -> str:
        takes = ", ".join(_input_text(value) for value in self.inputs)
        counts = Counter(step.node.operator for step in self._program.steps)
        nodes = ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())
        gives = ", ".join(self.outputs)
        return f"Model({takes} -> {gives}; {len(self._program.steps)} nodes: {nodes})"

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The output, or the tuple of outputs."""
        names = [value.name for value in self.inputs]
        given = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                raise ModelError("model", f"argument {name!r}", f"must be one of the inputs {names}, once", "O7")
            given[name] = value
        if len(given) != len(names) or len(inputs) > len(names):
            raise ModelError("model", f"{len(inputs) + len(named)} inputs", f"must be {len(names)}: {names}", "O7")
        outputs = self.run([given[name] for name in names])
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The tuple of outputs for a list of inputs."""
        program = self._program
        if len(inputs) != len(program.inputs):
            raise ModelError("model", f"{len(inputs)} inputs", f"must be {len(program.inputs)}", "O7")
        sizes: dict[str, int] = {}
        given = {d.name: _accepted(d, value, sizes) for d, value in zip(program.inputs, inputs, strict=True)}
        memory = Memory(program.limit, program.held, keeps=is_traced(*given.values()))
        for value in given.values():
            memory.hold(value)
        before = in_use.set(memory.live)
        try:
            return self._outputs(given, inputs, memory)
        finally:
            in_use.reset(before)

    def _outputs(self, given: dict[str, Any], inputs: Sequence[Any], memory: Memory) -> tuple[Any, ...]:
        program = self._program
        values: dict[str, Any] = {"": None, **given}
        lifted = any(strip(value).dtype == object for value in given.values())
        for name, constant in program.constants.items():
            memory.held_elsewhere(constant)
            values[name] = _lifted(memory, "model", name, constant) if lifted else constant
            memory.add("model", f"constant {name!r}", values[name])
        for position, step in enumerate(program.steps):
            in_use.set(memory.live)
            for name, value in zip(step.node.outputs, _run(step, values), strict=False):
                if step.node.operator == "Constant":  # a constant of the model, which has counted it
                    memory.held_elsewhere(value)
                if lifted:
                    value = _lifted(memory, step.node.label, name, value)
                memory.add(step.node.label, f"output {name!r}", value)
                values[name] = value
            for name in self._last_use.get(position, ()):
                memory.drop(values.pop(name))
        return tuple(_own(values[name], inputs, program, memory) for name in program.outputs)


def load(source: Any, *, max_bytes: int = DEFAULT_LIMIT) -> Model:
    """Load a model from a path, the bytes of a file, or a ``ModelProto``, and check all of it.

    All values that are alive at one time (the inputs, the constants, and the outputs of nodes until their last use)
    may take ``max_bytes`` together; a node is refused before it makes an output that has no room. What is malformed or
    outside of the operators of this module is a :class:`halfulp.ModelError` that names the node and the attribute.

    >>> import halfulp.onnx
    >>> halfulp.onnx.load(b"not a model")
    Traceback (most recent call last):
        ...
    halfulp.errors.ModelError: load: 11 bytes: are not a whole ONNX model [O1]
    """
    return Model(read(source, max_bytes))


def _last_uses(program: Program) -> dict[int, list[str]]:
    """Position of a step -> the values that nothing needs after it."""
    last: dict[str, int] = {}
    for position, step in enumerate(program.steps):
        last.update(dict.fromkeys((n for n in (*step.node.inputs, *step.node.outputs) if n), position))
    drop: dict[int, list[str]] = {}
    for name, position in last.items():
        if name not in program.outputs:
            drop.setdefault(position, []).append(name)
    return drop


def _run(step: Step, values: dict[str, Any]) -> tuple[Any, ...]:
    """One node's outputs; whatever goes wrong is an error that names the node."""
    node = step.node
    arguments = [values[name] for name in node.inputs]
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


def _check_room(step: Step, arguments: Sequence[Any]) -> None:
    """Refuse the output of an operator that gives its first input's shape; the others ask by themselves."""
    operator, first = step.node.operator, arguments[0] if arguments else None
    if first is None:
        return
    copies = operator in ("Reshape", "Flatten") and isinstance(first, np.ndarray) and not first.flags.c_contiguous
    if copies or operator in _SCRATCH:
        step.node.fits(tuple(first.shape), first, 0 if first.dtype == object else _SCRATCH.get(operator, 0))


def _accepted(declared: Input, value: Any, sizes: dict[str, int]) -> Any:
    """An input as an array of the declared type and shape; exact numbers stand for any float type."""
    array = value if isinstance(value, Traced) else plain("model", f"input {declared.name!r}", value)
    dtype = np.dtype(array.dtype)
    exact_float = dtype.kind == "O" and is_float(declared.dtype)
    if not exact_float and dtype.newbyteorder("=") != declared.dtype:
        raise ModelError("model", f"input {declared.name!r} dtype={dtype}", f"must be {declared.dtype}", "O7")
    shape = tuple(array.shape)
    if declared.shape is not None:
        fits = len(shape) == len(declared.shape)
        for size, wanted in zip(shape, declared.shape, strict=False):
            if isinstance(wanted, str):
                wanted = sizes.setdefault(wanted, size)
            fits = fits and wanted in (None, size)
        if not fits:
            rule = f"must be {_shape_text(declared.shape)}" + (f" with {sizes}" if sizes else "")
            raise ModelError("model", f"input {declared.name!r} shape={shape}", rule, "O7")
    if isinstance(array, np.ndarray) and not dtype.isnative:
        return array.astype(dtype.newbyteorder("="))
    return array


def _lift(value: Any) -> Any:
    """Float constants as exact rationals, so that they can meet exact inputs; integers stay indices."""
    if isinstance(value, np.ndarray) and is_float(value.dtype):
        return exact(value)
    return value


def _lifted(memory: Memory, owner: str, name: str, value: Any) -> Any:
    """A constant as exact rationals, if there is room for them."""
    if isinstance(value, np.ndarray) and is_float(value.dtype):
        check_size(owner, f"exact value {name!r}", value.shape, np.dtype(object), memory.limit, memory.live)
    return _lift(value)


def _own(value: Any, inputs: Sequence[Any], program: Program, memory: Memory) -> Any:
    """An output that shares no memory with an input or a constant of the model."""
    if not isinstance(value, np.ndarray):
        return value
    others = [a for a in (*inputs, *program.constants.values()) if isinstance(a, np.ndarray)]
    if value.flags.writeable and not any(np.may_share_memory(value, other) for other in others):
        return value
    check_size("model", "output", value.shape, value.dtype, memory.limit, memory.live)
    owned = value.copy()
    memory.add("model", "output", owned)
    return owned


def _shape_text(shape: tuple[int | str | None, ...]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _input_text(value: Input) -> str:
    return f"{value.name}: {value.dtype}{'' if value.shape is None else _shape_text(value.shape)}"
