// Cells that are changed before they are compared (a minimum is the maximum of negated cells), and values that are NaN.
#pragma once

#include <vector>

#include "max/plane.hpp"

namespace halfulp {

CellBits cell_bits(DType dtype, Cells cells) noexcept;
// The same with sortable keys, for a half type.
CellBits key_bits(DType dtype, Cells cells) noexcept;

// Rows of a plane with their cells changed, in scratch that stays in the second cache.
class ChangedCells {
 public:
  // The end of the run of output rows from `begin` on whose cells fit in the scratch; at least one row.
  Index run_end(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) const;
  // The plane with the cells of output rows [begin, end) changed. Valid until the next call.
  MaxPlane change(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end, const CellBits& bits);
  // Whether the last cells had no NaN and no -0, if they were changed to sortable keys.
  bool ordered() const noexcept { return ordered_; }
  // Takes the values of output rows [begin, end) back to what they stand for; a window without cells is 0.
  static void restore(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end, const CellBits& bits);

 private:
  std::vector<std::uint64_t> scratch_;
  Index strides_[kMaxRank] = {};
  bool ordered_ = true;
};

// A maximum that is NaN becomes the type's one quiet NaN: no sign, no payload. So the result does not depend on which
// of several NaNs an engine meets first, nor on what an instruction makes of a signalling one. For the outputs
// [begin, end) of the first axis.
void make_plane_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end);

}  // namespace halfulp
