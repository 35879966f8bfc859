// Vectors of float64 that are loaded from any float type and stored rounded to one, fused operations, and minima of bit
// patterns: what sums of floats are made of.
#pragma once

#include <cmath>

#include "halfulp/dtype.hpp"
#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using Doubles = Vector<double>;
inline constexpr std::int64_t kWide = kLanes<double>;

// As many items of the narrower types.
using Floats = Vector<float, kVectorBytes / 2>;
using Shorts = Vector<std::uint16_t, kVectorBytes / 4>;
// Words for these. SSE2 has them in whole registers, whose second half means nothing: half of one is no vector there.
#if defined(HALFULP_X86)
inline constexpr int kWordBytes = kVectorBytes / 2 < 16 ? 16 : kVectorBytes / 2;
#else
inline constexpr int kWordBytes = kVectorBytes / 2;
#endif
using Words = Vector<std::uint32_t, kWordBytes>;
using WordFloats = Vector<float, kWordBytes>;

// Written out where compilers convert in halves.
inline Doubles to_doubles(const Floats& v) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Doubles>(_mm512_maskz_cvtps_pd(0xff, reinterpret<__m256>(v)));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<Doubles>(_mm256_cvtps_pd(reinterpret<__m128>(v)));
#else
  return __builtin_convertvector(v, Doubles);
#endif
}
inline Doubles to_doubles_of(const Words& bits) {
#if defined(HALFULP_X86) && !defined(HALFULP_AVX2)
  return reinterpret<Doubles>(_mm_cvtps_pd(reinterpret<__m128>(bits)));
#else
  return to_doubles(reinterpret<Floats>(bits));
#endif
}
inline Floats to_floats(const Doubles& v) {
#if defined(HALFULP_ISA_avx2)
  return reinterpret<Floats>(_mm256_cvtpd_ps(reinterpret<__m256d>(v)));
#else
  return __builtin_convertvector(v, Floats);
#endif
}

// The first and the second half of a vector of floats, and both put together.
template <int Start, class To, class V, int... I>
inline To part(const V& a, const V& b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (Start + I)...);
}
inline Doubles widen_low(const Vector<float>& v) {
  return to_doubles(part<0, Floats>(v, v, std::make_integer_sequence<int, kWide>{}));
}
inline Doubles widen_high(const Vector<float>& v) {
  return to_doubles(part<kWide, Floats>(v, v, std::make_integer_sequence<int, kWide>{}));
}
inline Vector<float> narrow(const Doubles& low, const Doubles& high) {
  return part<0, Vector<float>>(to_floats(low), to_floats(high), std::make_integer_sequence<int, 2 * kWide>{});
}

using HalfInts = Vector<std::int32_t, kVectorBytes / 2>;
inline HalfInts low_half(const Vector<std::int32_t>& v) {
  return part<0, HalfInts>(v, v, std::make_integer_sequence<int, kWide>{});
}
inline HalfInts high_half(const Vector<std::int32_t>& v) {
  return part<kWide, HalfInts>(v, v, std::make_integer_sequence<int, kWide>{});
}
inline Doubles widen_low(const Vector<std::int32_t>& v) { return __builtin_convertvector(low_half(v), Doubles); }
inline Doubles widen_high(const Vector<std::int32_t>& v) { return __builtin_convertvector(high_half(v), Doubles); }

// Elements of a table of eight by the lanes of the first and of the second half of `index`, which are below eight.
inline void look_up(const double (&table)[8], const Vector<std::int32_t>& index, Doubles& low, Doubles& high) {
#if defined(HALFULP_ISA_avx512)
  const __m512d all = _mm512_loadu_pd(table);
  using Wide = Vector<std::int64_t>;
  const auto first = reinterpret<__m512i>(__builtin_convertvector(low_half(index), Wide));
  const auto second = reinterpret<__m512i>(__builtin_convertvector(high_half(index), Wide));
  low = reinterpret<Doubles>(_mm512_maskz_permutexvar_pd(0xff, first, all));
  high = reinterpret<Doubles>(_mm512_maskz_permutexvar_pd(0xff, second, all));
#elif defined(HALFULP_ISA_avx2)
  // The halves of all doubles, looked up apart; interleaving within parts of 16 bytes puts them together.
  const auto four = [&](int at) { return _mm256_loadu_ps(reinterpret_cast<const float*>(table + at)); };
  const auto words = [&](__m256 even_or_odd) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even_or_odd), 0xd8));
  };
  const __m256 lower = words(_mm256_shuffle_ps(four(0), four(4), 0x88));
  const __m256 upper = words(_mm256_shuffle_ps(four(0), four(4), 0xdd));
  const __m256i lanes = _mm256_permute4x64_epi64(reinterpret<__m256i>(index), 0xd8);
  const __m256 lower_words = _mm256_permutevar8x32_ps(lower, lanes);
  const __m256 upper_words = _mm256_permutevar8x32_ps(upper, lanes);
  low = reinterpret<Doubles>(_mm256_unpacklo_ps(lower_words, upper_words));
  high = reinterpret<Doubles>(_mm256_unpackhi_ps(lower_words, upper_words));
