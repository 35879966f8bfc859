// Lines of short windows over float32 whose sums turn out to be exact. See exact_lines.cpp.
#pragma once

#include "average/line_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// How many of the first lines were made; the others are not of a kind that it makes, or lost something.
Index sum_exact_lines(const LineTask<float>& task);

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
