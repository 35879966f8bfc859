// The outputs of the last axis that a block makes: which columns of a row they read, and what they are divided by.
#pragma once

#include <vector>

#include "average/fast_kernels.hpp"
#include "halfulp/sum_plan.hpp"

namespace halfulp {

class SumOutputs {
 public:
  // False if these are the outputs already.
  bool choose(const SumAxis& axis, Index begin, Index end);

  Index begin() const noexcept { return begin_; }
  Index count() const noexcept { return end_ - begin_; }

  // The columns that are read. A row of sums has margins around them, where windows may begin or end: `margin` values
  // before, `reach` in all.
  Index column = 0, width = 0, margin = 0, reach = 0;
  double zero_before = -0.0, zero_after = -0.0;  // in the margins; -0.0 changes no sum, whatever its sign
  // Counted from the first output and the first value of a row of sums.
  std::vector<SumSegment> segments;
  std::vector<SumRun> runs;
  std::vector<OutputRange> padded;  // with a padded zero that is not in a margin

 private:
  void choose_segments(const SumAxis& axis);
  void choose_zeros(const SumAxis& axis);

  Index begin_ = -1, end_ = -1;
};

}  // namespace halfulp
