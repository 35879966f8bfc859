#include "halfulp/patches.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/row_buffer.hpp"
#include "base/row_kernels.hpp"
#include "base/stage.hpp"
#include "base/visit_bits.hpp"
#include "exact/exact_sum.hpp"
#include "exact/rounded_pair.hpp"
#include "halfulp/parallel.hpp"
#include "patches/patch_kernels.hpp"
#include "patches/window_rows.hpp"

namespace halfulp {
namespace {

constexpr Index kItemsPerThread = Index{1} << 15;

Index grain_of(Index units, Index items) {
  return std::max<Index>(1, kItemsPerThread * units / std::max<Index>(1, items));
}

template <class U>
void unfold_offset(std::span<const PatchAxis> axes, const U* plane, Index offset, U* target, Stage& stage) {
  const int last = static_cast<int>(axes.size()) - 1;
  Index taps[kMaxRank], output[kMaxRank] = {};
  for (int a = last; a >= 0; --a) {
    taps[a] = offset % axes[a].kernel;
    offset /= axes[a].kernel;
  }
  const PatchAxis& row = axes[last];
  const RowKernels& kernels = select_row_kernels();
  const RealWindows run = real_windows(row, taps[last]);
  const Index shift = taps[last] * row.dilation - row.before;
  const Index row_bytes = row.outputs * static_cast<Index>(sizeof(U));
  for (;;) {
    U* const out = reinterpret_cast<U*>(stage.row(reinterpret_cast<char*>(target), row_bytes));
    Index source = 0;
    bool real = true;
    for (int a = 0; a < last; ++a) {
      const Index cell = output[a] * axes[a].stride + taps[a] * axes[a].dilation - axes[a].before;
      real = real && cell >= 0 && cell < axes[a].size;
      source = source * axes[a].size + cell;
    }
    if (!real) {
      std::fill_n(out, row.outputs, U{0});
    } else {
      const U* const cells = plane + source * row.size + shift;
      std::fill_n(out, run.first, U{0});
      if (row.stride == 1) std::copy_n(cells + run.first, run.stop - run.first, out + run.first);
      else
        kernels.take_every(cells + run.first * row.stride, row.stride, out + run.first, run.stop - run.first,
                           sizeof(U));
      std::fill_n(out + run.stop, row.outputs - run.stop, U{0});
    }
    target += row.outputs;
    int a = last - 1;
    for (; a >= 0; --a) {
      if (++output[a] < axes[a].outputs) break;
      output[a] = 0;
    }
    if (a < 0) return;
  }
}

template <class T>
double double_of(T x) {
  if constexpr (std::is_same_v<T, double>) return x;
  else return static_cast<double>(to_float(x));
}

// The sums of a row of cells. high + low is the sum; `rest` is the error of low, and zero where that is exact. They are
// added up phase by phase: cell phase + place * stride has place phase * places + place.
template <class T>
class RowSums {
 public:
  void start(Index cells, Index stride) {
    stride_ = stride;
    places_ = (cells + stride - 1) / stride;
    const Index n = places_ * stride;
    phases_[0].assign(n, -0.0);  // the zero that changes no term
    phases_[1].assign(kParts > 2 ? n : 0, 0.0);
    phases_[2].assign(n, 0.0);
  }

  // The cells from `cell` on, `stride` apart, get a term each.
  void add(const T* terms, Index cell, Index n) {
    const Index at = cell % stride_ * places_ + cell / stride_;
    const PatchSums to{phases_[0].data() + at, phases_[kParts > 2 ? 1 : 0].data() + at, phases_[2].data() + at};
    if constexpr (is_half_pair<T, float>) {
      widened_.assign(n, 0.0f);
      widen_run(terms, widened_.data(), n);
      kernels_.add_terms(widened_.data(), to, n);
    } else {
      kernels_.add_terms(terms, to, n);
    }
  }

  // The cells in their order, rounded; false if one of them needs a closer look.
  bool finish(T* out, Index cells) {
    for (int part = 0; part < 3; ++part) {
      if (kParts < 3 && part == 1) continue;
      if (stride_ == 1) {
        std::swap(phases_[part], cells_[part]);
        continue;
      }
      cells_[part].assign(places_ * stride_, 0.0);
      select_row_kernels().interleave(phases_[part].data(), places_, stride_, cells_[part].data());
    }
    return kernels_.finish({cells_[0].data(), cells_[kParts > 2 ? 1 : 0].data(), cells_[2].data()}, out, cells);
  }

