// The sums of the weight product over one tile of positions.
#pragma once

#include "conv/weight_engine.hpp"

namespace halfulp::conv {

// The tile's outputs, one line per output channel; each run along the last axis starts `line` elements after the one
// before, and is followed by zeros.
template <class T, class S>
void WeightEngine<T, S>::load_outputs(Workspace& work, const WeightTask& task, Index n, const Tile& tile, Index line) {
  const auto load = load_kernel<T, S>(kernels_);
  const int last = tile.count.size() - 1;
  const Index run = tile.count[last];
  const Index runs = tile.positions() / run;
  S* out = work.lines.at_least(task.outs * runs * line);
  for (Index m = 0; m < task.outs; ++m) {
    const Index channel = task.group * g_.out_channels + task.first_out + m;
    const T* const data = outputs_.data + n * outputs_.batch + channel * outputs_.channel;
    for (Index i = 0; i < runs; ++i, out += line) {
      Index rest = i, offset = tile.first[last] * outputs_.spatial.back();
      for (int axis = last - 1; axis >= 0; --axis) {
        offset += (tile.first[axis] + rest % tile.count[axis]) * outputs_.spatial[static_cast<std::size_t>(axis)];
        rest /= tile.count[axis];
      }
      load(data + offset, outputs_.spatial.back(), run, out);
      std::fill(out + run, out + line, S(0));
    }
    measure_outputs(work, m, out - runs * line, runs * line);
  }
}

template <class T, class S>
void WeightEngine<T, S>::matrix_tile(Workspace& work, const WeightTask& task, Index n, const Tile& tile) {
  const Index positions = tile.positions();
  load_outputs(work, task, n, tile, tile.count[tile.count.size() - 1]);
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
  const Index cells = work.plan.cells();
  const bool inside = inputs_.channel == 1 && inputs_.spatial.back() != 1;
  Stager<T, S> stager(kernels_, work.plan, inputs_);
  for (Index first = 0; first < task.ins; first += work.step) {
    const Index count = std::min(work.step, task.ins - first);
    const SlabLayout layout = SlabLayout::of(cells, count, inside);
    S* const slab = work.slab.at_least((ceil_div(cells, 16) + 1) * 16 * count);
    const Index channel = task.group * g_.in_channels + task.first_in + first;
    stager.stage(inputs_.data + n * inputs_.batch + channel * inputs_.channel, count, layout, slab);
    work.offsets.clear();
    for (const Index cell : work.plan.position_cells()) work.offsets.push_back(cell * layout.cell);
    work.rows.clear();
    for (Index c = 0; c < count; ++c)
      for (const Index cell : work.plan.tap_cells())
        work.rows.push_back(slab + c * layout.channel + cell * layout.cell);
    // The kernel takes whole groups of rows; sums of the rows that fill up the last group are never looked at.
    while (static_cast<Index>(work.rows.size()) % products_.rows != 0) work.rows.push_back(work.rows.back());
    measure_inputs(work, first, count, slab, layout);
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

template <class T, class S>
void WeightEngine<T, S>::dot_tile(Workspace& work, const WeightTask& task, Index n, const Tile& tile) {
  const Index run = tile.count[tile.count.size() - 1];
  const Index line = ceil_div(run, products_.width) * products_.width;
  const Index runs = tile.positions() / run;
  load_outputs(work, task, n, tile, line);
  const S* const lines = work.lines.at_least(1);
  const std::vector<Index>& cells = work.plan.position_cells();
  const std::vector<Index>& taps = work.plan.tap_cells();
  const Index width = products_.width;
  S* const slab = work.slab.at_least(work.plan.cells() + 4 * width);
  Stager<T, S> stager(kernels_, work.plan, inputs_);
  for (Index c = 0; c < task.ins; ++c) {
    const Index channel = task.group * g_.in_channels + task.first_in + c;
    stager.stage(inputs_.data + n * inputs_.batch + channel * inputs_.channel, 1,
                 SlabLayout::of(work.plan.cells(), 1, false), slab);
    measure_inputs(work, c, 1, slab, SlabLayout::of(work.plan.cells(), 1, false));
    for (Index m = 0; m < task.outs; ++m) {
      S* const sums = work.sums.at_least(1) + (m * task.ins + c) * taps_ * width;
      for (Index t = 0; t < taps_; t += kMaxDotTaps)
        for (Index i = 0; i < runs; ++i)
          products_.dot(lines + (m * runs + i) * line, slab + cells[static_cast<std::size_t>(i * run)], taps.data() + t,
                        std::min<Index>(kMaxDotTaps, taps_ - t), line, sums + t * width, work.plane);
    }
  }
}

}  // namespace halfulp::conv
