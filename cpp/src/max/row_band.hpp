// The last axis of hard max: how the windows of a row are found, bands of finished rows, and their way into the arrays
// of the caller.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

#include "max/plane.hpp"
#include "max/row_loader.hpp"
#include "max/vertical.hpp"

namespace halfulp {

// How the windows of a row are found. Direct: every output from all its taps. Doubling: windows of 4, 16, ... cells
// from smaller ones, so that the cost hardly grows with the kernel; the last step overlaps, which a maximum allows.
// Doubling computes a window at every position, then picks every stride-th.
class RowWindows {
 public:
  RowWindows(const Axis& axis, Index lanes) : axis_(axis), lanes_(lanes) {
    const Index steps = std::bit_width(static_cast<std::uint64_t>(axis.kernel)) + 1;
    doubling_ = axis.kernel > 8 && axis.kernel > 2 * axis.stride * steps;
    phases_ = doubling_ ? 1 : axis.stride;
  }

  RowShape shape(Index rows, Index item) const {
    const Index positions = std::max(axis_.before + axis_.size, (axis_.output - 1) * axis_.stride + axis_.extent());
    const Index per_phase = (positions + phases_ - 1) / phases_;
    return {axis_.size, axis_.before, phases_, lanes_, padded_items(per_phase * lanes_, item), rows};
  }

  bool doubling() const noexcept { return doubling_; }
  Index phases() const noexcept { return phases_; }
  const Axis& axis() const noexcept { return axis_; }
  Index lanes() const noexcept { return lanes_; }

  // The taps of output 0, in order.
  void taps(const RowLoader& loader, std::vector<const void*>& taps) const {
    taps.clear();
    for (Index k = 0; k < axis_.kernel; ++k)
      taps.push_back(loader.at(k * axis_.dilation % phases_, k * axis_.dilation / phases_));
  }

 private:
  Axis axis_;
  Index lanes_;
  bool doubling_;
  Index phases_;
};

inline constexpr int kMostJoined = 4;

// Runs the doubling, up to four windows joined in a step: step(from, to, distances, count, n) makes n items per row of
// `to` from what stands at these distances in `from`. 0 is the loaded rows, 1 and 2 are scratch rows; the last `to` is
// 3, the result. For more than one cell.
template <class Step>
void run_doubling(const RowWindows& windows, Step&& step) {
  const Index k = windows.axis().kernel, unit = windows.axis().dilation * windows.lanes();
  const Index dense = ((windows.axis().output - 1) * windows.axis().stride + 1) * windows.lanes();
  int from = 0;
  Index width = 1;
  while (width < k) {
    const Index wider = std::min(kMostJoined * width, k);
    const int to = wider == k ? 3 : from == 1 ? 2 : 1;
    Index distances[kMostJoined];
    int count = 0;
    // Side by side; the last one may overlap the one before.
    for (Index covered = 0; covered < wider; covered += width)
      distances[count++] = std::min(covered, wider - width) * unit;
    step(from, to, static_cast<const Index*>(distances), count, dense + (k - wider) * unit);
    from = to;
    width = wider;
  }
}

// Doubling through real cells only. If all windows hold at least `width` of them, the windows of that width that start
// in the row make up every one: one that would start before the row is the first of them, one that would end beyond it
// the last. Zero if that does not hold.
struct ClippedDoubling {
  ClippedDoubling() = default;
  ClippedDoubling(const Axis& axis, const MaxPlan::Spans& spans) {
    if (axis.dilation != 1) return;
    Index inner = kMostJoined;
    while (inner * kMostJoined < axis.kernel) inner *= kMostJoined;
    for (Index o = 0; o < axis.output; ++o)
      if (spans.count[static_cast<std::size_t>(o)] < inner) return;
    width = inner;
    for (Index covered = 0; covered < axis.kernel; covered += width)
      distances[count++] = std::min(covered, axis.kernel - width);
  }

  Index width = 0;
  Index distances[kMostJoined] = {};
  int count = 0;
};

// Every stride-th position of dense rows, in place; a position holds so many bytes.
inline void pick(char* row, Index outputs, Index stride, Index bytes) {
  for (Index o = 1; o < outputs; ++o)
    std::memmove(row + o * bytes, row + o * stride * bytes, static_cast<std::size_t>(bytes));
}

enum class Payload { none, tangent, index, code };

// An integer payload is linear in the coordinates of the cell, so that no division is needed to read it: the flat
// index, or the cell's code in the window times the common multiple of the dilations, up to the window's own position.
// A code is `relative`, made of the numbers of the taps on the way, where every axis takes its windows tap by tap.
struct Coordinates {
  Coordinates(const MaxPlan& plan, Payload payload);

  std::vector<Index> weights;  // one per axis
  Index multiple = 1;
  Index largest = 0;
  bool relative = false;
};

// Finished rows, many at a time: loading and folding a band of rows in single calls costs less than row by row, and no
// load waits for a store just made.
class RowBand {
 public:
  // Whether positions of this many lanes are folded where they lie in the array: values only, and a lane is as good as
  // a row. The rule must then hold for whatever comes, since nobody looks first.
  static bool reads_channels_last(const MaxPlan& plan, const CellType& type, Payload payload, Index lanes) noexcept;

  RowBand(const MaxPlan& plan, const CellType& type, Payload payload, Index lanes, Index rows);

  // Whether there is a kernel for windows straight from the array's rows.
  bool small_windows(const MaxPlane& plane, int row_axis) const noexcept;

