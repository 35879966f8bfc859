// Lanes that change their places: phases of interleaved items, shifts across vectors, interleaving.
#pragma once

#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// Element i of the result is element Step * i + Start of the two vectors put together.
template <int Start, int Step, class V, int... I>
inline V shuffled(const V& a, const V& b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (Step * I + Start)...);
}
template <class V>
using lane_sequence = std::make_integer_sequence<int, static_cast<int>(sizeof(V) / sizeof(lane_type<V>))>;

namespace lanes {  // what an instruction does within each 16 bytes

// Items of 4 and 8 bytes: for every part of 16 bytes, the phase of a's and then that of b's.
template <int Phase, class V, int... I>
inline V phase_of_words(const V& a, const V& b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I), part = 16 / sizeof(lane_type<V>), half = part / 2;
  return __builtin_shufflevector(a, b, (I % part < half ? I / part * part + 2 * (I % half) + Phase
                                                        : n + I / part * part + 2 * (I % half) + Phase)...);
}

#if defined(HALFULP_X86)
inline __m128i and_with(__m128i a, __m128i b) { return _mm_and_si128(a, b); }
inline __m128i down8(__m128i a) { return _mm_srli_epi16(a, 8); }
inline __m128i pack_words(__m128i a, __m128i b) { return _mm_packus_epi16(a, b); }
#if defined(HALFULP_AVX2)
inline __m128i down16(__m128i a) { return _mm_srli_epi32(a, 16); }
inline __m128i low16(__m128i a) { return _mm_blend_epi16(a, _mm_setzero_si128(), 0xaa); }
inline __m128i pack_doubles(__m128i a, __m128i b) { return _mm_packus_epi32(a, b); }
inline __m256i and_with(__m256i a, __m256i b) { return _mm256_and_si256(a, b); }
inline __m256i down8(__m256i a) { return _mm256_srli_epi16(a, 8); }
inline __m256i down16(__m256i a) { return _mm256_srli_epi32(a, 16); }
inline __m256i low16(__m256i a) { return _mm256_blend_epi16(a, _mm256_setzero_si256(), 0xaa); }
inline __m256i pack_words(__m256i a, __m256i b) { return _mm256_packus_epi16(a, b); }
inline __m256i pack_doubles(__m256i a, __m256i b) { return _mm256_packus_epi32(a, b); }
#else
// Without packing of unsigned double words, they are signed.
inline __m128i down16(__m128i a) { return _mm_srai_epi32(a, 16); }
inline __m128i low16(__m128i a) { return _mm_srai_epi32(_mm_slli_epi32(a, 16), 16); }
inline __m128i pack_doubles(__m128i a, __m128i b) { return _mm_packs_epi32(a, b); }
#endif
#if defined(HALFULP_ISA_avx512)
inline __m512i and_with(__m512i a, __m512i b) { return _mm512_and_si512(a, b); }
inline __m512i down8(__m512i a) { return _mm512_srli_epi16(a, 8); }
inline __m512i down16(__m512i a) { return _mm512_maskz_srli_epi32(0xffff, a, 16); }
inline __m512i low16(__m512i a) { return _mm512_maskz_mov_epi16(0x55555555u, a); }
inline __m512i pack_words(__m512i a, __m512i b) { return _mm512_packus_epi16(a, b); }
inline __m512i pack_doubles(__m512i a, __m512i b) { return _mm512_packus_epi32(a, b); }
#endif
template <int Bytes>
struct RegisterOf;
template <> struct RegisterOf<16> { using type = __m128i; };
#if defined(HALFULP_AVX2)
template <> struct RegisterOf<32> { using type = __m256i; };
#endif
#if defined(HALFULP_ISA_avx512)
template <> struct RegisterOf<64> { using type = __m512i; };
#endif
#endif

}  // namespace lanes

// Items Phase, Phase + 2, ... of two vectors, in an order that in_order mends: where an instruction works within parts
// of 16 bytes, a maximum of several phases is put in order once.
template <int Phase, class V>
inline V phase_of_two(const V& a, const V& b) {
#if defined(HALFULP_X86)
  using Register = typename lanes::RegisterOf<sizeof(V)>::type;
  constexpr int item = sizeof(lane_type<V>);
  if constexpr (item <= 2) {
    const auto x = reinterpret<Register>(a), y = reinterpret<Register>(b);
    if constexpr (item == 2 && Phase == 0)
      return reinterpret<V>(lanes::pack_doubles(lanes::low16(x), lanes::low16(y)));
    else if constexpr (item == 2)
      return reinterpret<V>(lanes::pack_doubles(lanes::down16(x), lanes::down16(y)));
    else if constexpr (Phase == 0) {
      const auto low = reinterpret<Register>(splat<std::int16_t, sizeof(V)>(0xff));
      return reinterpret<V>(lanes::pack_words(lanes::and_with(x, low), lanes::and_with(y, low)));
    } else
      return reinterpret<V>(lanes::pack_words(lanes::down8(x), lanes::down8(y)));
  } else
    return lanes::phase_of_words<Phase>(a, b, lane_sequence<V>{});
#else
  return shuffled<Phase, 2>(a, b, lane_sequence<V>{});
#endif
}

