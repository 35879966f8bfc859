// The tasks, and the sums of a tile of the matrix route, block by block.
#pragma once

#include "conv/gather_engine.hpp"

namespace halfulp::conv {

// Tiles that keep the threads equally busy; a slab that stays small even where strides or dilations are wide.
template <class S>
Index GatherEngine<S>::tile_size(Index chunks) const {
  const Index by_lines = one_block_ ? kLineTile / p_.channels : 0;
  const bool in_rows = taps_ == 1 && channels_inside(p_.sources.front().planes);
  // All channels of a tile at a time, if that leaves enough positions: its sums then stay in the nearest cache.
  const Index fitting = kTileBytes / (p_.channels * static_cast<Index>(sizeof(S))) / kMaxRows * kMaxRows;
  const bool at_a_time = taps_ == 1 && fitting >= kLeastTile && !dense_;
  const Index whole = at_a_time ? std::min(fitting, kMatrixTile) : kMatrixTile;
  const Index by_matrix = in_rows ? std::min(kRowTile, whole) : whole;
  const Index by_stencil = shallow_ ? kShallowTile : std::max(kStencilTile, by_lines);
  const Index largest = stencil_ ? by_stencil : by_matrix;
  const Index step = stencil_ ? 256 : products_.rows, least = stencil_ ? 256 : std::min<Index>(64, largest);
  const Index rows = stencil_ ? 1 : dense_ ? products_.width : products_.rows;  // positions that are computed together
  Index most = 0, least_time = 0;
  for (Index size = largest; size >= least; size -= step) {
    const Tiling tiling(p_.gather, size);
    const Index turns = ceil_div(chunks * p_.batch * tiling.count(), num_threads());
    const Index time = turns * (ceil_div(tiling.largest(), rows) * rows + (stencil_ ? kStencilCost : kMatrixCost));
    if (most != 0 && time >= least_time) continue;
    most = size;
    least_time = time;
  }
  while (most > 1) {
    SlabPlan plan;
    plan.plan(p_.gather, Tiling(p_.gather, most).tile(0), stencil_);
    if (plan.cells() * static_cast<Index>(sizeof(S)) <= 4 * kSlabBytes) break;
    most /= 2;
  }
  return most;
}

// Samples innermost: a tile's plan serves them all. Then tiles, so that a chunk of filters stays in the cache; but a
// stencil's filters are few, and it walks through memory plane after plane.
template <class S>
GatherTask GatherEngine<S>::task_of(Index number) const {
  const Index chunks = batch_end_ - batch_begin_, tiles = tiling_.count();
  if (stencil_) return {number / chunks % p_.batch, number / chunks / p_.batch, batch_begin_ + number % chunks};
  return {number % p_.batch, number / p_.batch % tiles, batch_begin_ + number / p_.batch / tiles};
}

template <class S>
void GatherEngine<S>::run_task(Workspace& work, Index number) {
  const GatherTask task = task_of(number);
  const Chunk& chunk = chunks_[static_cast<std::size_t>(task.chunk)];
  const Tile tile = tiling_.tile(task.tile);
  if (work.engine != this || work.tile != task.tile) {
    work.engine = this;
    work.tile = task.tile;
    work.plan.plan(p_.gather, tile, stencil_);
    if (correct_) mark_padding(work, tile);
    find_runs(work, tile);
  }
  work.reach.at_least(tile.positions() * static_cast<Index>(p_.sources.size()));
  work.number = number;
  if (stencil_) {
    stencil_sums(work, chunk, task.n, tile);
    finish_stencil(work, chunk, task.n, tile);
  } else if (dense_) {
    dense_task(work, chunk, task.n, tile);
  } else {
    matrix_sums(work, chunk, task.n, tile);
    finish_matrix(work, chunk, task.n, tile);
  }
}

// The cells of a source that a task will stage: `step` channels from channel `first` on.
template <class S>
Ahead GatherEngine<S>::cells_of(std::size_t s, Index n, Index group, const Tile& tile, Index first,
                                      Index step) const {
  const SourcePlanes& planes = p_.sources[s].planes;
  Index begin = 0, length = 1, cells = 1;
  for (std::size_t axis = 0; axis < p_.gather.size(); ++axis) {
    const GatherAxis& one = p_.gather[axis];
    if (one.offset.empty() || one.source_size == 0 || planes.spatial[axis] < 0) return {};
    const auto [least, most] = std::minmax(one.offset.front(), one.offset.back());
    const Index start = tile.first[static_cast<int>(axis)] * one.step, last = one.source_size - 1;
    const Index low = std::clamp<Index>(start + least, 0, last);
    const Index reach = (tile.count[static_cast<int>(axis)] - 1) * one.step;
    const Index high = std::clamp<Index>(start + reach + most, low, last);
    begin += low * planes.spatial[axis];
    length += (high - low) * planes.spatial[axis];
    cells *= high - low + 1;
  }
  if (length > 2 * cells) return {};  // mostly other cells: not worth it
  const Elements data = planes.data + n * planes.batch + (group * p_.channels + first) * planes.channel + begin;
  return {data, planes.channel, length, std::min(step, p_.channels - first)};
}

// The outputs of a task, where they lie side by side.
template <class S>
Ahead GatherEngine<S>::outputs_of(const Workspace& work, const Chunk& chunk, Index n) const {
  if (!work.in_one_run) return {};
  const Panel& first = panels_[static_cast<std::size_t>(chunk.begin)];
  const Panel& last = panels_[static_cast<std::size_t>(chunk.end - 1)];
  const Index last_channel = p_.channel_of(first.group, last.first + last.columns - 1);
  const Index channels = last_channel - p_.channel_of(first.group, first.first) + 1;
  const Index positions = static_cast<Index>(work.plan.position_cells().size());
  const Outputs start = p_.plane(n, first.group, first.first) + work.run_offsets.front();
  return {constant(start), p_.out.channel, positions, channels};
}

// What this thread probably stages after the current task: threads take tasks in turn.
template <class S>
Ahead GatherEngine<S>::cells_of_next_task(const Workspace& work, Index step) const {
  const Index number = work.number + num_threads();
  if (number >= task_count()) return {};
  const GatherTask now = task_of(work.number), next = task_of(number);
  const auto group_of = [&](const GatherTask& task) {
    return panels_[static_cast<std::size_t>(chunks_[static_cast<std::size_t>(task.chunk)].begin)].group;
  };
  if (now.n == next.n && now.tile == next.tile && group_of(now) == group_of(next)) return {};
  return cells_of(0, next.n, group_of(next), tiling_.tile(next.tile), 0, step);
}

template <class S>
SlabLayout GatherEngine<S>::stage(Workspace& work, std::size_t s, Index n, Index group, Index first, Index count,
                                     S* slab) {
  const SourcePlanes& planes = p_.sources[s].planes;
  const SlabLayout layout = SlabLayout::of<S>(work.plan.cells(), count, channels_inside(planes));
  Stager<S> stager(work.plan, planes);
  stager.stage(planes.data + n * planes.batch + (group * p_.channels + first) * planes.channel, count, layout, slab);
  work.offsets.resize(static_cast<std::size_t>(count * taps_));
  Index* offset = work.offsets.data();
  for (Index c = 0; c < count; ++c)
    for (const Index cell : work.plan.tap_cells()) *offset++ = c * layout.channel + cell * layout.cell;
  return layout;
}

// The cells of the channels [first, first + count), staged; or in place, where they are sums' type already and lie in
// long runs.
template <class S>
SlabLayout GatherEngine<S>::find_cells(Workspace& work, std::size_t s, Index n, Index group, const Tile& tile,
                                          Index first, Index count, const S*& cells) {
  const SourcePlanes& planes = p_.sources[s].planes;
  if (same_type()) {
    const bool plain = !correct_ && p_.gather.size() == 1 && taps_ == 1 && p_.gather[0].offset[0] == 0 &&
                       p_.gather[0].step == 1 && p_.gather[0].positions == p_.gather[0].source_size;
    if (plain && channels_inside(planes)) {
      const Index start = n * planes.batch + group * p_.channels + first + tile.first[0] * planes.spatial[0];
      cells = (planes.data + start).template as<S>();
      work.offsets.resize(static_cast<std::size_t>(count));
      for (Index c = 0; c < count; ++c) work.offsets[static_cast<std::size_t>(c)] = c;
      return {planes.spatial[0], 1, true};
    }
  }
  S* const slab = work.slab.at_least((ceil_div(work.plan.cells(), 16) + 1) * 16 * count);
  cells = slab;
  return stage(work, s, n, group, first, count, slab);
}

// Calls f(first product, number of products) for each block of the channels [0, count).
template <class F>
void for_each_block(Index count, Index taps, Index block_channels, Index block_taps, const F& f) {
  for (Index c = 0; c < count; c += block_channels)
    for (Index t = 0; t < taps; t += block_taps)
      f(c * taps + t, block_taps == taps ? std::min(block_channels, count - c) * taps : std::min(block_taps, taps - t));
}

template <class S>
void GatherEngine<S>::matrix_sums(Workspace& work, const Chunk& chunk, Index n, const Tile& tile) {
  const std::vector<Index>& cells = work.plan.position_cells();
  const Index positions = static_cast<Index>(cells.size());
  const Index padded = positions + kMaxRows - 1;  // the last rows of the last block are computed in vain
  work.stride = odd_lines<S>(chunk.width);
  work.sums.at_least(padded * work.stride * (twofold_ ? 2 : 1));
  const Index group = panels_[static_cast<std::size_t>(chunk.begin)].group;
  const Index slab_bytes = taps_ == 1 ? kTileBytes : kSlabBytes;
  const Index fitting = slab_bytes / (std::max<Index>(1, work.plan.cells()) * static_cast<Index>(sizeof(S)));
  const Index step = block_channels_ * std::max<Index>(1, fitting / block_channels_);
  bool first_block = true;
  work.ahead_out = {};
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    if (by_position_) std::fill_n(work.squares.at_least(work.plan.cells()), work.plan.cells(), 0.0);
    for (Index first = 0; first < p_.channels; first += step) {
      const Index count = std::min(step, p_.channels - first);
      const S* slab = nullptr;
      const SlabLayout layout = find_cells(work, s, n, group, tile, first, count, slab);
      if constexpr (std::is_same_v<S, double>) {
        if (by_position_) add_sizes(work, slab, layout, count);
      }
      work.rows.resize(static_cast<std::size_t>(padded));
      for (Index i = 0; i < padded; ++i) {
        const Index cell = cells[static_cast<std::size_t>(std::min(i, positions - 1))];
        work.rows[static_cast<std::size_t>(i)] = slab + cell * layout.cell;
      }
      // While these are multiplied, the next ones come nearer.
      if (first + step < p_.channels) work.ahead = cells_of(s, n, group, tile, first + step, step);
      else if (s + 1 < p_.sources.size()) work.ahead = cells_of(s + 1, n, group, tile, 0, step);
      else work.ahead = cells_of_next_task(work, step);
      if (s + 1 == p_.sources.size() && first + step >= p_.channels) work.ahead_out = outputs_of(work, chunk, n);
      const Index calls = ceil_div(count * taps_, kBlockDepth) * (chunk.end - chunk.begin) * (padded / kMaxRows);
      work.ahead.share(calls);
      work.ahead_out.share(calls);
      S* column = work.sums.at_least(1);
      for (Index i = chunk.begin; i < chunk.end; ++i) {
        bool first_of_panel = first_block;
        for_each_block(count, taps_, block_channels_, block_taps_, [&](Index k, Index depth) {
          const Index first_k = (static_cast<Index>(s) * p_.channels + first) * taps_ + k;
          matrix_block(work, chunk, i, first_k, work.offsets.data() + k, depth, column, first_of_panel);
          first_of_panel = false;
        });
        column += panels_[static_cast<std::size_t>(i)].width;
      }
      first_block = false;
    }
    if (by_position_) finish_reach(work, s);
  }
  work.whole = false;
}

template <class S>
void GatherEngine<S>::matrix_block(Workspace& work, const Chunk& chunk, Index number, Index first_k,
                                      const Index* offsets, Index depth, S* column, bool first) {
  const Index padded = static_cast<Index>(work.rows.size()), positions = padded - kMaxRows + 1;
  const Panel& panel = panels_[static_cast<std::size_t>(number)];
  const S* const packed = packed_data_ + panel.packed + first_k * panel.width;
  const auto matrix = products_.tall[panel.width / products_.width - 1];
  const Index rows = products_.tall_rows[panel.width / products_.width - 1];
  Ahead next;  // products of filters that are too many to stay near
  if (chunk.width * depth_ * static_cast<Index>(sizeof(S)) > kNearBytes) {
    next = {packed + depth * panel.width, depth * panel.width};
    next.share(ceil_div(positions, rows));
  }
  for (Index r = 0; r < positions; r += rows) {
    matrix(work.rows.data() + r, offsets, packed, depth, column + r * work.stride, work.stride, padded * work.stride,
           first);
    work.ahead.fetch();
    work.ahead_out.fetch();
    next.fetch();
  }
}

}  // namespace halfulp::conv
