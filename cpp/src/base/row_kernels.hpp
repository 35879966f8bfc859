// Loops over contiguous rows that vectorise as they are written.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

struct RowKernels {
  // sums[i] += cells[i * stride].
  void (*add_every)(const double* cells, std::int64_t stride, double* sums, std::int64_t n);
  // Every eight bytes become (source & keep) ^ flip.
  void (*change)(const char* source, char* target, std::int64_t bytes, std::uint64_t keep, std::uint64_t flip);
  // to[i * stride + phase] = from[phase * count + i] for i below `count`.
  void (*interleave)(const double* from, std::int64_t count, std::int64_t stride, double* to);
  // to[i] = from[i * stride], items of 1, 2, 4 or 8 bytes.
  void (*take_every)(const void* from, std::int64_t stride, void* to, std::int64_t n, std::int64_t item);
  // to[i] = from[i] times the sign of x[i], for floats of `item` bytes whose infinity has these bits: +0 where x is 0.
  // A 0 is changed only if `zeros` says so. Returns whether an x is NaN; from[i] stays as it is there.
  bool (*give_signs)(const void* x, const void* from, void* to, std::int64_t n, std::int64_t item,
                     std::uint64_t infinity, bool zeros);
};

HALFULP_KERNEL_TABLE(RowKernels, row_kernels)

}  // namespace halfulp
