// The two kinds of vectors of real numbers in which elementwise functions are evaluated, and their exponential,
// logarithm and tail of the normal distribution. The formulas in functions.hpp are written once for both.
//
// Every function here is off by at most one unit of its result (the tail by 1.5): 2^-45 in doubles, 2^-86 in pairs.
// Sums, products, quotients and roots are off by at most 2^-7 units, so that thirty of them add half a unit at most.
#pragma once

#include "elementwise/kernels/polynomials.hpp"
#include "exact/round.hpp"
#include "simd/pair.hpp"
#include "simd/roots.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using V = Vector<double>;
using Mask = Vector<std::int64_t>;
using P = PairOf<V>;

HALFULP_ALWAYS_INLINE V all(double c) { return splat(c); }
HALFULP_ALWAYS_INLINE V choose(const Mask& mask, const V& yes, const V& no) { return mask ? yes : no; }
HALFULP_ALWAYS_INLINE P choose(const Mask& mask, const P& yes, const P& no) {
  return {choose(mask, yes.high, no.high), choose(mask, yes.low, no.low)};
}
HALFULP_ALWAYS_INLINE V larger(const V& a, const V& b) { return a < b ? b : a; }   // a NaN in a stays
HALFULP_ALWAYS_INLINE V smaller(const V& a, const V& b) { return a > b ? b : a; }

template <class R>
struct Kind;
template <>
struct Kind<V> {
  static constexpr double unit = 0x1p-45;
  static constexpr double lowest = -200.0, highest = 200.0;  // exponents: beyond, float32 knows only 0 and infinity
  static constexpr double widest = 20.0;                     // and so with the normal distribution's tail
};
template <>
struct Kind<P> {
  static constexpr double unit = 0x1p-86;
  static constexpr double lowest = -640.0, highest = 700.0;
  static constexpr double widest = 35.0;
};

template <class R>
HALFULP_ALWAYS_INLINE R real(const V& x) {
  if constexpr (std::is_same_v<R, V>) return x;
  else return P{x, V{}};
}
template <class R>
HALFULP_ALWAYS_INLINE R real(double high, double low = 0.0) {
  if constexpr (std::is_same_v<R, V>) return all(high);
  else return P{all(high), all(low)};
}
HALFULP_ALWAYS_INLINE V high_of(const V& x) { return x; }
HALFULP_ALWAYS_INLINE V high_of(const P& x) { return x.high; }
// x times a power of two, or a sign
HALFULP_ALWAYS_INLINE V scaled(const V& x, const V& power) { return x * power; }
HALFULP_ALWAYS_INLINE P scaled(const P& x, const V& power) { return {x.high * power, x.low * power}; }
template <class R>
HALFULP_ALWAYS_INLINE R scaled(const R& x, double power) { return scaled(x, all(power)); }
// a * b of doubles
template <class R>
HALFULP_ALWAYS_INLINE R product(const V& a, const V& b) {
  if constexpr (std::is_same_v<R, V>) return a * b;
  else return product_of(a, b);
}
template <class R>
HALFULP_ALWAYS_INLINE R sum(const V& a, const V& b) {
  if constexpr (std::is_same_v<R, V>) return a + b;
  else return sum_of(a, b);
}

template <int N>
HALFULP_ALWAYS_INLINE V polynomial(const double (&c)[N], const V& x) {
  V p = all(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) p = multiply_add(p, x, all(c[i]));
  return p;
}
// Of numbers in pairs, of which those from c[Doubles] on are so small that doubles are good enough for them. The sums
// are off by 2^-103 of the sizes of their terms.
template <int Doubles, int N>
inline P polynomial(const double (&c)[N][2], const P& x) {
  V top = all(c[N - 1][0]);
  for (int i = N - 2; i >= Doubles; --i) top = multiply_add(top, x.high, all(c[i][0]));
  P p = real<P>(top);
  for (int i = Doubles - 1; i >= 0; --i) {
    const P product = p * x, sum = sum_of(all(c[i][0]), product.high);
    p = fast_sum_of(sum.high, V(sum.low + (c[i][1] + product.low)));
  }
  return p;
}

// |x| <= 745. The polynomial is off by less than 2^-48 where |r| <= 0.347, the reduction by less than 2^-51.
HALFULP_ALWAYS_INLINE Exponential<V, V> exponential_parts(const V& x) {
  const V k = (x * kInverseLn2 + kRounder) - kRounder;
  const V r = (x - k * kLn2First) - k * kLn2Second;
  return {r + r * r * polynomial(kExponentialRest, r), power_of_two(k)};
}

// exp(x), lowest <= x <= highest
template <class R>
HALFULP_ALWAYS_INLINE R exp_of(const R& x) {
  const auto [rest, power] = exponential_parts(x);
  return scaled(real<R>(1.0) + rest, power);
}
// exp(x) - 1, also of small x
template <class R>
HALFULP_ALWAYS_INLINE R expm1_of(const R& x) {
  const auto [rest, power] = exponential_parts(x);
  return sum<R>(power, all(-1.0)) + scaled(rest, power);
}

