// Where the patches of 4 x 4 outputs lie. Positions of a dilated kernel fall into phases, modulo the dilation: within a
// phase the kernel meets neighbours among the cells that lie a dilation apart, as an ordinary one does.
#pragma once

#include <algorithm>
#include <vector>

#include "conv/stage.hpp"
#include "conv/winograd_kernels.hpp"

namespace halfulp::conv {

struct PatchAxis {
  Index positions = 0;
  Index apart = 1;  // neighbouring positions of a phase
  Index phases = 0, patches = 0;  // patches of the first phase, the longest

  PatchAxis(Index all_positions, Index dilation)
      : positions(all_positions),
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

// A line of cells, `step` elements apart from `first` on, zeros where they lie in the padding and up to whole vectors.
// The real ones of the channel `next` elements later are asked for.
inline void load_line(const Elements& plane, Index first, Index step, const Segment& line, bool real, Index next,
                      double* out) {
  const Index end = ceil_div(line.count, 8) * 8, low = real ? line.low : end, high = real ? line.high : end;
  std::fill(out, out + low, 0.0);
  std::fill(out + high, out + end, 0.0);
  if (low >= high) return;
  const Elements from = plane + (first + low * step);
  if (step == 1 && next != 0) prefetch(from, next, high - low);
  from.load(step, high - low, out + low);
}

}  // namespace halfulp::conv
