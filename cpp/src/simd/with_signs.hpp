// Floats with the signs of others, as float64.
#pragma once

#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Cells times the signs of others that are not NaN; +0 where these are 0.
inline Doubles load_with_signs(const float* signs, const float* cells) {
#if defined(HALFULP_X86) && !defined(HALFULP_AVX2)
  using Bits = Vector<std::uint64_t>;  // two floats fill no register
  const Doubles sign = load_doubles(signs);
  const Bits flip = reinterpret<Bits>(sign) & reinterpret<Bits>(splat(-0.0));
  return reinterpret<Doubles>((reinterpret<Bits>(load_doubles(cells)) ^ flip) & reinterpret<Bits>(sign != splat(0.0)));
#else
  constexpr int bytes = sizeof(Floats);
  using Bits = Vector<std::uint32_t, bytes>;
  const Floats sign = load<float, bytes>(signs);
  const Bits flip = reinterpret<Bits>(sign) & splat<std::uint32_t, bytes>(0x80000000u);
  const Bits turned = reinterpret<Bits>(load<float, bytes>(cells)) ^ flip;
  return to_doubles(reinterpret<Floats>(turned & reinterpret<Bits>(sign != Floats{})));
#endif
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
