// Smooth max pooling with one exponential per cell, shared by all windows that hold it: a block of a plane with its
// padding in contiguous memory, and sums over windows axis by axis.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "smooth/shared_kernels.hpp"
#include "smooth/window.hpp"

namespace halfulp {

// A part of a plane: all windows whose output coordinate on the first axis lies in [begin, end).
struct SmoothBand {
  Index plane, begin, end;
};

// How many output rows make a band: enough cells to fill vectors and few enough for the first caches, and so many that
// the cells which bands have in common are few.
inline Index smooth_band_rows(const SmoothPlan& plan) {
  const Axis& first = plan.axes.front();
  Index row = first.stride;
  for (std::size_t a = 1; a < plan.axes.size(); ++a) row *= plan.axes[a].padded();
  return std::clamp<Index>(std::max(4096 / std::max<Index>(1, row), 4 * first.extent() / first.stride), 1,
                           std::max<Index>(1, first.output));
}

template <class T>
class SmoothBlock {
 public:
  static constexpr int kKind = smooth_kind<T>;
  static constexpr Index kMostCells = 1 << 15;  // of a window: then sums in two parts keep their accuracy

  explicit SmoothBlock(const SmoothPlan& plan)
      : plan_(plan), ndim_(static_cast<int>(plan.axes.size())), kernels_(select_smooth_shared_kernels()) {
    Index window = 1;
    double padded = 1.0, real = 1.0, outputs = 1.0;
    for (const Axis& axis : plan.axes) {
      window = std::min(window * axis.kernel, kMostCells + 1);
      slack_ += 2.0 * static_cast<double>(axis.kernel);
      padded *= static_cast<double>(extent(axis, axis.output));
      real *= static_cast<double>(axis.size);
      outputs *= static_cast<double>(axis.output);
    }
    slack_ += 36.0 + (kKind == 0 ? 4.0 * std::log(static_cast<double>(window)) : 0.0);
    // A block that is mostly padding, or gaps between windows, would cost more than its windows one by one.
    fits_ = window <= kMostCells && real > 0.0 && padded <= 4.0 * (real + outputs);
  }

  // The values of a band; false if none is known. Results of row-major outputs go to `out`, those that are not decided
  // into the list.
  bool forward(const SmoothBand& band, const ArrayView& x, const ArrayView& out, std::vector<Index>& undecided) {
    if (!fits_) return false;
    begin(band);
    range_ = read_cells(x);
    if (range_.lowest > range_.highest) return false;
    exponentiate();
    const SmoothParts total = window_sums(weights_, totals_);
    kernels_.values[kKind](plan_.beta, range_.highest, slack_, total, room(outputs_), outputs_);
    if (plan_.beta.negative) negate(room(outputs_).value, outputs_);
    emit(out, undecided);
    return true;
  }

  // The derivatives along t of the same band, after forward.
  bool tangent(const ArrayView& t, const ArrayView& out, std::vector<Index>& undecided) {
    read(t, 1.0, tangents_);
    const SmoothRange along = kernels_.range(tangents_.parts().high, cells_);
    const double largest = std::max(-along.lowest, along.highest);
    if (!(largest < 0x1p500 && largest > 0x1p-300)) return false;
    kernels_.weigh[kKind](weights_.parts(), tangents_.parts(), cells_);
    const SmoothParts sum = window_sums(tangents_, sums_);
    kernels_.means[kKind](largest, slack_, sum, totals_.parts(), room(outputs_), outputs_);
    emit(out, undecided);
    return true;
  }

  // The cotangents of a whole plane.
  bool vjp(Index plane, const ArrayView& x, const ArrayView& g, const ArrayView& dx, std::vector<Index>& undecided) {
    if (!fits_) return false;
    begin({plane, 0, plan_.axes.front().output});
    range_ = read_cells(x);
    if (range_.lowest > range_.highest || !read_cotangent(g)) return false;
    exponentiate();
    const SmoothParts total = window_sums(weights_, totals_);
    magnitudes_.resize(outputs_);
    kernels_.shares[kKind](cotangent_.data(), total, magnitudes_.parts().high, outputs_);
    const SmoothParts sum = cell_sums(total, kKind, sums_);
    const SmoothParts magnitude = cell_sums(magnitudes_.parts(), 0, tangents_);
    // Smaller weights than exp(-300) are left undecided. In pairs errors do not grow with the exponents.
    const double depth = kKind == 0 ? std::min(300.0, plan_.beta.high * (range_.highest - range_.lowest)) : 0.0;
    kernels_.products[kKind](2.0 * slack_ + 8.0 * depth, weights_.parts(), sum, magnitude.high, room(cells_), cells_);
    emit_cells(dx, undecided);
    return true;
  }

