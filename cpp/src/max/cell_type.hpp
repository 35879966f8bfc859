// How the cells of an array are stored and compared.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "halfulp/dtype.hpp"
#include "halfulp/max_pool.hpp"
#include "max/max_kernels.hpp"

namespace halfulp {

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

}  // namespace halfulp
