// Sums without rounding error: a fixed-point number wide enough for every term, and the rules for zeros, infinities
// and NaNs. The slow path of every operator: it decides the outputs that a fast path could not.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "exact/round.hpp"

namespace halfulp {

// The product of two 64-bit integers as (high, low) words, in portable arithmetic.
struct WideProduct {
  std::uint64_t high;
  std::uint64_t low;
};
constexpr WideProduct multiply_wide(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t mask = 0xffffffffu;
  const std::uint64_t low = (a & mask) * (b & mask);
  const std::uint64_t cross = (a >> 32) * (b & mask) + (low >> 32);
  const std::uint64_t other = (a & mask) * (b >> 32) + (cross & mask);
  return {(a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32), (other << 32) | (low & mask)};
}

constexpr std::uint64_t magnitude_of(std::int64_t value) {
  return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
}

// The exact sum of terms that are multiples of 2^Low below 2^High in magnitude, for up to 2^63 terms, each times an
// integer below 2^63. Two's complement; the value is the integer in `limbs_` times 2^Low.
//
// Meaning of special terms: any NaN gives NaN; +inf with -inf and 0 * inf give NaN; otherwise an infinity wins; a sum
// that is exactly zero is +0, unless there are terms and every one of them is -0.
template <int Low, int High>
class ExactSum {
 public:
  void add(double x) { add_integer_multiple(x, 1); }

  // x times an integer: one term, with the sign that the IEEE product has.
  void add(double x, std::int64_t times) { add_integer_multiple(x, times); }

  // The product x * y, exactly: one term, with the sign that the IEEE product has.
  void add_product(double x, double y) {
    const Parts a = split(x);
    const Parts b = split(y);
    const bool negative = a.negative != b.negative;
    if (a.special || b.special || a.significand == 0 || b.significand == 0) return note_special(x * y);
    const WideProduct product = multiply_wide(a.significand, b.significand);
    add_words(product.low, product.high, a.exponent + b.exponent, negative);
  }

  // The sum of two exact sums.
  void add(const ExactSum& other) {
    bool carry = false;
    for (int i = 0; i < limb_count; ++i) limbs_[i] = add_with_carry(limbs_[i], other.limbs_[i], carry);
    nan_ = nan_ || other.nan_;
    positive_infinity_ = positive_infinity_ || other.positive_infinity_;
    negative_infinity_ = negative_infinity_ || other.negative_infinity_;
    any_term_ = any_term_ || other.any_term_;
    only_negative_zeros_ = only_negative_zeros_ && other.only_negative_zeros_;
  }

  // The sum, rounded once.
  template <class T>
  T round() const {
    return round_quotient<T>(1);
  }

  // The sum divided by a nonzero integer, rounded once.
  template <class T>
  T round_quotient(std::int64_t divisor) const {
    using F = format_of<T>;
    static_assert(Low < F::tiny_exponent, "the last bit that rounding needs must be inside the accumulator");
    return std::bit_cast<T>(round_quotient_bits<F>(divisor));
  }

 private:
  static constexpr int limb_count =
      (High - Low + 63 + 63) / 64 + 1;  // 63 bits for the integers, 63 for the count, a sign
  using Limbs = std::array<std::uint64_t, static_cast<std::size_t>(limb_count) + 1>;

  struct Parts {  // |x| = significand * 2^exponent
    std::uint64_t significand;
    int exponent;
    bool negative;
    bool special;  // infinite or NaN
  };

  static Parts split(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const int field = static_cast<int>((bits >> 52) & 0x7ff);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    const bool negative = (bits >> 63) != 0;
    if (field == 0) return {fraction, -1074, negative, false};
    return {fraction | (std::uint64_t{1} << 52), field - 1075, negative, field == 0x7ff};
  }

  void add_integer_multiple(double x, std::int64_t times) {
    const Parts a = split(x);
    if (a.special || a.significand == 0 || times == 0) return note_special(x * static_cast<double>(times));
    const WideProduct product = multiply_wide(a.significand, magnitude_of(times));
    add_words(product.low, product.high, a.exponent, a.negative != (times < 0));
  }

  void note_special(double x) {  // a zero, an infinity or a NaN
    any_term_ = true;
    if (x == 0) {
      only_negative_zeros_ = only_negative_zeros_ && std::bit_cast<std::uint64_t>(x) != 0;
      return;
    }
    only_negative_zeros_ = false;
    nan_ = nan_ || x != x;
    positive_infinity_ = positive_infinity_ || x > 0;
    negative_infinity_ = negative_infinity_ || x < 0;
  }

  static std::uint64_t add_with_carry(std::uint64_t a, std::uint64_t b, bool& carry) {
    const std::uint64_t partial = a + b;
    const std::uint64_t sum = partial + (carry ? 1 : 0);
    carry = partial < a || sum < partial;
    return sum;
  }

