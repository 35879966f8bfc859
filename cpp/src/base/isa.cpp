#include "halfulp/isa.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(HALFULP_X86_DISPATCH) && defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#elif defined(HALFULP_X86_DISPATCH)
#include <cpuid.h>
#endif

namespace halfulp {
namespace {

#ifdef HALFULP_X86_DISPATCH
#if defined(_MSC_VER)
// Without __builtin_cpu_supports, which needs a library of the compiler that Windows does not link.
__attribute__((target("xsave"))) Isa detect() noexcept {
  int leaf1[4], leaf7[4];
  __cpuid(leaf1, 1);
  const bool os_saves = (leaf1[2] >> 27) & 1, fma = (leaf1[2] >> 12) & 1, f16c = (leaf1[2] >> 29) & 1;
  if (!os_saves || !fma || !f16c) return Isa::baseline;
  const auto saved = _xgetbv(0);
  __cpuidex(leaf7, 7, 0);
  const bool avx2 = (leaf7[1] >> 5) & 1, bmi = ((leaf7[1] >> 3) & 1) && ((leaf7[1] >> 8) & 1);
  if ((saved & 0x6) != 0x6 || !avx2 || !bmi) return Isa::baseline;
  const unsigned wanted = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);  // F, DQ, BW, VL
  return (saved & 0xe6) == 0xe6 && (static_cast<unsigned>(leaf7[1]) & wanted) == wanted ? Isa::avx512 : Isa::avx2;
}
#else
// clang knows no such name in __builtin_cpu_supports.
bool has_f16c() noexcept {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && ((c >> 29) & 1) != 0;
}

Isa detect() noexcept {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c() ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
    return Isa::baseline;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
             ? Isa::avx512
             : Isa::avx2;
}
#endif
#else
Isa detect() noexcept { return Isa::baseline; }
#endif

#if defined(__aarch64__) || defined(_M_ARM64)
constexpr std::string_view kBaselineName = "neon";  // which every aarch64 processor has
#else
constexpr std::string_view kBaselineName = "baseline";
#endif

const Isa best = detect();
std::atomic<Isa> current{best};

}  // namespace

Isa current_isa() noexcept { return current.load(std::memory_order_relaxed); }

std::vector<Isa> available_isas() {
  std::vector<Isa> all{Isa::baseline};
  if (best >= Isa::avx2) all.push_back(Isa::avx2);
  if (best >= Isa::avx512) all.push_back(Isa::avx512);
  return all;
}

std::string_view name_of(Isa isa) noexcept {
  switch (isa) {
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    default: return kBaselineName;
  }
}

bool set_isa(std::string_view name) noexcept {
  if (name == "baseline") name = kBaselineName;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (name_of(isa) != name || isa > best) continue;
    current.store(isa, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void set_isa_from_environment() {
  const char* const name = std::getenv("HALFULP_ISA");
  if (name == nullptr || *name == '\0' || set_isa(name)) return;
  std::string available;
  for (const Isa isa : available_isas()) (available += available.empty() ? "" : ", ") += name_of(isa);
  bool known = false;
  for (const std::string_view one : {"baseline", "avx2", "avx512", "neon"}) known = known || one == name;
  throw std::runtime_error("HALFULP_ISA=" + std::string(name) + ": " +
                           (known ? "this machine does not have this instruction set"
                                  : "must be baseline, avx2, avx512 or neon") +
                           "; available here: " + available);
}

}  // namespace halfulp