  // The rule for values that come; padding then loses against every cell.
  void set_rule(MaxRule rule);

  // Fills the band with the windows of rows [first, stop) of a plane, and tells what they held. Row 0 of the array is
  // at x and tangent; `base` is what the coordinates before this axis contribute to an integer payload of row 0.
  Contents fill(const MaxPlane& plane, int row_axis, const char* x, const char* tangent, Index base, Index first,
                Index stop) {
    return make(plane, row_axis, x, tangent, base, first, stop, values_.data(), pairs_.data());
  }
  // The same to another position, whose rows lie `pitch` items apart.
  Contents make(const MaxPlane& plane, int row_axis, const char* x, const char* tangent, Index base, Index first,
                Index stop, char* values, char* pairs);

  bool holds(Index row) const noexcept { return row >= begin_ && row < end_; }
  void forget() noexcept { begin_ = end_ = 0; }
  Index capacity() const noexcept { return rows_; }
  Index pitch() const noexcept { return shape_.pitch; }
  const char* value(Index row) const noexcept { return values_.at((row - begin_) * shape_.pitch); }
  const char* pair(Index row) const noexcept {
    return payload_ == Payload::none ? nullptr : pairs_.at((row - begin_) * shape_.pitch);
  }

  // The winners of taps under the rule and the order of ties; `add` and `step` as in MaxPairKernels.
  void fold(const void* const* values, int count, void* value, const RowRun& rows);
  void fold(const void* const* values, const void* const* pairs, int count, void* value, void* pair, Index add,
            Index step, const RowRun& rows);
  void fold_pair_exact(const void* const* values, const void* const* pairs, int count, void* value, void* pair,
                       Index add, Index step, const RowRun& rows);
  // As in MaxRowKernels.
  void suffixes(void* rows, RowRun run) const {
    run.flip = type_.flip;
    kernels_.suffixes[static_cast<int>(rule_)][last_](rows, run);
  }
  void slide(const void* suffixes, const void* rows, void* out, SlideRun run) const {
    run.flip = type_.flip;
    kernels_.slide[static_cast<int>(rule_)][last_](suffixes, rows, out, run);
  }
  MaxRule rule() const noexcept { return rule_; }

  Index row_length = 0;   // items of a finished row, rounded up to vectors
  bool in_place = false;  // reads_channels_last
  const CellBits* change = nullptr;  // of the cells, by the small windows that change them

 private:
  void prepare_pairs(const Coordinates& coordinates, Index items);
  bool dense_rows(Index row_step, Index step) const noexcept {
    return !type_.converts() && shape_.lanes == 1 && step == type_.item && row_step % type_.item == 0;
  }
  Contents fold_small(const MaxPlane& plane, int row_axis, const char* x, const char* tangent);
  Contents fold_clipped(const char* x, Index row_step);
  void fold_channels(const char* x, Index stride, char* target);
  void fold_rows(Index add);
  void pick_rows();
  void fold_pairs(const MaxPairKernels::Fold* kernels, const void* const* values, const void* const* pairs, int count,
                  void* value, void* pair, Index add, Index step, const RowRun& rows);
  const void* const* in_order(const void* const* taps, int count, std::vector<const void*>& reversed) const;

  Axis axis_;
  CellType type_;
  const MaxRowKernels& kernels_;
  const MaxRowKernels* window_kernels_ = nullptr;    // of vectors that a row fills
  const MaxPairKernels* pair_kernels_ = nullptr;     // null without payload
  const MaxPairKernels* pair_windows_ = nullptr;
  Payload payload_;
  int last_;  // whether the last of equal cells wins
  Index rows_;
  const MaxPlan::Spans& spans_;
  RowWindows windows_;
  RowShape shape_;
  RowLoader loader_;
  std::unique_ptr<RowLoader> pair_loader_;
  std::vector<const void*> taps_, pair_taps_, reversed_, reversed_pairs_;
  ItemBuffer values_, scratch_[2], pairs_, pair_scratch_[2];
  Index row_weight_ = 0;
  MaxRule rule_ = MaxRule::clean;
  bool ready_ = false, relative_ = false;
  ClippedDoubling clipped_;
  // The rows made last, and where they went.
  Index begin_ = 0, end_ = 0;
  char* made_ = nullptr;
  char* made_pairs_ = nullptr;
};

// Writes finished rows: values and their payloads.
class RowEmitter {
 public:
  RowEmitter(const MaxPlan& plan, const CellType& type, const Coordinates& coordinates, Payload payload, Index lanes,
             Index row_length);

  void set_plane(const MaxPlane& plane) noexcept { plane_ = &plane; }

  // Writes the rows of one slice; `real` says whether the axes before a have cells.
  void slice(Index* output, int a, const char* value, const char* pair, bool real, const std::vector<Index>& lengths);
  void row(const Index* output, const char* value, const char* pair, bool real);

 private:
  template <class P>
  void write_payload(const Index* output, const P* pair);
  template <class I, class P>
  void write_integers(char* target, Index stride, const P* pair, Index start, bool placed);
  void clear_empty(const Index* output, bool real);

  const MaxPlan& plan_;
  CellType type_;
  const Coordinates& coordinates_;
  Payload payload_;
  Index lanes_;
  int last_;
  Index row_length_;
  std::vector<std::int64_t> starts_;
  std::vector<std::byte> integers_;
  const MaxPlane* plane_ = nullptr;
};

}  // namespace halfulp
