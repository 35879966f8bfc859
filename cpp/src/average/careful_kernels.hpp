// The loops of the careful lines: rows added in float64 or pairs of it, with bounds on their errors or without, sums
// along them, and quotients, rounded once.
#pragma once

#include "average/sums.hpp"
#include "base/kernel_table.hpp"

namespace halfulp {

// Exactness of the arithmetic, as the caller has found it for a block of input.
enum SumMode : int { kSingleExact, kSingleBounded, kDoubleExact, kDoubleBounded, kSumModes };

template <class Source>
struct SourceKernels {
  MagnitudeRange (*scan)(const Source* x, Index n);
  // out = the weighted sum of `count` >= 1 rows, at offsets from x; weights may be null. Index 0: exact, 1: bounded.
  void (*add_rows[2])(const Source* x, const Index* rows, const double* weights, Index count, Index n, const Sums& out);
  // out += entering - leaving, exactly.
  void (*slide)(const Source* leaving, const Source* entering, Index n, const Sums& out);
};

struct CarefulKernels {
  SourceKernels<float> f32;
  SourceKernels<double> f64;
  // By SumMode: the same for rows that are sums already.
  void (*add_sums[kSumModes])(const Sums& in, const Index* rows, const double* weights, Index count, Index n,
                              const Sums& out);
  void (*slide_sums[2])(const Sums& leaving, const Sums& entering, Index n, const Sums& out);  // by type
  void (*add_along[kSumModes])(const AlongTask& task, const Sums& in);
  void (*scale[kSumModes])(const Sums& values, const double* weights, Index lanes, Index n);
  // Rounds sums / divisor; the positions of undecided quotients go to `undecided`, their number is returned.
  Index (*finish_f16[2])(const Sums& in, Index n, const SumDivisor& divisor, Float16* out, std::int32_t* undecided);
  Index (*finish_bf16[2])(const Sums& in, Index n, const SumDivisor& divisor, BFloat16* out, std::int32_t* undecided);
  Index (*finish_f32[2])(const Sums& in, Index n, const SumDivisor& divisor, float* out, std::int32_t* undecided);
  Index (*finish_f64[2])(const Sums& in, Index n, const SumDivisor& divisor, double* out, std::int32_t* undecided);
};

HALFULP_KERNEL_TABLE(CarefulKernels, careful_kernels)

}  // namespace halfulp
