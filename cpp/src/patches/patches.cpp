#include "halfulp/patches.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/row_buffer.hpp"
#include "base/row_kernels.hpp"
#include "base/stage.hpp"
#include "base/visit_bits.hpp"
#include "exact/exact_sum.hpp"
#include "exact/rounded_pair.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "patches/patch_kernels.hpp"
#include "patches/window_rows.hpp"

namespace halfulp {
namespace {

constexpr Index kItemsPerThread = Index{1} << 15;

Index grain_of(Index units, Index items) {
  return std::max<Index>(1, kItemsPerThread * units / std::max<Index>(1, items));
}

// One offset of a plane: the rows of windows along the last two axes at once.
class Unfolder {
 public:
  Unfolder(std::span<const PatchAxis> axes, Index item, bool stream)
      : axes_(axes.begin(), axes.end()), item_(item) {
    if (axes_.size() == 1) axes_.insert(axes_.begin(), PatchAxis{1, 1, 1, 1, 0, 1});
    length_ = axes_.back().outputs;
    together_ = std::max<Index>(1, Stage::kBytes / (length_ * item));
    stage_.emplace(stream, together_ * length_ * item);
  }

  void operator()(const char* plane, Index offset, char* target) {
    const std::size_t last = axes_.size() - 1;
    Index taps[kMaxRank + 1], output[kMaxRank + 1] = {};
    for (std::size_t a = last + 1; a-- > 0;) {
      taps[a] = offset % axes_[a].kernel;
      offset /= axes_[a].kernel;
    }
    const PatchAxis &row = axes_[last], &column = axes_[last - 1];
    const RealWindows along = real_windows(row, taps[last]), down = real_windows(column, taps[last - 1]);
    const auto start = [&](std::size_t a, Index o) {
      return o * axes_[a].stride + taps[a] * axes_[a].dilation - axes_[a].before;
    };
    const UnfoldRows rows{0, length_, along.first, along.stop - along.first, row.stride, column.stride * row.size};
    for (;;) {
      Index source = 0;
      bool real = along.first < along.stop && down.first < down.stop;
      for (std::size_t a = 0; a + 1 < last; ++a) {
        const Index cell = start(a, output[a]);
        real = real && cell >= 0 && cell < axes_[a].size;
        source = source * axes_[a].size + cell;
      }
      if (!real) {
        fill(rows, nullptr, column.outputs, target);
      } else {
        source = (source * column.size + start(last - 1, down.first)) * row.size + start(last, along.first);
        fill(rows, nullptr, down.first, target);
        fill(rows, plane + source * item_, down.stop - down.first, target);
        fill(rows, nullptr, column.outputs - down.stop, target);
      }
      std::size_t a = last - 1;
      while (a > 0 && ++output[a - 1] == axes_[a - 1].outputs) output[--a] = 0;
      if (a == 0) return;
    }
  }
  void finish() { stage_->finish(); }

 private:
  // The next `count` rows of the target, zeros without a source.
  void fill(UnfoldRows rows, const char* source, Index count, char*& target) {
    for (; count > 0; count -= rows.rows) {
      rows.rows = std::min(count, together_);
      const Index bytes = rows.rows * length_ * item_;
      char* const out = stage_->row(target, bytes);
      if (source == nullptr) {
        std::memset(out, 0, static_cast<std::size_t>(bytes));
      } else {
        kernels_.unfold_rows(source, rows, out, item_);
        source += rows.rows * rows.pitch * item_;
      }
      target += bytes;
    }
  }

  std::vector<PatchAxis> axes_;
  Index item_, length_ = 0, together_ = 1;
  std::optional<Stage> stage_;
  const PatchRowKernels& kernels_ = select_patch_row_kernels();
};

template <class T>
double double_of(T x) {
  if constexpr (std::is_same_v<T, double>) return x;
  else return static_cast<double>(to_float(x));
}

// The sums of a row of cells. high + low is the sum; `rest` is the error of low, and zero where that is exact. They are
// added up phase by phase: cell phase + position * stride has position phase * positions + position.
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

  // Scratch of Fold::quick_rows.
  std::vector<const T*> windows;
  std::vector<FoldSources> sources;
  std::vector<double> quick;

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

