// The two kinds of real numbers in which smooth max pooling is evaluated: double, and the sum of two doubles; with
// exponential and logarithm of our own, so that results do not depend on a mathematics library. Included by kernels only.
#pragma once

#include <cmath>

#include "halfulp/round.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// high + low, |low| <= ulp(high) / 2. Relative errors: addition below 2^-104, product 2^-101, quotient 2^-99.
struct Pair {
  double high, low;
};

inline Pair operator+(Pair a, Pair b) {
  const TwoDoubles s = two_sum(a.high, b.high);
  const TwoDoubles t = two_sum(a.low, b.low);
  const TwoDoubles v = fast_two_sum(s.high, s.low + t.high);
  const TwoDoubles w = fast_two_sum(v.high, t.low + v.low);
  return {w.high, w.low};
}
inline Pair operator-(Pair a) { return {-a.high, -a.low}; }
inline Pair operator*(Pair a, Pair b) {
  const double p = a.high * b.high;
  const double e = std::fma(a.high, b.high, -p) + (a.high * b.low + a.low * b.high);
  const TwoDoubles s = fast_two_sum(p, e);
  return {s.high, s.low};
}
inline Pair operator/(Pair a, Pair b) {
  const double q1 = a.high / b.high;
  const Pair r = a + -(b * Pair{q1, 0.0});
  const double q2 = r.high / b.high;
  const Pair r2 = r + -(b * Pair{q2, 0.0});
  return Pair{q1, 0.0} + Pair{q2, 0.0} + Pair{r2.high / b.high, 0.0};
}

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

constexpr double kRounder = 0x1.8p52;  // adding and subtracting it rounds to an integer
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
// ln 2 in parts of 32, 53 and 53 bits: k times the first is exact for |k| < 2^21.
constexpr double kLn2First = 0x1.62e42fefp-1, kLn2Second = 0x1.473de6af278edp-34, kLn2Third = -0x1.9ff0342542fc3p-90;
// ln 2 as a pair.
constexpr Pair kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

inline double power_of_two(double k) {  // for an integer k in [-1022, 1023]
  const auto bits = std::bit_cast<std::uint64_t>(k + kRounder);  // the integer stands in the low bits
  return std::bit_cast<double>((bits + 1023) << 52);
}

// |x| <= 745. With r = x - k ln 2, |r| <= 0.3467: the polynomial is Taylor's of degree 13, off by r^14 / 14! < 2^-57;
// its evaluation and the reduction by less than 2^-51.
inline double exponential(double x) {
  const double k = (x * kInverseLn2 + kRounder) - kRounder;
  const double r = ((x - k * kLn2First) - k * kLn2Second) - k * kLn2Third;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  const double tail = r * r * p;
  return (1.0 + (r + tail)) * power_of_two(k);
}

// The inverse factorials 1/2! .. 1/9! as pairs.
constexpr Pair kInverseFactorials[] = {
    {0x1.0000000000000p-1, 0x0.0p+0},
    {0x1.5555555555555p-3, 0x1.5555555555555p-57},
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},
    {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},
    {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
};

// Reduced by ln 2 and halved eight times, |m| < 2^-9: Taylor's polynomial of exp - 1 of degree 9 is off by less than
// 2^-107 of m; then (1 + p)^2 - 1 = 2 p + p^2, eight times, each adding less than 2^-100. In all below 2^-95.
inline Pair exponential(Pair x) {
  const double k = (x.high * kInverseLn2 + kRounder) - kRounder;
  const Pair r = x + -(kLn2 * Pair{k, 0.0});
  const Pair m = {r.high * 0x1p-8, r.low * 0x1p-8};
  Pair p = kInverseFactorials[7];
  for (int i = 6; i >= 0; --i) p = p * m + kInverseFactorials[i];
  p = m + m * m * p;
  for (int i = 0; i < 8; ++i) p = Pair{2.0 * p.high, 2.0 * p.low} + p * p;
  const double power = power_of_two(k);
  const Pair result = Pair{1.0, 0.0} + p;
  return {result.high * power, result.low * power};
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

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
