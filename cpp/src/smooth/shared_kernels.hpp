// The vector loops of smooth max pooling where windows share their exponentials: one per cell of a block, relative to
// the block's largest cell; then sums over windows, and logarithms or quotients of the sums, each with an error bound.
//
// Numbers are sums of a high and a low part; the low parts are not touched by the versions in float64.
// docs/explanation/error-bounds-pooling.md has the proofs.
#pragma once

#include "halfulp/array.hpp"
#include "base/kernel_table.hpp"
#include "smooth/smooth_kernels.hpp"

namespace halfulp {

struct SmoothParts {
  double* high = nullptr;
  double* low = nullptr;
  SmoothParts from(Index i) const { return {high + i, low + i}; }
};

// Results with bounds on their absolute errors; a NaN where there is none.
struct SmoothResults {
  SmoothParts value;
  double* error = nullptr;
};

// Of finite numbers; lowest > highest if there are none.
struct SmoothRange {
  double lowest, highest;
};

// Weights and totals below this are left undecided: exponentials that are cut off would count in them.
inline constexpr double kSmoothLeastWeight = 0x1p-432;  // about exp(-300)

struct SmoothSharedKernels {
  SmoothRange (*range)(const double* u, Index n);
  // Index 0: in float64; 1: in double-double. In position: exp(beta (u - top)) of u <= top; NaN of +inf and NaN.
  void (*exponentials[2])(const SmoothBeta& beta, double top, SmoothParts u, Index n);
  // to[i] = the sum of from[i * step + k * term_step], k < terms. One number more than these may be read.
  void (*sums[2])(SmoothParts from, Index terms, Index term_step, Index step, SmoothParts to, Index n);
  // to[i * to_step] += from[i]
  void (*add[2])(SmoothParts from, SmoothParts to, Index to_step, Index n);
  // weight[i] * t[i] into t.
  void (*weigh[2])(SmoothParts weight, SmoothParts t, Index n);
  // top + log(total) / beta; the totals are off by slack + 4 |log(total)| units.
  void (*values[2])(const SmoothBeta& beta, double top, double slack, SmoothParts total, SmoothResults out, Index n);
  // sum / total, for sums of weight * t with |t| <= largest.
  void (*means[2])(double largest, double slack, SmoothParts sum, SmoothParts total, SmoothResults out, Index n);
  // g / total into total, and its magnitude.
  void (*shares[2])(const double* g, SmoothParts total, double* magnitude, Index n);
  // weight * sum, off by weight * magnitude * slack units where the weight is not too small.
  void (*products[2])(double slack, SmoothParts weight, SmoothParts sum, const double* magnitude, SmoothResults out,
                      Index n);
  // Rounds to the float types in the order of DType; how many are undecided.
  Index (*finish[4])(SmoothResults results, void* out, Index n);
};

HALFULP_KERNEL_TABLE(SmoothSharedKernels, smooth_shared_kernels)

}  // namespace halfulp
