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

// Weights for every cell, widened: ones and zeros where there are none, and the largest magnitudes. For values also as
// floats, the biases split; see FloatForm, which takes the first of two grids that is large enough.
struct CellWeights {
  const double *weight = nullptr, *bias = nullptr, *d_weight = nullptr, *d_bias = nullptr;
  double largest[4] = {1, 0, 0, 0};
  const float *float_weight = nullptr, *bias_shift[2] = {}, *bias_low[2] = {}, *bias_high[2] = {};
  double grids[2] = {}, cell_errors[2] = {};
};
// Numbers and floats for every cell that they take; arrays of floats have padded lengths.
constexpr Index kWeightNumbers = 4, kWeightFloats = 7;

// Sums over the rows of every column, each an array: two in pairs of doubles, of two kinds of squares, and the largest
// square. Of moments: c, c^2, nothing, nothing, c^2. Of projections: h, h c, h^2, c^2, h^2. Of layer norm's weights: g,
// g n, g^2, n^2, nothing. The pivots are given.
struct ColumnSums {
  double *first, *first_low, *second, *second_low, *squares, *other_squares, *most, *pivot;
};

struct NormKernels {
  // Value, tangent or cotangent of the groups [begin, end) of contiguous runs; fills problem.moments unless they are
  // known, and problem.sums in a cotangent where there are any. Undecided outputs go on to pairs of doubles.
  void (*run)(const NormProblem& problem, const CellWeights& weights, Index begin, Index end, const NormReport& report);
  // In pairs of doubles, at these positions of a group.
  void (*precise)(const NormProblem& problem, Index group, const Index* positions, Index count,
                  const NormReport& report);
  // Whether pairs of doubles decide the cotangent of a weight, which is then in problem.weight_out.
  bool (*precise_weight)(const NormProblem& problem, Index weight);
  // The cotangents of weights and biases [begin, end) of channels, from problem.moments and problem.sums.
  void (*channel_weights)(const NormProblem& problem, Index begin, Index end, const NormReport& weights,
                          const NormReport& biases);
  // Layer norm: adds the rows [begin, end), at most kRowBlock, to the sums of columns.
  void (*add_rows)(const NormProblem& problem, Index begin, Index end, const ColumnSums& sums);
  // The cotangents of weights and biases [begin, end) of cells, from the sums of columns.
  void (*cell_weights)(const NormProblem& problem, Index begin, Index end, const ColumnSums& sums,
                       const NormReport& weights, const NormReport& biases);
  // Groups along the last axis: the sums of moments, or of projections, of the rows [begin, end).
  void (*last_sums)(const NormProblem& problem, Index begin, Index end, bool projections, const ColumnSums& sums);
  // A group's moments from the sums of moments; false if another pivot is better, which is then in the moments.
  bool (*last_moments)(const NormProblem& problem, Index group, const ColumnSums& sums, bool final);
  // The pivots of groups along the last axis, or the moments of given statistics.
  void (*last_pivots)(const NormProblem& problem);
  // The coefficients of their outputs: kFormArrays arrays of padded_width(groups) numbers.
  void (*last_forms)(const NormProblem& problem, double* forms);
  // The outputs of the rows [begin, end) in double; undecided ones are reported.
  void (*last_outputs)(const NormProblem& problem, double* forms, Index begin, Index end, const NormReport& report);
  // One statistic from the group's moments, if they are known and decide it, else from its cells.
  void (*statistic)(const NormProblem& problem, Index group, const NormReport& report);
  // The weights of a problem that has some for every cell.
  CellWeights (*widen)(const NormProblem& problem, double* numbers, float* floats);
};

constexpr Index kRowBlock = 8, kFormArrays = 12, kSumArrays = 8;

// Arrays of columns hold whole vectors.
constexpr Index padded_width(Index columns) { return (columns + 7) / 8 * 8; }

HALFULP_KERNEL_TABLE(NormKernels, norm_kernels)

}  // namespace halfulp
