// How the leading axes of arrays fall into groups of planes. The planes of a group interleave in memory, their lanes
// one item apart, if the arrays are channels-last; else a group is one plane.
#pragma once

#include <initializer_list>

#include "halfulp/array.hpp"
#include "max/plane.hpp"

namespace halfulp {

// An array whose planes are wanted: its address, byte strides and item size; absent if `data` is null.
struct Strided {
  char* data = nullptr;
  const Sizes* strides = nullptr;
  Index item = 1;

  Strided() = default;
  Strided(char* address, const Sizes& byte_strides, Index item_bytes)
      : data(address), strides(&byte_strides), item(item_bytes) {}
  explicit Strided(const ArrayView& view)
      : data(view.data), strides(&view.strides), item(static_cast<Index>(item_size(view.dtype))) {}
};

class PlaneLayout {
 public:
  // `first` decides: lanes are used if its last axis is not contiguous, and every array can follow.
  PlaneLayout(const Sizes& shape, int leading, const Strided& first, std::initializer_list<const Strided*> others)
      : leading_(leading), shape_(&shape) {
    const int last = shape.size() - 1;
    if ((*first.strides)[last] != first.item || shape[last] == 1) {
      for (int axis = 0; axis < leading && lane_axis_ < 0; ++axis) {
        bool fits = shape[axis] > 1 && (*first.strides)[axis] == first.item;
        for (const Strided* other : others)
          fits = fits && (other->data == nullptr || (*other->strides)[axis] == other->item);
        if (fits) lane_axis_ = axis;
      }
    }
    if (lane_axis_ >= 0) lanes = shape[lane_axis_];
    for (int axis = 0; axis < leading; ++axis)
      if (axis != lane_axis_) groups *= shape[axis];
  }

  Plane plane(const Strided& array, Index group) const noexcept {
    if (array.data == nullptr) return {};
    Index offset = 0;
    for (int axis = leading_ - 1; axis >= 0; --axis) {
      if (axis == lane_axis_) continue;
      offset += (group % (*shape_)[axis]) * (*array.strides)[axis];
      group /= (*shape_)[axis];
    }
    return {array.data + offset, array.strides->data() + leading_};
  }

  Index lanes = 1;
  Index groups = 1;

 private:
  int leading_;
  const Sizes* shape_;
  int lane_axis_ = -1;
};

}  // namespace halfulp
