// Lines of short windows two apart and of wide ones that share nothing, in the ways that are quickest where they
// apply.
#pragma once

#include "average/fast_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// float32 whose sums turn out to be exact, see exact_lines.cpp. How many of the first lines were made; the others are
// not of a kind that it makes, or lost something.
Index sum_exact_lines(const LineTask<float>& task);
// The same for magnitudes. False if lines are left: then nothing that was written is of use.
bool sum_exact_sizes(const LineTask<float>& task);
// And for cells times the signs of others, none of which is NaN.
bool sum_exact_signed(const LineTask<float>& task);

// Half precision as integers, see half_lines.cpp. False if it does not apply to these lines or to what they read; then
// nothing that was written is of use.
bool sum_half_lines(const LineTask<Float16>& task, LineContents& contents);
bool sum_half_lines(const LineTask<BFloat16>& task, LineContents& contents);

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
