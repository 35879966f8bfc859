// The unit of work of hard max's pullback: one plane.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "halfulp/array.hpp"
#include "exact/quotients.hpp"
#include "max/plane.hpp"

namespace halfulp {

struct PullbackPlane {
  DType dtype = DType::f32;
  Index lanes = 1;      // as in MaxPlane
  Plane dx, cotangent;  // of one dtype
  Plane winners;        // winner_bytes per output
  Index winner_bytes = 1;
  bool stream = false;  // dx is larger than the caches
};

// For small sliding windows: the cotangents of a row of cells are gathered in vectors. One per thread.
class GatherEngine {
 public:
  virtual ~GatherEngine() = default;
  // The cells [begin, end) of the first axis. False, with nothing decided, if sums could be inexact in double.
  virtual bool run(const PullbackPlane& plane, Index begin, Index end) = 0;
};

// Null where it does not apply.
std::unique_ptr<GatherEngine> make_gather(const MaxPlan& plan, const PullbackPlane& prototype);

Index count_bits(const std::uint8_t* bytes, Index count) noexcept;

}  // namespace halfulp
