// From the sums of the weight product to weights: bounds, acceptance, resolution of the rest.
#pragma once

#include "conv/weight_engine.hpp"

namespace halfulp::conv {

// Row by row: the output channels of an input channel and a tap; or, of dot products, the taps of a pair of channels.
template <class S>
void WeightEngine<S>::finish(Workspace& work, const WeightTask& task) {
  const Index longest = std::max(task.outs, taps_), first = task.group * p_.out_channels + task.first_out;
  const Elements sources = constant(rounded(work, longest));
  S* const high = work.high.at_least(longest);
  S* const low = work.low.at_least(longest);
  const S* const sums = work.sums.at_least(1);
  const auto target = [&](Index m, Index in) {
    return p_.out.data + (first + m) * p_.out.out + (task.first_in + in) * p_.out.in;
  };
  if (!dot_) {
    for (Index in = 0; in < task.ins; ++in) {
      for (Index tap = 0; tap < taps_; ++tap) {
        const S* const row = sums + row_of(work, in, tap) * work.width;
        std::copy_n(row, task.outs, high);
        if (twofold_) std::copy_n(row + work.plane, task.outs, low);
        finish_row(work, task.outs, in, work.output_size.data(),
                   [&](Index m) { return WeightPlace(task, m, in, tap); });
        const Outputs out = target(0, in) + tap_offsets_[static_cast<std::size_t>(tap)];
        copy_spread(kernels_, sources, task.outs, p_.out.out, out);
      }
    }
    return;
  }
  double* const sizes = work.sizes.at_least(taps_);
  for (Index m = 0; m < task.outs; ++m) {
    std::fill_n(sizes, taps_, work.output_size[static_cast<std::size_t>(m)]);
    for (Index in = 0; in < task.ins; ++in) {
      for (Index tap = 0; tap < taps_; ++tap)
        add_lanes(work, sums + ((m * task.ins + in) * taps_ + tap) * products_.width, high[tap], low[tap]);
      finish_row(work, taps_, in, sizes, [&](Index tap) { return WeightPlace(task, m, in, tap); });
      for (Index tap = 0; tap < taps_; ++tap)
        copy_spread(kernels_, sources + tap, 1, 1, target(m, in) + tap_offsets_[static_cast<std::size_t>(tap)]);
    }
  }
}

template <class S>
void WeightEngine<S>::add_lanes(const Workspace& work, const S* lanes, S& high, S& low) const {
  if constexpr (std::is_same_v<S, double>) {
    if (twofold_) {
      TwoDoubles total{0, 0};
      for (Index lane = 0; lane < products_.width; ++lane) {
        const TwoDoubles sum = two_sum(total.high, lanes[lane]);
        total = {sum.high, total.low + sum.low};
      }
      for (Index lane = 0; lane < products_.width; ++lane) total.low += lanes[work.plane + lane];
      high = total.high;
      low = total.low;
      return;
    }
  }
  high = lanes[0];
  for (Index lane = 1; lane < products_.width; ++lane) high += lanes[lane];
}

// Rounds `count` sums of one input channel; `position` tells which weight each of them is. In fast mode, a sum that is
// not finite is formed again: an infinity may have met a zero that is no term, in the padding or beside the staged
// cells.
template <class S>
template <class Place>
void WeightEngine<S>::finish_row(Workspace& work, Index count, Index in, const double* sizes,
                                    const Place& position) {
  if constexpr (std::is_same_v<S, double>) {
    if (correct_) return finish_correct(work, count, in, sizes, position);
  }
  const S* const sums = work.high.at_least(1);
  const Outputs out = rounded(work, 1);
  store_fast(sums, count, out);
  for (Index i = 0; i < count; ++i)
    if (!std::isfinite(sums[i])) terms_.resolve(position(i), static_cast<double>(sums[i]), false, out + i);
}

template <class S>
template <class Place>
void WeightEngine<S>::finish_correct(Workspace& work, Index count, Index in,
                                        const double* sizes, const Place& position) {
  const double reach = work.input_size[static_cast<std::size_t>(in)];
  // Zeros are never accepted as they are, for padding may have given them their sign.
  const double terms = static_cast<double>(p_.batch) * static_cast<double>(position_count(gather_)) + 2;
  double* const floors = work.floors.at_least(count);
  std::fill_n(floors, count, twofold_ ? terms * 0x1p-1070 : 0x1p-300);
  Acceptance a{count, {sizes, nullptr}, {reach, 0}, 0, -0.0, floors, gamma_, exact_.now()};
  double* const high = work.high.at_least(1);
  const Outputs out = rounded(work, 1);
  std::uint8_t* const bad = work.bad.at_least(count);
  Index undecided = type_.accept(high, work.low.at_least(1), a, out.at, bad);
  work.seen += count;
  work.undecided += undecided;
  if (work.undecided >= 64 && work.undecided * 16 > work.seen && !exact_.known()) {
    exact_.find([&] { return find_exact_limit(); });
    a.exact = exact_.now();
    undecided = type_.accept(high, work.low.at_least(1), a, out.at, bad);
  }
  if (undecided == 0 && work.finite) return;
  for (Index i = 0; i < count; ++i) {
    if (bad[i] == 0 && work.finite) continue;
    const bool exact = reach == 0 || sizes[i] == 0 || reach * sizes[i] < a.exact;
    const double value = twofold_ ? high[i] + work.low.at_least(1)[i] : high[i];
    if (bad[i] == 0 && std::isfinite(value)) continue;
    if (!exact && work.finite && terms_.resolve_sparse(work.sparse, position(i), out + i)) continue;
    terms_.resolve(position(i), value, exact, out + i);
  }
}

template <class S>
double WeightEngine<S>::find_exact_limit() const {
  Sizes in_shape{p_.batch, p_.groups * p_.in_channels}, in_strides{p_.inputs.batch, p_.inputs.channel};
  Sizes out_shape{p_.batch, p_.groups * p_.out_channels}, out_strides{p_.outputs.batch, p_.outputs.channel};
  for (std::size_t axis = 0; axis < p_.axes.size(); ++axis) {
    in_shape.push_back(p_.axes[axis].size);
    in_strides.push_back(p_.inputs.spatial[axis]);
    out_shape.push_back(p_.axes[axis].output);
    out_strides.push_back(p_.outputs.spatial[axis]);
  }
  const double in_bit = smallest_bit(p_.inputs.data, in_shape, in_strides);
  const double out_bit = smallest_bit(p_.outputs.data, out_shape, out_strides);
  return exact_limit(in_bit * out_bit, additions_, twofold_);
}

}  // namespace halfulp::conv
