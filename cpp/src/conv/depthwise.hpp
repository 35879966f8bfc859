// Depthwise products of floats: one source channel for each group.
#pragma once

#include <vector>

#include "conv/gather_problem.hpp"

namespace halfulp::conv {

// Computes the problems, the phases of one product: each has its own rows or columns of the same output planes. False
// if they are not depthwise, or not of a shape that the kernels know; then nothing has been written.
bool run_depthwise(const std::vector<GatherProblem>& problems);

}  // namespace halfulp::conv
