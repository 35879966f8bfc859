// Values placed in the cells of planes by index, and picked from there. All arrays are dense and C-ordered; their last
// `ndim` axes are those of a plane.
#pragma once

#include <cstdint>
#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

// Where values were placed. A plane is in `cells`, a cell for each value or -1 if it is not there; or, if that is
// empty, each value is in its own window of two by two cells, and `codes` says where.
struct Placed {
  std::vector<std::uint8_t> codes;
  std::vector<std::vector<Index>> cells;
  int ndim = 0;
  Sizes values, out;
};

// What is placed with the same indices (int64): values in out and, if these are not null, tangents in out_tangents.
struct Placing {
  int ndim;
  ArrayView values, indices, out;
  const ArrayView *tangents = nullptr, *out_tangents = nullptr;
};

// Outputs are 0 but where an index says; of equal indices the last counts, and -1 drops its value. The first position
// of an index below -1 or beyond the cells is returned, -1 if there is none. Where values were placed is kept if
// `placed` is not null.
Index place(const Placing& placing, Placed* placed = nullptr);
// The transpose: the cells at the indices; 0 where another value was placed later, or none.
void pick(const Placed& placed, const ArrayView& cells, const ArrayView& out);

}  // namespace halfulp
