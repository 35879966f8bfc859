// The inner loops of the weight product for one instruction set.
#include "conv/weight_kernels.hpp"

#include "conv/winograd_kernels.hpp"
#include "simd/products.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using conv::kFar, conv::kFar2, conv::kFarScale, conv::kNear, conv::kNear2, conv::kNearScale, conv::kPatchSide;
using conv::kPatchOutputs, conv::kPatchTaps, conv::kPatchValues, conv::kPointProduct;
using Doubles = Vector<double>;

inline Doubles all(double x) { return filled<Doubles>(x); }

template <int Taps>
void dot_taps(const conv::DotLines& given, const Index* offset, double* c) {
  const conv::DotLines at = given;
  Doubles sums[Taps];
  const double* cells[Taps];
  for (int t = 0; t < Taps; ++t) sums[t] = all(-0.0), cells[t] = at.cells + offset[t];
  for (Index line = 0; line < at.lines; ++line) {
    const double* const values = at.values + line * at.value_stride;
    const Index begin = line * at.cell_stride;
    for (Index i = 0; i < at.n; i += kWidth<Doubles>) {
      const Doubles y = load(values + i);
      for (int t = 0; t < Taps; ++t) sums[t] = multiply_add(y, load(cells[t] + begin + i), sums[t]);
    }
  }
  for (int t = 0; t < Taps; ++t) store(c + t * kWidth<Doubles>, load(c + t * kWidth<Doubles>) + sums[t]);
}

template <int Most = static_cast<int>(conv::kMostDotTaps)>
void dot_lines(const conv::DotLines& lines, const Index* offset, Index taps, double* c) {
  if constexpr (Most > 1) {
    if (taps < Most) return dot_lines<Most - 1>(lines, offset, taps, c);
  }
  dot_taps<Most>(lines, offset, c);
}

// A': from four outputs, `step` apart, to six values.
inline void transform_outputs(const Doubles* y, int step, Doubles* out) {
  const Doubles near_even = multiply_add(all(kNear2), y[2 * step], y[0]);
  const Doubles near_odd = multiply_add(all(kNear2), y[3 * step], y[step]);
  const Doubles far_even = multiply_add(all(kFar2), y[2 * step], y[0]);
  const Doubles far_odd = multiply_add(all(kFar2), y[3 * step], y[step]);
  out[0] = y[0];
  out[1] = multiply_add(all(kNear), near_odd, near_even);
  out[2] = multiply_add(all(-kNear), near_odd, near_even);
  out[3] = multiply_add(all(kFar), far_odd, far_even);
  out[4] = multiply_add(all(-kFar), far_odd, far_even);
  out[5] = y[3 * step];
}

// G': from six sums, `step` apart, to three taps.
inline void transform_sums(const Doubles* m, int step, Doubles* out) {
  const Doubles near_sum = m[step] + m[2 * step], near_difference = m[step] - m[2 * step];
  const Doubles far_sum = m[3 * step] + m[4 * step], far_difference = m[3 * step] - m[4 * step];
  out[0] = multiply_add(all(1 / kFarScale), far_sum,
                        multiply_add(all(1 / kNearScale), near_sum, all(1 / kPointProduct) * m[0]));
  out[1] = multiply_add(all(kFar / kFarScale), far_difference, all(kNear / kNearScale) * near_difference);
  out[2] = multiply_add(all(kFar2 / kFarScale), far_sum,
                        multiply_add(all(kNear2 / kNearScale), near_sum, m[5 * step]));
}

