// Filters: packed into panels, and measured for the error bound.
#pragma once

#include <cmath>

#include "conv/gather_engine.hpp"

namespace halfulp::conv {

// How many chunks the output channels of a group are cut into: as few as the cache allows, but one for each thread
// where there are few positions and many weights. Then each thread keeps the weights that it has packed.
template <class S>
Index GatherEngine<S>::chunk_count(Index lane, Index most) const {
  const Index lanes = ceil_div(p_.rows, lane);
  const Index fitting = std::min(kChunkBytes, packed_bytes_) / (depth_ * lane * static_cast<Index>(sizeof(S)));
  const Index chunks = ceil_div(lanes, std::max(most, fitting));
  if (stencil_ || p_.groups * p_.batch * Tiling(p_.gather, kMatrixTile).count() >= num_threads()) return chunks;
  Index cells = p_.channels;
  for (const GatherAxis& axis : p_.gather) cells *= axis.source_size;
  const Index sources = static_cast<Index>(p_.sources.size());
  return cells * sources < depth_ * p_.rows ? std::max(chunks, std::min<Index>(num_threads(), lanes)) : chunks;
}

template <class S>
void GatherEngine<S>::make_panels() {
  const Index lane = stencil_ ? 1 : dense_ ? products_.dense_rows : products_.width;
  const Index most = stencil_ ? kMaxStencilChannels : dense_ ? 1 : products_.vectors;
  const Index lanes = ceil_div(p_.rows, lane);
  const Index chunks = chunk_count(lane, most);
  const auto share = [](Index n, Index parts, Index i) { return n / parts + (i < n % parts ? 1 : 0); };
  for (Index group = 0; group < p_.groups; ++group) {
    Index first = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const Index begin = static_cast<Index>(panels_.size()), chunk_lanes = share(lanes, chunks, chunk);
      const Index pieces = ceil_div(chunk_lanes, most);
      for (Index piece = 0; piece < pieces; ++piece) {
        const Index width = share(chunk_lanes, pieces, piece) * lane;
        const Index columns = std::min(width, p_.rows - first);
        panels_.push_back({group, first, columns, width, 0});
        first += columns;
      }
      chunks_.push_back({begin, begin + pieces, chunk_lanes * lane});
    }
  }
}

// Decides which chunks, from `begin` on, are packed together, and gives their panels a position.
template <class S>
void GatherEngine<S>::open_batch(Index begin) {
  Index end = begin, size = 0;
  for (; end < static_cast<Index>(chunks_.size()); ++end) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(end)];
    const Index more = chunk.width * depth_;
    if (end > begin && (size + more) * static_cast<Index>(sizeof(S)) > packed_bytes_) break;
    for (Index i = chunk.begin; i < chunk.end; ++i) {
      Panel& panel = panels_[static_cast<std::size_t>(i)];
      panel.packed = size;
      size += panel.width * depth_;
    }
  }
  packed_data_ = packed_.at_least(size);
  pack_units_.clear();
  const Index last = chunks_[static_cast<std::size_t>(end - 1)].end;
  for (Index i = chunks_[static_cast<std::size_t>(begin)].begin; i < last; ++i) {
    const Index width = panels_[static_cast<std::size_t>(i)].width, one = stencil_ || dense_ ? width : products_.width;
    for (Index column = 0; column < width; column += one) pack_units_.push_back({i, column, one});
  }
  batch_begin_ = begin;
  batch_end_ = end;
  tiling_ = Tiling(p_.gather, tile_size(end - begin));
}

// One vector of a panel's columns at a time: a piece of every filter is loaded, measured and, while it is still in the
// nearest cache, turned into the panel.
template <class S>
void GatherEngine<S>::pack_columns(Index number, Buffer<S>& lines) {
  const PackUnit& unit = pack_units_[static_cast<std::size_t>(number)];
  const Panel& panel = panels_[static_cast<std::size_t>(unit.panel)];
  const Index run = taps_ * p_.channels, piece = std::min(run, kPackPiece);
  const Index columns = std::clamp<Index>(panel.columns - unit.column, 0, unit.width);
  const Index pitch = odd_lines<S>(piece);
  S* const line = lines.at_least(pitch * unit.width);
  std::fill(line + columns * pitch, line + unit.width * pitch, S(0));
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    S* const out = packed_data_ + panel.packed + static_cast<Index>(s) * run * panel.width + unit.column;
    double sizes[kMostPackColumns] = {};
    for (Index k = 0; k < run; k += piece) {
      const Index n = std::min(piece, run - k);
      for (Index j = 0; j < columns; ++j) {
        load_filter(s, panel.group, panel.first + unit.column + j, k, n, line + j * pitch);
        measure_filter(line + j * pitch, n, sizes[j]);
      }
      if (dense_) products_.fill_weights(line, pitch, n, out + k * panel.width);
      else products_.transpose(line, pitch, unit.width, n, out + k * panel.width, panel.width);
    }
    for (Index j = 0; j < columns; ++j) {
      const bool norm = by_position_ && !twofold_;
      filter_size_[s][static_cast<std::size_t>(panel.group * p_.rows + panel.first + unit.column + j)] =
          norm ? std::sqrt(sizes[j]) : sizes[j];
    }
  }
}

// Products [first, first + n) of one filter in the order of the sums: channels, then taps.
template <class S>
void GatherEngine<S>::load_filter(std::size_t s, Index group, Index row, Index first, Index n, S* line) {
  const Source& source = p_.sources[s];
  const std::vector<Index>& offsets = filter_offsets_[s];
  const Elements data = p_.filter(source, group, row);
  if (in_one_run_[s]) return (data + offsets.front() + first).load(1, n, line);
  if (taps_ == 1) return (data + offsets.front() + first * source.channel).load(source.channel, n, line);
  visit_float(type_.dtype, [&]<class T>(T) {
    Index t = first % taps_, left = n;
    for (const T* channel = data.as<T>() + first / taps_ * source.channel; left > 0; channel += source.channel, t = 0)
      for (; t < taps_ && left > 0; ++t, --left)
        *line++ = static_cast<S>(as_double(channel[offsets[static_cast<std::size_t>(t)]]));
  });
}

// Adds to the square of its 2-norm or, for twofold sums, takes its largest magnitude; adds to the sum of its magnitudes
// for a stencil. Only finiteness is asked for in fast mode.
template <class S>
void GatherEngine<S>::measure_filter(const S* line, Index n, double& size) {
  if (!products_.finite(line, n)) finite_filters_ = false;
  if constexpr (std::is_same_v<S, double>) {
    if (!correct_) return;
    if (by_position_ && twofold_) size = std::max(size, kernels_.largest_magnitude(line, n));
    else size += by_position_ ? kernels_.sum_squares(line, n) : kernels_.sum_magnitudes(line, n);
  }
}

}  // namespace halfulp::conv
