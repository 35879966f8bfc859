// Euclidean norms and their derivatives in every float type, a row at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "exact/rounded_pair.hpp"
#include "base/row_buffer.hpp"
#include "base/row_kernels.hpp"
#include "base/undecided.hpp"
#include "halfulp/norm2.hpp"
#include "norm/norm_kernels.hpp"
#include "patches/window_rows.hpp"

namespace halfulp::norms {

// A row of pairs, all (start, 0); without low parts, which then are not used, the high ones stand for them.
class Pairs {
 public:
  explicit Pairs(bool low) : paired_(low) {}
  void start(Index n, double start) {
    high_.assign(n, start);
    if (paired_) low_.assign(n, 0.0);
  }
  void fill(Index first, Index stop, PairRow value) {
    std::fill_n(high_.data() + first, stop - first, *value.high);
    if (paired_) std::fill_n(low_.data() + first, stop - first, *value.low);
  }
  PairRow at(Index i) const noexcept { return {high_.data() + i, (paired_ ? low_ : high_).data() + i}; }

 private:
  bool paired_;
  RowBuffer<double> high_, low_;
};

// The scratch of one thread, and the parts of its work.
template <class T>
class Pass {
 public:
  using Cell = typename NormKernels<T>::Cell;

  explicit Pass(std::span<const PatchAxis> axes)
      : axes_(axes),
        row_(axes.back()),
        cells_(product(axes, &PatchAxis::kernel)),
        flags_(static_cast<std::size_t>(std::max(row_.size, row_.outputs))) {
    // Units of 2^-53, or of 2^-106 for pairs. Columns are added up first, then their sums along the row: n additions
    // for a term at the most, each wrong by a unit of the sum, half of that in the root, one for the root and each
    // quotient and product. In pairs the low parts, of up to n units of the high ones, are rounded twice for every
    // addition. All is doubled, which covers the computation of the bound.
    const auto n = static_cast<double>(cells_ / std::max<Index>(1, row_.kernel) + row_.kernel);
    constexpr bool pairs = std::is_same_v<T, double>;
    error_ = pairs ? (8 * n * n + 32 * n + 128) * 0x1p-106 : (4 * n + 32) * 0x1p-53;
  }

  Index output_rows() const noexcept {
    return product(axes_, &PatchAxis::outputs) / std::max<Index>(1, row_.outputs);
  }
  Index cell_rows() const noexcept { return product(axes_, &PatchAxis::size) / std::max<Index>(1, row_.size); }

  // Row number `row` of the norms of a plane, and, if t is given, of the tangents.
  bool norms(const T* x, Index row, T* out) {
    sum_row(x, nullptr, row);
    return kernels_.norms(squares_.at(0), error_, out, flags_.data(), row_.outputs);
  }
  bool tangents(const T* x, const T* t, Index row, T* out) {
    sum_row(x, t, row);
    return kernels_.tangents(squares_.at(0), products_.at(0), sizes_.at(0).high, error_, out, flags_.data(),
                             row_.outputs);
  }

  // The same; reports the outputs that are not decided.
  template <class Report>
  void tangent_row(const T* x, const T* t, Index row, T* out, const Report& report) {
    if (!tangents(x, t, row, out)) return;
    for (Index i = 0; i < row_.outputs; ++i) {
      const std::uint8_t flag = flags_[static_cast<std::size_t>(i)];
      if (flag == kUndecided ? !precise_tangent(x, t, row, i, out[i]) : flag == kZero && !whole(row, i)) report(i);
    }
  }
  template <class Report>
  void norm_row(const T* x, Index row, T* out, const Report& report) {
    if (!norms(x, row, out)) return;
    for (Index i = 0; i < row_.outputs; ++i)
      if (flags_[static_cast<std::size_t>(i)] != 0 && !precise_norm(x, row, i, out[i])) report(i);
  }

