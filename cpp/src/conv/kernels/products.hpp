// Sums of products in vector registers: ordinary ones, and twofold ones that carry their own rounding errors along.
#pragma once

#include "exact/round.hpp"  // first: it makes the namespace of the instruction set an inline one

#include "conv/conv_kernels.hpp"
#include "simd/products.hpp"
#include "simd/transpose_block.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// A running sum in S.
template <class S>
struct PlainSum {
  using Scalar = S;
  Vector<S> high = filled<Vector<S>>(S(-0.0));

  void add_product(Vector<S> a, Vector<S> b) { high = multiply_add(a, b, high); }
  void commit(S* c, Index, bool first) const { store(c, (first ? high : load(c) + high)); }
};

// A running sum high + low: `high` is the sum rounded at every step, `low` the sum of what that lost.
struct TwofoldSum {
  using Scalar = double;
  Vector<double> high = filled<Vector<double>>(-0.0);
  Vector<double> low = filled<Vector<double>>(-0.0);

  void add(Vector<double> x) {
    const Vector<double> sum = high + x;
    const Vector<double> from_x = sum - high;
    low = low + ((high - (sum - from_x)) + (x - from_x));
    high = sum;
  }
  void add_product(Vector<double> a, Vector<double> b) {
    const Vector<double> product = a * b;
    low = low + product_error(a, b, product);
    add(product);
  }
  void commit(double* c, Index plane, bool first) const {
    TwofoldSum total = *this;
    if (!first) {
      total.low = load(c + plane) + low;
      total.high = load(c);
      total.add(high);
    }
    store(c, total.high);
    store(c + plane, total.low);
  }
};

template <class Sum, int Rows, int Vectors>
void matrix(const typename Sum::Scalar* const* row, const Index* offset, const typename Sum::Scalar* panel, Index depth,
            typename Sum::Scalar* c, Index stride, Index plane, bool first) {
  using S = typename Sum::Scalar;
  using V = Vector<S>;
  Sum sums[Rows][Vectors];
  const S* rows[Rows];
  for (int r = 0; r < Rows; ++r) rows[r] = row[r];
  if (!first) {  // the sums of a large tile are far away
    constexpr int line = 64 / static_cast<int>(sizeof(S));
    for (int r = 0; r < Rows; ++r)
      for (int j = 0; j < Vectors * kWidth<V>; j += line) prefetch_line(c + r * stride + j);
  }
  for (Index k = 0; k < depth; ++k, panel += Vectors * kWidth<V>) {
    const Index at = offset[k];
    V columns[Vectors];
    for (int j = 0; j < Vectors; ++j) columns[j] = load(panel + j * kWidth<V>);
HALFULP_UNROLL(8)  // else GCC keeps the sums in memory before and after this loop
    for (int r = 0; r < Rows; ++r) {
      const V x = filled<V>(rows[r][at]);
HALFULP_UNROLL(8)
      for (int j = 0; j < Vectors; ++j) sums[r][j].add_product(x, columns[j]);
    }
  }
HALFULP_UNROLL(8)
  for (int r = 0; r < Rows; ++r)
HALFULP_UNROLL(8)
    for (int j = 0; j < Vectors; ++j) sums[r][j].commit(c + r * stride + j * kWidth<V>, plane, first);
}

template <class Sum, int Rows, int Vectors>
void dense(const typename Sum::Scalar* weight, const typename Sum::Scalar* panel, Index depth, typename Sum::Scalar* c,
           Index stride, bool first) {
  using S = typename Sum::Scalar;
  using V = Vector<S>;
  Sum sums[Rows][Vectors];
  if (!first) {
    constexpr int line = 64 / static_cast<int>(sizeof(S));
    for (int r = 0; r < Rows; ++r)
      for (int j = 0; j < Vectors * kWidth<V>; j += line) prefetch_line(c + r * stride + j);
  }
  for (Index k = 0; k < depth; ++k, panel += Vectors * kWidth<V>, weight += Rows) {
    V columns[Vectors];
    for (int j = 0; j < Vectors; ++j) columns[j] = load(panel + j * kWidth<V>);
HALFULP_UNROLL(8)
    for (int r = 0; r < Rows; ++r) {
      const V w = filled<V>(weight[r]);
HALFULP_UNROLL(8)
      for (int j = 0; j < Vectors; ++j) sums[r][j].add_product(w, columns[j]);
    }
  }
HALFULP_UNROLL(8)
  for (int r = 0; r < Rows; ++r)
HALFULP_UNROLL(8)
    for (int j = 0; j < Vectors; ++j) sums[r][j].commit(c + r * stride + j * kWidth<V>, 0, first);
}

