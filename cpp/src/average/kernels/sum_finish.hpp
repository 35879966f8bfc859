// Quotients of sums by a number, rounded once or reported as undecided. Included by kernels only.
#pragma once

#include "average/kernels/line_values.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Runs `decide(i)`, which writes output i and says whether it is right, over all i; collects the others. The first loop
// has no branch, and nearly always is the only one.
template <class Decide>
inline Index collect_undecided(Index n, std::int32_t* undecided, Decide decide) {
  constexpr Index kChunk = 256;
  Index found = 0;
  for (Index begin = 0; begin < n; begin += kChunk) {
    const Index end = begin + kChunk < n ? begin + kChunk : n;
    std::int64_t wrong = 0;
    for (Index i = begin; i < end; ++i) wrong |= decide(i) ? 0 : 1;
    if (wrong == 0) continue;
    for (Index i = begin; i < end; ++i)
      if (!decide(i)) undecided[found++] = static_cast<std::int32_t>(i);
  }
  return found;
}

// float16, bfloat16 and float32, exact sums. Let q be within one unit of the quotient, and the quotient itself if that
// is a double. Midpoints m between neighbouring T are doubles, so if q is none, no midpoint lies between q and the
// quotient, and both round alike. If q = m, the quotient is m: sum - n m is a multiple of the sources' grid 2^g or of
// the last bit of m, and smaller than either, since the caller has seen to |sum| < 2^(52 + g) and n < 2^28. So nothing
// is undecided.
template <class T>
Index finish_exact(const Sums& in, Index n, const SumDivisor& d, T* out, std::int32_t*) {
  for_each_vector(n, [&](auto tag, Index i) {
    using V = typename decltype(tag)::type;
    store_rounded(out + i, quotient(get<float, V>(in, i).sum, d));
  });
  return 0;
}

// The bound is a sum of nonnegative terms, each addition of which is off by 2^-53 relatively at most: over fewer than
// 2^31 terms the factor 1 + 2^-20 covers that.
constexpr double kBoundMargin = 1.0 + 0x1p-20;

// Sums with an error bound: both ends of the interval must round alike. The ends' own rounding and the product's are
// covered by 2^-51 |q|, unless everything is exact.
template <class T>
Index finish_bounded(const Sums& in, Index n, const SumDivisor& d, T* out, std::int32_t* undecided) {
  using F = format_of<T>;
  const double inverse = std::fabs(d.inverse) * kBoundMargin;
  const double relative = d.power_of_two ? 0.0 : 0x1p-51;
  return collect_undecided(n, undecided, [=](Index i) {
    const double q = in.sum[i] * d.inverse;
    const double bound = in.bound[i] * inverse;
    const double error = bound + std::fabs(q) * (bound == 0.0 ? relative : 0x1p-51);
    const auto bits = round_bits<F>(q + error);
    out[i] = std::bit_cast<T>(bits);
    return (bits == round_bits<F>(q - error)) & (error == error);
  });
}

// float64: value = sum + low (± bound). With q = fl(sum * inverse) the remainder r = sum - q * n is exact in one fused
// operation, and (r + low) / n, off by a few 2^-53 of itself, completes q: the quotient is q + c ± 2^-50 |c| ± bound /
// n. Means of few cells are often half way between two doubles; then nothing is lost in c, which one more remainder
// shows. Near the ends of the exponent range remainders lose bits: such quotients are left undecided, except zero
// itself.
template <class V>
struct Correction {
  V q, rest, c;
  V lost;  // 0: q + c is the quotient
};
template <class V>
inline Correction<V> corrected(const V& sum, const V& low, const SumDivisor& d) {
  const V n = all<V>(d.value), inverse = all<V>(d.inverse);
  const V q = sum * inverse;
  const Pair<V> rest = plus(Pair<V>{fused(-q, n, sum), all<V>(0.0)}, low);
  const V c = rest.sum * inverse;
  const V slip = fused(-c, n, rest.sum);
  return {q, rest.sum, c, magnitude(rest.low) + magnitude(slip)};
}

// q n - sum where q is the rounded quotient, exactly. Without fused operations by halves of q: where n < 2^26, products
// with these lose nothing, the difference is of neighbours, and what remains is a double.
template <class V>
inline V excess(const V& q, const V& n, const V& sum) {
  if constexpr (kFuses) return fused(q, n, -sum);
  const V high = upper_half(q);
  return (high * n - sum) + (q - high) * n;
}
// q + t * slope, where the product may be rounded.
template <class V>
inline V moved(const V& q, const V& t, const V& slope) {
  if constexpr (kFuses) return fused(t, slope, q);
  return q + t * slope;
}

