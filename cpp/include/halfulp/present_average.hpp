// Averages and sums over the cells of a window that are numbers (nan="ignore"), and their derivatives.
#pragma once

#include <span>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/geometry.hpp"

namespace halfulp {

// What an average counts: the padding's zeros or not, and a divisor in place of the number of cells, or 0.
struct Counting {
  bool include_pad = true;
  Index divisor = 0;
};

// `y` holds the averages of `x` with NaN where a window has one; afterwards those windows hold the average of their
// numbers, or NaN if nothing is counted. If `t` is given, `dy` holds the averages of t, and gets those over the same
// cells; 0 where nothing is counted.
void average_present(std::span<const Axis> axes, Counting counting, const ArrayView& x, const ArrayView& y,
                     const ArrayView* t = nullptr, const ArrayView* dy = nullptr);

// The averages of `x` over the numbers of windows that are pairs of neighbours along the last axis, in one pass; false
// if the windows, the type or the layout are others.
bool average_present_pairs(std::span<const Axis> axes, Counting counting, const ArrayView& x, const ArrayView& y);

// What the pullback divides by, for every output in row-major order: 0 where no cell takes part.
std::vector<Index> present_divisors(std::span<const Axis> axes, Counting counting, const ArrayView& x);

// dx = for every cell that is a number, the sum of g / divisor over its windows, rounded once; 0 for the others.
// `numbers` has one byte per cell of x in row-major order.
void spread_present(std::span<const Axis> axes, std::span<const Index> divisors, std::span<const char> numbers,
                    const ArrayView& g, const ArrayView& dx);

// One byte per cell in row-major order: 1 for a number, 0 for NaN.
std::vector<char> numbers_of(const ArrayView& x);

}  // namespace halfulp
