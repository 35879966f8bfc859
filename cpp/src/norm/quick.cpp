#include "norm/quick.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "base/stream_kernels.hpp"
#include "halfulp/parallel.hpp"
#include "norm/pass.hpp"
#include "norm/quick_kernels.hpp"
#include "simd/compiler.hpp"

namespace halfulp::norms {
namespace {

constexpr double kUnit = 0x1p-53;
// An end of an interval about 0 has a sign then, also after a product with the smallest float.
constexpr double kLeastBound = 0x1p-800;

double largest(std::uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }

// A copy, past the caches if there are so many planes that they hold little of them.
class Keeper {
 public:
  explicit Keeper(Index cells) : stream_(cells * static_cast<Index>(sizeof(float)) >= kStreamBytes) {}
  bool streams() const noexcept { return stream_; }
  void operator()(const float* source, float* target, Index n) const {
    if (!stream_) std::copy_n(source, n, target);
    else
      select_stream_kernels().copy(reinterpret_cast<const char*>(source), reinterpret_cast<char*>(target),
                                   n * static_cast<Index>(sizeof(float)));
  }
  void finish() const {
    if (stream_) select_stream_kernels().finish();
  }

 private:
  bool stream_;
};

// Of a root whose sum has so many additions to a term, in units of 2^-53: half of that and its square, which is small,
// rounded up; and one more.
double units_of(double additions) { return std::ceil(additions * (0.5 + 0x1p-20)) + 1; }
// With the root's own rounding and that of a product with 1 + error.
double error_of(const RootRun& run) { return (run.units + 2) * kUnit; }

// Whether there is one window, over all cells.
bool whole(std::span<const PatchAxis> axes) {
  return std::all_of(axes.begin(), axes.end(), [](const PatchAxis& axis) {
    return axis.outputs == 1 && axis.before == 0 && axis.dilation == 1 && axis.kernel == axis.size;
  });
}

// Asks for items that are read later, into the second cache.
template <class T>
void ask_for(const T* from, Index n) {
  prefetch_bytes_for_later(from, n * static_cast<Index>(sizeof(T)));
}

// The columns of a row of windows, with zeros around them so that all windows are alike.
class Rows {
 public:
  explicit Rows(std::span<const PatchAxis> axes)
      : axes_(axes),
        plane_(product(axes, &PatchAxis::size)),
        rows_(product(axes, &PatchAxis::outputs) / std::max<Index>(1, axes.back().outputs)),
        cells_(product(axes, &PatchAxis::kernel)) {
    const PatchAxis& axis = axes.back();
    run_ = {axis.outputs, axis.kernel, axis.stride, axis.dilation, units_of(static_cast<double>(cells_ - 1))};
    const Index positions = std::max(axis.before + axis.size,
                                  (axis.outputs - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1);
    padded_ = positions <= 4 * axis.size + 4096;  // else far more zeros than cells
    margin_ = padded_ ? axis.before : 0;
    first_ = padded_length<double>(margin_);  // at a cache line
    length_ = first_ + (padded_ ? positions - margin_ : axis.size) + 1;  // one more, which windows two apart read
  }

  Index rows() const noexcept { return rows_; }

 protected:
  // The rows of cells that a row of windows holds.
  void find_rows(Index row, const float* plane, std::vector<const float*>& held) const {
    held.clear();
    if (axes_.size() == 2) {
      const PatchAxis& axis = axes_[0];
      for (Index k = 0, cell = row * axis.stride - axis.before; k < axis.kernel; ++k, cell += axis.dilation)
        if (cell >= 0 && cell < axis.size) held.push_back(plane + cell * axes_[1].size);
      return;
    }
    const Index n = axes_.back().size;
    for_held_rows(axes_, row, [&](Index source) { held.push_back(plane + source * n); });
  }

  // The sums of the columns of every window, for windows that are not alike or not known to the kernels.
  const double* sum_columns(const double* columns, std::vector<double>& sums) const {
    const PatchAxis& axis = axes_.back();
    sums.assign(static_cast<std::size_t>(axis.outputs), 0.0);
    for (Index w = 0; w < axis.kernel; ++w) {
      const RealWindows run = real_windows(axis, w);
      const Index from = w * axis.dilation - axis.before + run.first * axis.stride;
      if (run.first < run.stop)
        row_kernels_.add_every(columns + from, axis.stride, sums.data() + run.first, run.stop - run.first);
    }
    return sums.data();
  }
  RootRun summed() const noexcept { return {run_.outputs, 1, 1, 1, run_.units}; }

  std::span<const PatchAxis> axes_;
  Index plane_, rows_, cells_;
  RootRun run_;
  bool padded_ = true;
  Index margin_ = 0, first_ = 0, length_ = 0;  // zeros before the columns, where these begin, and the room for all
  const RowKernels& row_kernels_ = select_row_kernels();
  const QuickNormKernels& kernels_ = select_quick_norm_kernels();
};

class Outputs : Rows {
 public:
  Outputs(std::span<const PatchAxis> axes, Index planes, const float* x, const float* t, float* out, float* tangents,
          const Kept& kept, const Keeper& keep)
      : Rows(axes),
        planes_(planes),
        pass_(axes),
        x_(x),
        t_(t),
        out_(out),
        tangents_(tangents),
        kept_(kept),
        keep_(keep) {
    for (auto& columns : squares_) columns.assign(length_, 0.0);
    if (t != nullptr)
      for (auto& columns : products_) columns.assign(length_, 0.0);
    // In units of 2^-53: for a term at most `depth` additions, in the squares half as many, one each for root,
    // quotient and ends. All is relative to sum(|x t|) / norm, which is at most the norm of t.
    const auto depth = static_cast<double>(cells_ / axes.back().kernel + axes.back().kernel);
    spread_ = (2 * depth + 8) * kUnit * std::sqrt(static_cast<double>(cells_)) * (1 + 0x1p-20);
  }

