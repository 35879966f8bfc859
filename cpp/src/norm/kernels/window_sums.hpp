// Sums of columns over the windows of a row, as vectors.
#pragma once

#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The sum of a window's columns.
template <int Stride, int Count>
inline double window_sum(const double* columns, std::int64_t dilation, std::int64_t i) {
  double sum = columns[i * Stride];
  if constexpr (Count > 1) sum += columns[i * Stride + dilation];
  if constexpr (Count > 2) sum += columns[i * Stride + 2 * dilation];
  return sum;
}

// Those of windows i to i + kWide - 1, added in the same order. With stride 2 one column beyond the last is read.
template <int Stride, int Count>
inline Doubles window_sums(const double* columns, std::int64_t dilation, std::int64_t i) {
  const double* const at = columns + i * Stride;
  if constexpr (Stride == 1) {
    Doubles sum = load(at);
    if constexpr (Count > 1) sum += load(at + dilation);
    if constexpr (Count > 2) sum += load(at + 2 * dilation);
    return sum;
  } else {
    const auto phase = [&](std::int64_t from) { return phase_of_two<0>(load(at + from), load(at + from + kWide)); };
    if (dilation == 1) {
      const Doubles first = load(at), second = load(at + kWide);
      Doubles sum = phase_of_two<0>(first, second) + phase_of_two<1>(first, second);
      if constexpr (Count > 2) sum += phase(2);
      return in_order(sum);
    }
    Doubles sum = phase(0) + phase(dilation);
    if constexpr (Count > 2) sum += phase(2 * dilation);
    return in_order(sum);
  }
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
