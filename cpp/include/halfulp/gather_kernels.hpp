// The vectorised rows of hard max's pullback. Lengths may be rounded up to whole vectors; buffers have slack for that.
#pragma once

#include <cstdint>

#include "halfulp/dtype.hpp"
#include "halfulp/isa.hpp"

namespace halfulp {

// The smallest nonzero magnitude minus one and the largest magnitude seen, as bits of the cotangents' type.
struct ExponentRange {
  std::uint64_t smallest = ~std::uint64_t{0};
  std::uint64_t largest = 0;
};

// C: the type of the loaded cotangents, I the integer as wide. Accumulators are double.
template <class C, class I, class Out>
using GatherSum = void (*)(const C* const* g, const I* const* codes, const I* ids, int count, Out* out, std::int64_t n);

struct GatherKernels {
  // out[i] = the sum of g[t][i] over the terms t whose codes[t][i] is ids[t]; +0 if there is none. The caller knows that
  // a sum in C is right (one term, or two that need no further rounding), that it is exact in double (`*_exact`), or that
  // it is exact in two doubles (`f64_pair`, which then rounds once).
  GatherSum<float, std::int32_t, float> f32;
  GatherSum<float, std::int32_t, float> f32_exact;
  GatherSum<float, std::int32_t, double> f32_exact_wide;
  GatherSum<double, std::int64_t, double> f64;
  GatherSum<double, std::int64_t, double> f64_pair;
  void (*range_f32)(const float* values, std::int64_t n, ExponentRange& range);
  void (*range_f64)(const double* values, std::int64_t n, ExponentRange& range);
  void (*narrow_f16)(const double* source, Float16* target, std::int64_t n);
  void (*narrow_bf16)(const double* source, BFloat16* target, std::int64_t n);
  void (*codes_32)(const char* source, int bytes, std::int32_t* target, std::int64_t n);
  void (*codes_64)(const char* source, int bytes, std::int64_t* target, std::int64_t n);
  // a0 b0 a1 b1 ...: n items in all
  void (*interleave_2)(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* target, std::int64_t n);
  void (*interleave_4)(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* target, std::int64_t n);
  void (*interleave_8)(const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* target, std::int64_t n);
};

HALFULP_KERNEL_TABLE(GatherKernels, gather_kernels)

}  // namespace halfulp
