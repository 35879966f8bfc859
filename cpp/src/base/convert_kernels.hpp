// Conversion of contiguous runs between the half-precision formats and float; exact one way, to nearest even the other.
#pragma once

#include <cstdint>

#include "halfulp/dtype.hpp"
#include "base/kernel_table.hpp"

namespace halfulp {

struct ConvertKernels {
  void (*from_f16)(const Float16* in, float* out, std::int64_t n);
  void (*to_f16)(const float* in, Float16* out, std::int64_t n);
  void (*from_bf16)(const BFloat16* in, float* out, std::int64_t n);
  void (*to_bf16)(const float* in, BFloat16* out, std::int64_t n);
};

HALFULP_KERNEL_TABLE(ConvertKernels, convert_kernels)

}  // namespace halfulp
