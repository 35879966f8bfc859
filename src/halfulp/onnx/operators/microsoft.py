"""Operators of ONNX Runtime's domain ``com.microsoft`` that exported models contain.

Most of them stand for several standard nodes. Each is computed as these nodes, one rounding for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import ops
from halfulp.onnx._node import Node
from halfulp.onnx.operators import arithmetic, functions
from halfulp.onnx.operators._moving import axis_of
from halfulp.onnx.operators._plain import direct
from halfulp.onnx.operators.convolution import conv
from halfulp.onnx.operators.elementwise import Clip
from halfulp.onnx.operators.linear import gemm, matmul
from halfulp.onnx.operators.norms import layer_normalized
from halfulp.onnx.operators.quantized import (
    centred,
    dequantize_linear,
    dequantized,
    dynamically,
    integer_product,
    nearest_quotient,
    quantize_linear,
    quantized,
    requantized,
    times,
)
from halfulp.onnx.operators.recurrent import dynamic_quantize_lstm
from halfulp.records import Gelu, Relu, Sigmoid, Tanh

Function = Callable[..., Any]


class Contributed(NamedTuple):
    """A builder, and what a schema says: the first ``least`` inputs must be given, and ``most`` may be."""

    builder: Callable[[Node], Function]
    least: int
    most: int
    outputs: int = 1


def fused_conv(node: Node) -> Function:
    """FusedConv: Conv, then the sum with Z, then an activation."""
    function = _activation(node)
    convolve = conv(node)

    def run(x: Any, weight: Any, bias: Any = None, z: Any = None) -> Any:
        y = convolve(x, weight, bias)
        return function(y if z is None else ops.add(y, z))

    return run


def fused_gemm(node: Node) -> Function:
    """FusedGemm: Gemm, then an activation."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    function = _named(node, node.text("activation", ""), [node.number(n, 0.0) for n in names if node.has(n)])
    product = gemm(node)
    return lambda a, b, c=None: function(product(a, b, c))


def _activation(node: Node) -> Function:
    return _named(node, node.text("activation", ""), list(node.numbers("activation_params") or ()))


def _named(node: Node, name: str, parameters: list[float]) -> Function:
    """An activation by its name in ONNX."""
    simple = {"": (lambda x: x), "Relu": direct(Relu()), "Tanh": direct(Tanh()), "Sigmoid": direct(Sigmoid())}
    if name in simple and not parameters:
        return simple[name]
    if name == "LeakyRelu" and len(parameters) == 1:
        return arithmetic.leaky(parameters[0])
    if name == "HardSigmoid" and len(parameters) == 2:
        return arithmetic.hard_line(*parameters)
    if name == "Clip" and len(parameters) == 2:
        return lambda x: ops.apply(Clip(*(x.dtype.type(bound) for bound in parameters)), x)
    raise node.refusal(f"activation={name!r}, parameters={parameters}", "is not an activation that halfulp computes")


def fused_mat_mul(node: Node) -> Function:
    """FusedMatMul: MatMul of matrices that may be transposed, then the product with alpha."""
    alpha, flips = node.number("alpha", 1.0), (node.flag("transA"), node.flag("transB"))
    for name in ("transBatchA", "transBatchB"):
        if node.flag(name):
            raise node.refusal(f"{name}=1", "is not computed")
    product = matmul(node)

    def run(a: Any, b: Any) -> Any:
        a, b = (_flipped(v) if flip and len(v.shape) > 1 else v for v, flip in zip((a, b), flips, strict=True))
        y = product(a, b)
        return y if alpha == 1 else ops.mul(y, np.asarray(alpha).astype(y.dtype))

    return run


def _flipped(x: Any) -> Any:
    count = len(x.shape)
    return ops.transpose(x, (*range(count - 2), count - 1, count - 2))


def gelu(node: Node) -> Function:
    """Gelu in its exact form."""
    return direct(Gelu())


def bias_gelu(node: Node) -> Function:
    """BiasGelu: a sum, then Gelu."""
    function = direct(Gelu())
    return lambda x, bias: function(ops.add(x, bias))


def fast_gelu(node: Node) -> Function:
    """FastGelu: the form with tanh, after a sum if there is a bias."""
    function = direct(Gelu("tanh"))
    return lambda x, bias=None: function(x if bias is None else ops.add(x, bias))


