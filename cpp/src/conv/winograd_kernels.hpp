// Transforms of convolution by patches: 4 x 4 outputs of a 3 x 3 kernel from 6 x 6 cells with 36 products a channel
// instead of 144. Along one axis cells and taps are polynomials, whose product is known from its values at the points
// 0, ±5/8, ±3/2 and infinity (Toom and Cook; Winograd): values = (B cells) * (G taps), outputs = A values. The points
// are those among simple fractions that keep rounding errors smallest. The bounds stand in
// docs/explanation/error-bounds-convolution.md.
#pragma once

#include "halfulp/array.hpp"
#include "base/kernel_table.hpp"

namespace halfulp::conv {

inline constexpr int kPatchSide = 6;     // cells, and values, of a patch along an axis
inline constexpr int kPatchOutputs = 4;  // along an axis
inline constexpr int kPatchTaps = 3;
inline constexpr int kPatchValues = kPatchSide * kPatchSide;

// The points and what follows from them: all of these are doubles, without rounding.
inline constexpr double kNear = 0.625, kFar = 1.5;
inline constexpr double kNear2 = kNear * kNear, kFar2 = kFar * kFar;
inline constexpr double kPointSum = kNear2 + kFar2, kPointProduct = kNear2 * kFar2;
inline constexpr double kNearScale = 2 * kNear2 * (kNear2 - kFar2), kFarScale = 2 * kFar2 * (kFar2 - kNear2);

// Vectors of neighbouring patches or of output channels; counts are rounded up to whole vectors.
struct PatchKernels {
  // How many roundings a cell, a tap, a value can pass through in its transform, both axes together.
  double cell_roundings, tap_roundings, value_roundings;

  // Six lines of 4 n + 2 cells, `stride` apart, are transformed downwards (in place) and split into patches:
  //   split[(k * 6 + j) * plane + p] = line k, cell 4 p + j, for n patches p.
  // Also squares[x] += the sum of the squares of the six cells x. Lines are read and written 32 cells beyond their end.
  void (*columns)(double* lines, Index stride, Index n, double* split, Index plane, double* squares);

  // Transforms split lines of some channels, 36 * plane apart, n patches (n a multiple of `rows`, which is a multiple
  // of the vectors' width): value i of patch b * rows + r to out[i * value_stride + b * block_stride + c * rows + r].
  // Also squares[i * plane + p] += value^2.
  void (*rows)(const double* split, Index plane, Index n, Index rows, Index channels, double* out, Index value_stride,
               Index block_stride, double* squares);

  // Transforms the nine taps of n filters in each of some channels: tap t of filter j lies at taps[c * 9 * n +
  // position[t] * n + j], and value i goes to out[i * value_stride + c * n + j]. Also squares[i * n + j] += value^2,
  // and squares[36 * n + j] += the sum of the squares of the taps.
  void (*filters)(const double* taps, const Index* position, Index n, Index channels, double* out, Index value_stride,
                  double* squares);

  // Transforms 36 sums of n output channels each: output (i, j) to out[i * row_stride + j * stride].
  void (*outputs)(const double* sums, Index value_stride, Index n, double* out, Index row_stride, Index stride);

  // For n patches or filters: out[(i * 4 + j) * plane + p] = sum_{k, l} weight[i * 6 + k] weight[j * 6 + l]
  // squares[(k * 6 + l) * plane + p], in double.
  void (*weigh)(const double* squares, Index plane, Index n, const double* weight, double* out);
};

}  // namespace halfulp::conv

namespace halfulp {
using conv::PatchKernels;
HALFULP_KERNEL_TABLE(PatchKernels, patch_kernels)
}  // namespace halfulp
