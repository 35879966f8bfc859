// From sums to outputs: bounds, acceptance, resolution of the rest, and writing.
#pragma once

#include <cstring>

#include "conv/gather_engine.hpp"

namespace halfulp::conv {

// A sum of zeros at a position that touches padding may have the wrong sign: no weight times padding is a term, but the
// slab holds a zero there. This margin, far below any nonzero product of floats, makes such zeros undecided.
inline constexpr double kPaddingMargin = 0x1p-300;

template <class S>
void GatherEngine<S>::fill_without_terms() {
  const GatherAxis& last = p_.gather.back();
  const Index lines = position_count(p_.gather) / last.positions;
  const Index stride = last.out_step * p_.out.spatial.back();
  Buffer<std::byte> values;
  const Outputs line{values.at_least(last.positions * type_.size), &type_};
  for (Index row = 0; row < p_.groups * p_.rows; ++row) {
    const double value = p_.bias == nullptr ? 0.0 : p_.bias[p_.channel_of(0, row) * p_.bias_stride];
    for (Index i = 0; i < last.positions; ++i) store(line + i, value);
    for (Index n = 0; n < p_.batch; ++n) {
      for (Index i = 0; i < lines; ++i) {
        Index rest = i, offset = last.out_start * p_.out.spatial.back();
        for (std::size_t axis = p_.gather.size() - 1; axis-- > 0;) {
          const GatherAxis& one = p_.gather[axis];
          offset += (one.out_start + rest % one.positions * one.out_step) * p_.out.spatial[axis];
          rest /= one.positions;
        }
        copy_spread(kernels_, constant(line), last.positions, stride, p_.plane(n, 0, row) + offset);
      }
    }
  }
}

template <class S>
double GatherEngine<S>::largest_in(const double* slab, const SlabLayout& layout, Index channels, Index cells) const {
  if (layout.channels_inside) return kernels_.largest_magnitude(slab, cells * channels);
  double largest = 0;
  for (Index c = 0; c < channels; ++c)
    largest = std::max(largest, kernels_.largest_magnitude(slab + c * layout.channel, cells));
  return largest;
}

template <class S>
void GatherEngine<S>::add_sizes(Workspace& work, const double* slab, const SlabLayout& layout, Index channels) {
  const Index cells = work.plan.cells();
  double* const squares = work.squares.at_least(1);
  if (!layout.channels_inside) {
    const auto add = twofold_ ? kernels_.add_magnitudes : kernels_.add_squares;
    for (Index c = 0; c < channels; ++c) add(slab + c * layout.channel, cells, squares);
    return;
  }
  for (Index i = 0; i < cells; ++i, slab += layout.cell) {
    squares[i] += twofold_ ? kernels_.sum_magnitudes(slab, channels) : kernels_.sum_squares(slab, channels);
  }
}

// The 2-norm of the cells of each position; for twofold sums the sum of their magnitudes.
template <class S>
void GatherEngine<S>::finish_reach(Workspace& work, std::size_t s) {
  const Index positions = static_cast<Index>(work.plan.position_cells().size());
  double* const reach = work.reach.at_least(1) + static_cast<Index>(s) * positions;
  // Axis by axis, from the last: an axis of cells is summed over its taps and becomes one of positions.
  const double* from = work.squares.at_least(1);
  Index outer = work.plan.cells(), inner = 1;
  for (std::size_t axis = p_.gather.size(); axis-- > 0;) {
    const SlabAxis& slab = work.plan.axes()[axis];
    outer /= slab.size;
    double* const to = axis == 0 ? reach : work.partial[axis % 2].at_least(outer * slab.count * inner);
    const Windows windows{slab.tap.data(), static_cast<Index>(slab.tap.size()), slab.step, slab.count, inner};
    for (Index i = 0; i < outer; ++i)
      kernels_.sum_windows(from + i * slab.size * inner, windows, to + i * slab.count * inner);
    from = to;
    inner *= slab.count;
  }
  if (twofold_) return;
  double least = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < positions; ++i) {
    reach[i] = std::sqrt(reach[i]);
    least = reach[i] < least ? reach[i] : least;
  }
  work.extreme[s] = least;
}

// The largest magnitude of the cells of each position, instead of that of the whole tile.
template <class S>
void GatherEngine<S>::refine_reach(Workspace& work) {
  const std::vector<Index>& cells = work.plan.position_cells();
  const Index channel = SlabLayout::of<S>(work.plan.cells(), p_.channels, false).channel;
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    const S* const slab = work.slab.at_least(1) + work.slab_begin[s];
    double* const reach = work.reach.at_least(1) + static_cast<Index>(s * cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      double largest = 0;
      for (Index c = 0; c < p_.channels; ++c)
        for (const Index tap : work.plan.tap_cells()) {
          const double size = std::abs(static_cast<double>(slab[c * channel + cells[i] + tap]));
          largest = size > largest ? size : largest;
        }
      reach[i] = largest;
    }
  }
  work.refined = true;
  work.whole = false;  // once is enough
}

