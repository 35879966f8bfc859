// Inner loops of the weight product: sums in lanes, and transforms by patches. The transforms are the transposes of
// those in winograd_kernels.hpp. Along one axis
//   taps = G' ((B cells) * (A' outputs)),
// summed over patches before G' is applied. A' has the powers of the points, G' also the divisions of the
// interpolation. The bounds stand in docs/explanation/error-bounds-convolution.md.
#pragma once

#include "base/kernel_table.hpp"
#include "halfulp/array.hpp"

namespace halfulp::conv {

inline constexpr Index kTwofoldLanes = 8;
inline constexpr Index kMostDotTaps = 9;

// Lines that are multiplied with cells, tap by tap: line i starts at values + i * value_stride and meets the cells from
// cells + offset[t] + i * cell_stride on. All have n values, a multiple of the vectors' width.
struct DotLines {
  const double* values;
  Index value_stride;
  const double* cells;
  Index cell_stride;
  Index lines, n;
};

struct WeightKernels {
  // c[t * width + lane] += the sum over lines and values i of values[i] * cells[offset[t] + i], lanes of i kept apart,
  // for at most kMostDotTaps taps.
  void (*dot)(const DotLines& lines, const Index* offset, Index taps, double* c);

  // The transforms work on vectors of output channels; n is a multiple of the vectors' width. How many
  // roundings an output, a sum can pass through in its transform, both axes together.
  double output_roundings, sum_roundings;

  // Transforms the outputs of one patch: output (i, j) of n channels lies at outputs + i * row_stride + j * stride, and
  // value k goes to out + k * value_stride. Also squares[k * square_stride + channel] += value^2, and, for k = 36, the
  // sum of the squares of the outputs.
  void (*outputs)(const double* outputs, Index row_stride, Index stride, Index n, double* out, Index value_stride,
                  double* squares, Index square_stride);

  // Transforms 36 sums of n channels each to nine taps: tap t to out + t * stride.
  void (*taps)(const double* sums, Index value_stride, Index n, double* out, Index stride);

  // Adds n products, which must be exact, to sums in lanes: lanes[0…8) are high parts, lanes[8…16) what those lost,
  // lanes[16…24) magnitudes. A product joins the lane of its index modulo 8.
  void (*add_twofold)(const double* a, const double* b, Index n, double* lanes);
};

}  // namespace halfulp::conv

namespace halfulp {
using conv::WeightKernels;
HALFULP_KERNEL_TABLE(WeightKernels, weight_kernels)
}  // namespace halfulp