// 2 atanh(z), z^2 <= 0.0296
HALFULP_ALWAYS_INLINE V two_atanh(const V& z) {
  const V w = z * z, twice = z + z;
  return twice + twice * (w * polynomial(kAtanhRest, w));
}
HALFULP_ALWAYS_INLINE V times_ln2(const V& k) { return k * kLn2First + k * kLn2Second; }

// n log(2) / 256 + log(1 + z), |z| < 0.00142 and |n| < 2^20: ten terms of the series, from the fifth on in doubles.
// With n != 0 the first summand is at least 1.8 times the second.
HALFULP_ALWAYS_INLINE P log_beside_root(const V& n, const P& z) {
  V q = multiply_add(z.high, all(-1.0 / 10.0), all(1.0 / 9.0));
  q = multiply_add(q, z.high, all(-1.0 / 8.0));
  q = multiply_add(q, z.high, all(1.0 / 7.0));
  q = multiply_add(q, z.high, all(-1.0 / 6.0));
  q = multiply_add(q, z.high, all(1.0 / 5.0));
  const P third = real<P>(0x1.5555555555555p-2, 0x1.5555555555555p-56);
  P p = add_smaller(real<P>(-0.25), P{z.high * q, V{}});
  p = add_smaller(third, z * p);
  p = add_smaller(real<P>(-0.5), z * p);
  const P near = add_smaller(z, z * z * p), second = product_of(n, all(kRootLn2Second));
  const P far = fast_sum_of(V(n * kRootLn2First), second.high);
  return P{far.high, far.low + (second.low + n * kRootLn2Third)} + near;
}

// log(x) for a normal x > 0: x = 2^k m with sqrt(1/2) < m < sqrt(2). In doubles log(m) = 2 atanh((m - 1) / (m + 1)).
// The two summands do not cancel, and m - 1 is exact. In pairs m = 2^(n/256) (1 + z); where n is 0, z = m - 1 is exact.
template <class R>
HALFULP_ALWAYS_INLINE R log_of(const V& x) {
  const auto bits = reinterpret<Vector<std::uint64_t>>(x);
  const Vector<std::uint64_t> exponent = (bits + 0x95f6200000000) >> 52;
  const V k = reinterpret<V>(exponent | 0x4330000000000000) - (0x1p52 + 1023.0);
  const V m = reinterpret<V>(bits - (exponent << 52) + (std::uint64_t{1023} << 52));
  if constexpr (std::is_same_v<R, V>) {
    return times_ln2(k) + two_atanh((m - 1.0) / (m + 1.0));
  } else {
    const V number = nearest_root(m);
    const RootPower root = root_power(number);
    const P moved = product_of(m, root.power);
    const P z = fast_sum_of(V(moved.high - 1.0), V(moved.low + root.rest * moved.high));
    return log_beside_root(k * kRoots + (kRounder - number), z);
  }
}
// log(1 + u), 0 <= u <= 1
HALFULP_ALWAYS_INLINE V log1p_of(const V& u) {
  const Mask high = u > all(0.41);
  const V above = choose(high, V(u - 1.0), u);
  return times_ln2(choose(high, all(1.0), V{})) + two_atanh(above / (u + choose(high, all(3.0), all(2.0))));
}
// z = 2^(-n/256) (1 + u) - 1, which is u where n is 0; the power lies in [1/2, 1].
HALFULP_ALWAYS_INLINE P log1p_of(const P& u) {
  const V number = nearest_root(V(1.0 + u.high));
  const RootPower root = root_power(number);
  const V low = root.power * root.rest;
  return log_beside_root(kRounder - number, P{root.power - 1.0, low} + P{root.power, low} * u);
}

// exp(a^2 / 2) (1 - Phi(a)), 0 <= a <= 39
HALFULP_ALWAYS_INLINE V tail_of(const V& a) {
  const V t = 1.0 / (1.0 + 0.3 * a);
  return t * polynomial(kTail, (t - kTailMiddle) * kTailScale[0]);
}
HALFULP_ALWAYS_INLINE P tail_of(const P& a) {
  const P t = real<P>(1.0) / (real<P>(1.0) + real<P>(0x1.3333333333333p-2, 0x1.999999999999ap-57) * a);
  return t * polynomial<33>(kTailPair, (t + real<P>(-kTailMiddle)) * real<P>(kTailScale[0], kTailScale[1]));
}

// sqrt(x) for a normal x > 0
HALFULP_ALWAYS_INLINE V sqrt_of(const V& x, V*) { return square_root(x); }
HALFULP_ALWAYS_INLINE P sqrt_of(const V& x, P*) {
  const V s = square_root(x);
  const P square = product_of(s, s);
  return fast_sum_of(s, V(((x - square.high) - square.low) / (s + s)));
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
