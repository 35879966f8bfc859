// Memory for large outputs that is used again. A fresh large block costs a page fault and the clearing of every page,
// which takes longer than pooling into it; a block that an earlier output has given back costs nothing.
#pragma once

#include <cstddef>

namespace halfulp::memory_pool {

// Blocks below this size are not worth it: they come from the system and return to it.
inline constexpr std::size_t kSmallest = std::size_t{1} << 18;

// At least `bytes` bytes, aligned for every vector; null if there are none.
void* take(std::size_t bytes) noexcept;
// The size that was asked for.
std::size_t size_of(const void* block) noexcept;
// Gives a block back. At most kept_limit() bytes are kept, the latest; the rest returns to the system.
void give(void* block) noexcept;

std::size_t kept_bytes() noexcept;
std::size_t kept_limit() noexcept;
// 0 keeps nothing, and returns what is kept.
void set_kept_limit(std::size_t bytes) noexcept;

}  // namespace halfulp::memory_pool
