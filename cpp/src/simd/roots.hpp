// The roots 2^(i/256): one table for exponentials and logarithms.
#pragma once

#include <array>

#include "simd/look_up.hpp"
#include "simd/pair.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr int kRoots = 256;
// ln 2 / 256 in parts of 33, 53 and 53 bits: k times the first is exact for |k| < 2^20.
constexpr double kRootLn2First = 0x1.62e42ffp-9, kRootLn2Second = -0x1.718432a1b0e26p-43,
                 kRootLn2Third = -0x1.9ff0342542fc3p-98;

// 2^(i/256), and by how much of itself that is too small: products of 2^(1/2), 2^(1/4), ..., 2^(1/256).
constexpr std::array<double, 2 * kRoots> roots() {
  constexpr Pair halvings[8] = {
      {0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54}, {0x1.306fe0a31b715p+0, 0x1.6f46ad23182e4p-55},
      {0x1.172b83c7d517bp+0, -0x1.19041b9d78a76p-55}, {0x1.0b5586cf9890fp+0, 0x1.8a62e4adc610bp-54},
      {0x1.059b0d3158574p+0, 0x1.d73e2a475b465p-55},  {0x1.02c9a3e778061p+0, -0x1.19083535b085dp-56},
      {0x1.0163da9fb3335p+0, 0x1.b61299ab8cdb7p-54},  {0x1.00b1afa5abcbfp+0, -0x1.4f6b2a7609f71p-55}};
  std::array<double, 2 * kRoots> all{};
  for (unsigned i = 0; i < kRoots; ++i) {
    Pair root{1.0, 0.0};
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((i >> (7 - bit) & 1) == 0) continue;
      const Pair by = halvings[bit];
      const double high = root.high * by.high;
      const double a = root.high * 0x8000001p0, b = by.high * 0x8000001p0;  // halves of 26 bits, as in product_of
      const double a1 = a - (a - root.high), b1 = b - (b - by.high), a2 = root.high - a1, b2 = by.high - b1;
      const double lost = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2;
      const double low = lost + (root.high * by.low + root.low * by.high);
      root = {high + low, low - ((high + low) - high)};
    }
    all[2 * i] = root.high;
    all[2 * i + 1] = root.low / root.high;
  }
  return all;
}
alignas(64) constexpr std::array<double, 2 * kRoots> kRootTable = roots();

// 2^(n/256) = power (1 + rest). The integer n, not far from zero, stands in the low bits of `number`.
struct RootPower {
  Doubles power, rest;
};
HALFULP_ALWAYS_INLINE RootPower root_power(const Doubles& number) {
  using Bits = Vector<std::uint64_t>;
  const Bits n = reinterpret<Bits>(number);
  RootPower root;
  look_up_pairs(kRootTable.data(), (n + n) & (2 * kRoots - 1), root.power, root.rest);
  root.power = reinterpret<Doubles>(reinterpret<Bits>(root.power) + ((n & ~std::uint64_t{kRoots - 1}) << 44));
  return root;
}

// kRounder - n for the integer n with |256 log2(s) - n| < 0.53, 2^-1000 < s < 2^1000: 0 where s is that close to 1.
HALFULP_ALWAYS_INLINE Doubles nearest_root(const Doubles& s) {
  using Bits = Vector<std::uint64_t>;
  const Bits bits = reinterpret<Bits>(s);
  const Doubles exponent = reinterpret<Doubles>((bits >> 52) | 0x4330000000000000) - (0x1p52 + 1023.0);
  const Doubles m = reinterpret<Doubles>((bits & (~std::uint64_t{0} >> 12)) | (std::uint64_t{1023} << 52)) - 1.0;
  // log2(1 + m) within 0.0001 on [0, 1]
  Doubles binary = multiply_add(m, splat(-0.08161577), splat(0.31867906));
  binary = multiply_add(binary, m, splat(-0.67494285));
  binary = multiply_add(binary, m, splat(1.43770438));
  binary = multiply_add(binary, m, Doubles(exponent + 0.00008759));
  return kRounder - binary * static_cast<double>(kRoots);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
