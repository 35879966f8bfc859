// The unit of work of hard max: the windows [begin, end) of the first axis, on one plane or on a run of planes whose
// cells interleave in memory (the channels of channels-last storage), the lanes.
#pragma once

#include <cstdint>

#include "halfulp/max_pool.hpp"

namespace halfulp {

// A plane of an array: where it starts and the byte strides of its spatial axes.
struct Plane {
  char* data = nullptr;
  const Index* strides = nullptr;

  explicit operator bool() const noexcept { return data != nullptr; }
};

// What to read and what to write; absent planes are not wanted. Lane l of every plane lies l items further.
struct MaxPlane {
  DType dtype = DType::f32;
  Index lanes = 1;
  Plane x, out;
  Plane tangent, out_tangent;  // of x's dtype
  Plane indices;               // int64
  Plane winners;               // winner_bytes per item
  Index winner_bytes = 1;
  bool stream = false;         // the arrays are larger than the caches
  Index first_index = 0;       // of the first cell, if the plane is a piece of a longer one

  bool value_only() const noexcept { return !tangent && !indices && !winners; }
};

// A cell is compared as (cell & keep) ^ flip, and a value goes back with flip: for the items of eight bytes at once.
// With `infinity`, the bits of a half type's, it is then compared by its sortable key, an int16 whose order is that of
// the numbers; that holds for data without NaN and without -0, which is not equal to +0 there.
struct CellBits {
  std::uint64_t keep = ~std::uint64_t{0}, flip = 0;
  std::int16_t infinity = 0;
};

// The plane of one lane.
MaxPlane lane_of(const MaxPlane& plane, Index lane) noexcept;

// Computes windows [begin, end) along the first axis by walking each of them: handles everything.
void walk_plane(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end);

}  // namespace halfulp
