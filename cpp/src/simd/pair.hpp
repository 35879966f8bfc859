// Numbers that are the sum of two doubles, one or a vector of them, and their exponential. For kernels only.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "simd/products.hpp"

#if defined(__FMA__) || defined(HALFULP_ISA_avx2) || defined(HALFULP_ISA_avx512) || defined(__aarch64__)
#define HALFULP_FUSED 1
#endif

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// high + low, |low| <= ulp(high) / 2. Relative errors: addition below 2^-104, product 2^-101, quotient 2^-99.
// V is double or Vector<double>.
template <class V>
struct PairOf {
  V high, low;
};
using Pair = PairOf<double>;

// s + e == a + b exactly, s == fl(a + b).
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> sum_of(const V& a, const V& b) {
  const V s = a + b;
  const V from_b = s - a;
  const V from_a = s - from_b;
  return {s, (a - from_a) + (b - from_b)};
}
// The same if |a| >= |b| or a == 0.
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> fast_sum_of(const V& a, const V& b) {
  const V s = a + b;
  return {s, b - (s - a)};
}

// a * b + c; fused where the processor does that, which no bound depends on.
HALFULP_ALWAYS_INLINE double multiply_add(double a, double b, double c) {
#if defined(HALFULP_FUSED)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
// a * b exactly, unless it is near an end of the range. Without a fused operation by halves of 26 bits.
HALFULP_ALWAYS_INLINE Pair product_of(double a, double b) {
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
HALFULP_ALWAYS_INLINE PairOf<Vector<double>> product_of(const Vector<double>& a, const Vector<double>& b) {
  const Vector<double> p = a * b;
  return {p, product_error(a, b, p)};
}

template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> operator+(const PairOf<V>& a, const PairOf<V>& b) {
  const PairOf<V> s = sum_of(a.high, b.high);
  const PairOf<V> t = sum_of(a.low, b.low);
  const PairOf<V> v = fast_sum_of(s.high, V(s.low + t.high));
  return fast_sum_of(v.high, V(t.low + v.low));
}
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> operator-(const PairOf<V>& a) {
  return {-a.high, -a.low};
}
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> operator-(const PairOf<V>& a, const PairOf<V>& b) {
  return a + -b;
}
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> operator*(const PairOf<V>& a, const PairOf<V>& b) {
  const PairOf<V> p = product_of(a.high, b.high);
  return fast_sum_of(p.high, V(p.low + (a.high * b.low + a.low * b.high)));
}
// a + b where |b| is less than half |a|: nothing cancels.
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> add_smaller(const PairOf<V>& a, const PairOf<V>& b) {
  const PairOf<V> s = fast_sum_of(a.high, b.high);
  return fast_sum_of(s.high, V(s.low + (a.low + b.low)));
}
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> operator/(const PairOf<V>& a, const PairOf<V>& b) {
  const V q1 = a.high / b.high;
  const PairOf<V> r = a - b * PairOf<V>{q1, V{}};
  const V q2 = r.high / b.high;
  const PairOf<V> r2 = r - b * PairOf<V>{q2, V{}};
  return PairOf<V>{q1, V{}} + PairOf<V>{q2, V{}} + PairOf<V>{r2.high / b.high, V{}};
}

constexpr double kRounder = 0x1.8p52;  // adding and subtracting it rounds to an integer
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
// ln 2 in parts of 32, 53 and 53 bits: k times the first is exact for |k| < 2^21.
constexpr double kLn2First = 0x1.62e42fefp-1, kLn2Second = 0x1.473de6af278edp-34, kLn2Third = -0x1.9ff0342542fc3p-90;

// For an integer k in [-1022, 1023]; the integer stands in the low bits of k + kRounder.
HALFULP_ALWAYS_INLINE double power_of_two(double k) {
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(k + kRounder) + 1023) << 52);
}
HALFULP_ALWAYS_INLINE Vector<double> power_of_two(const Vector<double>& k) {
  return reinterpret<Vector<double>>((reinterpret<Vector<std::uint64_t>>(k + kRounder) + 1023) << 52);
}

// exp(x) = power * (1 + rest), |rest| < 0.42.
template <class R, class V>
struct Exponential {
  R rest;
  V power;
};

// (1 + p)^2 - 1 for |p| < 0.5.
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> squared(const PairOf<V>& p) {
  return add_smaller(PairOf<V>{2.0 * p.high, 2.0 * p.low}, p * p);
}

// Reduced by ln 2 and halved four times, |m| < 0.0217. Of Taylor's polynomial p of exp - 1, terms from m^6 on are less
// than 2^-37 of m, so that doubles with errors of 2^-51 are good enough for them; those from m^14 on, 2^-98 of m, are
// left off. Then 1 + p is squared four times. All in all the rest is off by less than 2^-89 of itself, and so is the
// exponential. Straight code, which compilers vectorise.
template <class V>
HALFULP_ALWAYS_INLINE Exponential<PairOf<V>, V> exponential_parts(const PairOf<V>& x) {
  using R = PairOf<V>;
  const auto constant = [](double c) { return V(c - V{}); };
  const V k = (x.high * kInverseLn2 + kRounder) - kRounder;
  const R second = product_of(k, constant(kLn2Second));
  const R first = sum_of(V(x.high - k * kLn2First), V(-second.high));  // the difference is exact
  const R r = fast_sum_of(first.high, V(first.low + ((x.low - second.low) - k * kLn2Third)));
  const R m{r.high * 0x1p-4, r.low * 0x1p-4};
  V q = constant(1.0 / 6227020800.0);
  q = multiply_add(q, m.high, constant(1.0 / 479001600.0));
  q = multiply_add(q, m.high, constant(1.0 / 39916800.0));
  q = multiply_add(q, m.high, constant(1.0 / 3628800.0));
  q = multiply_add(q, m.high, constant(1.0 / 362880.0));
  q = multiply_add(q, m.high, constant(1.0 / 40320.0));
  q = multiply_add(q, m.high, constant(1.0 / 5040.0));
  q = multiply_add(q, m.high, constant(1.0 / 720.0));
  const auto pair = [&](double high, double low) { return R{constant(high), constant(low)}; };
  R p = add_smaller(pair(0x1.1111111111111p-7, 0x1.1111111111111p-63), R{m.high * q, V{}});  // 1/5! + ...
  p = add_smaller(pair(0x1.5555555555555p-5, 0x1.5555555555555p-59), m * p);                 // 1/4!
  p = add_smaller(pair(0x1.5555555555555p-3, 0x1.5555555555555p-57), m * p);                 // 1/3!
  p = add_smaller(pair(0.5, 0.0), m * p);
  p = squared(squared(squared(squared(add_smaller(m, m * m * p)))));
  return {p, power_of_two(k)};
}
template <class V>
HALFULP_ALWAYS_INLINE PairOf<V> exponential(const PairOf<V>& x) {
  const auto [rest, power] = exponential_parts(x);
  const PairOf<V> result = add_smaller(PairOf<V>{V(1.0 - V{}), V{}}, rest);
  return {result.high * power, result.low * power};
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
