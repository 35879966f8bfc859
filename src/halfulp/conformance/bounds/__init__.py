"""``halfulp check --mode bounds``: verifiers graded against exactly evaluated points."""

from halfulp.conformance.bounds.drawing import draw
from halfulp.conformance.bounds.judge import Answer, Verdict, judge
from halfulp.conformance.bounds.network import Layer, Network, features, onnx_model
from halfulp.conformance.bounds.runner import Finding, Grade, check_bounds
from halfulp.conformance.bounds.script import script
from halfulp.conformance.bounds.search import Evidence, evidence, exact_range

__all__ = [
    "Answer",
    "Evidence",
    "Finding",
    "Grade",
    "Layer",
    "Network",
    "Verdict",
    "check_bounds",
    "draw",
    "evidence",
    "exact_range",
    "features",
    "judge",
    "onnx_model",
    "script",
]
