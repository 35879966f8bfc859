// Vectors that stay in registers, memory that will be written soon. For kernels only.
#pragma once

#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {

// The same vector, in a register: else the compiler may load it again wherever it is used.
template <class V>
__attribute__((always_inline)) inline V in_register(V v) {
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 64) asm("" : "+v"(v));
  else asm("" : "+x"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

// Asks for memory that will be written soon; it need not exist.
inline void prefetch_to_write(const void* address) { __builtin_prefetch(address, 1); }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