// The sums of the magnitudes of the terms themselves: those of a sum of zeros, as sparse cotangents give, are zero.
template <class S>
void GatherEngine<S>::measure_terms(Workspace& work, const Part& part, Acceptance& a) {
  if constexpr (std::is_same_v<S, double>) {
    const Index cells = SlabLayout::of<S>(work.plan.cells(), 1, false).channel * p_.channels;
    const S* const slab = work.slab.at_least(1) + work.slab_begin[0];
    S* const magnitudes = work.magnitudes.at_least(cells + 4 * products_.width);
    if (!work.measured)
      for (Index i = 0; i < cells; ++i) magnitudes[i] = std::abs(slab[i]);
    work.measured = true;
    S weights[kShallow];
    load_filter(0, part.group, part.row, 0, p_.channels, weights);
    for (S& weight : weights) weight = std::abs(weight);
    S* const terms = work.terms.at_least(part.count + products_.width);
    products_.stencil[0](magnitudes + work.plan.position_cells()[static_cast<std::size_t>(part.first)],
                         work.offsets.data(), weights, p_.channels, part.count, terms, 0, 0, true);
    a.reach[0] = terms;
    a.size[0] = 1;
  }
}

template <class S>
void GatherEngine<S>::mark_padding(Workspace& work, const Tile& tile) {
  work.padded.assign(1, 0);
  std::vector<char> along, next;
  for (int axis = 0; axis < tile.count.size(); ++axis) {
    const GatherAxis& one = p_.gather[static_cast<std::size_t>(axis)];
    along.clear();
    for (Index q = 0; q < tile.count[axis]; ++q)
      along.push_back(touches_padding(one, tile.first[axis] + q));
    next.clear();
    for (const char outer : work.padded) {
      if (outer == 0) next.insert(next.end(), along.begin(), along.end());
      else next.insert(next.end(), along.size(), 1);
    }
    work.padded.swap(next);
  }
  const Index positions = tile.positions();
  double* const floors = work.floors.at_least(positions);
  // What underflow can lose in a twofold sum: a product and its error each up to 2^-1074, some more for split products.
  const double underflow = static_cast<double>(depth_ + 2) * 0x1p-1070;
  for (Index i = 0; i < positions; ++i)
    floors[i] = twofold_ ? underflow : (work.padded[static_cast<std::size_t>(i)] != 0 ? kPaddingMargin : 0.0);
}

// The output offset of each run of positions along the last axis.
template <class S>
void GatherEngine<S>::find_runs(Workspace& work, const Tile& tile) {
  work.run_offsets.assign(1, 0);
  std::vector<Index> next;
  const int last = tile.count.size() - 1;
  for (int axis = 0; axis <= last; ++axis) {
    const GatherAxis& one = p_.gather[static_cast<std::size_t>(axis)];
    const Index stride = p_.out.spatial[static_cast<std::size_t>(axis)];
    next.clear();
    for (const Index outer : work.run_offsets)
      for (Index q = 0; q < (axis == last ? 1 : tile.count[axis]); ++q)
        next.push_back(outer + (one.out_start + (tile.first[axis] + q) * one.out_step) * stride);
    work.run_offsets.swap(next);
  }
  work.in_one_run = p_.gather.back().out_step * p_.out.spatial.back() == 1;
  for (std::size_t i = 1; i < work.run_offsets.size(); ++i)
    work.in_one_run = work.in_one_run && work.run_offsets[i] - work.run_offsets[i - 1] == tile.count[last];
}

template <class S>
void GatherEngine<S>::finish_matrix(Workspace& work, const Chunk& chunk, Index n, const Tile& tile) {
  const Index positions = tile.positions(), padded = static_cast<Index>(work.rows.size());
  const bool done = !correct_ && p_.bias == nullptr;
  if (same_type() && done && work.in_one_run && p_.variants == 1)
    return turn_into_output(work, chunk, n, positions);
  const Index stride = odd_lines<S>(positions);  // from one output channel's sums to the next's
  const Index planes = twofold_ ? 2 : 1;
  S* const turned = work.turned.at_least(planes * chunk.width * stride);
  for (Index plane = 0; plane < planes; ++plane)
    products_.transpose(work.sums.at_least(1) + plane * padded * work.stride, work.stride, positions, chunk.width,
                        turned + plane * chunk.width * stride, stride);
  finish_rows(work, chunk, n, tile, turned, stride);
}

