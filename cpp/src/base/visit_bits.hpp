// Work on items of which only the size matters.
#pragma once

#include <cstdint>

#include "halfulp/dtype.hpp"

namespace halfulp {

// Calls f with an unsigned integer as wide as an item.
template <class F>
void visit_bits(DType dtype, F&& f) {
  switch (item_size(dtype)) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

}  // namespace halfulp
