// Means of the numbers among pairs of floats, as loops that vectorise as they are written.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

struct PresentKernels {
  // Index 0: the mean, 1: the sum of the numbers among rows[r][2 i] and rows[r][2 i + 1] to out[i], over 1, 2 or 4
  // rows; NaN if there is none. Returns whether the rounding of any is in doubt; then unsure[i] says of which.
  // streams: past the caches.
  bool (*pairs[2])(const float* const* rows, std::int64_t count, float* out, std::uint32_t* unsure, std::int64_t n,
                   bool streams);
};

HALFULP_KERNEL_TABLE(PresentKernels, present_kernels)

}  // namespace halfulp
