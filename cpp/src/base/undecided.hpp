// The positions that the threads of a call could not decide.
#pragma once

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

class Undecided {
 public:
  void add(const std::vector<Index>& positions) {
    if (positions.empty()) return;
    const std::lock_guard lock(mutex_);
    positions_.insert(positions_.end(), positions.begin(), positions.end());
  }
  // In order, whatever the number of threads.
  std::vector<Index> take() {
    std::sort(positions_.begin(), positions_.end());
    return std::move(positions_);
  }

 private:
  std::mutex mutex_;
  std::vector<Index> positions_;
};

}  // namespace halfulp