  // The shares of a plane's windows, which its rows of cotangents take.
  void start_plane(const T* x, const T* g) {
    const Index rows = output_rows();
    shares_.start(rows * row_.outputs, 0.0);
    for (Index row = 0; row < rows; ++row) {
      sum_row(x, nullptr, row);
      const Cell* const given = cells_of(g + row * row_.outputs, row_.outputs, first_);
      kernels_.shares(given, squares_.at(0), shares_.at(row * row_.outputs), row_.outputs);
    }
  }

  // Row number `row` of the cotangents of a plane, to `to`; reports the cells that are not decided.
  template <class Report>
  void cotangents(const T* x, const T* g, Index row, T* to, const Report& report) {
    gather(row);
    const T* const cells = x + row * row_.size;
    const Cell* const own = cells_of(cells, row_.size, first_);
    if (!kernels_.cotangents(own, gathered_.at(0), gathered_sizes_.at(0).high, cotangent_error_, to, flags_.data(),
                             row_.size))
      return;
    for (Index i = 0; i < row_.size; ++i) {
      const std::uint8_t flag = flags_[static_cast<std::size_t>(i)];
      if (flag == kZero) to[i] = zero(row, i, cells[i]);
      else if (flag != 0 && !precise_cotangent(x, g, row, i, to[i])) report(row * row_.size + i);
    }
  }

  // One norm in pairs of doubles; false if that does not decide it. All that follows is in float64 already.
  bool precise_norm(const T* x, Index row, Index output, T& out) const {
    const Sum squares = window_sum(x, x, row, output);
    const TwoDoubles y = root(squares);
    return squares.size > 0 && rounded(y, y.high * precise_error(cells_), out);
  }

  // Whether a window has cells, all of them real.
  bool whole(Index row, Index output) const {
    Index held = 0;
    for_held_rows(axes_, row, [&](Index) { ++held; });
    for (Index w = 0; w < row_.kernel; ++w) {
      const RealWindows run = real_windows(row_, w);
      if (output < run.first || output >= run.stop) return false;
    }
    return cells_ > 0 && held * row_.kernel == cells_;
  }

 private:
  // A sum of products of floats, which are exact, in a pair; and that of their magnitudes.
  struct Sum {
    double high = 0, low = 0, size = 0;
    void add(double term) { add({term, 0.0}); }
    void add(const TwoDoubles& term) {
      const TwoDoubles sum = two_sum(high, term.high);
      high = sum.high;
      low += sum.low + term.low;
      size += std::abs(term.high);
    }
  };

  // Relative to the sum of magnitudes, for n additions: the low part, of up to n 2^-53, is rounded twice for each, the
  // root, the quotient and the product lose less than 2^-100. Doubled, for the sizes and bounds are rounded as well.
  static double precise_error(Index n) {
    const auto terms = static_cast<double>(n);
    return (4 * terms * terms + 64) * 0x1p-104;
  }

  static double double_of(T x) {
    if constexpr (std::is_same_v<T, double>) return x;
    else return static_cast<double>(to_float(x));
  }

  Sum window_sum(const T* a, const T* b, Index row, Index output) const {
    Sum sum;
    const Index start = output * row_.stride - row_.before;
    for_held_rows(axes_, row, [&](Index source) {
      for (Index w = 0, cell = start; w < row_.kernel; ++w, cell += row_.dilation)
        if (cell >= 0 && cell < row_.size)
          sum.add(double_of(a[source * row_.size + cell]) * double_of(b[source * row_.size + cell]));
    });
    return sum;
  }

  static TwoDoubles root(const Sum& squares) {
    const double y = std::sqrt(squares.high);
    return fast_two_sum(y, (std::fma(-y, y, squares.high) + squares.low) / (2 * y));
  }
  static TwoDoubles quotient(const TwoDoubles& a, const TwoDoubles& b) {
    const double q = a.high / b.high;
    return {q, ((std::fma(-q, b.high, a.high) + a.low) - q * b.low) / b.high};
  }

