// The signs of cells as bits: whether a cell is negative, and whether it is zero. Both at once is the code of a NaN.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

namespace halfulp {

inline constexpr std::int64_t kSignWord = 32;  // cells whose bits are written together

struct SignBits {
  std::uint8_t *negative, *zero;

  bool is_negative(std::int64_t cell) const { return bit(negative, cell) && !bit(zero, cell); }
  bool is_nan(std::int64_t cell) const { return bit(negative, cell) && bit(zero, cell); }

 private:
  static bool bit(const std::uint8_t* bits, std::int64_t cell) { return (bits[cell / 8] >> cell % 8 & 1) != 0; }
};

struct SignKernels {
  // The signs of cells [begin, end) of x, floats of `item` bytes whose infinity has these bits; begin is a multiple of
  // kSignWord, and what end lacks to one is written too.
  void (*encode)(const void* x, std::int64_t begin, std::int64_t end, std::int64_t item, std::uint64_t infinity,
                 const SignBits& signs);
  // to[i] = from[i] times the sign of cell at + i; +0 where that is 0. `stream`: past the caches. What is returned says
  // whether a cell is NaN, or a zero has changed its sign. Eight bytes from a bit on are read.
  bool (*decode)(const SignBits& signs, std::int64_t at, const void* from, void* to, std::int64_t n, std::int64_t item,
                 bool stream);
};

HALFULP_KERNEL_TABLE(SignKernels, sign_kernels)

}  // namespace halfulp
