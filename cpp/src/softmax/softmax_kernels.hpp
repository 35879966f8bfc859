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

// Neighbouring columns that are evaluated together: a cache line of float32.
constexpr Index kSoftmaxColumns = 16;

// What is kept of a row: its largest and its smallest number and the sum of its exponentials (NaN if double cannot be
// trusted with it), in front of the exponentials, zeros up to whole vectors. What is kept of a tile: the same of
// kSoftmaxColumns columns, side by side. All instruction sets have the same layout.
constexpr Index kKeptHead = 8;
constexpr Index kept_of_row(Index length) { return kKeptHead + (length + 7) / 8 * 8; }
constexpr Index kept_of_tile(Index length) { return (3 + length) * kSoftmaxColumns; }

// Rows that are evaluated together, so that the steps of one do not wait for each other, and stay in the first cache.
constexpr Index kMostRows = 16;
constexpr Index rows_together(Index length) {
  constexpr Index cells = 2048;
  return length > cells ? 1 : cells / length < kMostRows ? cells / length : kMostRows;
}

// Numbers of scratch: exponentials, a row in pairs of doubles, copies of half types as floats.
constexpr Index softmax_scratch(bool rows, Index length) {
  if (!rows) return (5 * kSoftmaxColumns / 2 + 4) * length + 64;
  return rows_together(length) * (kept_of_row(length) + 2 * length) + 4 * length + 64;
}

struct SoftmaxKernels {
  // The rows [begin, end) of problem.inner == 1; see softmax_scratch.
  void (*rows)(const SoftmaxProblem& problem, Index begin, Index end, double* scratch, const SoftmaxReport& report);
  // At most kSoftmaxColumns columns from `first` on, of one outer index.
  void (*columns)(const SoftmaxProblem& problem, Index outer, Index first, double* scratch,
                  const SoftmaxReport& report);
};

HALFULP_KERNEL_TABLE(SoftmaxKernels, softmax_kernels)

}  // namespace halfulp
