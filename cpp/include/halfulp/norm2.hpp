// The Euclidean norm of windows and its derivatives, with the elements that the arithmetic does not decide.
#pragma once

#include <vector>

#include "halfulp/patches.hpp"

namespace halfulp {

// x is (planes, cells), out (planes, windows), both dense. All return the flat positions in `out` that are undecided.
//
// float32 alone. Its squares are exact in double. The sum of n of them, all >= 0, has a relative error below
// (n - 1) * 2^-53, its root half of that and 2^-53 of its own: (n + 2) * 2^-53 bounds it.
std::vector<Index> norm2(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out);

// Every float type; float64 in pairs of doubles. A window or cell with a NaN or an infinity is undecided.
std::vector<Index> norm2_values(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                const ArrayView& out);
// out = sum(x * t) / norm for every window.
std::vector<Index> norm2_tangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& t,
                                  const ArrayView& out);
// out (planes, cells) = x * the sum of g / norm over the windows that hold the cell; g is (planes, windows).
std::vector<Index> norm2_cotangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                    const ArrayView& g, const ArrayView& out);

}  // namespace halfulp
