// The finished rows of hard max's last axis, many at a time: loading and folding a band of rows in single calls costs
// less than row by row, and no load waits for a store just made.
#pragma once

#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "max/horizontal.hpp"
#include "max/plane.hpp"
#include "max/vertical.hpp"

namespace halfulp {

enum class Payload { none, tangent, index, code };

// An integer payload is linear in the coordinates of the cell, so that no division is needed to read it: the flat
// index, or the cell's code in the window times the common multiple of the dilations, up to the window's own place. A
// code is `relative`, made of the numbers of the taps on the way, where every axis takes its windows tap by tap.
struct Coordinates {
  Coordinates(const MaxPlan& plan, Payload payload) : weights(plan.axes.size()) {
    const bool code = payload == Payload::code;
    relative = code && !RowWindows(plan.axes.back(), 1).doubling();
    for (std::size_t a = 0; a + 1 < plan.axes.size(); ++a) relative = relative && !by_blocks(plan.axes[a]);
    if (code && !relative)
      for (const Axis& axis : plan.axes) multiple = std::lcm(multiple, axis.dilation);
    Index step = 1;
    for (std::size_t a = plan.axes.size(); a-- > 0;) {
      const Axis& axis = plan.axes[a];
      weights[a] = code && !relative ? step * (multiple / axis.dilation) : step;
      largest += weights[a] * (relative ? axis.kernel : axis.size + axis.before + 1);
      step *= code ? axis.kernel : axis.size;
    }
  }
  std::vector<Index> weights;  // one per axis
  Index multiple = 1;
  Index largest = 0;
  bool relative = false;
};

template <class T, class C, class P>
class RowBand {
 public:
  using Kernels = MaxRowKernels<C, P>;

  // Whether places of this many lanes are folded where they lie in the array: values only, and a lane is as good as a
  // row. The rule must then hold for whatever comes, since nobody looks first.
  static bool reads_channels_last(const MaxPlan& plan, Payload payload, Index lanes) noexcept {
    return std::is_same_v<T, C> && payload == Payload::none && lanes * static_cast<Index>(sizeof(C)) >= 64 &&
           !RowWindows(plan.axes.back(), lanes).doubling();
  }

  RowBand(const MaxPlan& plan, const Kernels& kernels, Payload payload, Index lanes, Index rows)
      : axis_(plan.axes.back()),
        kernels_(kernels),
        payload_(payload),
        last_(plan.ties == Ties::last ? 1 : 0),
        rows_(rows),
        spans_(plan.spans.back()),
        windows_(axis_, lanes),
        shape_(windows_.shape<C>(rows)),
        loader_(shape_, kernels, C{}) {
    row_length = padded_length<C>(axis_.output * lanes);
    in_place = reads_channels_last(plan, payload, lanes);
    const Index items = shape_.pitch * rows + kRowSlack;
    values_.assign(items, C{});
    windows_.taps(loader_, taps_);
    if (windows_.doubling())
      for (auto& scratch : scratch_) scratch.assign(items, C{});
    if (payload_ != Payload::none) prepare_pairs(Coordinates(plan, payload), items);
    else if (windows_.doubling()) clipped_ = ClippedDoubling(axis_, spans_);
  }

  // Whether small windows of values can be taken of changed cells.
  bool changes(const MaxPlane& plane, int row_axis) const noexcept {
    constexpr bool changed = std::is_floating_point_v<C> || std::is_same_v<C, std::int16_t>;
    return changed && payload_ == Payload::none && small_windows(plane, row_axis);
  }

  // The rule for values that come; padding then loses against every cell.
  void set_rule(MaxRule rule) {
    if (ready_ && rule_ == rule) return;
    loader_.set_padding(rule == MaxRule::absent ? std::numeric_limits<C>::quiet_NaN() : lowest_value<C>());
    rule_ = rule;
    ready_ = true;
  }

  // Fills the band with the windows of rows [first, stop) of a plane, and tells what they held. Row 0 of the array is
  // at x and tangent; `base` is what the coordinates before this axis contribute to an integer payload of row 0.
  Contents fill(const MaxPlane& plane, int row_axis, const char* x, const char* tangent, Index base, Index first,
                Index stop) {
    return make(plane, row_axis, x, tangent, base, first, stop, values_.data(), pairs_.data());
  }

