// When is a sum of products exact? If every product is a multiple of some power of two g and the magnitudes add up to
// less than 2^53 g, no addition rounds. Pictures with integer values and simple filters are such data, and full of
// exact zeros and ties, which no error bound could decide. The power of two costs a pass over the data, so it is looked
// for only when many outputs were undecided.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "conv/resolve.hpp"

namespace halfulp::conv {

// The smallest lowest bit of an array; infinity if it has no finite nonzero element.
double smallest_bit(const Elements& data, const Sizes& shape, const Sizes& strides, int axis = 0);

// The bound below which sums are exact: 0 until somebody asked for it to be found.
class ExactLimit {
 public:
  double now() const { return limit_.load(std::memory_order_acquire); }
  bool known() const { return known_.load(std::memory_order_acquire); }
  void find(const std::function<double()>& search) {
    std::call_once(once_, [&] {
      limit_.store(search(), std::memory_order_release);
      known_.store(true, std::memory_order_release);
    });
  }

 private:
  std::once_flag once_;
  std::atomic<double> limit_{0};
  std::atomic<bool> known_{false};
};

// `grid` is a power of two that divides every term; `depth` is how many additions a term passes through.
inline double exact_limit(double grid, double depth, bool twofold) {
  if (!(grid >= std::numeric_limits<double>::denorm_min())) return 0;
  return grid * (twofold ? 0x1p104 / (depth + 2) : 0x1p52);
}

}  // namespace halfulp::conv
