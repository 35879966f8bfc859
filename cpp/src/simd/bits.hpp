// Lanes as bits of a word, the first lane lowest, and back.
#pragma once

#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The highest bit of each lane of unsigned integers.
template <class U>
inline std::uint32_t top_bits(const Vector<U>& v) {
#if defined(HALFULP_ISA_avx512)
  const auto x = reinterpret<__m512i>(v);
  if constexpr (sizeof(U) == 2) return _mm512_movepi16_mask(x);
  else if constexpr (sizeof(U) == 4) return _mm512_movepi32_mask(x);
  else return _mm512_movepi64_mask(x);
#elif defined(HALFULP_ISA_avx2)
  const auto x = reinterpret<__m256i>(v);
  if constexpr (sizeof(U) == 2)
    return static_cast<std::uint32_t>(
        _mm_movemask_epi8(_mm_packs_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1))));
  else if constexpr (sizeof(U) == 4) return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(x)));
  else return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(x)));
#elif defined(HALFULP_X86)
  const auto x = reinterpret<__m128i>(v);
  if constexpr (sizeof(U) == 2)
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(x, _mm_setzero_si128())));
  else if constexpr (sizeof(U) == 4) return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(x)));
  else return static_cast<std::uint32_t>(_mm_movemask_pd(_mm_castsi128_pd(x)));
#else
  const Vector<U> bits = (v >> splat(static_cast<U>(8 * sizeof(U) - 1))) << lane_numbers<U>();
  std::uint32_t all = 0;
  for (int k = 0; k < kLanes<U>; ++k) all |= static_cast<std::uint32_t>(bits[k]);
  return all;
#endif
}

// Of each lane, whether it is 0.
template <class U>
inline std::uint32_t zero_bits(const Vector<U>& v) {
#if defined(HALFULP_ISA_avx512)
  const auto x = reinterpret<__m512i>(v);
  if constexpr (sizeof(U) == 2) return _mm512_testn_epi16_mask(x, x);
  else if constexpr (sizeof(U) == 4) return _mm512_testn_epi32_mask(x, x);
  else return _mm512_testn_epi64_mask(x, x);
#else
  return top_bits<U>(reinterpret<Vector<U>>(v == splat(U{0})));
#endif
}

// The same of vectors with 32 lanes in all; those of which zeros are looked for have no highest bit.
template <class U>
inline constexpr int kWordVectors = 32 / kLanes<U>;

#if defined(HALFULP_ISA_avx2)
// Four vectors of 32 bits as one of bytes; neither signs nor what is not 0 get lost.
template <class U>
inline __m256i packed_bytes(const Vector<U> (&v)[kWordVectors<U>]) {
  const auto at = [&](int k) { return reinterpret<__m256i>(v[k]); };
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(at(0), at(1)), _mm256_packs_epi32(at(2), at(3)));
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
#endif

template <class U>
inline std::uint32_t word_top_bits(const Vector<U> (&v)[kWordVectors<U>]) {
#if defined(HALFULP_ISA_avx2)
  if constexpr (sizeof(U) == 4) return static_cast<std::uint32_t>(_mm256_movemask_epi8(packed_bytes<U>(v)));
#endif
  std::uint32_t bits = 0;
  for (int k = 0; k < kWordVectors<U>; ++k) bits |= top_bits<U>(v[k]) << k * kLanes<U>;
  return bits;
}

template <class U>
inline std::uint32_t word_zero_bits(const Vector<U> (&v)[kWordVectors<U>]) {
#if defined(HALFULP_ISA_avx2)
  if constexpr (sizeof(U) == 4)
    return static_cast<std::uint32_t>(
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(packed_bytes<U>(v), _mm256_setzero_si256())));
#endif
  std::uint32_t bits = 0;
  for (int k = 0; k < kWordVectors<U>; ++k) bits |= zero_bits<U>(v[k]) << k * kLanes<U>;
  return bits;
}

// The bits from First on as the highest bits of lanes; their other bits are 0.
template <class U, int First>
inline Vector<U> lanes_of_bits(std::uint32_t bits) {
  constexpr int top = 8 * static_cast<int>(sizeof(U)) - 1;
  const Vector<U> highest = splat(static_cast<U>(U{1} << top));
#if defined(HALFULP_ISA_avx512)
  const auto x = reinterpret<__m512i>(highest);
  if constexpr (sizeof(U) == 2) return reinterpret<Vector<U>>(_mm512_maskz_mov_epi16(bits, x));
  else if constexpr (sizeof(U) == 4)
    return reinterpret<Vector<U>>(_mm512_maskz_mov_epi32(static_cast<__mmask16>(bits >> First), x));
  else return reinterpret<Vector<U>>(_mm512_maskz_mov_epi64(static_cast<__mmask8>(bits >> First), x));
#else
#if defined(HALFULP_ISA_avx2) || !defined(HALFULP_X86)
  constexpr bool shifts = sizeof(U) > 2;
#else
  constexpr bool shifts = false;
#endif
  if constexpr (shifts) {
    return (splat(static_cast<U>(bits)) << (splat(static_cast<U>(top - First)) - lane_numbers<U>())) & highest;
  } else {
    const Vector<U> own = splat(U{1}) << lane_numbers<U>();
    return reinterpret<Vector<U>>((splat(static_cast<U>(bits >> First)) & own) == own) & highest;
  }
#endif
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
