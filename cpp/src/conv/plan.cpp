#include <algorithm>
#include <numeric>
#include <utility>

#include "conv/plan.hpp"

namespace halfulp::conv {
namespace {

// Every cell in reach, compressed by the greatest common divisor of all distances.
SlabAxis dense_axis(const GatherAxis& axis, Index first, Index count) {
  SlabAxis slab;
  if (axis.offset.empty()) return slab;
  const auto [low, high] = std::minmax_element(axis.offset.begin(), axis.offset.end());
  Index unit = count > 1 ? axis.step : 0;
  for (const Index offset : axis.offset) unit = std::gcd(unit, offset - *low);
  unit = std::max<Index>(unit, 1);
  slab.step = count > 1 ? axis.step / unit : 1;
  slab.size = ((count - 1) * (count > 1 ? axis.step : 0) + *high - *low) / unit + 1;
  for (const Index offset : axis.offset) slab.tap.push_back((offset - *low) / unit);
  slab.segments.push_back({0, slab.size, first * axis.step + *low, unit});
  return slab;
}

// One copy for each tap and position.
SlabAxis expanded_axis(const GatherAxis& axis, Index first, Index count) {
  SlabAxis slab;
  slab.size = static_cast<Index>(axis.offset.size()) * count;
  for (std::size_t t = 0; t < axis.offset.size(); ++t) {
    const Index begin = static_cast<Index>(t) * count;
    slab.tap.push_back(begin);
    slab.segments.push_back({begin, count, first * axis.step + axis.offset[t], axis.step});
  }
  return slab;
}

// Sorts a dense axis by residue modulo its step, so that neighbouring positions become neighbours.
SlabAxis split_by_residue(const SlabAxis& dense) {
  const Segment whole = dense.segments.front();
  SlabAxis slab;
  const Index length = ceil_div(dense.size, dense.step);
  std::vector<Index> place(static_cast<std::size_t>(dense.step), -1);
  for (const Index tap : dense.tap) {
    const Index residue = tap % dense.step;
    Index& begin = place[static_cast<std::size_t>(residue)];
    if (begin < 0) {
      begin = slab.size;
      slab.size += length;
      const Index count = ceil_div(dense.size - residue, dense.step);
      slab.segments.push_back({begin, count, whole.source + residue * whole.step, whole.step * dense.step});
    }
    slab.tap.push_back(begin + tap / dense.step);
  }
  return slab;
}

SlabAxis slab_axis(const GatherAxis& axis, Index first, Index count, bool unit_step) {
  const SlabAxis dense = dense_axis(axis, first, count);
  if (static_cast<Index>(axis.offset.size()) * count < dense.size) return expanded_axis(axis, first, count);
  return unit_step && dense.step > 1 ? split_by_residue(dense) : dense;
}

// Sums of one entry per axis, last axis fastest.
void combine(const std::vector<std::vector<Index>>& parts, std::vector<Index>& sums) {
  sums.assign(1, 0);
  std::vector<Index> next;
  for (const auto& part : parts) {
    next.clear();
    for (const Index sum : sums)
      for (const Index value : part) next.push_back(sum + value);
    sums.swap(next);
  }
}

Index modulo(Index a, Index b) { return (a % b + b) % b; }

GatherAxis residue_axis(const Axis& axis, Index residue) {
  GatherAxis gather;
  gather.positions = axis.size > residue ? ceil_div(axis.size - residue, axis.stride) : 0;
  gather.source_size = axis.output;
  gather.out_start = residue;
  gather.out_step = axis.stride;
  for (Index t = 0; t < axis.kernel; ++t) {
    const Index distance = residue + axis.before - t * axis.dilation;
    if (modulo(distance, axis.stride) != 0) continue;
    gather.tap.push_back(t);
    gather.offset.push_back(distance / axis.stride);
  }
  return gather;
}

// Positions [begin, end) of an axis, with the taps that some of them need.
GatherAxis part_of(const GatherAxis& axis, Index begin, Index end) {
  GatherAxis part = axis;
  part.positions = end - begin;
  part.out_start += begin * axis.out_step;
  part.tap.clear();
  part.offset.clear();
  for (std::size_t t = 0; t < axis.tap.size(); ++t) {
    const auto [low, high] = real_positions(axis, t);
    if (std::max(low, begin) >= std::min(high, end)) continue;
    part.tap.push_back(axis.tap[t]);
    part.offset.push_back(axis.offset[t] + begin * axis.step);
  }
  return part;
}

// The parts of an axis whose positions all meet the same taps.
std::vector<GatherAxis> parts_of(const GatherAxis& axis) {
  std::vector<Index> ends{0, axis.positions};
  for (std::size_t t = 0; t < axis.tap.size(); ++t) {
    const auto [low, high] = real_positions(axis, t);
    if (low < high) ends.insert(ends.end(), {low, high});
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<GatherAxis> parts;
  for (std::size_t i = 1; i < ends.size(); ++i) parts.push_back(part_of(axis, ends[i - 1], ends[i]));
  return parts;
}

// Every choice of one part per axis.
std::vector<Gather> combined(const std::vector<std::vector<GatherAxis>>& parts) {
  std::vector<Gather> gathers(1);
  for (const std::vector<GatherAxis>& axis : parts) {
    std::vector<Gather> next;
    for (const Gather& gather : gathers) {
      for (const GatherAxis& part : axis) {
        next.push_back(gather);
        next.back().push_back(part);
      }
    }
    gathers.swap(next);
  }
  return gathers;
}

// What the products of these parts cost: each sums its taps for its positions, tile by tile, and packs its filters
// once.
double cost_of(const std::vector<Gather>& parts, Index samples) {
  constexpr Index packing = 48, tile = 256, of_tile = 16, rows = 8;  // in positions
  double cost = 0;
  for (const Gather& part : parts) {
    const Index positions = position_count(part);
    const Index sample = ceil_div(positions, rows) * rows + ceil_div(positions, tile) * of_tile;
    cost += static_cast<double>(tap_count(part)) * static_cast<double>(samples * sample + packing);
  }
  return cost;
}

bool plain(const Axis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.size == axis.output;
}

}  // namespace

void merge_plain_axes(Geometry& geometry, const std::vector<std::vector<Index>*>& plane_strides,
                      const std::vector<std::vector<Index>*>& filter_strides) {
  for (std::size_t i = geometry.axes.size(); i-- > 1;) {
    Axis& inner = geometry.axes[i];
    Axis& outer = geometry.axes[i - 1];
    bool joins = plain(inner) && plain(outer);
    for (const std::vector<Index>* strides : plane_strides)
      joins = joins && (*strides)[i - 1] == (*strides)[i] * inner.size;
    if (!joins) continue;
    outer.size = outer.output = outer.size * inner.size;
    const auto place = static_cast<std::ptrdiff_t>(i);
    geometry.axes.erase(geometry.axes.begin() + place);
    for (std::vector<Index>* strides : plane_strides) strides->erase(strides->begin() + place - 1);
    for (std::vector<Index>* strides : filter_strides) strides->erase(strides->begin() + place - 1);
  }
}

Gather output_gather(const Geometry& geometry) {
  Gather gather;
  for (const Axis& axis : geometry.axes) {
    GatherAxis one;
    one.positions = axis.output;
    one.step = axis.stride;
    one.source_size = axis.size;
    for (Index t = 0; t < axis.kernel; ++t) {
      one.tap.push_back(t);
      one.offset.push_back(t * axis.dilation - axis.before);
    }
    gather.push_back(one);
  }
  return gather;
}

std::vector<Gather> input_gathers(const Geometry& geometry) {
  std::vector<Gather> gathers(1);
  for (const Axis& axis : geometry.axes) {
    std::vector<Gather> next;
    for (const Gather& gather : gathers) {
      for (Index residue = 0; residue < std::min(axis.stride, axis.size); ++residue) {
        next.push_back(gather);
        next.back().push_back(residue_axis(axis, residue));
      }
    }
    gathers.swap(next);
  }
  return gathers;
}

std::pair<Index, Index> real_positions(const GatherAxis& axis, std::size_t tap) {
  Segment cells{0, axis.positions, axis.offset[tap], axis.step};
  cells.find_real(axis.source_size);
  return {cells.low, cells.high};
}

Gather trimmed(const Gather& gather) {
  Gather kept;
  for (const GatherAxis& axis : gather) kept.push_back(part_of(axis, 0, axis.positions));
  return kept;
}

std::vector<Gather> split_by_taps(const Gather& gather, Index samples, double worth) {
  constexpr std::size_t most_axes = 3, most_parts = 27;
  if (gather.size() > most_axes || position_count(gather) == 0) return {gather};
  std::vector<Gather> best{gather};
  double least = worth * cost_of(best, samples);
  std::vector<std::vector<GatherAxis>> whole;
  for (const GatherAxis& axis : gather) whole.push_back({axis});
  for (unsigned axes = 1; axes < 1u << gather.size(); ++axes) {  // those that are split
    std::vector<std::vector<GatherAxis>> parts = whole;
    std::size_t count = 1;
    for (std::size_t axis = 0; axis < gather.size(); ++axis) {
      if ((axes >> axis & 1) != 0) parts[axis] = parts_of(gather[axis]);
      count *= parts[axis].size();
    }
    if (count > most_parts) continue;
    std::vector<Gather> gathers = combined(parts);
    const double cost = cost_of(gathers, samples);
    if (cost >= least) continue;
    least = cost;
    best = std::move(gathers);
  }
  return best;
}

Index position_count(const Gather& gather) {
  Index count = 1;
  for (const GatherAxis& axis : gather) count *= axis.positions;
  return count;
}

Index tap_count(const Gather& gather) {
  Index count = 1;
  for (const GatherAxis& axis : gather) count *= static_cast<Index>(axis.tap.size());
  return count;
}

bool touches_padding(const GatherAxis& axis, Index q) {
  if (axis.offset.empty()) return false;
  const Index one_end = q * axis.step + axis.offset.front(), other_end = q * axis.step + axis.offset.back();
  return std::min(one_end, other_end) < 0 || std::max(one_end, other_end) >= axis.source_size;
}

Index Tile::positions() const {
  Index product = 1;
  for (const Index n : count) product *= n;
  return product;
}

Sizes Tile::position(Index number) const {
  Sizes position = first;
  for (int axis = count.size() - 1; axis >= 0; --axis) {
    position[axis] += number % count[axis];
    number /= count[axis];
  }
  return position;
}

Tiling::Tiling(const Gather& gather, Index most) {
  const int ndim = static_cast<int>(gather.size());
  positions_.resize(ndim);
  tiles_.resize(ndim);
  for (int axis = ndim - 1; axis >= 0; --axis) {
    const Index n = gather[static_cast<std::size_t>(axis)].positions;
    const Index room = std::max<Index>(1, most / largest_);
    positions_[axis] = n;
    tiles_[axis] = std::max<Index>(1, ceil_div(n, room));
    count_ *= tiles_[axis];
    largest_ *= std::max<Index>(1, ceil_div(n, tiles_[axis]));
  }
}

Tile Tiling::tile(Index number) const {
  Tile tile;
  tile.first.resize(tiles_.size());
  tile.count.resize(tiles_.size());
  for (int axis = tiles_.size() - 1; axis >= 0; --axis) {
    const Index place = number % tiles_[axis], share = positions_[axis] / tiles_[axis],
                larger = positions_[axis] % tiles_[axis];
    tile.first[axis] = place * share + std::min(place, larger);
    tile.count[axis] = share + (place < larger ? 1 : 0);
    number /= tiles_[axis];
  }
  return tile;
}

void Segment::find_real(Index source_size) {
  const Index missing = source >= 0 ? 0 : ceil_div(-source, step), room = source_size - source;
  low = std::min(missing, count);
  high = std::clamp<Index>(room <= 0 ? 0 : ceil_div(room, step), low, count);
}

void SlabPlan::plan(const Gather& gather, const Tile& tile, bool unit_step) {
  const int ndim = static_cast<int>(gather.size());
  axes_.clear();
  for (int axis = 0; axis < ndim; ++axis)
    axes_.push_back(slab_axis(gather[static_cast<std::size_t>(axis)], tile.first[axis], tile.count[axis],
                              unit_step && axis == ndim - 1));
  for (int axis = 0; axis < ndim; ++axis) {
    SlabAxis& slab = axes_[static_cast<std::size_t>(axis)];
    slab.count = tile.count[axis];
    for (Segment& segment : slab.segments) segment.find_real(gather[static_cast<std::size_t>(axis)].source_size);
  }
  strides_.resize(ndim);
  cells_ = 1;
  std::vector<std::vector<Index>> taps(axes_.size()), positions(axes_.size());
  for (int axis = ndim - 1; axis >= 0; --axis) {
    const auto place = static_cast<std::size_t>(axis);
    const SlabAxis& slab = axes_[place];
    strides_[axis] = cells_;
    for (const Index tap : slab.tap) taps[place].push_back(tap * cells_);
    for (Index q = 0; q < tile.count[axis]; ++q) positions[place].push_back(q * slab.step * cells_);
    cells_ *= slab.size;
  }
  combine(taps, taps_);
  combine(positions, positions_);
}

}  // namespace halfulp::conv
