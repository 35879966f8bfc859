// Normalisation over groups: batch, layer, group and instance norm with their derivatives, with the outputs that
// double and double-double arithmetic do not decide.
//
// x is (blocks, groups, inner), dense. A joint group takes the cells of all blocks (batch norm), else every block has
// its own. With c = x - mean, r = 1 / sqrt(variance + eps), weights w and biases b:
//
//   value    w c r + b
//   tangent  w r (t - mean(t) - c r^2 mean(c t)) + dw c r + db
//   cotangent of x   r (h - mean(h) - c r^2 mean(c h)), h = w g
//   cotangent of w   the sum of g c r over the cells that share the weight
//
// With given statistics (batch norm in evaluation) mean and variance are inputs, and both means in the brackets drop
// out.
// The bounds stand beside the formulas in the kernels.
#pragma once

#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

enum class NormWork { value, tangent, cotangent };

struct NormProblem {
  DType dtype = DType::f32;
  Index blocks = 1, groups = 1, inner = 1;
  bool joint = false;
  bool per_cell = false;  // a weight for every cell of a group (layer norm), else one for every channel
  Index channels = 1;     // of a group, if weights are per channel: inner is channels * cells
  double eps = 0;
  NormWork work = NormWork::value;
  // Dense arrays of the dtype, or null where there is none.
  const void *x = nullptr, *weight = nullptr, *bias = nullptr;
  const void *mean = nullptr, *variance = nullptr;                    // given statistics, one per group
  const void *t = nullptr, *d_weight = nullptr, *d_bias = nullptr;    // tangents; for a cotangent t is g
  void* out = nullptr;
  // Statistics: (1 - momentum) old + momentum s, s the mean or the sum of squares over cells - correction.
  const void* old = nullptr;
  double momentum = 1;
  bool squares = false;
  Index correction = 0;

  Index group_count() const noexcept { return joint ? groups : blocks * groups; }
  Index runs() const noexcept { return joint ? blocks : 1; }
  Index cells() const noexcept { return runs() * inner; }
  // Where a group's run starts.
  Index start(Index group, Index run) const noexcept {
    return joint ? (run * groups + group) * inner : group * inner;
  }
};

// Fills problem.out and returns the positions that are undecided.
std::vector<Index> normalize(const NormProblem& problem);
// The cotangent of the weights: problem.t is g, problem.out has one number per weight.
std::vector<Index> normalize_weights(const NormProblem& problem);
// One mean or variance per group.
std::vector<Index> group_statistics(const NormProblem& problem);

}  // namespace halfulp
