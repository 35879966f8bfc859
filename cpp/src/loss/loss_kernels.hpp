// The loops of losses, compiled for every instruction set.
#pragma once

#include "base/kernel_table.hpp"
#include "halfulp/loss.hpp"
#include "softmax/softmax_kernels.hpp"

namespace halfulp {

// Where undecided outputs are reported: their flat positions.
struct LossReport {
  void* list = nullptr;
  void (*add)(void* list, Index position) = nullptr;
};

// A number, high + low, that is off by `error` at most.
struct Enclosed {
  double high = 0, low = 0, error = 0;
};

struct SquareKernels {
  // The sum of a b over some cells of a row; `twice` in pairs of doubles. Only without a mean.
  Enclosed (*part)(const SquareProblem& problem, Index row, Index begin, Index end, bool twice);
  // The same over a whole row, minus its mean.
  Enclosed (*centred)(const SquareProblem& problem, Index row, bool twice);
  // factor / divisor times a number, rounded into output `row`; false if that is undecided.
  bool (*finish)(const SquareProblem& problem, Index row, const Enclosed& sum);
  // Outputs per cell; with a mean, of a whole row.
  void (*cells)(const SquareProblem& problem, Index row, Index begin, Index end, const LossReport& report);
};

// Numbers of scratch: exponentials of a group of rows, then those of a single row with what else it needs.
constexpr Index group_scratch(Index classes) { return rows_together(classes) * kept_of_row(classes); }
constexpr Index entropy_scratch(Index classes) { return group_scratch(classes) + 7 * classes + 64; }

struct EntropyKernels {
  // Values or tangents of the rows [begin, end); `scratch` holds entropy_scratch(classes) numbers.
  void (*rows)(const EntropyProblem& problem, Index begin, Index end, double* scratch, bool twice, Enclosed* found);
  // The cotangents of the rows [begin, end).
  void (*spread)(const EntropyProblem& problem, Index begin, Index end, double* scratch, const LossReport& report);
  // scale times a number, rounded into an output; false if that is undecided.
  bool (*finish)(const EntropyProblem& problem, Index position, const Enclosed& sum);
};

HALFULP_KERNEL_TABLE(SquareKernels, square_kernels)
HALFULP_KERNEL_TABLE(EntropyKernels, entropy_kernels)

}  // namespace halfulp
