// The terms of one weight: outputs times the input cells that a tap meets. Sums that were left undecided are formed
// from them again.
#pragma once

#include <cmath>

#include "conv/resolve.hpp"
#include "conv/stage.hpp"
#include "conv/weight_kernels.hpp"

namespace halfulp::conv {

// The cells of a channel that are not zero, if they are few, as where ReLU has left a channel nearly dead.
struct SparseChannel {
  bool known = false, few = false;
  std::vector<Index> positions;  // of each: the sample, then the index along every axis
};

// Those of a task's channels that were asked for.
struct SparseChannels {
  std::vector<SparseChannel> inputs, outputs;

  void reset(Index ins, Index outs) {
    inputs.assign(static_cast<std::size_t>(ins), {});
    outputs.assign(static_cast<std::size_t>(outs), {});
  }
};

// out[m, c, t] = the sum over batch and positions of outputs[n, m, o] * inputs[n, c, i(o, t)].
struct WeightProblem : Geometry {
  SourcePlanes inputs, outputs;
  OutputFilters out;
};

// A part of the result: output channels [first_out, …) and input channels [first_in, …) of one group.
struct WeightTask {
  Index group, first_out, outs, first_in, ins;
};

// A weight of a task: its channels in the group, and those counted from the task's first.
struct WeightPlace {
  Index group, out, in, tap;
  Index task_out, task_in;

  WeightPlace(const WeightTask& task, Index m, Index c, Index t)
      : group(task.group), out(task.first_out + m), in(task.first_in + c), tap(t), task_out(m), task_in(c) {}
};

class WeightTerms {
 public:
  explicit WeightTerms(const WeightProblem& problem) : p_(problem), gather_(output_gather(problem)) {}

  const Gather& gather() const { return gather_; }

  // The weight's correctly rounded sum. `value` is its undecided sum; `exact` says that a zero there is exact.
  void resolve(const WeightPlace& at, double value, bool exact, const Outputs& result) const;
  // The correctly rounded sum of finite terms, if one of the two channels has few cells that are not zero.
  bool resolve_sparse(SparseChannels& channels, const WeightPlace& at, const Outputs& result) const;
  // Whether all cells that meet a tap are zero, as where only the border of a channel is not: then every sum is zero.
  bool meets_zeros(const WeightPlace& at) const;

 private:
  void find_nonzero(const SourcePlanes& planes, Index channel, bool input, SparseChannel& found) const;
  // Calls f with the terms whose output or, if `by_input`, whose input cell is in the list.
  template <class F>
  bool walk_nonzero(const SparseChannel& sparse, bool by_input, Index tap, Elements output, Elements input,
                    const F& f) const;
  template <class F>
  bool for_each_run(const WeightPlace& at, const F& f) const;
  template <class F>
  bool walk_axis(std::size_t axis, Index tap, Elements output, Elements input, const F& f) const;
  // A twofold sum in vectors, with its own bound; false if that does not decide either.
  template <class Walk>
  bool sum_twofold(const Walk& walk, const Outputs& result) const;

  const WeightProblem& p_;
  const Gather gather_;
};

}  // namespace halfulp::conv
