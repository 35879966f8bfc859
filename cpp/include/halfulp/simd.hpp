// A vector of the widest registers of the instruction set that a file in src/isa is compiled for. Include it only
// there: everything lives in HALFULP_ISA_NAMESPACE.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)

template <class S>
struct Vector;
template <>
struct Vector<double> {
  static constexpr int width = 8;
  __m512d v;
  static Vector load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Vector all(double x) { return {_mm512_set1_pd(x)}; }
  void store(double* p) const { _mm512_storeu_pd(p, v); }
  friend Vector operator+(Vector a, Vector b) { return {_mm512_add_pd(a.v, b.v)}; }
  friend Vector operator-(Vector a, Vector b) { return {_mm512_sub_pd(a.v, b.v)}; }
  friend Vector operator*(Vector a, Vector b) { return {_mm512_mul_pd(a.v, b.v)}; }
};
template <>
struct Vector<float> {
  static constexpr int width = 16;
  __m512 v;
  static Vector load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vector all(float x) { return {_mm512_set1_ps(x)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  friend Vector operator+(Vector a, Vector b) { return {_mm512_add_ps(a.v, b.v)}; }
};
inline Vector<double> multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  return {_mm512_fmadd_pd(a.v, b.v, c.v)};
}
inline Vector<float> multiply_add(Vector<float> a, Vector<float> b, Vector<float> c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// a * b - product, where product is fl(a * b)
inline Vector<double> product_error(Vector<double> a, Vector<double> b, Vector<double> product) {
  return {_mm512_fmsub_pd(a.v, b.v, product.v)};
}
// max(|x|, most), or `most` where x is NaN
inline Vector<double> larger_magnitude(Vector<double> x, Vector<double> most) {
  const __m512d size = _mm512_andnot_pd(_mm512_set1_pd(-0.0), x.v);
  return {_mm512_maskz_max_pd(0xff, size, most.v)};  // masked: GCC 12 warns about an undefined value in the other
}
// |x|, also of infinities and NaN
inline Vector<double> magnitude(Vector<double> x) { return {_mm512_andnot_pd(_mm512_set1_pd(-0.0), x.v)}; }
inline constexpr int kRows = 8;
inline constexpr int kVectors = 3;

#elif defined(__AVX2__)

template <class S>
struct Vector;
template <>
struct Vector<double> {
  static constexpr int width = 4;
  __m256d v;
  static Vector load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Vector all(double x) { return {_mm256_set1_pd(x)}; }
  void store(double* p) const { _mm256_storeu_pd(p, v); }
  friend Vector operator+(Vector a, Vector b) { return {_mm256_add_pd(a.v, b.v)}; }
  friend Vector operator-(Vector a, Vector b) { return {_mm256_sub_pd(a.v, b.v)}; }
  friend Vector operator*(Vector a, Vector b) { return {_mm256_mul_pd(a.v, b.v)}; }
};
template <>
struct Vector<float> {
  static constexpr int width = 8;
  __m256 v;
  static Vector load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vector all(float x) { return {_mm256_set1_ps(x)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  friend Vector operator+(Vector a, Vector b) { return {_mm256_add_ps(a.v, b.v)}; }
};
inline Vector<double> multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  return {_mm256_fmadd_pd(a.v, b.v, c.v)};
}
inline Vector<float> multiply_add(Vector<float> a, Vector<float> b, Vector<float> c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
inline Vector<double> product_error(Vector<double> a, Vector<double> b, Vector<double> product) {
  return {_mm256_fmsub_pd(a.v, b.v, product.v)};
}
inline Vector<double> larger_magnitude(Vector<double> x, Vector<double> most) {
  return {_mm256_max_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), x.v), most.v)};
}
inline Vector<double> magnitude(Vector<double> x) { return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), x.v)}; }
inline constexpr int kRows = 4;
inline constexpr int kVectors = 3;

#else

// Sixteen bytes in plain C++, which every compiler turns into its 128-bit registers. A product of two widened floats is
// exact, so the unfused multiply_add gives the same bits there as the fused one; it differs in `fast` mode alone.
template <class S>
struct Vector {
  static constexpr int width = 16 / sizeof(S);
  S v[width];
  static Vector load(const S* p) {
    Vector r;
    for (int i = 0; i < width; ++i) r.v[i] = p[i];
    return r;
  }
  static Vector all(S x) {
    Vector r;
    for (int i = 0; i < width; ++i) r.v[i] = x;
    return r;
  }
  void store(S* p) const {
    for (int i = 0; i < width; ++i) p[i] = v[i];
  }
  friend Vector operator+(Vector a, Vector b) {
    for (int i = 0; i < width; ++i) a.v[i] += b.v[i];
    return a;
  }
  friend Vector operator-(Vector a, Vector b) {
    for (int i = 0; i < width; ++i) a.v[i] -= b.v[i];
    return a;
  }
  friend Vector operator*(Vector a, Vector b) {
    for (int i = 0; i < width; ++i) a.v[i] *= b.v[i];
    return a;
  }
};
template <class S>
inline Vector<S> multiply_add(Vector<S> a, Vector<S> b, Vector<S> c) {
  return a * b + c;
}
inline Vector<double> product_error(Vector<double> a, Vector<double> b, Vector<double> product) {
#ifdef FP_FAST_FMA
  for (int i = 0; i < Vector<double>::width; ++i) product.v[i] = std::fma(a.v[i], b.v[i], -product.v[i]);
  return product;
#else
  // Dekker's splitting into halves of 26 bits. An overflow gives NaN, which no acceptance test accepts.
  const Vector<double> splitter = Vector<double>::all(0x1p27 + 1);
  const Vector<double> a_scaled = splitter * a, b_scaled = splitter * b;
  const Vector<double> a_high = a_scaled - (a_scaled - a), b_high = b_scaled - (b_scaled - b);
  const Vector<double> a_low = a - a_high, b_low = b - b_high;
  return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
#endif
}
inline Vector<double> larger_magnitude(Vector<double> x, Vector<double> most) {
  for (int i = 0; i < Vector<double>::width; ++i) {
    const double size = x.v[i] < 0 ? -x.v[i] : x.v[i];
    most.v[i] = size > most.v[i] ? size : most.v[i];
  }
  return most;
}
inline Vector<double> magnitude(Vector<double> x) {
  for (int i = 0; i < Vector<double>::width; ++i) x.v[i] = x.v[i] < 0 ? -x.v[i] : x.v[i];
  return x;
}
inline constexpr int kRows = 4;
inline constexpr int kVectors = 2;

#endif

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