  // Scratch of Fold::quick_row.
  std::vector<const T*> sources;
  std::vector<T> phases;

  double high(Index cell) const { return cells_[0].data()[cell]; }
  double low(Index cell) const { return kParts > 2 ? cells_[1].data()[cell] : 0.0; }
  double rest(Index cell) const { return cells_[2].data()[cell]; }

 private:
  static constexpr int kParts = std::is_same_v<T, double> ? 3 : 2;
  Index stride_ = 1, places_ = 0;
  RowBuffer<double> phases_[3], cells_[3];
  RowBuffer<float> widened_;
  const PatchKernels<T>& kernels_ = select_patch_kernels<T>();
};

template <class T>
class Fold {
 public:
  Fold(std::span<const PatchAxis> axes, const T* patches, T* out)
      : axes_(axes),
        last_(static_cast<int>(axes.size()) - 1),
        windows_(product(axes, &PatchAxis::outputs)),
        offsets_(product(axes, &PatchAxis::kernel)),
        rows_(product(axes, &PatchAxis::size) / std::max<Index>(1, axes.back().size)),
        patches_(patches),
        out_(out) {
    if constexpr (std::is_same_v<T, float>) find_segments();
  }

  Index rows() const noexcept { return rows_; }

  // Row number `unit` of all planes.
  void row(Index unit, RowSums<T>& sums) const {
    const PatchAxis& axis = axes_[static_cast<std::size_t>(last_)];
    const T* const patches = patches_ + unit / rows_ * offsets_ * windows_;
    if constexpr (std::is_same_v<T, float>)
      if (!segments_.empty() && quick_row(unit, sums)) return;
    sums.start(axis.size, axis.stride);
    for_covering_rows(axes_, unit % rows_, [&](Index offset, Index window) {
      for (Index w = 0; w < axis.kernel; ++w) {
        const RealWindows run = real_windows(axis, w);
        const T* const terms = patches + (offset * axis.kernel + w) * windows_ + window * axis.outputs;
        if (run.first < run.stop)
          sums.add(terms + run.first, run.first * axis.stride + w * axis.dilation - axis.before, run.stop - run.first);
      }
    });
    T* const out = out_ + unit * axis.size;
    if (sums.finish(out, axis.size)) return;
    for (Index i = 0; i < axis.size; ++i) {
      const double high = sums.high(i), low = sums.low(i);
      if (high == 0 && low == 0 && sums.rest(i) == 0) out[i] = zero(unit, i, high);
      else if (std::isfinite(high) && sums.rest(i) == 0) out[i] = rounded_pair<T>(high, low);
      else out[i] = exactly(unit, i);
    }
  }

 private:
  // Cells of one phase, [first, stop), that have the same offsets of windows, and where the terms of each offset begin:
  // at the window of the cell with number 0.
  struct Segment {
    Index phase, first, stop;
    std::vector<std::pair<Index, Index>> taps;
  };

  // For windows one or two apart; no segments otherwise.
  void find_segments() {
    const PatchAxis& axis = axes_[static_cast<std::size_t>(last_)];
    if (axis.stride > 2 || axis.kernel > 32 || offsets_ > 1024 || rows_ > (Index{1} << 16)) return;
    covering_.resize(static_cast<std::size_t>(rows_));
    for (Index row = 0; row < rows_; ++row)
      for_covering_rows(axes_, row, [&](Index offset, Index window) {
        covering_[static_cast<std::size_t>(row)].emplace_back(offset, window);
      });
    for (Index phase = 0; phase < axis.stride; ++phase) {
      const Index places = (axis.size - phase + axis.stride - 1) / axis.stride;
      std::vector<Index> ends{0, places};
      std::vector<std::array<Index, 4>> runs;  // first and stop place, offset, first window
      for (Index w = 0; w < axis.kernel; ++w) {
        const RealWindows run = real_windows(axis, w);
        const Index shift = phase + axis.before - w * axis.dilation;
        if (run.first >= run.stop || shift % axis.stride != 0) continue;
        const Index from = shift / axis.stride;
        runs.push_back({run.first - from, run.stop - from, w, from});
        ends.push_back(run.first - from);
        ends.push_back(run.stop - from);
      }
      std::sort(ends.begin(), ends.end());
      for (std::size_t e = 0; e + 1 < ends.size(); ++e) {
        Segment segment{phase, ends[e], ends[e + 1], {}};
        if (segment.first >= segment.stop) continue;
        for (const auto& [first, stop, w, from] : runs)
          if (first <= segment.first && segment.stop <= stop) segment.taps.emplace_back(w, from);
        segments_.push_back(std::move(segment));
      }
    }
  }

