// Conversion of contiguous runs between the half-precision formats and float.
#include "base/convert_kernels.hpp"

#include "simd/half_blocks.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Without the early return of dtype.hpp's version, so that the loop vectorises.
inline float widen(BFloat16 x) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

inline BFloat16 narrow(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : rounded)};
}

void from_bf16(const BFloat16* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = widen(in[i]);
}

void to_bf16(const float* in, BFloat16* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = narrow(in[i]);
}

void from_f16(const Float16* in, float* out, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kHalfBlock <= n; i += kHalfBlock) widen_block(in + i, out + i);
  for (; i < n; ++i) out[i] = to_float(in[i]);
}

void to_f16(const float* in, Float16* out, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kHalfBlock <= n; i += kHalfBlock) narrow_block(in + i, out + i);
  for (; i < n; ++i) out[i] = to_float16(in[i]);
}

}  // namespace

const ConvertKernels& convert_kernels() {
  static constexpr ConvertKernels table{from_f16, to_f16, from_bf16, to_bf16};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
