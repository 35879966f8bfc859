// The transforms of convolution by patches for one instruction set.
#include "conv/winograd_kernels.hpp"
#include "simd/deinterleave.hpp"
#include "simd/products.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using conv::kFar, conv::kFar2, conv::kFarScale, conv::kNear, conv::kNear2, conv::kNearScale, conv::kPatchSide;
using conv::kPointProduct, conv::kPointSum;
using Doubles = Vector<double>;

// B: from cells to values.
inline void transform_cells(const Doubles* d, Doubles* out) {
  const Doubles near = filled<Doubles>(kNear), far = filled<Doubles>(kFar);
  const Doubles product = filled<Doubles>(kPointProduct), less_sum = filled<Doubles>(-kPointSum);
  const Doubles less_near2 = filled<Doubles>(-kNear2), less_far2 = filled<Doubles>(-kFar2);
  const Doubles near_even = multiply_add(less_far2, d[2], d[4]), near_odd = multiply_add(less_far2, d[1], d[3]);
  const Doubles far_even = multiply_add(less_near2, d[2], d[4]), far_odd = multiply_add(less_near2, d[1], d[3]);
  out[0] = multiply_add(product, d[0], multiply_add(less_sum, d[2], d[4]));
  out[5] = multiply_add(product, d[1], multiply_add(less_sum, d[3], d[5]));
  out[1] = multiply_add(near, near_odd, near_even);
  out[2] = multiply_add(filled<Doubles>(-kNear), near_odd, near_even);
  out[3] = multiply_add(far, far_odd, far_even);
  out[4] = multiply_add(filled<Doubles>(-kFar), far_odd, far_even);
}

// G: value K of three taps.
template <int K>
inline Doubles transform_taps(Doubles first, Doubles middle, Doubles last) {
  constexpr double point[] = {0, kNear, -kNear, kFar, -kFar};
  if constexpr (K == 0) return first;
  else if constexpr (K == kPatchSide - 1) return last;
  else {
    const Doubles even = multiply_add(filled<Doubles>(point[K] * point[K]), last, first);
    return multiply_add(filled<Doubles>(point[K]), middle, even);
  }
}

// A: from values to outputs.
inline void transform_values(const Doubles* m, int step, Doubles* out) {
  const auto all = [](double x) { return filled<Doubles>(x); };
  const Doubles near_sum = m[step] + m[2 * step], near_difference = m[step] - m[2 * step];
  const Doubles far_sum = m[3 * step] + m[4 * step], far_difference = m[3 * step] - m[4 * step];
  out[0] = multiply_add(all(1 / kFarScale), far_sum,
                        multiply_add(all(1 / kNearScale), near_sum, all(1 / kPointProduct) * m[0]));
  out[1] = multiply_add(all(kFar / kFarScale), far_difference, all(kNear / kNearScale) * near_difference);
  out[2] = multiply_add(all(kFar2 / kFarScale), far_sum, all(kNear2 / kNearScale) * near_sum);
  out[3] = multiply_add(all(kFar2 * kFar / kFarScale), far_difference,
                        multiply_add(all(kNear2 * kNear / kNearScale), near_difference, m[5 * step]));
}

// A vector of patches at a time. Cells 4 and 5 of a patch are cells 0 and 1 of the next.
void split_line(const double* line, Index n, double* out, Index plane) {
  constexpr Index width = kWidth<Doubles>;
  const auto store_some = [](double* to, const Doubles& v, Index count) {
    if (count >= width) store(to, v);
    else if (count > 0) store_first(to, v, count);
  };
  for (Index p = 0; p <= n; p += width, line += 4 * width) {
    const Doubles a = load(line), b = load(line + width), c = load(line + 2 * width), d = load(line + 3 * width);
    const Doubles even_low = even<double>(a, b), even_high = even<double>(c, d);
    const Doubles odd_low = odd<double>(a, b), odd_high = odd<double>(c, d);
    const Doubles cells[4] = {even<double>(even_low, even_high), even<double>(odd_low, odd_high),
                              odd<double>(even_low, even_high), odd<double>(odd_low, odd_high)};
    for (int j = 0; j < 4; ++j) store_some(out + j * plane + p, cells[j], n - p);
    for (int j = 0; j < 2; ++j) {
      double* const before = out + (j + 4) * plane + p;
      if (p > 0) store_some(before - 1, cells[j], n + 1 - p);
      else store_some(before, shifted_by_one<double>(cells[j], cells[j]), n < width - 1 ? n : width - 1);
    }
  }
}

void patch_columns(double* lines, Index stride, Index n, double* split, Index plane, double* squares) {
  for (Index x = 0; x < 4 * n + 2; x += kWidth<Doubles>) {
    Doubles d[kPatchSide], out[kPatchSide], sum = load(squares + x);
HALFULP_UNROLL(6)
    for (int i = 0; i < kPatchSide; ++i) {
      d[i] = load(lines + i * stride + x);
      sum = multiply_add(d[i], d[i], sum);
    }
    store(squares + x, sum);
    transform_cells(d, out);
HALFULP_UNROLL(6)
    for (int i = 0; i < kPatchSide; ++i) store(lines + i * stride + x, out[i]);
  }
  for (int k = 0; k < kPatchSide; ++k) split_line(lines + k * stride, n, split + k * kPatchSide * plane, plane);
}

