// Euclidean norms of float32 cells and their derivatives, a row at a time with one error bound for all of its results.
// A row that the bound does not decide is left to norms::Pass.
#pragma once

#include <span>
#include <vector>

#include "halfulp/patches.hpp"

namespace halfulp::norms {

// Norms, and, if t is given, their tangents; and a copy of x, if `kept` is not null. Appends the undecided positions.
void quick_outputs(std::span<const PatchAxis> axes, Index planes, const float* x, const float* t, float* out,
                   float* tangents, float* kept, std::vector<Index>& undecided,
                   std::vector<Index>& undecided_tangents);

// Cotangents; false if windows of this kind are not known, and nothing is done.
bool quick_cotangents(std::span<const PatchAxis> axes, Index planes, const float* x, const float* g, float* out,
                      std::vector<Index>& undecided);

}  // namespace halfulp::norms
