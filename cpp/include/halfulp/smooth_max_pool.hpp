// Smooth max pooling and both its derivatives: correctly rounded where the error bounds decide; the rest is reported.
#pragma once

#include <utility>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/sum_plan.hpp"

namespace halfulp {

struct SmoothBeta {
  double high, low;  // |beta|, the sum of two doubles
  bool negative;
};

struct SmoothPlan {
  std::vector<Axis> axes;
  std::vector<SumAxis> windows;  // cells and counts per axis, padding counted
  SmoothBeta beta;
};

SmoothPlan smooth_plan(std::vector<Axis> axes, SmoothBeta beta);

// Each writes all outputs and returns the row-major positions of those that it could not decide; the JVP for values and
// tangents.
std::vector<Index> smooth_forward(const SmoothPlan& plan, const ArrayView& x, const ArrayView& out);
std::pair<std::vector<Index>, std::vector<Index>> smooth_jvp(const SmoothPlan& plan, const ArrayView& x,
                                                             const ArrayView& tangent, const ArrayView& out,
                                                             const ArrayView& out_tangent);
std::vector<Index> smooth_vjp(const SmoothPlan& plan, const ArrayView& x, const ArrayView& cotangent,
                              const ArrayView& dx);

}  // namespace halfulp