  // Sums in double that the range of the terms shows to be exact; false if it does not.
  bool quick_row(Index unit, RowSums<T>& sums) const {
    const PatchAxis& axis = axes_[static_cast<std::size_t>(last_)];
    const T* const patches = patches_ + unit / rows_ * offsets_ * windows_;
    const auto& covering = covering_[static_cast<std::size_t>(unit % rows_)];
    TermRange range;
    Index most = 1;
    T* const out = out_ + unit * axis.size;
    const Index places = (axis.size + 1) / 2;
    if (axis.stride == 2) sums.phases.resize(static_cast<std::size_t>(2 * places));
    for (const Segment& segment : segments_) {
      sums.sources.clear();
      for (const auto& [offset, window] : covering)
        for (const auto& [w, from] : segment.taps)
          sums.sources.push_back(patches + (offset * axis.kernel + w) * windows_ + window * axis.outputs + from +
                                 segment.first);
      T* const to = (axis.stride == 1 ? out : sums.phases.data() + segment.phase * places) + segment.first;
      const auto count = static_cast<Index>(sums.sources.size()), n = segment.stop - segment.first;
      if (count == 0) std::fill_n(to, n, T{0});
      else row_kernels_.sum_rows(sums.sources.data(), count, to, n, range);
      most = std::max(most, count);
    }
    if (axis.stride == 2)
      row_kernels_.interleave(sums.phases.data(), sums.phases.data() + places, out, axis.size, sizeof(T));
    return range.exact(most);
  }

  // Calls f(term) for every term of one cell.
  template <class F>
  void terms_of(Index unit, Index cell, const F& f) const {
    const PatchAxis& axis = axes_[static_cast<std::size_t>(last_)];
    const T* const patches = patches_ + unit / rows_ * offsets_ * windows_;
    for_covering_rows(axes_, unit % rows_, [&](Index offset, Index window) {
      for (Index w = 0; w < axis.kernel; ++w) {
        const Index from = cell + axis.before - w * axis.dilation;
        if (from < 0 || from % axis.stride != 0 || from / axis.stride >= axis.outputs) continue;
        f(patches[(offset * axis.kernel + w) * windows_ + window * axis.outputs + from / axis.stride]);
      }
    });
  }

  // A sum of zeros, or of nothing, which is +0.
  T zero(Index unit, Index cell, double sum) const {
    bool any = !std::signbit(sum);
    if (!any) terms_of(unit, cell, [&](T) { any = true; });
    return round_to<T>(any ? sum : 0.0);
  }

  T exactly(Index unit, Index cell) const {
    typename ExactSums<T>::terms sum;
    terms_of(unit, cell, [&](T term) { sum.add(double_of(term)); });
    return sum.template round<T>();
  }

