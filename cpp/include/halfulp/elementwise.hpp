// Elementwise functions of arrays of any shape and layout, correctly rounded.
#pragma once

#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

enum class Function : int {
  relu, leaky_relu, elu, sigmoid, tanh, softplus, gelu, gelu_tanh, silu, mish, hardswish, hardsigmoid, hardtanh,
  exp, log, sqrt, pow, erf, reciprocal, abs, log1p, expm1, rsqrt,
  count
};
inline constexpr int kFunctionCount = static_cast<int>(Function::count);

// leaky_relu: negative_slope; elu: alpha; softplus: beta, threshold; hardtanh: its two ends; pow: the exponent.
struct FunctionParameters {
  double first = 0.0, second = 0.0;
};

struct Elementwise {
  Function function;
  FunctionParameters parameters;
};

// Elements whose rounding two doubles do not decide: their row-major positions, and their x and t.
struct ElementwiseRest {
  std::vector<Index> positions;
  std::vector<double> x, t;
};

// f(x), or f'(x) t if there is a t; `out` is dense under some order of its axes. All have one shape and element type.
ElementwiseRest elementwise(const Elementwise& op, const ArrayView& x, const ArrayView* t, const ArrayView& out);

}  // namespace halfulp
