// Loops over rows of integers that vectorise as they are written: exact sums, and means rounded to nearest even.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

// One element type T and one type A of sums, which holds every sum that the caller asks for.
struct IntegerRows {
  // sums[i] = the sum of rows[r][i] over `count` >= 1 rows.
  void (*accumulate)(const void* const* rows, std::int64_t count, void* sums, std::int64_t n);
  // out[i * inner + c] = the sum over t < count of sums[(i * stride + t * step) * inner + c].
  void (*windows)(const void* sums, std::int64_t stride, std::int64_t step, std::int64_t count, std::int64_t inner,
                  void* out, std::int64_t n);
  // The sums over a divisor >= 1, to nearest even, as T. Sums are below 2^52 in magnitude.
  void (*mean)(const void* sums, std::int64_t divisor, void* out, std::int64_t n);
  // The same as floats; the divisor is below 2^27.
  void (*mean_float)(const void* sums, std::int64_t divisor, float* out, std::int64_t n);
  void (*mean_double)(const void* sums, std::int64_t divisor, double* out, std::int64_t n);
  void (*widen)(const void* sums, std::int64_t* out, std::int64_t n);
};

struct IntegerKernels {
  // By element type (int8, int16, int32, uint8, uint16, uint32) and width of the sums (16, 32, 64); null if too narrow.
  IntegerRows rows[6][3];
  // out[i] = the mean of rows[r][2 i] and rows[r][2 i + 1] over 1, 2 or 4 rows, as T; by element type, int64 and uint64
  // last. streams: past the caches. next: how many bytes further the rows of the next call are, if not 0.
  void (*pairs[8])(const void* const* rows, std::int64_t count, void* out, std::int64_t n, bool streams,
                   std::int64_t next);
  // Sums of 64-bit integers in two parts: value = high * 2^32 + low, low < 2^32 for every term.
  void (*split)(const void* const* rows, std::int64_t count, bool is_signed, std::int64_t* high, std::int64_t* low,
                std::int64_t n);
};

HALFULP_KERNEL_TABLE(IntegerKernels, integer_kernels)

}  // namespace halfulp