// Finishes sums that lie as the outputs do: `stride` from one output channel to the next.
template <class S>
void GatherEngine<S>::finish_rows(Workspace& work, const Chunk& chunk, Index n, const Tile& tile, S* high,
                                  Index stride) {
  const Index positions = tile.positions();
  for (Index i = chunk.begin; i < chunk.end; ++i) {
    const Panel& panel = panels_[static_cast<std::size_t>(i)];
    for (Index j = 0; j < panel.columns; ++j, high += stride) {
      const Part part{n, panel.group, panel.first + j, 0, positions};
      Margin margin;
      const bool decides = find_margin(work, panel.group, part.row, margin);
      finish_part(work, part, high, high + chunk.width * stride, tile, decides ? &margin : nullptr);
    }
    high += (panel.width - panel.columns) * stride;
  }
}

// Sums that are outputs already, in lines that lie side by side.
template <class S>
void GatherEngine<S>::turn_into_output(Workspace& work, const Chunk& chunk, Index n, Index positions) {
  const S* sums = work.sums.at_least(1);
  for (Index i = chunk.begin; i < chunk.end; ++i) {
    const Panel& panel = panels_[static_cast<std::size_t>(i)];
    const Outputs out = p_.plane(n, panel.group, panel.first) + work.run_offsets.front();
    products_.transpose(sums, work.stride, positions, panel.columns, out.template as<S>(), p_.out.channel);
    sums += panel.width;
  }
}

// Finishes consecutive positions, whole lines along the last axis.
template <class S>
void GatherEngine<S>::finish_part(Workspace& work, const Part& part, S* high, S* low, const Tile& tile,
                                     const Margin* margin) {
  const Index run = tile.count[tile.count.size() - 1];
  const Outputs plane = p_.plane(part.n, part.group, part.row);
  const bool direct = work.in_one_run || (part.count == run && p_.gather.back().out_step * p_.out.spatial.back() == 1);
  const Index offset = work.run_offsets[static_cast<std::size_t>(work.in_one_run ? 0 : part.first / run)];
  const Outputs out = direct ? plane + offset + (work.in_one_run ? part.first : 0) : rounded(work, part.count);
  if (p_.bias_position != 0) add_line_bias(part, tile, high, low);
  if constexpr (std::is_same_v<S, double>) {
    if (correct_) finish_correct(work, part, high, low, tile, margin, out);
    else finish_fast(part, high, out);
  } else {
    finish_fast(part, high, out);
  }
  if (!direct) write(work, part, plane, run);
}

template <class S>
void GatherEngine<S>::add_line_bias(const Part& part, const Tile& tile, S* high, S* low) const {
  for (Index i = 0; i < part.count; ++i) {
    const double bias = p_.bias_of(0, 0, tile.first[0] + part.first + i);
    if (twofold_) {
      const TwoDoubles sum = two_sum(static_cast<double>(high[i]), bias);
      high[i] = static_cast<S>(sum.high);
      low[i] += static_cast<S>(sum.low);
    } else {
      high[i] += static_cast<S>(bias);
    }
  }
}

template <class S>
void GatherEngine<S>::finish_fast(const Part& part, S* sums, const Outputs& out) {
  if (p_.bias != nullptr && p_.bias_position == 0) {
    const S bias = static_cast<S>(p_.bias_of(part.group, part.row));
    for (Index i = 0; i < part.count; ++i) sums[i] += bias;
  }
  store_fast(sums, part.count, out);
}

// The margins of an output channel's sums. False if they do not decide: where zeros, padding and exact sums ask for a
// closer look.
template <class S>
bool GatherEngine<S>::find_margin(Workspace& work, Index group, Index row, Margin& margin) const {
  if (!correct_ || twofold_ || work.refined || exact_.known() || !finite_filters_) return false;
  margin = {{}, {}, gamma_ * bias_size(group, row), bias_left(group, row)};
  double least = 0;
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    const double scale = gamma_ * filter_size_[s][static_cast<std::size_t>(group * p_.rows + row)];
    if (by_position_) {
      margin.reach[s] = work.reach.at_least(1) + static_cast<Index>(s * work.plan.position_cells().size());
      margin.scale[s] = scale;
      least += scale * work.extreme[s];
    } else {
      margin.base += scale * work.extreme[s];
    }
  }
  return least + margin.base >= kPaddingMargin && margin.base < std::numeric_limits<double>::infinity();
}

