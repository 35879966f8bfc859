// Elementwise functions on runs of doubles, and the rounding of their estimates.
#include "elementwise/elementwise_kernels.hpp"

#include <cstring>

#include "elementwise/kernels/functions.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Functions with f(-0) = -0 and f(+0) = +0.
template <class F>
inline constexpr bool keeps_zero =
    std::is_same_v<F, LeakyRelu> || std::is_same_v<F, Elu> || std::is_same_v<F, Tanh> || std::is_same_v<F, Gelu> ||
    std::is_same_v<F, GeluTanh> || std::is_same_v<F, Silu> || std::is_same_v<F, Mish> || std::is_same_v<F, Hardswish> ||
    std::is_same_v<F, Expm1> || std::is_same_v<F, Log1p> || std::is_same_v<F, Sqrt> || std::is_same_v<F, Erf>;

template <class F, class R>
HALFULP_ALWAYS_INLINE Estimate<R> value_at(const Parameters& p, const V& x) {
  const Estimate<R> found = F::template value<R>(x, p);
  if constexpr (keeps_zero<F>) return pick(x == V{}, exactly(real<R>(x)), found);
  else return found;
}

// f'(x) t. A derivative of exactly 0 gives +0 whatever t is; a t of 0 has the sign of the product.
template <class F, class R>
HALFULP_ALWAYS_INLINE Estimate<R> product_at(const Parameters& p, const V& x, const V& t) {
  const Estimate<R> slope = F::template slope<R>(x, p);
  const V size = magnitude(t), steep = high_of(slope.value);
  const Mask nothing = t == V{};
  Estimate<R> found;
  if constexpr (std::is_same_v<R, V>) {
    const V value = slope.value * t;
    const Mask exact = (magnitude(steep) == all(1.0)) & (slope.error == V{});
    found = {value, choose(exact, V{}, slope.error * size + (magnitude(value) * 0x1p-52 + kFloor))};
  } else {
    const Mask exact = (slope.value.low == V{}) & (slope.error == V{});
    const P value = slope.value * real<P>(t), plain = product_of(steep, t);
    const V error = slope.error * size + (magnitude(value.high) * 0x1p-98 + kFloor);
    found = {choose(exact | nothing, P{plain.high, choose(nothing, V{}, plain.low)}, value),
             choose(exact, V{}, error)};
  }
  const V unsure = choose(magnitude(steep) > slope.error, V{}, all(std::numeric_limits<double>::quiet_NaN()));
  found.error = choose(nothing, unsure, found.error);
  const Mask none = (steep == V{}) & (slope.error == V{});
  return pick(none, exactly(real<R>(0.0)), found);
}

template <class F>
void quick(const Parameters& p, const double* x, const double* t, double* value, double* error, Index n) {
  if (t == nullptr) {
    for (Index i = 0; i < n; i += kLanes<double>) {
      const Estimate<V> found = value_at<F, V>(p, load(x + i));
      store(value + i, found.value);
      store(error + i, found.error);
    }
    return;
  }
  for (Index i = 0; i < n; i += kLanes<double>) {
    const Estimate<V> found = product_at<F, V>(p, load(x + i), load(t + i));
    store(value + i, found.value);
    store(error + i, found.error);
  }
}

template <class F>
void pair(const Parameters& p, const double* x, const double* t, double* high, double* low, double* error, Index n) {
  for (Index i = 0; i < n; i += kLanes<double>) {
    const V at = load(x + i);
    const Estimate<P> found = t == nullptr ? value_at<F, P>(p, at) : product_at<F, P>(p, at, load(t + i));
    store(high + i, found.value.high);
    store(low + i, found.value.low);
    store(error + i, found.error);
  }
}

void widen_f32(const float* in, double* out, Index n) {
  for (Index i = 0; i < n; ++i) out[i] = static_cast<double>(in[i]);
}

