#include "halfulp/memory_pool.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace halfulp::memory_pool {
namespace {

constexpr std::size_t kHeader = 64;  // keeps the data aligned
constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kMostScratch = std::size_t{64} << 20;

struct Header {
  std::size_t asked;
  std::size_t capacity;  // header included
  Use use;
};

Header* header_of(const void* block) noexcept {
  return reinterpret_cast<Header*>(reinterpret_cast<std::uintptr_t>(block) - kHeader);
}

std::align_val_t alignment_of(std::size_t capacity) noexcept {
  return std::align_val_t{capacity >= 2 * kHugePage ? kHugePage : std::size_t{64}};
}

void release(Header* header) noexcept {
  ::operator delete(static_cast<void*>(header), alignment_of(header->capacity));
}

Header* allocate(std::size_t capacity) noexcept {
  void* memory = ::operator new(capacity, alignment_of(capacity), std::nothrow);
  if (memory == nullptr) return nullptr;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (capacity >= 2 * kHugePage) madvise(memory, capacity, MADV_HUGEPAGE);  // a hint: failure does not matter
#endif
  auto* header = static_cast<Header*>(memory);
  header->capacity = capacity;
  return header;
}

// Blocks that were given back, the latest last.
struct Pool {
  const std::size_t smallest, most_blocks;
  std::size_t limit;
  std::vector<Header*> blocks = {};
  std::size_t bytes = 0;

  void shrink(std::size_t to) noexcept {
    while (bytes > to) {
      bytes -= blocks.front()->capacity;
      release(blocks.front());
      blocks.erase(blocks.begin());
    }
  }

  Header* find(std::size_t needed) noexcept {
    for (std::size_t i = blocks.size(); i-- > 0;) {
      Header* const found = blocks[i];
      if (found->capacity < needed || found->capacity > needed + needed / 4) continue;
      bytes -= found->capacity;
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    return nullptr;
  }

  // Whether the block is kept.
  bool keep(Header* header) noexcept {
    if (header->capacity > limit || blocks.size() >= most_blocks) return false;
    try {
      blocks.push_back(header);
    } catch (const std::bad_alloc&) {
      return false;
    }
    bytes += header->capacity;
    shrink(limit);
    return true;
  }
};

struct Pools {
  std::mutex mutex;
  Pool outputs{kSmallest, 64, std::size_t{256} << 20};
  Pool scratch{kSmallestScratch, 256, kMostScratch};

  Pool& of(Use use) noexcept { return use == Use::output ? outputs : scratch; }
};

// Never destroyed: arrays may give their blocks back while the process ends.
Pools& pools() noexcept {
  static Pools* const instance = new Pools;
  return *instance;
}

}  // namespace

void* take(std::size_t bytes, Use use) noexcept {
  if (bytes > SIZE_MAX - kHeader - kHugePage) return nullptr;
  const std::size_t needed = bytes + kHeader;
  Pool& pool = pools().of(use);
  Header* found = nullptr;
  if (bytes >= pool.smallest) {
    const std::lock_guard lock(pools().mutex);
    found = pool.find(needed);
  }
  if (found == nullptr) found = allocate(needed);
  if (found == nullptr) return nullptr;
  found->asked = bytes;
  found->use = use;
  return reinterpret_cast<char*>(found) + kHeader;
}

std::size_t size_of(const void* block) noexcept { return header_of(block)->asked; }

void give(void* block) noexcept {
  if (block == nullptr) return;
  Header* header = header_of(block);
  Pool& pool = pools().of(header->use);
  if (header->asked >= pool.smallest) {
    const std::lock_guard lock(pools().mutex);
    if (pool.keep(header)) return;
  }
  release(header);
}

std::size_t kept_bytes() noexcept {
  const std::lock_guard lock(pools().mutex);
  return pools().outputs.bytes + pools().scratch.bytes;
}

std::size_t kept_limit() noexcept {
  const std::lock_guard lock(pools().mutex);
  return pools().outputs.limit;
}

void set_kept_limit(std::size_t bytes) noexcept {
  const std::lock_guard lock(pools().mutex);
  for (Pool* pool : {&pools().outputs, &pools().scratch}) {
    pool->limit = pool == &pools().scratch ? std::min(bytes, kMostScratch) : bytes;
    pool->shrink(pool->limit);
  }
}

}  // namespace halfulp::memory_pool