def quick_gelu(node: Node) -> Function:
    """QuickGelu: x * sigmoid(alpha * x)."""
    alpha, function = node.number("alpha", 1.702), direct(Sigmoid())
    return lambda x: ops.mul(x, function(ops.mul(x, np.asarray(alpha).astype(x.dtype))))


def skip_layer_normalization(node: Node) -> Function:
    """SkipLayerNormalization: the sum of input, skip and bias, each addition rounded, then LayerNormalization."""
    epsilon = node.number("epsilon", 1e-12)
    if any(node.outputs[1:3]):
        raise node.refusal(f"outputs={node.outputs}", "mean and inv_std_var are not computed")

    def run(x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None) -> Any:
        node.same_types(x, skip, gamma, beta, bias)
        total = ops.add(x, skip)
        if bias is not None:
            total = ops.add(total, bias)
        y = layer_normalized(node, total, gamma, beta, axis_of(node, -1, len(total.shape)), epsilon)
        return (y, None, None, total)[: len(node.outputs)]

    return run


# Quantised ------------------------------------------------------------------------------------------------------------


def newest(builder: Callable[[Node], Function]) -> Callable[[Node], Function]:
    """A standard operator whose attributes do not depend on the operator set of the model."""

    def build(node: Node) -> Function:
        node.opset = max(node.opset, 19)
        return builder(node)

    return build


def q_linear_add(node: Node) -> Function:
    """QLinearAdd: the sum of two quantised tensors, rounded once to the output's integers."""

    def run(a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sc: Any, zc: Any = None) -> Any:
        left, right = centred(node, a, za, None), centred(node, b, zb, None)
        node.fits(np.broadcast_shapes(a.shape, b.shape), a, 64)
        return nearest_quotient([(left, sa.reshape(())), (right, sb.reshape(()))], sc.reshape(()), _zero(zc, a))

    return run


def q_linear_mul(node: Node) -> Function:
    """QLinearMul: the product of two quantised tensors, rounded once to the output's integers."""

    def run(a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sc: Any, zc: Any = None) -> Any:
        node.fits(np.broadcast_shapes(a.shape, b.shape), a, 64)
        product = centred(node, a, za, None) * centred(node, b, zb, None)
        return requantized(product, (sa.reshape(()), sb.reshape(())), sc.reshape(()), _zero(zc, a))

    return run


def _zero(zero: Any, like: NDArray[Any]) -> NDArray[Any]:
    return np.zeros((), like.dtype) if zero is None else zero.reshape(())


def q_linear_function(parameters: Callable[[Node], Function]) -> Callable[[Node], Function]:
    """The builder of DequantizeLinear, a function, QuantizeLinear."""

    def builder(node: Node) -> Function:
        function = parameters(node)

        def run(x: Any, sx: Any, zx: Any, sy: Any, zy: Any = None) -> Any:
            wide = dequantized(x, sx.reshape(()), None if zx is None else zx.reshape(()))
            return quantized(function(wide), sy.reshape(()), _zero(zy, x), x.dtype)

        return run

    return builder


def q_linear_global_average_pool(node: Node) -> Function:
    """QLinearGlobalAveragePool: the exact mean, rounded once to the output's integers."""
    last = node.flag("channels_last")

    def run(x: Any, sx: Any, zx: Any, sy: Any, zy: Any) -> Any:
        axes = tuple(range(1, x.ndim - 1)) if last else tuple(range(2, x.ndim))
        count = int(np.prod([x.shape[axis] for axis in axes]))
        if not count:
            raise node.refusal(f"input shape={x.shape}", "must have cells", "O9")
        sums = centred(node, x, zx, None).sum(axis=axes, keepdims=True)
        one = np.ones((), np.float32)
        return requantized(sums, (sx.reshape(()), one), sy.reshape(()).astype(np.float64) * count, _zero(zy, x))

    return run


def q_linear_concat(node: Node) -> Function:
    """QLinearConcat: every input rounded once to the output's scale, side by side."""
    axis = node.integer("axis", 0)

    def run(sy: Any, zy: Any, *inputs: Any) -> Any:
        if len(inputs) % 3:
            raise node.refusal(f"{len(inputs)} inputs after the scale", "must be three for each tensor", "O9")
        one, parts = np.ones((), np.float32), []
        for x, scale, zero in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True):
            node.fits(x.shape, x, 64)
            scales = (scale.reshape(()), one)
            parts.append(requantized(centred(node, x, zero, None), scales, sy.reshape(()), _zero(zy, x)))
        return np.concatenate(parts, axis_of(node, axis, parts[0].ndim))

    return run


