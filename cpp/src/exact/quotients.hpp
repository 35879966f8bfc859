// The exact sum of terms g / m with different integers m, rounded once: what meets in a cell when windows share their
// cotangents in different ways.
#pragma once

#include <limits>
#include <numeric>
#include <span>

#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "exact/exact_sum.hpp"

namespace halfulp {

struct Quotient {
  double value;
  Index divisor;  // >= 1
};

namespace detail {

// For divisors whose least common multiple does not fit in 63 bits; finite values, at least one of them nonzero.
// The sum is ±(significand + t) * 2^exponent as `assemble` takes it.
struct Scaled {
  bool negative;
  std::uint64_t significand;
  int exponent;
  bool sticky;
};
Scaled sum_with_large_divisors(std::span<const Quotient> terms);

// The least common multiple of the divisors, or 0 if it exceeds 62 bits.
inline Index common_multiple(std::span<const Quotient> terms) noexcept {
  Index multiple = 1;
  for (const Quotient& term : terms) {
    const Index factor = term.divisor / std::gcd(multiple, term.divisor);
    if (multiple > (std::numeric_limits<Index>::max() >> 1) / factor) return 0;
    multiple *= factor;
  }
  return multiple;
}

}  // namespace detail

// Zeros, infinities and NaNs as ExactSum has them; no terms give +0.
template <class T>
T sum_of_quotients(std::span<const Quotient> terms) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  typename ExactSums<Wide>::terms sum;
  Index multiple = detail::common_multiple(terms);
  bool special = false, nonzero = false;
  for (const Quotient& term : terms) {
    special = special || !(term.value - term.value == 0);
    nonzero = nonzero || term.value != 0;
  }
  if (multiple == 0 && !special && nonzero) {
    const detail::Scaled s = detail::sum_with_large_divisors(terms);
    if (s.significand != 0)
      return std::bit_cast<T>(assemble<format_of<T>>(s.negative, s.significand, s.exponent, s.sticky));
    return T{};  // cancellation of terms that are not all zeros
  }
  if (multiple == 0) multiple = 1;  // only zeros, infinities and NaNs decide: divisors do not matter
  for (const Quotient& term : terms) sum.add(term.value, special ? 1 : multiple / (multiple == 1 ? 1 : term.divisor));
  return sum.template round_quotient<T>(special ? 1 : multiple);
}

}  // namespace halfulp
