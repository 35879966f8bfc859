// Products and their sums, fused where the processor does that; square roots; magnitudes.
#pragma once

#include <cmath>

#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class V>
inline constexpr int kWidth = static_cast<int>(sizeof(V) / sizeof(lane_type<V>));
template <class V>
inline V filled(lane_type<V> x) {
  return splat<lane_type<V>>(x);
}

// Whether multiply_add rounds once.
#if defined(HALFULP_ISA_avx512) || defined(HALFULP_ISA_avx2) || defined(HALFULP_NEON)
inline constexpr bool kFused = true;
#else
inline constexpr bool kFused = false;
#endif

// Without fused instructions the product is rounded: of two widened floats it is exact, so that the bits are the same;
// they differ in `fast` mode alone. Arguments by value: GCC keeps sums that are passed by reference in memory.
template <class V>
inline V multiply_add(V a, V b, V c) {
#if defined(HALFULP_ISA_avx512)
  if constexpr (sizeof(a[0]) == 8)
    return reinterpret<V>(_mm512_fmadd_pd(reinterpret<__m512d>(a), reinterpret<__m512d>(b), reinterpret<__m512d>(c)));
  else
    return reinterpret<V>(_mm512_fmadd_ps(reinterpret<__m512>(a), reinterpret<__m512>(b), reinterpret<__m512>(c)));
#elif defined(HALFULP_ISA_avx2)
  if constexpr (sizeof(a[0]) == 8)
    return reinterpret<V>(_mm256_fmadd_pd(reinterpret<__m256d>(a), reinterpret<__m256d>(b), reinterpret<__m256d>(c)));
  else
    return reinterpret<V>(_mm256_fmadd_ps(reinterpret<__m256>(a), reinterpret<__m256>(b), reinterpret<__m256>(c)));
#elif defined(HALFULP_NEON)
  if constexpr (sizeof(a[0]) == 8)
    return reinterpret<V>(
        vfmaq_f64(reinterpret<float64x2_t>(c), reinterpret<float64x2_t>(a), reinterpret<float64x2_t>(b)));
  else
    return reinterpret<V>(
        vfmaq_f32(reinterpret<float32x4_t>(c), reinterpret<float32x4_t>(a), reinterpret<float32x4_t>(b)));
#else
  return a * b + c;
#endif
}

// a * b - product, where product is fl(a * b)
inline Vector<double> product_error(const Vector<double>& a, const Vector<double>& b, const Vector<double>& product) {
#if defined(HALFULP_ISA_avx512) || defined(HALFULP_ISA_avx2)
  return multiply_add(a, b, Vector<double>(-product));
#elif defined(FP_FAST_FMA)
  Vector<double> error = product;
  for (int i = 0; i < kLanes<double>; ++i) error[i] = std::fma(a[i], b[i], -product[i]);
  return error;
#else
  // Dekker's splitting into halves of 26 bits. An overflow gives NaN, which no acceptance test accepts.
  const Vector<double> splitter = splat(0x1p27 + 1);
  const Vector<double> a_scaled = splitter * a, b_scaled = splitter * b;
  const Vector<double> a_high = a_scaled - (a_scaled - a), b_high = b_scaled - (b_scaled - b);
  const Vector<double> a_low = a - a_high, b_low = b - b_high;
  return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
#endif
}

inline Vector<double> square_root(const Vector<double>& x) {
#if defined(HALFULP_ISA_avx512)
  return reinterpret<Vector<double>>(_mm512_maskz_sqrt_pd(0xff, reinterpret<__m512d>(x)));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<Vector<double>>(_mm256_sqrt_pd(reinterpret<__m256d>(x)));
#elif defined(HALFULP_X86)
  return reinterpret<Vector<double>>(_mm_sqrt_pd(reinterpret<__m128d>(x)));
#else
  Vector<double> root = x;
  for (int i = 0; i < kLanes<double>; ++i) root[i] = std::sqrt(x[i]);
  return root;
#endif
}

// max(|x|, most), or `most` where x is NaN
inline Vector<double> larger_magnitude(const Vector<double>& x, const Vector<double>& most) {
  return max_first(most, magnitude(x));
}

// The block of a matrix product that stays in registers: at most so many vectors, and rows for that many vectors.
#if defined(HALFULP_ISA_avx512) || defined(__aarch64__)
inline constexpr int kVectors = 3;
template <int Vectors>
inline constexpr int kRows = 8;
#elif defined(HALFULP_ISA_avx2)
inline constexpr int kVectors = 3;
template <int Vectors>
inline constexpr int kRows = Vectors == 1 ? 8 : Vectors == 2 ? 6 : 4;
#else
inline constexpr int kVectors = 2;
template <int Vectors>
inline constexpr int kRows = Vectors == 1 ? 6 : 4;
#endif

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
