// The axes of an array with their windows, in the order of memory, and the cells of every window.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/geometry.hpp"

namespace halfulp {

// The windows along one axis: output o has `count[o]` cells from `first[o]` on, `step` apart, and the factor
// `counted[o]` of the number of cells that an average counts.
struct AxisWindows {
  Index size = 1, outputs = 1, step = 1;
  Index in_stride = 0, out_stride = 0;  // bytes
  bool plain = true;                    // every output is the one cell of its position
  std::vector<Index> first, count, counted;

  Index first_of(Index o) const { return plain ? o : first[static_cast<std::size_t>(o)]; }
  Index count_of(Index o) const { return plain ? 1 : count[static_cast<std::size_t>(o)]; }
  Index counted_of(Index o) const { return plain ? 1 : counted[static_cast<std::size_t>(o)]; }
  Index most() const { return plain ? 1 : *std::max_element(count.begin(), count.end()); }
  Index widest() const { return plain ? 1 : *std::max_element(counted.begin(), counted.end()); }
};

inline bool is_plain(const Axis& axis) {
  return !axis.adaptive && axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.output == axis.size;
}

inline AxisWindows windows_of(const Axis& axis, bool count_include_pad) {
  AxisWindows line;
  line.size = axis.size;
  line.outputs = axis.output;
  line.step = axis.dilation;
  line.plain = is_plain(axis);
  if (line.plain) return line;
  for (Index o = 0; o < axis.output; ++o) {
    const Index first = axis.first_real(o), stop = axis.stop_real(o);
    line.first.push_back(axis.start(o) + first * axis.dilation);
    line.count.push_back(stop - first);
    line.counted.push_back(count_include_pad ? std::max(axis.counted(o), stop - first) : stop - first);
  }
  return line;
}

// The axes of `in` and `out`, one by one in their own order.
inline std::vector<AxisWindows> windows_in_order(std::span<const Axis> axes, bool count_include_pad,
                                                 const ArrayView& in, const ArrayView& out) {
  const int leading = in.ndim() - static_cast<int>(axes.size());
  std::vector<AxisWindows> lines;
  for (int i = 0; i < in.ndim(); ++i) {
    AxisWindows line;
    if (i < leading) line.size = line.outputs = in.shape[i];
    else line = windows_of(axes[static_cast<std::size_t>(i - leading)], count_include_pad);
    line.in_stride = in.strides[i];
    line.out_stride = out.strides[i];
    lines.push_back(std::move(line));
  }
  return lines;
}

// The same with the last one apart: the cells of a window come in row-major order.
struct Rows {
  std::vector<AxisWindows> outer;
  AxisWindows row;
};

inline Rows rows_of(std::span<const Axis> axes, bool count_include_pad, const ArrayView& in, const ArrayView& out) {
  Rows rows{windows_in_order(axes, count_include_pad, in, out), {}};
  rows.row = std::move(rows.outer.back());
  rows.outer.pop_back();
  return rows;
}

// The axes of `in` and `out`, from the widest stride of the input to the narrowest. Neighbours without a
// window that lie one after the other in both arrays are merged.
inline std::vector<AxisWindows> merged_windows(std::span<const Axis> axes, bool count_include_pad,
                                               const ArrayView& in, const ArrayView& out) {
  std::vector<AxisWindows> lines = windows_in_order(axes, count_include_pad, in, out);
  std::erase_if(lines, [](const AxisWindows& line) { return line.plain && line.size == 1; });
  std::stable_sort(lines.begin(), lines.end(), [](const AxisWindows& a, const AxisWindows& b) {
    return std::llabs(a.in_stride) > std::llabs(b.in_stride);
  });
  std::vector<AxisWindows> merged;
  for (AxisWindows& line : lines) {
    AxisWindows* before = merged.empty() ? nullptr : &merged.back();
    if (before != nullptr && before->plain && line.plain && before->in_stride == line.size * line.in_stride &&
        before->out_stride == line.size * line.out_stride) {
      before->size *= line.size;
      before->outputs = before->size;
      before->in_stride = line.in_stride;
      before->out_stride = line.out_stride;
    } else {
      merged.push_back(std::move(line));
    }
  }
  return merged;
}

// The bytes from an output of the outer axes to the cells of its window, and the number that they count for.
struct OuterWindow {
  std::vector<Index> rows;  // byte offsets in the input
  Index out_offset = 0;
  Index counted = 1;
};

inline void outer_window(std::span<const AxisWindows> lines, Index flat, OuterWindow& window) {
  window.rows.assign(1, 0);
  window.out_offset = 0;
  window.counted = 1;
  Index position[kMaxRank];
  for (std::size_t i = lines.size(); i-- > 0;) {
    position[i] = flat % lines[i].outputs;
    flat /= lines[i].outputs;
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const AxisWindows& line = lines[i];
    const Index first = line.first_of(position[i]), count = line.count_of(position[i]);
    window.out_offset += position[i] * line.out_stride;
    window.counted *= line.counted_of(position[i]);
    const std::size_t known = window.rows.size();
    if (count == 0) {
      window.rows.clear();
    } else if (known != 0) {
      // Row-major: for every row so far, all cells of this line.
      std::vector<Index>& rows = window.rows;
      rows.resize(known * static_cast<std::size_t>(count));
      for (std::size_t r = known; r-- > 0;) {
        const Index base = rows[r];
        for (Index t = count; t-- > 0;)
          rows[r * static_cast<std::size_t>(count) + static_cast<std::size_t>(t)] =
              base + (first + t * line.step) * line.in_stride;
      }
    }
  }
}

}  // namespace halfulp
