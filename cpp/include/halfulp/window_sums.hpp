// Correctly rounded averages over windows, any number of axes, any layout: the engine of the average family.
#pragma once

#include <cstdint>

#include "halfulp/array.hpp"
#include "halfulp/sum_plan.hpp"

namespace halfulp {

// out = for every leading index and output, the sum over the plan's sources of `in`, divided and rounded once. The last
// plan.axes.size() axes of both are spatial; the leading shapes are equal. Floating-point types only; no aliasing.
void sum_windows(const SumPlan& plan, const ArrayView& in, const ArrayView& out);

// The same of the magnitudes of `in`; all arrays are C-ordered, here and below. `signs`, if it is not null, gets the
// signs of the cells: sign_bytes of their number.
void sum_magnitudes(const SumPlan& plan, const ArrayView& in, const ArrayView& out, std::uint8_t* signs = nullptr);
std::size_t sign_bytes(Index cells);
// And the sums of the tangents times the signs of x: a term is +0 where x is 0 and NaN where it is NaN.
void sum_magnitudes_jvp(const SumPlan& plan, const ArrayView& x, const ArrayView& t, const ArrayView& out,
                        const ArrayView& out_tangent);
// dx = the sums of g under the transposed plan, times the signs of the cells.
void sum_signed(const SumPlan& transpose, std::uint8_t* signs, const ArrayView& g, const ArrayView& dx);

}  // namespace halfulp
