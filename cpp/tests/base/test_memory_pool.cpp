// Blocks that were given back are used again, outputs and scratch apart, within the limits.
#include "halfulp/memory_pool.hpp"

#include <cstdint>

#include "check.hpp"

using namespace halfulp;
using memory_pool::Use;

int main() {
  constexpr std::size_t small = memory_pool::kSmallestScratch, large = memory_pool::kSmallest;
  memory_pool::set_kept_limit(std::size_t{256} << 20);

  void* const scratch = memory_pool::take(small, Use::scratch);
  CHECK(reinterpret_cast<std::uintptr_t>(scratch) % 64 == 0);
  CHECK(memory_pool::size_of(scratch) == small);
  memory_pool::give(scratch);
  CHECK(memory_pool::kept_bytes() >= small);
  void* const again = memory_pool::take(small, Use::scratch);
  CHECK(again == scratch);
  CHECK(memory_pool::kept_bytes() == 0);

  // Scratch does not become an output; small outputs and tiny scratch are not kept.
  void* const output = memory_pool::take(large);
  memory_pool::give(output);
  void* const other = memory_pool::take(large, Use::scratch);
  CHECK(other != output);
  CHECK(memory_pool::kept_bytes() >= large);
  memory_pool::give(memory_pool::take(small));
  memory_pool::give(memory_pool::take(small - 1, Use::scratch));
  CHECK(memory_pool::kept_bytes() < large + small);

  // No more scratch than 64 MB, and none at all without a limit.
  constexpr std::size_t huge = std::size_t{65} << 20;
  memory_pool::give(memory_pool::take(huge, Use::scratch));
  CHECK(memory_pool::kept_bytes() < huge);
  memory_pool::set_kept_limit(0);
  CHECK(memory_pool::kept_bytes() == 0);
  memory_pool::give(other);
  memory_pool::give(again);
  CHECK(memory_pool::kept_bytes() == 0);
  return tests::failures() == 0 ? 0 : 1;
}