  // The same to another place, whose rows lie `pitch` items apart.
  Contents make(const MaxPlane& plane, int row_axis, const char* x, const char* tangent, Index base, Index first,
                Index stop, C* values, P* pairs) {
    begin_ = first;
    end_ = stop;
    made_ = values;
    made_pairs_ = pairs;
    const Index x_step = row_axis < 0 ? 0 : plane.x.strides[row_axis];
    if (in_place) {
      for (Index r = first; r < stop; ++r)
        fold_channels(x + r * x_step, plane.x.strides[row_axis + 1], made_ + (r - first) * shape_.pitch);
      return Contents::finite;
    }
    if (rule_ == MaxRule::clean && small_windows(plane, row_axis)) return fold_small(plane, row_axis, x, tangent);
    if (rule_ == MaxRule::clean && clipped_.width > 0 && dense_rows(x_step, plane.x.strides[row_axis + 1]))
      return fold_clipped(reinterpret_cast<const C*>(x + first * x_step), x_step / static_cast<Index>(sizeof(C)));
    const Contents contents = loader_.load(x + first * x_step, x_step, plane.x.strides[row_axis + 1], stop - first);
    if constexpr (std::is_floating_point_v<P>) {
      if (payload_ == Payload::tangent) {
        const Index step = row_axis < 0 ? 0 : plane.tangent.strides[row_axis];
        pair_loader_->load(tangent + first * step, step, plane.tangent.strides[row_axis + 1], stop - first);
      }
      fold_rows(P{});
    } else {
      fold_rows(relative_ ? P{} : static_cast<P>(base + first * row_weight_));
    }
    return contents;
  }

  bool holds(Index row) const noexcept { return row >= begin_ && row < end_; }
  void forget() noexcept { begin_ = end_ = 0; }
  Index capacity() const noexcept { return rows_; }
  Index pitch() const noexcept { return shape_.pitch; }
  const C* value(Index row) const noexcept { return values_.data() + (row - begin_) * shape_.pitch; }
  const P* pair(Index row) const noexcept {
    return payload_ == Payload::none ? nullptr : pairs_.data() + (row - begin_) * shape_.pitch;
  }

  // `add` and `step` as in MaxRowKernels.
  void fold(const C* const* values, const P* const* pairs, int count, C* value, P* pair, P add, P step,
            const RowRun& rows) const {
    if (payload_ == Payload::none) return kernels_.fold[static_cast<int>(rule_)][last_](values, count, value, rows);
    kernels_.fold_pair[rule_ == MaxRule::absent ? 1 : 0][last_](values, pairs, count, value, pair, add, step, rows);
  }
  void fold_pair_exact(const C* const* values, const P* const* pairs, int count, C* value,
                       typename Kernels::Carried* pair, P add, P step, const RowRun& rows) const {
    const auto& kernels = kernels_.fold_pair_exact[rule_ == MaxRule::absent ? 1 : 0];
    kernels[last_](values, pairs, count, value, pair, add, step, rows);
  }
  void fold_exact(const C* const* values, int count, C* value, const RowRun& rows) const {
    kernels_.fold_exact[static_cast<int>(rule_)][last_](values, count, value, rows);
  }
  // As in MaxRowKernels.
  void suffixes(C* rows, const RowRun& run) const { kernels_.suffixes[static_cast<int>(rule_)][last_](rows, run); }
  void slide_exact(const C* suffixes, const C* rows, C* out, const SlideRun& run) const {
    kernels_.slide_exact[static_cast<int>(rule_)][last_](suffixes, rows, out, run);
  }
  MaxRule rule() const noexcept { return rule_; }

  Index row_length = 0;  // items of a finished row, rounded up to vectors
  bool in_place = false;  // reads_channels_last
  const CellBits* change = nullptr;  // of the cells, by the small windows that change them

 private:
  using PairLoader = RowLoader<std::conditional_t<std::is_floating_point_v<P>, T, P>, P, Kernels>;

