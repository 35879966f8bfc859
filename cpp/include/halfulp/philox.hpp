// Random words that are a function of their position: Philox4x32 with ten rounds (Salmon et al., 2011).
#pragma once

#include <array>
#include <cstdint>

namespace halfulp {

// The four words of one block.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

// Which stream of words: block i of it has the counter (i low, i high, step, layer).
struct Stream {
  std::uint64_t seed;
  std::uint32_t step;
  std::uint32_t layer;
};

// out[i] = `kept` if word first + i of the stream is at least `threshold`, else 0. Cells of 2, 4 or 8 bytes; the same
// for any number of threads.
template <class Bits>
void keep_mask(const Stream& stream, std::uint64_t first, std::uint64_t threshold, Bits kept, Bits* out,
               std::int64_t count);

}  // namespace halfulp
