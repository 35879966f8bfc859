// Lines of short windows over half-precision numbers, summed as integers. See half_lines.cpp.
#pragma once

#include "average/line_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// False if it does not apply to these lines or to what they read; then nothing that was written is of use.
bool sum_half_lines(const LineTask<Float16>& task, LineContents& contents);
bool sum_half_lines(const LineTask<BFloat16>& task, LineContents& contents);

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
