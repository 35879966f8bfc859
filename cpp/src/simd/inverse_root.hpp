// 1 / sqrt(s) from an estimate of the processor, without a root and a division, which take several times as long.
#pragma once

#include "simd/products.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The largest number that inverse_root takes.
inline constexpr double kMostRooted = 0x1.fffffep127;

// Off by less than 3 * 2^-53 of itself; not finite where s is 0, NaN or, but for AVX-512, below the normal floats. With
// an estimate z and h = 1 - s z^2 it is z / sqrt(1 - h), whose series is cut off at less than 2^-53: |h| < 2^-10.4, in
// AVX-512 |h| < 2^-12.9.
inline Doubles inverse_root(const Doubles& s) {
#if defined(HALFULP_X86)
#if defined(HALFULP_ISA_avx512)
  const Doubles z = reinterpret<Doubles>(_mm512_maskz_rsqrt14_pd(0xff, reinterpret<__m512d>(s)));
#elif defined(HALFULP_ISA_avx2)
  const Doubles z = reinterpret<Doubles>(_mm256_cvtps_pd(_mm_rsqrt_ps(_mm256_cvtpd_ps(reinterpret<__m256d>(s)))));
#else
  const Doubles z = reinterpret<Doubles>(_mm_cvtps_pd(_mm_rsqrt_ps(_mm_cvtpd_ps(reinterpret<__m128d>(s)))));
#endif
  const Doubles h = multiply_add(Doubles(-z), Doubles(s * z), splat(1.0));
#if defined(HALFULP_ISA_avx512)
  Doubles series = splat(5.0 / 16);
#else
  Doubles series = multiply_add(h, splat(35.0 / 128), splat(5.0 / 16));
#endif
  series = multiply_add(series, h, splat(3.0 / 8));
  series = multiply_add(series, h, splat(1.0 / 2));
  return multiply_add(Doubles(z * h), series, z);
#else
  return splat(1.0) / square_root(s);
#endif
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
