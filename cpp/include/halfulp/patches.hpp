// Windows as columns of a matrix (unfold, im2col), and the sum back into planes (fold, col2im). All arrays are dense
// and C-ordered.
#pragma once

#include <span>

#include "halfulp/array.hpp"

namespace halfulp {

// The windows along one axis: window o holds the cells o * stride + w * dilation - before for w in [0, kernel).
struct PatchAxis {
  Index size, kernel, stride, dilation, before, outputs;
};

// x is (planes, cells), out (planes, offsets in the window, windows); cells of the padding are 0.
void unfold(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out);
// The transpose: every cell is the sum of what its windows hold of it, rounded once; 0 if no window holds it.
void fold(std::span<const PatchAxis> axes, Index planes, const ArrayView& patches, const ArrayView& out);

// out = values times the signs of x, +0 where x is 0; a value that is 0 keeps its sign unless `zeros` is set. Returns
// whether an x is NaN, where out is the value itself. All of one float type; out may be values.
bool give_signs(const ArrayView& x, const ArrayView& values, const ArrayView& out, bool zeros);

}  // namespace halfulp
