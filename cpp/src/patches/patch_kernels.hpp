// Rows of sums of patches, for one element type each. float16 and bfloat16 terms come as floats.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/kernel_table.hpp"
#include "halfulp/dtype.hpp"

namespace halfulp {

// high + low is a sum, `rest` the size of what was lost of it. Only float64 has low parts: the other types' sums are
// exact in double as long as nothing is lost.
struct PatchSums {
  double *high, *low, *rest;
};

template <class T>
struct PatchKernels {
  using Term = std::conditional_t<std::is_same_v<T, double>, double, float>;

  // to += terms.
  void (*add_terms)(const Term* terms, PatchSums to, std::int64_t n);
  // out = the sums rounded; false if one is 0, not finite, or has lost something.
  bool (*finish)(PatchSums sums, T* out, std::int64_t n);
};

// Of terms, as bits: the largest magnitude, and the smallest that is not 0 minus one; and whether a sum is 0.
struct TermRange {
  std::uint32_t most = 0, least = 0x7fffffff;
  bool zero = false;
  // Whether sums of so many terms have room in a double: all are multiples of the smallest term's last bit.
  bool exact(std::int64_t terms) const {
    constexpr std::uint32_t infinity = 0x7f800000;
    if (zero || most >= infinity) return false;
    const int top = static_cast<int>(most >> 23), bottom = static_cast<int>((least + 1) >> 23);
    const int carries = std::bit_width(static_cast<std::uint64_t>(terms - 1));
    return top - (bottom > 0 ? bottom : 1) + 24 + carries <= 53;
  }
};

struct PatchRowKernels {
  // out[i] = the sum of source[k][i] over count >= 1 sources in double, rounded.
  void (*sum_rows)(const float* const* sources, std::int64_t count, float* out, std::int64_t n, TermRange& range);
  // to[2 i] = even[i] and to[2 i + 1] = odd[i] for the first n items, of 1, 2, 4 or 8 bytes.
  void (*interleave)(const void* even, const void* odd, void* to, std::int64_t n, std::int64_t item);
};

HALFULP_KERNEL_TABLE(PatchRowKernels, patch_row_kernels)
HALFULP_KERNEL_TABLE(PatchKernels<Float16>, patch_kernels_f16)
HALFULP_KERNEL_TABLE(PatchKernels<BFloat16>, patch_kernels_bf16)
HALFULP_KERNEL_TABLE(PatchKernels<float>, patch_kernels_f32)
HALFULP_KERNEL_TABLE(PatchKernels<double>, patch_kernels_f64)

template <class T>
const PatchKernels<T>& select_patch_kernels() {
  if constexpr (std::is_same_v<T, Float16>) return select_patch_kernels_f16();
  else if constexpr (std::is_same_v<T, BFloat16>) return select_patch_kernels_bf16();
  else if constexpr (std::is_same_v<T, float>) return select_patch_kernels_f32();
  else return select_patch_kernels_f64();
}

}  // namespace halfulp
