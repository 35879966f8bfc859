// Convolution's table of inner loops for one instruction set: products (conv_products.hpp), loading and accepting.
#include <bit>

#include "conv_products.hpp"
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
void load(const T* in, Index stride, Index n, S* out) {
  if (stride == 1) {
    for (Index i = load_vectors(in, n, out); i < n; ++i) out[i] = static_cast<S>(widened(in[i]));
  } else {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<S>(widened(in[i * stride]));
  }
}

template <class T>
Index accept(const double* value, const double* bound, const double* floor, Index n, double gamma, double exact, T* out,
             std::uint8_t* bad) {
  Index count = 0;
  for (Index i = 0; i < n; ++i) {
    const double error = bound[i] < exact ? 0.0 : gamma * bound[i];
    const double margin = error < floor[i] ? floor[i] : error;  // a NaN stays
    const auto low = round_bits<format_of<T>>(value[i] - margin);
    const auto high = round_bits<format_of<T>>(value[i] + margin);
    const bool differ = (low != high) | (margin != margin);
    out[i] = std::bit_cast<T>(low);
    bad[i] = differ;
    count += differ;
  }
  return count;
}

Index accept_twofold(const double* high, const double* low, const double* bound, const double* floor, Index n,
                     double gamma, double exact, double* out, std::uint8_t* bad) {
  Index count = 0;
  for (Index i = 0; i < n; ++i) {
    const double error = bound[i] < exact ? 0.0 : gamma * bound[i] + floor[i];
    const double sum = high[i] + low[i];
    const double from_low = sum - high[i];
    const double rest = (high[i] - (sum - from_low)) + (low[i] - from_low);
    const double below = sum + (rest - error);
    const double above = sum + (rest + error);
    const bool differ = !((below == above) & (below != 0.0));
    out[i] = below;
    bad[i] = differ;
    count += differ;
  }
  return count;
}

void add_squares(const double* x, Index n, double* sum) {
  for (Index i = 0; i < n; ++i) sum[i] += x[i] * x[i];
}

// The largest magnitude; NaNs do not count. Lanes of their own, so that the loop vectorises.
double largest_magnitude(const double* x, Index n) {
  constexpr Index lanes = 16;
  double most[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Index j = 0; j < lanes; ++j) {
      const double size = x[i + j] < 0 ? -x[i + j] : x[i + j];
      most[j] = size > most[j] ? size : most[j];
    }
  for (; i < n; ++i) {
    const double size = x[i] < 0 ? -x[i] : x[i];
    most[0] = size > most[0] ? size : most[0];
  }
  for (Index j = 1; j < lanes; ++j) most[0] = most[j] > most[0] ? most[j] : most[0];
  return most[0];
}

}  // namespace

const ConvKernels& conv_kernels() {
  static constexpr ConvKernels table{product_kernels<PlainSum<float>, kRows, kVectors>(),
                                     product_kernels<PlainSum<double>, kRows, kVectors>(),
                                     product_kernels<TwofoldSum, kRows, 1>(),
                                     load<Float16, float>,
                                     load<BFloat16, float>,
                                     load<float, float>,
                                     load<Float16, double>,
                                     load<BFloat16, double>,
                                     load<float, double>,
                                     load<double, double>,
                                     accept<Float16>,
                                     accept<BFloat16>,
                                     accept<float>,
                                     accept_twofold,
                                     add_squares,
                                     largest_magnitude};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
