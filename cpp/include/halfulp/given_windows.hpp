// Hard max over small windows of a plane that start at given rows and columns, for float32 and float64; and the largest
// magnitude of sliding windows with its derivatives, where no two cells of a window share it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/patches.hpp"

namespace halfulp {

// Rows first. Starts never decrease. `last`: the last of equal cells wins, not the first.
struct GivenWindows {
  Index size[2], kernel[2], outputs[2];
  const Index* starts[2];
  bool last = false;
};

// Memory for rows, used again from plane to plane.
using GivenScratch = std::vector<double>;

// Whether windows can be done here: each has at most 256 cells, so that a byte holds a winner's offset.
bool given_windows_apply(const GivenWindows& windows, DType dtype);

// The maxima of a dense plane; and, one of them, the tangents at the winners or the winners' offsets in their windows.
// False if a cell is NaN: nothing is decided then. t, tangents and winners may be null.
bool given_maxima(const GivenWindows& windows, DType dtype, const char* x, const char* t, char* out, char* tangents,
                  std::uint8_t* winners, GivenScratch& scratch);

// The transpose: every cell is the sum of the cotangents of the windows that it wins. False if a sum is not exact in
// double, or a cotangent is -0 or not finite.
bool given_pullback(const GivenWindows& windows, DType dtype, const std::uint8_t* winners, const char* g, char* dx,
                    GivenScratch& scratch);

// One or two axes of small windows, or one window over a plane; the arrays are dense (planes, cells or windows).
bool magnitudes_apply(std::span<const PatchAxis> axes, DType dtype);
// The largest magnitudes and their tangents; the planes that have a NaN, or perhaps two cells with the same largest
// magnitude that is not 0, are left out and returned in order.
std::vector<Index> magnitude_tangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                      const ArrayView& t, const ArrayView& out, const ArrayView& tangents);
// What a winner is kept in: a byte for each window, an i64 for one window over a whole plane.
DType winner_type(std::span<const PatchAxis> axes);
// The same with what the pullback needs.
std::vector<Index> magnitude_winners(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                     const ArrayView& out, const ArrayView& winners);
// Every plane, of whatever cotangents.
void magnitude_pullback(std::span<const PatchAxis> axes, Index planes, const ArrayView& winners, const ArrayView& g,
                        const ArrayView& dx);

}  // namespace halfulp
