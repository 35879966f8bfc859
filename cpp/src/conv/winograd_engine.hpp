// Gather products with 3 x 3 kernels by patches (halfulp/patch_kernels.hpp), one group of channels at a time. A quarter
// of the products, but larger rounding errors, so that more sums stay undecided; where they become too many, or
// something is infinite or NaN, the engine refuses and another must do the work.
//
// Patches are taken in groups that fit the cache: transform the cells of a group, then for each panel of output
// channels sum products, value by value, transform the sums to outputs, accept or resolve, write.
#pragma once

#include <atomic>

#include "conv/gather_problem.hpp"
#include "conv/winograd_bounds.hpp"
#include "conv/tasks.hpp"

namespace halfulp::conv {

inline constexpr Index kPatchDepth = 64;                // channels summed before they are added to the running sums
inline constexpr Index kSplitChannels = 4;              // split into patches at a time
// Patches of a group at most. Fewer would stay in a nearer cache, but the filters come from far away for every group.
inline constexpr Index kPatchGroup = 32;
inline constexpr Index kPatchFilterBytes = 20 << 20;    // of transformed filters at a time
// Refused if more than one output in so many is undecided by patches, or by its direct sum as well.
inline constexpr Index kPatchUndecided = 256, kPatchHard = 1024;

// The transforms lose the signs of zeros. This margin, far below any nonzero sum of products of floats, leaves zeros
// undecided.
inline constexpr double kZeroMargin = 0x1p-300;

// Neighbouring patches of a group that lie in one row: [first, first + count).
struct PatchRun {
  Index sample, row, column, count, first;
};

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

template <class T>
struct PatchWorkspace {
  Buffer<double, true> lines;
  Buffer<double> cell_squares, split, cells, squares, weighed, reach, floors;        // of a group of patches
  Buffer<double> filter_lines, taps, filters, filter_squares, filter_sizes;  // of a panel
  Buffer<double> sums, outputs, turned;
  Buffer<T> rounded;
  Buffer<std::uint8_t> bad;
  std::vector<PatchRun> runs;
  Sizes position{0, 0};  // of the output that is being resolved
  Index group = -1;    // whose cells are transformed
  Index patches = 0;   // of it, a multiple of the matrix kernel's rows
  Index seen = 0, undecided = 0, hard = 0;  // hard: undecided by the direct sum, too
};

template <class T>
class PatchEngine {
 public:
  using Workspace = PatchWorkspace<T>;

  PatchEngine(const GatherProblem<T>& problem, Index group, const ConvKernels& kernels);

  static bool fits(const GatherProblem<T>& problem, const ConvKernels& kernels);
  // False if it refuses; then outputs may have been written or not.
  bool run();

 private:
  void make_panels(Index multiple);
  void run_group(Workspace& work, Index number, Index first_panel, Index last_panel, bool packed);
  // patch_cells.hpp
  void find_runs(Workspace& work, Index number);
  void transform_group(Workspace& work, Index number);
  void load_lines(std::size_t source, Index channel, const PatchRun& run, double* lines) const;
  void find_reach(Workspace& work, std::size_t source);
  void find_floors(Workspace& work);
  // patch_filters.hpp
  void load_taps(Workspace& work, const PatchPanel& panel, const PatchBlock& block) const;
  void transform_block(Workspace& work, const PatchPanel& panel, const PatchBlock& block, double* out);
  void find_sizes(Workspace& work, const PatchPanel& panel, std::size_t source);
  void pack_panel(Workspace& work, const PatchPanel& panel);
  // patch_finish.hpp
  void sum_block(Workspace& work, const PatchPanel& panel, const PatchBlock& block, const double* filters);
  void finish(Workspace& work, const PatchPanel& panel);
  void finish_channel(Workspace& work, Index row, double* sums);
  bool resolve(Workspace& work, Index row, const Acceptance& acceptance, const double* sums, T* out);
  bool sum_directly(Index sample, Index row, const Sizes& position, T& out) const;
  void write(const Workspace& work, Index row, const T* rounded) const;

