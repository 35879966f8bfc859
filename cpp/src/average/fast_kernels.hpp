// Whole lines of averages in one pass: rows are added into a row of sums that stays in the first cache, sums along it
// are divided, rounded and stored. The sums are in float64, or in pairs of float64 for float64, and are hoped to be
// exact: the kernels take the magnitudes of what they read, and the caller asks afterwards whether these allowed any
// rounding error. If so, it knows a bound on the errors, and asks again which lines are right all the same.
#pragma once

#include <type_traits>

#include "average/sums.hpp"
#include "base/kernel_table.hpp"

namespace halfulp {

// Lines that are finished together at most.
inline constexpr Index kMostBatch = 4;

// A line of outputs: all indices but that of the last axis are fixed.
struct SumLine {
  Index row, row_count;        // its rows: offsets rows[row] ... in the source; none: the outputs are 0
  Index first_slab, end_slab;  // the part of the first axis that it reads
  Index out;                   // offset of its outputs
  Index divisor;               // a factor of the divisor
  Index leaving, entering;     // rows by which it differs from the line before; both 0: a new sum
  bool padded;                 // every window has a padded zero
  Index shared, sharing;       // its first rows that are the line before's last, its last that are the next one's first
};

struct OutputRange {
  Index begin, end;
};

struct PreparedDivisor {
  Index n = 0;  // none
  SumDivisor divisor{};
};

// Neighbouring lines of one plane, and a range of their outputs.
template <class T>
struct LineTask : AlongTask {
  const T* source;  // the plane
  const T* signs;   // another plane, of whose signs its cells get some, in exact_signed
  T* out;
  const SumLine* lines;
  Index line_count;
  const Index* rows;
  bool slides;  // lines may be made from the line before

  // What one step of the first axis reads, for the magnitudes.
  Index slab_stride, slab_count;
  const Index* slab_rows;
  Index slab_row_count, slab_column, slab_width;
  Index ahead;  // bytes of the next slabs to ask for with every line; 0: lines bring in few rows each

  // One lane: a row of sums has a margin of zeros at both ends, in which windows may begin or end.
  Index column, width;  // sources of a row that are read
  Index margin;         // sums before them
  Index reach;          // all sums of a row
  double zero_before, zero_after;  // in the margins; -0.0 changes no sum, whatever its sign
  const OutputRange* padded;  // outputs with a padded zero that is not in a margin
  Index padded_count;

  // Several lanes: the windows of the last axis, outputs `first_output` ... of them.
  Index lanes, first_output;
  const Index* first;
  const Index* count;
  const std::uint8_t* cell_padded;
  Index step, cell_stride, output_stride;

  const SumRun* runs;  // counted from the first output
  Index run_count;
  Index divisor;  // of all sums; 0: the product of the factors
  PreparedDivisor* last_divisor;  // kept from task to task

  // Sums that are off by up to `error` > 0: `unsure` tells of each line whether a quotient may be rounded wrongly.
  double error;
  std::uint8_t* unsure;

  Sums row;     // as `work`
  Index batch;  // rows of each kind of scratch
  // For sums that nothing may be lost of: those of `exact_batch` lines, of the rows that two lines share, a row of
  // negative zeros and a row of ones.
  double *exact, *kept;
  Index exact_batch;
  const T *nothing, *positive;
  T* unused;  // room for the outputs of a line
  std::int32_t* undecided;
  T (*resolve)(double sum, double low, Index divisor);  // the exact quotient
};

struct LineContents {
  MagnitudeRange range;
  bool negative_zero = false;  // looked for where lines slide
};

template <class T>
struct FastKernelsOf {
  LineContents (*sum_lines)(const LineTask<T>& task);
  LineContents (*sum_lanes)(const LineTask<T>& task);
  // Lines of magnitudes, and of cells times signs, all exact; false if it cannot. Null for most types.
  bool (*exact_sizes)(const LineTask<T>& task);
  bool (*exact_signed)(const LineTask<T>& task);
  // The sum of n neighbours to out[0], and their magnitudes. Index 1: sum and low, whatever the type.
  MagnitudeRange (*sum_all[2])(const T* x, Index n, const Sums& out);
  // The same for their absolute values.
  MagnitudeRange (*sum_sizes[2])(const T* x, Index n, const Sums& out);
  // And for x times the signs of others, none of which is NaN, with the magnitudes of x. Null for most types.
  MagnitudeRange (*sum_with_signs)(const T* signs, const T* x, Index n, const Sums& out);
};

struct FastKernels {
  FastKernelsOf<Float16> f16;
  FastKernelsOf<BFloat16> bf16;
  FastKernelsOf<float> f32;
  FastKernelsOf<double> f64;
};

HALFULP_KERNEL_TABLE(FastKernels, fast_kernels)

#ifndef HALFULP_ISA_NAMESPACE
template <class T>
const FastKernelsOf<T>& fast_kernels_of() {
  const FastKernels& all = select_fast_kernels();
  if constexpr (std::is_same_v<T, Float16>)
    return all.f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return all.bf16;
  else if constexpr (std::is_same_v<T, float>)
    return all.f32;
  else
    return all.f64;
}
#endif

}  // namespace halfulp
