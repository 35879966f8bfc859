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

// Numbers of scratch for every cell of a row, and 64 more: exponentials, a row in pairs of doubles, copies as floats.
constexpr Index softmax_scratch(bool rows) { return rows ? 4 : 5 * kSoftmaxColumns / 2 + 4; }

struct SoftmaxKernels {
  // The rows [begin, end) of problem.inner == 1; see softmax_scratch.
  void (*rows)(const SoftmaxProblem& problem, Index begin, Index end, double* scratch, const SoftmaxReport& report);
  // At most kSoftmaxColumns columns from `first` on, of one outer index.
  void (*columns)(const SoftmaxProblem& problem, Index outer, Index first, double* scratch,
                  const SoftmaxReport& report);
};

HALFULP_KERNEL_TABLE(SoftmaxKernels, softmax_kernels)

}  // namespace halfulp
