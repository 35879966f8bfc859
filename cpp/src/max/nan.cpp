#include "max/nan.hpp"

#include <algorithm>

#include "max/walk.hpp"

namespace halfulp {
namespace {

template <class T>
void make_rows_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
  const int last = plan.ndim() - 1;
  const Index positions = last == 0 ? end - begin : plan.axes.back().output, step = plane.out.strides[last];
  const bool run = step == plane.lanes * static_cast<Index>(sizeof(T));
  Index output[kMaxRank] = {};
  output[0] = begin;
  for (bool more = begin < end && positions > 0; more;) {
    char* const row = plane.out.data + walk::position(output, plane.out.strides, last + 1);
    if (run) make_nans_quiet(reinterpret_cast<T*>(row), positions * plane.lanes);
    else
      for (Index o = 0; o < positions; ++o) make_nans_quiet(reinterpret_cast<T*>(row + o * step), plane.lanes);
    more = false;
    for (int a = last - 1; a >= 0 && !more; --a) {
      more = ++output[a] < (a == 0 ? end : plan.axes[static_cast<std::size_t>(a)].output);
      if (!more) output[a] = 0;
    }
  }
}

}  // namespace

void make_plane_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
  if (!is_float(plane.dtype)) return;
  for (const Axis& axis : plan.axes)
    if (axis.output == 0) return;
  visit_float(plane.dtype, [&](auto tag) { make_rows_quiet<decltype(tag)>(plan, plane, begin, end); });
}

}  // namespace halfulp
