// The two kinds of real numbers in which smooth max pooling is evaluated: double, and the sum of two doubles; with
// exponential and logarithm of our own, so that results do not depend on a mathematics library. For kernels only.
#pragma once

#include <cmath>

#include "halfulp/array.hpp"
#include "exact/round.hpp"
#include "simd/pair.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// What the algorithms ask of a kind of real number. `unit` bounds the relative error of one operation; that of
// exponential is at most 8, that of log1p at most 16 units.
template <class Real>
struct RealTraits;
template <>
struct RealTraits<double> {
  static constexpr double unit = 0x1p-53;
  static constexpr double lowest_exponent = -700.0;
  static double from(double high, double) { return high; }
  static double high(double x) { return x; }
  static double low(double) { return 0.0; }
  static double scaled(double x, double power) { return x * power; }
};
template <>
struct RealTraits<Pair> {
  static constexpr double unit = 0x1p-90;
  static constexpr double lowest_exponent = -600.0;  // the low part must not underflow
  static Pair from(double high, double low) { return {high, low}; }
  static double high(Pair x) { return x.high; }
  static double low(Pair x) { return x.low; }
  static Pair scaled(Pair x, double power) { return {x.high * power, x.low * power}; }
};

// |x| <= 745. With r = x - k ln 2, |r| <= 0.3467: the polynomial is Taylor's of degree 13, off by r^14 / 14! < 2^-57;
// its evaluation and the reduction by less than 2^-51.
HALFULP_ALWAYS_INLINE double exponential(double x) {
  const double k = (x * kInverseLn2 + kRounder) - kRounder;
  const double r = ((x - k * kLn2First) - k * kLn2Second) - k * kLn2Third;
  double p = 1.0 / 6227020800.0;
  p = multiply_add(p, r, 1.0 / 479001600.0);
  p = multiply_add(p, r, 1.0 / 39916800.0);
  p = multiply_add(p, r, 1.0 / 3628800.0);
  p = multiply_add(p, r, 1.0 / 362880.0);
  p = multiply_add(p, r, 1.0 / 40320.0);
  p = multiply_add(p, r, 1.0 / 5040.0);
  p = multiply_add(p, r, 1.0 / 720.0);
  p = multiply_add(p, r, 1.0 / 120.0);
  p = multiply_add(p, r, 1.0 / 24.0);
  p = multiply_add(p, r, 1.0 / 6.0);
  p = multiply_add(p, r, 0.5);
  const double tail = r * r * p;
  return (1.0 + (r + tail)) * power_of_two(k);
}

// log s for a normal s > 0, off by less than (5 + 4 |log s|) 2^-53: s = 2^k m with sqrt(1/2) < m < sqrt(2), and
// log m = 2 atanh(z), z = (m - 1) / (m + 1), |z| < 0.172: eleven terms leave less than 2^-58.
HALFULP_ALWAYS_INLINE double logarithm(double s) {
  const auto bits = std::bit_cast<std::uint64_t>(s);
  const std::uint64_t exponent = (bits + 0x95f6200000000) >> 52;
  const double k = std::bit_cast<double>(exponent | 0x4330000000000000) - (0x1p52 + 1023.0);
  const double m = std::bit_cast<double>(bits - (exponent << 52) + (std::uint64_t{1023} << 52));
  const double z = (m - 1.0) / (m + 1.0), z2 = z * z;
  double p = 1.0 / 23.0;
  p = multiply_add(p, z2, 1.0 / 21.0);
  p = multiply_add(p, z2, 1.0 / 19.0);
  p = multiply_add(p, z2, 1.0 / 17.0);
  p = multiply_add(p, z2, 1.0 / 15.0);
  p = multiply_add(p, z2, 1.0 / 13.0);
  p = multiply_add(p, z2, 1.0 / 11.0);
  p = multiply_add(p, z2, 1.0 / 9.0);
  p = multiply_add(p, z2, 1.0 / 7.0);
  p = multiply_add(p, z2, 1.0 / 5.0);
  p = multiply_add(p, z2, 1.0 / 3.0);
  return k * kLn2First + (2.0 * z + (2.0 * z * z2 * p + k * kLn2Second));
}

// log(1 + r) for r >= 0. Around 1 as 2 atanh(s) with s = r / (2 + r); elsewhere 1 + r = 2^k m, sqrt(1/2) < m < sqrt(2),
// |s| < 0.172: eleven terms leave less than 2^-58.
inline double log_one_plus(double r) {
  const double whole = 1.0 + r;
  const auto bits = std::bit_cast<std::uint64_t>(whole);
  const bool near = r < 0.41;
  const double k = near ? 0.0 : static_cast<double>(static_cast<std::int64_t>((bits + 0x95f6200000000) >> 52) - 1023);
  const double m = whole * power_of_two(-k);
  const double above = near ? r : m - 1.0;
  const double s = above / (near ? 2.0 + r : m + 1.0);
  const double s2 = s * s;
  double p = 1.0 / 23.0;
  for (int n = 21; n >= 3; n -= 2) p = p * s2 + 1.0 / n;
  return (2.0 * s + 2.0 * s * s2 * p) + k * kLn2First + k * kLn2Second;
}

// The series where r is small; else one step of third order from the logarithm in double, y + 2 (S - e^y) / (S + e^y),
// which cubes an error of 2^-48.
inline Pair log_one_plus(Pair r) {
  if (r.high < 0x1p-8) {
    const Pair s = r / (Pair{2.0, 0.0} + r);
    const Pair s2 = s * s;
    Pair p = Pair{1.0, 0.0} / Pair{15.0, 0.0};
    for (int n = 13; n >= 3; n -= 2) p = p * s2 + Pair{1.0, 0.0} / Pair{static_cast<double>(n), 0.0};
    const Pair half = s + s * s2 * p;
    return half + half;
  }
  const double y = log_one_plus(r.high);
  const Pair whole = Pair{1.0, 0.0} + r;
  const Pair e = exponential(Pair{y, 0.0});
  const Pair step = (whole + -e) / (whole + e);
  return Pair{y, 0.0} + step + step;
}

// Numbers in arrays: of high parts, and of low parts where the kind has them.
template <class Real>
inline Real at(const double* high, const double* low, Index i) {
  if constexpr (sizeof(Real) == sizeof(double))
    return high[i];
  else
    return Real{high[i], low[i]};
}
template <class Real>
inline void put(double* high, double* low, Index i, Real x) {
  using R = RealTraits<Real>;
  high[i] = R::high(x);
  if constexpr (sizeof(Real) != sizeof(double)) low[i] = R::low(x);
}

inline double difference(double a, double b, double*) { return a - b; }
inline Pair difference(double a, double b, Pair*) {
  const TwoDoubles s = two_sum(a, -b);
  return {s.high, s.low};
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
