// Walking over the elements of a channel, and adding them up.
#pragma once

#include <cmath>
#include <vector>

#include "conv/stage.hpp"
#include "conv/tasks.hpp"

namespace halfulp::conv {

// Calls f(run, n) with the elements of one channel as doubles, in runs along the last axis.
template <class F>
void for_each_run(Buffer<double>& line, const Elements& data, const std::vector<Index>& sizes,
                  const std::vector<Index>& strides, const F& f) {
  const Index run = sizes.back();
  Index runs = 1;
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis) runs *= sizes[axis];
  constexpr Index most = 4096;
  double* const out = line.at_least(std::min(run, most));
  for (Index i = 0; i < runs; ++i) {
    Index rest = i, offset = 0;
    for (std::size_t axis = sizes.size() - 1; axis-- > 0;) {
      offset += rest % sizes[axis] * strides[axis];
      rest /= sizes[axis];
    }
    for (Index first = 0; first < run; first += most) {
      const Index n = std::min(most, run - first);
      (data + offset + first * strides.back()).load(strides.back(), n, out);
      f(out, n);
    }
  }
}

// Sums in lanes of their own, which the compiler keeps in vector registers.
class LaneSums {
 public:
  template <class F>
  void add(const double* x, Index n, const F& f) {
    Index i = 0;
    for (; i + 8 <= n; i += 8)
      for (Index j = 0; j < 8; ++j) lanes_[j] += f(x[i + j]);
    for (; i < n; ++i) lanes_[0] += f(x[i]);
  }
  double total() const {
    return ((lanes_[0] + lanes_[1]) + (lanes_[2] + lanes_[3])) + ((lanes_[4] + lanes_[5]) + (lanes_[6] + lanes_[7]));
  }

 private:
  double lanes_[8] = {};
};

}  // namespace halfulp::conv
