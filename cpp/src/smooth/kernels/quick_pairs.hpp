// Exponentials and logarithms for nearly all results in float64: sums of two doubles, good to about 70 bits.
// docs/explanation/error-bounds-pooling.md has the proofs.
//
// Both use the table of roots. What is left after a look-up is so close to 0 that everything from its
// square on is below 2^-20, so that doubles are good enough for that. The second part of a result is up to 2^-20 of the
// first one: the parts are not normalised.
#pragma once

#include "simd/roots.hpp"
#include "smooth/kernels/real.hpp"
#include "smooth/shared_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using DoublePairs = PairOf<Doubles>;

// What the exponentials of a block are relative to: exp(beta (u - base)) / 2^(shift/256), where `least` is taken for
// smaller differences. If beta top is small, so is beta u wherever it counts; if not, top - u is a double wherever it
// counts.
struct Reference {
  double base, shift, least;
};
inline Reference reference_of(const SmoothBeta& beta, double top) {
  const double size = beta.high * top;
  const bool small = std::fabs(size) <= 1300.0;
  return {small ? 0.0 : top, small ? kRoots * ((size * kInverseLn2 + kRounder) - kRounder) : 0.0,
          (small ? top : 0.0) + RealTraits<Pair>::lowest_exponent / beta.high};
}

// exp(x) = 2^(k/256) e^r, |r| < 0.00136, with Taylor's polynomial of degree 6. NaN if u is.
HALFULP_ALWAYS_INLINE DoublePairs quick_exponential(const SmoothBeta& beta, const Reference& reference,
                                                    const Doubles& u) {
  const Doubles slope = splat(beta.high), offset = splat(kRounder - reference.shift);
  const Doubles above = max_first(Doubles(u - reference.base), splat(reference.least));
  const DoublePairs whole = product_of(above, slope);
  const Doubles low = multiply_add(above, splat(beta.low), whole.low);
  const Doubles number = multiply_add(whole.high, splat(kRoots * kInverseLn2), offset);
  const Doubles k = number - offset;
  const DoublePairs r =
      fast_sum_of(Doubles(whole.high - k * kRootLn2First), multiply_add(k, splat(-kRootLn2Second), low));
  Doubles q = multiply_add(r.high, splat(1.0 / 720.0), splat(1.0 / 120.0));
  q = multiply_add(q, r.high, splat(1.0 / 24.0));
  q = multiply_add(q, r.high, splat(1.0 / 6.0));
  q = multiply_add(q, r.high, splat(0.5));
  const RootPower root = root_power(number);
  const DoublePairs linear = product_of(root.power, r.high);
  const DoublePairs sum = fast_sum_of(root.power, linear.high);
  const Doubles tail = multiply_add(Doubles(r.high * r.high * root.power), q, linear.low);
  return {sum.high, sum.low + multiply_add(sum.high, Doubles(root.rest + r.low), tail)};
}

// Runs body(from, to) on vectors of `n` numbers in two parts, the last vector by way of a buffer.
template <class Body>
inline void over_pairs(SmoothParts x, Index n, Body body) {
  Index i = 0;
  for (; i + kWide <= n; i += kWide) body(x.from(i));
  if (i == n) return;
  double high[kWide] = {}, low[kWide] = {};
  for (Index j = i; j < n; ++j) {
    high[j - i] = x.high[j];
    low[j - i] = x.low[j];
  }
  body(SmoothParts{high, low});
  for (Index j = i; j < n; ++j) {
    x.high[j] = high[j - i];
    x.low[j] = low[j - i];
  }
}

// In position; the low parts are only written.
inline void quick_exponentials(const SmoothBeta& beta, double top, SmoothParts u, Index n) {
  const Reference reference = reference_of(beta, top);
  over_pairs(u, n, [&](SmoothParts at) {
    const DoublePairs e = quick_exponential(beta, reference, load(at.high));
    store(at.high, e.high);
    store(at.low, e.low);
  });
}

// log(s 2^(shift/256)), 2^-1000 < s < 2^1000: with s 2^(-n/256) = 1 + z, |z| < 0.0015, log(1 + z) by seven terms of its
// series.
HALFULP_ALWAYS_INLINE DoublePairs quick_logarithm(const DoublePairs& given, double shift) {
  const DoublePairs s = fast_sum_of(given.high, given.low);
  const Doubles number = nearest_root(s.high);  // -n
  const Doubles n = (kRounder + shift) - number;
  const RootPower root = root_power(number);
  const DoublePairs product = product_of(s.high, root.power);
  const Doubles z = product.high - 1.0;
  const Doubles low = multiply_add(s.low, root.power, Doubles(product.low + root.rest * product.high));
  Doubles q = multiply_add(z, splat(1.0 / 7.0), splat(-1.0 / 6.0));
  q = multiply_add(q, z, splat(1.0 / 5.0));
  q = multiply_add(q, z, splat(-1.0 / 4.0));
  q = multiply_add(q, z, splat(1.0 / 3.0));
  q = multiply_add(q, z, splat(-0.5));
  const DoublePairs sum = fast_sum_of(Doubles(n * kRootLn2First), z);
  const Doubles tail = multiply_add(Doubles(z * z), q, Doubles(n * kRootLn2Second));
  return {sum.high, sum.low + (tail + multiply_add(Doubles(-z), low, low))};
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
