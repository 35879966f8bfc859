// Lanes that come from the vector before or from a neighbour, whether any lane is NaN, the smaller of integers: one or
// two instructions where the compiler would take more.
#pragma once

#include "simd/deinterleave.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// The last lanes of a, and of b the last one.
template <class V, int... I>
inline V with_last_of(const V& a, const V& b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (I + 1 < n ? I : n + I)...);
}

// The last Count lanes of `before`, then the first ones of `now`.
template <int Count, class V>
inline V shifted_in(const V& before, const V& now) {
  constexpr int item = sizeof(lane_type<V>), rest = 16 - Count * item;
  static_assert(rest >= 0);
#if defined(HALFULP_X86)
  using Register = typename lanes::RegisterOf<sizeof(V)>::type;
  const auto a = reinterpret<Register>(before), b = reinterpret<Register>(now);
#if defined(HALFULP_ISA_avx512)
  if constexpr (sizeof(V) == 64) {
    if constexpr (item == 4) return reinterpret<V>(_mm512_maskz_alignr_epi32(0xffff, b, a, 16 - Count));
    else if constexpr (item == 8) return reinterpret<V>(_mm512_maskz_alignr_epi64(0xff, b, a, 8 - Count));
    else return reinterpret<V>(_mm512_alignr_epi8(b, _mm512_maskz_alignr_epi64(0xff, b, a, 6), rest));
  }
#endif
#if defined(HALFULP_AVX2)
  if constexpr (sizeof(V) == 32)
    return reinterpret<V>(_mm256_alignr_epi8(b, _mm256_permute2x128_si256(a, b, 0x21), rest));
  else if constexpr (sizeof(V) == 16)
    return reinterpret<V>(_mm_alignr_epi8(b, a, rest));
#else
  if constexpr (sizeof(V) == 16)
    return reinterpret<V>(_mm_or_si128(_mm_srli_si128(a, rest), _mm_slli_si128(b, 16 - rest)));
#endif
#else
  return shuffled<static_cast<int>(sizeof(V)) / item - Count, 1>(before, now, lane_sequence<V>{});
#endif
}

template <class T>
inline bool any_nan(const Vector<T>& v) {
#if defined(HALFULP_MASKS)
  if constexpr (sizeof(T) == 4) return _mm512_cmp_ps_mask(reinterpret<__m512>(v), reinterpret<__m512>(v), 3) != 0;
  else return _mm512_cmp_pd_mask(reinterpret<__m512d>(v), reinterpret<__m512d>(v), 3) != 0;
#elif defined(HALFULP_ISA_avx2)
  return _mm256_movemask_epi8(reinterpret<__m256i>(v != v)) != 0;
#elif defined(HALFULP_X86)
  return _mm_movemask_epi8(reinterpret<__m128i>(v != v)) != 0;
#else
  T lanes[kLanes<T>];
  store(lanes, v);
  bool found = false;
  for (const T x : lanes) found = found || x != x;
  return found;
#endif
}

// Whether any lane of floats was NaN: one comparison shows it of two vectors. Compilers collect lanes of 64 bits one by
// one where there are no instructions for them.
template <class V>
class NanLanes {
 public:
  void see(const V& a, const V& b) {
#if defined(HALFULP_X86)
    constexpr bool single = sizeof(lane_type<V>) == 4;
#if defined(HALFULP_MASKS)
    if constexpr (sizeof(V) == 64 && single)
      seen_ |= _mm512_cmp_ps_mask(reinterpret<__m512>(a), reinterpret<__m512>(b), _CMP_UNORD_Q);
    else if constexpr (sizeof(V) == 64)
      seen_ |= _mm512_cmp_pd_mask(reinterpret<__m512d>(a), reinterpret<__m512d>(b), _CMP_UNORD_Q);
#elif defined(HALFULP_ISA_avx2)
    if constexpr (sizeof(V) == 32 && single)
      join(_mm256_cmp_ps(reinterpret<__m256>(a), reinterpret<__m256>(b), _CMP_UNORD_Q));
    else if constexpr (sizeof(V) == 32)
      join(_mm256_cmp_pd(reinterpret<__m256d>(a), reinterpret<__m256d>(b), _CMP_UNORD_Q));
#endif
    if constexpr (sizeof(V) == 16 && single) join(_mm_cmpunord_ps(reinterpret<__m128>(a), reinterpret<__m128>(b)));
    else if constexpr (sizeof(V) == 16) join(_mm_cmpunord_pd(reinterpret<__m128d>(a), reinterpret<__m128d>(b)));
#else
    seen_ |= reinterpret<Seen>((a != a) | (b != b));
#endif
  }
  bool any() const {
    std::uint32_t words[sizeof seen_ / 4], joined = 0;
    std::memcpy(words, &seen_, sizeof seen_);
    for (const std::uint32_t word : words) joined |= word;
    return joined != 0;
  }

 private:
#if defined(HALFULP_MASKS)
  using Seen = std::conditional_t<sizeof(V) == 64, std::uint32_t, Vector<std::int32_t, sizeof(V)>>;
#else
  using Seen = Vector<std::int32_t, sizeof(V)>;
#endif
  template <class M>
  void join(const M& mask) {
    seen_ |= reinterpret<Seen>(mask);
  }
  Seen seen_{};
};

template <class T>
inline Vector<T> smaller_signed(const Vector<T>& a, const Vector<T>& b) {
#if defined(HALFULP_MASKS)
  const auto x = reinterpret<__m512i>(a), y = reinterpret<__m512i>(b);
  if constexpr (sizeof(T) == 4) return reinterpret<Vector<T>>(_mm512_maskz_min_epi32(0xffff, x, y));
  else if constexpr (sizeof(T) == 8) return reinterpret<Vector<T>>(_mm512_maskz_min_epi64(0xff, x, y));
#endif
  return a < b ? a : b;
}

// The smaller of two lanes of uint16. Without SSE4.1 there is no instruction for it; a saturating difference serves.
template <class V>
inline V smaller_unsigned(const V& a, const V& b) {
#if defined(HALFULP_X86) && !defined(HALFULP_AVX2)
  static_assert(sizeof(V) == 16);
  return a - reinterpret<V>(_mm_subs_epu16(reinterpret<__m128i>(a), reinterpret<__m128i>(b)));
#else
  return a < b ? a : b;
#endif
}

// The second item of every pair of integers in place of the first, zero in place of the second.
template <class V>
inline V second_as_first(const V& v) {
  constexpr int item = sizeof(lane_type<V>);
  using Pair = std::make_unsigned_t<typename IntOfSize<2 * item>::type>;
  return reinterpret<V>(reinterpret<Vector<Pair, sizeof(V)>>(v) >> 8 * item);
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