template <class S>
Acceptance GatherEngine<S>::acceptance(Workspace& work, const Part& part) const {
  const Index positions = static_cast<Index>(work.plan.position_cells().size());
  if (!by_position_ && !work.spread) {
    for (std::size_t s = 0; s < p_.sources.size(); ++s)
      std::fill_n(work.reach.at_least(1) + static_cast<Index>(s) * positions, positions, work.extreme[s]);
    work.spread = true;
  }
  Acceptance a{part.count, {}, {}, bias_size(part.group, part.row), bias_left(part.group, part.row),
               work.floors.at_least(1) + part.first, gamma_, exact_.now()};
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    a.reach[s] = work.reach.at_least(1) + static_cast<Index>(s) * positions + part.first;
    a.size[s] = filter_size_[s][static_cast<std::size_t>(part.group * p_.rows + part.row)];
  }
  return a;
}

template <class S>
void GatherEngine<S>::finish_correct(Workspace& work, const Part& part, double* high, double* low, const Tile& tile,
                                        const Margin* margin, const Outputs& out) {
  work.seen += part.count;
  const bool measured = shallow_ && work.measured;  // lines of the tile had many zeros
  if (margin != nullptr && !measured && type_.decide(high, part.count, *margin, out.at)) return;
  std::uint8_t* const bad = work.bad.at_least(part.count);
  Acceptance a = acceptance(work, part);
  if (measured) measure_terms(work, part, a);
  Index count = type_.accept(high, low, a, out.at, bad);
  if (shallow_ && !measured && count > 4) {
    measure_terms(work, part, a);
    count = type_.accept(high, low, a, out.at, bad);
  }
  work.undecided += count;
  const bool many = work.undecided >= 64 && work.undecided * 16 > work.seen;
  if (many && !exact_.known()) {
    exact_.find([&] { return find_exact_limit(); });
    a.exact = exact_.now();
    count = type_.accept(high, low, a, out.at, bad);
  }
  if (many && count * 16 > part.count && work.whole && !shallow_) {
    refine_reach(work);
    count = type_.accept(high, low, a, out.at, bad);
  }
  if (count == 0 && finite_filters_) return;
  for (Index i = 0; i < part.count; ++i) {
    if (bad[i] == 0 && finite_filters_) continue;
    const bool padded = work.padded[static_cast<std::size_t>(part.first + i)] != 0;
    const TwoDoubles sum = two_sum(high[i], a.bias);
    const double value = twofold_ ? sum.high + (low[i] + sum.low) : sum.high;
    const bool spoilt = !finite_filters_ && padded && !std::isfinite(value);  // perhaps by a weight over padding
    if (bad[i] == 0 && !spoilt) continue;
    double bound = a.base;
    bool all_zero = a.base == 0;
    for (std::size_t s = 0; s < p_.sources.size(); ++s) {
      bound += a.reach[s][i] * a.size[s];
      all_zero = all_zero && (a.reach[s][i] == 0 || a.size[s] == 0);
    }
    p_.resolve(part.n, part.group, part.row, tile.position(part.first + i), value, all_zero || bound < a.exact,
               !twofold_ && !spoilt, out + i);
  }
}

template <class S>
double GatherEngine<S>::find_exact_limit() const {
  double grid = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    const Source& source = p_.sources[s];
    Sizes shape{p_.batch, p_.groups * p_.channels}, strides{source.planes.batch, source.planes.channel};
    const Sizes filter_shape{p_.groups, p_.rows / p_.variants, p_.variants, p_.channels};
    const Sizes filter_strides{source.group, source.row, source.variant, source.channel};
    for (std::size_t axis = 0; axis < p_.gather.size(); ++axis) {
      shape.push_back(p_.gather[axis].source_size);
      strides.push_back(source.planes.spatial[axis]);
    }
    double filter_bit = std::numeric_limits<double>::infinity();
    for (const Index offset : filter_offsets_[s])
      filter_bit = std::min(filter_bit, smallest_bit(source.filters + offset, filter_shape, filter_strides));
    grid = std::min(grid, smallest_bit(source.planes.data, shape, strides) * filter_bit);
  }
  if (p_.bias != nullptr) {
    const bool along = p_.bias_position != 0;
    const Sizes shape{along ? p_.gather.front().positions : p_.groups * p_.rows / p_.variants};
    grid = std::min(grid, smallest_bit(p_.bias, shape, Sizes{along ? p_.bias_position : p_.bias_stride}));
  }
  return exact_limit(grid, additions_, twofold_);
}

template <class S>
void GatherEngine<S>::write(Workspace& work, const Part& part, const Outputs& plane, Index run) {
  const Index stride = p_.gather.back().out_step * p_.out.spatial.back();
  Outputs in = rounded(work, part.count);
  for (Index l = part.first / run; l < (part.first + part.count) / run; ++l, in += run)
    copy_spread(kernels_, constant(in), run, stride, plane + work.run_offsets[static_cast<std::size_t>(l)]);
}

}  // namespace halfulp::conv
