// The two kinds of real numbers in which smooth max pooling is evaluated: double, and the sum of two doubles; with
// exponential and logarithm of our own, so that results do not depend on a mathematics library. For kernels only.
#pragma once

#include <cmath>

#include "halfulp/array.hpp"
#include "exact/round.hpp"

#if defined(__FMA__) || defined(HALFULP_ISA_avx2) || defined(HALFULP_ISA_avx512) || defined(__aarch64__)
#define HALFULP_FUSED 1
#endif

// Loops over these functions vectorise only if all of them are inlined.
#if defined(__GNUC__) || defined(__clang__)
#define HALFULP_ALWAYS_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define HALFULP_ALWAYS_INLINE __forceinline
#else
#define HALFULP_ALWAYS_INLINE inline
#endif

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
// a * b + c; fused where the processor does that, which no bound depends on.
inline double multiply_add(double a, double b, double c) {
#if defined(HALFULP_FUSED)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
// a * b exactly, unless it is near an end of the range. Without a fused operation by halves of 26 bits.
inline TwoDoubles two_product(double a, double b) {
  const double p = a * b;
#if defined(HALFULP_FUSED)
  return {p, std::fma(a, b, -p)};
#else
  const double a_wide = a * 0x8000001p0, b_wide = b * 0x8000001p0;
  const double a1 = a_wide - (a_wide - a), b1 = b_wide - (b_wide - b);
  const double a2 = a - a1, b2 = b - b1;
  return {p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2};
#endif
}

inline Pair operator-(Pair a) { return {-a.high, -a.low}; }
inline Pair operator*(Pair a, Pair b) {
  const TwoDoubles p = two_product(a.high, b.high);
  const TwoDoubles s = fast_two_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
  return {s.high, s.low};
}
// a + b where |b| is less than half |a|: nothing cancels.
inline Pair add_smaller(Pair a, Pair b) {
  const TwoDoubles s = fast_two_sum(a.high, b.high);
  const TwoDoubles t = fast_two_sum(s.high, s.low + (a.low + b.low));
  return {t.high, t.low};
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

inline double power_of_two(double k) {  // for an integer k in [-1022, 1023]
  const auto bits = std::bit_cast<std::uint64_t>(k + kRounder);  // the integer stands in the low bits
  return std::bit_cast<double>((bits + 1023) << 52);
}

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

// (1 + p)^2 - 1 for |p| < 0.5.
inline Pair squared(Pair p) { return add_smaller({2.0 * p.high, 2.0 * p.low}, p * p); }

// Reduced by ln 2 and halved four times, |m| < 0.0217. Of Taylor's polynomial p of exp - 1, terms from m^6 on are less
// than 2^-37 of m, so that doubles with errors of 2^-51 are good enough for them; those from m^14 on, 2^-98 of m, are
// left off. Then 1 + p is squared four times. All in all the result is off by less than 2^-89. Straight code, which
// compilers vectorise.
HALFULP_ALWAYS_INLINE Pair exponential(Pair x) {
  const double k = (x.high * kInverseLn2 + kRounder) - kRounder;
  const TwoDoubles second = two_product(k, kLn2Second);
  const TwoDoubles first = two_sum(x.high - k * kLn2First, -second.high);  // the difference is exact
  const TwoDoubles r = fast_two_sum(first.high, first.low + ((x.low - second.low) - k * kLn2Third));
  const Pair m{r.high * 0x1p-4, r.low * 0x1p-4};
  double q = 1.0 / 6227020800.0;
  q = multiply_add(q, m.high, 1.0 / 479001600.0);
  q = multiply_add(q, m.high, 1.0 / 39916800.0);
  q = multiply_add(q, m.high, 1.0 / 3628800.0);
  q = multiply_add(q, m.high, 1.0 / 362880.0);
  q = multiply_add(q, m.high, 1.0 / 40320.0);
  q = multiply_add(q, m.high, 1.0 / 5040.0);
  q = multiply_add(q, m.high, 1.0 / 720.0);
  Pair p = add_smaller({0x1.1111111111111p-7, 0x1.1111111111111p-63}, {m.high * q, 0.0});  // 1/5! + ...
  p = add_smaller({0x1.5555555555555p-5, 0x1.5555555555555p-59}, m * p);                   // 1/4!
  p = add_smaller({0x1.5555555555555p-3, 0x1.5555555555555p-57}, m * p);                   // 1/3!
  p = add_smaller({0.5, 0.0}, m * p);
  p = squared(squared(squared(squared(add_smaller(m, m * m * p)))));
  const Pair result = add_smaller({1.0, 0.0}, p);
  const double power = power_of_two(k);
  return {result.high * power, result.low * power};
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

// The same within 9 units: one step of third order from the logarithm y in double, y + 2 (s - e^y) / (s + e^y), cubes
// its error; the quotient is so small that a double has it.
HALFULP_ALWAYS_INLINE Pair logarithm(Pair s) {
  const double y = logarithm(s.high);
  const Pair e = exponential(Pair{y, 0.0});
  const double step = 2.0 * ((s.high - e.high) + (s.low - e.low)) / (s.high + e.high);
  const TwoDoubles sum = two_sum(y, step);
  return {sum.high, sum.low};
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
