// Depthwise convolution's table of inner loops for one instruction set.
#include "conv/depthwise_kernels.hpp"

#include <limits>

#include "simd/deinterleave.hpp"
#include "simd/ends.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using conv::DepthwiseCells;
using conv::DepthwiseRows;
using conv::Doubt;

// Calls f with the integral constants 0 to n - 1: a loop that is always unrolled.
template <class F, int... I>
inline void unrolled(const F& f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}

// A row of a vector of sums that the common bound does not decide: with the magnitudes of their own terms. `cells` are
// those of the first kernel row and column 0 of the taps' offsets.
HALFULP_NOINLINE bool look_closer(const DepthwiseRows& d, const double* cells, Index kernel, Doubles sum, Index left,
                                   float* out, Doubt& doubt) {
  Doubles size = magnitude(splat(d.bias));
  for (Index t = 0; t < d.taps; ++t)
    for (Index k = 0; k < kernel; ++k)
      size = size + magnitude(load(cells + k * d.row + d.offset[t]) * splat(d.weight[k * d.taps + t]));
  const Doubles error = select(size < splat(d.exact), Doubles{}, splat(d.gamma) * size);
  float values[kWide], low[kWide], high[kWide];
  double sizes[kWide];
  store_rounded(values, sum);
  store_rounded(low, sum - error);
  store_rounded(high, sum + error);
  store(sizes, size);
  doubt.undecided = doubt.zero = 0;
  for (Index i = 0; i < left && i < kWide; ++i) {
    // Sums are infinite or NaN if their terms make them so; then there is no error.
    const bool finite = values[i] - values[i] == 0 || sizes[i] <= std::numeric_limits<double>::max();
    const bool same = std::bit_cast<std::uint32_t>(low[i]) == std::bit_cast<std::uint32_t>(high[i]);
    if (finite && !same) doubt.undecided |= std::uint32_t{1} << i;
    if (sizes[i] == 0) doubt.zero |= std::uint32_t{1} << i;
    out[i] = values[i];
  }
  return (doubt.undecided | doubt.zero) != 0;
}

template <int Kernel, int Step, int Height>
Index depthwise_rows(const DepthwiseRows& given, Doubt* doubts) {
  const DepthwiseRows d = given;
  const Doubles bias = splat(d.bias), error = splat(d.error);
  const Index last = d.columns > kWide ? d.columns - kWide : 0;  // the last vectors of a row may overlap
  Index found = 0;
  for (Index column = 0;; column = column + kWide < last ? column + kWide : last) {
    const double* const cells = d.cells + column;
    const Index left = d.columns - column;
    Doubles sums[Height];
    for (int r = 0; r < Height; ++r) sums[r] = splat(-0.0);
    for (Index t = 0; t < d.taps; ++t) {
      const double* const at = cells + d.offset[t];
      Doubles weights[Kernel];
      for (int k = 0; k < Kernel; ++k) weights[k] = splat(d.weight[k * d.taps + t]);
      constexpr int lines = (Height - 1) * Step + Kernel;
      unrolled([&](auto line) {
        const Doubles x = load(at + line * d.row);
        unrolled([&](auto r) {
          constexpr int k = decltype(line)::value - decltype(r)::value * Step;
          if constexpr (k >= 0 && k < Kernel) sums[r] = multiply_add(x, weights[k], sums[r]);
        }, std::make_integer_sequence<int, Height>{});
      }, std::make_integer_sequence<int, lines>{});
    }
    Ends<float> ends;
    float* const out = d.out + column;
    for (int r = 0; r < Height; ++r) {
      sums[r] = sums[r] + bias;
      ends.put_first_within(out + r * d.out_row, sums[r], error, left);
    }
    if (ends.differ_in_first(left)) [[unlikely]] {
      for (int r = 0; r < Height; ++r) {
        Ends<float> row;
        row.put_first_within(out + r * d.out_row, sums[r], error, left);
        if (!row.differ_in_first(left)) continue;
        doubts[found] = {r, column, 0, 0};
        if (look_closer(d, cells + r * Step * d.row, Kernel, sums[r], left, out + r * d.out_row, doubts[found]))
          ++found;
      }
    }
    if (column == last) return found;
  }
}

