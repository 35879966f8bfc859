// Blocks of float16 to float and back, with the processor's instructions for it; every number, infinity and NaN.
#pragma once

#include "halfulp/dtype.hpp"
#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

inline constexpr int kHalfBlock = 8;

inline void widen_block(const Float16* in, float* out) {
#if defined(HALFULP_ISA_avx512) || defined(HALFULP_ISA_avx2)
  _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in))));
#elif defined(HALFULP_NEON)
  const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(in)));
  vst1q_f32(out, vcvt_f32_f16(vget_low_f16(halves)));
  vst1q_f32(out + 4, vcvt_f32_f16(vget_high_f16(halves)));
#else
  for (int i = 0; i < kHalfBlock; ++i) out[i] = to_float(in[i]);
#endif
}

inline void narrow_block(const float* in, Float16* out) {
#if defined(HALFULP_ISA_avx512) || defined(HALFULP_ISA_avx2)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm256_cvtps_ph(_mm256_loadu_ps(in), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(HALFULP_NEON)
  const float16x8_t halves = vcombine_f16(vcvt_f16_f32(vld1q_f32(in)), vcvt_f16_f32(vld1q_f32(in + 4)));
  vst1q_u16(reinterpret_cast<std::uint16_t*>(out), vreinterpretq_u16_f16(halves));
#else
  for (int i = 0; i < kHalfBlock; ++i) out[i] = to_float16(in[i]);
#endif
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
