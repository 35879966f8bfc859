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

Index MaxPlan::Spans::alike(Index o, Index end, Index stride) const noexcept {
  const auto at = [](Index i) { return static_cast<std::size_t>(i); };
  Index run = 1;
  while (o + run < end && count[at(o + run)] == count[at(o)] && begin[at(o + run)] == begin[at(o)] + run * stride)
    ++run;
  return run;
}

}  // namespace halfulp
