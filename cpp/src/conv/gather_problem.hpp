// A gather product as the engine sees it: positions, sources with their filters, bias and output, whichever of the two
// directions it came from; and the walk over one output's terms.
#pragma once

#include <vector>

#include "conv/plan.hpp"
#include "conv/resolve.hpp"
#include "conv/stage.hpp"

namespace halfulp::conv {

struct Source {
  SourcePlanes planes;
  Elements filters;
  Index row = 0;      // filter stride from one output channel to the next
  Index channel = 0;  // from one source channel to the next
  Index group = 0;    // from one group to the next
  Index variant = 0;  // from one variant to the next
  std::vector<Index> spatial;
};

// Output row j of a group is variant j % variants of output channel j / variants: residues that meet the same cells
// with other taps are output channels like others.
struct GatherProblem {
  Mode mode = Mode::wide;
  Gather gather;
  Index batch = 1;
  Index groups = 1;
  Index channels = 0;  // of the sources, per group
  Index rows = 0;      // of the output, per group
  Index variants = 1;
  Index out_variant = 0;  // output elements from one variant to the next
  std::vector<Source> sources;
  Elements bias;
  Index bias_stride = 0;
  Index bias_position = 0;  // from one position to the next, for a bias along the only axis instead of the channels
  OutputPlanes out;

  Index taps() const { return tap_count(gather); }
  Index channel_of(Index group, Index row) const { return (group * rows + row) / variants; }
  Elements filter(const Source& source, Index group, Index row) const {
    return source.filters + group * source.group + row / variants * source.row + row % variants * source.variant;
  }
  Outputs plane(Index n, Index group, Index row) const {
    return out.data + n * out.batch + channel_of(group, row) * out.channel + row % variants * out_variant;
  }
  double bias_of(Index group, Index row, Index position = 0) const {
    return bias[channel_of(group, row) * bias_stride + position * bias_position];
  }

  // The filter offset of every tap, last axis fastest.
  std::vector<Index> filter_offsets(const Source& source) const;

  // Calls f(pairs of weights and cells) for runs of the products of output (n, group, row, position) until it returns
  // false.
  template <class F>
  bool for_each_run(Index n, Index group, Index row, const Sizes& position, const F& f) const {
    const bool single = taps() == 1;  // then all channels are one run
    for (const Source& source : sources) {
      const Elements first = source.planes.data + n * source.planes.batch + group * channels * source.planes.channel;
      if (single) {
        if (!walk_channels(source, filter(source, group, row), first, position, f)) return false;
        continue;
      }
      for (Index c = 0; c < channels; ++c) {
        const Elements weights = filter(source, group, row) + c * source.channel;
        if (!walk_axis(source, 0, weights, first + c * source.planes.channel, position, f)) return false;
      }
    }
    return true;
  }

  // The correctly rounded value of an output whose sum came out as `value`. `exact` says that the sum is known to be
  // exact, `trusted` that an infinity or NaN can only come from the terms.
  void resolve(Index n, Index group, Index row, const Sizes& position, double value, bool exact, bool trusted,
               const Outputs& result) const;

 private:
  // The only tap of every channel.
  template <class F>
  bool walk_channels(const Source& source, Elements weights, Elements cells, const Sizes& position,
                     const F& f) const {
    for (std::size_t axis = 0; axis < gather.size(); ++axis) {
      const GatherAxis& one = gather[axis];
      const Index cell = position[static_cast<int>(axis)] * one.step + one.offset[0];
      if (cell < 0 || cell >= one.source_size) return true;
      weights += one.tap[0] * source.spatial[axis];
      cells += cell * source.planes.spatial[axis];
    }
    return f(Pairs{weights, source.channel, cells, source.planes.channel, channels});
  }

  template <class F>
  bool walk_axis(const Source& source, std::size_t axis, Elements weights, Elements cells, const Sizes& position,
                 const F& f) const {
    const GatherAxis& one = gather[axis];
    const Index start = position[static_cast<int>(axis)] * one.step;
    const auto real = [&](std::size_t t) {
      const Index cell = start + one.offset[t];
      return cell >= 0 && cell < one.source_size;
    };
    std::size_t begin = 0, end = one.tap.size();  // the taps that meet a real cell are neighbours
    while (begin < end && !real(begin)) ++begin;
    while (begin < end && !real(end - 1)) --end;
    const auto weight = [&](std::size_t t) { return weights + one.tap[t] * source.spatial[axis]; };
    const auto cell = [&](std::size_t t) { return cells + (start + one.offset[t]) * source.planes.spatial[axis]; };
    if (axis + 1 == gather.size()) {  // and lie evenly
      if (begin == end) return true;
      if (begin + 1 == end) return f(Pairs{weight(begin), 0, cell(begin), 0, 1});
      const Index tap = one.tap[begin + 1] - one.tap[begin], offset = one.offset[begin + 1] - one.offset[begin];
      return f(Pairs{weight(begin), tap * source.spatial[axis], cell(begin), offset * source.planes.spatial[axis],
                     static_cast<Index>(end - begin)});
    }
    for (std::size_t t = begin; t < end; ++t)
      if (!walk_axis(source, axis + 1, weight(t), cell(t), position, f)) return false;
    return true;
  }
};

}  // namespace halfulp::conv