template <class S>
void fill_weights(const S* __restrict line, Index pitch, Index n, S* __restrict out) {
  constexpr int rows = kRows<kVectors>;
  for (Index k = 0; k < n; ++k)
    for (int r = 0; r < rows; ++r) out[k * rows + r] = line[r * pitch + k];
}

template <class S>
void fill_panel(const S* line, Index pitch, Index lines, Index vectors, S* out) {
  constexpr Index width = kWidth<Vector<S>>;
  for (Index c = 0; c < lines; ++c, line += pitch)
    for (Index v = 0; v < vectors; ++v, out += width) store(out, load(line + v * width));
}

template <class Sum, int Channels, int Vectors>
void stencil_block(const typename Sum::Scalar* cells, const Index* offset, const typename Sum::Scalar* weight,
                   Index depth, typename Sum::Scalar* c, Index stride, Index plane, bool first) {
  using V = Vector<typename Sum::Scalar>;
  Sum sums[Channels][Vectors];
  for (Index k = 0; k < depth; ++k, weight += Channels) {
    const auto* at = cells + offset[k];
    V x[Vectors];
    for (int j = 0; j < Vectors; ++j) x[j] = load(at + j * kWidth<V>);
    for (int m = 0; m < Channels; ++m) {
      const V w = filled<V>(weight[m]);
      for (int j = 0; j < Vectors; ++j) sums[m][j].add_product(x[j], w);
    }
  }
  for (int m = 0; m < Channels; ++m)
    for (int j = 0; j < Vectors; ++j) sums[m][j].commit(c + m * stride + j * kWidth<V>, plane, first);
}

// A block of `vectors` vectors, at most `Most`.
template <class Sum, int Channels, int Most, class... Arguments>
void stencil_vectors(Index vectors, const Arguments&... arguments) {
  if constexpr (Most > 1) {
    if (vectors < Most) return stencil_vectors<Sum, Channels, Most - 1>(vectors, arguments...);
  }
  stencil_block<Sum, Channels, Most>(arguments...);
}

template <class Sum, int Channels>
void stencil(const typename Sum::Scalar* cells, const Index* offset, const typename Sum::Scalar* weight, Index depth,
             Index n, typename Sum::Scalar* c, Index stride, Index plane, bool first) {
  constexpr Index width = kWidth<Vector<typename Sum::Scalar>>;
  // Enough sums in flight to hide the latency of an addition, few enough to stay in registers; blocks of equal size.
  constexpr int most = sizeof(Sum) > sizeof(Vector<typename Sum::Scalar>) ? 1 : Channels > 2 ? kVectors : 8 / Channels;
  const Index vectors = (n + width - 1) / width, blocks = (vectors + most - 1) / most;
  for (Index i = 0; i < blocks; ++i) {
    const Index count = vectors / blocks + (i < vectors % blocks ? 1 : 0);
    stencil_vectors<Sum, Channels, most>(count, cells, offset, weight, depth, c, stride, plane, first);
    cells += count * width;
    c += count * width;
  }
}

template <class Sum, int Taps>
void dot_taps(const typename Sum::Scalar* values, const typename Sum::Scalar* cells, const Index* offset, Index n,
              typename Sum::Scalar* c, Index plane) {
  using V = Vector<typename Sum::Scalar>;
  Sum sums[Taps];
  for (Index i = 0; i < n; i += kWidth<V>) {
    const V y = load(values + i);
    for (int t = 0; t < Taps; ++t) sums[t].add_product(y, load(cells + offset[t] + i));
  }
  for (int t = 0; t < Taps; ++t) sums[t].commit(c + t * kWidth<V>, plane, false);
}

template <class Sum>
void dot(const typename Sum::Scalar* values, const typename Sum::Scalar* cells, const Index* offset, Index taps,
         Index n, typename Sum::Scalar* c, Index plane) {
  switch (taps) {
    case 1: return dot_taps<Sum, 1>(values, cells, offset, n, c, plane);
    case 2: return dot_taps<Sum, 2>(values, cells, offset, n, c, plane);
    case 3: return dot_taps<Sum, 3>(values, cells, offset, n, c, plane);
    case 4: return dot_taps<Sum, 4>(values, cells, offset, n, c, plane);
    case 5: return dot_taps<Sum, 5>(values, cells, offset, n, c, plane);
    case 6: return dot_taps<Sum, 6>(values, cells, offset, n, c, plane);
    case 7: return dot_taps<Sum, 7>(values, cells, offset, n, c, plane);
    default: return dot_taps<Sum, 8>(values, cells, offset, n, c, plane);
  }
}