  Index block_stride(const PatchBlock& block, Index width) const { return odd_lines<double>(block.count * width); }
  // Transformed cells: value i of patch b * rows + r, channel c, is at i * cell_stride + (b * channels + c) * rows + r.
  Index cell_stride(const Workspace& work) const { return odd_lines<double>(work.patches * channels_); }
  // Sums: value i of patch p is at i * sum_stride + p * width; a block of rows may reach beyond the last patch.
  Index sum_stride(const Workspace& work, Index width) const {
    return odd_lines<double>((work.patches + kMaxRows - 1) * width);
  }
  Index line_stride() const { return odd_lines<double>(4 * group_patches_ + 2 + 40); }

  const GatherProblem<T>& p_;
  const Index conv_group_;
  const ConvKernels& kernels_;
  const PatchKernels& patch_;
  const ProductKernels<double>& products_;
  const PatchBounds bounds_;
  const Index rows_, columns_;  // patches along the axes
  const Index channels_;        // of all sources
  Index first_cell_[2];         // of patch 0 along the axes
  std::vector<std::vector<Index>> tap_offsets_;  // per source, of the nine taps in the order of the cells they meet
  Index total_blocks_, groups_, group_patches_;
  double roundings_ = 0;
  std::vector<PatchPanel> panels_;
  std::vector<PatchBlock> blocks_;
  Buffer<double> packed_;
  std::vector<std::vector<double>> filter_size_;  // per source, per output channel
  std::atomic<bool> refused_{false};
};

// Three neighbouring cells along both axes, and channels and positions enough to be worth the transforms.
template <class T>
bool PatchEngine<T>::fits(const GatherProblem<T>& problem, const ConvKernels& kernels) {
  constexpr Index least_channels = 16, most_channels = 1024;  // more would need too much memory
  if (problem.gather.size() != 2 || problem.variants != 1 || problem.sources.size() > 2) return false;
  if (problem.channels < least_channels || problem.rows < least_channels) return false;
  if (problem.channels * static_cast<Index>(problem.sources.size()) > most_channels) return false;
  if (3 * problem.rows < problem.channels) return false;  // too few outputs for the cells that are transformed
  Index positions = problem.batch, patches = problem.batch;
  for (const GatherAxis& axis : problem.gather) {
    if (axis.tap.size() != kPatchTaps || axis.step != 1) return false;
    const Index step = axis.offset[1] - axis.offset[0];
    if (step * step != 1 || axis.offset[2] - axis.offset[1] != step) return false;
    positions *= axis.positions;
    patches *= ceil_div(axis.positions, kPatchOutputs);
  }
  const Index rows = kernels.wide.rows;
  return positions > 0 && 2 * kPatchValues * ceil_div(patches, rows) * rows <= 9 * positions;
}

template <class T>
PatchEngine<T>::PatchEngine(const GatherProblem<T>& problem, Index group, const ConvKernels& kernels)
    : p_(problem),
      conv_group_(group),
      kernels_(kernels),
      patch_(select_patch_kernels()),
      products_(kernels.wide),
      rows_(ceil_div(problem.gather[0].positions, kPatchOutputs)),
      columns_(ceil_div(problem.gather[1].positions, kPatchOutputs)),
      channels_(problem.channels * static_cast<Index>(problem.sources.size())),
      total_blocks_(ceil_div(problem.batch * rows_ * columns_, kernels.wide.rows)) {
  for (int axis = 0; axis < 2; ++axis) {
    const std::vector<Index>& offset = p_.gather[static_cast<std::size_t>(axis)].offset;
    first_cell_[axis] = std::min(offset.front(), offset.back());
  }
  const auto tap = [&](std::size_t axis, std::size_t cell) {
    const GatherAxis& one = p_.gather[axis];
    return one.tap[one.offset[1] > one.offset[0] ? cell : kPatchTaps - 1 - cell];
  };
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    const Source<T>& source = p_.sources[s];
    tap_offsets_.emplace_back();
    for (std::size_t i = 0; i < kPatchTaps; ++i)
      for (std::size_t j = 0; j < kPatchTaps; ++j)
        tap_offsets_.back().push_back(tap(0, i) * source.spatial[0] + tap(1, j) * source.spatial[1]);
    for (Index c = 0; c < p_.channels; c += kPatchDepth)
      blocks_.push_back({s, c, std::min(kPatchDepth, p_.channels - c), static_cast<Index>(s) * p_.channels + c});
  }
  filter_size_.assign(p_.sources.size(), std::vector<double>(static_cast<std::size_t>(p_.rows)));
  // Groups of like size, a whole number of them for each thread if there are few.
  const Index lane = products_.rows, threads = num_threads();
  const Index most = kPatchGroup / lane;
  groups_ = ceil_div(total_blocks_, most);
  if (groups_ > 1) groups_ = std::min(total_blocks_, ceil_div(groups_, threads) * threads);
  group_patches_ = ceil_div(total_blocks_, groups_) * lane;
  const Index depth = std::min(kPatchDepth, p_.channels);
  roundings_ = static_cast<double>(depth + static_cast<Index>(blocks_.size()) + 1) + patch_.value_roundings;
}

