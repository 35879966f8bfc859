// A vector stored past the caches.
#pragma once

#include "simd/vector.hpp"

#if defined(__SSE2__) || defined(_M_X64)
#define HALFULP_STREAMS 1
#endif

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The target is aligned.
#if defined(HALFULP_ISA_avx512)
inline void stream_vector(void* target, const void* v) {
  _mm512_stream_si512(static_cast<__m512i*>(target), _mm512_loadu_si512(v));
}
#elif defined(HALFULP_ISA_avx2)
inline void stream_vector(void* target, const void* v) {
  _mm256_stream_si256(static_cast<__m256i*>(target), _mm256_loadu_si256(static_cast<const __m256i*>(v)));
}
#elif defined(HALFULP_STREAMS)
inline void stream_vector(void* target, const void* v) {
  _mm_stream_si128(static_cast<__m128i*>(target), _mm_loadu_si128(static_cast<const __m128i*>(v)));
}
#else
inline void stream_vector(void* target, const void* v) { std::memcpy(target, v, kVectorBytes); }
#endif

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
