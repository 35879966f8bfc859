// Memory for large outputs and for scratch that is used again. A fresh large block costs a page fault and the clearing
// of every page, which takes longer than pooling into it; a block that an earlier call has given back costs nothing.
#pragma once

#include <cstddef>

namespace halfulp::memory_pool {

// Blocks below these sizes are not worth it: they come from the system and return to it.
inline constexpr std::size_t kSmallest = std::size_t{1} << 18;         // of an output
inline constexpr std::size_t kSmallestScratch = std::size_t{1} << 12;  // small ones too are needed in every call

// What a block is for. Scratch is kept apart, so that its many small blocks do not push outputs out.
enum class Use { output, scratch };

// At least `bytes` bytes, aligned for every vector; null if there are none.
void* take(std::size_t bytes, Use use = Use::output) noexcept;
// The size that was asked for.
std::size_t size_of(const void* block) noexcept;
// Gives a block back. At most kept_limit() bytes of outputs are kept, and at most 64 MB of scratch, the latest; the
// rest returns to the system.
void give(void* block) noexcept;

std::size_t kept_bytes() noexcept;
std::size_t kept_limit() noexcept;
// 0 keeps nothing, and returns what is kept.
void set_kept_limit(std::size_t bytes) noexcept;

}  // namespace halfulp::memory_pool
