// Copies that leave the caches to others, for results that no cache can hold: nothing is read before it is overwritten,
// and nothing that is still needed is driven out.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

// Arrays from this many bytes on are not expected in a cache when they are read next.
inline constexpr std::int64_t kStreamBytes = std::int64_t{1} << 25;

struct StreamKernels {
  void (*copy)(const char* source, char* target, std::int64_t bytes);
  // What must follow before another thread is told that the data is there.
  void (*finish)();
};

HALFULP_KERNEL_TABLE(StreamKernels, stream_kernels)

}  // namespace halfulp
