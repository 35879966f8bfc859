// The last axis of hard max: the windows of one row, whose cells a RowLoader has laid out.
#pragma once

#include <bit>
#include <vector>

#include "row_buffer.hpp"

namespace halfulp {

// How the windows of a row are found. Direct: every output from all its taps. Doubling: windows of 2, 4, 8, ... cells from
// pairs of half their size, so that the cost hardly grows with the kernel; the last step overlaps, which a maximum allows.
class RowWindows {
 public:
  RowWindows(const Axis& axis, Index lanes) : axis_(axis), lanes_(lanes) {
    const Index steps = std::bit_width(static_cast<std::uint64_t>(axis.kernel)) + 1;
    doubling_ = axis.kernel > 8 && axis.kernel > 2 * axis.stride * steps;
    ways_ = doubling_ ? 1 : axis.stride;
    // Doubling computes a window at every place, then picks every stride-th.
    dense_ = doubling_ ? (axis.output - 1) * axis.stride + 1 : axis.output;
  }

  template <class C>
  RowShape shape() const {
    const Index places = std::max(axis_.before + axis_.size, (axis_.output - 1) * axis_.stride + axis_.extent());
    return {axis_.size, axis_.before, ways_, lanes_, padded_length<C>((places / ways_ + 2) * lanes_ + 3 * kRowSlack)};
  }

  bool doubling() const noexcept { return doubling_; }
  Index dense() const noexcept { return dense_; }
  const Axis& axis() const noexcept { return axis_; }
  Index lanes() const noexcept { return lanes_; }

  // The taps of output 0, in order: (target, place).
  template <class Loader, class C>
  void taps(const Loader& loader, std::vector<const C*>& taps) const {
    taps.clear();
    for (Index k = 0; k < axis_.kernel; ++k)
      taps.push_back(loader.at(k * axis_.dilation % ways_, k * axis_.dilation / ways_));
  }

 private:
  Axis axis_;
  Index lanes_;
  bool doubling_;
  Index ways_;
  Index dense_;
};

// Runs the doubling: step(from, to, distance, n) makes `to` from `from` and itself `distance` items further, from being 0
// for the loaded row, 1 and 2 for two scratch rows. Returns the scratch row that has the result.
template <class Step>
int run_doubling(const RowWindows& windows, Step&& step) {
  const Index k = windows.axis().kernel, unit = windows.axis().dilation * windows.lanes();
  const Index out = windows.dense() * windows.lanes();
  int from = 0;
  Index width = 1;
  while (2 * width <= k) {
    const int to = from == 1 ? 2 : 1;
    // What remains to be covered to the right of the outputs after this step.
    step(from, to, width * unit, out + (k - 2 * width) * unit);
    from = to;
    width *= 2;
  }
  if (width < k) {
    const int to = from == 1 ? 2 : 1;
    step(from, to, (k - width) * unit, out);
    from = to;
  }
  return from;
}

// Every stride-th place of a dense row.
template <class C>
void pick(const C* dense, C* out, Index outputs, Index stride, Index lanes) {
  for (Index o = 0; o < outputs; ++o)
    for (Index lane = 0; lane < lanes; ++lane) out[o * lanes + lane] = dense[o * stride * lanes + lane];
}

}  // namespace halfulp
