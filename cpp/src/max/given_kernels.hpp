// Rows of windows that start anywhere: maxima with payloads at every position of a row, and rows of sums.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

// Of magnitudes, a winner's offset has two flags: the cell is negative; there is no cell that is not 0.
inline constexpr std::uint8_t kNegativeWinner = 0x80, kNoWinner = 0x40;

// Windows at the positions 0, 1, ... of rows. The cells of the window at position i are x[r][i + column + c * step] for
// the rows r and c < columns, in the order in which the first of equal ones wins; their offsets in the window are
// offset + r * row_offset + c * step_offset.
struct GivenRun {
  std::int64_t positions = 0;
  std::int64_t rows = 0, columns = 0;
  std::int64_t column = 0, step = 1;
  std::int64_t offset = 0, row_offset = 0, step_offset = 1;
};

// Of cotangents: magnitudes as bits, the smallest of those that are not 0; zeros.
struct GivenTerms {
  std::uint32_t largest = 0, smallest = ~std::uint32_t{0};
  bool zero = false, negative_zero = false;
};

template <class T>
struct GivenKernels {
  // best[i] = the maximum, without NaN; nothing is read or written outside the rows.
  void (*values)(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload);
  // payload[i] = the winner's item of pairs, or its offset as an integer.
  void (*tangents)(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload);
  void (*offsets)(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload);
  // The same of rows that `magnitudes` has made, in buffers; true if cells were equal, whether they win or not.
  bool (*magnitude_tangents)(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload);
  bool (*magnitude_offsets)(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload);
  // sizes = |x|, NaN where it is 0; pairs = t times the sign of x or, if t is null, kNegativeWinner or 0 as an
  // integer. Rows are filled up to whole vectors with NaN. True if x has a NaN.
  bool (*magnitudes)(const T* x, const T* t, T* sizes, T* pairs, std::int64_t n);
  bool (*any_nan)(const T* x, std::int64_t n);
  // False if a cotangent is not finite.
  bool (*measure)(const T* g, std::int64_t n, GivenTerms& terms);
  // The position of the only cell with the largest magnitude; -1 if there are several, if it is 0 or if a cell is NaN.
  std::int64_t (*largest)(const T* x, std::int64_t n);
  // out = the sums, which become 0.
  void (*write_sums)(double* sums, T* out, std::int64_t n);
};

HALFULP_KERNEL_TABLE(GivenKernels<float>, given_kernels_f32)
HALFULP_KERNEL_TABLE(GivenKernels<double>, given_kernels_f64)

}  // namespace halfulp
