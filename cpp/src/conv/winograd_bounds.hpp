// What the transforms of patches do to norms, for the error bound (docs/explanation/error-bounds-convolution.md).
#pragma once

#include <cmath>

#include "conv/winograd_kernels.hpp"

namespace halfulp::conv {

// Along one axis: b and g are the 2-norms of the rows of B and G, and kappa_i = sum_k |A_ik| b_k g_k.
struct PatchBounds {
  double kappa[kPatchOutputs] = {};
  double reach[kPatchOutputs][kPatchSide];  // |A_ik| g_k / b_k * kappa_i: weights of the squares of transformed cells
  double size[kPatchOutputs][kPatchSide];   // |A_ik| b_k / g_k / kappa_i: of the squares of transformed filters

  PatchBounds() {
    const double point[kPatchSide - 1] = {0, kNear, -kNear, kFar, -kFar};
    const double scale[kPatchSide] = {kPointProduct, kNearScale, kNearScale, kFarScale, kFarScale, 1};
    for (int i = 0; i < kPatchOutputs; ++i) {
      double a[kPatchSide], b[kPatchSide], g[kPatchSide];
      for (int k = 0; k < kPatchSide; ++k) {
        const bool infinite = k == kPatchSide - 1;
        const double x = infinite ? 0 : point[k];
        const double other = k == 1 || k == 2 ? kFar2 : kNear2;  // the square of the other pair of points
        const bool pair = k != 0 && !infinite;
        a[k] = infinite ? (i == kPatchOutputs - 1 ? 1.0 : 0.0) : std::abs(std::pow(x, i) / scale[k]);
        b[k] = pair ? std::sqrt((1 + x * x) * (1 + other * other))
                    : std::sqrt(1 + kPointSum * kPointSum + kPointProduct * kPointProduct);
        g[k] = infinite ? 1 : std::sqrt(1 + x * x + x * x * x * x);
        kappa[i] += a[k] * b[k] * g[k];
      }
      for (int k = 0; k < kPatchSide; ++k) {
        reach[i][k] = a[k] * g[k] / b[k] * kappa[i];
        size[i][k] = a[k] * b[k] / g[k] / kappa[i];
      }
    }
  }
};

}  // namespace halfulp::conv
