// Where the patches of 4 x 4 outputs and their 6 x 6 cells lie. Positions of a dilated kernel fall into phases, modulo
// the dilation: within a phase the kernel meets neighbours among the cells a dilation apart, as an ordinary one does.
#pragma once

#include <algorithm>
#include <vector>

#include "conv/stage.hpp"
#include "conv/winograd_kernels.hpp"

namespace halfulp::conv {

struct PatchAxis {
  Index positions, cells;
  Index first_cell;  // of position 0, perhaps in the padding
  Index apart;       // neighbouring positions of a phase
  Index phases, patches;  // patches of the first phase, the longest

  PatchAxis(Index all_positions, Index all_cells, Index first, Index dilation)
      : positions(all_positions),
        cells(all_cells),
        first_cell(first),
        apart(dilation),
        phases(std::min(all_positions, dilation)),
        patches(ceil_div(ceil_div(all_positions, dilation), kPatchOutputs)) {}

  Index position(Index phase, Index number) const { return phase + number * apart; }
  // How many positions a phase has from a patch on.
  Index left(Index phase, Index patch) const {
    return std::max<Index>(0, ceil_div(positions - phase, apart) - patch * kPatchOutputs);
  }
};

// Neighbouring patches that lie in one row of a phase: [first, first + count) of those that are taken together.
struct PatchRun {
  Index sample, row, column, count, first;
  Index phase[2];
};

struct PatchGrid {
  PatchAxis down, across;

  Index count(Index samples) const { return samples * down.phases * across.phases * down.patches * across.patches; }
  // Whether the products are at most half of those of the direct way, if patches are taken `together`.
  bool is_worth(Index samples, Index together) const {
    const Index patches = ceil_div(count(samples), together) * together;
    return 2 * kPatchValues * patches <= kPatchTaps * kPatchTaps * samples * down.positions * across.positions;
  }

  // The runs of the patches [begin, end).
  void find_runs(Index begin, Index end, std::vector<PatchRun>& runs) const {
    runs.clear();
    for (Index i = begin; i < end;) {
      const Index column = i % across.patches, number = i / across.patches, plane = number / down.patches;
      const Index some = std::min(across.patches - column, end - i), phase = plane / across.phases;
      runs.push_back({phase / down.phases, number % down.patches, column, some, i - begin,
                      {phase % down.phases, plane % across.phases}});
      i += some;
    }
  }
};

// The distance of the lines that hold the cells of so many neighbouring patches: kernels read beyond their end.
inline Index patch_line_stride(Index patches) { return odd_lines<double>(kPatchOutputs * patches + 2 + 40); }

// Six lines of the cells of a run, zeros in the padding and up to whole vectors. The cells of the channel `next`
// elements later are asked for.
inline void load_patch_lines(const PatchGrid& grid, const SourcePlanes& planes, Index channel, Index next,
                             const PatchRun& run, double* lines, Index stride) {
  const PatchAxis &down = grid.down, &across = grid.across;
  const Elements plane = planes.data + run.sample * planes.batch + channel * planes.channel;
  const Index left = across.position(run.phase[1], run.column * kPatchOutputs) + across.first_cell;
  Segment line{0, run.count * kPatchOutputs + 2, left, across.apart};
  line.find_real(across.cells);
  const Index end = ceil_div(line.count, 8) * 8, step = across.apart * planes.spatial[1];
  for (Index i = 0; i < kPatchSide; ++i, lines += stride) {
    const Index y = down.position(run.phase[0], run.row * kPatchOutputs + i) + down.first_cell;
    const bool real = y >= 0 && y < down.cells && line.low < line.high;
    const Index low = real ? line.low : end, high = real ? line.high : end;
    std::fill(lines, lines + low, 0.0);
    std::fill(lines + high, lines + end, 0.0);
    if (!real) continue;
    const Elements from = plane + (y * planes.spatial[0] + left * planes.spatial[1] + low * step);
    if (step == 1 && next != 0) prefetch(from, next, high - low);
    from.load(step, high - low, lines + low);
  }
}

}  // namespace halfulp::conv
