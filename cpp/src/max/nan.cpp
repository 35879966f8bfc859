#include "max/nan.hpp"

#include <algorithm>

#include "max/walk.hpp"

namespace halfulp {
namespace {

template <class T>
void make_rows_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
  const int last = plan.ndim() - 1;
  const Index step = plane.out.strides[last];
  const auto make_row_quiet = [&](char* row, Index positions) {
    if (step == plane.lanes * static_cast<Index>(sizeof(T)))
      return make_nans_quiet(reinterpret_cast<T*>(row), positions * plane.lanes);
    for (Index o = 0; o < positions; ++o) make_nans_quiet(reinterpret_cast<T*>(row + o * step), plane.lanes);
  };
  if (last == 0) return make_row_quiet(plane.out.data + begin * step, end - begin);
  walk::outer_outputs(plan, last, begin, end, [&](const Index* output) {
    make_row_quiet(plane.out.data + walk::position(output, plane.out.strides, last), plan.axes.back().output);
    return true;
  });
}

}  // namespace

void make_plane_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
  if (!is_float(plane.dtype)) return;
  for (const Axis& axis : plan.axes)
    if (axis.output == 0) return;
  visit_float(plane.dtype, [&](auto tag) { make_rows_quiet<decltype(tag)>(plan, plane, begin, end); });
}

}  // namespace halfulp
