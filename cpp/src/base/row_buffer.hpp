// Aligned scratch memory for rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "halfulp/array.hpp"
#include "base/convert_kernels.hpp"
#include "simd/compiler.hpp"

namespace halfulp {

// Bytes past the end of a row that kernels may read, and write in buffers.
inline constexpr Index kRowSlack = 128;

template <class T>
class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(Index count, T value) { assign(count, value); }

  void assign(Index count, T value) {
    if (count > capacity_) {
      data_.reset(static_cast<T*>(::operator new(static_cast<std::size_t>(count) * sizeof(T), kAlignment)));
      capacity_ = count;
    }
    std::fill_n(data_.get(), count, value);
  }
  T* data() const noexcept { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(T* p) const noexcept { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<T, Delete> data_;
  Index capacity_ = 0;
};

// A length rounded up to whole vectors of the widest instruction set.
template <class T>
constexpr Index padded_length(Index n) noexcept {
  constexpr Index lanes = 64 / static_cast<Index>(sizeof(T));
  return (n + lanes - 1) / lanes * lanes;
}

// How many rows, `step` bytes apart, to ask for memory ahead of reading it: about five kilobytes. Rows that are read by
// turns are not foreseen by every processor (measured: a Zen 5 takes half the time with this).
inline Index rows_ahead(Index step) noexcept {
  constexpr Index bytes = 5120;
  return std::max<Index>(1, bytes / std::max<Index>(1, step < 0 ? -step : step));  // the rows of a view may be one
}

// n items of storage type T as items of type C.
inline void widen_run(const Float16* source, float* target, Index n) {
  select_convert_kernels().from_f16(source, target, n);
}
inline void widen_run(const BFloat16* source, float* target, Index n) {
  select_convert_kernels().from_bf16(source, target, n);
}
inline void narrow_run(const float* source, Float16* target, Index n) {
  select_convert_kernels().to_f16(source, target, n);
}
inline void narrow_run(const float* source, BFloat16* target, Index n) {
  select_convert_kernels().to_bf16(source, target, n);
}

template <class T, class C>
inline constexpr bool is_half_pair =
    (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) && std::is_same_v<C, float>;

}  // namespace halfulp
