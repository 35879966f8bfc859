// The plans of the last few shapes of an operator, shared between threads. Bounded: a new one replaces the oldest.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "halfulp/array.hpp"

namespace halfulp::bindings {

template <class Plan>
class PlanCache {
 public:
  using Pointer = std::shared_ptr<const Plan>;

  // The plan for these sizes, made by `make()` if it is not known.
  template <class Make>
  Pointer get(std::span<const Index> sizes, Make make) const {
    const Sizes key(sizes);
    {
      const std::lock_guard lock(mutex_);
      for (const Entry& entry : entries_)
        if (entry.plan && entry.sizes == key) return entry.plan;
    }
    Pointer plan = std::make_shared<const Plan>(make());
    const std::lock_guard lock(mutex_);
    entries_[next_] = {key, plan};
    next_ = (next_ + 1) % entries_.size();
    return plan;
  }

 private:
  struct Entry {
    Sizes sizes;
    Pointer plan;
  };
  mutable std::mutex mutex_;
  mutable std::array<Entry, 8> entries_;
  mutable std::size_t next_ = 0;
};

}  // namespace halfulp::bindings
