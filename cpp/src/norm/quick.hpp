// Euclidean norms of float32 cells and their derivatives, a row at a time with one error bound for all of its results.
// A row that the bound does not decide is left to norms::Pass.
#pragma once

#include <span>
#include <vector>

#include "halfulp/patches.hpp"

namespace halfulp::norms {

// Whether cotangents are known for such windows.
bool quick_cotangents_apply(std::span<const PatchAxis> axes);

// What a pullback needs: a copy of x and, where cotangents are known, 1 over the norms; null: not wanted.
struct Kept {
  float* x = nullptr;
  double* inverse = nullptr;
};

// Norms, and, if t is given, their tangents. Appends the undecided positions.
void quick_outputs(std::span<const PatchAxis> axes, Index planes, const float* x, const float* t, float* out,
                   float* tangents, const Kept& kept, std::vector<Index>& undecided,
                   std::vector<Index>& undecided_tangents);

// Cotangents of windows that are known; the undecided positions.
std::vector<Index> quick_cotangents(std::span<const PatchAxis> axes, Index planes, const float* x,
                                    const double* inverse, const float* g, float* out);

}  // namespace halfulp::norms
