// Transposing a small square of doubles or floats in registers.
#pragma once

#include "halfulp/array.hpp"
#include "simd/products.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class S>
inline constexpr Index kTransposeBlock = 8;

// A larger square, of whole cache lines: none is written in two parts. 0 if there is none.
template <class S>
inline constexpr Index kTransposeLine = 0;

template <class S>
void transpose_block(const S* in, Index in_stride, S* out, Index out_stride) {
  for (Index i = 0; i < kTransposeBlock<S>; ++i)
    for (Index j = 0; j < kTransposeBlock<S>; ++j) out[j * out_stride + i] = in[i * in_stride + j];
}

#if defined(HALFULP_ISA_avx512)

// The masked forms with all lanes: GCC 12 warns about an undefined value inside its own unmasked ones.
inline constexpr __mmask8 kAll = 0xff;

template <>
void transpose_block<double>(const double* in, Index in_stride, double* out, Index out_stride) {
  __m512d pairs[8], quads[8];
  for (int i = 0; i < 8; i += 2) {  // elements 2j of rows i and i + 1, then elements 2j + 1
    const __m512d a = _mm512_loadu_pd(in + i * in_stride), b = _mm512_loadu_pd(in + (i + 1) * in_stride);
    pairs[i] = _mm512_maskz_unpacklo_pd(kAll, a, b);
    pairs[i + 1] = _mm512_maskz_unpackhi_pd(kAll, a, b);
  }
  for (int i = 0; i < 2; ++i) {  // rows 0 to 3 and rows 4 to 7, two columns in each register
    quads[i] = _mm512_maskz_shuffle_f64x2(kAll, pairs[i], pairs[i + 2], 0x88);
    quads[i + 2] = _mm512_maskz_shuffle_f64x2(kAll, pairs[i], pairs[i + 2], 0xdd);
    quads[i + 4] = _mm512_maskz_shuffle_f64x2(kAll, pairs[i + 4], pairs[i + 6], 0x88);
    quads[i + 6] = _mm512_maskz_shuffle_f64x2(kAll, pairs[i + 4], pairs[i + 6], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {  // column i, column i + 4
    _mm512_storeu_pd(out + i * out_stride, _mm512_maskz_shuffle_f64x2(kAll, quads[i], quads[i + 4], 0x88));
    _mm512_storeu_pd(out + (i + 4) * out_stride, _mm512_maskz_shuffle_f64x2(kAll, quads[i], quads[i + 4], 0xdd));
  }
}

template <>
inline constexpr Index kTransposeLine<float> = 16;

inline void transpose_lines(const float* in, Index in_stride, float* out, Index out_stride) {
  constexpr __mmask16 all = 0xffff;
  __m512 pairs[16], quads[16];
  for (int i = 0; i < 16; i += 2) {
    const __m512 a = _mm512_loadu_ps(in + i * in_stride), b = _mm512_loadu_ps(in + (i + 1) * in_stride);
    pairs[i] = _mm512_maskz_unpacklo_ps(all, a, b);
    pairs[i + 1] = _mm512_maskz_unpackhi_ps(all, a, b);
  }
  for (int i = 0; i < 16; i += 4) {  // columns 4j + c of rows i to i + 3 stand in lane j of quads[i + c]
    quads[i] = _mm512_maskz_shuffle_ps(all, pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm512_maskz_shuffle_ps(all, pairs[i], pairs[i + 2], 0xee);
    quads[i + 2] = _mm512_maskz_shuffle_ps(all, pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm512_maskz_shuffle_ps(all, pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {
    const __m512 even = _mm512_maskz_shuffle_f32x4(all, quads[c], quads[c + 4], 0x88);
    const __m512 odd = _mm512_maskz_shuffle_f32x4(all, quads[c], quads[c + 4], 0xdd);
    const __m512 later_even = _mm512_maskz_shuffle_f32x4(all, quads[c + 8], quads[c + 12], 0x88);
    const __m512 later_odd = _mm512_maskz_shuffle_f32x4(all, quads[c + 8], quads[c + 12], 0xdd);
    _mm512_storeu_ps(out + c * out_stride, _mm512_maskz_shuffle_f32x4(all, even, later_even, 0x88));
    _mm512_storeu_ps(out + (c + 4) * out_stride, _mm512_maskz_shuffle_f32x4(all, odd, later_odd, 0x88));
    _mm512_storeu_ps(out + (c + 8) * out_stride, _mm512_maskz_shuffle_f32x4(all, even, later_even, 0xdd));
    _mm512_storeu_ps(out + (c + 12) * out_stride, _mm512_maskz_shuffle_f32x4(all, odd, later_odd, 0xdd));
  }
}

#elif defined(HALFULP_AVX2)

template <>
inline constexpr Index kTransposeBlock<double> = 4;

template <>
void transpose_block<double>(const double* in, Index in_stride, double* out, Index out_stride) {
  __m256d pairs[4];
  for (int i = 0; i < 4; i += 2) {
    const __m256d a = _mm256_loadu_pd(in + i * in_stride), b = _mm256_loadu_pd(in + (i + 1) * in_stride);
    pairs[i] = _mm256_unpacklo_pd(a, b);
    pairs[i + 1] = _mm256_unpackhi_pd(a, b);
  }
  for (int i = 0; i < 2; ++i) {
    _mm256_storeu_pd(out + i * out_stride, _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x20));
    _mm256_storeu_pd(out + (i + 2) * out_stride, _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x31));
  }
}

#endif
#if defined(HALFULP_AVX2)

template <>
void transpose_block<float>(const float* in, Index in_stride, float* out, Index out_stride) {
  __m256 pairs[8], quads[8];
  for (int i = 0; i < 8; i += 2) {
    const __m256 a = _mm256_loadu_ps(in + i * in_stride), b = _mm256_loadu_ps(in + (i + 1) * in_stride);
    pairs[i] = _mm256_unpacklo_ps(a, b);
    pairs[i + 1] = _mm256_unpackhi_ps(a, b);
  }
  for (int i = 0; i < 8; i += 4) {  // columns 0 to 3 of each half, rows i to i + 3
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + i * out_stride, _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * out_stride, _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31));
  }
}

#endif

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
