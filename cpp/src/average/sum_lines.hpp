// The lines of a plane as the fast kernels take them: for every line of outputs the rows that it adds up.
#pragma once

#include <vector>

#include "average/fast_kernels.hpp"
#include "average/sum_layout.hpp"

namespace halfulp {

class SumLines {
 public:
  // divides: the divisors are fit for quotients of exact sums. item: bytes of a number. stream: the outputs are so many
  // that they should go past the caches.
  SumLines(const SumPlan& plan, const SumLayout& layout, bool divides, Index item, bool stream);

  // False for weights, negated terms, strided rows, and too many rows: then there are no lines.
  bool apply() const noexcept { return apply_; }
  bool slide() const noexcept { return slide_; }    // lines may be made from the line before
  bool stream() const noexcept { return stream_; }
  Index per_output() const noexcept { return per_output_; }  // lines of one output of the first axis

  std::vector<SumLine> lines;     // in the order of their outputs
  std::vector<Index> rows;        // offsets in the source
  std::vector<Index> slab_rows;   // the same of one slab

 private:
  bool suit(const SumPlan& plan) const;
  void list();
  Index shared_rows(const SumLine& line, const SumLine& next) const;
  bool dense() const;

  const SumLayout& layout_;
  Index per_output_ = 1;
  bool apply_ = false, slide_ = false, stream_ = false;
};

}  // namespace halfulp
