// A vector stored past the caches.
#pragma once

#include "simd/vector.hpp"

#if defined(__SSE2__) || defined(_M_X64)
#define HALFULP_STREAMS 1
#endif

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

#if defined(HALFULP_STREAMS)
inline constexpr bool kStreams = true;
#else
inline constexpr bool kStreams = false;  // stores are as any others
#endif

// The target is aligned.
template <class V>
inline void stream(void* target, const V& v) {
#if defined(HALFULP_ISA_avx512)
  if constexpr (sizeof v == 64) return _mm512_stream_si512(static_cast<__m512i*>(target), reinterpret<__m512i>(v));
#endif
#if defined(HALFULP_ISA_avx512) || defined(HALFULP_ISA_avx2)
  if constexpr (sizeof v == 32) return _mm256_stream_si256(static_cast<__m256i*>(target), reinterpret<__m256i>(v));
#endif
#if defined(HALFULP_STREAMS)
  if constexpr (sizeof v == 16) return _mm_stream_si128(static_cast<__m128i*>(target), reinterpret<__m128i>(v));
#endif
  std::memcpy(target, &v, sizeof v);
}
// What must follow before others see what was streamed, or before it is written once more.
inline void finish_stream() {
#if defined(HALFULP_STREAMS)
  _mm_sfence();
#endif
}

inline void stream_vector(void* target, const void* v) { stream(target, load(static_cast<const std::uint8_t*>(v))); }

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
