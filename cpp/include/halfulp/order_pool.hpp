// Medians and modes over windows: the value, and the cells that give it.
#pragma once

#include <span>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/geometry.hpp"

namespace halfulp {

enum class OrderKind { median, mode };

// out = the median (of an even number of cells the mean of the middle two, rounded once, to nearest even) or the mode
// (the smallest of the most frequent) of every window's real cells; 0 if it has none. A NaN is the value of its window
// unless `ignore_nan` and there is a number.
void order_pool(std::span<const Axis> axes, OrderKind kind, bool ignore_nan, const ArrayView& in, const ArrayView& out);

// For every output in row-major order the flat indices, in `in`, of the cells that give it: twice the same, or the two
// whose mean it is; -1 without a cell. Equal cells are taken in row-major order. Floats only.
std::vector<Index> order_picks(std::span<const Axis> axes, OrderKind kind, bool ignore_nan, const ArrayView& in);

// dy = the tangents of the picked cells, or their mean, rounded once.
void order_push(std::span<const Index> picks, const ArrayView& t, const ArrayView& dy);

// dx = for every cell the sum of what its windows hand back, rounded once.
void order_pull(std::span<const Index> picks, const ArrayView& g, const ArrayView& dx);

}  // namespace halfulp
