// Quotients of sums by a number, rounded once or reported as undecided. Included by sum_kernels.cpp only.
#pragma once

#include "sum_values.hpp"

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

// sum / n to within one unit in the last place, and exactly if the quotient is a double. Where fused operations are
// fast, they correct the product with the inverse: the remainder r = sum - q n is exact, and r / n completes q with an
// error far below its last bit.
inline double quotient(double sum, const SumDivisor& d) {
#ifdef __FMA__
  const double q = sum * d.inverse;
  const double r = std::fma(-q, d.value, sum);
  return r == 0.0 ? q : std::fma(r, d.inverse, q);
#else
  return sum / d.value;
#endif
}

// float32 and bfloat16, exact sums whose quotients are zero or normal numbers of T. Let q be within one unit of the
// quotient. Midpoints between neighbouring T are doubles, so if q is none, no midpoint lies between q and the quotient,
// and both round alike. If q is a midpoint, it has so few bits (25, and n has 28) that q * n is exact: it shows whether q
// is the quotient itself. A quotient by a power of two is always exact.
template <class T>
Index finish_exact(const Sums& in, Index n, const SumDivisor& d, T* out, std::int32_t* undecided) {
  if (d.power_of_two) {
    for (Index i = 0; i < n; ++i) out[i] = round_to<T>(in.sum[i] * d.inverse);
    return 0;
  }
  constexpr std::uint64_t half = std::uint64_t{1} << (52 - format_of<T>::precision);
  const bool few_bits = std::fabs(d.value) < 0x1p28;
  return collect_undecided(n, undecided, [=](Index i) {
    const double sum = in.sum[i];
    const double q = quotient(sum, d);
    out[i] = round_to<T>(q);
    return ((std::bit_cast<std::uint64_t>(q) & (2 * half - 1)) != half) | (few_bits & (q * d.value == sum));
  });
}

// float16, exact sums below 2^27. The quotient is never within an error of q of a midpoint without being on it: the
// difference sum - n * midpoint is a multiple of 2^-25, and if it is not 0, then the quotient is 2^-25 / n away from the
// midpoint, more than the 2^-52 * |sum / n| that q can be off. So rounding twice is as good as once.
Index finish_f16_exact(const Sums& in, Index n, const SumDivisor& d, Float16* out, std::int32_t*) {
  for (Index i = 0; i < n; ++i) out[i] = round_to<Float16>(quotient(in.sum[i], d));
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
// operation, and (r + low) / n, off by a few 2^-53 of itself, completes q: the quotient is q + c ± 2^-50 |c| ± bound / n.
// Near the ends of the exponent range remainders lose bits: such quotients are left undecided, except zero itself.
template <int Mode>
Index finish_f64(const Sums& in, Index n, const SumDivisor& d, double* out, std::int32_t* undecided) {
  const double inverse = std::fabs(d.inverse) * kBoundMargin;
  const double relative = d.power_of_two ? 0.0 : 0x1p-50;
  return collect_undecided(n, undecided, [=](Index i) {
    const double sum = in.sum[i];
    const double q = sum * d.inverse;
    const double rest = std::fma(-q, d.value, sum) + in.low[i];
    const double c = rest * d.inverse;
    double error = std::fabs(c) * relative;
    if constexpr (Mode == kDoubleBounded) {
      const double bound = in.bound[i] * inverse;
      // Asked of the bound itself: its quotient may underflow.
      error = in.bound[i] == 0.0 ? error : (std::fabs(c) + bound) * 0x1p-50 + bound;
    }
    const double result = q + (c + error);
    out[i] = rest == 0.0 ? q : result;
    const double size = std::fabs(result);
    const bool in_range = (size > 0x1p-900) & (size < 0x1p1000);
    bool exactly_zero = (sum == 0.0) & (in.low[i] == 0.0) & (error == 0.0);
    // A subnormal bound's quotient is 0, but the bound says that something was left out.
    if constexpr (Mode == kDoubleBounded) exactly_zero = exactly_zero & (in.bound[i] == 0.0);
    return ((result == q + (c - error)) & in_range) | exactly_zero;
  });
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
