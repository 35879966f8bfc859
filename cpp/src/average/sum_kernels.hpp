// The vector loops of the average: sums of rows in float64 or double-double, and their quotients, rounded once.
//
// A sum is held in up to three parts, each an array of its own:
//   sum    the sum as a double
//   low    (float64 input) what `sum` lost: the value is sum + low
//   bound  (bounded modes) an upper bound on the error of sum + low, up to the rounding errors of the bound itself
// In the exact modes the caller has checked the range of the input's exponents, so that no rounding error can occur
// except those which `low` catches exactly; then there is no bound. docs/explanation/error-bounds-pooling.md has
// proofs.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "halfulp/sum_plan.hpp"
#include "base/kernel_table.hpp"

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

// Exactness of the arithmetic, as the caller has found it for a block of input.
enum SumMode : int { kSingleExact, kSingleBounded, kDoubleExact, kDoubleBounded, kSumModes };

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

template <class Source>
struct SourceKernels {
  MagnitudeRange (*scan)(const Source* x, Index n);
  // out = the weighted sum of `count` >= 1 rows, at offsets from x; weights may be null. Index 0: exact, 1: bounded.
  void (*add_rows[2])(const Source* x, const Index* rows, const double* weights, Index count, Index n, const Sums& out);
  // out += entering - leaving, exactly.
  void (*slide)(const Source* leaving, const Source* entering, Index n, const Sums& out);
};

struct SumKernels {
  SourceKernels<float> f32;
  SourceKernels<double> f64;
  // By SumMode: the same for rows that are sums already.
  void (*add_sums[kSumModes])(const Sums& in, const Index* rows, const double* weights, Index count, Index n,
                              const Sums& out);
  void (*slide_sums[2])(const Sums& leaving, const Sums& entering, Index n, const Sums& out);  // by type
  void (*add_along[kSumModes])(const AlongTask& task, const Sums& in);
  void (*scale[kSumModes])(const Sums& values, const double* weights, Index lanes, Index n);
  // Rounds sums / divisor; the positions of undecided quotients go to `undecided`, their number is returned.
  Index (*finish_f16[2])(const Sums& in, Index n, const SumDivisor& divisor, Float16* out, std::int32_t* undecided);
  Index (*finish_bf16[2])(const Sums& in, Index n, const SumDivisor& divisor, BFloat16* out, std::int32_t* undecided);
  Index (*finish_f32[2])(const Sums& in, Index n, const SumDivisor& divisor, float* out, std::int32_t* undecided);
  Index (*finish_f64[2])(const Sums& in, Index n, const SumDivisor& divisor, double* out, std::int32_t* undecided);
};

HALFULP_KERNEL_TABLE(SumKernels, sum_kernels)

}  // namespace halfulp
