// Convolution's table of inner loops for one instruction set: products (products.hpp), loading and accepting.
#include <bit>
#include <limits>

#include "conv/kernels/products.hpp"
#include "halfulp/dtype.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

float widened(Float16 x) { return to_float(x); }
float widened(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
float widened(float x) { return x; }
double widened(double x) { return x; }

#ifdef __F16C__
Index load_vectors(const Float16* in, Index n, float* out) {
  Index i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  return i;
}
Index load_vectors(const Float16* in, Index n, double* out) {
  Index i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    _mm256_storeu_pd(out + i, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    _mm256_storeu_pd(out + i + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
  }
  return i;
}
#endif
template <class T, class S>
Index load_vectors(const T*, Index, S*) {
  return 0;
}

template <class T, class S>
void load_row(const T* in, Index stride, Index n, S* out) {
  if (stride == 1) {
    for (Index i = load_vectors(in, n, out); i < n; ++i) out[i] = static_cast<S>(widened(in[i]));
  } else {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<S>(widened(in[i * stride]));
  }
}

Index count_of(const std::uint8_t* flags, Index n) {
  Index count = 0;
  for (Index i = 0; i < n; ++i) count += flags[i];
  return count;
}

// `given` is copied because a store to `bad` could, for all the compiler knows, change it.
template <class T, int Sources>
Index accept_sources(const double* __restrict value, const conv::Acceptance& given, T* __restrict out,
                     std::uint8_t* __restrict bad) {
  const conv::Acceptance a = given;
  const double* __restrict const first = a.reach[0];
  const double* __restrict const second = a.reach[1];
  const double* __restrict const floor = a.floor;
  for (Index i = 0; i < a.n; ++i) {
    double bound = a.base + first[i] * a.size[0];
    if constexpr (Sources == 2) bound += second[i] * a.size[1];
    const double error = bound < a.exact ? 0.0 : a.gamma * bound;
    const double margin = error < floor[i] ? floor[i] : error;  // a NaN stays
    const double sum = value[i] + a.bias;
    const auto low = round_bits<format_of<T>>(sum - margin);
    const auto high = round_bits<format_of<T>>(sum + margin);
    out[i] = std::bit_cast<T>(low);
    bad[i] = ((low != high) | (margin != margin)) ? 1 : 0;
  }
  return count_of(bad, a.n);
}

template <int Sources>
Index accept_twofold_sources(const double* __restrict highs, const double* __restrict lows,
                             const conv::Acceptance& given, double* __restrict out, std::uint8_t* __restrict bad) {
  const conv::Acceptance a = given;
  const double least = std::numeric_limits<double>::min();  // keeps a bound of nonzero factors from vanishing
  for (Index i = 0; i < a.n; ++i) {
    double bound = a.base;
    for (int s = 0; s < Sources; ++s)
      bound += a.reach[s][i] * a.size[s] + (a.reach[s][i] != 0 && a.size[s] != 0 ? least : 0.0);
    const double error = bound < a.exact ? 0.0 : a.gamma * bound + a.floor[i];
    const TwoDoubles with_bias = two_sum(highs[i], a.bias);
    const TwoDoubles sum = two_sum(with_bias.high, lows[i] + with_bias.low);
    const double below = sum.high + (sum.low - error);
    const double above = sum.high + (sum.low + error);
    out[i] = below;
    bad[i] = ((below == above) & (below != 0.0)) ? 0 : 1;
  }
  return count_of(bad, a.n);
}

#if defined(__AVX512F__)
// The same eight at a time. The compiler's own version of the loop takes three times as long.
template <int Sources>
Index accept_floats(const double* value, const conv::Acceptance& a, float* out, std::uint8_t* bad) {
  Index count = 0;
  for (Index i = 0; i < a.n; i += 8) {
    const auto lanes = static_cast<__mmask8>(a.n - i >= 8 ? 0xff : (1 << (a.n - i)) - 1);
    const auto load = [&](const double* p) { return _mm512_maskz_loadu_pd(lanes, p + i); };
    const auto scaled = [&](int s) { return _mm512_mul_pd(load(a.reach[s]), _mm512_set1_pd(a.size[s])); };
    __m512d bound = _mm512_add_pd(_mm512_set1_pd(a.base), scaled(0));
    if constexpr (Sources == 2) bound = _mm512_add_pd(bound, scaled(1));
    const __mmask8 inexact = _mm512_cmp_pd_mask(bound, _mm512_set1_pd(a.exact), _CMP_NLT_UQ);
    const __m512d error = _mm512_maskz_mul_pd(inexact, _mm512_set1_pd(a.gamma), bound);
    const __m512d floor = load(a.floor);
    const __m512d margin = _mm512_mask_mov_pd(error, _mm512_cmp_pd_mask(error, floor, _CMP_LT_OQ), floor);
    const __m512d sum = _mm512_add_pd(load(value), _mm512_set1_pd(a.bias));
    const __m256 low = _mm512_maskz_cvtpd_ps(0xff, _mm512_sub_pd(sum, margin));
    const __m256 high = _mm512_maskz_cvtpd_ps(0xff, _mm512_add_pd(sum, margin));
    const auto differ = static_cast<__mmask8>(
        lanes & (_mm256_cmpneq_epi32_mask(_mm256_castps_si256(low), _mm256_castps_si256(high)) |
                 _mm512_cmp_pd_mask(margin, margin, _CMP_UNORD_Q)));
    _mm256_mask_storeu_ps(out + i, lanes, low);
    _mm_mask_storeu_epi8(bad + i, lanes, _mm_maskz_set1_epi8(differ, 1));
    count += __builtin_popcount(differ);
  }
  return count;
}
template <>
Index accept_sources<float, 1>(const double* value, const conv::Acceptance& a, float* out, std::uint8_t* bad) {
  return accept_floats<1>(value, a, out, bad);
}
template <>
Index accept_sources<float, 2>(const double* value, const conv::Acceptance& a, float* out, std::uint8_t* bad) {
  return accept_floats<2>(value, a, out, bad);
}
#endif

// Sources: how many reaches there are.
template <class T, int Sources>
bool decide_sources(const double* __restrict value, Index n, const conv::Margin& given, T* __restrict out) {
  const conv::Margin m = given;
  const double* __restrict const first = m.reach[0];
  const double* __restrict const second = m.reach[1];
  typename format_of<T>::bits_type differ = 0;
  for (Index i = 0; i < n; ++i) {
    double margin = m.base;
    if constexpr (Sources > 0) margin += first[i] * m.scale[0];
    if constexpr (Sources > 1) margin += second[i] * m.scale[1];
    const double sum = value[i] + m.bias;
    const auto low = round_bits<format_of<T>>(sum - margin);
    const auto high = round_bits<format_of<T>>(sum + margin);
    out[i] = std::bit_cast<T>(low);
    differ |= static_cast<decltype(differ)>((low ^ high) | (((margin != margin) & (sum == sum)) ? 1 : 0));
  }
  return differ == 0;
}

#if defined(__AVX512F__)
template <int Sources>
bool decide_floats(const double* value, Index n, const conv::Margin& m, float* out) {
  const __m512d base = _mm512_set1_pd(m.base), bias = _mm512_set1_pd(m.bias);
  const __m512d first = _mm512_set1_pd(m.scale[0]), second = _mm512_set1_pd(m.scale[1]);
  __mmask8 differ = 0;
  const auto decide = [&](Index i, __mmask8 lanes) {
    __m512d margin = base;
    if constexpr (Sources > 0) margin = _mm512_fmadd_pd(_mm512_maskz_loadu_pd(lanes, m.reach[0] + i), first, margin);
    if constexpr (Sources > 1) margin = _mm512_fmadd_pd(_mm512_maskz_loadu_pd(lanes, m.reach[1] + i), second, margin);
    const __m512d sum = _mm512_add_pd(_mm512_maskz_loadu_pd(lanes, value + i), bias);
    const __m256 low = _mm512_maskz_cvtpd_ps(0xff, _mm512_sub_pd(sum, margin));
    const __m256 high = _mm512_maskz_cvtpd_ps(0xff, _mm512_add_pd(sum, margin));
    _mm256_mask_storeu_ps(out + i, lanes, low);
    differ |= _mm256_mask_cmpneq_epi32_mask(lanes, _mm256_castps_si256(low), _mm256_castps_si256(high));
    const __mmask8 unbounded = _mm512_mask_cmp_pd_mask(lanes, margin, margin, _CMP_UNORD_Q);
    differ |= _mm512_mask_cmp_pd_mask(unbounded, sum, sum, _CMP_ORD_Q);
  };
  Index i = 0;
  for (; i + 8 <= n; i += 8) decide(i, 0xff);
  if (i < n) decide(i, static_cast<__mmask8>((1 << (n - i)) - 1));
  return differ == 0;
}
template <>
bool decide_sources<float, 0>(const double* value, Index n, const conv::Margin& margin, float* out) {
  return decide_floats<0>(value, n, margin, out);
}
template <>
bool decide_sources<float, 1>(const double* value, Index n, const conv::Margin& margin, float* out) {
  return decide_floats<1>(value, n, margin, out);
}
template <>
bool decide_sources<float, 2>(const double* value, Index n, const conv::Margin& margin, float* out) {
  return decide_floats<2>(value, n, margin, out);
}
#endif

template <class T>
bool decide(const double* value, Index n, const conv::Margin& margin, T* out) {
  if (margin.reach[0] == nullptr) return decide_sources<T, 0>(value, n, margin, out);
  return margin.reach[1] == nullptr ? decide_sources<T, 1>(value, n, margin, out)
                                    : decide_sources<T, 2>(value, n, margin, out);
}

template <class T>
Index accept(const double* value, const conv::Acceptance& a, T* out, std::uint8_t* bad) {
  return a.reach[1] == nullptr ? accept_sources<T, 1>(value, a, out, bad) : accept_sources<T, 2>(value, a, out, bad);
}

Index accept_twofold(const double* high, const double* low, const conv::Acceptance& a, double* out, std::uint8_t* bad) {
  return a.reach[1] == nullptr ? accept_twofold_sources<1>(high, low, a, out, bad)
                               : accept_twofold_sources<2>(high, low, a, out, bad);
}

void spread(const float* in, Index n, Index stride, float* out) {
  Index i = 0;
#if defined(__AVX512F__)
  if (stride == 2) {  // the last of eight may be the last element of all: its neighbour is not touched
    for (; i + 8 <= n; i += 8) {
      const __m512 x = _mm512_castps256_ps512(_mm256_loadu_ps(in + i));
      _mm512_mask_storeu_ps(out + 2 * i, 0x5555, _mm512_maskz_expand_ps(0x5555, x));
    }
  }
#endif
  for (; i < n; ++i) out[i * stride] = in[i];
}

void add_squares(const double* x, Index n, double* sum) {
  for (Index i = 0; i < n; ++i) sum[i] += x[i] * x[i];
}

void add_magnitudes(const double* x, Index n, double* sum) {
  for (Index i = 0; i < n; ++i) sum[i] += x[i] < 0 ? -x[i] : x[i];
}

// The largest magnitude; NaNs do not count. Four vectors in flight hide the latency of the comparison.
double largest_magnitude(const double* x, Index n) {
  using V = Vector<double>;
  V most[4] = {filled<V>(0), filled<V>(0), filled<V>(0), filled<V>(0)};
  Index i = 0;
  for (; i + 4 * kWidth<V> <= n; i += 4 * kWidth<V>)
    for (int j = 0; j < 4; ++j) most[j] = larger_magnitude(load(x + i + j * kWidth<V>), most[j]);
  double lanes[4 * kWidth<V>];
  for (int j = 0; j < 4; ++j) store(lanes + j * kWidth<V>, most[j]);
  double result = 0;
  for (const double lane : lanes) result = lane > result ? lane : result;
  for (; i < n; ++i) {
    const double size = x[i] < 0 ? -x[i] : x[i];
    result = size > result ? size : result;
  }
  return result;
}

// The sum of f over n numbers, four vectors in flight.
template <class F>
double sum_over(const double* x, Index n, const F& f) {
  using V = Vector<double>;
  V sums[4] = {filled<V>(0), filled<V>(0), filled<V>(0), filled<V>(0)};
  Index i = 0;
  for (; i + 4 * kWidth<V> <= n; i += 4 * kWidth<V>)
    for (int j = 0; j < 4; ++j) sums[j] = sums[j] + f(load(x + i + j * kWidth<V>));
  for (; i + kWidth<V> <= n; i += kWidth<V>) sums[0] = sums[0] + f(load(x + i));
  double lanes[4 * kWidth<V>], rest[kWidth<V>] = {};  // f of 0 is 0
  for (int j = 0; i + j < n; ++j) rest[j] = x[i + j];
  if (i < n) sums[1] = sums[1] + f(load(rest));
  for (int j = 0; j < 4; ++j) store(lanes + j * kWidth<V>, sums[j]);
  double result = 0;
  for (const double lane : lanes) result += lane;
  return result;
}

double sum_squares(const double* x, Index n) {
  return sum_over(x, n, [](Vector<double> v) { return v * v; });
}
double sum_magnitudes(const double* x, Index n) {
  return sum_over(x, n, [](Vector<double> v) { return magnitude(v); });
}

// Positions inside, so that one addition need not wait for the one before; long windows are summed one by one.
void sum_windows(const double* __restrict cells, const conv::Windows& given, double* __restrict out) {
  const conv::Windows w = given;
  const bool run = w.taps > 1 && (w.tap[1] - w.tap[0] == 1 || w.tap[0] - w.tap[1] == 1);
  if (w.inner == 1 && run && w.taps >= 32) {
    const Index first = w.tap[0] < w.tap[1] ? w.tap[0] : w.tap[w.taps - 1];
    for (Index q = 0; q < w.positions; ++q) out[q] = sum_magnitudes(cells + q * w.step + first, w.taps);
    return;
  }
  for (Index i = 0; i < w.positions * w.inner; ++i) out[i] = 0;
  for (Index t = 0; t < w.taps; ++t) {
    const double* const from = cells + w.tap[t] * w.inner;
    if (w.step == 1) {
      for (Index i = 0; i < w.positions * w.inner; ++i) out[i] += from[i];
    } else if (w.inner == 1 && w.step == 2) {
      for (Index q = 0; q < w.positions; ++q) out[q] += from[2 * q];
    } else {
      for (Index q = 0; q < w.positions; ++q)
        for (Index j = 0; j < w.inner; ++j) out[q * w.inner + j] += from[q * w.step * w.inner + j];
    }
  }
}

}  // namespace

const ConvKernels& conv_kernels() {
  static constexpr ConvKernels table{product_kernels<PlainSum<float>, kRows, kVectors>(),
                                     product_kernels<PlainSum<double>, kRows, kVectors>(),
                                     product_kernels<TwofoldSum, kRows, 1>(),
                                     load_row<Float16, float>,
                                     load_row<BFloat16, float>,
                                     load_row<float, float>,
                                     load_row<Float16, double>,
                                     load_row<BFloat16, double>,
                                     load_row<float, double>,
                                     load_row<double, double>,
                                     decide<Float16>,
                                     decide<BFloat16>,
                                     decide<float>,
                                     accept<Float16>,
                                     accept<BFloat16>,
                                     accept<float>,
                                     accept_twofold,
                                     spread,
                                     add_squares,
                                     add_magnitudes,
                                     largest_magnitude,
                                     sum_windows,
                                     sum_squares,
                                     sum_magnitudes};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
