// The inner loops of convolution, one set per instruction set. Pointers and counts only: what is summed, and in which
// order, is decided by src/conv.
#pragma once

#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "base/kernel_table.hpp"

namespace halfulp::conv {

inline constexpr int kMaxPanelVectors = 3;
inline constexpr int kMaxStencilChannels = 4;
inline constexpr int kMaxDotTaps = 8;
inline constexpr Index kMaxRows = 8;

// Sums of products in S. A twofold kernel keeps every sum as an unevaluated pair: the high parts in c, the low parts in
// c + plane. `first` overwrites c instead of adding to it. Sums start from -0, the neutral element of addition.
template <class S>
struct ProductKernels {
  Index width;    // elements of a vector
  Index rows;     // how many rows a matrix call has
  Index vectors;  // the most vectors a panel has

  // Matrix: c[r * stride + j] += sum_k row[r][offset[k]] * panel[k * n + j], n = (index + 1) * width columns. Narrow
  // panels leave registers for more rows: `tall` has tall_rows of them, at least `rows` and at most kMaxRows.
  using Matrix = void (*)(const S* const* row, const Index* offset, const S* panel, Index depth, S* c, Index stride,
                          Index plane, bool first);
  Matrix matrix[kMaxPanelVectors];
  Matrix tall[kMaxPanelVectors];
  Index tall_rows[kMaxPanelVectors];

  // Dense: c[r * stride + j] += sum_k weight[k * dense_rows + r] * panel[k * n + j] for r in [0, dense_rows),
  // n = (index + 1) * width columns, at most dense_vectors * width. Both factors are read from one end to the other.
  using Dense = void (*)(const S* weight, const S* panel, Index depth, S* c, Index stride, bool first);
  Dense dense[kMaxPanelVectors];
  Index dense_rows, dense_vectors;
  // out[k * dense_rows + r] = line[r * pitch + k] for n values k
  void (*fill_weights)(const S* line, Index pitch, Index n, S* out);
  // Lines as parts of a panel: out[c * n + j] = line[c * pitch + j] for n = vectors * width columns.
  void (*fill_panel)(const S* line, Index pitch, Index lines, Index vectors, S* out);

  // Stencil: c[m * stride + i] += sum_k weight[k * (index + 1) + m] * cells[offset[k] + i] for n values i (n is rounded
  // up to whole vectors), m in [0, index].
  using Stencil = void (*)(const S* cells, const Index* offset, const S* weight, Index depth, Index n, S* c,
                           Index stride, Index plane, bool first);
  Stencil stencil[kMaxStencilChannels];

  // Dot: the vector c[t * width + lane] += sum_i values[i] * cells[offset[t] + i], lanes of i kept apart, for `taps`
  // offsets and n values i, a multiple of width.
  using Dot = void (*)(const S* values, const S* cells, const Index* offset, Index taps, Index n, S* c, Index plane);
  Dot dot;

  // out[j * out_stride + i] = in[i * in_stride + j]
  void (*transpose)(const S* in, Index in_stride, Index rows, Index columns, S* out, Index out_stride);

  // Whether n numbers are finite, all of them.
  bool (*finite)(const S* x, Index n);
};

// What decides about n sums. The terms of sum i have magnitudes that add up to at most
//   bound = base + reach[0][i] * size[0] + reach[1][i] * size[1]   (reach[1] may be null)
// and the sum, to which `bias` is still to be added, is within
//   error = bound < exact ? 0 : gamma * bound
// of the exact one.
struct Acceptance {
  Index n;
  const double* reach[2];
  double size[2];
  double base;
  double bias;
  const double* floor;
  double gamma;
  double exact;
};

// What decides about sums whose error has no exceptions: sum i, to which `bias` is still to be added, is within
//   base + reach[0][i] * scale[0] + reach[1][i] * scale[1]   (reach[1] or both may be null)
// of the exact one. A sum that is NaN is exactly so; a NaN margin decides about no other sum.
struct Margin {
  const double* reach[2];
  double scale[2];
  double base;
  double bias;
};

// What the engines need to know of an element type.
struct ElementType {
  DType dtype;
  Index size;  // bytes

  // Loading n elements, `stride` elements apart; as floats only those that are no larger.
  void (*load_single)(const void* in, Index stride, Index n, float* out);
  void (*load)(const void* in, Index stride, Index n, double* out);

  // out[i] is the rounded sum; returns whether every interval sum ± margin rounds to one number. If not, nothing in
  // `out` counts, and `accept` tells which ones are at fault. Never true for float64.
  bool (*decide)(const double* value, Index n, const Margin& margin, void* out);

  // out[i] is the rounded sum; bad[i] is 1 where the interval sum ± max(error, floor[i]) does not round to one number,
  // signs of zero included. Returns how many are bad. Sums of float64 are pairs with `low`, and their interval is
  // sum ± (error + floor[i]); zeros are always bad.
  Index (*accept)(const double* high, const double* low, const Acceptance& acceptance, void* out, std::uint8_t* bad);
};

// Windows along an axis: position q meets the cells q * step + tap[t], each of `inner` numbers; taps lie evenly.
struct Windows {
  const Index* tap;
  Index taps, step, positions, inner;
};

struct ConvKernels {
  ProductKernels<float> single;
  ProductKernels<double> wide;
  ProductKernels<double> twofold;

  ElementType elements[4];  // by DType

  void (*spread_f32)(const float* in, Index n, Index stride, float* out);  // out[i * stride] = in[i], nothing between
  void (*add_squares)(const double* x, Index n, double* sum);     // sum[i] += x[i]^2
  void (*add_magnitudes)(const double* x, Index n, double* sum);  // sum[i] += |x[i]|
  double (*largest_magnitude)(const double* x, Index n);          // of the numbers; NaN does not count
  // out[q * inner + j] = sum_t cells[(q * step + tap[t]) * inner + j], for numbers that are not negative
  void (*sum_windows)(const double* cells, const Windows& windows, double* out);
  double (*sum_squares)(const double* x, Index n);
  double (*sum_magnitudes)(const double* x, Index n);
  // n floats of each channel, `pitch` apart, as panels of the dense route, the last vector filled up with zeros:
  // out[p * channels + c * width + j] = cells[c * pitch + p + j] for the panel of `width` positions from p on.
  // Adds their squares to those of the positions, which are whole vectors.
  void (*fill_panels)(const float* cells, Index pitch, Index channels, Index n, double* squares, double* out);
};

}  // namespace halfulp::conv

namespace halfulp {
using conv::ConvKernels;
HALFULP_KERNEL_TABLE(ConvKernels, conv_kernels)
}  // namespace halfulp
