// The vector loops of smooth max pooling: exponentials and weights of many windows at once, each with an error bound.
//
// Cells are given through u = x if beta > 0, else -x, so that the largest u has the largest exponential. A batch holds
// `windows` windows of up to `cells` cells; cell j of window b stands at [j * kSmoothBatch + b]. A missing cell has
// u = -inf. Everything is finite otherwise. docs/explanation/error-bounds-pooling.md has the proofs.
#pragma once

#include "halfulp/array.hpp"
#include "halfulp/smooth_max_pool.hpp"
#include "base/kernel_table.hpp"

namespace halfulp {

inline constexpr Index kSmoothBatch = 16;

struct SmoothBatch {
  Index cells = 0;
  const double* u = nullptr;       // cells * kSmoothBatch
  const double* padded = nullptr;  // how many padded zeros each window counts
  // Results. Numbers are sums of a high and a low part.
  double* weight = nullptr;        // exp(beta (x - top)) of every cell, 0 where it is missing
  double* weight_low = nullptr;
  double* weight_error = nullptr;  // relative to the weight
  double* total = nullptr;         // sum of all weights, padding included
  double* total_low = nullptr;
  double* total_error = nullptr;   // absolute
  double* value = nullptr;         // the smooth maximum
  double* value_low = nullptr;
  double* value_error = nullptr;
};

struct SmoothKernels {
  // The value only if batch.value is not null.
  void (*weights)(const SmoothBeta& beta, const SmoothBatch& batch);
  // sum(weight * t) / total of every window, for one t per cell (0 where it is missing).
  void (*contract)(const SmoothBatch& batch, const double* t, double* high, double* low, double* error);
  // weight * g / total of every cell, for one g per window.
  void (*distribute)(const SmoothBatch& batch, const double* g, double* high, double* low, double* error);
};

HALFULP_KERNEL_TABLE(SmoothKernels, smooth_kernels)

}  // namespace halfulp
