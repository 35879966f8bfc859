// Half-precision numbers in lanes of float32 and their sums in lanes of int32.
#pragma once

#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using Singles = Vector<float>;
using Ints = Vector<std::int32_t>;
using Bits32 = Vector<std::uint32_t>;
inline constexpr std::int64_t kSingles = kLanes<float>;

// The smaller of two lanes; compilers take two instructions.
inline Vector<std::int16_t> smaller_of_signed(const Vector<std::int16_t>& a, const Vector<std::int16_t>& b) {
  using V [[maybe_unused]] = Vector<std::int16_t>;
#if defined(HALFULP_ISA_avx512)
  return reinterpret<V>(_mm512_min_epi16(reinterpret<__m512i>(a), reinterpret<__m512i>(b)));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<V>(_mm256_min_epi16(reinterpret<__m256i>(a), reinterpret<__m256i>(b)));
#elif defined(HALFULP_X86)
  return reinterpret<V>(_mm_min_epi16(reinterpret<__m128i>(a), reinterpret<__m128i>(b)));
#else
  return select(a < b, a, b);
#endif
}

// The first and the second half of a vector of integers.
inline Doubles first_doubles(const Ints& v) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Doubles>(_mm512_maskz_cvtepi32_pd(0xff, reinterpret<__m256i>(low_half(v))));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<Doubles>(_mm256_cvtepi32_pd(reinterpret<__m128i>(low_half(v))));
#elif defined(HALFULP_X86)
  return reinterpret<Doubles>(_mm_cvtepi32_pd(reinterpret<__m128i>(v)));
#else
  return widen_low(v);
#endif
}
inline Doubles second_doubles(const Ints& v) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Doubles>(_mm512_maskz_cvtepi32_pd(0xff, reinterpret<__m256i>(high_half(v))));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<Doubles>(_mm256_cvtepi32_pd(reinterpret<__m128i>(high_half(v))));
#elif defined(HALFULP_X86)
  return reinterpret<Doubles>(_mm_cvtepi32_pd(_mm_shuffle_epi32(reinterpret<__m128i>(v), 0xee)));
#else
  return widen_high(v);
#endif
}

// As many items as a vector has floats.
inline Singles load_singles(const Float16* x) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Singles>(_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<Singles>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
#else
  // The exponent is moved by 112. Finite numbers only.
#if defined(HALFULP_X86)
  const __m128i items = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  const Ints words = reinterpret<Ints>(_mm_unpacklo_epi16(_mm_setzero_si128(), items));
#else
  Vector<std::uint16_t, kVectorBytes / 2> items;
  std::memcpy(&items, x, sizeof items);
  const Ints words = reinterpret<Ints>(__builtin_convertvector(items, Bits32) << 16);
#endif
  return reinterpret<Singles>(reinterpret<Bits32>(words >> 3) & 0x8fffffffu) * 0x1p112f;
#endif
}

inline Singles load_singles(const BFloat16* x) {
#if defined(HALFULP_X86) && !defined(HALFULP_AVX2)
  const __m128i items = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return reinterpret<Singles>(_mm_unpacklo_epi16(_mm_setzero_si128(), items));
#else
  Vector<std::uint16_t, kVectorBytes / 2> items;
  std::memcpy(&items, x, sizeof items);
  return reinterpret<Singles>(__builtin_convertvector(items, Bits32) << 16);
#endif
}

// Neighbouring items 2 i and 2 i + 1 of bfloat16 are the low and the high half of a word.
inline Singles first_of_pairs(const Bits32& pairs) { return reinterpret<Singles>(pairs << 16); }
inline Singles second_of_pairs(const Bits32& pairs) { return reinterpret<Singles>(pairs & 0xffff0000u); }

// To 24 bits as sticky_floats of one vector does it, but of numbers that may be off by 15 units in their last place,
// where what they stand for has 48 bits or needs no more to be rounded.
inline Bits32 sticky_floats(const Doubles& low, const Doubles& high) {
  using Wide = Vector<std::uint64_t>;
  constexpr std::uint64_t dropped = (std::uint64_t{1} << 29) - 1, noise = 31;
  const auto sticky = [](const Doubles& q) {
    const Wide bits = reinterpret<Wide>(q) + splat(std::uint64_t{16});
    return reinterpret<Doubles>((bits | ((bits & splat(dropped - noise)) + splat(dropped))) & splat(~dropped));
  };
  return reinterpret<Bits32>(narrow(sticky(low), sticky(high)));
}

// Words below 2^16.
inline void store_as_shorts(void* out, const Bits32& words) {
#if defined(HALFULP_ISA_avx512)
  const auto v = reinterpret<__m512i>(words);
  _mm256_storeu_si256(static_cast<__m256i*>(out), _mm512_maskz_cvtepi32_epi16(0xffff, v));
#elif defined(HALFULP_ISA_avx2)
  const auto v = reinterpret<__m256i>(words);
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storeu_si128(static_cast<__m128i*>(out), packed);
#elif defined(HALFULP_X86)
  const __m128i v = _mm_srai_epi32(_mm_slli_epi32(reinterpret<__m128i>(words), 16), 16);
  _mm_storel_epi64(static_cast<__m128i*>(out), _mm_packs_epi32(v, v));
#else
  const auto v = __builtin_convertvector(words, Vector<std::uint16_t, kVectorBytes / 2>);
  std::memcpy(out, &v, sizeof v);
#endif
}

// Such doubles, half a vector each, rounded to nearest, ties to even. Finite; bfloat16: none below the normal floats.
inline void store_rounded(BFloat16* out, const Doubles& low, const Doubles& high) {
  const Bits32 bits = sticky_floats(low, high);
  store_as_shorts(out, (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline void store_rounded(Float16* out, const Doubles& low, const Doubles& high) {
#if defined(HALFULP_ISA_avx512)
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const auto v = _mm512_maskz_cvtps_ph(0xffff, reinterpret<__m512>(sticky_floats(low, high)), nearest);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), v);
#elif defined(HALFULP_ISA_avx2)
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const auto v = _mm256_cvtps_ph(reinterpret<__m256>(sticky_floats(low, high)), nearest);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), v);
#else
  // Below 2^-14 the sum with 1/2 has its last bit where the result has it; above, bits are rounded as an integer is.
  const Bits32 bits = sticky_floats(low, high), magnitude = bits & 0x7fffffffu;
  const Bits32 small = reinterpret<Bits32>(reinterpret<Singles>(magnitude) + 0.5f) - (126u << 23);
  const Bits32 large = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const auto number = reinterpret<Ints>(magnitude);
  const Bits32 finite = select(number >= 0x477ff000, Bits32{} + 0x7c00u, large);
  store_as_shorts(out, select(number < (113 << 23), small, finite) | (bits >> 16 & 0x8000u));
#endif
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