// In square blocks, so that reads and writes both stay within a few cache lines.
template <class S>
void transpose_rest(const S* in, Index in_stride, Index rows, Index columns, S* out, Index out_stride) {
  constexpr Index block = kTransposeBlock<S>;
  const Index whole_rows = rows / block * block, whole_columns = columns / block * block;
  for (Index j = 0; j < whole_columns; j += block)
    for (Index i = 0; i < whole_rows; i += block)
      transpose_block(in + i * in_stride + j, in_stride, out + j * out_stride + i, out_stride);
  for (Index j = 0; j < columns; ++j)
    for (Index i = j < whole_columns ? whole_rows : 0; i < rows; ++i) out[j * out_stride + i] = in[i * in_stride + j];
}

// Blocks of whole cache lines where there are such, then what is left of rows and columns.
template <class S>
void transpose(const S* in, Index in_stride, Index rows, Index columns, S* out, Index out_stride) {
  constexpr Index line = kTransposeLine<S>;
  if constexpr (line > 0) {
    const Index line_rows = rows / line * line, line_columns = columns / line * line;
    for (Index j = 0; j < line_columns; j += line)
      for (Index i = 0; i < line_rows; i += line)
        transpose_lines(in + i * in_stride + j, in_stride, out + j * out_stride + i, out_stride);
    transpose_rest(in + line_rows * in_stride, in_stride, rows - line_rows, line_columns, out + line_rows, out_stride);
    in += line_columns;
    out += line_columns * out_stride;
    columns -= line_columns;
  }
  transpose_rest(in, in_stride, rows, columns, out, out_stride);
}

// A NaN or an infinity times zero is NaN, and stays.
template <class S>
bool finite(const S* x, Index n) {
  using V = Vector<S>;
  V sums[4] = {filled<V>(0), filled<V>(0), filled<V>(0), filled<V>(0)};
  const V zero = filled<V>(0);
  Index i = 0;
  for (; i + 4 * kWidth<V> <= n; i += 4 * kWidth<V>)
    for (int j = 0; j < 4; ++j) sums[j] = multiply_add(load(x + i + j * kWidth<V>), zero, sums[j]);
  S lanes[kWidth<V>], sum = 0;
  store(lanes, ((sums[0] + sums[1]) + (sums[2] + sums[3])));
  for (; i < n; ++i) sum += x[i] * S(0);
  for (const S lane : lanes) sum += lane;
  return sum == 0;
}

template <class Sum, int Vectors>
constexpr conv::ProductKernels<typename Sum::Scalar> product_kernels() {
  using S = typename Sum::Scalar;
  conv::ProductKernels<S> table{};
  table.width = kWidth<Vector<S>>;
  table.rows = kRows<kVectors>;
  table.vectors = Vectors;
  const auto add = [&]<int Count>(std::integral_constant<int, Count>) {
    if constexpr (Count <= Vectors) {
      // Twofold sums take two registers each, and more for their errors.
      constexpr int tall = std::is_same_v<Sum, TwofoldSum> ? kRows<kVectors> : kRows<Count>;
      table.matrix[Count - 1] = matrix<Sum, kRows<kVectors>, Count>;
      table.tall[Count - 1] = matrix<Sum, tall, Count>;
      table.tall_rows[Count - 1] = tall;
      if constexpr (!std::is_same_v<Sum, TwofoldSum>)
        table.dense[Count - 1] = dense<Sum, kRows<kVectors>, Count>;
    }
  };
  add(std::integral_constant<int, 1>{});
  add(std::integral_constant<int, 2>{});
  add(std::integral_constant<int, 3>{});
  table.stencil[0] = stencil<Sum, 1>;
  table.stencil[1] = stencil<Sum, 2>;
  table.stencil[2] = stencil<Sum, 3>;
  table.stencil[3] = stencil<Sum, 4>;
  table.dot = dot<Sum>;
  table.transpose = transpose<S>;
  table.fill_panel = fill_panel<S>;
  table.fill_weights = fill_weights<S>;
  table.dense_rows = kRows<kVectors>;
  table.dense_vectors = kVectors;
  table.finite = finite<S>;
  return table;
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
