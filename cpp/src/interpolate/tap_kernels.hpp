// The loops of interpolation, compiled for every instruction set.
#pragma once

#include "base/kernel_table.hpp"
#include "halfulp/interpolate.hpp"

namespace halfulp {

// What is known of a row of cells before it is used.
struct TapRow {
  double largest = 0;          // the largest magnitude; infinite or NaN where a cell is
  double unit = 0;             // a power of two of which every cell is a multiple; infinite if all are 0
  bool negative_zero = false;  // whether a cell is -0
};

// Where undecided outputs are reported: their flat positions.
struct TapReport {
  void* list = nullptr;
  void (*add)(void* list, Index position) = nullptr;
};

struct TapKernels {
  // All rows of a plane.
  void (*survey)(const TapProblem& problem, Index plane, TapRow* rows);
  // One row of outputs of a plane; `scratch` holds 2 * (n2 + m2) numbers.
  void (*row)(const TapProblem& problem, Index plane, Index row, const TapRow* rows, double* scratch,
              const TapReport& report);
};

HALFULP_KERNEL_TABLE(TapKernels, tap_kernels)

}  // namespace halfulp
