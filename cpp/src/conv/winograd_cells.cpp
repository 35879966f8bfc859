// The cells of a group of patches: transformed, and measured for the error bound.
#include "conv/winograd_engine.hpp"

namespace halfulp::conv {

void WinogradEngine::find_runs(Workspace& work, Index number) {
  const Index lane = products_.rows;
  const Index begin = number * total_blocks_ / groups_ * lane;
  work.patches = (number + 1) * total_blocks_ / groups_ * lane - begin;
  grid_.find_runs(begin, std::min(begin + work.patches, grid_.count(p_.batch)), work.runs);
}

void WinogradEngine::transform_group(Workspace& work, Index number) {
  find_runs(work, number);
  find_floors(work);
  const Index stride = line_stride(), patches = work.patches, lane = products_.rows;
  for (Index p = 0; p < patches + kMaxRows - 1; ++p) {
    const Index q = std::min(p, patches - 1);
    work.positions[p] = q / lane * channels_ * lane + q % lane;
  }
  double* const lines = work.lines.at_least(kPatchSide * stride);
  double* const split = work.split.at_least(kSplitChannels * kPatchValues * patches);
  double* const cells = work.cells.at_least(kPatchValues * cell_stride(work));
  double* const squares = work.squares.at_least(kPatchValues * patches);
  const Index all_lines = static_cast<Index>(work.runs.size()) * stride;
  double* const cell_squares = work.cell_squares.at_least(all_lines);
  work.reach.at_least(16 * patches * static_cast<Index>(p_.sources.size()));
  std::fill_n(split, kSplitChannels * kPatchValues * patches, 0.0);  // patches that fill up the last block
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    const SourcePlanes& planes = p_.sources[s].planes;
    std::fill_n(squares, kPatchValues * patches, 0.0);
    std::fill_n(cell_squares, all_lines, 0.0);
    for (Index first = 0; first < p_.channels; first += kSplitChannels) {
      const Index count = std::min(kSplitChannels, p_.channels - first);
      for (Index c = 0; c < count; ++c) {
        double* run_squares = cell_squares;
        for (const PatchRun& run : work.runs) {
          load_patch_lines(grid_, planes, conv_group_ * p_.channels + first + c,
                           first + c + 1 < p_.channels ? planes.channel : 0, run, lines, stride);
          patch_.columns(lines, stride, run.count, split + c * kPatchValues * patches + run.first, patches,
                         run_squares);
          run_squares += stride;
        }
      }
      const Index channel = static_cast<Index>(s) * p_.channels + first;
      patch_.rows(split, patches, patches, lane, count, cells + channel * lane, cell_stride(work), channels_ * lane,
                  squares);
    }
    find_reach(work, s);
  }
}

// (N + e X)^2 <= (1 + t) N^2 + (1 + 1/t) e^2 X^2, here with t = 1/2: N is a norm of transformed cells, X of the cells.
void WinogradEngine::find_reach(Workspace& work, std::size_t s) {
  const Index patches = work.patches;
  double* const weighed = work.weighed.at_least(16 * patches);
  patch_.weigh(work.squares.at_least(1), patches, patches, bounds_.reach[0], weighed);
  double* const reach = work.reach.at_least(1) + static_cast<Index>(s) * 16 * patches;
  std::fill_n(reach, 16 * patches, 0.0);
  const double* run_squares = work.cell_squares.at_least(1);
  const double share = patch_.cell_roundings / roundings_;
  bool finite = true;
  for (const PatchRun& run : work.runs) {
    const Index below = grid_.down.left(run.phase[0], run.row);
    for (Index p = 0; p < run.count; ++p) {
      const Index right = grid_.across.left(run.phase[1], run.column + p), patch = run.first + p;
      double cells = 0;
      for (Index x = 0; x < kPatchSide; ++x) cells += run_squares[p * kPatchOutputs + x];
      for (Index i = 0; i < std::min<Index>(kPatchOutputs, below); ++i) {
        for (Index j = 0; j < std::min<Index>(kPatchOutputs, right); ++j) {
          const double most = share * bounds_.kappa[i] * bounds_.kappa[j];
          const double square = 1.5 * weighed[(i * 4 + j) * patches + patch] + 3 * most * most * cells;
          finite = finite && square <= std::numeric_limits<double>::max();
          reach[(i * patches + patch) * 4 + j] = std::sqrt(square);
        }
      }
    }
    run_squares += line_stride();
  }
  if (!finite) refused_ = true;
}

// Zeros are left undecided, for the transforms lose their signs; outputs that do not exist are not.
void WinogradEngine::find_floors(Workspace& work) {
  const Index patches = work.patches;
  double* const floors = work.floors.at_least(16 * patches);
  std::fill_n(floors, 16 * patches, 0.0);
  for (const PatchRun& run : work.runs) {
    const Index below = std::min<Index>(kPatchOutputs, grid_.down.left(run.phase[0], run.row));
    const Index right = std::min(run.count * kPatchOutputs, grid_.across.left(run.phase[1], run.column));
    for (Index i = 0; i < below; ++i) std::fill_n(floors + (i * patches + run.first) * 4, right, kZeroMargin);
  }
}

}  // namespace halfulp::conv
