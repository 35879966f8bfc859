// The filters of a panel: transformed, and measured for the error bound.
#include "conv/winograd_engine.hpp"

namespace halfulp::conv {

// taps[(c * 9 + t) * width + column], t in the order of memory where the nine lie in a run, else as tap_offsets_ says.
void WinogradEngine::load_taps(Workspace& work, const PatchPanel& panel, const Source& source, Index first,
                            Index count) const {
  const std::vector<Index>& offsets = tap_offsets_[static_cast<std::size_t>(&source - p_.sources.data())];
  const auto filter = [&](Index column, Index c) {
    return p_.filter(source, conv_group_, panel.first + column) + (first + c) * source.channel;
  };
  const Index run = 9 * count, width = panel.width;
  double* const taps = work.taps.at_least(run * width);
  double* const lines = work.filter_lines.at_least(run * width);
  const bool dense = source.spatial[0] == kPatchTaps && source.spatial[1] == 1;
  if (dense && source.row == 9 && source.channel != 9) {  // filters side by side
    std::fill_n(lines, 9 * width, 0.0);
    for (Index c = 0; c < count; ++c) {
      filter(0, c).load(1, 9 * panel.columns, lines);
      products_.transpose(lines, 9, width, 9, taps + c * 9 * width, width);
    }
    return;
  }
  for (Index j = 0; j < panel.columns; ++j) {
    double* const line = lines + j * run;
    if (dense && source.channel == 9) {
      filter(j, 0).load(1, run, line);
      continue;
    }
    for (Index c = 0; c < count; ++c)
      for (Index t = 0; t < 9; ++t)
        line[c * 9 + t] = filter(j, c)[dense ? t : offsets[static_cast<std::size_t>(t)]];
  }
  std::fill(lines + panel.columns * run, lines + width * run, 0.0);
  products_.transpose(lines, run, width, run, taps, width);
}

// out[value * stride + c * width + column]; adds to the panel's squares. A few channels at a time, which stay in the
// first-level cache from their taps to their values.
void WinogradEngine::transform_block(Workspace& work, const PatchPanel& panel, const PatchBlock& block, double* out) {
  const Index width = panel.width;
  double* const squares = work.filter_squares.at_least((kPatchValues + 1) * width);
  if (block.first == 0) std::fill_n(squares, (kPatchValues + 1) * width, 0.0);
  const Source& source = p_.sources[block.source];
  const bool dense = source.spatial[0] == kPatchTaps && source.spatial[1] == 1;
  constexpr Index as_loaded[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const Index* const position = dense ? tap_offsets_[block.source].data() : as_loaded;
  for (Index c = 0; c < block.count; c += kFilterChannels) {
    const Index count = std::min(kFilterChannels, block.count - c);
    load_taps(work, panel, source, block.first + c, count);
    patch_.filters(work.taps.at_least(1), position, width, count, out + c * width, block_stride(block, width), squares);
  }
  if (block.first + block.count == p_.channels) find_sizes(work, panel, block.source);
}

// (N + e W)^2 <= (1 + t) N^2 + (1 + 1/t) e^2 W^2, here with t = 1/5: N is the norm of transformed taps, W of the taps.
void WinogradEngine::find_sizes(Workspace& work, const PatchPanel& panel, std::size_t s) {
  const Index width = panel.width;
  const double* const squares = work.filter_squares.at_least(1);
  double* const weighed = work.filter_sizes.at_least(16 * width);
  patch_.weigh(squares, width, width, bounds_.size[0], weighed);
  const double share = patch_.tap_roundings / roundings_;
  for (Index j = 0; j < panel.columns; ++j) {
    double most = 0;
    for (Index i = 0; i < 16; ++i) most = std::max(most, weighed[i * width + j]);
    const double size = std::sqrt(1.2 * most + 6 * share * share * squares[kPatchValues * width + j]);
    if (!(size <= std::numeric_limits<double>::max())) refused_ = true;
    filter_size_[s][static_cast<std::size_t>(panel.first + j)] = size;
  }
}

void WinogradEngine::pack_panel(Workspace& work, const PatchPanel& panel) {
  double* out = packed_.at_least(1) + panel.packed;
  for (const PatchBlock& block : blocks_) {
    transform_block(work, panel, block, out);
    out += kPatchValues * block_stride(block, panel.width);
  }
}

}  // namespace halfulp::conv