  void prepare_pairs(const Coordinates& coordinates, Index items) {
    relative_ = coordinates.relative;
    if (relative_) return pairs_.assign(items, P{});
    pair_loader_ = std::make_unique<PairLoader>(windows_.shape<P>(rows_), kernels_, P{});
    pairs_.assign(items, P{});
    windows_.taps(*pair_loader_, pair_taps_);
    if (windows_.doubling())
      for (auto& scratch : pair_scratch_) scratch.assign(items, P{});
    if (payload_ == Payload::tangent) return;
    // Integers do not depend on the data: the band holds them once for all, relative to its first row.
    row_weight_ = coordinates.weights.size() > 1 ? coordinates.weights[coordinates.weights.size() - 2] : 0;
    for (Index w = 0; w < axis_.size; ++w) {
      P* target = pair_loader_->at((w + axis_.before) % shape_.ways, (w + axis_.before) / shape_.ways);
      for (Index r = 0; r < rows_; ++r)
        for (Index lane = 0; lane < shape_.lanes; ++lane)
          target[r * shape_.pitch + lane] = static_cast<P>(w * coordinates.weights.back() + r * row_weight_);
    }
  }

  // Whether the cells of a row follow each other in memory, and the rows lie whole items apart.
  bool dense_rows(Index row_step, Index step) const noexcept {
    constexpr Index item = static_cast<Index>(sizeof(C));
    return std::is_same_v<T, C> && shape_.lanes == 1 && step == item && row_step % item == 0;
  }
  static Index row_step(const Plane& plane, int row_axis) noexcept {
    return row_axis < 0 ? 0 : plane.strides[row_axis];
  }

  // Whether there is a kernel for windows straight from such rows.
  bool small_windows(const MaxPlane& plane, int row_axis) const noexcept {
    const auto dense = [&](const Plane& p) { return dense_rows(row_step(p, row_axis), p.strides[row_axis + 1]); };
    return axis_.dilation == 1 && (axis_.kernel == 2 || axis_.kernel == 3) && axis_.stride <= 2 && dense(plane.x) &&
           (payload_ == Payload::none || (payload_ == Payload::code && relative_) ||
            (payload_ == Payload::tangent && dense(plane.tangent)));
  }

  Contents fold_small(const MaxPlane& plane, int row_axis, const char* x, const char* tangent) {
    constexpr Index item = static_cast<Index>(sizeof(C));
    const WindowKernels<C, P>& kernels = kernels_.windows[axis_.stride - 1];
    const Index step = row_step(plane.x, row_axis);
    const auto* const cells = reinterpret_cast<const C*>(x + begin_ * step);
    WindowRun run{end_ - begin_, axis_.size, axis_.before, axis_.output, step / item, shape_.pitch, 0};
    const auto kernel = axis_.kernel - 2;
    if (change != nullptr) {
      run.keep = change->keep;
      run.flip = change->flip;
      run.infinity = change->infinity;
      return kernels.changed[kernel][last_](cells, made_, run);
    }
    if (payload_ == Payload::none) return kernels.plain[kernel][last_](cells, made_, run);
    const P* tangents = nullptr;
    if (payload_ == Payload::tangent) {
      const Index beside = row_step(plane.tangent, row_axis);
      tangents = reinterpret_cast<const P*>(tangent + begin_ * beside);
      run.pair_step = beside / item;
    }
    return kernels.paired[kernel][last_](cells, tangents, made_, made_pairs_, run);
  }

  // The doubling straight from such rows, through real cells only.
  Contents fold_clipped(const C* x, Index row_step) {
    const Index rows = end_ - begin_, n = axis_.size, before = axis_.before, pitch = shape_.pitch;
    const auto target = [&](int scratch, Index width) {  // the last windows leave room for those that start earlier
      return scratch_[scratch].data() + (width == clipped_.width ? before : 0);
    };
    const C* taps[kMostJoined];
    const auto join = [&](const C* from, const Index* distances, int count, C* to, Index items) {
      for (int t = 0; t < count; ++t) taps[t] = from + distances[t];
      kernels_.fold[static_cast<int>(rule_)][last_](taps, count, to, {rows, items, pitch, pitch});
    };
    static_assert(kMostJoined == 4);
    const auto sixteens = clipped_.width >= 16 ? kernels_.sixteens[last_] : nullptr;
    Index width = sixteens != nullptr ? 16 : 4;
    const auto first = sixteens != nullptr ? sixteens : kernels_.fours[last_];
    const Contents contents = first(x, target(0, width), {rows, n, row_step, pitch});
    int from = 0;
    for (; width < clipped_.width; width *= kMostJoined, from = 1 - from) {
      const Index distances[kMostJoined] = {0, width, 2 * width, 3 * width}, wider = kMostJoined * width;
      join(scratch_[from].data(), distances, kMostJoined, target(1 - from, wider), n - wider + 1);
    }
    const Index dense = (axis_.output - 1) * axis_.stride + 1, starts = dense + axis_.kernel - clipped_.width;
    kernels_.extend(scratch_[from].data(), {rows, n - clipped_.width + 1, pitch, pitch}, before, starts);
    join(scratch_[from].data(), clipped_.distances, clipped_.count, made_, dense);
    pick_rows();
    return contents;
  }

