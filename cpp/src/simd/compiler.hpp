// What is asked of the compiler beyond the language, for kernels and for the engines above them.
#pragma once

#include <cstdint>

#if !defined(__GNUC__) && !defined(__clang__)
#error "the core needs the vector extensions of GCC or clang; on Windows use clang-cl"
#endif

// Loops over such functions and lambdas vectorise, and keep in registers what has no address, only if all are inlined.
#define HALFULP_IN_LINE __attribute__((always_inline))
#define HALFULP_ALWAYS_INLINE inline HALFULP_IN_LINE
// Functions that are rarely called, out of loops that need the registers.
#define HALFULP_NOINLINE __attribute__((noinline))
// Before a loop: so many steps are written out.
#define HALFULP_PRAGMA(words) _Pragma(#words)
#define HALFULP_UNROLL(steps) HALFULP_PRAGMA(GCC unroll steps)

namespace halfulp {

// Asks for memory that will be read soon; it need not exist. Of internal linkage: files that are compiled for different
// processors must not share it.
static inline void prefetch_bytes(const void* source, std::int64_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(source);
  for (std::int64_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(at + static_cast<std::uintptr_t>(i)));
}

// The same into the second cache, for what will be read later.
static inline void prefetch_bytes_for_later(const void* source, std::int64_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(source);
  for (std::int64_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(at + static_cast<std::uintptr_t>(i)), 0, 2);
}

}  // namespace halfulp
