// The sums of the weight product over one tile of positions.
#pragma once

#include "conv/weight_engine.hpp"

namespace halfulp::conv {

// The tile's outputs, one line per output channel, sample after sample; each run along the last axis starts `line`
// elements after the one before, and is followed by zeros.
template <class S>
void WeightEngine<S>::load_outputs(Workspace& work, const WeightTask& task, const Samples& samples, const Tile& tile,
                                      Index line) {
  const int last = tile.count.size() - 1;
  const Index run = tile.count[last];
  const Index runs = tile.positions() / run, length = samples.count * runs * line;
  S* out = work.lines.at_least(task.outs * length);
  for (Index m = 0; m < task.outs; ++m) {
    const Index channel = task.group * p_.out_channels + task.first_out + m;
    Elements data = p_.outputs.data + samples.first * p_.outputs.batch + channel * p_.outputs.channel;
    for (Index n = 0; n < samples.count; ++n, data += p_.outputs.batch) {
      for (Index i = 0; i < runs; ++i, out += line) {
        Index rest = i, offset = tile.first[last] * p_.outputs.spatial.back();
        for (int axis = last - 1; axis >= 0; --axis) {
          offset += (tile.first[axis] + rest % tile.count[axis]) * p_.outputs.spatial[static_cast<std::size_t>(axis)];
          rest /= tile.count[axis];
        }
        (data + offset).load(p_.outputs.spatial.back(), run, out);
        std::fill(out + run, out + line, S(0));
      }
    }
    measure_outputs(work, m, out - length, length);
  }
}

// Stages `count` input channels of the samples, and lists where the kernel finds positions and rows.
template <class S>
void WeightEngine<S>::stage_inputs(Workspace& work, const WeightTask& task, const Samples& samples, Index first,
                                      Index count) {
  const Index cells = work.plan.cells();
  const bool inside = p_.inputs.channel == 1 && p_.inputs.spatial.back() != 1;
  const SlabLayout layout = SlabLayout::of<S>(samples.count * cells, count, inside);
  S* const slab = work.slab.at_least((ceil_div(samples.count * cells, 16) + 1) * 16 * count);
  const Index channel = task.group * p_.in_channels + task.first_in + first;
  Stager<S> stager(work.plan, p_.inputs);
  work.offsets.clear();
  for (Index n = 0; n < samples.count; ++n) {
    const Index begin = n * cells * layout.cell;
    stager.stage(p_.inputs.data + (samples.first + n) * p_.inputs.batch + channel * p_.inputs.channel, count, layout,
                 slab + begin);
    for (const Index cell : work.plan.position_cells()) work.offsets.push_back(begin + cell * layout.cell);
  }
  work.rows.clear();
  for (Index c = 0; c < count; ++c)
    for (const Index cell : work.plan.tap_cells()) work.rows.push_back(slab + c * layout.channel + cell * layout.cell);
  // The kernel takes whole groups of rows; sums of the rows that fill up the last group are never looked at.
  while (static_cast<Index>(work.rows.size()) % products_.rows != 0) work.rows.push_back(work.rows.back());
  measure_inputs(work, first, count, samples.count * cells, slab, layout);
}

template <class S>
void WeightEngine<S>::matrix_tile(Workspace& work, const WeightTask& task, const Samples& samples,
                                     const Tile& tile) {
  const Index positions = samples.count * tile.positions();
  load_outputs(work, task, samples, tile, tile.count[tile.count.size() - 1]);
  // Panels of up to `vectors` vectors of columns, one after the other.
  S* const panels = work.panel.at_least(positions * work.width);
  const Index most = products_.vectors * products_.width;
  for (Index first = 0; first < work.width; first += most) {
    const Index width = std::min(most, work.width - first), columns = std::min(width, task.outs - first);
    S* const panel = panels + first * positions;
    products_.transpose(work.lines.at_least(1) + first * positions, positions, columns, positions, panel, width);
    for (Index m = columns; m < width; ++m)
      for (Index i = 0; i < positions; ++i) panel[i * width + m] = S(0);
  }
  for (Index first = 0; first < task.ins; first += work.step) {
    stage_inputs(work, task, samples, first, std::min(work.step, task.ins - first));
    S* const sums = work.sums.at_least(1) + row_of(work, first, 0) * work.width;
    for (Index k = 0; k < positions; k += kWeightBlock) {
      const Index depth = std::min(kWeightBlock, positions - k);
      for (Index column = 0; column < work.width; column += most) {
        const Index width = std::min(most, work.width - column);
        const S* const panel = panels + column * positions + k * width;
        for (Index r = 0; r < static_cast<Index>(work.rows.size()); r += products_.rows)
          products_.matrix[width / products_.width - 1](work.rows.data() + r, work.offsets.data() + k, panel, depth,
                                                        sums + r * work.width + column, work.width, work.plane, false);
      }
    }
  }
}

template <class S>
void WeightEngine<S>::dot_tile(Workspace& work, const WeightTask& task, Index n, const Tile& tile) {
  const Index run = tile.count[tile.count.size() - 1];
  const Index line = ceil_div(run, products_.width) * products_.width;
  load_outputs(work, task, {n, 1}, tile, line);
  const SlabLayout layout = SlabLayout::of<S>(work.plan.cells(), 1, false);
  S* const slab = work.slab.at_least(work.plan.cells() + 4 * products_.width);
  Stager<S> stager(work.plan, p_.inputs);
  for (Index c = 0; c < task.ins; ++c) {
    const Index channel = task.group * p_.in_channels + task.first_in + c;
    stager.stage(p_.inputs.data + n * p_.inputs.batch + channel * p_.inputs.channel, 1, layout, slab);
    measure_inputs(work, c, 1, work.plan.cells(), slab, layout);
    for (Index m = 0; m < task.outs; ++m) {
      const S* const values = work.lines.at_least(1) + m * (tile.positions() / run) * line;
      add_dots(work, tile, values, slab, line, work.sums.at_least(1) + (m * task.ins + c) * taps_ * products_.width);
    }
  }
}

// The products of the tile's lines with the cells of each tap: line by line, or level by level. A level holds the lines
// that differ in their index along the last axis but one.
template <class S>
void WeightEngine<S>::add_dots(Workspace& work, const Tile& tile, const S* values, const S* slab, Index line,
                                  S* sums) {
  const std::vector<Index>& cells = work.plan.position_cells();
  const std::vector<Index>& taps = work.plan.tap_cells();
  const Index run = tile.count[tile.count.size() - 1], runs = tile.positions() / run;
  const Index width = products_.width, level = level_lines(tile);
  for (Index first = 0; first < runs; first += lanes_ ? level : 1) {
    const Index begin = cells[static_cast<std::size_t>(first * run)];
    if constexpr (std::is_same_v<S, double>) {
      if (lanes_) {
        const Index step = level > 1 ? cells[static_cast<std::size_t>((first + 1) * run)] - begin : 0;
        const DotLines part{values + first * line, line, slab + begin, step, level, line};
        for (Index t = 0; t < taps_; t += kMostDotTaps)
          weight_.dot(part, taps.data() + t, std::min(kMostDotTaps, taps_ - t), sums + t * width);
        continue;
      }
    }
    for (Index t = 0; t < taps_; t += kMaxDotTaps)
      products_.dot(values + first * line, slab + begin, taps.data() + t, std::min<Index>(kMaxDotTaps, taps_ - t), line,
                    sums + t * width, work.plane);
  }
}

}  // namespace halfulp::conv
