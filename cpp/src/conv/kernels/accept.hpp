// Sums that become outputs where their error bound allows it.
#pragma once

#include <bit>

#include "conv/kernels/products.hpp"
#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

Index count_of(const std::uint8_t* flags, Index n) {
  Index count = 0;
  for (Index i = 0; i < n; ++i) count += flags[i];
  return count;
}

// Vectors of floats from two vectors of doubles each. `step(i, at)` handles elements i and on of n: at(x, half) loads
// one of the two vectors at x, with zeros beyond n; at.exists is true in the lanes of floats that there are.
using FloatBits = Vector<std::int32_t>;
inline constexpr Index kFloats = kLanes<float>;

struct WholeVectors {
  FloatBits exists = ~FloatBits{};
  Doubles operator()(const double* x, int half) const { return load(x + half * kWide); }
};
struct FirstElements {
  Index count;
  FloatBits exists;
  explicit FirstElements(Index n)
      : count(n), exists(lane_numbers<std::int32_t>() < splat(static_cast<std::int32_t>(n))) {}
  Doubles operator()(const double* x, int half) const {
    const Index left = count - half * kWide;
    if (left <= 0) return Doubles{};
    return left >= kWide ? load(x + half * kWide) : load_first(x + half * kWide, left);
  }
};

template <class Step>
void for_each_vector(Index n, const Step& step) {
  Index i = 0;
  for (; i + kFloats <= n; i += kFloats) step(i, WholeVectors{});
  if (i < n) step(i, FirstElements(n - i));
}

inline void store_floats(float* out, const Vector<float>& v, Index n, Index i) {
  if (n - i >= kFloats) store(out + i, v);
  else store_first(out + i, v, n - i);
}

template <int Sources>
Index accept_floats(const double* value, const conv::Acceptance& given, float* out, std::uint8_t* bad) {
  const conv::Acceptance a = given;
  const Doubles base = splat(a.base), bias = splat(a.bias), gamma = splat(a.gamma), exact = splat(a.exact);
  for_each_vector(a.n, [&](Index i, const auto& at) {
    Doubles margin[2], low[2], high[2];
    for (int half = 0; half < 2; ++half) {
      Doubles bound = base + at(a.reach[0] + i, half) * splat(a.size[0]);
      if constexpr (Sources == 2) bound = bound + at(a.reach[1] + i, half) * splat(a.size[1]);
      const Doubles error = select(bound < exact, Doubles{}, gamma * bound), floor = at(a.floor + i, half);
      margin[half] = select(error < floor, floor, error);  // a NaN stays
      const Doubles sum = at(value + i, half) + bias;
      low[half] = sum - margin[half];
      high[half] = select(margin[half] == Doubles{}, low[half], sum + margin[half]);  // -0 + 0 is another zero
    }
    const Vector<float> below = narrow(low[0], low[1]), above = narrow(high[0], high[1]);
    const Vector<float> margins = narrow(margin[0], margin[1]);
    const FloatBits differ = (reinterpret<FloatBits>(below) != reinterpret<FloatBits>(above)) | (margins != margins);
    store_floats(out, below, a.n, i);
    const auto flags = narrow_to_bytes(differ & splat<std::int32_t>(1));
    std::memcpy(bad + i, &flags, static_cast<std::size_t>(a.n - i < kFloats ? a.n - i : kFloats));
  });
  return count_of(bad, a.n);
}

// Half types, whose rounding is a loop that the compiler makes vectors of. `given` is copied because a store to `bad`
// could, for all the compiler knows, change it.
template <class T, int Sources>
Index accept_sources(const double* __restrict value, const conv::Acceptance& given, T* __restrict out,
                     std::uint8_t* __restrict bad) {
  if constexpr (std::is_same_v<T, float>) return accept_floats<Sources>(value, given, out, bad);
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
    bad[i] = (((low != high) & (margin != 0)) | (margin != margin)) ? 1 : 0;
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

template <int Sources>
bool decide_floats(const double* value, Index n, const conv::Margin& given, float* out) {
  const conv::Margin m = given;
  const Doubles base = splat(m.base), bias = splat(m.bias);
  const Doubles first = splat(m.scale[0]), second = splat(m.scale[1]);
  FloatBits differ{};
  Vector<std::int64_t> unbounded{};
  for_each_vector(n, [&](Index i, const auto& at) {
    Doubles low[2], high[2];
    for (int half = 0; half < 2; ++half) {
      Doubles margin = base;
      if constexpr (Sources > 0) margin = multiply_add(at(m.reach[0] + i, half), first, margin);
      if constexpr (Sources > 1) margin = multiply_add(at(m.reach[1] + i, half), second, margin);
      const Doubles sum = at(value + i, half) + bias;
      low[half] = sum - margin;
      high[half] = sum + margin;
      unbounded |= (margin != margin) & (sum == sum);
    }
    const Vector<float> below = narrow(low[0], low[1]), above = narrow(high[0], high[1]);
    differ |= (reinterpret<FloatBits>(below) ^ reinterpret<FloatBits>(above)) & at.exists;
    store_floats(out, below, n, i);
  });
  return all_lanes((reinterpret<Vector<std::int64_t>>(differ) | unbounded) == splat<std::int64_t>(0));
}

// Sources: how many reaches there are.
template <class T, int Sources>
bool decide_sources(const double* __restrict value, Index n, const conv::Margin& given, T* __restrict out) {
  if constexpr (std::is_same_v<T, float>) return decide_floats<Sources>(value, n, given, out);
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

template <class T>
bool decide(const double* value, Index n, const conv::Margin& margin, void* to) {
  T* const out = static_cast<T*>(to);
  if (margin.reach[0] == nullptr) return decide_sources<T, 0>(value, n, margin, out);
  return margin.reach[1] == nullptr ? decide_sources<T, 1>(value, n, margin, out)
                                    : decide_sources<T, 2>(value, n, margin, out);
}

bool decide_nothing(const double*, Index, const conv::Margin&, void*) { return false; }

template <class T>
Index accept(const double* value, const double*, const conv::Acceptance& a, void* to, std::uint8_t* bad) {
  T* const out = static_cast<T*>(to);
  return a.reach[1] == nullptr ? accept_sources<T, 1>(value, a, out, bad) : accept_sources<T, 2>(value, a, out, bad);
}

Index accept_twofold(const double* high, const double* low, const conv::Acceptance& a, void* to, std::uint8_t* bad) {
  double* const out = static_cast<double*>(to);
  return a.reach[1] == nullptr ? accept_twofold_sources<1>(high, low, a, out, bad)
                               : accept_twofold_sources<2>(high, low, a, out, bad);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
