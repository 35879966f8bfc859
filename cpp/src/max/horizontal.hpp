// The last axis of hard max: the windows of one row, whose cells a RowLoader has laid out.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "halfulp/max_pool.hpp"
#include "max/row_loader.hpp"

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

}  // namespace halfulp
