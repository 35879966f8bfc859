// Which rows of cells the windows of a row of outputs hold, and the other way round. All axes but the last.
#pragma once

#include <algorithm>
#include <span>

#include "halfulp/geometry.hpp"
#include "halfulp/patches.hpp"

namespace halfulp {

inline Index product(std::span<const PatchAxis> axes, Index PatchAxis::*field) {
  Index n = 1;
  for (const PatchAxis& axis : axes) n *= axis.*field;
  return n;
}

// Calls f with the number of every row of cells that the windows of row number `row` of the outputs hold.
template <class F>
void for_held_rows(std::span<const PatchAxis> axes, Index row, const F& f) {
  const int last = static_cast<int>(axes.size()) - 1;
  Index start[kMaxRank], taps[kMaxRank] = {};
  for (int a = last - 1; a >= 0; --a) {
    const PatchAxis& axis = axes[static_cast<std::size_t>(a)];
    start[a] = row % axis.outputs * axis.stride - axis.before;
    row /= axis.outputs;
  }
  for (;;) {
    Index source = 0;
    bool real = true;
    for (int a = 0; a < last; ++a) {
      const PatchAxis& axis = axes[static_cast<std::size_t>(a)];
      const Index cell = start[a] + taps[a] * axis.dilation;
      real = real && cell >= 0 && cell < axis.size;
      source = source * axis.size + cell;
    }
    if (real) f(source);
    int a = last - 1;
    for (; a >= 0; --a) {
      if (++taps[a] < axes[static_cast<std::size_t>(a)].kernel) break;
      taps[a] = 0;
    }
    if (a < 0) return;
  }
}

// Calls f(offset, window) for every row of windows that holds row number `row` of the cells, and its offset in them.
template <class F>
void for_covering_rows(std::span<const PatchAxis> axes, Index row, const F& f) {
  const int last = static_cast<int>(axes.size()) - 1;
  Index cell[kMaxRank], taps[kMaxRank] = {};
  for (int a = last - 1; a >= 0; --a) {
    cell[a] = row % axes[static_cast<std::size_t>(a)].size;
    row /= axes[static_cast<std::size_t>(a)].size;
  }
  for (;;) {
    Index offset = 0, window = 0;
    bool held = true;
    for (int a = 0; a < last; ++a) {
      const PatchAxis& axis = axes[static_cast<std::size_t>(a)];
      const Index from = cell[a] + axis.before - taps[a] * axis.dilation;
      held = held && from >= 0 && from % axis.stride == 0 && from / axis.stride < axis.outputs;
      offset = offset * axis.kernel + taps[a];
      window = window * axis.outputs + from / axis.stride;
    }
    if (held) f(offset, window);
    int a = last - 1;
    for (; a >= 0; --a) {
      if (++taps[a] < axes[static_cast<std::size_t>(a)].kernel) break;
      taps[a] = 0;
    }
    if (a < 0) return;
  }
}

// The windows [first, stop) of an axis whose offset w is a real cell.
struct RealWindows {
  Index first, stop;
};
inline RealWindows real_windows(const PatchAxis& axis, Index w) {
  const Index shift = axis.before - w * axis.dilation;  // cell = o * stride - shift
  const Index first = shift <= 0 ? 0 : (shift + axis.stride - 1) / axis.stride;
  const Index last = axis.size - 1 + shift;
  const Index stop = last < 0 ? 0 : std::min(axis.outputs, last / axis.stride + 1);
  return {std::min(first, stop), stop};
}

}  // namespace halfulp