  using Rows::rows;
  std::vector<Index> undecided, undecided_tangents;

  // One row of the outputs of a plane: columns first, then along the row. The second is done when the columns of the
  // next row are made: loads that straddle stores wait for them, and these have then long left the store buffer.
  void row(Index plane, Index row) {
    const Index size = axes_.back().size;
    double* const columns = squares_[made_].data() + first_;
    find_rows(row, x_ + plane * plane_, held_);
    const auto held = static_cast<Index>(held_.size());
    double bound = 0;
    if (t_ == nullptr) {
      if (held > 0) kernels_.sum_squares(held_.data(), held, columns, size);
      else std::fill_n(columns, size, 0.0);
    } else {
      double* const products = products_[made_].data() + first_;
      find_rows(row, t_ + plane * plane_, held_along_);
      if (held > 0) {
        bound = largest(kernels_.sum_products(held_.data(), held_along_.data(), held, columns, products, size));
      } else {
        std::fill_n(columns, size, 0.0);
        std::fill_n(products, size, 0.0);
      }
    }
    const Index from = plane * plane_ + plane_ * row / rows_, to = plane * plane_ + plane_ * (row + 1) / rows_;
    if (t_ == nullptr && to + kAhead <= planes_ * plane_) ask_for(x_ + from + kAhead, to - from);
    made_ = 1 - made_;
    along();
    pending_ = {plane, row, bound * spread_ + kLeastBound};
    // About the cells that have just been read.
    if (kept_.x != nullptr) keep_(x_ + from, kept_.x + from, to - from);
  }

  // The row whose columns were made last, if it is not done yet.
  void flush() {
    made_ = 1 - made_;
    along();
  }

 private:
  struct Pending {
    Index plane = -1, row = 0;  // plane < 0: none
    double bound = 0;
  };

