// What is asked of the compiler beyond the language, for kernels and for the engines above them.
#pragma once

#include <cstdint>

#if !defined(__GNUC__) && !defined(__clang__)
#error "the core needs the vector extensions of GCC or clang; on Windows use clang-cl"
#endif

// Loops over such functions vectorise only if all of them are inlined.
#define HALFULP_ALWAYS_INLINE inline __attribute__((always_inline))

namespace halfulp {

// Asks for memory that will be read soon; it need not exist. Of internal linkage: files that are compiled for different
// processors must not share it.
static inline void prefetch_bytes(const char* source, std::int64_t bytes) noexcept {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(source + i);
}

}  // namespace halfulp