  // Whether all numbers within `error` of a pair round to one finite T, which is written.
  static bool rounded(const TwoDoubles& value, double error, T& out) {
    if constexpr (std::is_same_v<T, double>) {
      return false;
    } else {
      if (!(std::abs(value.high) < 0x1p120) || !(error < 0x1p120)) return false;
      const T low = rounded_pair<T>(value.high, value.low - error);
      const T high = rounded_pair<T>(value.high, value.low + error);
      if (std::bit_cast<typename format_of<T>::bits_type>(low) != std::bit_cast<typename format_of<T>::bits_type>(high))
        return false;
      out = low;
      return true;
    }
  }

  bool precise_tangent(const T* x, const T* t, Index row, Index output, T& out) const {
    const Sum squares = window_sum(x, x, row, output), products = window_sum(x, t, row, output);
    if (!(squares.size > 0) || !(products.size > 0)) return false;
    const TwoDoubles y = root(squares);
    return rounded(quotient({products.high, products.low}, y), products.size / y.high * precise_error(cells_), out);
  }

  bool precise_cotangent(const T* x, const T* g, Index row, Index cell, T& out) const {
    Sum shares;
    Index windows = 0;
    for_covering_rows(axes_, row, [&](Index, Index window) {
      for (Index w = 0; w < row_.kernel; ++w) {
        const Index from = cell + row_.before - w * row_.dilation, o = from / row_.stride;
        if (from < 0 || from % row_.stride != 0 || o >= row_.outputs) continue;
        ++windows;
        const Sum squares = window_sum(x, x, window, o);
        if (squares.size != 0) shares.add(quotient({double_of(g[window * row_.outputs + o]), 0.0}, root(squares)));
      }
    });
    const double own = double_of(x[row * row_.size + cell]), high = own * shares.high;
    const double error = std::abs(own) * shares.size * precise_error(cells_ + windows);
    return error > 0 && rounded({high, std::fma(own, shares.high, -high) + own * shares.low}, error, out);
  }

  // n items as the kernels take them.
  const Cell* cells_of(const T* source, Index n, RowBuffer<float>& scratch) {
    if constexpr (is_half_pair<T, float>) {
      scratch.assign(n, 0.0f);
      widen_run(source, scratch.data(), n);
      return scratch.data();
    } else {
      return source;
    }
  }

  // The sums of squares of a row of windows, and, if t is given, of products.
  void sum_row(const T* x, const T* t, Index row) {
    const Index n = row_.size;
    columns_.start(n, 0.0);
    if (t != nullptr) {
      product_columns_.start(n, -0.0);  // the zero that changes no term
      size_columns_.start(n, 0.0);
    }
    for_held_rows(axes_, row, [&](Index source) {
      const Cell* const cells = cells_of(x + source * n, n, first_);
      kernels_.add_squares(cells, columns_.at(0), n);
      if (t == nullptr) return;
      const Cell* const along = cells_of(t + source * n, n, second_);
      kernels_.add_products(cells, along, product_columns_.at(0), size_columns_.at(0).high, n);
    });
    sum_columns(columns_, 0.0, squares_);
    if (t == nullptr) return;
    sum_columns(product_columns_, -0.0, products_);
    sum_columns(size_columns_, 0.0, sizes_);
  }

  void sum_columns(const Pairs& columns, double start, Pairs& sums) {
    sums.start(row_.outputs, start);
    for (Index w = 0; w < row_.kernel; ++w) {
      const RealWindows run = real_windows(row_, w);
      if (run.first >= run.stop) continue;
      const Index from = w * row_.dilation - row_.before + run.first * row_.stride;
      kernels_.add_every(columns.at(from), row_.stride, sums.at(run.first), run.stop - run.first);
    }
  }

