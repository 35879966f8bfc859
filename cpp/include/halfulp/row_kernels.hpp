// Loops over contiguous rows that vectorise as they are written.
#pragma once

#include <cstdint>

#include "halfulp/isa.hpp"

namespace halfulp {

struct RowKernels {
  // sums[i] = the sum of rows[r][i]^2 over count >= 1 rows; the squares are exact.
  void (*sum_squares)(const float* const* rows, std::int64_t count, double* sums, std::int64_t n);
  // sums[i] += cells[i * stride].
  void (*add_every)(const double* cells, std::int64_t stride, double* sums, std::int64_t n);
  // out[i] = the root of sums[i], whose relative error is at most `error`; false if that leaves some of them undecided.
  bool (*roots)(const double* sums, float* out, std::int64_t n, double error);
  // Every eight bytes become (source & keep) ^ flip.
  void (*change)(const char* source, char* target, std::int64_t bytes, std::uint64_t keep, std::uint64_t flip);
};

HALFULP_KERNEL_TABLE(RowKernels, row_kernels)

}  // namespace halfulp
