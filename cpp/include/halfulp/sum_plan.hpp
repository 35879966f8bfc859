// What an average sums: for every axis the sources of each output, and the number that the sum is divided by.
//
// The same plan describes an average (outputs are windows, sources are cells) and its transpose (outputs are cells,
// sources are windows): the sources of an output are an arithmetic progression on every axis in both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "halfulp/geometry.hpp"

namespace halfulp {

// Outputs `output + t * output_step` are the sums of `count` sources each, from `first + t * first_step`, `step` apart.
struct SumSegment {
  Index first, first_step, count, step;
  Index output, output_step, length;
};

// Neighbouring outputs of the last axis that are divided by the same number.
struct SumRun {
  Index begin, end;
  Index divisor;
  bool empty;
  bool padded;  // some of them have a padded zero
};

// Divisors below that, and the remainders of quotients by them, are exact in a double.
inline constexpr Index kLargestDivisor = Index{1} << 50;

struct SumAxis {
  Index sources = 1;
  Index step = 1;                     // between the sources of one output
  std::vector<Index> first = {0};     // per output
  std::vector<Index> count = {1};     // per output; 0: no source
  std::vector<double> weights;        // per source, integers; empty: all are 1
  std::vector<Index> divisor = {1};   // per output, a factor
  std::vector<std::uint8_t> padded = {0};  // per output: a padded zero is among the terms
  // The outputs in vectorisable pieces. Their sources may lie outside [0, sources), in a margin of zeros, so that all
  // windows are alike.
  std::vector<SumSegment> segments;
  std::vector<SumRun> runs;

  Index outputs() const noexcept { return static_cast<Index>(first.size()); }
  Index largest_count() const noexcept;
  double largest_weight() const noexcept;
};

struct SumPlan {
  std::vector<SumAxis> axes;
  Index divisor = 0;      // of every sum; 0: the product of the axes' factors
  bool negated = false;   // every term changes its sign before the sum
};

// The average over windows. `divisor` is divisor_override, or 0 for the number of counted cells.
SumPlan average_plan(std::span<const Axis> axes, bool count_include_pad, Index divisor);

// Its transpose: sum over the windows w of a cell of g_w / n_w, brought to a common denominator. None if that is so
// large that the weights would not fit a double.
std::optional<SumPlan> average_transpose_plan(std::span<const Axis> axes, bool count_include_pad, Index divisor);

}  // namespace halfulp
