// Rows of Euclidean norms of float32 cells and of their derivatives, with one error bound for all results of a row.
#pragma once

#include "base/kernel_table.hpp"

namespace halfulp {

// Outputs of a row: output i sums the `count` columns from i * stride on, `dilation` apart. The relative error of a sum
// is at most 2 * units * 2^-53, that of its root half of it.
struct RootRun {
  std::int64_t outputs = 0, count = 1, stride = 1, dilation = 1;
  double units = 0;
};

// Where the shares of a cell's windows stand along a row of cells: `taps` of them for each of `phases` cells one after
// the other, at the share of the first cell's group plus these offsets.
struct ShareTaps {
  int phases = 1;
  int taps[2] = {1, 0};
  std::int64_t offset[2][3] = {};
};

struct QuickNormKernels {
  // squares[i] = the sum of rows[r][i]^2 over count >= 1 rows; the squares are exact.
  void (*sum_squares)(const float* const* rows, std::int64_t count, double* squares, std::int64_t n);
  // out = the roots of the windows' squares; `undecided` if the error leaves one of them open. inverse = 1 over the
  // roots, off by less than units + 3 times 2^-53, 0 where that is 0, NaN where it is not finite; it may be null. False
  // where a window is not of a known kind.
  bool (*window_roots)(const double* squares, const RootRun& run, float* out, double* inverse, bool& undecided);
  // squares and products (of x and t) summed over count >= 1 rows; the bits of the largest |t|.
  std::uint32_t (*sum_products)(const float* const* x, const float* const* t, std::int64_t count, double* squares,
                                double* products, std::int64_t n);
  // The roots of the windows' squares, and the products over the roots, off by `bound`. The result has bit 0 if a root
  // is undecided, bit 1 if a quotient is. False where a window is not of a known kind.
  bool (*window_tangents)(const double* squares, const double* products, const RootRun& run, double bound, float* out,
                          float* tangents, int& undecided);
  // shares = g times the inverse roots; the largest magnitude, NaN if a share is not finite.
  double (*scale_shares)(const double* inverse, const float* g, double* shares, std::int64_t n);
  // sums = the sum of count >= 2 rows.
  void (*sum_rows)(const double* const* rows, std::int64_t count, double* sums, std::int64_t n);
  // out = x times the sum of a cell's shares, each off by `bound` in all; false if one is undecided.
  bool (*cotangents)(const float* x, const double* shares, const ShareTaps& taps, double bound, float* out,
                     std::int64_t n);
  // The same for one share of all cells.
  bool (*scaled)(const float* x, double share, double bound, float* out, std::int64_t n);
  // The sums over contiguous cells, each term in at most whole_depth(n) additions. t may be null.
  void (*whole_sums)(const float* x, const float* t, std::int64_t n, double& squares, double& products,
                     std::uint32_t& most);
};

// Blocks of 1024 terms at the most: at most 160 additions each, then those of the blocks.
constexpr std::int64_t kWholeBlock = 1024;
constexpr double whole_depth(std::int64_t n) { return 160.0 + static_cast<double>(n / kWholeBlock); }

HALFULP_KERNEL_TABLE(QuickNormKernels, quick_norm_kernels)

}  // namespace halfulp
