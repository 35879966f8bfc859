// The way by patches, where it is worth trying.
#pragma once

#include "conv/gather_problem.hpp"

namespace halfulp::conv {

// Not for float64. False if this is no problem for patches or if they could not do it: then it is still to
// be done, and outputs may have been written.
bool run_by_patches(const GatherProblem& problem, const ConvKernels& kernels);

}  // namespace halfulp::conv
