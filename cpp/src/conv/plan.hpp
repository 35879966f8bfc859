// How a product walks its source: which source cells meet an output position, and how a tile of positions finds them in
// a slab, a small dense copy of the source in the type of the sums.
#pragma once

#include <utility>
#include <vector>

#include "halfulp/conv.hpp"

namespace halfulp::conv {

inline Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// One axis of a gather: position q meets the source cells q * step + offset[t], those in [0, source_size), each with
// the kernel's tap[t]. Position q is the output cell out_start + q * out_step.
struct GatherAxis {
  Index positions = 0;
  Index step = 1;
  Index source_size = 0;
  Index out_start = 0;
  Index out_step = 1;
  std::vector<Index> tap;
  std::vector<Index> offset;
};

using Gather = std::vector<GatherAxis>;

// The gather of a forward convolution: positions are outputs, sources are input cells.
Gather output_gather(const Geometry& geometry);

// The gathers of the transposed product, one for each residue of the input cells modulo the strides: within a residue
// class every position meets the same taps, one output apart per step.
std::vector<Gather> input_gathers(const Geometry& geometry);

// The positions [low, high) for which a tap meets a real cell.
std::pair<Index, Index> real_positions(const GatherAxis& axis, std::size_t tap);

// The gather without the taps that meet no real cell.
Gather trimmed(const Gather& gather);

// The gather in parts that meet fewer taps each, if that leaves less than this share of the work for so many samples:
// with a large dilation many taps of many positions lie in the padding.
std::vector<Gather> split_by_taps(const Gather& gather, Index samples, double worth);

Index position_count(const Gather& gather);
Index tap_count(const Gather& gather);

// Whether a tap of position q along this axis is no real cell. Offsets rise or fall from the first to the last.
bool touches_padding(const GatherAxis& axis, Index q);

// A box of positions.
struct Tile {
  Sizes first;
  Sizes count;
  Index positions() const;
  Sizes position(Index number) const;  // last axis fastest
};

// Cuts the positions of a gather into boxes of at most `most` positions (at least one), innermost axes whole first.
// Boxes are as equal as can be, and none is larger along any axis than the first.
class Tiling {
 public:
  Tiling() = default;
  Tiling(const Gather& gather, Index most);
  Index count() const { return count_; }
  Index largest() const { return largest_; }
  Tile tile(Index number) const;

 private:
  Sizes positions_, tiles_;
  Index count_ = 1;
  Index largest_ = 1;
};

// A run of slab cells along an axis that holds source cells `source + i * step`; those in [low, high) are real.
struct Segment {
  Index begin, count, source, step;
  Index low = 0, high = 0;

  void find_real(Index source_size);
};

// One axis of a slab: position q (counted from the tile's first) and tap t stand at q * step + tap[t].
struct SlabAxis {
  Index count = 0;  // positions
  Index size = 0;
  Index step = 1;
  std::vector<Index> tap;
  std::vector<Segment> segments;
};

// The slab for a tile. Along each axis it holds either every cell in reach or one copy for each (tap, position),
// whichever is less; with `unit_step` neighbouring positions of the last axis are neighbours in the slab.
class SlabPlan {
 public:
  void plan(const Gather& gather, const Tile& tile, bool unit_step);

  const std::vector<SlabAxis>& axes() const { return axes_; }
  Index cells() const { return cells_; }
  const std::vector<Index>& tap_cells() const { return taps_; }            // slab cell of each tap at position 0
  const std::vector<Index>& position_cells() const { return positions_; }  // slab cell of each position at tap 0
  Index stride(int axis) const { return strides_[axis]; }

 private:
  std::vector<SlabAxis> axes_;
  Sizes strides_;
  Index cells_ = 1;
  std::vector<Index> taps_, positions_;
};

}  // namespace halfulp::conv
