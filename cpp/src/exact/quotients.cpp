#include "exact/quotients.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace halfulp::detail {
namespace {

// A natural number: words of 32 bits, least first, none on top that is 0.
using Natural = std::vector<std::uint32_t>;

void trim(Natural& a) {
  while (!a.empty() && a.back() == 0) a.pop_back();
}

Natural natural(std::uint64_t value) {
  Natural a{static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
  trim(a);
  return a;
}

Natural times(const Natural& a, const Natural& b) {
  Natural product(a.size() + b.size(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      carry += std::uint64_t{a[i]} * b[j] + product[i + j];
      product[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    product[i + b.size()] = static_cast<std::uint32_t>(carry);
  }
  trim(product);
  return product;
}

Natural shifted(const Natural& a, int bits) {
  Natural factor(static_cast<std::size_t>(bits / 32) + 1, 0);
  factor.back() = std::uint32_t{1} << (bits % 32);
  return times(a, factor);
}

int compare(const Natural& a, const Natural& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (std::size_t i = a.size(); i-- > 0;)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

Natural plus(const Natural& a, const Natural& b) {
  Natural sum;
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
    carry += (i < a.size() ? a[i] : 0u) + std::uint64_t{i < b.size() ? b[i] : 0u};
    sum.push_back(static_cast<std::uint32_t>(carry));
    carry >>= 32;
  }
  return sum;
}

Natural minus(const Natural& a, const Natural& b) {  // a >= b
  Natural difference = a;
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t word = std::int64_t{a[i]} - (i < b.size() ? b[i] : 0) + borrow;
    borrow = word < 0 ? -1 : 0;
    difference[i] = static_cast<std::uint32_t>(word);
  }
  trim(difference);
  return difference;
}

int bit_length(const Natural& a) {
  return a.empty() ? 0 : static_cast<int>(a.size()) * 32 - std::countl_zero(a.back());
}

struct Integer {
  Natural magnitude;
  bool negative = false;
};

Integer plus(const Integer& a, const Integer& b) {
  if (a.negative == b.negative) return {plus(a.magnitude, b.magnitude), a.negative};
  if (compare(a.magnitude, b.magnitude) >= 0) return {minus(a.magnitude, b.magnitude), a.negative};
  return {minus(b.magnitude, a.magnitude), b.negative};
}

struct Parts {
  std::uint64_t significand;
  int exponent;
};

Parts split(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int field = static_cast<int>((bits >> 52) & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  return field == 0 ? Parts{fraction, -1074} : Parts{fraction | (std::uint64_t{1} << 52), field - 1075};
}

// numerator / denominator * 2^exponent with 64 bits of quotient and a sticky bit, by long division.
Scaled divided(const Integer& numerator, const Natural& denominator, int exponent) {
  if (numerator.magnitude.empty()) return {false, 0, 0, false};
  // The quotient of these has 64 or 65 bits before the division is done.
  const int up = 64 + bit_length(denominator) - bit_length(numerator.magnitude);
  Natural remainder = up > 0 ? shifted(numerator.magnitude, up) : numerator.magnitude;
  const Natural divisor = up < 0 ? shifted(denominator, -up) : denominator;
  std::uint64_t quotient = 0;
  bool overflow = false, dropped = false;
  for (int bit = 64; bit >= 0; --bit) {
    const Natural step = shifted(divisor, bit);
    const bool one = compare(remainder, step) >= 0;
    if (one) remainder = minus(remainder, step);
    if (bit == 64) {
      overflow = one;
      continue;
    }
    quotient = (quotient << 1) | (one ? 1u : 0u);
  }
  int scale = exponent - up;
  if (overflow) {
    dropped = (quotient & 1) != 0;
    quotient = (quotient >> 1) | (std::uint64_t{1} << 63);
    ++scale;
  }
  return {numerator.negative, quotient, scale, dropped || !remainder.empty()};
}

}  // namespace

Scaled sum_with_large_divisors(std::span<const Quotient> terms) {
  int lowest = 1024;
  for (const Quotient& term : terms)
    if (term.value != 0) lowest = std::min(lowest, split(term.value).exponent);
  Integer numerator;
  Natural denominator = natural(1);
  for (const Quotient& term : terms) {
    if (term.value == 0) continue;
    const Parts parts = split(term.value);
    const Natural divisor = natural(static_cast<std::uint64_t>(term.divisor));
    const Natural scaled = shifted(natural(parts.significand), parts.exponent - lowest);
    numerator = plus(Integer{times(numerator.magnitude, divisor), numerator.negative},
                     Integer{times(scaled, denominator), term.value < 0});
    denominator = times(denominator, divisor);
  }
  return divided(numerator, denominator, lowest);
}

}  // namespace halfulp::detail
