// Sums while they are made, and what they are divided by. A sum is held in up to three parts, each an array of its own:
//   sum    the sum as a double
//   low    (float64 input) what `sum` lost: the value is sum + low
//   bound  (careful lines) an upper bound on the error of sum + low, up to the rounding errors of the bound itself
// There is no bound where the range of the input's exponents shows that no rounding error can occur, except those which
// `low` catches exactly. docs/explanation/error-bounds-pooling.md has proofs.
#pragma once

#include <cmath>
#include <cstdint>

#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "halfulp/sum_plan.hpp"

namespace halfulp {

// Values that kernels may read or write past the end of a row of sums.
inline constexpr Index kLineSlack = 64;

struct Sums {
  double* sum = nullptr;
  double* low = nullptr;
  double* bound = nullptr;
};

// Files that are compiled once per instruction set keep it to themselves: the linker must not merge copies.
#ifdef HALFULP_ISA_NAMESPACE
static
#endif
inline Sums operator+(const Sums& a, Index offset) noexcept {
  return {a.sum + offset, a.low == nullptr ? nullptr : a.low + offset, a.bound == nullptr ? nullptr : a.bound + offset};
}

// What a run of sums is divided by.
struct SumDivisor {
  double value;
  double inverse;     // 1 / value, rounded
  double high, rest;  // 1 / value in two parts; rest = 0: products with `high` are as good, see sum_divisor
  double near, far;   // -1 / value by 2^-50 too small and too large; a power of two: neither; from 2^26 on: NaN
  bool power_of_two;
};

// The quotient Q of a sum by n > 0 must be within one unit in its last place, and right if it is a double. Let the
// inverse be (1 + d) / n, and e the exponent of Q. If |d| <= 2^-54, which is true for many n, the product differs from
// Q by |Q| 2^-54 <= 2^(e-53), half a unit, before it is rounded: by one unit in all. Less than half a unit, or a tie
// that is even, if Q is a double: then it is rounded to Q. Else the inverse has a second part, which is not negative so
// that the two products of a negative zero have one sign.
#ifdef HALFULP_ISA_NAMESPACE
static
#endif
inline SumDivisor sum_divisor(Index n) {
  const auto value = static_cast<double>(n);
  const Index magnitude = n < 0 ? -n : n;
  const bool power_of_two = (magnitude & (magnitude - 1)) == 0;
  const double inverse = 1.0 / value;
  const double slack = magnitude >= Index{1} << 26 ? NAN : power_of_two ? 0.0 : 0x1p-50;
  SumDivisor d{value, inverse, inverse, 0.0, -inverse * (1.0 - slack), -inverse * (1.0 + slack), power_of_two};
  const double error = std::fma(value, d.inverse, -1.0);
  if (std::fabs(error) <= 0x1p-54) return d;
  if (error > 0.0) d.high = std::nextafter(d.inverse, 0.0);
  d.rest = -std::fma(value, d.high, -1.0) / value;
  return d;
}

// The range of nonzero magnitudes as bit patterns: `smallest` is the least pattern minus one, all ones if there is
// none.
struct MagnitudeRange {
  std::uint64_t smallest = ~std::uint64_t{0};
  std::uint64_t largest = 0;
};

// Sums along rows of sums.
struct AlongTask {
  const SumSegment* segments;
  Index segment_count;
  Sums work, sums;              // scratch and results, for as many rows as are worked on together
  Index row_pitch, sums_pitch;  // from one of these to the next
};

}  // namespace halfulp
