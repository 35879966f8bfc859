// The loops of normalisation, compiled for every instruction set.
#pragma once

#include "base/kernel_table.hpp"
#include "halfulp/normalize.hpp"

namespace halfulp {

// Where undecided outputs are reported: their flat positions in `out`.
struct NormReport {
  void* list = nullptr;
  void (*add)(void* list, Index position) = nullptr;
};

struct NormKernels {
  // The outputs of one group.
  void (*group)(const NormProblem& problem, Index group, const NormReport& report);
  // The cotangents of the weights [begin, end).
  void (*weights)(const NormProblem& problem, Index begin, Index end, const NormReport& report);
  // One statistic.
  void (*statistic)(const NormProblem& problem, Index group, const NormReport& report);
};

HALFULP_KERNEL_TABLE(NormKernels, norm_kernels)

}  // namespace halfulp
