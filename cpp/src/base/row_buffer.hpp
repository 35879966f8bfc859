// Aligned scratch memory for rows, and the loading of a row of an array into it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "halfulp/array.hpp"
#include "base/convert_kernels.hpp"
#include "max/max_kernels.hpp"

namespace halfulp {

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

// Asks for memory that will be read soon; it need not exist.
inline void prefetch_bytes(const char* source, Index bytes) noexcept {
#if defined(__GNUC__) || defined(__clang__)
  for (Index i = 0; i < bytes; i += 64) __builtin_prefetch(source + i);
#else
  (void)source, (void)bytes;
#endif
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

// Where the cells of a row go: cell w of the padded row has place w / ways in target w % ways, so that a window that
// moves in steps of `ways` moves through every target in steps of one. A place holds `lanes` items.
struct RowShape {
  Index cells = 0;   // real ones
  Index before = 0;  // places of padding before them
  Index ways = 1;
  Index lanes = 1;
  Index pitch = 0;  // items from one row to the next
  Index rows = 1;   // that the buffer holds
};

// Loads rows of an array, one under the other. T: the array's storage type. C: the buffer's; a half-precision T is
// widened to float.
template <class T, class C, class Kernels>
class RowLoader {
 public:
  RowLoader(const RowShape& shape, const Kernels& kernels, C padding)
      : shape_(shape), kernels_(&kernels), way_pitch_(shape.pitch * shape.rows + kRowSlack) {
    set_padding(padding);
    widened_.assign(padded_length<C>(shape.cells * shape.lanes) + kRowSlack, C{});
  }

  void set_padding(C padding) { buffer_.assign(way_pitch_ * shape_.ways, padding); }

  // Items of target `way` in row 0 from place `place` on; the next row is pitch() items further.
  const C* at(Index way, Index place) const noexcept {
    return buffer_.data() + way * way_pitch_ + place * shape_.lanes;
  }
  C* at(Index way, Index place) noexcept { return buffer_.data() + way * way_pitch_ + place * shape_.lanes; }
  Index pitch() const noexcept { return shape_.pitch; }

  // Loads rows that lie `row_stride` bytes apart, their cells `stride` bytes apart, and tells what they hold.
  Contents load(const char* source, Index row_stride, Index stride, Index rows) {
    return load(source, row_stride, stride, rows, shape_.cells);
  }

  // The same for the first cells of a row only.
  Contents load(const char* source, Index row_stride, Index stride, Index rows, Index cells) {
    cells_ = cells;
    const Index n = cells * shape_.lanes;
    const bool dense = stride == static_cast<Index>(sizeof(T)) * shape_.lanes;
    if constexpr (std::is_same_v<T, C>) {
      if (dense && row_stride % static_cast<Index>(sizeof(T)) == 0)
        return deinterleave_rows(reinterpret_cast<const C*>(source), row_stride / static_cast<Index>(sizeof(T)), 0,
                                 rows);
    }
    Contents worst = Contents::finite;
    for (Index r = 0; r < rows; ++r) {
      const char* row = source + r * row_stride;
      if (!dense && shape_.lanes > 1) worst = std::max(worst, load_channels(row, stride, r));
      else worst = std::max(worst, deinterleave_rows(dense ? as_run(row, n) : gathered(row, stride), 0, r, 1));
    }
    return worst;
  }

 private:
  // Contiguous items as items of type C: the array itself if it has them.
  const C* as_run(const char* source, Index n) {
    if constexpr (is_half_pair<T, C>) {
      widen_run(reinterpret_cast<const T*>(source), widened_.data(), n);
      return widened_.data();
    } else {
      return reinterpret_cast<const C*>(source);
    }
  }

  const C* gathered(const char* source, Index stride) {
    C* target = widened_.data();
    for (Index w = 0; w < cells_; ++w) {
      if constexpr (is_half_pair<T, C>) target[w] = to_float(*reinterpret_cast<const T*>(source + w * stride));
      else target[w] = *reinterpret_cast<const C*>(source + w * stride);
    }
    return target;
  }

  // Rows of items of type C, `step` items apart, to the rows from `first_row` on.
  Contents deinterleave_rows(const C* run, Index step, Index first_row, Index rows) {
    const Index ways = shape_.ways, lanes = shape_.lanes, before = shape_.before, down = first_row * shape_.pitch;
    const RowRun dense{rows, cells_ * lanes, step, shape_.pitch};
    if (ways == 1) return kernels_->copy(run, at(0, before) + down, dense);
    if (lanes == 1 && ways <= 3) {
      C* targets[3];
      for (Index way = 0; way < ways; ++way) targets[way] = at((before + way) % ways, (before + way) / ways) + down;
      return (ways == 2 ? kernels_->deinterleave2 : kernels_->deinterleave3)(run, targets, dense);
    }
    Contents worst = Contents::finite;
    for (Index w = 0; w < cells_; ++w) {
      C* target = at((before + w) % ways, (before + w) / ways) + down;
      worst = std::max(worst, kernels_->copy(run + w * lanes, target, {rows, lanes, step, shape_.pitch}));
    }
    return worst;
  }

  Contents load_channels(const char* source, Index stride, Index row) {
    Contents worst = Contents::finite;
    for (Index w = 0; w < cells_; ++w) {
      const Index place = shape_.before + w;
      C* target = at(place % shape_.ways, place / shape_.ways) + row * shape_.pitch;
      const C* run = as_run(source + w * stride, shape_.lanes);
      worst = std::max(worst, kernels_->copy(run, target, {1, shape_.lanes, 0, 0}));
    }
    return worst;
  }

  RowShape shape_;
  Index cells_ = 0;  // of the rows being loaded
  const Kernels* kernels_;
  Index way_pitch_;
  RowBuffer<C> buffer_, widened_;
};

// Writes n items of type C as items of type T, `stride` bytes apart in places of `lanes`.
template <class T, class C>
void write_row(const C* source, char* target, Index stride, Index places, Index lanes) {
  const auto write_run = [](const C* from, char* to, Index n) {
    if constexpr (is_half_pair<T, C>) narrow_run(from, reinterpret_cast<T*>(to), n);
    else std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  };
  if (stride == static_cast<Index>(sizeof(T)) * lanes) return write_run(source, target, places * lanes);
  for (Index place = 0; place < places; ++place) write_run(source + place * lanes, target + place * stride, lanes);
}

}  // namespace halfulp
