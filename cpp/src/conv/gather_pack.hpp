// Filters: packed into panels, and measured for the error bound.
#pragma once

#include <cmath>

#include "gather_engine.hpp"

namespace halfulp::conv {

template <class T, class S>
void GatherEngine<T, S>::make_panels() {
  const Index lane = stencil_ ? 1 : products_.width;
  const Index most = stencil_ ? kMaxStencilChannels : products_.vectors;
  const Index lanes = ceil_div(p_.rows, lane);
  const Index pieces = ceil_div(lanes, most);
  const Index chunk_width = std::min(kChunkBytes, packed_bytes_) / (depth_ * static_cast<Index>(sizeof(S)));
  for (Index group = 0; group < p_.groups; ++group) {
    Index first = 0;
    for (Index piece = 0; piece < pieces; ++piece) {
      const Index width = (lanes / pieces + (piece < lanes % pieces ? 1 : 0)) * lane;
      const Index columns = std::min(width, p_.rows - first);
      const bool join = piece > 0 && chunks_.back().width + width <= chunk_width;
      const Index number = static_cast<Index>(panels_.size());
      if (!join) chunks_.push_back({number, number, 0});
      chunks_.back().end = number + 1;
      chunks_.back().width += width;
      panels_.push_back({group, first, columns, width, 0});
      first += columns;
    }
  }
}

// Decides which chunks, from `begin` on, are packed together, and gives their panels a place.
template <class T, class S>
void GatherEngine<T, S>::open_batch(Index begin) {
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
  batch_begin_ = begin;
  batch_end_ = end;
  tiling_ = Tiling(p_.gather, tile_size(end - begin));
}

template <class T, class S>
Index GatherEngine<T, S>::pack_count() const {
  return chunks_[static_cast<std::size_t>(batch_end_ - 1)].end - chunks_[static_cast<std::size_t>(batch_begin_)].begin;
}

template <class T, class S>
void GatherEngine<T, S>::pack_panel(Index number, Buffer<S>& lines) {
  const Index first = chunks_[static_cast<std::size_t>(batch_begin_)].begin;
  const Panel& panel = panels_[static_cast<std::size_t>(first + number)];
  const Index run = taps_ * p_.channels;
  S* const line = lines.at_least(run * panel.width);
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    for (Index j = 0; j < panel.columns; ++j) {
      load_filter(s, panel.group, panel.first + j, line + j * run);
      measure_filter(s, panel.group, panel.first + j, line + j * run);
    }
    std::fill(line + panel.columns * run, line + panel.width * run, S(0));
    S* const out = packed_data_ + panel.packed + static_cast<Index>(s) * run * panel.width;
    products_.transpose(line, run, panel.width, run, out, panel.width);
  }
}

// One filter in the order of the sums: channels, then taps.
template <class T, class S>
void GatherEngine<T, S>::load_filter(std::size_t s, Index group, Index row, S* line) {
  const Source<T>& source = p_.sources[s];
  const auto load = load_kernel<T, S>(kernels_);
  const std::vector<Index>& offsets = filter_offsets_[s];
  const T* data = p_.filter(source, group, row);
  const bool run = offsets.back() - offsets.front() == taps_ - 1;  // offsets increase in steps of at least one
  if (run && std::is_sorted(offsets.begin(), offsets.end()) && (source.channel == taps_ || p_.channels == 1))
    return load(data + offsets.front(), 1, taps_ * p_.channels, line);
  for (Index c = 0; c < p_.channels; ++c, data += source.channel, line += taps_)
    for (Index t = 0; t < taps_; ++t) line[t] = static_cast<S>(as_double(data[offsets[static_cast<std::size_t>(t)]]));
}

// Its 2-norm or, for twofold sums, its largest magnitude; the sum of its magnitudes for a stencil.
template <class T, class S>
void GatherEngine<T, S>::measure_filter(std::size_t s, Index group, Index row, const S* line) {
  const Index run = taps_ * p_.channels;
  double size = 0;
  if constexpr (std::is_same_v<S, double>) {
    size = kernels_.sum_magnitudes(line, run);
    if (!std::isfinite(size)) finite_filters_ = false;
    if (by_position_ && twofold_) size = kernels_.largest_magnitude(line, run);
    else if (by_position_) size = std::sqrt(kernels_.sum_squares(line, run));
  } else {
    S largest[8] = {};  // only finiteness is asked for; a NaN or an infinity times zero is NaN
    Index k = 0;
    for (; k + 8 <= run; k += 8)
      for (Index j = 0; j < 8; ++j) largest[j] += line[k + j] * S(0);
    for (; k < run; ++k) largest[0] += line[k] * S(0);
    for (const S lane : largest) size += static_cast<double>(lane);
  }
  if (!std::isfinite(size)) finite_filters_ = false;
  filter_size_[s][static_cast<std::size_t>(group * p_.rows + row)] = size;
}

}  // namespace halfulp::conv
