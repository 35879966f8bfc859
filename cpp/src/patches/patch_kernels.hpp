// Rows of sums of patches, for one element type each. float16 and bfloat16 terms come as floats.
#pragma once

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
