// The loops of softmax, compiled for every instruction set.
#pragma once

#include "base/kernel_table.hpp"
#include "halfulp/softmax.hpp"

namespace halfulp {

// Where undecided outputs are reported: their flat positions.
struct SoftmaxReport {
  void* list = nullptr;
  void (*add)(void* list, Index position) = nullptr;
};

// Neighbouring columns that are evaluated together: a cache line of float32.
constexpr Index kSoftmaxColumns = 16;

struct SoftmaxKernels {
  // The rows [begin, end) of problem.inner == 1; the scratch holds 2 * length + 64 numbers.
  void (*rows)(const SoftmaxProblem& problem, Index begin, Index end, double* scratch, const SoftmaxReport& report);
  // At most kSoftmaxColumns columns from `first` on, of one outer index; the scratch holds (kSoftmaxColumns + 6) *
  // length + 64 numbers.
  void (*columns)(const SoftmaxProblem& problem, Index outer, Index first, double* scratch,
                  const SoftmaxReport& report);
};

HALFULP_KERNEL_TABLE(SoftmaxKernels, softmax_kernels)

}  // namespace halfulp