  // The sum of the shares of the windows that hold every cell of a row. A share's cell is phase + position * stride:
  // the windows of one offset fill one phase, side by side.
  void gather(Index row) {
    const Index stride = row_.stride, positions = (row_.size + stride - 1) / stride;
    columns_.start(row_.outputs, -0.0);
    size_columns_.start(row_.outputs, 0.0);
    Index rows = 0;
    for_covering_rows(axes_, row, [&](Index, Index window) {
      kernels_.add_shares(shares_.at(window * row_.outputs), columns_.at(0), size_columns_.at(0).high, row_.outputs);
      ++rows;
    });
    if (row_.outputs == 1 && row_.dilation == 1) return gather_one(rows);
    products_.start(positions * stride, -0.0);
    sizes_.start(positions * stride, 0.0);
    Index taps = 0;
    for (Index w = 0; w < row_.kernel; ++w) {
      const RealWindows run = real_windows(row_, w);
      if (run.first >= run.stop) continue;
      ++taps;
      const Index cell = w * row_.dilation - row_.before + run.first * stride;
      const Index to = cell % stride * positions + cell / stride;
      kernels_.add_every(columns_.at(run.first), 1, products_.at(to), run.stop - run.first);
      kernels_.add_every(size_columns_.at(run.first), 1, sizes_.at(to), run.stop - run.first);
    }
    spread(products_, positions, gathered_);
    spread(sizes_, positions, gathered_sizes_);
    set_cotangent_error(rows + taps);
  }

  // The same for one window along the row: its cells have equal sums.
  void gather_one(Index rows) {
    const Index first = std::clamp<Index>(-row_.before, 0, row_.size);
    const Index stop = std::clamp<Index>(row_.kernel - row_.before, first, row_.size);
    gathered_.start(row_.size, -0.0);
    gathered_sizes_.start(row_.size, 0.0);
    gathered_.fill(first, stop, columns_.at(0));
    gathered_sizes_.fill(first, stop, size_columns_.at(0));
    set_cotangent_error(rows + 1);
  }

  // For so many additions for a share at the most, as above.
  void set_cotangent_error(Index additions) {
    const auto held = static_cast<double>(additions);
    constexpr bool pairs = std::is_same_v<T, double>;
    cotangent_error_ = error_ + (pairs ? (8 * held * held + 32 * held) * 0x1p-106 : 4 * held * 0x1p-53);
  }

  // Phases side by side, as cells.
  void spread(Pairs& phases, Index positions, Pairs& cells) {
    if (row_.stride == 1) return std::swap(phases, cells);
    cells.start(positions * row_.stride, 0.0);
    const PairRow from = phases.at(0), to = cells.at(0);
    select_row_kernels().interleave(from.high, positions, row_.stride, to.high);
    if (to.low != to.high) select_row_kernels().interleave(from.low, positions, row_.stride, to.low);
  }

  // The zero of a cell all of whose shares are 0: -0 if all of them are, times the cell's sign.
  T zero(Index row, Index cell, T x) const {
    bool any = false, negative = true;
    for_covering_rows(axes_, row, [&](Index, Index window) {
      for (Index w = 0; w < row_.kernel; ++w) {
        const Index from = cell + row_.before - w * row_.dilation;
        if (from < 0 || from % row_.stride != 0 || from / row_.stride >= row_.outputs) continue;
        any = true;
        const bool below = std::signbit(*shares_.at(window * row_.outputs + from / row_.stride).high);
        negative = negative && below != is_negative(x);
      }
    });
    return any && negative ? minus_zero() : T{};
  }

  static bool is_negative(T x) {
    if constexpr (is_half_pair<T, float>) return (x.bits >> 15) != 0;
    else return std::signbit(x);
  }
  static T minus_zero() {
    if constexpr (is_half_pair<T, float>) return T{0x8000};
    else return static_cast<T>(-0.0);
  }

  std::span<const PatchAxis> axes_;
  PatchAxis row_;
  Index cells_;
  std::vector<std::uint8_t> flags_;
  double error_ = 0, cotangent_error_ = 0;
  RowBuffer<float> first_, second_;
  static constexpr bool kLow = std::is_same_v<T, double>;
  Pairs columns_{kLow}, product_columns_{kLow}, squares_{kLow}, products_{kLow}, shares_{kLow}, gathered_{kLow};
  Pairs size_columns_{kLow}, sizes_{kLow}, gathered_sizes_{kLow};
  const NormKernels<T>& kernels_ = select_norm_kernels<T>();
};

inline Index grain_of(Index units, Index items) {
  return std::max<Index>(1, (Index{1} << 14) * units / std::max<Index>(1, items));
}

}  // namespace halfulp::norms
