// Whether the sums of a plan are exact, given the magnitudes of their sources.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "exact/exact_sum.hpp"
#include "exact/round.hpp"
#include "average/sum_layout.hpp"

namespace halfulp {

// Sums of numbers of type T. Magnitudes are those of the sources in a format S that holds T.
template <class T>
class SumRange {
 public:
  SumRange(const SumPlan& plan, const SumLayout& layout) {
    double divisor = plan.divisor == 0 ? 1.0 : static_cast<double>(plan.divisor);
    for (const SumAxis* axis : layout.axes) {
      terms_log2_ += std::log2(static_cast<double>(axis->largest_count() + 1) * axis->largest_weight());
      if (plan.divisor == 0 && axis->outputs() > 0)
        divisor *= 1.0 + static_cast<double>(*std::max_element(axis->divisor.begin(), axis->divisor.end()));
    }
    divisor_log2_ = std::log2(std::abs(divisor));
    divides_ = divisor > 0.0 && divisor < 0x1p28;
  }

  // The divisors are positive and small enough for exact quotients.
  bool divides() const noexcept { return divides_; }

  // Whether sums in float64 (in pairs for float64) are exact and, in float64, have a bit to spare for their quotients.
  template <class S>
  bool exact(const MagnitudeRange& range) const {
    using F = format_of<T>;
    if constexpr (std::is_same_v<T, double>) {
      return exact_pair<S>(range);
    } else {
      if (!divides_) return false;
      if (range.largest == 0) return true;
      if (range.largest >= format_of<S>::infinity) return false;
      const int lowest = grid<S>(range);
      if (exponent_of<S>(range.largest) + 1 + terms_log2_ > 52 + lowest) return false;
      // bfloat16 is rounded by way of a float, which must not be subnormal.
      return !std::is_same_v<T, BFloat16> || lowest - divisor_log2_ >= F::min_exponent;
    }
  }

  // Whether sum and low together are exact: low collects at most 2 N errors of at most 2^-53 N 2^top each and must stay
  // below 2^53 steps of the grid.
  template <class S>
  bool exact_pair(const MagnitudeRange& range) const {
    if (range.largest == 0) return true;
    if (range.largest >= format_of<S>::infinity) return false;
    const int top = exponent_of<S>(range.largest) + 1, lowest = grid<S>(range);
    return top + 2 * terms_log2_ + 1 - 53 <= 53 + lowest && lowest > -900 && top + terms_log2_ < 1000;
  }

  // Nothing that is added up exceeds this.
  template <class S>
  double largest_sum(const MagnitudeRange& range) const {
    return std::ldexp(std::exp2(terms_log2_), exponent_of<S>(range.largest) + 1);
  }

  // The exponent of a magnitude given as bits: |x| lies in [2^e, 2^(e+1)), or below 2^(e+1) if it is subnormal.
  template <class S>
  static int exponent_of(std::uint64_t bits) {
    using F = format_of<S>;
    return std::max(static_cast<int>(bits >> (F::precision - 1)), 1) - F::max_exponent;
  }

 private:
  // All sources are multiples of 2^grid.
  template <class S>
  static int grid(const MagnitudeRange& range) {
    using F = format_of<T>;
    return std::max(exponent_of<S>(range.smallest + 1) - F::precision + 1, F::tiny_exponent);
  }

  double terms_log2_ = 0.0;    // log2 of a bound on the number of weighted terms, sliding included
  double divisor_log2_ = 0.0;  // log2 of a bound on the divisor
  bool divides_ = false;
};

// The quotient of an exact sum in two parts, rounded once.
template <class T>
T exact_quotient(double sum, double low, Index divisor) {
  typename ExactSums<T>::terms exact;
  exact.add(sum);
  if (low != 0.0) exact.add(low);
  return exact.template round_quotient<T>(divisor);
}

}  // namespace halfulp
