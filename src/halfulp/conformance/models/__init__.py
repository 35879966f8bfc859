"""Whole ONNX models: run one, and find the first node for which a runtime gives another answer.

>>> from halfulp.conformance.models import compare_nodes, draw_inputs
"""

from halfulp.conformance.models.compare import NodeResult, compare_nodes, first_beyond
from halfulp.conformance.models.inputs import draw_inputs, read_inputs
from halfulp.conformance.models.runtimes import RUNTIMES, Runtime, load_runtime
from halfulp.conformance.models.script import write_script

__all__ = [
    "RUNTIMES",
    "NodeResult",
    "Runtime",
    "compare_nodes",
    "draw_inputs",
    "first_beyond",
    "load_runtime",
    "read_inputs",
    "write_script",
]
