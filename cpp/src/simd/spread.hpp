// Stores with gaps between the elements.
#pragma once

#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// How many elements store_every_second takes.
inline constexpr std::int64_t kSpread = 8;

// out[2 i] = in[i]. Nothing between is written, nor the element after the last: it may not exist.
inline void store_every_second(float* out, const float* in) {
#if defined(HALFULP_MASKS)
  const __m512 x = _mm512_castps256_ps512(_mm256_loadu_ps(in));
  _mm512_mask_storeu_ps(out, 0x5555, _mm512_maskz_expand_ps(0x5555, x));
#else
  for (int i = 0; i < kSpread; ++i) out[2 * i] = in[i];
#endif
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