#else
  for (int i = 0; i < kWide; ++i) {
    low[i] = table[index[i]];
    high[i] = table[index[kWide + i]];
  }
#endif
}

inline Doubles load_doubles(const double* x) { return load(x); }
inline Doubles load_doubles(const float* x) {
#if defined(HALFULP_X86) && !defined(HALFULP_AVX2)
  return reinterpret<Doubles>(_mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)))));
#else
  Floats v;
  std::memcpy(&v, x, sizeof v);
  return to_doubles(v);
#endif
}

// Items of 16 bits as words, and the low halves of words back.
inline Words load_shorts(const void* x) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Words>(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(x))));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<Words>(_mm_cvtepu16_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(x))));
#elif defined(HALFULP_X86)
  std::int32_t two;
  std::memcpy(&two, x, sizeof two);
  const __m128i words = _mm_unpacklo_epi16(_mm_cvtsi32_si128(two), _mm_setzero_si128());
  return reinterpret<Words>(words);
#else
  Shorts v;
  std::memcpy(&v, x, sizeof v);
  return __builtin_convertvector(v, Words);
#endif
}
inline void store_shorts(void* out, const Words& words) {
#if defined(HALFULP_ISA_avx512)
  _mm_storeu_si128(static_cast<__m128i*>(out), _mm256_cvtepi32_epi16(reinterpret<__m256i>(words)));
#elif defined(HALFULP_ISA_avx2)
  const __m128i v = reinterpret<__m128i>(words);
  _mm_storel_epi64(static_cast<__m128i*>(out), _mm_packus_epi32(v, v));
#elif defined(HALFULP_X86)
  const auto v = reinterpret<__m128i>(words);
  const std::int32_t two = _mm_cvtsi128_si32(_mm_or_si128(v, _mm_srli_epi64(v, 16)));
  std::memcpy(out, &two, sizeof two);
#else
  const Shorts v = __builtin_convertvector(words, Shorts);
  std::memcpy(out, &v, sizeof v);
#endif
}

inline Doubles load_doubles(const BFloat16* x) { return to_doubles_of(load_shorts(x) << 16); }

inline Doubles load_doubles(const Float16* x) {
#if defined(HALFULP_ISA_avx512)
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return to_doubles(reinterpret<Floats>(_mm256_cvtph_ps(v)));
#elif defined(HALFULP_ISA_avx2)
  const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return to_doubles(reinterpret<Floats>(_mm_cvtph_ps(v)));
#else
  // The exponent is moved by 112, that of infinity once more. Subnormal numbers have none: with one they are too large
  // by 2^-14.
  const Words halves = load_shorts(x), magnitude = (halves & 0x7fff) << 13;
  const auto number = reinterpret<Vector<std::int32_t, kWordBytes>>(magnitude);
  const Words infinite = reinterpret<Words>(number >= (31 << 23)) & (112u << 23);
  const Words tiny = reinterpret<Words>(number < (1 << 23));
  const Words moved = magnitude + (112u << 23) + infinite + (tiny & (1u << 23));
  const WordFloats excess = reinterpret<WordFloats>(tiny & ((127u - 14u) << 23));
  const Words value = reinterpret<Words>(reinterpret<WordFloats>(moved) - excess);
  return to_doubles_of(value | ((halves & 0x8000) << 16));
#endif
}

// To 24 bits so that rounding these gives what rounding all would: the last one tells whether anything was dropped.
inline Words sticky_floats(const Doubles& q) {
  using Bits = Vector<std::uint64_t>;
  constexpr std::uint64_t last = std::uint64_t{1} << 29;
  const Bits bits = reinterpret<Bits>(q);
  const Bits rest = bits & splat(last - 1);
  // Adding last - 1 carries into the last bit if there is a rest.
  const Bits kept = (bits ^ rest) | ((rest + splat(last - 1)) & splat(last));
#if defined(HALFULP_X86) && !defined(HALFULP_AVX2)
  return reinterpret<Words>(_mm_cvtpd_ps(reinterpret<__m128d>(kept)));
#else
  return reinterpret<Words>(to_floats(reinterpret<Doubles>(kept)));
#endif
}