  std::span<const PatchAxis> axes_;
  int last_;
  Index windows_, offsets_, rows_;
  const T* patches_;
  T* out_;
  std::vector<Segment> segments_;
  std::vector<std::vector<std::pair<Index, Index>>> covering_;  // the rows of windows that hold a row, and its offset
  const PatchRowKernels& row_kernels_ = select_patch_row_kernels();
};

// Whether no two windows hold the same cell.
bool apart(std::span<const PatchAxis> axes) {
  return std::all_of(axes.begin(), axes.end(), [](const PatchAxis& axis) {
    return axis.outputs <= 1 || (axis.kernel - 1) * axis.dilation < axis.stride;
  });
}

// A row of cells whose windows do not overlap: every cell is one term, or 0.
template <class U>
void scatter_row(std::span<const PatchAxis> axes, Index row, const U* patches, U* out) {
  const PatchAxis& axis = axes.back();
  const Index windows = product(axes, &PatchAxis::outputs);
  const bool pairs = axis.kernel == 2 && axis.stride == 2 && axis.dilation == 1 && axis.before == 0;
  const Index filled = pairs ? std::min(axis.size, 2 * axis.outputs) : 0;
  bool covered = false;
  if (!pairs) std::fill_n(out, axis.size, U{0});
  for_covering_rows(axes, row, [&](Index offset, Index window) {
    if (pairs) {
      const U* const even = patches + 2 * offset * windows + window * axis.outputs;
      select_patch_row_kernels().interleave(even, even + windows, out, filled, sizeof(U));
      covered = true;
      return;
    }
    for (Index w = 0; w < axis.kernel; ++w) {
      const RealWindows run = real_windows(axis, w);
      const U* const terms = patches + (offset * axis.kernel + w) * windows + window * axis.outputs;
      U* const cells = out + w * axis.dilation - axis.before;
      for (Index o = run.first; o < run.stop; ++o) cells[o * axis.stride] = terms[o];
    }
  });
  if (pairs) std::fill(out + (covered ? filled : 0), out + axis.size, U{0});
}

// The fold of windows that do not overlap.
void scatter(std::span<const PatchAxis> axes, Index planes, const ArrayView& patches, const ArrayView& out) {
  visit_bits(out.dtype, [&](auto bits) {
    using U = decltype(bits);
    const Index cells = product(axes, &PatchAxis::size), rows = cells / axes.back().size;
    const Index columns = product(axes, &PatchAxis::kernel) * product(axes, &PatchAxis::outputs);
    parallel_for(planes * rows, grain_of(planes * rows, out.count()), [&](Index begin, Index end) {
      for (Index unit = begin; unit < end; ++unit)
        scatter_row(axes, unit % rows, patches.as<const U>() + unit / rows * columns,
                    out.as<U>() + unit * axes.back().size);
    });
  });
}

}  // namespace

void unfold(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out) {
  const Index offsets = product(axes, &PatchAxis::kernel), windows = product(axes, &PatchAxis::outputs);
  const Index cells = product(axes, &PatchAxis::size);
  if (out.count() == 0) return;
  visit_bits(x.dtype, [&](auto bits) {
    using U = decltype(bits);
    const Index units = planes * offsets;
    parallel_for(units, grain_of(units, units * windows), [&](Index begin, Index end) {
      Stage stage(streams(out), axes.back().outputs * static_cast<Index>(sizeof(U)));
      for (Index unit = begin; unit < end; ++unit)
        unfold_offset<U>(axes, x.as<const U>() + unit / offsets * cells, unit % offsets, out.as<U>() + unit * windows,
                         stage);
      stage.finish();
    });
  });
}

void fold(std::span<const PatchAxis> axes, Index planes, const ArrayView& patches, const ArrayView& out) {
  if (out.count() == 0) return;
  if (apart(axes)) return scatter(axes, planes, patches, out);
  visit_float(out.dtype, [&](auto type) {
    using T = decltype(type);
    const Fold<T> fold(axes, patches.as<const T>(), out.as<T>());
    const Index units = planes * fold.rows();
    parallel_for(units, grain_of(units, std::max(patches.count(), out.count())), [&](Index begin, Index end) {
      RowSums<T> sums;
      for (Index unit = begin; unit < end; ++unit) fold.row(unit, sums);
    });
  });
}

bool give_signs(const ArrayView& x, const ArrayView& values, const ArrayView& out, bool zeros) {
  const auto item = static_cast<Index>(item_size(x.dtype));
  const std::uint64_t infinity = x.dtype == DType::f64    ? Binary64::infinity
                                 : x.dtype == DType::f32  ? Binary32::infinity
                                 : x.dtype == DType::bf16 ? BrainFloat16::infinity
                                                          : Binary16::infinity;
  std::atomic<bool> nan = false;
  parallel_for(x.count(), kItemsPerThread, [&](Index begin, Index end) {
    const Index at = begin * item;
    const bool found = select_row_kernels().give_signs(x.data + at, values.data + at, out.data + at, end - begin, item,
                                                       infinity, zeros);
    if (found) nan = true;
  });
  return nan;
}

}  // namespace halfulp
