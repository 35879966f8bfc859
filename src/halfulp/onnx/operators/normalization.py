"""BatchNormalization in inference mode: one operator, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.onnx._node import Node
from halfulp.onnx.operators._plain import direct
from halfulp.records import BatchNorm


def batch_normalization(node: Node) -> Callable[..., Any]:
    """BatchNormalization with given statistics; training mode is refused."""
    epsilon = node.number("epsilon", 1e-5)
    node.number("momentum", 0.9)  # of no effect in inference mode
    if node.opset >= 14 and node.flag("training_mode"):
        raise node.refusal("training_mode=1", "only inference with given statistics is computed")
    if node.opset < 9 and not node.flag("spatial", 1):
        raise node.refusal("spatial=0", "only statistics per channel are computed")
    if node.opset < 7 and not node.flag("is_test"):
        raise node.refusal("is_test=0", "only inference with given statistics is computed")
    if sum(name != "" for name in node.outputs) > 1:
        raise node.refusal(f"outputs={node.outputs[1:]}", "only inference with given statistics is computed")
    function = direct(BatchNorm(eps=epsilon))

    def run(x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        node.same_types(x, scale, shift, mean, variance)
        channels = (x.shape[1],) if len(x.shape) > 1 else ()
        if any(tuple(a.shape) != channels for a in (scale, shift, mean, variance)):
            raise node.refusal(f"input shape={x.shape}", "must have channels in axis 1, and parameters one each", "O9")
        for name, statistic in (("input_mean", mean), ("input_var", variance)):
            if not isinstance(statistic, np.ndarray):
                raise node.refusal(name, "the statistics are constants: no derivative is taken in them", "O9")
        node.fits(tuple(x.shape), x)
        return function(x, scale, shift, mean, variance)

    return run
