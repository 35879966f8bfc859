// Rounding to a floating-point format: once, to nearest, ties to even, with gradual underflow and overflow to infinity.
//
// Two users: exact results (an integer significand with a sticky bit) are rounded by `assemble`; fast results (a double
// or a double-double with an error bound) are accepted when both ends of the error interval round to the same number.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "halfulp/dtype.hpp"

namespace halfulp {

// Files that are compiled once per instruction set keep these functions to themselves: the linker must not merge
// copies.
#ifdef HALFULP_ISA_NAMESPACE
namespace {
#endif

// A binary interchange format: `precision` counts the hidden bit, the largest finite number is below
// 2^(max_exponent+1).
template <int Precision, int MaxExponent, class BitsType>
struct Format {
  using bits_type = BitsType;
  static constexpr int precision = Precision;
  static constexpr int max_exponent = MaxExponent;
  static constexpr int min_exponent = 1 - MaxExponent;             // of the smallest normal number
  static constexpr int tiny_exponent = min_exponent - Precision + 1;  // the smallest subnormal is 2^tiny_exponent
  static constexpr int width = std::numeric_limits<BitsType>::digits;
  static constexpr BitsType infinity =
      static_cast<BitsType>(static_cast<BitsType>(2 * MaxExponent + 1) << (Precision - 1));
  static constexpr BitsType quiet_nan = static_cast<BitsType>(infinity | (BitsType{1} << (Precision - 2)));
  static constexpr BitsType sign = static_cast<BitsType>(BitsType{1} << (width - 1));
};

using Binary16 = Format<11, 15, std::uint16_t>;
using BrainFloat16 = Format<8, 127, std::uint16_t>;
using Binary32 = Format<24, 127, std::uint32_t>;
using Binary64 = Format<53, 1023, std::uint64_t>;

// The format of a C++ type.
template <class T>
struct FormatOf;
template <>
struct FormatOf<Float16> {
  using type = Binary16;
};
template <>
struct FormatOf<BFloat16> {
  using type = BrainFloat16;
};
template <>
struct FormatOf<float> {
  using type = Binary32;
};
template <>
struct FormatOf<double> {
  using type = Binary64;
};
template <class T>
using format_of = typename FormatOf<T>::type;

// The bits of the number nearest to ±(significand + t) * 2^exponent, where t is 0, or, if `sticky`, somewhere strictly
// between 0 and 1. A sticky significand must have its top bit set, so that t lies below every bit that is kept.
template <class F>
constexpr typename F::bits_type assemble(bool negative, std::uint64_t significand, int exponent, bool sticky) {
  using Bits = typename F::bits_type;
  const Bits sign = negative ? F::sign : Bits{0};
  if (significand == 0) return sign;
  const int shift_up = std::countl_zero(significand);
  significand <<= shift_up;
  exponent -= shift_up;
  const int top = exponent + 63;  // the value lies in [2^top, 2^(top+1))
  if (top > F::max_exponent) return sign | F::infinity;
  const int lowest = (top < F::min_exponent ? F::min_exponent : top) - F::precision + 1;  // weight of the last bit kept
  const int drop = lowest - exponent;                                                     // how many bits go; >= 11
  if (drop > 64) return sign;                                                             // below half the last bit
  std::uint64_t kept = drop == 64 ? 0 : significand >> drop;
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t rest = drop == 64 ? significand : significand & ((std::uint64_t{1} << drop) - 1);
  if (rest > half || (rest == half && (sticky || (kept & 1) != 0))) ++kept;
  // A carry out of the significand moves into the exponent field by itself, up to and including infinity.
  const std::uint64_t exponent_field =
      top < F::min_exponent ? 0 : static_cast<std::uint64_t>(top - F::min_exponent) << (F::precision - 1);
  return static_cast<Bits>(sign | (exponent_field + kept));
}

// The bits of a double rounded to F. Without branches on the value, so that loops over it vectorise.
template <class F>
inline typename F::bits_type round_bits(double value) {
  using Bits = typename F::bits_type;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & ~Binary64::sign;
  constexpr int drop = 53 - F::precision;
  // Normal numbers: round the bit pattern, then move the exponent's bias.
  constexpr std::uint64_t bias = static_cast<std::uint64_t>(1023 - F::max_exponent) << (F::precision - 1);
  const std::uint64_t normal =
      ((magnitude + ((magnitude >> drop) & 1) + ((std::uint64_t{1} << (drop - 1)) - 1)) >> drop) - bias;
  // Subnormal numbers: adding 2^(tiny+52), whose ulp is 2^tiny, makes the processor round at the right bit.
  constexpr std::uint64_t shifter = static_cast<std::uint64_t>(F::tiny_exponent + 52 + 1023) << 52;
  const double shifted = std::bit_cast<double>(magnitude) + std::bit_cast<double>(shifter);
  const std::uint64_t subnormal = std::bit_cast<std::uint64_t>(shifted) - shifter;
  constexpr std::uint64_t smallest_normal = static_cast<std::uint64_t>(F::min_exponent + 1023) << 52;
  constexpr std::uint64_t overflow = static_cast<std::uint64_t>(F::max_exponent + 1 + 1023) << 52;
  std::uint64_t result = magnitude < smallest_normal ? subnormal : normal;
  result = magnitude >= overflow ? std::uint64_t{F::infinity} : result;
  result = magnitude > Binary64::infinity ? std::uint64_t{F::quiet_nan} : result;
  return static_cast<Bits>(result | ((bits >> 63) << (F::width - 1)));
}
template <>
inline std::uint32_t round_bits<Binary32>(double value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}
template <>
inline std::uint64_t round_bits<Binary64>(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

// A double rounded to T.
template <class T>
inline T round_to(double value) {
  return std::bit_cast<T>(round_bits<format_of<T>>(value));
}

// Whether every real number in [low, high] rounds to the same T, signs of zero included: rounding is monotonic, so the
// two ends decide. NaN ends are never the same.
template <class T>
inline bool same_rounding(double low, double high) {
  const auto a = round_bits<format_of<T>>(low);
  const auto b = round_bits<format_of<T>>(high);
  return (a == b) & (low <= high);
}

// Whether every real number in [v - error, v + error], v = high + low exactly, rounds to the same nonzero double. The
// subtraction and addition of `error` round too: `error` must include 2^-53 * (|low| + error) for that.
inline bool same_rounding(double high, double low, double error) {
  const double a = high + (low - error);
  return (a == high + (low + error)) & (a != 0.0);
}

// s + e == a + b exactly, s == fl(a + b) (any magnitudes, no overflow).
struct TwoDoubles {
  double high;
  double low;
};
inline TwoDoubles two_sum(double a, double b) {
  const double s = a + b;
  const double from_b = s - a;
  const double from_a = s - from_b;
  return {s, (a - from_a) + (b - from_b)};
}
// The same if |a| >= |b| or a == 0.
inline TwoDoubles fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}

#ifdef HALFULP_ISA_NAMESPACE
}
#endif
}  // namespace halfulp
