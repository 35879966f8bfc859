"""A loaded model: a callable on arrays, exact numbers and traced values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from halfulp.autograd.traced import Traced, is_traced, strip
from halfulp.errors import ModelError
from halfulp.numbers import is_float, plain
from halfulp.onnx._memory import Memory, in_use, iterations, root_of, uses_of
from halfulp.onnx._program import Input, Program, Step, planned
from halfulp.onnx._reading import read
from halfulp.onnx._running import lift, run_steps
from halfulp.onnx._tensors import check_size

DEFAULT_LIMIT = 1 << 32


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
        self._plan = planned(program.steps, program.outputs)
        self._uses = uses_of(program.constants.values())

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

    def run(
        self, inputs: Sequence[Any], watch: Callable[[int, Step, Sequence[Any]], None] | None = None
    ) -> tuple[Any, ...]:
        """The tuple of outputs for a list of inputs; ``watch`` sees every node with its outputs as it is done."""
        program = self._program
        if len(inputs) != len(program.inputs):
            raise ModelError("model", f"{len(inputs)} inputs", f"must be {len(program.inputs)}", "O7")
        sizes: dict[str, int] = {}
        given = {d.name: _accepted(d, value, sizes) for d, value in zip(program.inputs, inputs, strict=True)}
        memory = Memory(program.limit, program.held, keeps=is_traced(*given.values()))
        for value in given.values():
            memory.hold(value)
        before, counted = in_use.set(memory.live), iterations.set([0])
        try:
            with np.errstate(all="ignore"):  # IEEE arithmetic: overflow is infinity, 0/0 is NaN
                return self._outputs(given, inputs, memory, watch)
        finally:
            in_use.reset(before)
            iterations.reset(counted)

    def _outputs(self, given: dict[str, Any], inputs: Sequence[Any], memory: Memory, watch: Any) -> tuple[Any, ...]:
        program = self._program
        values: dict[str, Any] = {"": None, **program.constants, **given}
        memory.known(self._uses)
        lifted = any(strip(value).dtype == object for value in given.values())
        if lifted:
            for name, constant in program.constants.items():
                values[name] = lift(memory, "model", name, constant)
                memory.add("model", f"constant {name!r}", values[name])
        run_steps(self._plan, values, memory, lifted, watch)
        return tuple(self._own(values[name], inputs, memory) for name in program.outputs)

    def _own(self, value: Any, inputs: Sequence[Any], memory: Memory) -> Any:
        """An output that shares no memory with an input or a constant of the model."""
        if not isinstance(value, np.ndarray):
            return value
        shared = id(root_of(value)) in self._uses or any(
            np.may_share_memory(value, other) for other in inputs if isinstance(other, np.ndarray)
        )
        if value.flags.writeable and not shared:
            return value
        check_size("model", "output", value.shape, value.dtype, memory.limit, memory.live)
        owned = value.copy()
        memory.add("model", "output", owned)
        return owned


def load(source: Any, *, max_bytes: int = DEFAULT_LIMIT) -> Model:
    """Load a model from a path, the bytes of a file, or a ``ModelProto``, and check all of it.

    All values that are alive at one time (the inputs, the constants, and the outputs of nodes until their last use)
    may take ``max_bytes`` together; a node is refused before its output is allocated. A malformed or unsupported model
    is a :class:`halfulp.ModelError` that names the node and the attribute.

    >>> import halfulp.onnx
    >>> halfulp.onnx.load(b"not a model")
    Traceback (most recent call last):
        ...
    halfulp.errors.ModelError: load: 11 bytes: are not a complete ONNX model [O1]
    """
    return Model(read(source, max_bytes))


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


def _shape_text(shape: tuple[int | str | None, ...]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _input_text(value: Input) -> str:
    return f"{value.name}: {value.dtype}{'' if value.shape is None else _shape_text(value.shape)}"
