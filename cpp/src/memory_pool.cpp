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

struct Header {
  std::size_t asked;
  std::size_t capacity;  // header included
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
  std::mutex mutex;
  std::vector<Header*> blocks;
  std::size_t bytes = 0;
  std::size_t limit = std::size_t{256} << 20;

  void shrink(std::size_t to) noexcept {
    while (bytes > to) {
      bytes -= blocks.front()->capacity;
      release(blocks.front());
      blocks.erase(blocks.begin());
    }
  }
};

// Never destroyed: arrays may give their blocks back while the process ends.
Pool& pool() noexcept {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

void* take(std::size_t bytes) noexcept {
  if (bytes > SIZE_MAX - kHeader - kHugePage) return nullptr;
  const std::size_t needed = bytes + kHeader;
  Pool& p = pool();
  Header* found = nullptr;
  if (bytes >= kSmallest) {
    const std::lock_guard lock(p.mutex);
    for (std::size_t i = p.blocks.size(); i-- > 0 && found == nullptr;) {
      if (p.blocks[i]->capacity < needed || p.blocks[i]->capacity > needed + needed / 4) continue;
      found = p.blocks[i];
      p.bytes -= found->capacity;
      p.blocks.erase(p.blocks.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (found == nullptr) found = allocate(needed);
  if (found == nullptr) return nullptr;
  found->asked = bytes;
  return reinterpret_cast<char*>(found) + kHeader;
}

std::size_t size_of(const void* block) noexcept { return header_of(block)->asked; }

void give(void* block) noexcept {
  if (block == nullptr) return;
  Header* header = header_of(block);
  if (header->asked < kSmallest) return release(header);
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (header->capacity > p.limit || p.blocks.size() == p.blocks.capacity()) {
    if (header->capacity > p.limit || p.blocks.size() >= 64) return release(header);
    try {
      p.blocks.reserve(p.blocks.size() + 16);
    } catch (const std::bad_alloc&) {
      return release(header);
    }
  }
  p.blocks.push_back(header);
  p.bytes += header->capacity;
  p.shrink(p.limit);
}

std::size_t kept_bytes() noexcept {
  const std::lock_guard lock(pool().mutex);
  return pool().bytes;
}

std::size_t kept_limit() noexcept {
  const std::lock_guard lock(pool().mutex);
  return pool().limit;
}

void set_kept_limit(std::size_t bytes) noexcept {
  const std::lock_guard lock(pool().mutex);
  pool().limit = bytes;
  pool().shrink(bytes);
}

}  // namespace halfulp::memory_pool
