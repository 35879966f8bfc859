// The unit of work of hard max's pullback: one plane.
#pragma once

#include <cstdint>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/quotients.hpp"
#include "max_plane.hpp"

namespace halfulp {

struct PullbackPlane {
  DType dtype = DType::f32;
  Plane dx, cotangent;  // of one dtype
  Plane winners;        // winner_bytes per output
  Index winner_bytes = 1;
};

// Vectorised over the cells of a row for small sliding windows; false, with nothing decided, where it does not apply.
bool gather_pullback(const MaxPlan& plan, const PullbackPlane& plane);

Index count_bits(const std::uint8_t* bytes, Index count) noexcept;

}  // namespace halfulp