// Rounded to nearest, ties to even. float16 and bfloat16: finite numbers only; bfloat16 not below the normal floats.
inline void store_rounded(double* out, const Doubles& q) { store(out, q); }
inline void store_rounded(float* out, const Doubles& q) {
#if defined(HALFULP_X86) && !defined(HALFULP_AVX2)
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_castps_si128(_mm_cvtpd_ps(reinterpret<__m128d>(q))));
#else
  const Floats v = to_floats(q);
  std::memcpy(out, &v, sizeof v);
#endif
}
inline void store_rounded(BFloat16* out, const Doubles& q) {
  const Words bits = sticky_floats(q);
  store_shorts(out, (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline void store_rounded(Float16* out, const Doubles& q) {
#if defined(HALFULP_ISA_avx512)
  const __m128i v =
      _mm256_cvtps_ph(reinterpret<__m256>(sticky_floats(q)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), v);
#elif defined(HALFULP_ISA_avx2)
  const __m128i v = _mm_cvtps_ph(reinterpret<__m128>(sticky_floats(q)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), v);
#else
  // Below 2^-14 the sum with 1/2 has its last bit where the result has it; above, bits are rounded as an integer is.
  const Words bits = sticky_floats(q), magnitude = bits & 0x7fffffff;
  const Words small = reinterpret<Words>(reinterpret<WordFloats>(magnitude) + 0.5f) - (126u << 23);
  const Words large = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const auto number = reinterpret<Vector<std::int32_t, kWordBytes>>(magnitude);
  const Words finite = select(number >= 0x477ff000, Words{} + 0x7c00u, large);
  store_shorts(out, select(number < (113 << 23), small, finite) | (bits >> 16 & 0x8000));
#endif
}

// The first `left` of them, if that is less than all.
template <class T>
inline void store_first_rounded(T* out, const Doubles& q, std::int64_t left) {
#if defined(HALFULP_MASKS)
  if constexpr (std::is_same_v<T, float>) {  // a branch would keep what a loop needs out of the registers
    const auto mask = static_cast<__mmask8>(left >= kWide ? 0xff : (1 << left) - 1);
    return _mm256_mask_storeu_ps(out, mask, reinterpret<__m256>(to_floats(q)));
  }
#endif
  if (left >= kWide) return store_rounded(out, q);
  T rounded[kWide];
  store_rounded(rounded, q);
  for (std::int64_t i = 0; i < left; ++i) out[i] = rounded[i];
}

// The absolute values of doubles.
inline Doubles magnitude(const Doubles& x) {
  using Bits = Vector<std::uint64_t>;
  return reinterpret<Doubles>(reinterpret<Bits>(x) & splat(~std::uint64_t{0} >> 1));
}

// Whether `fused` is one instruction.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool kFuses = true;
#else
inline constexpr bool kFuses = false;
#endif

// a b + c, rounded once.
inline Doubles fused(const Doubles& a, const Doubles& b, const Doubles& c) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Doubles>(
      _mm512_fmadd_pd(reinterpret<__m512d>(a), reinterpret<__m512d>(b), reinterpret<__m512d>(c)));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<Doubles>(
      _mm256_fmadd_pd(reinterpret<__m256d>(a), reinterpret<__m256d>(b), reinterpret<__m256d>(c)));
#else
  Doubles v = c;
  for (int i = 0; i < kWide; ++i) v[i] = std::fma(a[i], b[i], c[i]);
  return v;
#endif
}

inline bool equal_in_all(const Doubles& a, const Doubles& b) {
#if defined(HALFULP_ISA_avx512)
  return _mm512_cmp_pd_mask(reinterpret<__m512d>(a), reinterpret<__m512d>(b), _CMP_EQ_OQ) == 0xff;
#elif defined(HALFULP_ISA_avx2)
  return _mm256_movemask_pd(_mm256_cmp_pd(reinterpret<__m256d>(a), reinterpret<__m256d>(b), _CMP_EQ_OQ)) == 0xf;
#elif defined(HALFULP_X86)
  return _mm_movemask_pd(_mm_cmpeq_pd(reinterpret<__m128d>(a), reinterpret<__m128d>(b))) == 3;
#else
  bool same = true;
  for (int i = 0; i < kWide; ++i) same &= a[i] == b[i];
  return same;
#endif
}

// Whether a comparison of eight-byte lanes is true in all of them.
template <class M>
inline bool all_lanes(const M& mask) {
#if defined(HALFULP_ISA_avx512)
  return _mm512_movepi64_mask(reinterpret<__m512i>(mask)) == 0xff;
#elif defined(HALFULP_ISA_avx2)
  return _mm256_movemask_pd(reinterpret<__m256d>(mask)) == 0xf;
#elif defined(HALFULP_X86)
  return _mm_movemask_pd(reinterpret<__m128d>(mask)) == 3;
#else
  bool all = true;
  for (int i = 0; i < kWide; ++i) all &= mask[i] != 0;
  return all;
#endif
}

// The smaller and the larger of bit patterns: unsigned numbers, below half their range where kAnyUnsigned is false.
#if defined(HALFULP_ISA_avx512)
template <class Bits>
inline constexpr bool kAnyUnsigned = true;
#elif defined(HALFULP_ISA_avx2)
template <class Bits>
inline constexpr bool kAnyUnsigned = sizeof(Bits) <= 4;
#else
template <class Bits>
inline constexpr bool kAnyUnsigned = false;
#endif
template <class V>
using SignedLanes = Vector<int_like<lane_type<V>>>;

template <class V>
inline V smaller(const V& a, const V& b) {
#if defined(HALFULP_ISA_avx512)
  const __m512i x = reinterpret<__m512i>(a), y = reinterpret<__m512i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm512_min_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm512_maskz_min_epu32(0xffff, x, y));
  else return reinterpret<V>(_mm512_maskz_min_epu64(0xff, x, y));
#else
#if defined(HALFULP_ISA_avx2)
  const __m256i x = reinterpret<__m256i>(a), y = reinterpret<__m256i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm256_min_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm256_min_epu32(x, y));
  else
#elif defined(HALFULP_X86)
  const __m128i x = reinterpret<__m128i>(a), y = reinterpret<__m128i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm_min_epi16(x, y));
  else
