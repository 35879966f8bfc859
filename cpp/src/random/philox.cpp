#include "halfulp/philox.hpp"

#include "halfulp/parallel.hpp"

namespace halfulp {
namespace {

constexpr int lanes = 16;  // blocks at once: the loops over them become vectors
constexpr int words = 4 * lanes;
constexpr std::int64_t grain = 1 << 14;

using Lanes = std::array<std::uint32_t, lanes>;

// Ten rounds on `lanes` blocks; word w of block b is x[w][b].
void rounds(std::array<Lanes, 4>& x, std::uint32_t key0, std::uint32_t key1) noexcept {
  for (int round = 0; round < 10; ++round) {
    for (int b = 0; b < lanes; ++b) {
      const std::uint64_t p = std::uint64_t{0xD2511F53u} * x[0][b];
      const std::uint64_t q = std::uint64_t{0xCD9E8D57u} * x[2][b];
      const std::uint32_t first = static_cast<std::uint32_t>(q >> 32) ^ x[1][b] ^ key0;
      const std::uint32_t third = static_cast<std::uint32_t>(p >> 32) ^ x[3][b] ^ key1;
      x[1][b] = static_cast<std::uint32_t>(q);
      x[3][b] = static_cast<std::uint32_t>(p);
      x[0][b] = first;
      x[2][b] = third;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

std::array<Lanes, 4> blocks(const Stream& stream, std::uint64_t block) noexcept {
  std::array<Lanes, 4> x;
  for (int b = 0; b < lanes; ++b) {
    const std::uint64_t at = block + static_cast<std::uint64_t>(b);
    x[0][b] = static_cast<std::uint32_t>(at);
    x[1][b] = static_cast<std::uint32_t>(at >> 32);
    x[2][b] = stream.step;
    x[3][b] = stream.layer;
  }
  rounds(x, static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32));
  return x;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  std::array<Lanes, 4> x{};
  for (int w = 0; w < 4; ++w) x[w][0] = counter[w];
  rounds(x, key[0], key[1]);
  return {x[0][0], x[1][0], x[2][0], x[3][0]};
}

template <class Bits>
void keep_mask(const Stream& stream, std::uint64_t first, std::uint64_t threshold, Bits kept, Bits* out,
               std::int64_t count) {
  const std::uint64_t begin = first / words;
  const std::int64_t skipped = static_cast<std::int64_t>(first % words);
  const std::int64_t groups = (skipped + count + words - 1) / words;
  parallel_for(groups, grain / words, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t g = from; g < to; ++g) {
      const std::array<Lanes, 4> x = blocks(stream, (begin + static_cast<std::uint64_t>(g)) * lanes);
      std::array<Bits, words> cells;
      for (int b = 0; b < lanes; ++b)
        for (int w = 0; w < 4; ++w) cells[4 * b + w] = x[w][b] >= threshold ? kept : Bits{0};
      const std::int64_t at = g * words - skipped;
      for (std::int64_t i = at < 0 ? -at : 0; i < words && at + i < count; ++i) out[at + i] = cells[i];
    }
  });
}

template void keep_mask(const Stream&, std::uint64_t, std::uint64_t, std::uint16_t, std::uint16_t*, std::int64_t);
template void keep_mask(const Stream&, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t*, std::int64_t);
template void keep_mask(const Stream&, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t*, std::int64_t);

}  // namespace halfulp
