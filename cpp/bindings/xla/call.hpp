// One call from XLA, seen as views and attributes of the core.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "halfulp/array.hpp"
#include "xla/ffi.hpp"

namespace halfulp::xla {

class Call {
 public:
  explicit Call(const CallFrame& frame) : frame_(frame) {}

  int argument_count() const noexcept { return static_cast<int>(frame_.arguments.count); }
  int result_count() const noexcept { return static_cast<int>(frame_.results.count); }
  const Buffer& argument(int i) const noexcept { return *static_cast<const Buffer*>(frame_.arguments.items[i]); }
  const Buffer& result(int i) const noexcept { return *static_cast<const Buffer*>(frame_.results.items[i]); }

  // Attributes by name; a missing one is a std::runtime_error, since our own Python side always gives them.
  std::string_view text(std::string_view name) const;
  std::vector<Index> numbers(std::string_view name) const;

 private:
  const void* find(std::string_view name, std::int32_t kind) const;

  const CallFrame& frame_;
};

// XLA's buffers are dense and row-major.
ArrayView view_of(const Buffer& buffer);

// Ask the system for large pages for memory that is about to be written for the first time: XLA allocates results anew
// for every run, and a page fault for every 4 KiB costs as much as the pooling itself.
void use_large_pages(void* data, std::size_t bytes) noexcept;

// What every handler does around its work: answers the registration's question for the version, checks the layout,
// and turns exceptions into XLA's errors.
Error* guarded(CallFrame* frame, void (*work)(const Call&)) noexcept;

}  // namespace halfulp::xla
