// Convolution's table of inner loops for one instruction set: products (products.hpp), acceptance (accept.hpp), loading
// and measuring.
#include <cstring>
#include <limits>

#include "conv/kernels/accept.hpp"
#include "simd/spread.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T>
double widened(T x) {
  if constexpr (std::is_same_v<T, double>) return x;
  else return static_cast<double>(to_float(x));
}

// n elements as S. Every value of a narrower type is a double without rounding.
template <class T, class S>
void load_row(const void* from, Index stride, Index n, S* out) {
  const T* const in = static_cast<const T*>(from);
  Index i = 0;
  if (stride == 1 && std::is_same_v<T, S>) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(S));
    return;
  }
  if (stride == 1)
    for (; i + kWide <= n; i += kWide) store_rounded(out + i, load_doubles(in + i));
  for (; i < n; ++i) out[i] = static_cast<S>(widened(in[i * stride]));
}

void spread(const float* in, Index n, Index stride, float* out) {
  Index i = 0;
  if (stride == 2)
    for (; i + kSpread <= n; i += kSpread) store_every_second(out + 2 * i, in + i);
  for (; i < n; ++i) out[i * stride] = in[i];
}

void add_squares(const double* x, Index n, double* sum) {
  for (Index i = 0; i < n; ++i) sum[i] += x[i] * x[i];
}

// Some channels of one panel, of which n positions exist.
template <int Vectors>
void fill_panel_of(const float* cells, Index pitch, Index channels, Index n, double* squares, double* out) {
  constexpr Index width = Vectors * kWide;
  float some[width] = {};
  Doubles sums[Vectors];
  for (int j = 0; j < Vectors; ++j) sums[j] = load(squares + j * kWide);
  for (Index c = 0; c < channels; ++c, cells += pitch, out += width) {
    const float* from = cells;
    if (n < width) {
      for (Index i = 0; i < n; ++i) some[i] = cells[i];
      from = some;
    }
    for (int j = 0; j < Vectors; ++j) {
      const Doubles x = load_doubles(from + j * kWide);
      store(out + j * kWide, x);
      sums[j] = multiply_add(x, x, sums[j]);
    }
  }
  for (int j = 0; j < Vectors; ++j) store(squares + j * kWide, sums[j]);
}

// A few channels at a time: as many streams as the processor follows.
void fill_panels(const float* cells, Index pitch, Index channels, Index n, double* squares, double* out) {
  constexpr Index most = 8;
  const Index vectors = (n + kWide - 1) / kWide, panels = (vectors + kVectors - 1) / kVectors;
  for (Index c = 0; c < channels; c += most) {
    const Index some = channels - c < most ? channels - c : most;
    for (Index i = 0, p = 0; i < panels; ++i) {
      const Index count = vectors / panels + (i < vectors % panels ? 1 : 0);
      const auto fill = [&]<int Vectors>(std::integral_constant<int, Vectors>) {
        fill_panel_of<Vectors>(cells + c * pitch + p, pitch, some, n - p, squares + p,
                               out + p * channels + c * Vectors * kWide);
      };
      if (count == 1) fill(std::integral_constant<int, 1>{});
      else if (count == 2) fill(std::integral_constant<int, 2>{});
      else fill(std::integral_constant<int, 3>{});
      p += count * kWide;
    }
  }
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

template <class T>
constexpr conv::ElementType element_type() {
  if constexpr (std::is_same_v<T, double>)
    return {dtype_of<T>, sizeof(T), nullptr, load_row<T, double>, decide_nothing, accept_twofold};
  else return {dtype_of<T>, sizeof(T), load_row<T, float>, load_row<T, double>, decide<T>, accept<T>};
}

}  // namespace

const ConvKernels& conv_kernels() {
  static constexpr ConvKernels table{product_kernels<PlainSum<float>, kVectors>(),
                                     product_kernels<PlainSum<double>, kVectors>(),
                                     product_kernels<TwofoldSum, 1>(),
                                     {element_type<Float16>(), element_type<BFloat16>(), element_type<float>(),
                                      element_type<double>()},
                                     spread,
                                     add_squares,
                                     add_magnitudes,
                                     largest_magnitude,
                                     sum_windows,
                                     sum_squares,
                                     sum_magnitudes,
                                     fill_panels};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