  // The windows of the columns that wait, squares_[made_].
  void along() {
    if (pending_.plane < 0) return;
    const Pending now = std::exchange(pending_, {});
    const double* const squares = squares_[made_].data() + first_;
    const Index at = (now.plane * rows_ + now.row) * run_.outputs;
    if (t_ == nullptr) {
      double* const inverse = kept_.inverse == nullptr ? nullptr : kept_.inverse + at;
      bool undecided = false;
      if (!padded_ || !kernels_.window_roots(squares - margin_, run_, out_ + at, inverse, undecided))
        kernels_.window_roots(sum_columns(squares, sums_), summed(), out_ + at, inverse, undecided);
      if (undecided) finish(squares, at);
      return;
    }
    const double* const products = products_[made_].data() + first_;
    int unsure = 0;
    if (!padded_ || !kernels_.window_tangents(squares - margin_, products - margin_, run_, now.bound, out_ + at,
                                              tangents_ + at, unsure)) {
      const double* const dots = sum_columns(products, dots_);
      kernels_.window_tangents(sum_columns(squares, sums_), dots, summed(), now.bound, out_ + at, tangents_ + at,
                               unsure);
    }
    if ((unsure & 1) != 0) finish(squares, at);
    if ((unsure & 2) != 0) tangents(now, at);
  }

  // A row of norms one by one.
  void finish(const double* squares, Index at) {
    sum_columns(squares, sums_);
    const double error = error_of(run_);
    for (std::size_t o = 0; o < sums_.size(); ++o, ++at) {
      const double y = std::sqrt(sums_[o]);
      const auto low = static_cast<float>(y * (1 - error)), high = static_cast<float>(y * (1 + error));
      out_[at] = low;
      if (low == high || std::isinf(low)) continue;
      if (std::isnan(y)) out_[at] = std::numeric_limits<float>::quiet_NaN();
      else undecided.push_back(at);
    }
  }

  // A row of tangents with a bound for each of them.
  void tangents(const Pending& now, Index at) {
    pass_.tangent_row(x_ + now.plane * plane_, t_ + now.plane * plane_, now.row, tangents_ + at,
                      [&](Index i) { undecided_tangents.push_back(at + i); });
  }

  static constexpr Index kAhead = 4096;  // cells: as many as are read meanwhile, and half the first cache

  Index planes_;
  Pass<float> pass_;
  const float *x_, *t_;
  float *out_, *tangents_;
  Kept kept_;
  Keeper keep_;
  double spread_ = 0;
  std::vector<const float*> held_, held_along_;
  RowBuffer<double> squares_[2], products_[2];
  std::vector<double> sums_, dots_;
  int made_ = 0;  // where the next columns go
  Pending pending_;
};

// The taps along a row, if the kernels know them.
std::optional<ShareTaps> taps_of(const PatchAxis& axis) {
  ShareTaps taps;
  if (axis.stride > 2) return {};
  taps.phases = static_cast<int>(axis.stride);
  for (int phase = 0; phase < taps.phases; ++phase) {
    int& count = taps.taps[phase] = 0;
    for (Index w = 0; w < axis.kernel; ++w) {
      const Index from = phase + axis.before - w * axis.dilation;
      if (from % axis.stride != 0) continue;
      if (count == (axis.stride == 1 ? 3 : 2)) return {};
      taps.offset[phase][count++] = from / axis.stride;
    }
    if (count == 0) return {};
  }
  std::vector<bool> held(static_cast<std::size_t>(axis.size));
  for (Index w = 0; w < axis.kernel; ++w) {
    const RealWindows run = real_windows(axis, w);
    for (Index o = run.first; o < run.stop; ++o)
      held[static_cast<std::size_t>(o * axis.stride + w * axis.dilation - axis.before)] = true;
  }
  // The cells of no window are not looked at: a NaN there would not be seen.
  if (std::find(held.begin(), held.end(), false) != held.end()) return {};
  return taps;
}

class Cells {
 public:
  Cells(std::span<const PatchAxis> axes, Index planes, const ShareTaps& taps, const float* x, const double* inverse,
        const float* g, float* out, const Keeper& keep)
      : axes_(axes),
        outputs_(axes.back().outputs),
        rows_(product(axes, &PatchAxis::outputs) / outputs_),
        plane_(product(axes, &PatchAxis::size)),
        pass_(axes),
        planes_(planes),
        taps_(taps),
        x_(x),
        inverse_(inverse),
        g_(g),
        out_(out),
        keep_(keep) {
    const PatchAxis& axis = axes.back();
    // Zeros before and after every row of shares, for cells in fewer windows.
    const Index last = (axis.size - 1 + axis.before) / axis.stride + 1;
    lead_ = padded_length<double>((axis.kernel - 1) * axis.dilation / axis.stride + 1);
    pitch_ = lead_ + padded_length<double>(std::max(axis.outputs, last) + 8);
    shares_.assign(rows_ * pitch_, 0.0);
    for (auto& gathered : gathered_) gathered.assign(pitch_, 0.0);
    most_.resize(static_cast<std::size_t>(rows_));
    // As the tangents' bound; relative to the sum of the magnitudes of at most so many shares.
    Index holders = 1;
    for (const PatchAxis& a : axes) holders *= std::min(a.outputs, (a.kernel - 1) * a.dilation / a.stride + 1);
    const Index above = product(axes, &PatchAxis::kernel) / axis.kernel;
    const auto depth = static_cast<double>(above + axis.kernel), held = static_cast<double>(holders);
    spread_ = (depth + 2 * held + 10) * kUnit * held;
    covering_.resize(static_cast<std::size_t>(plane_ / axis.size));
    for (std::size_t row = 0; row < covering_.size(); ++row)
      for_covering_rows(axes_, static_cast<Index>(row),
                        [&](Index, Index window) { covering_[row].push_back(window); });
    stage_rows_ = std::clamp<Index>(kStageCells / axis.size, 1, plane_ / axis.size);
    stage_.resize(static_cast<std::size_t>(stage_rows_ * axis.size));
  }

