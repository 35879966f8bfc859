// A view of somebody else's array: pointer, element type, shape and byte strides of any sign. Owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>

#include "halfulp/dtype.hpp"

namespace halfulp {

using Index = std::int64_t;

inline constexpr int kMaxRank = 64;  // what NumPy allows

// Multiplies sizes; false if the product does not fit in an Index.
constexpr bool checked_product(std::span<const Index> sizes, Index& product) noexcept {
  product = 1;
  bool overflow = false;
  for (const Index size : sizes) {
    if (size == 0) {
      product = 0;
      return true;
    }
    if (product > std::numeric_limits<Index>::max() / size) overflow = true;
    else product *= size;
  }
  return !overflow;
}

// A short list of sizes or strides with no allocation.
class Sizes {
 public:
  Sizes() = default;
  Sizes(std::initializer_list<Index> values) {
    for (const Index value : values) push_back(value);
  }
  explicit Sizes(std::span<const Index> values) {
    for (const Index value : values) push_back(value);
  }
  Sizes(const Sizes& other) noexcept : size_(other.size_) {
    for (int i = 0; i < size_; ++i) values_[i] = other.values_[i];
  }
  Sizes& operator=(const Sizes& other) noexcept {
    size_ = other.size_;
    for (int i = 0; i < size_; ++i) values_[i] = other.values_[i];
    return *this;
  }

  void push_back(Index value) noexcept { values_[size_++] = value; }
  void resize(int size) noexcept { size_ = size; }
  int size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Index& operator[](int i) noexcept { return values_[i]; }
  Index operator[](int i) const noexcept { return values_[i]; }
  const Index* data() const noexcept { return values_; }
  Index* data() noexcept { return values_; }
  const Index* begin() const noexcept { return values_; }
  const Index* end() const noexcept { return values_ + size_; }
  std::span<const Index> span() const noexcept { return {values_, static_cast<std::size_t>(size_)}; }
  std::span<const Index> last(int count) const noexcept { return span().last(static_cast<std::size_t>(count)); }
  bool operator==(const Sizes& other) const noexcept {
    if (size_ != other.size_) return false;
    for (int i = 0; i < size_; ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

 private:
  int size_ = 0;
  Index values_[kMaxRank];
};

struct ArrayView {
  char* data = nullptr;
  DType dtype = DType::f32;
  Sizes shape;
  Sizes strides;  // in bytes

  int ndim() const noexcept { return shape.size(); }
  // Number of elements; only for arrays that exist, whose size therefore fits.
  Index count() const noexcept {
    Index n = 1;
    for (const Index size : shape) n *= size;
    return n;
  }
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data);
  }
};

// The byte offset of element number `flat` of the axes [0, axes) in row-major order.
inline Index offset_of(const ArrayView& view, Index flat, int axes) noexcept {
  Index offset = 0;
  for (int axis = axes - 1; axis >= 0; --axis) {
    const Index size = view.shape[axis];
    offset += (flat % size) * view.strides[axis];
    flat /= size;
  }
  return offset;
}

// A view with `count` axes of size 1 at the end.
inline ArrayView with_unit_axes(ArrayView view, int count) noexcept {
  for (; count > 0; --count) {
    view.shape.push_back(1);
    view.strides.push_back(static_cast<Index>(item_size(view.dtype)));
  }
  return view;
}

}  // namespace halfulp