template <class V>
inline V in_order(const V& v) {
#if defined(HALFULP_X86) && defined(HALFULP_AVX2)
  if constexpr (sizeof(V) == 32) {
    const auto quads = reinterpret<Vector<std::int64_t, 32>>(v);
    return reinterpret<V>(__builtin_shufflevector(quads, quads, 0, 2, 1, 3));
  } else if constexpr (sizeof(V) == 64) {
    const auto quads = reinterpret<Vector<std::int64_t, 64>>(v);
    return reinterpret<V>(__builtin_shufflevector(quads, quads, 0, 2, 4, 6, 1, 3, 5, 7));
  }
#endif
  return v;
}

// Unsigned integers narrowed to U, which holds them; in an order that in_order mends.
template <class U, class V>
inline auto narrowed(const V& a, const V& b) {
  using Narrow = Vector<U, sizeof(V)>;
#if defined(HALFULP_X86)
  using Register = typename lanes::RegisterOf<sizeof(V)>::type;
  if constexpr (sizeof(U) == 1)
    return reinterpret<Narrow>(lanes::pack_words(reinterpret<Register>(a), reinterpret<Register>(b)));
#if defined(HALFULP_AVX2)
  if constexpr (sizeof(U) == 2)
    return reinterpret<Narrow>(lanes::pack_doubles(reinterpret<Register>(a), reinterpret<Register>(b)));
#endif
#endif
  return phase_of_two<0>(reinterpret<Narrow>(a), reinterpret<Narrow>(b));
}

// The sums of items 2 i and 2 i + 1 of unsigned integers, as integers of twice their width.
template <class V>
inline auto sums_of_neighbours(const V& v) {
  using U = lane_type<V>;
  using Wide = std::make_unsigned_t<typename IntOfSize<2 * sizeof(U)>::type>;
  using Words = Vector<Wide, sizeof(V)>;
#if defined(HALFULP_AVX2)
  if constexpr (sizeof(U) == 1 && sizeof(V) == 32)
    return reinterpret<Words>(_mm256_maddubs_epi16(reinterpret<__m256i>(v), _mm256_set1_epi8(1)));
#endif
  constexpr int bits = 8 * static_cast<int>(sizeof(U));
  const Words words = reinterpret<Words>(v);
  return Words((words & static_cast<Wide>(static_cast<U>(~U{0}))) + (words >> bits));
}

// Items Phase, Phase + 2, ... of two vectors put together.
template <int Phase, class V>
inline V deinterleaved2(const V& a, const V& b) {
  return in_order(phase_of_two<Phase>(a, b));
}

template <int Phase, class V, int... I>
inline V third(const V* v, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  const V two = __builtin_shufflevector(v[0], v[1], (3 * I + Phase < 2 * n ? 3 * I + Phase : 0)...);
  return __builtin_shufflevector(two, v[2], (3 * I + Phase < 2 * n ? I : 3 * I + Phase - n)...);
}
// Items Phase, Phase + 3, ... of three vectors put together.
template <int Phase, class V>
inline V deinterleaved3(const V* v) {
  return third<Phase>(v, lane_sequence<V>{});
}

template <class T>
inline Vector<T> even(const Vector<T>& a, const Vector<T>& b) {
  return deinterleaved2<0>(a, b);
}
template <class T>
inline Vector<T> odd(const Vector<T>& a, const Vector<T>& b) {
  return deinterleaved2<1>(a, b);
}

// Elements 1 and on of a, and the first of b.
template <class T>
inline Vector<T> shifted_by_one(const Vector<T>& a, const Vector<T>& b) {
  return shuffled<1, 1>(a, b, lane_sequence<Vector<T>>{});
}

// Elements Start and on of vectors put together.
template <class T, int Start>
inline Vector<T> elements_from(const Vector<T>* v) {
  constexpr int vector = Start / kLanes<T>, lane = Start % kLanes<T>;
  if constexpr (lane == 0) return v[vector];
  else return shuffled<lane, 1>(v[vector], v[vector + 1], std::make_integer_sequence<int, kLanes<T>>{});
}

// The first and second half of a0 b0 a1 b1 ...
template <int Half, class V, int... I>
inline V zipped(const V& a, const V& b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (Half * n / 2 + I / 2 + (I % 2) * n)...);
}
template <class T>
inline Vector<T> zip_low(const Vector<T>& a, const Vector<T>& b) {
  return zipped<0>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}
template <class T>
inline Vector<T> zip_high(const Vector<T>& a, const Vector<T>& b) {
  return zipped<1>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