 private:
  // Numbers in two parts; the second is there for float64 only.
  class Numbers {
   public:
    void resize(Index n) {
      const auto size = static_cast<std::size_t>(n) + 1;  // one that sums may read
      if (high_.size() < size) high_.resize(size);
      if (kKind == 1 && low_.size() < size) low_.resize(size);
    }
    void clear(Index n) {
      resize(n);
      std::fill_n(high_.begin(), n, 0.0);
      if (kKind == 1) std::fill_n(low_.begin(), n, 0.0);
    }
    SmoothParts parts() { return {high_.data(), low_.data()}; }

   private:
    std::vector<double> high_, low_;
  };

  static Index extent(const Axis& axis, Index outputs) { return (outputs - 1) * axis.stride + axis.extent(); }

  void begin(const SmoothBand& band) {
    band_ = band;
    cells_ = outputs_ = 1;
    sizes_.clear();
    for (int a = 0; a < ndim_; ++a) {
      const Axis& axis = plan_.axes[static_cast<std::size_t>(a)];
      const Index outputs = a == 0 ? band.end - band.begin : axis.output;
      sizes_.push_back({outputs, extent(axis, outputs), (a == 0 ? band.begin * axis.stride : 0) - axis.before});
      cells_ *= sizes_.back().cells;
      outputs_ *= outputs;
    }
  }

  // Calls visit(cell, count, coordinates) for every row of the block that has real cells: the block's first cell of
  // them, and their coordinates, the last that of the first one.
  template <class Visit>
  void real_rows(Visit visit) const {
    const Size& last = sizes_.back();
    const Index from = std::max<Index>(0, -last.start);
    const Index to = std::min(last.cells, plan_.axes.back().size - last.start);
    if (from >= to) return;
    Sizes at;
    for (int a = 0; a + 1 < ndim_; ++a) at.push_back(0);
    for (Index cell = 0; cell < cells_; cell += last.cells) {
      Sizes where;
      bool inside = true;
      for (int a = 0; a + 1 < ndim_; ++a) {
        where.push_back(at[a] + sizes_[static_cast<std::size_t>(a)].start);
        inside = inside && where[a] >= 0 && where[a] < plan_.axes[static_cast<std::size_t>(a)].size;
      }
      where.push_back(from + last.start);
      if (inside) visit(cell + from, to - from, where);
      for (int a = ndim_ - 2; a >= 0 && ++at[a] == sizes_[static_cast<std::size_t>(a)].cells; --a) at[a] = 0;
    }
  }

  static void read_row(const char* from, Index step, double sign, double* to, Index n) {
    if (step == static_cast<Index>(sizeof(T)))
      for (Index i = 0; i < n; ++i) to[i] = sign * as_double(reinterpret_cast<const T*>(from)[i]);
    else
      for (Index i = 0; i < n; ++i) to[i] = sign * as_double(*reinterpret_cast<const T*>(from + i * step));
  }

  // Real cells times `sign`, everything else zero.
  void read(const ArrayView& x, double sign, Numbers& to) {
    to.clear(cells_);
    const int leading = x.ndim() - ndim_;
    const char* const base = x.data + offset_of(x, band_.plane, leading);
    const Index step = x.strides[x.ndim() - 1];
    real_rows([&](Index cell, Index n, const Sizes& where) {
      const char* from = base;
      for (int a = 0; a < ndim_; ++a) from += where[a] * x.strides[leading + a];
      read_row(from, step, sign, to.parts().high + cell, n);
    });
  }

  SmoothRange read_cells(const ArrayView& x) {
    read(x, plan_.beta.negative ? -1.0 : 1.0, weights_);
    return kernels_.range(weights_.parts().high, cells_);
  }

