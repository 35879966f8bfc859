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

struct SumLayout {
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
inline void take_rows_along(SumLayout& layout) {
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
  rows->runs = {{0, all.size, 1, false, false}};
  layout.axes[0] = rows.get();
  layout.in_strides[0] = all.in_stride;
  layout.out_strides[0] = all.out_stride;
  layout.rows = std::move(rows);
}

// A sum does not depend on the order of its terms, so spatial axes may change places.
inline SumLayout sum_layout(const SumPlan& plan, const ArrayView& in, const ArrayView& out) {
  static const SumAxis dummy = [] {
    SumAxis axis;
    axis.segments = {{0, 0, 1, 1, 0, 1, 1}};
    axis.runs = {{0, 1, 1, false, false}};
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
  SumLayout layout;
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

// Outputs of the first axis and of the last, and lanes: what a thread makes at once in one plane.
struct BlockRange {
  Index first_begin, first_end;
  Index last_begin, last_end;
  Index lanes;
};

inline constexpr Index kBlockLanes = Index{1} << 11;  // lanes that are summed together at most

struct CellSpan {
  Index begin, end;
};

// The sources along an axis that outputs [begin, end) need.
inline CellSpan sources_of(const SumAxis& axis, Index begin, Index end) {
  CellSpan cells{axis.sources, 0};
  for (auto o = static_cast<std::size_t>(begin); o < static_cast<std::size_t>(end); ++o) {
    if (axis.count[o] == 0) continue;
    cells.begin = std::min(cells.begin, axis.first[o]);
    cells.end = std::max(cells.end, axis.first[o] + (axis.count[o] - 1) * axis.step + 1);
  }
  return cells.begin < cells.end ? cells : CellSpan{0, 0};
}

// Offsets of the rows that share one index of the first axis.
inline std::vector<Index> slab_rows(const SumLayout& layout) {
  std::vector<Index> rows = {0};
  for (std::size_t a = layout.axes.size() - 2; a >= 1; --a) {
    std::vector<Index> wider;
    for (Index cell = 0; cell < layout.axes[a]->sources; ++cell)
      for (const Index offset : rows) wider.push_back(cell * layout.in_strides[a] + offset);
    rows = std::move(wider);
  }
  return rows;
}

// Whether adding what enters a window and subtracting what leaves is less work than a new sum.
inline bool slides_along(const SumAxis& axis) {
  if (axis.outputs() < 2) return false;
  const auto middle = static_cast<std::size_t>(axis.outputs() / 2);
  const Index moved = std::abs(axis.first[middle] - axis.first[middle - 1]) / axis.step;
  return axis.count[middle] > 2 * moved + 2;
}

}  // namespace halfulp
