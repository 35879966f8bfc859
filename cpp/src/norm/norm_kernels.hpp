// Rows of Euclidean norms and of their derivatives, for one element type each.
//
// float16, bfloat16 and float32 cells come as floats: their products are exact in double, and sums are doubles. float64
// cells are summed in pairs (high, low) of doubles; the other types leave `low` alone. An element whose error interval
// rounds to more than one number is flagged kUndecided; a zero whose sign depends on more than its row, kZero.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/kernel_table.hpp"
#include "halfulp/dtype.hpp"

namespace halfulp {

inline constexpr std::uint8_t kUndecided = 1, kZero = 2;

// Sums of pairs of doubles, one per element.
struct PairRow {
  double *high, *low;
};

template <class T>
struct NormKernels {
  using Cell = std::conditional_t<std::is_same_v<T, double>, double, float>;

  // to += x^2.
  void (*add_squares)(const Cell* x, PairRow to, std::int64_t n);
  // to += x * t and size += |x * t|; a term whose x is 0 is +0.
  void (*add_products)(const Cell* x, const Cell* t, PairRow to, double* size, std::int64_t n);
  // to[i] += from[i * stride].
  void (*add_every)(PairRow from, std::int64_t stride, PairRow to, std::int64_t n);
  // out = the roots of the squares. `error` is relative.
  bool (*norms)(PairRow squares, double error, T* out, std::uint8_t* flags, std::int64_t n);
  // out = products / root of the squares. `error` is relative to size / root.
  bool (*tangents)(PairRow squares, PairRow products, const double* size, double error, T* out, std::uint8_t* flags,
                   std::int64_t n);
  // shares = g / root of the squares; 0 where that is 0, NaN where it is not a number that pairs can hold.
  void (*shares)(const Cell* g, PairRow squares, PairRow shares, std::int64_t n);
  // to += shares and size += |shares|.
  void (*add_shares)(PairRow shares, PairRow to, double* size, std::int64_t n);
  // out = x * shares. `error` is relative to |x| * size.
  bool (*cotangents)(const Cell* x, PairRow shares, const double* size, double error, T* out, std::uint8_t* flags,
                     std::int64_t n);
};

HALFULP_KERNEL_TABLE(NormKernels<Float16>, norm_kernels_f16)
HALFULP_KERNEL_TABLE(NormKernels<BFloat16>, norm_kernels_bf16)
HALFULP_KERNEL_TABLE(NormKernels<float>, norm_kernels_f32)
HALFULP_KERNEL_TABLE(NormKernels<double>, norm_kernels_f64)

template <class T>
const NormKernels<T>& select_norm_kernels() {
  if constexpr (std::is_same_v<T, Float16>) return select_norm_kernels_f16();
  else if constexpr (std::is_same_v<T, BFloat16>) return select_norm_kernels_bf16();
  else if constexpr (std::is_same_v<T, float>) return select_norm_kernels_f32();
  else return select_norm_kernels_f64();
}

}  // namespace halfulp
