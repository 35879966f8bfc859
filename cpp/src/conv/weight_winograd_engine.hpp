// Applies to weight products with 3 x 3 kernels of stride 1 and at least 16 channels on both sides; its bound: "Weight
// cotangents by patches" in docs/explanation/error-bounds-convolution.md.
//
// Winograd's method transposed (weight_kernels.hpp). Like the output product's engine it refuses where too many sums
// stay undecided, or something is infinite or NaN.
//
// A task owns the weights between some input and some output channels. It walks through all patches in chunks:
// transform the cells and the outputs of a chunk, then for each of the 36 values add a matrix product over the patches
// to its sums. At the end the sums are transformed to taps, accepted or resolved, and written.
#pragma once

#include <atomic>
#include <vector>

#include "conv/patch_bounds.hpp"
#include "conv/patch_grid.hpp"
#include "conv/tasks.hpp"
#include "conv/weight_terms.hpp"

namespace halfulp::conv {

inline constexpr Index kChunkPatches = 96;         // at most
inline constexpr Index kMostChunkSums = 32;        // chunks whose sums are added up before they join the totals
inline constexpr Index kPatchTaskChannels = 128;   // on either side, at most
inline constexpr Index kTransformedTogether = 4;   // input channels
inline constexpr Index kUndecidedWeights = 32;     // refused if more than one weight in so many is undecided
inline constexpr double kZeroWeightMargin = 0x1p-300;  // leaves zeros undecided, whose signs the transforms lose

struct WeightWinogradWorkspace {
  Buffer<double, true> lines;
  Buffer<double> cell_squares, split, cells, unused;              // of a chunk: cells[value][channel][patch]
  Buffer<double> output_lines, turned, outputs, output_squares;   // outputs[value][panel][patch][column]
  Buffer<double> sums, totals, taps, reach, sizes, floors;        // sums[value][input channel][output channel]
  Buffer<std::byte> rounded;
  Buffer<std::uint8_t> bad;
  std::vector<double> input_squares, input_size;  // [channel][value], [channel]
  std::vector<PatchRun> runs;
  SparseChannels sparse;
  Index patches = 0, padded = 0;  // of the chunk; rounded up to whole vectors
  Index width = 0, rows = 0;      // of the sums: output and input channels with the filling
  Index seen = 0, undecided = 0;
};

class WeightWinogradEngine {
 public:
  using Workspace = WeightWinogradWorkspace;

  WeightWinogradEngine(const WeightProblem& problem, const ConvKernels& kernels);

  static bool fits(const Geometry& geometry);
  // False if it refuses; then weights may have been written or not.
  bool run();

 private:
  void make_tasks();
  void run_task(Workspace& work, const WeightTask& task);
  // weight_winograd_sums.cpp
  void find_runs(Workspace& work, Index chunk) const;
  void transform_cells(Workspace& work, const WeightTask& task);
  void load_outputs(Workspace& work, const WeightTask& task, const PatchRun& run);
  void transform_outputs(Workspace& work, const WeightTask& task);
  void sum_chunk(Workspace& work, const WeightTask& task, bool first);
  // weight_winograd_finish.cpp
  void find_sizes(Workspace& work, const WeightTask& task);
  void finish(Workspace& work, const WeightTask& task);
  bool finish_tap(Workspace& work, const WeightTask& task, Index in, Index tap);

  Index line_stride() const { return patch_line_stride(chunk_patches_); }
  Index cell_stride(const Workspace& work, Index channels) const { return odd_lines<double>(work.padded * channels); }
  Index output_stride(const Workspace& work) const { return odd_lines<double>(work.patches * work.width); }
  Index sum_stride(const Workspace& work) const { return odd_lines<double>(work.rows * work.width); }
  Index panel_width() const { return products_.vectors * products_.width; }

  const WeightProblem& p_;
  const ElementType& type_;
  const ConvKernels& kernels_;
  const PatchKernels& patch_;
  const WeightKernels& weight_;
  const ProductKernels<double>& products_;
  const WeightTerms terms_;
  const PatchGrid grid_;
  const Index patches_;  // of the batch
  const Index chunks_, chunk_patches_, flush_;
  const double roundings_;
  const WeightPatchBounds bounds_;
  std::vector<WeightTask> tasks_;
  std::atomic<bool> refused_{false};
};

}  // namespace halfulp::conv