  // Rows of all planes by their numbers; what follows in planes up to `last_plane` is asked for.
  void rows(Index begin, Index end, Index last_plane, RowSums<T>& sums) const {
    if constexpr (std::is_same_v<T, float>) {
      if (quick_.count > 0) {
        if (quick_rows(begin, end, last_plane, sums)) return;
        for (Index unit = begin; unit < end; ++unit)
          if (!quick_rows(unit, unit + 1, 0, sums)) row(unit, sums);
        return;
      }
    }
    for (Index unit = begin; unit < end; ++unit) row(unit, sums);
  }
  // How many are quick together.
  Index together() const noexcept { return std::clamp<Index>(1024 / axes_.back().size, 1, 8); }

 private:
  void row(Index unit, RowSums<T>& sums) const {
    const PatchAxis& axis = axes_[static_cast<std::size_t>(last_)];
    const T* const patches = patches_ + unit / rows_ * offsets_ * windows_;
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

  // For windows one or two apart; no segments otherwise.
  void find_segments() {
    const PatchAxis& axis = axes_[static_cast<std::size_t>(last_)];
    if (axis.stride > 2 || axis.kernel > 32 || offsets_ > 1024 || rows_ > (Index{1} << 16)) return;
    quick_ = {axis.size, axis.stride, (axis.size + axis.stride - 1) / axis.stride, nullptr, 0};
    covering_.resize(static_cast<std::size_t>(rows_));
    for (Index row = 0; row < rows_; ++row)
      for_covering_rows(axes_, row, [&](Index offset, Index window) {
        covering_[static_cast<std::size_t>(row)].emplace_back(offset, window);
      });
    for (Index phase = 0; phase < axis.stride; ++phase) {
      const Index positions = (axis.size - phase + axis.stride - 1) / axis.stride;
      std::vector<Index> ends{0, positions};
      std::vector<std::array<Index, 4>> runs;  // first and stop position, offset, first window
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
        if (ends[e] >= ends[e + 1]) continue;
        std::vector<Index> taps;
        for (const auto& [first, stop, w, from] : runs)
          if (first <= ends[e] && ends[e + 1] <= stop) taps.push_back(w * windows_ + from);
        segments_.push_back({phase, ends[e], ends[e + 1], taps.data(), static_cast<Index>(taps.size())});
        taps_.push_back(std::move(taps));  // its data stays where it is
      }
    }
    quick_.segments = segments_.data();
    quick_.count = static_cast<Index>(segments_.size());
  }

  // Sums in double; false if they are not exact.
  bool quick_rows(Index begin, Index end, Index last_plane, RowSums<T>& sums) const {
    const PatchAxis& axis = axes_[static_cast<std::size_t>(last_)];
    const Index plane = offsets_ * windows_ * static_cast<Index>(sizeof(T));
    sums.windows.clear();
    sums.sources.clear();
    for (Index unit = begin; unit < end; ++unit) {
      const T* const patches = patches_ + unit / rows_ * offsets_ * windows_;
      const auto& covering = covering_[static_cast<std::size_t>(unit % rows_)];
      // An equal part of the next plane, unless two planes are too large.
      const Index part = plane <= kAheadBytes && unit / rows_ < last_plane ? (plane + rows_ - 1) / rows_ : 0;
      sums.sources.push_back({nullptr, static_cast<Index>(covering.size()),
                              reinterpret_cast<const char*>(patches) + plane + unit % rows_ * part, part});
      for (const auto& [offset, window] : covering)
        sums.windows.push_back(patches + offset * axis.kernel * windows_ + window * axis.outputs);
    }
    const T* const* windows = sums.windows.data();
    for (FoldSources& source : sums.sources) windows = (source.windows = windows) + source.count;
    sums.quick.resize(static_cast<std::size_t>((end - begin) * quick_.phases * quick_.positions));
    return row_kernels_.fold_rows(sums.sources.data(), end - begin, quick_, sums.quick.data(),
                                  out_ + begin * axis.size);
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

  static constexpr Index kAheadBytes = 1 << 18;  // of a plane that the second cache holds beside the present one

  std::span<const PatchAxis> axes_;
  int last_;
  Index windows_, offsets_, rows_;
  const T* patches_;
  T* out_;
  std::vector<std::vector<Index>> taps_;
  std::vector<FoldSegment> segments_;
  FoldRow quick_;  // no segments: not known
  std::vector<std::vector<std::pair<Index, Index>>> covering_;  // the rows of windows that hold a row, and its offset
  const PatchRowKernels& row_kernels_ = select_patch_row_kernels();
};

// Whether no two windows hold the same cell.
bool apart(std::span<const PatchAxis> axes) {
  return std::all_of(axes.begin(), axes.end(), [](const PatchAxis& axis) {
    return axis.outputs <= 1 || (axis.kernel - 1) * axis.dilation < axis.stride;
  });
}

// The fold of windows that do not overlap: every cell is one term, or 0.
template <class U>
class Scatter {
 public:
  explicit Scatter(std::span<const PatchAxis> axes)
      : axis_(axes.back()),
        windows_(product(axes, &PatchAxis::outputs)),
        covering_(static_cast<std::size_t>(product(axes, &PatchAxis::size) / axis_.size), -1) {
    for (std::size_t row = 0; row < covering_.size(); ++row)
      for_covering_rows(axes, static_cast<Index>(row), [&](Index offset, Index window) {
        covering_[row] = offset * axis_.kernel * windows_ + window * axis_.outputs;
      });
    pairs_ = axis_.kernel == 2 && axis_.stride == 2 && axis_.dilation == 1 && axis_.before == 0;
  }

