// Pairs of doubles from a table of any size.
#pragma once

#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// first[i] = table[at[i]], second[i] = table[at[i] + 1]
inline void look_up_pairs(const double* table, const Vector<std::uint64_t>& at, Doubles& first, Doubles& second) {
  std::uint64_t start[kWide];
  store(start, at);
#if defined(HALFULP_X86)
  const auto pair = [&](int i) { return _mm_loadu_pd(table + start[i]); };
#if defined(HALFULP_ISA_avx512)
  const auto four = [&](int i) {
    const __m256d low = _mm256_insertf128_pd(_mm256_castpd128_pd256(pair(i)), pair(i + 2), 1);
    const __m256d high = _mm256_insertf128_pd(_mm256_castpd128_pd256(pair(i + 4)), pair(i + 6), 1);
    return _mm512_maskz_insertf64x4(0xff, _mm512_castpd256_pd512(low), high, 1);
  };
  const __m512d even = four(0), odd = four(1);
  first = reinterpret<Doubles>(_mm512_maskz_unpacklo_pd(0xff, even, odd));
  second = reinterpret<Doubles>(_mm512_maskz_unpackhi_pd(0xff, even, odd));
#elif defined(HALFULP_ISA_avx2)
  const __m256d even = _mm256_insertf128_pd(_mm256_castpd128_pd256(pair(0)), pair(2), 1);
  const __m256d odd = _mm256_insertf128_pd(_mm256_castpd128_pd256(pair(1)), pair(3), 1);
  first = reinterpret<Doubles>(_mm256_unpacklo_pd(even, odd));
  second = reinterpret<Doubles>(_mm256_unpackhi_pd(even, odd));
#else
  first = reinterpret<Doubles>(_mm_unpacklo_pd(pair(0), pair(1)));
  second = reinterpret<Doubles>(_mm_unpackhi_pd(pair(0), pair(1)));
#endif
#else
  for (int i = 0; i < kWide; ++i) {
    first[i] = table[start[i]];
    second[i] = table[start[i] + 1];
  }
#endif
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
