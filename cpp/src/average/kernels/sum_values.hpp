// One sum in the four modes of sum_kernels.hpp: addition and scaling of (sum, low, bound). Included by kernels only.
#pragma once

#include <cmath>

#include "exact/round.hpp"
#include "average/sum_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <int Mode>
inline constexpr bool has_low = Mode == kDoubleExact || Mode == kDoubleBounded;
template <int Mode>
inline constexpr bool has_bound = Mode == kSingleBounded || Mode == kDoubleBounded;

struct Value {
  double sum, low, bound;
};

template <int Mode>
inline Value load(const Sums& a, Index i) {
  Value v{a.sum[i], 0.0, 0.0};
  if constexpr (has_low<Mode>) v.low = a.low[i];
  if constexpr (has_bound<Mode>) v.bound = a.bound[i];
  return v;
}

template <int Mode>
inline void store(const Sums& a, Index i, const Value& v) {
  a.sum[i] = v.sum;
  if constexpr (has_low<Mode>) a.low[i] = v.low;
  if constexpr (has_bound<Mode>) a.bound[i] = v.bound;
}

// What a mode cannot represent of a + b goes one part down: sum -> low -> bound. Every two_sum is exact.
template <int Mode>
inline Value add(const Value& a, const Value& b) {
  if constexpr (Mode == kSingleExact) return {a.sum + b.sum, 0.0, 0.0};
  const TwoDoubles s = two_sum(a.sum, b.sum);
  if constexpr (Mode == kSingleBounded) return {s.high, 0.0, (a.bound + b.bound) + std::fabs(s.low)};
  if constexpr (Mode == kDoubleExact) return {s.high, (a.low + b.low) + s.low, 0.0};
  const TwoDoubles lows = two_sum(a.low, b.low);
  const TwoDoubles low = two_sum(lows.high, s.low);
  return {s.high, low.high, (a.bound + b.bound) + (std::fabs(lows.low) + std::fabs(low.low))};
}

inline TwoDoubles two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}

// Times an integer: the product's rounding error is a multiple of the last bit of `a`, so it is a double, exactly.
template <int Mode>
inline Value scaled(const Value& a, double weight) {
  if constexpr (Mode == kSingleExact) return {a.sum * weight, 0.0, 0.0};
  const TwoDoubles s = two_product(a.sum, weight);
  const double magnitude = std::fabs(weight);
  if constexpr (Mode == kSingleBounded) return {s.high, 0.0, a.bound * magnitude + std::fabs(s.low)};
  if constexpr (Mode == kDoubleExact) return {s.high, a.low * weight + s.low, 0.0};
  const TwoDoubles low = two_product(a.low, weight);
  const TwoDoubles sum = two_sum(low.high, s.low);
  return {s.high, sum.high, a.bound * magnitude + (std::fabs(low.low) + std::fabs(sum.low))};
}

inline Value negated(const Value& a) { return {-a.sum, -a.low, a.bound}; }

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
