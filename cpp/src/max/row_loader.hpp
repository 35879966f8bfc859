// Scratch for rows of cells whose type only the kernels know, and the way of rows from arrays into it and back.
#pragma once

#include "base/row_buffer.hpp"
#include "max/plane.hpp"

namespace halfulp {

// Items of equal size.
class ItemBuffer {
 public:
  // `bits` are those of every item, repeated to fill eight bytes.
  void assign(Index count, Index item, std::uint64_t bits = 0) {
    item_ = item;
    words_.assign((count * item + kRowSlack) / 8 + 1, bits);
  }
  char* data() const noexcept { return reinterpret_cast<char*>(words_.data()); }
  char* at(Index i) const noexcept { return data() + i * item_; }

 private:
  Index item_ = 1;
  RowBuffer<std::uint64_t> words_;
};

// A number of items rounded up to whole vectors of the widest instruction set.
constexpr Index padded_items(Index n, Index item) noexcept { return (n * item + 63) / 64 * 64 / item; }

// Where the cells of a row go: cell w of the padded row has position w / phases in the row of phase w % phases, so that
// a window that moves in steps of `phases` moves through every phase in steps of one. A position holds `lanes` items.
struct RowShape {
  Index cells = 0;   // real ones
  Index before = 0;  // positions of padding before them
  Index phases = 1;
  Index lanes = 1;
  Index pitch = 0;  // items from one row to the next
  Index rows = 1;   // that the buffer holds
};

// Loads rows of an array, one under the other; a half type is widened to float.
class RowLoader {
 public:
  RowLoader(const RowShape& shape, const CellType& type, std::uint64_t padding);

  void set_padding(std::uint64_t padding) { buffer_.assign(phase_pitch_ * shape_.phases, type_.item, padding); }

  // Items of a phase in row 0 from `position` on; the next row is pitch() items further.
  char* at(Index phase, Index position) const noexcept {
    return buffer_.at(phase * phase_pitch_ + position * shape_.lanes);
  }
  Index pitch() const noexcept { return shape_.pitch; }

  // Loads rows that lie `row_stride` bytes apart, their cells `stride` bytes apart, and tells what they hold.
  Contents load(const char* source, Index row_stride, Index stride, Index rows) {
    return load(source, row_stride, stride, rows, shape_.cells);
  }
  // The same for the first cells of a row only.
  Contents load(const char* source, Index row_stride, Index stride, Index rows, Index cells);

 private:
  const char* as_run(const char* source, Index n);
  const char* gathered(const char* source, Index stride);
  Contents deinterleave_rows(const char* run, Index step, Index first_row, Index rows);
  Contents load_channels(const char* source, Index stride, Index row);

  RowShape shape_;
  CellType type_;
  const MaxRowKernels& kernels_;
  Index cells_ = 0;  // of the rows being loaded
  Index phase_pitch_;
  ItemBuffer buffer_, widened_;
};

// Writes positions of `lanes` compared items as items of the array, positions `stride` bytes apart.
void write_row(const CellType& type, const char* source, char* target, Index stride, Index positions, Index lanes);

}  // namespace halfulp