def q_gemm(node: Node) -> Function:
    """QGemm: exact integer product and bias, scaled and rounded once, to integers if there is an output scale."""
    alpha, flips = node.number("alpha", 1.0), (node.flag("transA"), node.flag("transB"))

    def run(a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, c: Any = None, sy: Any = None, zy: Any = None) -> Any:
        left, right = centred(node, a, za, None), centred(node, b, zb, None if zb is None else -int(not flips[1]))
        sums = integer_product(node, left.T if flips[0] else left, right.T if flips[1] else right)
        sums = sums if c is None else sums + c.astype(np.float64)
        factors = (sa.reshape(()), (sb if sb.size > 1 else sb.reshape(())) * np.float32(alpha))
        if sy is None:
            return times(sums.astype(np.int64), factors[0] * factors[1], np.dtype(np.float32))
        return requantized(sums, factors, sy.reshape(()), _zero(zy, a))

    return run


def dynamic_quantize_mat_mul(node: Node) -> Function:
    """DynamicQuantizeMatMul: DynamicQuantizeLinear, an exact integer product, its scaling and the bias."""

    def run(a: Any, b: Any, sb: Any, zb: Any = None, bias: Any = None) -> Any:
        whole, sa, za = dynamically(node, a)
        return _scaled(node, whole, b, sa, sb, za, zb, bias)

    return run


def mat_mul_integer_to_float(node: Node) -> Function:
    """MatMulIntegerToFloat: an exact integer product, its scaling and the bias."""
    return lambda a, b, sa, sb, za=None, zb=None, bias=None: _scaled(node, a, b, sa, sb, za, zb, bias)


def _scaled(node: Node, a: Any, b: Any, sa: Any, sb: Any, za: Any, zb: Any, bias: Any) -> Any:
    sums = integer_product(node, centred(node, a, za, -2), centred(node, b, zb, -1))
    factor = sa.reshape(()) * (sb if sb.size > 1 else sb.reshape(()))
    y = times(sums.astype(np.int64), factor, np.dtype(np.float32))
    return y if bias is None else np.add(y, bias)


MICROSOFT: dict[str, Contributed] = {
    "BiasGelu": Contributed(bias_gelu, 2, 2),
    "DequantizeLinear": Contributed(newest(dequantize_linear), 2, 3),
    "DynamicQuantizeLSTM": Contributed(dynamic_quantize_lstm, 3, 12, 3),
    "DynamicQuantizeMatMul": Contributed(dynamic_quantize_mat_mul, 3, 5),
    "FastGelu": Contributed(fast_gelu, 1, 2),
    "FusedConv": Contributed(fused_conv, 2, 4),
    "FusedGemm": Contributed(fused_gemm, 2, 3),
    "FusedMatMul": Contributed(fused_mat_mul, 2, 2),
    "Gelu": Contributed(gelu, 1, 1),
    "MatMulIntegerToFloat": Contributed(mat_mul_integer_to_float, 4, 7),
    "QGemm": Contributed(q_gemm, 6, 9),
    "QLinearAdd": Contributed(q_linear_add, 7, 8),
    "QLinearConcat": Contributed(q_linear_concat, 5, 1 << 20),
    "QLinearGlobalAveragePool": Contributed(q_linear_global_average_pool, 5, 5),
    "QLinearLeakyRelu": Contributed(q_linear_function(arithmetic.leaky_relu), 4, 5),
    "QLinearMul": Contributed(q_linear_mul, 7, 8),
    "QLinearSigmoid": Contributed(q_linear_function(lambda node: functions.SIGMOID), 4, 5),
    "QuantizeLinear": Contributed(newest(quantize_linear), 2, 3),
    "QuickGelu": Contributed(quick_gelu, 1, 1),
    "SkipLayerNormalization": Contributed(skip_layer_normalization, 3, 5, 4),
}
"""Operator type in ``com.microsoft`` -> its builder and counts."""
