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

// Cells of one phase, [first, stop), that have the same offsets of windows. The terms of cell i stand at taps[t] + i of
// every row of windows.
struct FoldSegment {
  std::int64_t phase, first, stop;
  const std::int64_t* taps;
  std::int64_t count;
};

// A row of cells in one or two phases of so many positions, which are added up one after the other.
struct FoldRow {
  std::int64_t cells = 0, phases = 1, positions = 0;
  const FoldSegment* segments = nullptr;
  std::int64_t count = 0;
};

// The rows of windows that hold a row of cells; and what to ask for meanwhile, into the second cache.
struct FoldSources {
  const float* const* windows;
  std::int64_t count;
  const char* ahead;
  std::int64_t ahead_bytes;
};

// Rows of windows at one offset: item i of a row, for `count` items from `first` on, is from[(i - first) * stride]; the
// others of `length` are 0. The next row's items come from `pitch` items further on.
struct UnfoldRows {
  std::int64_t rows, length, first, count, stride, pitch;
};

struct PatchRowKernels {
  // out = the sums of rows of cells, rounded; false if a sum in double is not exact or not finite. `sums` has room for
  // all positions of all rows.
  bool (*fold_rows)(const FoldSources* sources, std::int64_t rows, const FoldRow& row, double* sums, float* out);
  // Items of 1, 2, 4 or 8 bytes.
  void (*unfold_rows)(const void* from, const UnfoldRows& rows, void* to, std::int64_t item);
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