void patch_values(const double* outputs, Index row_stride, Index stride, Index n, double* out, Index value_stride,
                  double* squares, Index square_stride) {
  for (Index c = 0; c < n; c += kWidth<Doubles>) {
    Doubles half[kPatchOutputs][kPatchSide];  // [row of outputs][column of values]
    Doubles total = load(squares + kPatchValues * square_stride + c);
    for (int i = 0; i < kPatchOutputs; ++i) {
      Doubles y[kPatchOutputs];
HALFULP_UNROLL(6)
      for (int j = 0; j < kPatchOutputs; ++j) {
        y[j] = load(outputs + i * row_stride + j * stride + c);
        total = multiply_add(y[j], y[j], total);
      }
      transform_outputs(y, 1, half[i]);
    }
    store(squares + kPatchValues * square_stride + c, total);
    for (int l = 0; l < kPatchSide; ++l) {
      Doubles values[kPatchSide];
      transform_outputs(half[0] + l, kPatchSide, values);
HALFULP_UNROLL(6)
      for (int k = 0; k < kPatchSide; ++k) {
        const Index at = k * kPatchSide + l;
        store(out + at * value_stride + c, values[k]);
        double* const square = squares + at * square_stride + c;
        store(square, multiply_add(values[k], values[k], load(square)));
      }
    }
  }
}

void patch_taps(const double* sums, Index value_stride, Index n, double* out, Index stride) {
  for (Index c = 0; c < n; c += kWidth<Doubles>) {
    Doubles half[kPatchSide][kPatchTaps];  // [row of values][column of taps]
    for (int k = 0; k < kPatchSide; ++k) {
      Doubles m[kPatchSide];
HALFULP_UNROLL(6)
      for (int l = 0; l < kPatchSide; ++l) m[l] = load(sums + (k * kPatchSide + l) * value_stride + c);
      transform_sums(m, 1, half[k]);
    }
    for (int j = 0; j < kPatchTaps; ++j) {
      Doubles taps[kPatchTaps];
      transform_sums(half[0] + j, kPatchTaps, taps);
HALFULP_UNROLL(6)
      for (int i = 0; i < kPatchTaps; ++i) store(out + (i * kPatchTaps + j) * stride + c, taps[i]);
    }
  }
}

// One step of all lanes.
struct TwofoldLanes {
  static constexpr int kCount = static_cast<int>(conv::kTwofoldLanes) / kWidth<Doubles>;
  Doubles high[kCount], low[kCount], size[kCount];

  void add(const double* a, const double* b) {
    for (int j = 0; j < kCount; ++j) {
      const Doubles x = load(a + j * kWidth<Doubles>) * load(b + j * kWidth<Doubles>);
      const Doubles sum = high[j] + x, from_x = sum - high[j];
      low[j] = low[j] + ((high[j] - (sum - from_x)) + (x - from_x));
      high[j] = sum;
      size[j] = size[j] + magnitude(x);
    }
  }
};

void add_twofold(const double* a, const double* b, Index n, double* lanes) {
  constexpr Index width = conv::kTwofoldLanes;
  TwofoldLanes sums;
  for (int j = 0; j < TwofoldLanes::kCount; ++j) {
    double* const at = lanes + j * kWidth<Doubles>;
    sums.high[j] = load(at), sums.low[j] = load(at + width), sums.size[j] = load(at + 2 * width);
  }
  Index i = 0;
  for (; i + width <= n; i += width) sums.add(a + i, b + i);
  if (i < n) {
    double last_a[width] = {}, last_b[width] = {};
    for (Index j = 0; i + j < n; ++j) last_a[j] = a[i + j], last_b[j] = b[i + j];
    sums.add(last_a, last_b);
  }
  for (int j = 0; j < TwofoldLanes::kCount; ++j) {
    double* const at = lanes + j * kWidth<Doubles>;
    store(at, sums.high[j]), store(at + width, sums.low[j]), store(at + 2 * width, sums.size[j]);
  }
}

}  // namespace

const WeightKernels& weight_kernels() {
  constexpr double output_roundings = kFused ? 4 : 8, sum_roundings = kFused ? 8 : 10;
  static constexpr WeightKernels table{dot_lines<>,  output_roundings, sum_roundings,
                                       patch_values, patch_taps,       add_twofold};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
