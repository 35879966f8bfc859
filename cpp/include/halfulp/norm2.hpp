// The Euclidean norm of windows and its derivatives, with the elements that the arithmetic does not decide.
#pragma once

#include <utility>
#include <vector>

#include "halfulp/patches.hpp"

namespace halfulp {

// x is (planes, cells), out (planes, windows), both dense. All return the flat positions that are undecided.
//
// Squares of float32 and narrower types are exact in double; float64 is computed in pairs of doubles. A window or cell
// with a NaN or an infinity may be undecided.
std::vector<Index> norm2_values(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                const ArrayView& out);
// The same, and what norm2_cotangents takes: a copy of x, and 1 over the norms in double if that is of use.
bool norm2_wants_inverse(std::span<const PatchAxis> axes, DType dtype);
std::vector<Index> norm2_keep(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out,
                              const ArrayView& kept, const ArrayView& inverse);
// The norms, and tangents = sum(x * t) / norm for every window; the positions of either.
std::pair<std::vector<Index>, std::vector<Index>> norm2_tangents(std::span<const PatchAxis> axes, Index planes,
                                                                 const ArrayView& x, const ArrayView& t,
                                                                 const ArrayView& out, const ArrayView& tangents);
// out (planes, cells) = x * the sum of g / norm over the windows that hold the cell; g is (planes, windows).
std::vector<Index> norm2_cotangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                    const ArrayView& inverse, const ArrayView& g, const ArrayView& out);

}  // namespace halfulp