  // The windows of a row straight from the array, cut where they meet padding.
  void fold_channels(const char* x, Index stride, C* target) {
    const auto at = [](Index i) { return static_cast<std::size_t>(i); };
    const Index lanes = shape_.lanes, step = stride / static_cast<Index>(sizeof(C));
    for (Index o = 0, run = 1; o < axis_.output; o += run) {
      const Index count = spans_.count[at(o)], begin = spans_.begin[at(o)];
      run = 1;
      if (count == 0) continue;
      while (o + run < axis_.output && spans_.count[at(o + run)] == count &&
             spans_.begin[at(o + run)] == begin + run * axis_.stride)
        ++run;
      taps_.clear();
      for (Index t = 0; t < count; ++t)
        taps_.push_back(reinterpret_cast<const C*>(x + (begin + t * axis_.dilation) * stride));
      fold_exact(taps_.data(), static_cast<int>(count), target + o * lanes, {run, lanes, axis_.stride * step, lanes});
    }
  }

  // Rows lie one under the other, so a whole band is folded as if it were one row; what is computed between rows is not
  // read.
  void fold_rows(P add) {
    const Index above = (end_ - begin_ - 1) * shape_.pitch;
    if (!windows_.doubling()) {
      fold(taps_.data(), relative_ ? nullptr : pair_taps_.data(), static_cast<int>(taps_.size()), made_, made_pairs_,
           add, relative_ ? P{1} : P{}, {1, above + row_length, 0, 0});
      return;
    }
    run_doubling(windows_, [&](int from, int to, const Index* distances, int count, Index n) {
      const C* v = from == 0 ? taps_[0] : scratch_[from - 1].data();
      const P* p = payload_ == Payload::none ? nullptr : from == 0 ? pair_taps_[0] : pair_scratch_[from - 1].data();
      const C* taps[kMostJoined];
      const P* pairs[kMostJoined];
      for (int t = 0; t < count; ++t) {
        taps[t] = v + distances[t];
        pairs[t] = p == nullptr ? nullptr : p + distances[t];
      }
      fold(taps, pairs, count, to == 3 ? made_ : scratch_[to - 1].data(),
           to == 3 ? made_pairs_ : pair_scratch_[to - 1].data(), to == 3 ? add : P{}, P{},
           {1, padded_length<C>(above + n), 0, 0});
    });
    pick_rows();
  }

  void pick_rows() {
    if (axis_.stride == 1) return;
    for (Index r = 0; r < end_ - begin_; ++r) {
      pick(made_ + r * shape_.pitch, axis_.output, axis_.stride, shape_.lanes);
      if (payload_ != Payload::none)
        pick(made_pairs_ + r * shape_.pitch, axis_.output, axis_.stride, shape_.lanes);
    }
  }

  Axis axis_;
  const Kernels& kernels_;
  Payload payload_;
  int last_;
  Index rows_;
  const MaxPlan::Spans& spans_;
  RowWindows windows_;
  RowShape shape_;
  RowLoader<T, C, Kernels> loader_;
  std::unique_ptr<PairLoader> pair_loader_;
  std::vector<const C*> taps_;
  std::vector<const P*> pair_taps_;
  RowBuffer<C> values_, scratch_[2];
  RowBuffer<P> pairs_, pair_scratch_[2];
  Index row_weight_ = 0;
  MaxRule rule_ = MaxRule::clean;
  bool ready_ = false, relative_ = false;
  ClippedDoubling clipped_;
  // The rows made last, and where they went.
  Index begin_ = 0, end_ = 0;
  C* made_ = nullptr;
  P* made_pairs_ = nullptr;
};

}  // namespace halfulp
