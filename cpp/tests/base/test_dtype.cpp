// Every half-precision number survives the way through float, and rounding is to nearest even.
#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"
#include "base/convert_kernels.hpp"
#include "halfulp/dtype.hpp"

using namespace halfulp;

namespace {

// Every instruction set converts as the scalar functions do.
void check_runs() {
  std::vector<Float16> half(0x10000);
  std::vector<BFloat16> brain(0x10000);
  std::vector<float> wide(0x10000);
  for (std::uint32_t i = 0; i < 0x10000u; ++i) half[i].bits = brain[i].bits = static_cast<std::uint16_t>(i);
  for (const Isa isa : available_isas()) {
    CHECK(set_isa(name_of(isa)));
    const ConvertKernels& kernels = select_convert_kernels();
    kernels.from_f16(half.data(), wide.data(), 0x10000);
    std::vector<Float16> half_back(0x10000);
    kernels.to_f16(wide.data(), half_back.data(), 0x10000);
    for (std::uint32_t i = 0; i < 0x10000u; ++i) {
      CHECK(std::isnan(wide[i]) ? std::isnan(to_float(half_back[i])) : half_back[i].bits == i);
      CHECK(std::isnan(wide[i]) ||
            std::bit_cast<std::uint32_t>(wide[i]) == std::bit_cast<std::uint32_t>(to_float(half[i])));
    }
    kernels.from_bf16(brain.data(), wide.data(), 0x10000);
    std::vector<BFloat16> brain_back(0x10000);
    kernels.to_bf16(wide.data(), brain_back.data(), 0x10000);
    for (std::uint32_t i = 0; i < 0x10000u; ++i)
      CHECK(std::isnan(wide[i]) ? std::isnan(to_float(brain_back[i])) : brain_back[i].bits == i);
  }
}

}  // namespace

int main() {
  check_runs();
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float from16 = to_float(Float16{half}), frombf = to_float(BFloat16{half});
    if (!std::isnan(from16)) CHECK(to_float16(from16).bits == half);
    else CHECK(std::isnan(to_float(to_float16(from16))));
    if (!std::isnan(frombf)) CHECK(to_bfloat16(frombf).bits == half);
    else CHECK(std::isnan(to_float(to_bfloat16(frombf))));
  }
  for (std::uint32_t bits = 0; bits < 0x7bffu;
       ++bits) {  // a midpoint goes to the even neighbour, a nudge to the near one
    const float low = to_float(Float16{static_cast<std::uint16_t>(bits)});
    const float high = to_float(Float16{static_cast<std::uint16_t>(bits + 1)});
    const float middle = (low + high) / 2;
    CHECK(to_float16(middle).bits == ((bits & 1u) ? bits + 1 : bits));
    CHECK(to_float16(std::nextafter(middle, 1e9f)).bits == bits + 1);
    CHECK(to_float16(std::nextafter(middle, 0.0f)).bits == bits);
  }
  CHECK(to_float16(65519.996f).bits == 0x7bff);
  CHECK(to_float16(65520.0f).bits == 0x7c00);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  return tests::failures() == 0 ? 0 : 1;
}
