// Correctly rounded averages over windows, any number of axes, any layout: the engine of the average family.
#pragma once

#include "halfulp/array.hpp"
#include "halfulp/sum_plan.hpp"

namespace halfulp {

// out = for every leading index and output, the sum over the plan's sources of `in`, divided and rounded once. The last
// plan.axes.size() axes of both are spatial; the leading shapes are equal. Floating-point types only; no aliasing.
void sum_windows(const SumPlan& plan, const ArrayView& in, const ArrayView& out);

// The same of the magnitudes of `in`, which is C-ordered. They stand in scratch that stays in the second cache.
void sum_magnitudes(const SumPlan& plan, const ArrayView& in, const ArrayView& out);

}  // namespace halfulp
