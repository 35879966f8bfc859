"""A script that shows one node's difference with the runtime, ONNX and NumPy alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from halfulp.conformance.models.compare import NodeResult
from halfulp.conformance.models.runtimes import Runtime
from halfulp.records import Array

__all__ = ["write_script"]

_SCRIPT = '''\
"""{title}

{text}
Needs numpy, onnx and {runtime}; the node and its arrays lie beside this file.
"""

from pathlib import Path

import numpy as np
import onnx

here = Path(__file__).parent
model = onnx.load(here / "{stem}.onnx")
arrays = np.load(here / "{stem}.npz")
inputs = {{value.name: arrays[f"input_{{i}}"] for i, value in enumerate(model.graph.input)}}
want = arrays["want"]

{source}
got = np.asarray(outputs[{place}])

assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, got.dtype, want.shape, want.dtype)
differ = (got != want) & ~((got != got) & (want != want))
print(f"{{differ.sum()}} of {{want.size}} elements differ from the correctly rounded value")
if differ.any():
    size = np.abs(got.astype(np.float64) - want.astype(np.float64))
    place = np.unravel_index(np.nanargmax(np.where(differ, size, -1)), want.shape)
    print(f"at {{tuple(int(i) for i in place)}}: got {{got[place].item()!r}}, want {{want[place].item()!r}}")
'''


def write_script(
    folder: Path, model: onnx.ModelProto, values: Mapping[str, Any], result: NodeResult, runtime: Runtime
) -> Path:
    """Write the node as a model of its own, its arrays, and a script that runs it; the script's path."""
    folder.mkdir(parents=True, exist_ok=True)
    node = model.graph.node[result.position]
    stem = "node_" + re.sub(r"[^A-Za-z0-9_]+", "_", node.name or str(result.position)).strip("_")[:60]
    names = list(dict.fromkeys(name for name in node.input if name))
    arrays: dict[str, Array] = {name: np.asarray(values[name]) for name in names}
    graph = helper.make_graph(
        [node],
        stem,
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    alone = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version, functions=list(model.functions)
    )
    onnx.save(alone, folder / f"{stem}.onnx")
    packed: dict[str, Any] = {f"input_{i}": array for i, array in enumerate(arrays.values())}
    np.savez(folder / f"{stem}.npz", want=result.want, **packed)
    place = [name for name in node.output if name].index(result.output)
    source = runtime.source
    text = _SCRIPT.format(
        title=f"{result.node}, output {result.output!r}.",
        text=f"{runtime.name} {runtime.version}: {result.text}.",
        runtime=runtime.name,
        stem=stem,
        source=source,
        place=place,
    )
    path = folder / f"{stem}.py"
    path.write_text(text, encoding="utf-8")
    return path
