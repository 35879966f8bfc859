// What the transforms of patches do to norms, for the error bounds (docs/explanation/error-bounds-convolution.md).
#pragma once

#include <cmath>

#include "conv/winograd_kernels.hpp"

namespace halfulp::conv {

// Along one axis, for value k: the point (0 stands for infinity as the last one), the 2-norm of row k of B, that of the
// first powers of the point, and the magnitude of an entry of the interpolation, whose rows are powers up to `last`.
inline constexpr double kPatchPoint[kPatchSide] = {0, kNear, -kNear, kFar, -kFar, 0};

inline double cell_norm(int k) {
  const double x = kPatchPoint[k], other = k == 1 || k == 2 ? kFar2 : kNear2;  // the square of the other pair of points
  return x != 0 ? std::sqrt((1 + x * x) * (1 + other * other))
                : std::sqrt(1 + kPointSum * kPointSum + kPointProduct * kPointProduct);
}
inline double power_norm(int k, int powers) {
  double sum = 0;
  for (int i = 0; i < powers; ++i) sum += std::pow(kPatchPoint[k], 2 * i);
  return std::sqrt(sum);
}
inline double interpolation(int k, int power, int last) {
  constexpr double scale[kPatchSide - 1] = {kPointProduct, kNearScale, kNearScale, kFarScale, kFarScale};
  if (k == kPatchSide - 1) return power == last ? 1.0 : 0.0;
  return std::abs(std::pow(kPatchPoint[k], power) / scale[k]);
}

// Of the output product, along one axis: b and g are the 2-norms of the rows of B and G, and
// kappa_i = sum_k |A_ik| b_k g_k.
struct PatchBounds {
  double kappa[kPatchOutputs] = {};
  double reach[kPatchOutputs][kPatchSide];  // |A_ik| g_k / b_k * kappa_i: weights of the squares of transformed cells
  double size[kPatchOutputs][kPatchSide];   // |A_ik| b_k / g_k / kappa_i: of the squares of transformed filters

  PatchBounds() {
    for (int i = 0; i < kPatchOutputs; ++i) {
      const auto a = [&](int k) { return interpolation(k, i, kPatchOutputs - 1); };
      for (int k = 0; k < kPatchSide; ++k) kappa[i] += a(k) * cell_norm(k) * power_norm(k, kPatchTaps);
      for (int k = 0; k < kPatchSide; ++k) {
        const double ratio = cell_norm(k) / power_norm(k, kPatchTaps);
        reach[i][k] = a(k) / ratio * kappa[i];
        size[i][k] = a(k) * ratio / kappa[i];
      }
    }
  }
};

// Of the weight product, along one axis: b and a are the 2-norms of the rows of B and A', and g the magnitudes of G'.
// The error of tap t is at most gamma times sum_k g_tk P_k Q_k, with P_k = N_k(cells) + cell_share b_k X and
// Q_k = N_k(outputs) + output_share a_k Y; that is split into sqrt(sum_k g_tk a_k / b_k P_k^2) and
// sqrt(sum_k g_tk b_k / a_k Q_k^2).
struct WeightPatchBounds {
  double input_norm[kPatchSide], output_norm[kPatchSide], magnitude[kPatchTaps][kPatchSide];
  double cell_share, output_share;

  WeightPatchBounds(double of_cells, double of_outputs) : cell_share(of_cells), output_share(of_outputs) {
    for (int k = 0; k < kPatchSide; ++k) {
      output_norm[k] = power_norm(k, kPatchOutputs);
      input_norm[k] = cell_norm(k);
      for (int t = 0; t < kPatchTaps; ++t) magnitude[t][k] = interpolation(k, t, kPatchTaps - 1);
    }
  }

  // The factor of a channel for each of the nine taps: `squares[value * stride]` are the squares of its norms, `size`
  // the norm of what was transformed.
  void factors(const double* squares, Index stride, double size, bool cells, double* out, Index out_stride) const {
    const double* const mine = cells ? input_norm : output_norm;
    const double* const others = cells ? output_norm : input_norm;
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
