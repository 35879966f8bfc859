// Exponentials of pairs of doubles with a relative error below 2^-72, two vectors at a time: what nearly all results in
// float64 need. docs/explanation/error-bounds-pooling.md has the proof.
#pragma once

#include "simd/deinterleave.hpp"
#include "smooth/kernels/real.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// 2^(i/8) in two parts.
constexpr double kEighthsHigh[8] = {
    0x1.0000000000000p+0, 0x1.172b83c7d517bp+0, 0x1.306fe0a31b715p+0, 0x1.4bfdad5362a27p+0,
    0x1.6a09e667f3bcdp+0, 0x1.8ace5422aa0dbp+0, 0x1.ae89f995ad3adp+0, 0x1.d5818dcfba487p+0};
constexpr double kEighthsLow[8] = {
    0x0.0p+0, -0x1.19041b9d78a76p-55, 0x1.6f46ad23182e4p-55, 0x1.d4397afec42e2p-56,
    -0x1.bdd3413b26456p-54, 0x1.6e9f156864b27p-54, 0x1.7a1cd345dcc81p-54, 0x1.2ed02d75b3707p-55};

using DoublePairs = PairOf<Doubles>;

// x = k ln 2 / 8 + r, |r| < 0.0434. The terms from r^4 on are below 2^-22 and need doubles only; those from r^12 on are
// left off.
HALFULP_ALWAYS_INLINE void quick_exponentials(DoublePairs& x, DoublePairs& y) {
  using Bits = Vector<std::uint64_t>;
  DoublePairs* const both[2] = {&x, &y};
  DoublePairs rest[2];
  Bits number[2];
  for (int v = 0; v < 2; ++v) {
    const DoublePairs& at = *both[v];
    const Doubles shifted = at.high * (8.0 * kInverseLn2) + kRounder;
    number[v] = reinterpret<Bits>(shifted);
    const Doubles k = shifted - kRounder;
    const DoublePairs second = product_of(k, splat(kLn2Second / 8.0));
    const DoublePairs first = sum_of(Doubles(at.high - k * (kLn2First / 8.0)), Doubles(-second.high));
    const DoublePairs r =
        fast_sum_of(first.high, Doubles(first.low + ((at.low - second.low) - k * (kLn2Third / 8.0))));
    Doubles q = splat(1.0 / 39916800.0);
    q = multiply_add(q, r.high, splat(1.0 / 3628800.0));
    q = multiply_add(q, r.high, splat(1.0 / 362880.0));
    q = multiply_add(q, r.high, splat(1.0 / 40320.0));
    q = multiply_add(q, r.high, splat(1.0 / 5040.0));
    q = multiply_add(q, r.high, splat(1.0 / 720.0));
    q = multiply_add(q, r.high, splat(1.0 / 120.0));
    q = multiply_add(q, r.high, splat(1.0 / 24.0));
    const DoublePairs sixth{splat(0x1.5555555555555p-3), splat(0x1.5555555555555p-57)};
    DoublePairs p = add_smaller(sixth, DoublePairs{r.high * q, Doubles{}});
    p = add_smaller(DoublePairs{splat(0.5), Doubles{}}, r * p);
    rest[v] = add_smaller(r, r * r * p);
  }
  using Words = Vector<std::int32_t>;
  const Words index = deinterleaved2<0>(reinterpret<Words>(number[0]), reinterpret<Words>(number[1])) & 7;
  DoublePairs eighths[2];
  look_up(kEighthsHigh, index, eighths[0].high, eighths[1].high);
  look_up(kEighthsLow, index, eighths[0].low, eighths[1].low);
  for (int v = 0; v < 2; ++v) {
    const Bits power = ((number[v] & ~std::uint64_t{7}) << 49) + (std::uint64_t{1023} << 52);
    const DoublePairs result = add_smaller(eighths[v], eighths[v] * rest[v]);
    both[v]->high = result.high * reinterpret<Doubles>(power);
    both[v]->low = result.low * reinterpret<Doubles>(power);
  }
}

// The exponentials of n pairs, in place.
inline void quick_exponentials(double* high, double* low, Index n) {
  constexpr Index step = 2 * kWide;
  const auto run = [](double* a, double* b) {
    DoublePairs x{load(a), load(b)}, y{load(a + kWide), load(b + kWide)};
    quick_exponentials(x, y);
    store(a, x.high);
    store(b, x.low);
    store(a + kWide, y.high);
    store(b + kWide, y.low);
  };
  Index i = 0;
  for (; i + step <= n; i += step) run(high + i, low + i);
  if (i == n) return;
  double a[step] = {}, b[step] = {};
  for (Index j = i; j < n; ++j) {
    a[j - i] = high[j];
    b[j - i] = low[j];
  }
  run(a, b);
  for (Index j = i; j < n; ++j) {
    high[j] = a[j - i];
    low[j] = b[j - i];
  }
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