// The larger of magnitudes as integers: of NaN more than of infinity.
template <class V>
inline V larger_bits(const V& most, const V& bits) {
  return larger_of<std::uint32_t>(most, bits & splat(0x7fffffffu));
}

std::uint32_t load_cells(const DepthwiseCells& given) {
  const DepthwiseCells c = given;
  using Bits = Vector<std::uint32_t>;
  constexpr Index floats = kLanes<float>;
  Bits most{};
  const auto put = [&](double* out, const Vector<float>& v) {
    store(out, widen_low(v));
    store(out + kWide, widen_high(v));
  };
  const auto put_first = [&](double* out, const Vector<float>& v, Index n) {
    if (n > kWide) {
      store(out, widen_low(v));
      store_first(out + kWide, widen_high(v), n - kWide);
    } else if (n > 0) {
      store_first(out, widen_low(v), n);
    }
  };
  for (Index r = 0; r < c.rows; ++r) {
    const float* const in = c.in + r * c.in_row;
    double* const out = c.out + r * c.out_row;
    Index i = 0;
    if (c.step == 1) {
      for (; i + floats <= c.columns; i += floats) {
        const auto v = load(in + i);
        most = larger_bits(most, reinterpret<Bits>(v));
        put(out + i, v);
      }
      if (i == c.columns) continue;
      const auto v = load_first(in + i, c.columns - i);
      most = larger_bits(most, reinterpret<Bits>(v));
      put_first(out + i, v, c.columns - i);
      continue;
    }
    for (; i < c.columns; i += 2 * floats) {
      const Index left = c.columns - i;
      const bool whole = left >= 2 * floats;
      const auto a = left >= floats ? load(in + i) : load_first(in + i, left);
      const auto b = whole             ? load(in + i + floats)
                     : left > floats ? load_first(in + i + floats, left - floats)
                                       : Vector<float>{};
      most = larger_bits(larger_bits(most, reinterpret<Bits>(a)), reinterpret<Bits>(b));
      const auto evens = even<float>(a, b), odds = odd<float>(a, b);
      if (whole) {
        put(out + i / 2, evens);
        put(out + c.half + i / 2, odds);
      } else {
        put_first(out + i / 2, evens, (left + 1) / 2);
        put_first(out + c.half + i / 2, odds, left / 2);
      }
    }
  }
  return largest_lane(most);
}

void interleave_rows(const conv::DepthwisePair& given) {
  const conv::DepthwisePair p = given;
  constexpr Index floats = kLanes<float>;
  for (Index r = 0; r < p.rows; ++r) {
    const float *const a = p.first + r * p.row, *const b = p.second + r * p.row;
    float* const out = p.out + r * p.out_row;
    Index i = 0;
    for (; 2 * (i + floats) <= p.columns; i += floats) {
      const Vector<float> x = load(a + i), y = load(b + i);
      store(out + 2 * i, zip_low<float>(x, y));
      store(out + 2 * i + floats, zip_high<float>(x, y));
    }
    for (i = 2 * i; i < p.columns; ++i) out[i] = (i % 2 == 0 ? a : b)[i / 2];
  }
}

template <int Kernel, int Step>
constexpr void add_kernels(conv::DepthwiseKernels& table) {
  table.rows[Kernel - 1][Step - 1][0] = depthwise_rows<Kernel, Step, 1>;
  table.rows[Kernel - 1][Step - 1][1] = depthwise_rows<Kernel, Step, 4>;
  table.rows[Kernel - 1][Step - 1][2] = depthwise_rows<Kernel, Step, 7>;
}

constexpr conv::DepthwiseKernels all_kernels() {
  conv::DepthwiseKernels table{};
  table.width = kWide;
  table.load = load_cells;
  table.interleave = interleave_rows;
  add_kernels<1, 1>(table);
  add_kernels<2, 1>(table);
  add_kernels<3, 1>(table);
  add_kernels<5, 1>(table);
  add_kernels<7, 1>(table);
  add_kernels<3, 2>(table);
  add_kernels<5, 2>(table);
  add_kernels<7, 2>(table);
  return table;
}

}  // namespace

const DepthwiseKernels& depthwise_kernels() {
  static constexpr DepthwiseKernels table = all_kernels();
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
