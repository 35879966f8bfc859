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
// out. docs/explanation/error-bounds-normalization.md proves the bounds.
#pragma once

#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

enum class NormWork { value, tangent, cotangent };

// What a group's cells say of its mean and variance, in double, with c = x - pivot: the mean is pivot + delta, off by
// delta_error at most; scale is 1 / sqrt(variance + eps), off by `relative` of itself; square is the mean of c^2, and
// |c| <= largest. Not good: nothing is known, and the group is left to pairs of doubles.
struct GroupMoments {
  double pivot, delta, delta_error, scale, relative, square, largest, good;
};

// Sums over the cells of a group that share a weight, h being t or the product of t and the cell's own weight: of h and
// h c in pairs of doubles, of h^2 and c^2; |h| <= most.
struct NormSums {
  double h, h_low, hc, hc_low, hh, cc, most, unused;
};

struct NormProblem {
  DType dtype = DType::f32;
  Index blocks = 1, groups = 1, inner = 1;
  bool joint = false;
  bool per_cell = false;  // a weight for every cell of a group (layer norm), else one for every channel
  bool last = false;      // joint groups along the last axis: x is (blocks, inner, groups), e.g. channels-last images
  Index channels = 1;     // of a group, if weights are per channel: inner is channels * cells
  double eps = 0;
  NormWork work = NormWork::value;
  // Dense arrays of the dtype, or null where there is none.
  const void *x = nullptr, *weight = nullptr, *bias = nullptr;
  const void *mean = nullptr, *variance = nullptr;                    // given statistics, one per group
  const void *t = nullptr, *d_weight = nullptr, *d_bias = nullptr;    // tangents; for a cotangent t is g
  void* out = nullptr;
  void *weight_out = nullptr, *bias_out = nullptr;  // of a cotangent
  // One for each group, if the caller keeps them: the value fills them, its derivatives read them.
  GroupMoments* moments = nullptr;
  bool moments_known = false;
  NormSums* sums = nullptr;  // one for each group and channel; scratch
  // Statistics: (1 - momentum) old + momentum s, s the mean or the sum of squares over cells - correction.
  const void* old = nullptr;
  double momentum = 1;
  bool squares = false;
  Index correction = 0;

  Index group_count() const noexcept { return joint ? groups : blocks * groups; }
  Index weight_count() const noexcept { return per_cell ? inner : groups * channels; }
  Index runs() const noexcept { return joint ? blocks : 1; }
  Index cells() const noexcept { return runs() * inner; }
  Index size() const noexcept { return blocks * groups * inner; }
  // Where a group's run starts; not for groups along the last axis.
  Index start(Index group, Index run) const noexcept {
    return joint ? (run * groups + group) * inner : group * inner;
  }
};

// Fills problem.out and returns the positions that are undecided.
std::vector<Index> normalize(const NormProblem& problem);

// The cotangents of x, the weights and the biases, each if there is a position for it.
struct NormUndecided {
  std::vector<Index> x, weight, bias;
};
NormUndecided normalize_pullback(const NormProblem& problem);

// One mean or variance per group, from problem.moments where these are known.
std::vector<Index> group_statistics(const NormProblem& problem);

}  // namespace halfulp
