// The inner loops of depthwise convolution: rows of doubles with zeros around them, and sums that become outputs at
// once. Used by depthwise.cpp; the proof stands in docs/explanation/error-bounds-convolution.md.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"
#include "halfulp/array.hpp"

namespace halfulp::conv {

// Rows of outputs. Output (r, i) is the sum of
//   weight[k * taps + t] * cells[(r * step + k) * row + offset[t] + i]
// over taps t and kernel rows k, and of `bias`. Cells and weights are floats, so that every product is exact.
struct DepthwiseRows {
  const double* cells;
  Index row;
  const Index* offset;
  const double* weight;
  Index taps, columns;
  double bias;
  double error;      // of every sum: at least 2^-150; infinite if a cell or the bias is not finite
  double gamma;      // of one sum, times the magnitudes of its terms
  double exact;      // below so large magnitudes a sum has no error
  float* out;
  Index out_row;
};

// Outputs from `column` on of a row: one bit for each that is undecided, and for each whose terms are all zero. Such an
// output is stored with the sign that it has if padding counts as +0.
struct Doubt {
  Index row, column;
  std::uint32_t undecided, zero;
};

// Writes the rounded sums and what is in doubt: at most one entry for each row and vector. Returns the entries' number.
using DepthwiseKernel = Index (*)(const DepthwiseRows& rows, Doubt* doubts);

// Rows of floats to be loaded as doubles, from `in` on, in_row apart. With step 2 the odd cells of a row stand `half`
// cells after the even ones.
struct DepthwiseCells {
  const float* in;
  Index in_row, rows, columns, step, half;
  double* out;
  Index out_row;
};

// Rows of two column phases, out[2 i] = first[i] and out[2 i + 1] = second[i]; `first` has at most one column more.
struct DepthwisePair {
  const float* first;
  const float* second;
  Index row, rows, columns;  // of the phases; columns of the output
  float* out;
  Index out_row;
};

inline constexpr Index kDepthwiseKernelRows = 7;                // at most; of these there are 1, 2, 3, 5 and 7
inline constexpr Index kDepthwiseHeights[3] = {1, 4, 7};  // rows of outputs that a kernel computes together

struct DepthwiseKernels {
  Index width;                                                  // outputs of a vector
  DepthwiseKernel rows[kDepthwiseKernelRows][2][3];             // by kernel rows - 1, step - 1, height; may be null
  std::uint32_t (*load)(const DepthwiseCells& cells);           // returns the bits of the largest magnitude
  void (*interleave)(const DepthwisePair& pair);
};

}  // namespace halfulp::conv

namespace halfulp {
using conv::DepthwiseKernels;
HALFULP_KERNEL_TABLE(DepthwiseKernels, depthwise_kernels)
}  // namespace halfulp