// Channels innermost: few streams of memory, and sums in registers.
void patch_rows(const double* split, Index plane, Index n, Index rows, Index channels, double* out, Index value_stride,
                Index block_stride, double* squares) {
  for (Index block = 0; block < n; block += rows, out += block_stride) {
    for (Index k = 0; k < conv::kPatchValues; k += kPatchSide) {
      for (Index r = 0; r < rows; r += kWidth<Doubles>) {
        const double* from = split + k * plane + block + r;
        double *to = out + k * value_stride + r, *const total = squares + k * plane + block + r;
        Doubles sums[kPatchSide];
HALFULP_UNROLL(6)
        for (int j = 0; j < kPatchSide; ++j) sums[j] = load(total + j * plane);
        for (Index c = 0; c < channels; ++c, from += conv::kPatchValues * plane, to += rows) {
          Doubles d[kPatchSide], values[kPatchSide];
HALFULP_UNROLL(6)
          for (int j = 0; j < kPatchSide; ++j) d[j] = load(from + j * plane);
          transform_cells(d, values);
HALFULP_UNROLL(6)
          for (int j = 0; j < kPatchSide; ++j) {
            store(to + j * value_stride, values[j]);
            sums[j] = multiply_add(values[j], values[j], sums[j]);
          }
        }
HALFULP_UNROLL(6)
        for (int j = 0; j < kPatchSide; ++j) store(total + j * plane, sums[j]);
      }
    }
  }
}

// Row K of the values of one vector of filters. Row 1 is the first that needs every tap, and adds up their squares.
template <int K>
void filter_row(const double* const* taps, Index stride, Index channels, double* out, Index value_stride,
                double* squares, Index n) {
  Doubles sums[kPatchSide];
HALFULP_UNROLL(6)
  for (int j = 0; j < kPatchSide; ++j) sums[j] = load(squares + (K * kPatchSide + j) * n);
  Doubles total = load(squares + 36 * n);
  for (Index c = 0; c < channels; ++c) {
    Doubles g[3];
HALFULP_UNROLL(6)
    for (int j = 0; j < 3; ++j) {
      Doubles tap[3];
HALFULP_UNROLL(6)
      for (int i = 0; i < 3; ++i) {
        tap[i] = load(taps[3 * i + j] + c * stride);
        if constexpr (K == 1) total = multiply_add(tap[i], tap[i], total);
      }
      g[j] = transform_taps<K>(tap[0], tap[1], tap[2]);
    }
    const Doubles values[kPatchSide] = {transform_taps<0>(g[0], g[1], g[2]), transform_taps<1>(g[0], g[1], g[2]),
                                        transform_taps<2>(g[0], g[1], g[2]), transform_taps<3>(g[0], g[1], g[2]),
                                        transform_taps<4>(g[0], g[1], g[2]), transform_taps<5>(g[0], g[1], g[2])};
HALFULP_UNROLL(6)
    for (int j = 0; j < kPatchSide; ++j) {
      store(out + (K * kPatchSide + j) * value_stride + c * n, values[j]);
      sums[j] = multiply_add(values[j], values[j], sums[j]);
    }
  }
HALFULP_UNROLL(6)
  for (int j = 0; j < kPatchSide; ++j) store(squares + (K * kPatchSide + j) * n, sums[j]);
  if constexpr (K == 1) store(squares + 36 * n, total);
}

// Row by row of the values, so that the lines that are written stay in the first-level cache.
template <int K = 0>
void filter_rows(const double* taps, const Index* position, Index n, Index channels, double* out, Index value_stride,
                 double* squares) {
  for (Index v = 0; v < n; v += kWidth<Doubles>) {
    const double* at[9];
    for (int t = 0; t < 9; ++t) at[t] = taps + position[t] * n + v;
    filter_row<K>(at, 9 * n, channels, out + v, value_stride, squares + v, n);
  }
  if constexpr (K + 1 < kPatchSide) filter_rows<K + 1>(taps, position, n, channels, out, value_stride, squares);
}

void patch_outputs(const double* sums, Index value_stride, Index n, double* out, Index row_stride, Index stride) {
  for (Index c = 0; c < n; c += kWidth<Doubles>) {
    Doubles half[4 * kPatchSide];  // [column of values][row of outputs]
    for (int j = 0; j < kPatchSide; ++j) {
      Doubles m[kPatchSide];
HALFULP_UNROLL(6)
      for (int k = 0; k < kPatchSide; ++k) m[k] = load(sums + (k * kPatchSide + j) * value_stride + c);
      transform_values(m, 1, half + 4 * j);
    }
    for (int i = 0; i < 4; ++i) {
      Doubles result[4];
      transform_values(half + i, 4, result);
HALFULP_UNROLL(6)
      for (int j = 0; j < 4; ++j) store(out + i * row_stride + j * stride + c, result[j]);
    }
  }
}

void patch_weigh(const double* squares, Index plane, Index n, const double* weight, double* out) {
  const auto weighted = [&](const Doubles* x, int i) {
    Doubles sum = filled<Doubles>(weight[i * kPatchSide]) * x[0];
    for (int k = 1; k < kPatchSide; ++k) sum = multiply_add(filled<Doubles>(weight[i * kPatchSide + k]), x[k], sum);
    return sum;
  };
  for (Index p = 0; p < n; p += kWidth<Doubles>) {
    Doubles half[4][kPatchSide];
    for (int l = 0; l < kPatchSide; ++l) {
      Doubles x[kPatchSide];
      for (int k = 0; k < kPatchSide; ++k) x[k] = load(squares + (k * kPatchSide + l) * plane + p);
      for (int i = 0; i < 4; ++i) half[i][l] = weighted(x, i);
    }
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) store(out + (i * 4 + j) * plane + p, weighted(half[i], j));
  }
}

}  // namespace

const PatchKernels& patch_kernels() {
  constexpr double cell_roundings = kFused ? 4 : 8, tap_roundings = kFused ? 4 : 6, value_roundings = kFused ? 8 : 10;
  static constexpr PatchKernels table{cell_roundings, tap_roundings, value_roundings, patch_columns, patch_rows,
                                      filter_rows<>,  patch_outputs, patch_weigh};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
