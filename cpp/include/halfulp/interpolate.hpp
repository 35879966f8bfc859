// Sums with fixed weights along up to three axes: interpolation, and its transpose for cotangents.
//
// x is (planes, n0, n1, n2), dense; out is (planes, m0, m1, m2). Output (i, j, k) of a plane is the sum over the taps
// of i, j and k of weight * weight * weight * cell, rounded once. Weights are rationals numerator / divisor, none is 0.
#pragma once

#include <cstdint>
#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

// The taps of every output along one axis: tables of (most, outputs) numbers, and how many taps each output has. A tap
// beyond that number has weight 0 and a cell that exists.
struct TapAxis {
  Index size = 1, outputs = 1, most = 1;
  const std::int64_t* counts = nullptr;
  const std::int64_t* cells = nullptr;
  const double *high = nullptr, *low = nullptr;   // the weight to twice the precision of a double
  const std::int64_t* numerators = nullptr;       // over the problem's divisor, all axes together
};

struct TapProblem {
  static constexpr int kAxes = 3;
  DType dtype = DType::f32;
  Index planes = 0;
  TapAxis axis[kAxes];
  std::int64_t divisor = 0;   // of the products of the numerators; 0 if they do not fit in 63 bits
  int bits = -1;              // weights of an output are multiples of 2^-bits and exact; -1 if they are not
  double reach = 1;           // the largest sum of |weights| of an output
  bool negative = false;      // whether some weight is
  const void* x = nullptr;
  void* out = nullptr;

  Index in_rows() const noexcept { return axis[0].size * axis[1].size; }
  Index out_rows() const noexcept { return axis[0].outputs * axis[1].outputs; }
};

// Fills problem.out and returns the flat positions that are undecided.
std::vector<Index> weighted_taps(const TapProblem& problem);

}  // namespace halfulp
