#include "halfulp/avg_pool.hpp"

#include <utility>

namespace halfulp {

AveragePlan average_of(std::vector<Axis> axes, bool count_include_pad, Index divisor) {
  AveragePlan plan;
  plan.forward = average_plan(axes, count_include_pad, divisor);
  plan.transpose = average_transpose_plan(axes, count_include_pad, divisor);
  plan.axes = std::move(axes);
  return plan;
}

}  // namespace halfulp
