// What engines of hard max work on: how cells are stored and compared, the planes of arrays, and what an engine is.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>

#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "halfulp/max_pool.hpp"
#include "max/max_kernels.hpp"

namespace halfulp {

// How the cells of an array are stored and compared.

// An item's bits as often as eight bytes hold it.
constexpr std::uint64_t repeated(std::uint64_t bits, Index item) noexcept {
  for (Index width = item; width < 8; width *= 2) bits |= bits << (8 * width);
  return bits;
}

struct CellType {
  DType storage = DType::f32;
  Compared compared = Compared::f32;
  Index stored = 4;        // bytes in the array
  Index item = 4;          // bytes where cells are compared: halves are compared as floats
  std::uint64_t flip = 0;  // integers are compared as cell ^ flip, repeated

  // `cells` matter for integers only; floats are changed before they are compared.
  CellType(DType dtype, Cells cells) : storage(dtype), stored(static_cast<Index>(item_size(dtype))), item(stored) {
    constexpr Compared types[kDTypeCount] = {Compared::f32, Compared::f32, Compared::f32, Compared::f64, Compared::u8,
                                             Compared::i16, Compared::i32, Compared::i64, Compared::u8,  Compared::i16,
                                             Compared::i32, Compared::i64, Compared::u8};
    compared = types[static_cast<int>(dtype)];
    if (converts()) item = 4;
    if (is_number()) return;
    const bool other_sign = dtype == DType::i8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
    if (other_sign) flip = repeated(std::uint64_t{1} << (8 * item - 1), item);
    if (cells == Cells::negated) flip ^= dtype == DType::boolean ? repeated(1, 1) : ~std::uint64_t{0};
  }

  bool is_number() const noexcept { return is_float(storage); }
  bool converts() const noexcept { return storage == DType::f16 || storage == DType::bf16; }

  // What loses against every cell, repeated: under `absent` a NaN, else the lowest value.
  std::uint64_t padding(MaxRule rule) const noexcept {
    const bool nan = rule == MaxRule::absent;
    if (compared == Compared::f64) return nan ? 0x7ff8000000000000u : 0xfff0000000000000u;
    if (compared == Compared::f32) return repeated(nan ? 0x7fc00000u : 0xff800000u, 4);
    if (compared == Compared::u8) return flip;
    return repeated(std::uint64_t{1} << (8 * item - 1), item) ^ flip;
  }
};

// A cell is compared as (cell & keep) ^ flip, and a value goes back with flip: for the items of eight bytes at once.
// With `infinity`, the bits of a half type's, it is then compared by its sortable key, an int16 whose order is that of
// the numbers; that holds for data without NaN and without -0, which is not equal to +0 there.
struct CellBits {
  std::uint64_t keep = ~std::uint64_t{0}, flip = 0;
  std::int16_t infinity = 0;
};

// The unit of work: the windows [begin, end) of the first axis, on one plane or on a run of planes whose cells
// interleave in memory (the channels of channels-last storage), the lanes.

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

// The plane of one lane.
MaxPlane lane_of(const MaxPlane& plane, Index lane) noexcept;

// Computes windows [begin, end) along the first axis by walking each of them: handles everything.
void walk_plane(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end);

// How the leading axes of arrays fall into groups of planes. The planes of a group interleave in memory, their lanes
// one item apart, if the arrays are channels-last; else a group is one plane.

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

// Engines compute plane after plane, keeping their scratch memory between planes. One per thread.

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
  // Whether the values of the last run hold no NaN but the quiet one (cells.hpp).
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
