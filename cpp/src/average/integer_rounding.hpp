// Sums of integers of any size over a divisor, rounded once to any type.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "exact/exact_sum.hpp"
#include "exact/round.hpp"
#include "halfulp/array.hpp"

namespace halfulp {

// The limits of an integer type as magnitudes: values lie in [-below, above].
struct Limits {
  std::uint64_t below, above;
};

template <class T>
constexpr Limits limits_of() {
  if constexpr (std::is_same_v<T, Bool>) {
    return {0, 1};
  } else {
    return {std::is_signed_v<T> ? static_cast<std::uint64_t>(std::numeric_limits<T>::max()) + 1 : 0,
            static_cast<std::uint64_t>(std::numeric_limits<T>::max())};
  }
}

// A sum as high * 2^32 + low, 0 <= low < 2^32.
struct SplitSum {
  Index high;
  std::uint64_t low;
};

inline SplitSum normalised(Index high, Index low) {
  return {high + (low >> 32), static_cast<std::uint64_t>(low) & 0xffffffffu};
}

// An unsigned number of 96 bits over one of 63: quotient and remainder. The quotient has 96 bits too.
struct Division {
  std::uint64_t high, low;  // quotient = high * 2^32 + low
  std::uint64_t remainder;
};

inline Division divide(std::uint64_t high, std::uint64_t low, std::uint64_t divisor) {
  if (divisor >> 31 == 0) {
    const std::uint64_t rest = ((high % divisor) << 32) | low;
    return {high / divisor, rest / divisor, rest % divisor};
  }
  std::uint64_t quotient = 0, remainder = high % divisor;
  for (int bit = 31; bit >= 0; --bit) {
    remainder = (remainder << 1) | ((low >> bit) & 1);
    quotient <<= 1;
    if (remainder >= divisor) {
      remainder -= divisor;
      quotient |= 1;
    }
  }
  return {high / divisor, quotient, remainder};
}

// The sum over a divisor to nearest even; false if it does not fit.
template <class T>
bool round_to_integer(SplitSum sum, Index divisor, T& out) {
  const bool below = sum.high < 0;
  std::uint64_t high = static_cast<std::uint64_t>(sum.high), low = sum.low;
  if (below) {  // the magnitude, in two's complement of 96 bits
    low = (~low + 1) & 0xffffffffu;
    high = ~high + (low == 0 ? 1 : 0);
  }
  const std::uint64_t d = magnitude_of(divisor);
  Division q = divide(high, low, d);
  const bool up = q.remainder > d - q.remainder || (q.remainder == d - q.remainder && (q.low & 1) != 0);
  if (up && q.remainder != 0) {
    q.low += 1;
    q.high += q.low >> 32;
    q.low &= 0xffffffffu;
  }
  const bool negative = below != (divisor < 0);
  constexpr Limits limits = limits_of<T>();
  if (q.high >> 32 != 0) return false;
  const std::uint64_t magnitude = (q.high << 32) | q.low;
  if (magnitude > (negative ? limits.below : limits.above)) return false;
  const std::uint64_t value = negative ? ~magnitude + 1 : magnitude;
  if constexpr (std::is_same_v<T, Bool>) out = {static_cast<std::uint8_t>(value)};
  else out = static_cast<T>(value);
  return true;
}

template <class T>
T round_to_float(SplitSum sum, Index divisor) {
  ExactSums<double>::terms exact;
  exact.add(static_cast<double>(sum.high >> 32) * 0x1p64);
  exact.add(static_cast<double>(sum.high & 0xffffffff) * 0x1p32);
  exact.add(static_cast<double>(sum.low));
  exact.add(0.0);
  return exact.round_quotient<T>(divisor);
}

template <class T>
constexpr bool is_float_type = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> || std::is_same_v<T, float> ||
                               std::is_same_v<T, double>;

// The quotient of a sum that is no small integer, as a float. The sum is exactly that of two doubles; the quotient of
// the larger one, corrected by the remainder and the smaller one, nearly always shows how the exact one is rounded.
template <class T>
T round_large(SplitSum sum, Index divisor) {
  constexpr Index exact = Index{1} << 52;
  if (sum.high < exact && sum.high > -exact && divisor < exact && divisor > -exact) {
    const double d = static_cast<double>(divisor);
    const TwoDoubles s = two_sum(static_cast<double>(sum.high) * 0x1p32, static_cast<double>(sum.low));
    const double q = s.high / d, c = (std::fma(-q, d, s.high) + s.low) / d, error = std::fabs(c) * 0x1p-50;
    double from = q + (c - error), to = q + (c + error);
    if constexpr (std::is_same_v<T, double>) {
      if (from == to) return from;
    } else {  // the ends themselves were rounded
      constexpr double infinity = std::numeric_limits<double>::infinity();
      from = std::nextafter(from, -infinity);
      to = std::nextafter(to, infinity);
      if (same_rounding<T>(from, to)) return round_to<T>(from);
    }
  }
  return round_to_float<T>(sum, divisor);
}

// Sums of any size to any type. Returns the first place whose value does not fit, or -1.
template <class T>
Index round_means(const Index* high, const Index* low, Index divisor, T* out, Index n) {
  Index wrong = -1;
  // As the mean of integers in integer_kernels.cpp, with the limits of T on top.
  constexpr Index small = Index{1} << 51;
  const bool quick = divisor > -(Index{1} << 26) && divisor < (Index{1} << 26);
  const double d = static_cast<double>(divisor);
  for (Index i = 0; i < n; ++i) {
    const SplitSum sum = high == nullptr ? SplitSum{low[i] >> 32, static_cast<std::uint64_t>(low[i]) & 0xffffffffu}
                                         : normalised(high[i], low[i]);
    const bool fits = quick && sum.high < (small >> 32) && sum.high >= -(small >> 32);
    const double value = static_cast<double>(sum.high) * 0x1p32 + static_cast<double>(sum.low);
    if constexpr (is_float_type<T>) {
      if (fits && value != 0) out[i] = round_to<T>(value / d);
      else if (sum.high == 0 && sum.low == 0) out[i] = round_to<T>(0.0);
      else out[i] = round_large<T>(sum, divisor);
    } else {
      bool good;
      if (fits && sizeof(T) < 8) {
        constexpr double magic = 0x1.8p52;
        const double q = (value / d + magic) - magic;
        constexpr Limits limits = limits_of<T>();
        good = q >= -static_cast<double>(limits.below) && q <= static_cast<double>(limits.above);
        const Index whole = good ? static_cast<Index>(q) : 0;
        if constexpr (std::is_same_v<T, Bool>) out[i] = {static_cast<std::uint8_t>(whole)};
        else out[i] = static_cast<T>(whole);
      } else {
        T rounded{};
        good = round_to_integer<T>(sum, divisor, rounded);
        out[i] = rounded;
      }
      if (!good && wrong < 0) wrong = i;
    }
  }
  return wrong;
}

}  // namespace halfulp
