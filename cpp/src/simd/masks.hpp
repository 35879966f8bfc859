// Which lanes are chosen: mask registers where there are any, else vectors of -1 and 0; and vectors of floats beside
// the doubles of their halves.
#pragma once

#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

#if defined(HALFULP_MASKS)

template <class C>
using Lanes = std::conditional_t<sizeof(C) == 4, __mmask16, __mmask8>;

// The lanes of a vector of C whose bytes equal `value`.
template <class C>
inline Lanes<C> lanes_equal(const std::uint8_t* bytes, std::uint8_t value) {
  __m128i loaded;
  if constexpr (sizeof(C) == 4) loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  else loaded = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  return static_cast<Lanes<C>>(_mm_cmpeq_epi8_mask(loaded, _mm_set1_epi8(static_cast<char>(value))));
}
inline Vector<float> pick(__mmask16 mask, const Vector<float>& yes, const Vector<float>& no) {
  return reinterpret<Vector<float>>(_mm512_mask_mov_ps(reinterpret<__m512>(no), mask, reinterpret<__m512>(yes)));
}
inline Vector<double> pick(__mmask8 mask, const Vector<double>& yes, const Vector<double>& no) {
  return reinterpret<Vector<double>>(_mm512_mask_mov_pd(reinterpret<__m512d>(no), mask, reinterpret<__m512d>(yes)));
}
// sum + x in the chosen lanes.
inline Vector<double> add_where(__mmask8 mask, const Vector<double>& sum, const Vector<double>& x) {
  const auto s = reinterpret<__m512d>(sum);
  return reinterpret<Vector<double>>(_mm512_mask_add_pd(s, mask, s, reinterpret<__m512d>(x)));
}
inline Lanes<float> either(Lanes<float> a, Lanes<float> b) { return static_cast<__mmask16>(a | b); }
inline Lanes<double> either(Lanes<double> a, Lanes<double> b) { return static_cast<__mmask8>(a | b); }
// Those of the lower and upper half of the lanes of floats, for their doubles.
inline __mmask8 lower(__mmask16 mask) { return static_cast<__mmask8>(mask); }
inline __mmask8 upper(__mmask16 mask) { return static_cast<__mmask8>(mask >> 8); }

#else

template <class C>
using Lanes = Vector<int_like<C>>;

template <class C>
inline Lanes<C> lanes_equal(const std::uint8_t* bytes, std::uint8_t value) {
#if defined(HALFULP_X86)
  // Bytes are compared, and their masks widened.
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(value));
  __m128i loaded;
  if constexpr (kLanes<C> == 8) {
    loaded = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  } else {
    int word = 0;
    std::memcpy(&word, bytes, kLanes<C>);
    loaded = _mm_cvtsi32_si128(word);
  }
  const __m128i equal = _mm_cmpeq_epi8(loaded, wanted);
#if defined(HALFULP_AVX2)
  if constexpr (sizeof(C) == 4) return reinterpret<Lanes<C>>(_mm256_cvtepi8_epi32(equal));
  else return reinterpret<Lanes<C>>(_mm256_cvtepi8_epi64(equal));
#else
  __m128i wide = _mm_unpacklo_epi8(equal, equal);
  wide = _mm_unpacklo_epi16(wide, wide);
  if constexpr (sizeof(C) == 8) wide = _mm_unpacklo_epi32(wide, wide);
  return reinterpret<Lanes<C>>(wide);
#endif
#else
  Vector<std::uint8_t, kLanes<C>> loaded;
  std::memcpy(&loaded, bytes, sizeof loaded);
  return __builtin_convertvector(loaded, Lanes<C>) == splat(static_cast<int_like<C>>(value));
#endif
}
template <class M, class V>
inline V pick(const M& mask, const V& yes, const V& no) {
  return select(mask, yes, no);
}
inline Vector<double> add_where(const Lanes<double>& mask, const Vector<double>& sum, const Vector<double>& x) {
  return sum + select(mask, x, -splat(0.0));  // adding -0 changes nothing
}
template <class M>
inline M either(const M& a, const M& b) {
  return a | b;
}
inline Lanes<double> lower(const Lanes<float>& mask) {
#if defined(HALFULP_AVX2)
  return reinterpret<Lanes<double>>(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(reinterpret<__m256i>(mask))));
#else
  return reinterpret<Lanes<double>>(zip_low<std::int32_t>(mask, mask));
#endif
}
inline Lanes<double> upper(const Lanes<float>& mask) {
#if defined(HALFULP_AVX2)
  return reinterpret<Lanes<double>>(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(reinterpret<__m256i>(mask), 1)));
#else
  return reinterpret<Lanes<double>>(zip_high<std::int32_t>(mask, mask));
#endif
}

#endif

// Vector Part of a0 b0 c0 a1 b1 c1 ...
template <class C, int Part, int... I>
inline Vector<C> zip_three(const Vector<C>& a, const Vector<C>& b, const Vector<C>& c,
                           std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I), start = Part * n;
  const Vector<C> two = __builtin_shufflevector(a, b, ((start + I) / 3 + ((start + I) % 3 == 1 ? n : 0))...);
  return __builtin_shufflevector(two, c, ((start + I) % 3 == 2 ? n + (start + I) / 3 : I)...);
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
