// The vectorised rows of hard max's pullback. Lengths may be rounded up to whole vectors; buffers have slack for that.
#pragma once

#include <cstdint>

#include "halfulp/dtype.hpp"
#include "halfulp/isa.hpp"

namespace halfulp {

// Exponent fields of the smallest and largest nonzero magnitude seen, 2047 for infinities and NaNs.
struct ExponentRange {
  std::uint64_t smallest = ~std::uint64_t{0};  // magnitudes as bits
  std::uint64_t largest = 0;
};

struct GatherKernels {
  // out[i] = the sum of g[t][i] over the terms t whose codes[t][i] is ids[t]; +0 if there is none. The caller knows that
  // the sums are exact in double (`sum`), or in two doubles (`sum_wide`, which then rounds once).
  using Sum = void (*)(const double* const* g, const std::int64_t* const* codes, const std::int64_t* ids, int count,
                       double* out, std::int64_t n);
  Sum sum;
  Sum sum_wide;
  void (*range)(const double* values, std::int64_t n, ExponentRange& range);
  void (*widen_f32)(const float* source, double* target, std::int64_t n);
  void (*narrow_f32)(const double* source, float* target, std::int64_t n);
  void (*narrow_f16)(const double* source, Float16* target, std::int64_t n);
  void (*narrow_bf16)(const double* source, BFloat16* target, std::int64_t n);
  void (*codes_8)(const std::uint8_t* source, std::int64_t* target, std::int64_t n);
  void (*codes_16)(const std::uint16_t* source, std::int64_t* target, std::int64_t n);
  // a0 b0 a1 b1 ...: n items in all
  void (*interleave_2)(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* target, std::int64_t n);
  void (*interleave_4)(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* target, std::int64_t n);
  void (*interleave_8)(const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* target, std::int64_t n);
};

HALFULP_KERNEL_TABLE(GatherKernels, gather_kernels)

}  // namespace halfulp