// Ends that agree, around a number whose sign is certain.
template <class T>
bool finish(const double* value, const double* error, T* out, std::uint8_t* undecided, Index n) {
  using F = format_of<T>;
  unsigned any = 0;
  for (Index i = 0; i < n; ++i) {
    const auto low = round_bits<F>(value[i] - error[i]), high = round_bits<F>(value[i] + error[i]);
    const double size = std::fabs(value[i]);
    const bool decided = (((low == high) & (size > error[i])) | (error[i] == 0.0)) & (size == size);
    out[i] = round_to<T>(value[i]);
    undecided[i] = static_cast<std::uint8_t>(!decided);
    any |= static_cast<unsigned>(!decided);
  }
  return any == 0;
}

// Whole vectors, where all numbers are zeros or of ordinary size, and decided.
template <class T>
bool finish_half(const double* value, const double* error, T* out, std::uint8_t* undecided, Index n) {
  T above[kElementwiseBlock] = {};
  Mask sure = ~Mask{};
  for (Index i = 0; i < n; i += kLanes<double>) {
    const V v = load(value + i), e = load(error + i), size = magnitude(v);
    store_rounded(out + i, V(v - e));
    store_rounded(above + i, V(v + e));
    sure &= ((size > e) | (e == V{})) & (size < all(0x1p120)) & ((size > all(0x1p-120)) | (size == V{}));
  }
  const bool same = std::memcmp(out, above, static_cast<std::size_t>(n) * sizeof(T)) == 0;
  return (same && all_lanes(sure)) || finish<T>(value, error, out, undecided, n);
}

// Vectors of floats are compared as they are: both ends are nonzero numbers or zeros of one sign.
bool finish_f32(const double* value, const double* error, float* out, std::uint8_t* undecided, Index n) {
  Mask all_decided = ~Mask{};
  for (Index i = 0; i < n; i += kLanes<double>) {
    const V v = load(value + i), e = load(error + i);
    using Floats = Vector<float, kVectorBytes / 2>;
    const auto low = converted<Floats>(v - e), high = converted<Floats>(v + e);
    const auto same_low = converted<V>(low), same_high = converted<V>(high);
    const V size = magnitude(v);
    const Mask decided = (((same_low == same_high) & (size > e)) | (e == V{})) & (size == size);
    const auto rounded = converted<Floats>(v);
    store(out + i, rounded);
    all_decided &= decided;
  }
  return all_lanes(all_decided) || finish<float>(value, error, out, undecided, n);
}

bool finish_f64(const double* high, const double* low, const double* error, double* out, std::uint8_t* undecided,
                Index n) {
  unsigned any = 0;
  for (Index i = 0; i < n; ++i) {
    const double a = high[i] + (low[i] - error[i]), b = high[i] + (low[i] + error[i]), size = std::fabs(a);
    const bool safe = (a == b) & (size >= 0x1p-960) & (size <= 0x1p1020);
    const bool decided = (safe | (error[i] == 0.0)) & (high[i] == high[i]);
    out[i] = error[i] == 0.0 ? high[i] : a;
    undecided[i] = static_cast<std::uint8_t>(!decided);
    any |= static_cast<unsigned>(!decided);
  }
  return any == 0;
}

}  // namespace

const ElementwiseKernels& elementwise_kernels() {
#define HALFULP_FUNCTIONS(of)                                                                                        \
  {of<Relu>, of<LeakyRelu>, of<Elu>, of<Sigmoid>, of<Tanh>, of<Softplus>, of<Gelu>, of<GeluTanh>, of<Silu>, of<Mish>, \
   of<Hardswish>, of<Hardsigmoid>, of<Hardtanh>, of<Exp>, of<Log>, of<Sqrt>, of<Pow>, of<Erf>, of<Reciprocal>,        \
   of<Abs>, of<Log1p>, of<Expm1>, of<Rsqrt>}
  static constexpr ElementwiseKernels table{HALFULP_FUNCTIONS(quick), HALFULP_FUNCTIONS(pair), kLanes<double>,
                                            widen_f32, finish_f32, finish_half<Float16>,
                                            finish_half<BFloat16>, finish_f64};
#undef HALFULP_FUNCTIONS
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
