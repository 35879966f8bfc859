#include <algorithm>

#include "halfulp/max_pool.hpp"

namespace halfulp {

MaxPlan::MaxPlan(std::string name, std::vector<Axis> window_axes, Ties ties_policy, NanPolicy nan_policy,
                 Cells compared)
    : operator_name(std::move(name)),
      axes(std::move(window_axes)),
      ties(ties_policy),
      nan(nan_policy),
      cells(compared) {
  bool no_windows = false;
  spans.resize(axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const Axis& axis = axes[a];
    Spans& s = spans[a];
    for (Index o = 0; o < axis.output; ++o) {
      const Index first = axis.first_real(o), stop = axis.stop_real(o);
      s.begin.push_back(axis.start(o) + first * axis.dilation);
      s.count.push_back(stop - first);
      s.offset.push_back(first);
      any_empty = any_empty || stop == first;
      any_padding = any_padding || (!axis.adaptive && stop - first != axis.kernel);
    }
    no_windows = no_windows || axis.output == 0;
    plane_cells *= axis.size;
    plane_outputs *= axis.output;
    // Saturates: more than 2^62 cells do not need a precise count.
    window_cells = window_cells > (Index{1} << 62) / axis.kernel ? Index{1} << 62 : window_cells * axis.kernel;
  }
  any_empty = any_empty && !no_windows;
}

Index MaxPlan::alike(int axis, Index o, Index end) const noexcept {
  const Spans& s = spans[static_cast<std::size_t>(axis)];
  const auto first = static_cast<std::size_t>(o);
  const Index stride = axes[static_cast<std::size_t>(axis)].stride;
  Index run = 1;
  for (std::size_t i = first + 1; i < static_cast<std::size_t>(end); ++i, ++run)
    if (s.count[i] != s.count[first] || s.begin[i] != s.begin[first] + run * stride) break;
  return run;
}

}  // namespace halfulp
