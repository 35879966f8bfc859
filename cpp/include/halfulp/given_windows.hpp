// Hard max over small windows of a plane that start at given rows and columns, for float32 and float64.
#pragma once

#include <cstdint>
#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

// Rows first. `last`: the last of equal cells wins, not the first.
struct GivenWindows {
  Index size[2], kernel[2], outputs[2];
  const Index* starts[2];
  bool last = false;
};

// Whether windows can be done here: each has at most 256 cells, so that a byte holds a winner's offset.
bool given_windows_apply(const GivenWindows& windows, DType dtype);

// The maxima of a dense plane; and, one of them, the tangents at the winners or the winners' offsets in their windows.
// False if a cell is NaN: nothing is decided then. t, tangents and winners may be null.
bool given_maxima(const GivenWindows& windows, DType dtype, const char* x, const char* t, char* out, char* tangents,
                  std::uint8_t* winners);

// The transpose: every cell is the sum of the cotangents of the windows that it wins. False if a sum is not exact in
// double, or a cotangent is 0 or not finite. `sums` is scratch.
bool given_pullback(const GivenWindows& windows, DType dtype, const std::uint8_t* winners, const char* g, char* dx,
                    std::vector<double>& sums);

}  // namespace halfulp
