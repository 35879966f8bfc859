// The average family: sliding, adaptive and global windows differ only in their axes.
#pragma once

#include <optional>
#include <span>

#include "halfulp/sum_plan.hpp"
#include "halfulp/window_sums.hpp"

namespace halfulp {

struct AveragePlan {
  std::vector<Axis> axes;
  SumPlan forward;
  std::optional<SumPlan> transpose;  // none: the common denominator of the windows' divisors is too large
};

// `divisor` is divisor_override, or 0 for none.
AveragePlan average_of(std::vector<Axis> axes, bool count_include_pad, Index divisor);

}  // namespace halfulp