#endif
    return select(reinterpret<SignedLanes<V>>(a) < reinterpret<SignedLanes<V>>(b), a, b);
#endif
}
template <class V>
inline V larger(const V& a, const V& b) {
#if defined(HALFULP_ISA_avx512)
  const __m512i x = reinterpret<__m512i>(a), y = reinterpret<__m512i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm512_max_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm512_maskz_max_epu32(0xffff, x, y));
  else return reinterpret<V>(_mm512_maskz_max_epu64(0xff, x, y));
#else
#if defined(HALFULP_ISA_avx2)
  const __m256i x = reinterpret<__m256i>(a), y = reinterpret<__m256i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm256_max_epu16(x, y));
  else if constexpr (sizeof(a[0]) == 4) return reinterpret<V>(_mm256_max_epu32(x, y));
  else
#elif defined(HALFULP_X86)
  const __m128i x = reinterpret<__m128i>(a), y = reinterpret<__m128i>(b);
  if constexpr (sizeof(a[0]) == 2) return reinterpret<V>(_mm_max_epi16(x, y));
  else
#endif
    return select(reinterpret<SignedLanes<V>>(a) > reinterpret<SignedLanes<V>>(b), a, b);
#endif
}

// The upper 16 bits of lanes as signed numbers, where maxima of whole lanes take several instructions. The other bits
// of a result mean nothing.
#if defined(HALFULP_ISA_avx512) || !defined(HALFULP_X86)
template <class Bits>
inline constexpr bool kUpperBits = false;
#elif defined(HALFULP_ISA_avx2)
template <class Bits>
inline constexpr bool kUpperBits = sizeof(Bits) == 8;
#else
template <class Bits>
inline constexpr bool kUpperBits = sizeof(Bits) >= 4;
#endif
template <class V>
inline V larger_upper_bits(const V& a, const V& b) {
  return reinterpret<V>(max_first(reinterpret<Vector<std::int16_t>>(a), reinterpret<Vector<std::int16_t>>(b)));
}

// Without the last 26 of 53 bits.
inline Doubles upper_half(const Doubles& x) {
  using Bits = Vector<std::uint64_t>;
  return reinterpret<Doubles>(reinterpret<Bits>(x) & splat(~std::uint64_t{0} << 26));
}

// Asks for what lies further on: two pages for the second cache, of which many requests may wait, half a page for the
// first.
inline void prefetch_ahead(const void* x, std::uintptr_t far = 8192) {
  const auto at = reinterpret_cast<std::uintptr_t>(x);
  __builtin_prefetch(reinterpret_cast<const void*>(at + far), 0, 2);
  __builtin_prefetch(reinterpret_cast<const void*>(at + 2048), 0, 3);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
