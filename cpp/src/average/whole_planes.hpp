// Means of whole planes that are contiguous in memory.
#pragma once

#include "average/fast_kernels.hpp"
#include "average/sum_range.hpp"

namespace halfulp {

template <class T>
class WholePlanes {
 public:
  WholePlanes(const SumPlan& plan, const SumLayout& layout);

  bool applies() const noexcept { return applies_; }

  void run(const T* plane, T& result) const;
  // The mean of the absolute values.
  void run_sizes(const T* plane, T& result) const;
  // The mean of cells times the signs of x, which is not NaN; false if that is left to others.
  bool run_signed(const T* x, const T* plane, T& result) const;

 private:
  bool suits(const SumPlan& plan) const;
  bool quotient(double sum, double low, T& result) const;
  bool bounded_quotient(double sum, const MagnitudeRange& range, T& result) const;
  template <bool Sizes>
  void run_of(const T* plane, T& result) const;
  template <bool Sizes>
  T exact_mean(const T* x) const;

  const SumLayout& layout_;
  SumRange<T> range_;
  const FastKernelsOf<T>& kernels_;
  Index cells_ = 1, divisor_ = 1;
  bool applies_;
};

}  // namespace halfulp
