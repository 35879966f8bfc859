// What normalisation and softmax share: partial sums, and the decision whether an error bound leaves one rounding.
// For kernels only.
#pragma once

#include <cmath>
#include <limits>

#include "exact/round.hpp"
#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "smooth/kernels/real.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr int kLanes16 = 16;
constexpr Index kBlock = 512;
constexpr double kLargest = 0x1p250, kSmallest = 0x1p-250;  // pairs neither overflow nor lose bits between these

inline double number(double x) { return x; }
inline double number(float x) { return static_cast<double>(x); }
inline double number(Float16 x) { return static_cast<double>(to_float(x)); }
inline double number(BFloat16 x) { return static_cast<double>(to_float(x)); }

inline Pair root(Pair x) {
  const double s = std::sqrt(x.high);
  if (!(s > 0)) return {s, 0.0};
  const Pair square = Pair{s, 0.0} * Pair{s, 0.0};
  const Pair rest = x + -square;
  return Pair{s, 0.0} + Pair{rest.high / (2 * s), 0.0};
}
inline double root(double x) { return std::sqrt(x); }
inline double negated(double x) { return -x; }
inline Pair negated(Pair x) { return -x; }
inline double size_of(double x) { return std::fabs(x); }
inline double size_of(Pair x) { return std::fabs(x.high); }
template <class Real>
inline Real real(double x) {
  return RealTraits<Real>::from(x, 0.0);
}

// The number of the grid of doubles with an odd last bit next to high + low, unless that is a double itself: rounding
// it again, to fewer bits, is as rounding high + low.
inline double rounded_to_odd(double high, double low) {
  const TwoDoubles s = two_sum(high, low);
  auto bits = std::bit_cast<std::uint64_t>(s.high);
  if (s.low != 0 && (bits & 1) == 0 && s.high != 0) bits += ((s.low > 0) == (s.high > 0)) ? 1 : std::uint64_t(-1);
  return std::bit_cast<double>(bits);
}

// Whether every number within `error` of y rounds to one T, which is put into `result`. An exact zero is +0.
template <class T>
inline bool decide(double y, double error, T& result) {
  const double low = y - error, high = y + error;
  result = round_to<T>(low == 0 ? 0.0 : low);
  return same_rounding<T>(low == 0 ? 0.0 : low, high == 0 ? 0.0 : high);
}
template <class T>
inline bool decide(Pair y, double error, T& result) {
  if (y.high == 0 && y.low == 0 && error == 0) {
    result = round_to<T>(0.0);
    return true;
  }
  error *= 1.0 + 0x1p-40;
  const double low = rounded_to_odd(y.high, y.low - error), high = rounded_to_odd(y.high, y.low + error);
  if constexpr (sizeof(T) == sizeof(double)) {
    const double a = y.high + (y.low - error), b = y.high + (y.low + error);
    result = a;
    return a == b && a != 0 && std::isfinite(a);
  } else {
    result = round_to<T>(low);
    return same_rounding<T>(low, high) && std::isfinite(low);
  }
}

// A double with 16 partial sums; blocks of them are added in pairs, so that the error does not grow with the length.
struct Lanes {
  double lane[kLanes16] = {};
  double sum() const {
    double s[kLanes16];
    for (int i = 0; i < kLanes16; ++i) s[i] = lane[i];
    for (int half = kLanes16 / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) s[i] += s[i + half];
    return s[0];
  }
};
inline Pair with(Pair total, double block) {
  const TwoDoubles s = two_sum(total.high, block);
  const TwoDoubles t = fast_two_sum(s.high, s.low + total.low);
  return {t.high, t.low};
}

// 32 additions in a lane and 5 more, of terms with up to 4 roundings.
template <class Real>
inline double sum_error(Index n);
template <>
inline double sum_error<double>(Index) {
  return 44 * 0x1p-53;
}
template <>
inline double sum_error<Pair>(Index n) {
  return (static_cast<double>(n) * 0x1p-14 + 16) * 0x1p-90;
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
