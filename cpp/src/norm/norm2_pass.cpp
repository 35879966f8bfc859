// Euclidean norms and their derivatives in every float type, a row at a time.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "base/row_buffer.hpp"
#include "base/row_kernels.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/norm2.hpp"
#include "halfulp/parallel.hpp"
#include "norm/norm_kernels.hpp"
#include "patches/window_rows.hpp"

namespace halfulp {
namespace {

Index product(std::span<const PatchAxis> axes, Index PatchAxis::*field) {
  Index n = 1;
  for (const PatchAxis& axis : axes) n *= axis.*field;
  return n;
}

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

  // All cotangents of a plane; reports (cell, flag) of those that are not decided.
  template <class Report>
  void cotangents(const T* x, const T* g, T* out, const Report& report) {
    const Index rows = output_rows();
    shares_.start(rows * row_.outputs, 0.0);
    for (Index row = 0; row < rows; ++row) {
      sum_row(x, nullptr, row);
      const Cell* const given = cells_of(g + row * row_.outputs, row_.outputs, first_);
      kernels_.shares(given, squares_.at(0), shares_.at(row * row_.outputs), row_.outputs);
    }
    for (Index row = 0; row < cell_rows(); ++row) {
      gather(row);
      const T* const cells = x + row * row_.size;
      const Cell* const own = cells_of(cells, row_.size, first_);
      const bool any = kernels_.cotangents(own, gathered_.at(0), gathered_sizes_.at(0).high, cotangent_error_,
                                           out + row * row_.size, flags_.data(), row_.size);
      if (!any) continue;
      for (Index i = 0; i < row_.size; ++i) {
        const std::uint8_t flag = flags_[static_cast<std::size_t>(i)];
        T& target = out[row * row_.size + i];
        if (flag == kZero) target = zero(row, i, cells[i]);
        else if (flag != 0) report(row * row_.size + i);
      }
    }
  }

  std::uint8_t flag(Index i) const noexcept { return flags_[static_cast<std::size_t>(i)]; }

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

  // The sum of the shares of the windows that hold every cell of a row. A share's cell is phase + place * stride: the
  // windows of one offset fill one phase, side by side.
  void gather(Index row) {
    const Index stride = row_.stride, places = (row_.size + stride - 1) / stride;
    columns_.start(row_.outputs, -0.0);
    size_columns_.start(row_.outputs, 0.0);
    Index rows = 0;
    for_covering_rows(axes_, row, [&](Index, Index window) {
      kernels_.add_shares(shares_.at(window * row_.outputs), columns_.at(0), size_columns_.at(0).high, row_.outputs);
      ++rows;
    });
    if (row_.outputs == 1 && row_.dilation == 1) return gather_one(rows);
    products_.start(places * stride, -0.0);
    sizes_.start(places * stride, 0.0);
    Index taps = 0;
    for (Index w = 0; w < row_.kernel; ++w) {
      const RealWindows run = real_windows(row_, w);
      if (run.first >= run.stop) continue;
      ++taps;
      const Index cell = w * row_.dilation - row_.before + run.first * stride;
      const Index to = cell % stride * places + cell / stride;
      kernels_.add_every(columns_.at(run.first), 1, products_.at(to), run.stop - run.first);
      kernels_.add_every(size_columns_.at(run.first), 1, sizes_.at(to), run.stop - run.first);
    }
    spread(products_, places, gathered_);
    spread(sizes_, places, gathered_sizes_);
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
  void spread(Pairs& phases, Index places, Pairs& cells) {
    if (row_.stride == 1) return std::swap(phases, cells);
    cells.start(places * row_.stride, 0.0);
    const PairRow from = phases.at(0), to = cells.at(0);
    select_row_kernels().interleave(from.high, places, row_.stride, to.high);
    if (to.low != to.high) select_row_kernels().interleave(from.low, places, row_.stride, to.low);
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

class Undecided {
 public:
  void add(const std::vector<Index>& more) {
    const std::lock_guard lock(mutex_);
    found_.insert(found_.end(), more.begin(), more.end());
  }
  std::vector<Index> take() { return std::move(found_); }

 private:
  std::mutex mutex_;
  std::vector<Index> found_;
};

Index grain_of(Index units, Index items) {
  return std::max<Index>(1, (Index{1} << 14) * units / std::max<Index>(1, items));
}

// Rows of outputs: norms, or tangents where t is given.
template <class T>
std::vector<Index> output_rows(std::span<const PatchAxis> axes, Index planes, const T* x, const T* t, T* out) {
  Undecided undecided;
  const Index rows = Pass<T>(axes).output_rows(), plane = product(axes, &PatchAxis::size);
  const Index n = axes.back().outputs;
  parallel_for(planes * rows, grain_of(rows, plane), [&](Index begin, Index end) {
    Pass<T> pass(axes);
    std::vector<Index> unsure;
    for (Index unit = begin; unit < end; ++unit) {
      const Index at = unit / rows * plane, row = unit % rows;
      T* const to = out + unit * n;
      if (!(t == nullptr ? pass.norms(x + at, row, to) : pass.tangents(x + at, t + at, row, to))) continue;
      for (Index i = 0; i < n; ++i)
        if (pass.flag(i) == kUndecided || (pass.flag(i) == kZero && !pass.whole(row, i)))
          unsure.push_back(unit * n + i);
    }
    undecided.add(unsure);
  });
  return undecided.take();
}

template <class T>
std::vector<Index> planes_of_cells(std::span<const PatchAxis> axes, Index planes, const T* x, const T* g, T* out) {
  Undecided undecided;
  const Index plane = product(axes, &PatchAxis::size), windows = product(axes, &PatchAxis::outputs);
  parallel_for(planes, grain_of(planes, planes * plane), [&](Index begin, Index end) {
    Pass<T> pass(axes);
    std::vector<Index> unsure;
    for (Index p = begin; p < end; ++p)
      pass.cotangents(x + p * plane, g + p * windows, out + p * plane,
                      [&](Index cell) { unsure.push_back(p * plane + cell); });
    undecided.add(unsure);
  });
  return undecided.take();
}

template <class F>
std::vector<Index> for_type(DType dtype, const F& f) {
  count_engine(Engine::norm2);
  switch (dtype) {
    case DType::f16: return f(Float16{});
    case DType::bf16: return f(BFloat16{});
    case DType::f32: return f(float{});
    default: return f(double{});
  }
}

}  // namespace

std::vector<Index> norm2_values(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                const ArrayView& out) {
  if (out.count() == 0) return {};
  return for_type(x.dtype, [&]<class T>(T) {
    return output_rows<T>(axes, planes, x.as<const T>(), nullptr, out.as<T>());
  });
}

std::vector<Index> norm2_tangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& t,
                                  const ArrayView& out) {
  if (out.count() == 0) return {};
  return for_type(x.dtype, [&]<class T>(T) {
    return output_rows<T>(axes, planes, x.as<const T>(), t.as<const T>(), out.as<T>());
  });
}

std::vector<Index> norm2_cotangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                    const ArrayView& g, const ArrayView& out) {
  if (out.count() == 0) return {};
  return for_type(x.dtype, [&]<class T>(T) {
    return planes_of_cells<T>(axes, planes, x.as<const T>(), g.as<const T>(), out.as<T>());
  });
}

}  // namespace halfulp
