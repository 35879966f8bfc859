// The stencil route: positions in vector lanes. Products that fit one block are summed and finished line by line, so
// that the sums never leave the nearest cache; others are summed block by block first.
#pragma once

#include "conv/gather_engine.hpp"

namespace halfulp::conv {

// Stages the tile's cells and, unless all products fit one block, sums them. Each line of positions along the last axis
// is then padded to whole vectors.
template <class S>
void GatherEngine<S>::stencil_sums(Workspace& work, const Chunk& chunk, Index n, const Tile& tile) {
  const Index positions = tile.positions(), run = tile.count[tile.count.size() - 1];
  const Index line = ceil_div(run, products_.width) * products_.width;
  if (!one_block_) work.sums.at_least(positions / run * line * chunk.width * (twofold_ ? 2 : 1));
  const Index group = panels_[static_cast<std::size_t>(chunk.begin)].group;
  const Index channel_cells = (ceil_div(work.plan.cells(), 16) + 1) * 16;
  const Index sources = static_cast<Index>(p_.sources.size());
  const Index slack = 4 * products_.width;
  work.whole = one_block_ || channel_cells * p_.channels * sources * static_cast<Index>(sizeof(S)) <= 4 * kSlabBytes;
  work.refined = work.spread = work.measured = false;
  const Index step = work.whole ? p_.channels : block_channels_;
  bool first_block = true;
  work.slab_begin.clear();
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    work.extreme[s] = 0;
    const Index begin = work.whole ? static_cast<Index>(s) * channel_cells * p_.channels : 0;
    work.slab_begin.push_back(begin);
    for (Index first = 0; first < p_.channels; first += step) {
      const Index count = std::min(step, p_.channels - first);
      S* const slab = work.slab.at_least(channel_cells * (work.whole ? sources * p_.channels : step) + slack) + begin;
      const SlabLayout layout = stage(work, s, n, group, first, count, slab);
      if constexpr (std::is_same_v<S, double>)
        if (correct_)
          work.extreme[s] = std::max(work.extreme[s], largest_in(slab, layout, count, work.plan.cells()));
      if (one_block_) continue;
      for_each_block(count, taps_, block_channels_, block_taps_, [&](Index k, Index depth) {
        const Index first_k = (static_cast<Index>(s) * p_.channels + first) * taps_ + k;
        stencil_block(work, chunk, tile, slab, first_k, work.offsets.data() + k, depth, first_block);
        first_block = false;
      });
    }
  }
}

template <class S>
void GatherEngine<S>::stencil_block(Workspace& work, const Chunk& chunk, const Tile& tile, const S* slab,
                                       Index first_k, const Index* offsets, Index depth, bool first) {
  const std::vector<Index>& cells = work.plan.position_cells();
  const Index run = tile.count[tile.count.size() - 1];
  const Index lines = static_cast<Index>(cells.size()) / run;
  const Index line = ceil_div(run, products_.width) * products_.width;
  S* const sums = work.sums.at_least(1);
  Index row = 0;
  for (Index i = chunk.begin; i < chunk.end; ++i) {
    const Panel& panel = panels_[static_cast<std::size_t>(i)];
    const S* const packed = packed_data_ + panel.packed + first_k * panel.width;
    for (Index l = 0; l < lines; ++l)
      products_.stencil[panel.width - 1](slab + cells[static_cast<std::size_t>(l * run)], offsets, packed, depth, run,
                                         sums + row * lines * line + l * line, lines * line,
                                         chunk.width * lines * line, first);
    row += panel.width;
  }
}

// The sums of `count` lines of a panel from line `first` on, at work.turned + m * stride + i for position i of output
// channel m; low parts `panel.width * stride` later.
template <class S>
void GatherEngine<S>::take_lines(Workspace& work, const Chunk& chunk, const Panel& panel, const Tile& tile,
                                    Index first, Index count, Index stride) {
  const std::vector<Index>& cells = work.plan.position_cells();
  const Index run = tile.count[tile.count.size() - 1];
  S* const turned = work.turned.at_least(panel.width * stride * (twofold_ ? 2 : 1));
  if (one_block_) {
    // A line's last vector may reach into the next line, which then overwrites it.
    for (Index l = 0; l < count; ++l)
      products_.stencil[panel.width - 1](work.slab.at_least(1) + cells[static_cast<std::size_t>((first + l) * run)],
                                         work.offsets.data(), packed_data_ + panel.packed, depth_, run,
                                         turned + l * run, stride, panel.width * stride, true);
    return;
  }
  const Index lines = static_cast<Index>(cells.size()) / run;
  const Index line = ceil_div(run, products_.width) * products_.width;
  const Index row = panel.first - panels_[static_cast<std::size_t>(chunk.begin)].first;
  for (Index plane = 0; plane < (twofold_ ? 2 : 1); ++plane)
    for (Index m = 0; m < panel.width; ++m)
      for (Index l = 0; l < count; ++l)
        std::copy_n(work.sums.at_least(1) + ((plane * chunk.width + row + m) * lines + first + l) * line, run,
                    turned + (plane * panel.width + m) * stride + l * run);
}

template <class S>
void GatherEngine<S>::finish_stencil(Workspace& work, const Chunk& chunk, Index n, const Tile& tile) {
  const Index run = tile.count[tile.count.size() - 1];
  const Index lines = tile.positions() / run, together = std::max<Index>(1, kLinePositions / run);
  const Index stride = odd_lines<S>(together * run + products_.width);
  work.ahead = cells_of_next_task(work, p_.channels);
  work.ahead.share((chunk.end - chunk.begin) * ceil_div(lines, together));
  for (Index i = chunk.begin; i < chunk.end; ++i) {
    const Panel& panel = panels_[static_cast<std::size_t>(i)];
    Margin margins[kMaxStencilChannels];
    bool decides[kMaxStencilChannels];
    for (Index m = 0; m < panel.columns; ++m) decides[m] = find_margin(work, panel.group, panel.first + m, margins[m]);
    for (Index first = 0; first < lines; first += together) {
      const Index count = std::min(together, lines - first);
      take_lines(work, chunk, panel, tile, first, count, stride);
      work.ahead.fetch();
      for (Index m = 0; m < panel.columns; ++m) {
        S* const high = work.turned.at_least(1) + m * stride;
        finish_part(work, {n, panel.group, panel.first + m, first * run, count * run}, high,
                    high + panel.width * stride, tile, decides[m] ? &margins[m] : nullptr);
      }
    }
  }
}

}  // namespace halfulp::conv
