// Elementwise functions on runs of doubles: estimates with error bounds, of the value or of the derivative times t.
#pragma once

#include "base/kernel_table.hpp"
#include "halfulp/elementwise.hpp"

namespace halfulp {

inline constexpr Index kElementwiseBlock = 512;  // a multiple of every vector's lanes

// Runs have a multiple of the vector's lanes; t is null for values. A number is high + low, off by at most `error`;
// an error of NaN says that nothing is known, one of 0 that the number is exact.
struct ElementwiseKernels {
  // In doubles, for inputs that are float32 or narrower.
  void (*quick[kFunctionCount])(const FunctionParameters& p, const double* x, const double* t, double* value,
                                double* error, Index n);
  // In pairs of doubles.
  void (*pair[kFunctionCount])(const FunctionParameters& p, const double* x, const double* t, double* high, double* low,
                               double* error, Index n);
  Index lanes;
  void (*widen_f32)(const float* in, double* out, Index n);
  // Rounds value +- error to float where both ends agree; false if any element is undecided (and then `undecided`
  // is 1 there).
  bool (*finish_f32)(const double* value, const double* error, float* out, std::uint8_t* undecided, Index n);
  bool (*finish_f16)(const double* value, const double* error, Float16* out, std::uint8_t* undecided, Index n);
  bool (*finish_bf16)(const double* value, const double* error, BFloat16* out, std::uint8_t* undecided, Index n);
  bool (*finish_f64)(const double* high, const double* low, const double* error, double* out, std::uint8_t* undecided,
                     Index n);
};

HALFULP_KERNEL_TABLE(ElementwiseKernels, elementwise_kernels)

}  // namespace halfulp