  // The plane of g; false if a number is so small that its shares may vanish.
  bool read_cotangent(const ArrayView& g) {
    cotangent_.resize(static_cast<std::size_t>(outputs_));
    const Plane<T> plane(g, ndim_, band_.plane);
    const Index row = sizes_.back().outputs, step = g.strides[g.ndim() - 1];
    for (Index i = 0; i < outputs_; i += row)
      read_row(reinterpret_cast<const char*>(&plane[i]), step, 1.0, &cotangent_[static_cast<std::size_t>(i)], row);
    bool good = true;
    negative_zero_ = false;
    for (const double value : cotangent_) {
      const double size = std::fabs(value);
      good = good && (size == 0.0 || !(size < 0x1p-400));
      negative_zero_ = negative_zero_ || (size == 0.0 && std::signbit(value));
    }
    return good;
  }

  // Weights, relative to the largest cell; cells beyond the padding have none.
  void exponentiate() {
    kernels_.exponentials[kKind](plan_.beta, range_.highest, weights_.parts(), cells_);
    Index inner = cells_, outer = 1;
    for (int a = 0; a < ndim_; ++a) {
      const Size& size = sizes_[static_cast<std::size_t>(a)];
      const Axis& axis = plan_.axes[static_cast<std::size_t>(a)];
      inner /= size.cells;
      const Index there = std::min(size.cells, axis.size + axis.after - size.start);
      for (Index o = 0; there < size.cells && o < outer; ++o) {
        const SmoothParts beyond = weights_.parts().from((o * size.cells + there) * inner);
        std::fill_n(beyond.high, (size.cells - there) * inner, 0.0);
        if (kKind == 1) std::fill_n(beyond.low, (size.cells - there) * inner, 0.0);
      }
      outer *= size.cells;
    }
  }

  // Sums over windows, one axis after the other, the first one first; in `to` or in scratch.
  SmoothParts window_sums(Numbers& cells, Numbers& to) {
    SmoothParts from = cells.parts();
    Index outer = 1, inner = cells_;
    for (int a = 0; a < ndim_; ++a) {
      const Size& size = sizes_[static_cast<std::size_t>(a)];
      const Axis& axis = plan_.axes[static_cast<std::size_t>(a)];
      inner /= size.cells;
      Numbers& target = (ndim_ - a) % 2 == 1 ? to : scratch_;
      target.resize(outer * size.outputs * inner);
      for (Index o = 0; o < outer; ++o) {
        const SmoothParts source = from.from(o * size.cells * inner);
        const SmoothParts sums = target.parts().from(o * size.outputs * inner);
        const auto add = [&](Index first, Index step, Index to, Index n) {
          kernels_.sums[kKind](source.from(first), axis.kernel, axis.dilation * inner, step, sums.from(to), n);
        };
        if (inner == 1) add(0, axis.stride, 0, size.outputs);
        else
          for (Index w = 0; w < size.outputs; ++w) add(w * axis.stride * inner, 1, w * inner, inner);
      }
      from = target.parts();
      outer *= size.outputs;
    }
    return from;
  }

  // Every cell's sum over the windows that hold it, the last axis first: the transpose of window_sums.
  SmoothParts cell_sums(SmoothParts from, int kind, Numbers& to) {
    Index outer = outputs_, inner = 1;
    for (int a = ndim_ - 1; a >= 0; --a) {
      const Size& size = sizes_[static_cast<std::size_t>(a)];
      const Axis& axis = plan_.axes[static_cast<std::size_t>(a)];
      outer /= size.outputs;
      Numbers& target = a % 2 == 0 ? to : scratch_;
      target.clear(outer * size.cells * inner);
      for (Index o = 0; o < outer; ++o) {
        const SmoothParts source = from.from(o * size.outputs * inner);
        const SmoothParts sums = target.parts().from(o * size.cells * inner);
        for (Index k = 0; k < axis.kernel; ++k) {
          const SmoothParts first = sums.from(k * axis.dilation * inner);
          if (inner == 1) {
            kernels_.add[kind](source, first, axis.stride, size.outputs);
          } else {
            for (Index w = 0; w < size.outputs; ++w)
              kernels_.add[kind](source.from(w * inner), first.from(w * axis.stride * inner), 1, inner);
          }
        }
      }
      from = target.parts();
      inner *= size.cells;
    }
    return from;
  }

