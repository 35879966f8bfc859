"""The interface of ``onnx.backend.base``, as a class and as functions of the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend as BaseBackend
from onnx.backend.base import BackendRep, namedtupledict

from halfulp.errors import ModelError
from halfulp.onnx._model import DEFAULT_LIMIT, Model
from halfulp.onnx._node import Node
from halfulp.onnx._program import Scope, Step, build
from halfulp.onnx._reading import read
from halfulp.onnx._running import run_alone
from halfulp.onnx.operators import OPERATORS
from halfulp.onnx.operators.microsoft import MICROSOFT


class PreparedModel(BackendRep):
    """A model ready to run, as ONNX's backend interface hands it out; ``model`` is the callable."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, as a tuple that also takes their names: ``result["y"]``.

        ``inputs`` is a list in the model's order, a dictionary by name, or the one array of a model with one input.
        """
        names = [value.name for value in self.model.inputs]
        if isinstance(inputs, dict):
            if set(inputs) != set(names):
                raise ModelError("run", f"inputs={sorted(inputs)}", f"must be {names}", "O7")
            inputs = [inputs[name] for name in names]
        elif not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        outputs = self.model.run(inputs)
        results: tuple[Any, ...] = namedtupledict("Outputs", list(self.model.outputs))(*outputs)
        return results


class Backend(BaseBackend):
    """halfulp as an ONNX backend.

    >>> import onnx.parser
    >>> from halfulp.onnx import Backend
    >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ... demo (float[2] x) => (float[2] y) { y = Relu(x) }''')
    >>> Backend.prepare(model).run([np.array([-1, 2], dtype=np.float32)])["y"]
    array([0., 2.], dtype=float32)
    """

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be prepared."""
        try:
            cls.prepare(model, device, **kwargs)
        except ModelError:
            return False
        return True

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", *, max_bytes: int = DEFAULT_LIMIT, **kwargs: Any
    ) -> PreparedModel:
        """Check a model, and make it ready to run."""
        if not cls.supports_device(device):
            raise ModelError("prepare", f"device={device!r}", "must be 'CPU'", "O8")
        return PreparedModel(Model(read(model, max_bytes)))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepare a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node, of the newest operator set or of ``opset_version``."""
        if not cls.supports_device(device):
            raise ModelError("run_node", f"device={device!r}", "must be 'CPU'", "O8")
        opset = int(kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        parsed = Node(node, 0, opset, int(kwargs.get("max_bytes", DEFAULT_LIMIT)))
        names = [name for name in parsed.inputs if name]
        if len(inputs) != len(names):
            raise ModelError(parsed.label, f"{len(inputs)} inputs", f"must be {len(names)}", "O7")
        values = {"": None, **{name: np.asarray(value) for name, value in zip(names, inputs, strict=True)}}
        scope = Scope(opset, None, parsed.limit, OPERATORS, {}, MICROSOFT)
        outputs = run_alone(Step(parsed, build(parsed, node, scope)), values)
        results: tuple[Any, ...] = namedtupledict("Outputs", parsed.outputs)(*outputs)
        return results

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return device.split(":")[0] == "CPU"


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