template <class T>
void PatchEngine<T>::make_panels(Index multiple) {
  const Index lanes = ceil_div(p_.rows, products_.width);
  Index pieces = ceil_div(lanes, products_.vectors);
  pieces = std::min(lanes, ceil_div(pieces, multiple) * multiple);
  Index first = 0;
  for (Index piece = 0; piece < pieces; ++piece) {
    const Index width = (lanes / pieces + (piece < lanes % pieces ? 1 : 0)) * products_.width;
    const Index columns = std::min(width, p_.rows - first);
    panels_.push_back({first, columns, width, 0});
    first += columns;
  }
}

template <class T>
bool PatchEngine<T>::run() {
  if (groups_ == 1) {  // every filter is used once: transform it where it is needed, and share out the panels
    make_panels(num_threads());
    run_tasks<Workspace>(static_cast<Index>(panels_.size()),
                         [&](Workspace& work, Index i) { run_group(work, 0, i, i + 1, false); });
    return !refused_;
  }
  make_panels(num_threads());
  const Index count = static_cast<Index>(panels_.size());
  for (Index begin = 0, end = 0; begin < count && !refused_; begin = end) {
    Index size = 0;
    for (; end < count; ++end) {
      PatchPanel& panel = panels_[static_cast<std::size_t>(end)];
      Index more = 0;
      for (const PatchBlock& block : blocks_) more += kPatchValues * block_stride(block, panel.width);
      if (end > begin && (size + more) * static_cast<Index>(sizeof(double)) > kPatchFilterBytes) break;
      panel.packed = size;
      size += more;
    }
    packed_.at_least(size);
    run_tasks<Workspace>(end - begin, [&](Workspace& work, Index i) {
      pack_panel(work, panels_[static_cast<std::size_t>(begin + i)]);
    });
    run_tasks<Workspace>(groups_, [&](Workspace& work, Index i) { run_group(work, i, begin, end, true); });
  }
  return !refused_;
}

template <class T>
void PatchEngine<T>::run_group(Workspace& work, Index number, Index first_panel, Index last_panel, bool packed) {
  if (refused_) return;
  if (work.group != number) transform_group(work, number);
  work.group = number;
  for (Index i = first_panel; i < last_panel && !refused_; ++i) {
    const PatchPanel& panel = panels_[static_cast<std::size_t>(i)];
    const double* filters = packed ? packed_.at_least(1) + panel.packed : nullptr;
    for (const PatchBlock& block : blocks_) {
      const Index size = kPatchValues * block_stride(block, panel.width);
      if (!packed) {
        double* const out = work.filters.at_least(kPatchValues * odd_lines<double>(kPatchDepth * panel.width));
        transform_block(work, panel, block, out);
        filters = out;
      }
      sum_block(work, panel, block, filters);
      if (packed) filters += size;
    }
    finish(work, panel);
  }
}

}  // namespace halfulp::conv

#include "conv/winograd_cells.hpp"
#include "conv/winograd_filters.hpp"
#include "conv/winograd_finish.hpp"
