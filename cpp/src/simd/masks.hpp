// Which lanes are chosen: mask registers where there are any, else vectors of -1 and 0; and vectors of floats beside
// the doubles of their halves.
#pragma once

#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

#if defined(HALFULP_MASKS)

template <class C>
using Lanes = std::conditional_t<sizeof(C) == 4, __mmask16, __mmask8>;
// Small numbers that choose lanes: bytes where a comparison of bytes gives a mask, else as wide as the lanes.
template <class C>
using LaneNumber = std::uint8_t;

// The lanes of a vector of C where `numbers` has this one.
template <class C>
inline Lanes<C> lanes_equal(const std::uint8_t* numbers, std::uint8_t wanted) {
  __m128i loaded;
  if constexpr (sizeof(C) == 4) loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
  else loaded = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(numbers));
  return static_cast<Lanes<C>>(_mm_cmpeq_epi8_mask(loaded, _mm_set1_epi8(static_cast<char>(wanted))));
}
// x in the chosen lanes, +0 in the others.
inline Vector<float> chosen(__mmask16 mask, const Vector<float>& x) {
  return reinterpret<Vector<float>>(_mm512_maskz_mov_ps(mask, reinterpret<__m512>(x)));
}
inline Vector<double> chosen(__mmask8 mask, const Vector<double>& x) {
  return reinterpret<Vector<double>>(_mm512_maskz_mov_pd(mask, reinterpret<__m512d>(x)));
}
// sum - x in the chosen lanes.
inline Vector<float> subtract_where(__mmask16 mask, const Vector<float>& sum, const Vector<float>& x) {
  const auto s = reinterpret<__m512>(sum);
  return reinterpret<Vector<float>>(_mm512_mask_sub_ps(s, mask, s, reinterpret<__m512>(x)));
}
inline Vector<double> subtract_where(__mmask8 mask, const Vector<double>& sum, const Vector<double>& x) {
  const auto s = reinterpret<__m512d>(sum);
  return reinterpret<Vector<double>>(_mm512_mask_sub_pd(s, mask, s, reinterpret<__m512d>(x)));
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
using LaneNumber = int_like<C>;

template <class C>
inline Lanes<C> lanes_equal(const LaneNumber<C>* numbers, LaneNumber<C> wanted) {
  return load(numbers) == splat(wanted);
}
template <class M, class V>
inline V chosen(const M& mask, const V& x) {
  return reinterpret<V>(mask & reinterpret<M>(x));
}
template <class M, class V>
inline V subtract_where(const M& mask, const V& sum, const V& x) {
  return sum - chosen(mask, x);  // to subtract +0 changes nothing
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
