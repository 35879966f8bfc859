// The Euclidean norm of windows of float32 numbers, with the outputs that double arithmetic does not decide.
#pragma once

#include <vector>

#include "halfulp/patches.hpp"

namespace halfulp {

// x is (planes, cells), out (planes, windows), both dense. Returns the flat positions in `out` that are undecided.
//
// Squares of float32 numbers are exact in double. The sum of n of them, all >= 0, has a relative error below
// (n - 1) * 2^-53, its root half of that and 2^-53 of its own: (n + 2) * 2^-53 bounds it.
std::vector<Index> norm2(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out);

}  // namespace halfulp