  void operator()(const U* patches, Index row, U* out) const {
    const Index at = covering_[static_cast<std::size_t>(row)];
    const Index filled = pairs_ && at >= 0 ? std::min(axis_.size, 2 * axis_.outputs) : 0;
    if (filled > 0) kernels_.interleave(patches + at, patches + at + windows_, out, filled, sizeof(U));
    std::fill(out + filled, out + axis_.size, U{0});
    if (pairs_ || at < 0) return;
    for (Index w = 0; w < axis_.kernel; ++w) {
      const RealWindows run = real_windows(axis_, w);
      const U* const terms = patches + at + w * windows_;
      U* const cells = out + w * axis_.dilation - axis_.before;
      for (Index o = run.first; o < run.stop; ++o) cells[o * axis_.stride] = terms[o];
    }
  }

 private:
  PatchAxis axis_;
  Index windows_;
  std::vector<Index> covering_;  // where the terms of a row of cells begin in a plane's patches; -1: there are none
  bool pairs_;
  const PatchRowKernels& kernels_ = select_patch_row_kernels();
};

void scatter(std::span<const PatchAxis> axes, Index planes, const ArrayView& patches, const ArrayView& out) {
  visit_bits(out.dtype, [&](auto bits) {
    using U = decltype(bits);
    const Index size = axes.back().size, rows = product(axes, &PatchAxis::size) / size;
    const Index columns = product(axes, &PatchAxis::kernel) * product(axes, &PatchAxis::outputs);
    const Scatter<U> scatter(axes);
    parallel_for(planes * rows, grain_of(planes * rows, out.count()), [&](Index begin, Index end) {
      for (Index unit = begin; unit < end; ++unit)
        scatter(patches.as<const U>() + unit / rows * columns, unit % rows, out.as<U>() + unit * size);
    });
  });
}

}  // namespace

void unfold(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out) {
  const Index offsets = product(axes, &PatchAxis::kernel), windows = product(axes, &PatchAxis::outputs);
  const Index cells = product(axes, &PatchAxis::size);
  if (out.count() == 0) return;
  count_engine(Engine::patches);
  const auto item = static_cast<Index>(item_size(x.dtype));
  const Index units = planes * offsets;
  parallel_for(units, grain_of(units, units * windows), [&](Index begin, Index end) {
    Unfolder unfolder(axes, item, streams(out));
    for (Index unit = begin; unit < end; ++unit)
      unfolder(x.data + unit / offsets * cells * item, unit % offsets, out.data + unit * windows * item);
    unfolder.finish();
  });
}

void fold(std::span<const PatchAxis> axes, Index planes, const ArrayView& patches, const ArrayView& out) {
  if (out.count() == 0) return;
  count_engine(Engine::patches);
  if (apart(axes)) return scatter(axes, planes, patches, out);
  visit_float(out.dtype, [&](auto type) {
    using T = decltype(type);
    const Fold<T> fold(axes, patches.as<const T>(), out.as<T>());
    const Index units = planes * fold.rows();
    parallel_for(units, grain_of(units, std::max(patches.count(), out.count())), [&](Index begin, Index end) {
      RowSums<T> sums;
      for (Index unit = begin, stop = 0; unit < end; unit = stop) {
        stop = std::min(unit + fold.together(), end);
        fold.rows(unit, stop, (end - 1) / fold.rows(), sums);
      }
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
