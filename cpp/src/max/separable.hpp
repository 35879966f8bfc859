// Engines that compute hard max plane after plane, keeping their scratch memory between planes. One per thread.
#pragma once

#include <memory>

#include "max/cell_type.hpp"
#include "max/plane.hpp"

namespace halfulp {

class PlaneEngine {
 public:
  virtual ~PlaneEngine() = default;
  // Windows [begin, end) of the first axis. False if a value was met that needs the walk; everything is then to be
  // computed again.
  virtual bool run(const MaxPlane& plane, Index begin, Index end) = 0;
  // The same of changed cells, straight from the array; values go back to what they stand for. False if the engine does
  // not do that, or if a NaN was met, or a -0 by sortable keys.
  virtual bool run_changed(const MaxPlane&, Index, Index, const CellBits&) { return false; }
  // Whether it does that; a failure is then due to the data.
  virtual bool changes() const noexcept { return false; }
  // Whether the values of the last run hold no NaN but the quiet one (nan.hpp).
  virtual bool has_quiet_nans() const noexcept { return false; }
};

// For sliding windows; null where it does not apply. All planes that it will get are like `prototype` but for
// addresses. `type` says how their cells are compared.
std::unique_ptr<PlaneEngine> make_separable(const MaxPlan& plan, const MaxPlane& prototype, const CellType& type);

// For values of small sliding windows over interleaved planes; null where it does not apply.
std::unique_ptr<PlaneEngine> make_channels_last(const MaxPlan& plan, const MaxPlane& prototype, const CellType& type);

// For values of small sliding windows over dense rows; null where it does not apply.
std::unique_ptr<PlaneEngine> make_columns_first(const MaxPlan& plan, const MaxPlane& prototype, const CellType& type);

// For adaptive and global windows, and for sliding ones that hardly overlap. One axis is cut into any ranges.
bool bins_apply(const MaxPlan& plan, const MaxPlane& prototype) noexcept;
std::unique_ptr<PlaneEngine> make_bins(const MaxPlan& plan, const MaxPlane& prototype, const CellType& type);

}  // namespace halfulp
