// Means and sums of integers over windows, exact and rounded once: to nearest, ties to even.
#pragma once

#include <span>
#include <string>

#include "halfulp/array.hpp"
#include "halfulp/geometry.hpp"

namespace halfulp {

// out = for every leading index and output, the sum of the window's cells over the number of counted cells, or over
// `divisor` if that is not 0. `in` has an integer type or bool, `out` any type; the last axes.size() axes of both are
// spatial. Returns the flat index (row-major) of the first output whose value its type cannot hold, or -1.
// A window of 2^31 cells or more is an Error I7.
Index average_integers(const std::string& name, std::span<const Axis> axes, bool count_include_pad, Index divisor,
                       const ArrayView& in, const ArrayView& out);

}  // namespace halfulp