  SmoothResults room(Index n) {
    values_.resize(n);
    const auto size = static_cast<std::size_t>(n);
    if (errors_.size() < size) errors_.resize(size);
    if (rounded_.size() < size) rounded_.resize(size);
    return {values_.parts(), errors_.data()};
  }

  void negate(SmoothParts x, Index n) {
    for (Index i = 0; i < n; ++i) x.high[i] = -x.high[i];
    for (Index i = 0; kKind == 1 && i < n; ++i) x.low[i] = -x.low[i];
  }

  // Rounds results [begin, begin + n); which of them are undecided is for `found` to note.
  template <class Found>
  void round(Index begin, Index n, Found found) {
    SmoothResults results = room(begin + n);
    results = {results.value.from(begin), results.error + begin};
    if (kernels_.finish[static_cast<int>(DTypeOf<T>::value)](results, rounded_.data() + begin, n) == 0) return;
    for (Index i = 0; i < n; ++i) {
      T result{};
      const double low = kKind == 1 ? results.value.low[i] : 0.0;
      if (!decide_shared<T>(results.value.high[i], low, results.error[i], result)) found(begin + i);
    }
  }

  void emit(const ArrayView& out, std::vector<Index>& undecided) {
    const Index first = band_.begin * (outputs_ / sizes_.front().outputs);
    round(0, outputs_, [&](Index i) { undecided.push_back(first + i); });
    const Index row = sizes_.back().outputs, step = out.strides[out.ndim() - 1];
    const Plane<T> plane(out, ndim_, band_.plane);
    for (Index i = 0; i < outputs_; i += row)
      store(&rounded_[static_cast<std::size_t>(i)], &plane[first + i], step, row);
  }

  void emit_cells(const ArrayView& dx, std::vector<Index>& undecided) {
    const Plane<T> to(dx, ndim_, band_.plane);
    const Index step = dx.strides[dx.ndim() - 1];
    // No window may hold the last cells of an axis.
    if (std::any_of(sizes_.begin(), sizes_.end(), [&](const Size& size) {
          return size.start + size.cells < plan_.axes[static_cast<std::size_t>(&size - sizes_.data())].size;
        }))
      for (Index i = 0; i < cell_count(plan_); ++i) to[i] = round_to<T>(0.0);
    real_rows([&](Index cell, Index n, const Sizes& where) {
      Index position = 0;
      for (int a = 0; a < ndim_; ++a) position = position * plan_.axes[static_cast<std::size_t>(a)].size + where[a];
      round(cell, n, [&](Index i) { undecided.push_back(position + i - cell); });
      // The sign of a sum of zeros, which alone has no error, is not known if there are negative ones.
      for (Index i = 0; negative_zero_ && i < n; ++i)
        if (errors_[static_cast<std::size_t>(cell + i)] == 0.0) undecided.push_back(position + i);
      store(&rounded_[static_cast<std::size_t>(cell)], &to[position], step, n);
    });
  }

  static void store(const T* from, T* to, Index step, Index n) {
    if (step == static_cast<Index>(sizeof(T)))
      std::copy_n(from, n, to);
    else
      for (Index i = 0; i < n; ++i) *reinterpret_cast<T*>(reinterpret_cast<char*>(to) + i * step) = from[i];
  }

  struct Size {
    Index outputs, cells, start;  // start: the input coordinate of the first cell
  };

  const SmoothPlan& plan_;
  int ndim_;
  const SmoothSharedKernels& kernels_;
  double slack_ = 0.0;
  bool fits_ = false, negative_zero_ = false;
  SmoothBand band_{};
  SmoothRange range_{};
  std::vector<Size> sizes_;
  Index cells_ = 0, outputs_ = 0;
  Numbers weights_, tangents_, totals_, sums_, scratch_, values_, magnitudes_;
  std::vector<double> errors_, cotangent_;
  std::vector<T> rounded_;
};

}  // namespace halfulp
