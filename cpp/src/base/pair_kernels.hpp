// Windows of two by two cells side by side: a row of windows covers two rows of cells. A code is a cell of its
// window, 2 * row + column.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

struct PairKernels {
  // The codes of flat indices (rows, columns) in a plane of `width` columns, where all cells are below 2^31. False if
  // an index is not in its window.
  bool (*codes)(const std::int64_t* indices, std::int64_t rows, std::int64_t columns, std::int64_t width,
                std::uint8_t* codes);
  // Two rows of 2 n items of 1, 2, 4 or 8 bytes: the values where the codes say, and 0. A value has its first bit
  // changed if its code has the bit 0x80, and has no cell if it has the bit 0x40.
  void (*place)(const void* values, const std::uint8_t* codes, void* upper, void* lower, std::int64_t n,
                std::int64_t item);
  // The transpose: out[i] = the cell that code i says, without such bits.
  void (*pick)(const void* upper, const void* lower, const std::uint8_t* codes, void* out, std::int64_t n,
               std::int64_t item);
};

HALFULP_KERNEL_TABLE(PairKernels, pair_kernels)

}  // namespace halfulp
