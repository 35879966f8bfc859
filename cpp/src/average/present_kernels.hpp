// Means of the numbers among pairs of floats, as loops that vectorise as they are written.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

struct PresentKernels {
  // out[i] = the mean (or the sum) of the numbers among rows[r][2 i] and rows[r][2 i + 1], over 1, 2 or 4 rows; NaN if
  // there is none. unsure[i] = whether the rounding of out[i] is in doubt. Returns whether any is.
  bool (*pairs)(const float* const* rows, std::int64_t count, bool sum, float* out, std::uint32_t* unsure,
                std::int64_t n);
};

HALFULP_KERNEL_TABLE(PresentKernels, present_kernels)

}  // namespace halfulp
