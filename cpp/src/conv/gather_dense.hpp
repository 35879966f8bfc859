// The sums of a tile of the dense route: positions in vector lanes, weights broadcast. The slab holds panels of
// positions, panel[k][position], and the packed filters panels of output channels, panel[k][channel].
#pragma once

#include "conv/gather_engine.hpp"

namespace halfulp::conv {

inline constexpr Index kDenseLines = 8;  // channels that are staged at a time
inline constexpr Index kDenseRows = 64;  // output channels whose sums stay near

// Calls f(first position, vectors) for each panel of a tile.
template <class S, class F>
void for_each_panel(Index positions, const ProductKernels<S>& products, const F& f) {
  const Index vectors = ceil_div(positions, products.width), panels = ceil_div(vectors, products.dense_vectors);
  for (Index i = 0, first = 0; i < panels; ++i) {
    const Index count = vectors / panels + (i < vectors % panels ? 1 : 0);
    f(first, count);
    first += count * products.width;
  }
}

// Channels [first, first + count) of a source, measured, as panels: the panel from position p on starts at p * count.
// Floats in one run come straight from the source, others a few lines at a time.
template <class S>
void GatherEngine<S>::stage_panels(Workspace& work, std::size_t s, Index n, Index group, Index first, Index count) {
  const SourcePlanes& planes = p_.sources[s].planes;
  const Index positions = work.plan.cells();
  const Index whole = ceil_div(positions, products_.width) * products_.width;
  S* const slab = work.slab.at_least(whole * count);
  const Elements data = planes.data + n * planes.batch + (group * p_.channels + first) * planes.channel;
  if constexpr (std::is_same_v<S, double>) {
    const std::vector<Segment>& segments = work.plan.axes().front().segments;
    const Segment& run = segments.front();
    if (type_.dtype == DType::f32 && by_position_ && planes.spatial[0] == 1 && segments.size() == 1 && run.step == 1 &&
        run.begin == 0 && run.low == 0 && run.high == positions) {
      const float* const cells = (data + run.source).template as<float>();
      return kernels_.fill_panels(cells, planes.channel, count, positions, work.squares.at_least(1), slab);
    }
  }
  const SlabLayout layout = SlabLayout::of<S>(whole, 1, false);
  S* const lines = work.lines.at_least(kDenseLines * layout.channel);
  Stager<S> stager(work.plan, planes);
  for (Index c = 0; c < count; c += kDenseLines) {
    const Index some = std::min(kDenseLines, count - c);
    stager.stage(data + c * planes.channel, some, layout, lines);
    if constexpr (std::is_same_v<S, double>) {
      if (by_position_) add_sizes(work, lines, layout, some);
    }
    for_each_panel(positions, products_, [&](Index p, Index vectors) {
      products_.fill_panel(lines + p, layout.channel, some, vectors, slab + p * count + c * vectors * products_.width);
    });
  }
}

// The sums of a tile, and its outputs: a few output channels at a time, which are finished while their sums are near.
template <class S>
void GatherEngine<S>::dense_task(Workspace& work, const Chunk& chunk, Index n, const Tile& tile) {
  const Index positions = tile.positions(), rows = products_.dense_rows, width = products_.width;
  const Index whole = ceil_div(positions, width) * width;
  work.stride = odd_lines<S>(whole);
  const Panel& head = panels_[static_cast<std::size_t>(chunk.begin)];
  const Index group = head.group;
  const Index bytes = positions * static_cast<Index>(sizeof(S)) * block_channels_;
  const Index step = block_channels_ * std::max<Index>(1, kTileBytes / bytes);
  const Index near = kDenseRows / rows;
  // Plain sums go straight into the output where they fill it; the last output channels and positions do not.
  const bool direct = same_type() && !correct_ && p_.bias == nullptr && work.in_one_run && positions % width == 0;
  const bool once = step >= p_.channels && p_.sources.size() == 1;  // sums are finished before the next ones
  const Index kept = direct ? rows : once ? std::min(near * rows, chunk.width) : chunk.width;
  S* const sums = work.sums.at_least(kept * work.stride);
  S* const out = direct ? (p_.plane(n, group, head.first) + work.run_offsets.front()).template as<S>() : nullptr;
  work.ahead_out = {};
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    if (by_position_) std::fill_n(work.squares.at_least(whole), whole, 0.0);
    for (Index first = 0; first < p_.channels; first += step) {
      const Index count = std::min(step, p_.channels - first);
      stage_panels(work, s, n, group, first, count);
      const bool source_ends = first + step >= p_.channels, ends = source_ends && s + 1 == p_.sources.size();
      if (by_position_ && source_ends) finish_reach(work, s);
      // While these are multiplied, the next ones come nearer.
      if (!source_ends) work.ahead = cells_of(s, n, group, tile, first + step, step);
      else if (!ends) work.ahead = cells_of(s + 1, n, group, tile, 0, step);
      else work.ahead = cells_of_next_task(work, step);
      if (ends) work.ahead_out = outputs_of(work, chunk, n);
      const Index panels = ceil_div(whole / width, products_.dense_vectors);
      const Index calls = ceil_div(count, block_channels_) * (chunk.end - chunk.begin) * panels;
      work.ahead.share(calls);
      work.ahead_out.share(calls);
      const S* const slab = work.slab.at_least(1);
      for (Index some = chunk.begin; some < chunk.end; some += near) {
        const Index end = std::min(some + near, chunk.end);
        S* const block = once || direct ? sums : sums + (some - chunk.begin) * rows * work.stride;
        for (Index k = 0; k < count; k += block_channels_) {
          const Index depth = std::min(block_channels_, count - k);
          const Index first_k = static_cast<Index>(s) * p_.channels + first + k;
          const bool fresh = s == 0 && first_k == 0;
          for_each_panel(positions, products_, [&](Index p, Index vectors) {
            const S* const cells = slab + p * count + k * vectors * width;
            for (Index i = some; i < end; ++i) {
              const Panel& panel = panels_[static_cast<std::size_t>(i)];
              const bool into_out = direct && panel.columns == rows;
              S* const c = into_out ? out + (i - chunk.begin) * rows * p_.out.channel + p
                                    : (direct ? sums : block + (i - some) * rows * work.stride) + p;
              products_.dense[vectors - 1](packed_data_ + panel.packed + first_k * rows, cells, depth, c,
                                           into_out ? p_.out.channel : work.stride, fresh);
              work.ahead.fetch();
              work.ahead_out.fetch();
            }
          });
        }
        if (ends && !direct) finish_rows(work, {some, end, (end - some) * rows}, n, tile, block, work.stride);
      }
    }
  }
  work.whole = false;
  const Panel& tail = panels_[static_cast<std::size_t>(chunk.end - 1)];
  if (!direct || tail.columns == rows) return;
  S* const last = out + (chunk.end - 1 - chunk.begin) * rows * p_.out.channel;
  for (Index j = 0; j < tail.columns; ++j) std::copy_n(sums + j * work.stride, positions, last + j * p_.out.channel);
}

}  // namespace halfulp::conv