// The same for most quotients and n > 0, in six operations. With r = q n - sum, exact, and t = r - low, off by 2^-53 of
// itself at most, the quotient q - (r - low) / n lies between q + t `near` and q + t `far`: where these round alike
// they round as it does. They leave room for 2^-50, and 1 / n, t, `near` and a product with t may be off by 2^-53 each.
// Where n is a power of two nothing is lost before that rounding. A zero keeps its sign: t is +0 and its products -0.
// Sums that are exact are multiples of 2^-900, or zero, and below 2^1000, and n < 2^50: nothing here leaves the range.
template <class V>
struct QuotientEnds {
  V near, far;
};
template <class V>
inline QuotientEnds<V> quotient_ends(const Pair<V>& value, const SumDivisor& d) {
  const V q = value.sum * all<V>(d.inverse);
  const V t = excess(q, all<V>(d.value), value.sum) - value.low;
  return {moved(q, t, all<V>(d.near)), moved(q, t, all<V>(d.far))};
}

inline bool equal_in_all(double a, double b) { return a == b; }
inline bool lane_of(int decided, Index) { return decided != 0; }
inline bool all_lanes(bool decided) { return decided; }
template <class M>
inline bool lane_of(const M& decided, Index lane) {
  return decided[lane] != 0;
}

// A quotient with more care: where it is right even if half way between two doubles.
template <class V>
inline auto decided_f64(const Pair<V>& value, const SumDivisor& d, V& out) {
  const V zero = all<V>(0.0);
  const Correction<V> t = corrected(value.sum, value.low, d);
  const V error = select(t.lost == zero, zero, magnitude(t.c) * all<V>(0x1p-50));
  const V result = t.q + (t.c + error), size = magnitude(result);
  out = select(t.rest == zero, t.q, result);
  const auto in_range = (size > all<V>(0x1p-900)) & (size < all<V>(0x1p1000));
  return ((result == t.q + (t.c - error)) & in_range) | ((value.sum == zero) & (value.low == zero));
}

inline Index finish_f64_exact(const Sums& in, Index n, const SumDivisor& d, double* out, std::int32_t* undecided) {
  Index found = 0;
  const auto finish = [&](auto tag, Index i) {
    using V = typename decltype(tag)::type;
    const Pair<V> value = get<double, V>(in, i);
    const QuotientEnds<V> ends = quotient_ends(value, d);
    put_part(out + i, ends.near);
    if (d.value > 0.0 && equal_in_all(ends.near, ends.far)) return;
    V quotient;
    const auto decided = decided_f64(value, d, quotient);
    put_part(out + i, quotient);
    for (Index lane = 0; lane < static_cast<Index>(sizeof(V) / sizeof(double)); ++lane)
      if (!lane_of(decided, lane)) undecided[found++] = static_cast<std::int32_t>(i + lane);
  };
  for_each_vector(n, finish);
  return found;
}

inline Index finish_f64_bounded(const Sums& in, Index n, const SumDivisor& d, double* out, std::int32_t* undecided) {
  const double inverse = std::fabs(d.inverse) * kBoundMargin;
  return collect_undecided(n, undecided, [=](Index i) {
    const double sum = in.sum[i];
    const Correction<double> t = corrected(sum, in.low[i], d);
    const double bound = in.bound[i] * inverse, c = t.c;
    // Asked of the bound itself: its quotient may underflow.
    const double error = in.bound[i] != 0.0 ? (std::fabs(c) + bound) * 0x1p-50 + bound
                         : t.lost == 0.0    ? 0.0
                                            : std::fabs(c) * 0x1p-50;
    const double result = t.q + (c + error);
    out[i] = t.rest == 0.0 ? t.q : result;
    const double size = std::fabs(result);
    const bool in_range = (size > 0x1p-900) & (size < 0x1p1000);
    // A subnormal bound's quotient is 0, but the bound says that something was left out.
    const bool exactly_zero = (sum == 0.0) & (in.low[i] == 0.0) & (error == 0.0) & (in.bound[i] == 0.0);
    return ((result == t.q + (c - error)) & in_range) | exactly_zero;
  });
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
