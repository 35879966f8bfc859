// What the transforms of the weight product by patches do to norms (docs/explanation/error-bounds-convolution.md).
#pragma once

#include <cmath>

#include "conv/winograd_kernels.hpp"

namespace halfulp::conv {

// Along one axis: b and a are the 2-norms of the rows of B and A', and g the magnitudes of G'. The error of tap t is at
// most gamma times sum_k g_tk P_k Q_k, with P_k = N_k(cells) + cell_share b_k X and Q_k = N_k(outputs) + output_share
// a_k Y; that is split into sqrt(sum_k g_tk a_k / b_k P_k^2) and sqrt(sum_k g_tk b_k / a_k Q_k^2).
struct WeightPatchBounds {
  double cell_norm[kPatchSide], output_norm[kPatchSide], magnitude[kPatchTaps][kPatchSide];
  double cell_share, output_share;

  WeightPatchBounds(double of_cells, double of_outputs) : cell_share(of_cells), output_share(of_outputs) {
    const double point[kPatchSide - 1] = {0, kNear, -kNear, kFar, -kFar};
    const double scale[kPatchSide] = {kPointProduct, kNearScale, kNearScale, kFarScale, kFarScale, 1};
    for (int k = 0; k < kPatchSide; ++k) {
      const bool infinite = k == kPatchSide - 1, pair = k != 0 && !infinite;
      const double x = infinite ? 0 : point[k], x2 = x * x;
      const double other = k == 1 || k == 2 ? kFar2 : kNear2;  // the square of the other pair of points
      cell_norm[k] = pair ? std::sqrt((1 + x2) * (1 + other * other))
                          : std::sqrt(1 + kPointSum * kPointSum + kPointProduct * kPointProduct);
      output_norm[k] = std::sqrt(1 + x2 + x2 * x2 + x2 * x2 * x2);
      for (int t = 0; t < kPatchTaps; ++t)
        magnitude[t][k] = infinite ? (t == kPatchTaps - 1 ? 1.0 : 0.0) : std::abs(std::pow(x, t) / scale[k]);
    }
  }

  // The factor of a channel for each of the nine taps: `squares[value * stride]` are the squares of its norms, `size`
  // the norm of what was transformed.
  void factors(const double* squares, Index stride, double size, bool cells, double* out, Index out_stride) const {
    const double* const mine = cells ? cell_norm : output_norm;
    const double* const others = cells ? output_norm : cell_norm;
    const double share = cells ? cell_share : output_share;
    double p[kPatchValues];
    for (int k = 0; k < kPatchSide; ++k) {
      for (int l = 0; l < kPatchSide; ++l) {
        const double norm = mine[k] * mine[l];
        const double most = std::sqrt(squares[(k * kPatchSide + l) * stride]) + share * norm * size;
        p[k * kPatchSide + l] = others[k] * others[l] / norm * most * most;
      }
    }
    for (int i = 0; i < kPatchTaps; ++i) {
      for (int j = 0; j < kPatchTaps; ++j) {
        double sum = 0;
        for (int k = 0; k < kPatchSide; ++k)
          for (int l = 0; l < kPatchSide; ++l) sum += magnitude[i][k] * magnitude[j][l] * p[k * kPatchSide + l];
        out[(i * kPatchTaps + j) * out_stride] = std::sqrt(sum);
      }
    }
  }
};

}  // namespace halfulp::conv
