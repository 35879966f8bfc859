// Means of whole planes that are contiguous in memory.
#pragma once

#include "average/line_kernels.hpp"
#include "average/sum_range.hpp"

namespace halfulp {

template <class T>
class WholePlanes {
 public:
  WholePlanes(const SumPlan& plan, const WindowLayout& layout);

  bool applies() const noexcept { return applies_; }

  void run(const T* plane, T& result) const;

 private:
  bool suits(const SumPlan& plan) const;
  bool quotient(double sum, double low, T& result) const;
  bool bounded_quotient(double sum, const MagnitudeRange& range, T& result) const;
  T exact_mean(const T* x) const;

  const WindowLayout& layout_;
  SumRange<T> range_;
  const LineKernelsOf<T>& kernels_;
  Index cells_ = 1, divisor_ = 1;
  bool applies_;
};

}  // namespace halfulp