  std::vector<Index> undecided;

  void plane(Index p) {
    const float* const x = x_ + p * plane_;
    const Index windows = rows_ * outputs_;
    const float* const g = g_ + p * windows;
    float* const out = out_ + p * plane_;
    const Index size = axes_.back().size, rows = plane_ / size;
    const bool good = find_shares(inverse_ + p * windows, g);
    const bool ahead = p + 1 < planes_ && plane_ * kCellBytes <= kAheadBytes && windows <= plane_;
    bool started = false;
    Gathered next = gather(0);
    for (Index first = 0; first < rows; first += stage_rows_) {
      const Index stop = std::min(rows, first + stage_rows_);
      for (Index row = first; row < stop; ++row) {
        float* const to = (keep_.streams() ? stage_.data() : out + first * size) + (row - first) * size;
        const Gathered now = next;
        if (ahead) {
          const Index at = row * windows / rows, stop_at = (row + 1) * windows / rows;
          ask_for(x + plane_ + row * size, size);
          ask_for(g + windows + at, stop_at - at);
          ask_for(inverse_ + (p + 1) * windows + at, stop_at - at);
        }
        if (row + 1 < rows) next = gather(row + 1);
        if (good && now.shares != nullptr &&
            kernels_.cotangents(x + row * size, now.shares + lead_, taps_, now.bound, to, size))
          continue;
        if (!started) pass_.start_plane(x, g);
        started = true;
        pass_.cotangents(x, g, row, to, [&](Index cell) { undecided.push_back(p * plane_ + cell); });
      }
      if (keep_.streams()) keep_(stage_.data(), out + first * size, (stop - first) * size);
    }
  }

 private:
  // The shares of all windows; false if one of them is not finite.
  bool find_shares(const double* inverse, const float* g) {
    for (Index row = 0, at = 0; row < rows_; ++row, at += outputs_) {
      double& most = most_[static_cast<std::size_t>(row)];
      most = kernels_.scale_shares(inverse + at, g + at, shares_.data() + row * pitch_ + lead_, outputs_);
      if (std::isnan(most)) return false;
    }
    return true;
  }

  struct Gathered {
    const double* shares = nullptr;  // null: no window holds the row
    double bound = 0;
  };

