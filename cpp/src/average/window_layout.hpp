// How the arrays of a windowed sum lie in memory, brought to a normal form: leading loops, spatial axes from the widest
// stride to the narrowest, and lanes: a leading axis that is contiguous (channels-last), or a single lane.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/sum_plan.hpp"

namespace halfulp {

struct LeadingAxis {
  Index size, in_stride, out_stride;  // strides in elements, here and below
};

struct WindowLayout {
  std::vector<LeadingAxis> leading;
  std::vector<const SumAxis*> axes;  // at least two; the first may be a dummy of size 1
  std::vector<Index> in_strides, out_strides;
  Index lanes = 1;
  Index planes = 1;
  std::shared_ptr<const SumAxis> rows;  // the first axis where it was made of leading ones

  Index in_offset(Index plane) const noexcept { return offset(plane, &LeadingAxis::in_stride); }
  Index out_offset(Index plane) const noexcept { return offset(plane, &LeadingAxis::out_stride); }

 private:
  Index offset(Index plane, Index LeadingAxis::*stride) const noexcept {
    Index result = 0;
    for (auto axis = leading.rbegin(); axis != leading.rend(); ++axis) {
      result += plane % axis->size * ((*axis).*stride);
      plane /= axis->size;
    }
    return result;
  }
};

// Windows along one axis: the innermost leading axes become a second one, along which nothing is summed, as far as one
// stride leads through them. Many rows are then one plane.
inline void take_rows_along(WindowLayout& layout) {
  auto rows = std::make_shared<SumAxis>();
  LeadingAxis all{1, 0, 0};
  while (!layout.leading.empty()) {
    const LeadingAxis& next = layout.leading.back();
    if (all.size == 1)
      all = {next.size, next.in_stride, next.out_stride};
    else if (next.size == 1)
      static_cast<void>(next);
    else if (next.in_stride == all.size * all.in_stride && next.out_stride == all.size * all.out_stride)
      all.size *= next.size;
    else
      break;
    layout.leading.pop_back();
  }
  if (all.size <= 1) return;
  layout.planes /= all.size;
  const auto n = static_cast<std::size_t>(all.size);
  rows->sources = all.size;
  rows->first.resize(n);
  std::iota(rows->first.begin(), rows->first.end(), Index{0});
  rows->count.assign(n, 1);
  rows->divisor.assign(n, 1);
  rows->padded.assign(n, 0);
  rows->segments = {{0, 1, 1, 1, 0, 1, all.size}};
  rows->runs = {{0, all.size, 1, false}};
  layout.axes[0] = rows.get();
  layout.in_strides[0] = all.in_stride;
  layout.out_strides[0] = all.out_stride;
  layout.rows = std::move(rows);
}

// A sum does not depend on the order of its terms, so spatial axes may change places.
inline WindowLayout window_layout(const SumPlan& plan, const ArrayView& in, const ArrayView& out) {
  static const SumAxis dummy = [] {
    SumAxis axis;
    axis.segments = {{0, 0, 1, 1, 0, 1, 1}};
    axis.runs = {{0, 1, 1, false}};
    return axis;
  }();
  const int ndim = static_cast<int>(plan.axes.size());
  const int leading = in.ndim() - ndim;
  const Index item = static_cast<Index>(item_size(in.dtype));
  std::vector<int> order(static_cast<std::size_t>(ndim));
  for (int i = 0; i < ndim; ++i) order[static_cast<std::size_t>(i)] = i;
  const auto rank = [&](int i) {
    return in.shape[leading + i] == 1 ? out.strides[leading + i] : in.strides[leading + i];
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return std::abs(rank(a)) > std::abs(rank(b)); });
  WindowLayout layout;
  if (ndim == 1) {  // see take_rows_along
    layout.axes.push_back(&dummy);
    layout.in_strides.push_back(0);
    layout.out_strides.push_back(0);
  }
  for (const int i : order) {
    layout.axes.push_back(&plan.axes[static_cast<std::size_t>(i)]);
    layout.in_strides.push_back(in.strides[leading + i] / item);
    layout.out_strides.push_back(out.strides[leading + i] / item);
  }
  int lane_axis = -1;
  const bool rows_contiguous = layout.in_strides.back() == 1 && layout.out_strides.back() == 1;
  for (int i = 0; i < leading; ++i)
    if (!rows_contiguous && in.shape[i] > 1 && in.strides[i] == item && out.strides[i] == item) lane_axis = i;
  for (int i = 0; i < leading; ++i) {
    if (i == lane_axis) continue;
    layout.leading.push_back({in.shape[i], in.strides[i] / item, out.strides[i] / item});
    layout.planes *= in.shape[i];
  }
  if (lane_axis >= 0) layout.lanes = in.shape[lane_axis];
  if (ndim == 1 && rows_contiguous && layout.axes.back()->outputs() > 1) take_rows_along(layout);
  return layout;
}

// The columns [begin, end) of a row that a range of outputs reads. A row of sums has margins around them, where windows
// may begin or end: `margin` values before, `reach` in all.
struct ColumnReach {
  Index begin = 0, end = 0, margin = 0, reach = 0;
};

// The part of a segment whose outputs lie in [begin, end); false if there is none.
inline bool clip(SumSegment& g, Index begin, Index end) {
  const Index skipped = g.output >= begin ? 0 : (begin - g.output + g.output_step - 1) / g.output_step;
  g.length = std::min(g.length, g.output >= end ? 0 : (end - g.output + g.output_step - 1) / g.output_step) - skipped;
  g.first += skipped * g.first_step;
  g.output += skipped * g.output_step;
  return g.length > 0;
}

// The segments of outputs [begin, end), counted from there and from the first sum of a row.
inline ColumnReach clipped_segments(const SumAxis& axis, Index begin, Index end, std::vector<SumSegment>& segments) {
  segments.clear();
  Index from = axis.sources, to = 0;
  for (SumSegment g : axis.segments) {
    if (!clip(g, begin, end)) continue;
    const Index stop = g.first + (g.length - 1) * g.first_step + (g.count - 1) * g.step + 1;
    from = segments.empty() ? g.first : std::min(from, g.first);
    to = segments.empty() ? stop : std::max(to, stop);
    segments.push_back(g);
  }
  if (segments.empty()) return {};
  for (SumSegment& g : segments) {
    g.first -= from;
    g.output -= begin;
  }
  ColumnReach reach{std::clamp<Index>(from, 0, axis.sources), std::clamp<Index>(to, 0, axis.sources), 0, to - from};
  if (reach.begin >= reach.end) reach.begin = reach.end = 0;
  reach.margin = reach.begin - from;
  return reach;
}

}  // namespace halfulp
