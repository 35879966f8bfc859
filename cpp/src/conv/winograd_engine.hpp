// Applies to output and input products with 3 x 3 kernels of stride 1 and 16 channels or more on both sides. Its bound:
// Lemma 4 in docs/explanation/error-bounds-convolution.md.
//
// Winograd's method (winograd_kernels.hpp), one group of channels at a time: a quarter of the products, but larger
// rounding errors, so that more sums stay undecided. Where they become too many, or something is infinite or NaN, the
// engine refuses and another must do the work.
//
// Patches are taken in groups that fit the cache: transform the cells of a group, then for each panel of output
// channels sum products, value by value, transform the sums to outputs, accept or resolve, write.
#pragma once

#include <atomic>

#include "conv/gather_problem.hpp"
#include "conv/patch_bounds.hpp"
#include "conv/patch_grid.hpp"
#include "conv/tasks.hpp"

namespace halfulp::conv {

inline constexpr Index kPatchDepth = 64;                // channels summed before they are added to the running sums
inline constexpr Index kFilterChannels = 16;            // of a panel of filters, transformed at a time
inline constexpr Index kSplitChannels = 4;              // split into patches at a time
// Patches of a group at most. Fewer would stay in a nearer cache, but the filters come from far away for every group.
inline constexpr Index kPatchGroup = 32;
inline constexpr Index kPatchFilterBytes = 80 << 20;    // of transformed filters at a time
inline constexpr Index kNearFilterBytes = 4 << 20;      // transformed filters that stay in a near cache
// Refused if more than one output in so many is undecided by patches, or by its direct sum as well.
inline constexpr Index kPatchUndecided = 256, kPatchHard = 1024;

// The transforms lose the signs of zeros. This margin, far below any nonzero sum of products of floats, leaves zeros
// undecided.
inline constexpr double kZeroMargin = 0x1p-300;

// Some output channels: [first, first + columns), `width` of them with the filling.
struct PatchPanel {
  Index first, columns, width;
  Index packed;  // offset in the transformed filters
};

// A block of channels of one source.
struct PatchBlock {
  std::size_t source;
  Index first, count;
  Index number;  // of its first channel among those of all sources
};

struct WinogradWorkspace {
  Buffer<double, true> lines;
  Buffer<double> cell_squares, split, cells, squares, weighed, reach, floors;        // of a group of patches
  Buffer<double> filter_lines, taps, filters, filter_squares, filter_sizes;  // of a panel
  Buffer<double> sums, outputs, turned;
  Buffer<std::byte> rounded;
  Buffer<std::uint8_t> bad;
  std::vector<PatchRun> runs;
  Sizes position{0, 0};  // of the output that is being resolved
  Index group = -1;    // whose cells are transformed
  Index positions[kPatchGroup + 2 * kMaxRows];  // of its patches in the transformed cells; the last one again beyond
  Index patches = 0;   // of it, a multiple of the matrix kernel's rows
  Index seen = 0, undecided = 0, hard = 0;  // hard: undecided by the direct sum, too
};

class WinogradEngine {
 public:
  using Workspace = WinogradWorkspace;

  WinogradEngine(const GatherProblem& problem, Index group, const ConvKernels& kernels);

  static bool fits(const GatherProblem& problem, const ConvKernels& kernels);
  // False if it refuses; then outputs may have been written or not.
  bool run();

 private:
  void make_panels();
  void run_group(Workspace& work, Index number, Index first_panel, Index last_panel, bool packed);
  // winograd_cells.cpp
  void find_runs(Workspace& work, Index number);
  void transform_group(Workspace& work, Index number);
  void find_reach(Workspace& work, std::size_t source);
  void find_floors(Workspace& work);
  // winograd_filters.cpp
  void load_taps(Workspace& work, const PatchPanel& panel, const Source& source, Index first, Index count) const;
  void transform_block(Workspace& work, const PatchPanel& panel, const PatchBlock& block, double* out);
  void find_sizes(Workspace& work, const PatchPanel& panel, std::size_t source);
  void pack_panel(Workspace& work, const PatchPanel& panel);
  // winograd_finish.cpp
  void sum_block(Workspace& work, const PatchPanel& panel, const PatchBlock& block, const double* filters);
  void finish(Workspace& work, const PatchPanel& panel);
  void finish_channel(Workspace& work, Index row, double* sums);
  bool resolve(Workspace& work, Index row, const Acceptance& acceptance, const double* sums, const Outputs& out);
  bool sum_directly(Index sample, Index row, const Sizes& position, const Outputs& out) const;
  void write(const Workspace& work, Index row, const Elements& rounded) const;

  bool filters_are_far() const {
    return groups_ > 1 && kPatchValues * p_.rows * channels_ * static_cast<Index>(sizeof(double)) > kNearFilterBytes;
  }
  Index block_stride(const PatchBlock& block, Index width) const { return odd_lines<double>(block.count * width); }
  // Transformed cells: value i of patch b * rows + r, channel c, is at i * cell_stride + (b * channels + c) * rows + r.
  Index cell_stride(const Workspace& work) const { return odd_lines<double>(work.patches * channels_); }
  // Sums: value i of patch p is at i * sum_stride + p * width; a block of rows may reach beyond the last patch.
  Index sum_stride(const Workspace& work, Index width) const {
    return odd_lines<double>((work.patches + kMaxRows - 1) * width);
  }
  Index line_stride() const { return patch_line_stride(group_patches_); }

  const GatherProblem& p_;
  const ElementType& type_;
  const Index conv_group_;
  const ConvKernels& kernels_;
  const PatchKernels& patch_;
  const ProductKernels<double>& products_;
  const PatchBounds bounds_;
  const PatchGrid grid_;
  const Index channels_;        // of all sources
  std::vector<std::vector<Index>> tap_offsets_;  // per source, of the nine taps in the order of the cells they meet
  Index total_blocks_, groups_, group_patches_;
  double roundings_ = 0;
  std::vector<PatchPanel> panels_;
  std::vector<PatchBlock> blocks_;
  Buffer<double> packed_;
  std::vector<std::vector<double>> filter_size_;  // per source, per output channel
  std::atomic<bool> refused_{false};
};

// Not for float64. False if this is no problem for patches or if they could not do it: then it is still to be done, and
// outputs may have been written.
bool run_winograd(const GatherProblem& problem, const ConvKernels& kernels);

}  // namespace halfulp::conv