  // The sum of the rows of shares that hold a row of cells.
  Gathered gather(Index row) {
    const std::vector<Index>& covering = covering_[static_cast<std::size_t>(row)];
    if (covering.empty()) return {};
    double most = 0;
    sources_.clear();
    for (const Index window : covering) {
      sources_.push_back(shares_.data() + window * pitch_);
      most = std::max(most, most_[static_cast<std::size_t>(window)]);
    }
    const double bound = most * spread_ + kLeastBound;
    if (sources_.size() == 1) return {sources_[0], bound};
    double* const sums = gathered_[row % 2].data();
    kernels_.sum_rows(sources_.data(), static_cast<Index>(sources_.size()), sums, pitch_);
    return {sums, bound};
  }

  static constexpr Index kStageCells = 2048, kCellBytes = sizeof(float);
  static constexpr Index kAheadBytes = 1 << 18;  // of a plane that the second cache holds beside the present one

  std::span<const PatchAxis> axes_;
  Index outputs_, rows_, plane_;
  Pass<float> pass_;
  Index planes_;
  ShareTaps taps_;
  const float* x_;
  const double* inverse_;
  const float* g_;
  float* out_;
  Keeper keep_;
  double spread_ = 0;
  Index lead_ = 0, pitch_ = 0;
  std::vector<const double*> sources_;
  std::vector<std::vector<Index>> covering_;  // the rows of windows that hold a row of cells
  Index stage_rows_ = 1;
  std::vector<float> stage_;  // rows of results that are streamed together
  std::vector<double> most_;
  RowBuffer<double> shares_, gathered_[2];
  const QuickNormKernels& kernels_ = select_quick_norm_kernels();
};

// One window over a whole plane.
class Whole {
 public:
  Whole(std::span<const PatchAxis> axes, const Keeper& keep)
      : pass_(axes), keep_(keep), cells_(product(axes, &PatchAxis::size)), rows_(cells_ / axes.back().size) {
    error_ = (whole_depth(cells_) + 8) * kUnit;
    spread_ = 2 * error_ * std::sqrt(static_cast<double>(cells_)) * (1 + 0x1p-20);
  }

  // The norm, and, if t is given, its tangent, else 1 over the norm, which may be null; bits as those of
  // window_tangents.
  int output(const float* x, const float* t, float& out, float* tangent, double* inverse) {
    double square = 0, dot = 0;
    std::uint32_t most = 0;
    kernels_.whole_sums(x, t, cells_, square, dot, most);
    const RootRun run{1, 1, 1, 1, units_of(whole_depth(cells_))};
    int unsure = 0;
    if (t == nullptr) {
      bool undecided = false;
      kernels_.window_roots(&square, run, &out, inverse, undecided);
      unsure = undecided ? 1 : 0;
    } else {
      kernels_.window_tangents(&square, &dot, run, largest(most) * spread_ + kLeastBound, &out, tangent, unsure);
    }
    if ((unsure & 1) != 0) unsure = (unsure & 2) | (value(x, square, out) ? 0 : 1);
    if ((unsure & 2) != 0) {
      unsure &= 1;
      pass_.tangent_row(x, t, 0, tangent, [&](Index) { unsure |= 2; });
    }
    return unsure;
  }

  template <class Report>
  void cotangents(const float* x, double inverse, float g, float* out, const Report& report) {
    const double share = static_cast<double>(g) * inverse;
    if (std::isfinite(share) && scaled(x, share, std::abs(share) * 2 * error_ + kLeastBound, out)) return;
    keep_.finish();
    pass_.start_plane(x, &g);
    for (Index row = 0; row < rows_; ++row) pass_.cotangents(x, &g, row, out + row * (cells_ / rows_), report);
  }

 private:
  bool scaled(const float* x, double share, double bound, float* out) {
    if (!keep_.streams()) return kernels_.scaled(x, share, bound, out, cells_);
    constexpr Index kStage = 2048;
    float stage[kStage];
    for (Index i = 0; i < cells_; i += kStage) {
      const Index n = std::min(kStage, cells_ - i);
      if (!kernels_.scaled(x + i, share, bound, stage, n)) return false;
      keep_(stage, out + i, n);
    }
    return true;
  }

