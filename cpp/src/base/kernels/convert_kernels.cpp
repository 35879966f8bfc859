// Conversion of contiguous runs between the half-precision formats and float.
#include "base/convert_kernels.hpp"

#ifdef __F16C__
#include <immintrin.h>
#endif

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
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
#endif
  for (; i < n; ++i) out[i] = to_float(in[i]);
}

void to_f16(const float* in, Float16* out, std::int64_t n) {
  std::int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; ++i) out[i] = to_float16(in[i]);
}

}  // namespace

const ConvertKernels& convert_kernels() {
  static constexpr ConvertKernels table{from_f16, to_f16, from_bf16, to_bf16};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
