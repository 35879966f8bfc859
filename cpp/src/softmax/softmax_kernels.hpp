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

struct SoftmaxKernels {
  // One row; `scratch` holds 2 * length numbers.
  void (*row)(const SoftmaxProblem& problem, Index row, double* scratch, const SoftmaxReport& report);
};

HALFULP_KERNEL_TABLE(SoftmaxKernels, softmax_kernels)

}  // namespace halfulp