  // A norm whose error leaves more than one float, an infinity or NaN.
  bool value(const float* x, double square, float& out) {
    if (std::isnan(square)) out = std::numeric_limits<float>::quiet_NaN();
    if (!(square <= std::numeric_limits<double>::max())) return std::isnan(square) || std::isinf(out);
    return pass_.precise_norm(x, 0, 0, out);
  }

  Pass<float> pass_;
  Keeper keep_;
  Index cells_, rows_;
  double error_ = 0, spread_ = 0;
  const QuickNormKernels& kernels_ = select_quick_norm_kernels();
};

}  // namespace

void quick_outputs(std::span<const PatchAxis> axes, Index planes, const float* x, const float* t, float* out,
                   float* tangents, const Kept& kept, std::vector<Index>& undecided,
                   std::vector<Index>& undecided_tangents) {
  std::mutex mutex;
  const auto add = [&](const std::vector<Index>& values, const std::vector<Index>& derivatives) {
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), values.begin(), values.end());
    undecided_tangents.insert(undecided_tangents.end(), derivatives.begin(), derivatives.end());
  };
  const Index cells = product(axes, &PatchAxis::size);
  const Keeper keep(planes * cells);
  if (whole(axes) && cells > 0) {
    parallel_for(planes, grain_of(planes, planes * cells), [&](Index begin, Index end) {
      Whole one(axes, keep);
      std::vector<Index> values, derivatives;
      for (Index p = begin; p < end; ++p) {
        const int unsure = one.output(x + p * cells, t == nullptr ? nullptr : t + p * cells, out[p],
                                      t == nullptr ? nullptr : tangents + p,
                                      kept.inverse == nullptr ? nullptr : kept.inverse + p);
        if ((unsure & 1) != 0) values.push_back(p);
        if ((unsure & 2) != 0) derivatives.push_back(p);
        if (kept.x != nullptr) keep(x + p * cells, kept.x + p * cells, cells);
      }
      keep.finish();
      add(values, derivatives);
    });
    return;
  }
  const Index rows = Outputs(axes, planes, x, t, out, tangents, kept, keep).rows(), units = planes * rows;
  parallel_for(units, grain_of(units, planes * (cells + rows * axes.back().outputs)), [&](Index begin, Index end) {
    Outputs outputs(axes, planes, x, t, out, tangents, kept, keep);
    for (Index unit = begin, plane = begin / rows, row = begin % rows; unit < end; ++unit) {
      outputs.row(plane, row);
      if (++row < rows) continue;
      row = 0;
      ++plane;
    }
    outputs.flush();
    keep.finish();
    add(outputs.undecided, outputs.undecided_tangents);
  });
}

bool quick_cotangents_apply(std::span<const PatchAxis> axes) {
  return product(axes, &PatchAxis::size) > 0 && product(axes, &PatchAxis::outputs) > 0 &&
         (whole(axes) || taps_of(axes.back()));
}

std::vector<Index> quick_cotangents(std::span<const PatchAxis> axes, Index planes, const float* x,
                                    const double* inverse, const float* g, float* out) {
  const Index cells = product(axes, &PatchAxis::size);
  const bool one_window = whole(axes);
  const ShareTaps taps = taps_of(axes.back()).value_or(ShareTaps{});
  Undecided all;
  const Keeper keep(planes * cells);
  parallel_for(planes, grain_of(planes, planes * cells), [&](Index begin, Index end) {
    if (one_window) {
      Whole one(axes, keep);
      std::vector<Index> unsure;
      for (Index p = begin; p < end; ++p)
        one.cotangents(x + p * cells, inverse[p], g[p], out + p * cells,
                       [&](Index cell) { unsure.push_back(p * cells + cell); });
      keep.finish();
      return all.add(unsure);
    }
    Cells work(axes, planes, taps, x, inverse, g, out, keep);
    for (Index p = begin; p < end; ++p) work.plane(p);
    keep.finish();
    all.add(work.undecided);
  });
  return all.take();
}

}  // namespace halfulp::norms