  // Adds ±(high * 2^64 + low) * 2^exponent. Bits below 2^Low are zero by the template's contract.
  void add_words(std::uint64_t low, std::uint64_t high, int exponent, bool negative) {
    any_term_ = true;
    only_negative_zeros_ = false;
    int position = exponent - Low;
    if (position < 0) {  // only trailing zeros of the significand lie below Low
      const int down = -position;
      low = down >= 64 ? high >> (down - 64) : (low >> down) | (high << 1 << (63 - down));
      high = down >= 64 ? 0 : high >> down;
      position = 0;
    }
    const int shift = position & 63;
    std::array<std::uint64_t, 3> words = {low << shift, (high << shift) | (low >> 1 >> (63 - shift)),
                                          high >> 1 >> (63 - shift)};
    // Subtraction adds the complement: ~word in every limb from here up, plus one.
    bool carry = negative;
    for (int i = position / 64, w = 0; i < limb_count; ++i, ++w) {
      const std::uint64_t word = w < 3 ? words[static_cast<std::size_t>(w)] : 0;
      limbs_[static_cast<std::size_t>(i)] =
          add_with_carry(limbs_[static_cast<std::size_t>(i)], negative ? ~word : word, carry);
      if (w >= 2 && carry == negative)
        break;  // no carry, or a borrow that has been paid back: the rest does not change
    }
  }

  template <class F>
  typename F::bits_type round_quotient_bits(std::int64_t divisor) const {
    using Bits = typename F::bits_type;
    if (nan_ || (positive_infinity_ && negative_infinity_)) return F::quiet_nan;
    if (positive_infinity_ || negative_infinity_) {
      return static_cast<Bits>(F::infinity | (negative_infinity_ != (divisor < 0) ? F::sign : Bits{0}));
    }
    const bool below_zero = (limbs_[limb_count - 1] >> 63) != 0;
    Limbs magnitude = absolute(below_zero);
    const bool remainder = divide(magnitude, magnitude_of(divisor));
    int top = limb_count - 1;
    while (top >= 0 && magnitude[static_cast<std::size_t>(top)] == 0) --top;
    const bool negative = below_zero != (divisor < 0);
    if (top < 0) {  // zero, or below 2^Low and so below half the smallest subnormal
      const bool negative_zero = any_term_ && only_negative_zeros_;
      return (remainder ? negative : negative_zero != (divisor < 0)) ? F::sign : Bits{0};
    }
    return round_magnitude<F>(magnitude, top, negative, remainder);
  }

  template <class F>
  static typename F::bits_type round_magnitude(const Limbs& limbs, int top, bool negative, bool sticky) {
    const auto at = [&](int i) { return i < 0 ? std::uint64_t{0} : limbs[static_cast<std::size_t>(i)]; };
    const int up = std::countl_zero(at(top));
    const std::uint64_t significand = (at(top) << up) | (at(top - 1) >> 1 >> (63 - up));
    sticky = sticky || (at(top - 1) << up) != 0;
    for (int i = top - 2; i >= 0 && !sticky; --i) sticky = at(i) != 0;
    return assemble<F>(negative, significand, Low + 64 * top - up, sticky);
  }

  Limbs absolute(bool below_zero) const {
    Limbs result{};
    bool carry = below_zero;
    for (std::size_t i = 0; i < limb_count; ++i) {
      result[i] = below_zero ? add_with_carry(~limbs_[i], 0, carry) : limbs_[i];
    }
    return result;
  }

  // Divides in place, from the top; true if there is a remainder.
  static bool divide(Limbs& limbs, std::uint64_t divisor) {
    if (divisor == 1) return false;
    std::uint64_t remainder = 0;
    for (int i = limb_count - 1; i >= 0; --i) {
      std::uint64_t& limb = limbs[static_cast<std::size_t>(i)];
      if (limb == 0 && remainder == 0) continue;
      limb = divisor >> 32 == 0 ? divide_short(limb, divisor, remainder) : divide_long(limb, divisor, remainder);
    }
    return remainder != 0;
  }

  // The quotient of remainder * 2^64 + limb, by two digits of 32 bits; the remainder is below the divisor.
  static std::uint64_t divide_short(std::uint64_t limb, std::uint64_t divisor, std::uint64_t& remainder) {
    const std::uint64_t upper = (remainder << 32) | (limb >> 32);
    const std::uint64_t lower = ((upper % divisor) << 32) | (limb & 0xffffffffu);
    remainder = lower % divisor;
    return ((upper / divisor) << 32) | (lower / divisor);
  }

  // The same for divisors up to 2^63, bit by bit: the doubled remainder never exceeds 64 bits.
  static std::uint64_t divide_long(std::uint64_t limb, std::uint64_t divisor, std::uint64_t& remainder) {
    std::uint64_t quotient = 0;
    for (int bit = 63; bit >= 0; --bit) {
      remainder = (remainder << 1) | ((limb >> bit) & 1);
      quotient <<= 1;
      if (remainder >= divisor) {
        remainder -= divisor;
        quotient |= 1;
      }
    }
    return quotient;
  }

  Limbs limbs_{};  // one spare limb, always zero
  bool nan_ = false;
  bool positive_infinity_ = false;
  bool negative_infinity_ = false;
  bool any_term_ = false;
  bool only_negative_zeros_ = true;
};

// For terms x (times an integer) and for products x * y of numbers of a type.
template <class T>
struct ExactSums {  // float16, bfloat16 and float32: all are float32 numbers
  using terms = ExactSum<-160, 128>;
  using products = ExactSum<-298, 256>;
};
template <>
struct ExactSums<double> {
  using terms = ExactSum<-1088, 1024>;
  using products = ExactSum<-2148, 2048>;
};

}  // namespace halfulp
