// From the sums of the weight product to weights: bounds, acceptance, resolution of the rest.
#pragma once

#include "conv/weight_engine.hpp"

namespace halfulp::conv {

template <class T, class S>
Index WeightEngine<T, S>::filter_offset(Index tap) const {
  Index offset = 0;
  for (std::size_t axis = gather_.size(); axis-- > 0;) {
    const Index size = static_cast<Index>(gather_[axis].tap.size());
    offset += tap % size * out_.spatial[axis];
    tap /= size;
  }
  return offset;
}

template <class T, class S>
void WeightEngine<T, S>::finish(Workspace& work, const WeightTask& task) {
  T* const rounded = work.rounded.at_least(task.outs);
  for (Index in = 0; in < task.ins; ++in) {
    for (Index tap = 0; tap < taps_; ++tap) {
      collect(work, task, in, tap);
      if constexpr (std::is_same_v<S, double>) {
        if (correct_) finish_correct(work, task, in, tap);
        else finish_fast(work, task, in, tap);
      } else {
        finish_fast(work, task, in, tap);
      }
      const Index first = task.group * g_.out_channels + task.first_out;
      T* const out = out_.data + first * out_.out + (task.first_in + in) * out_.in + filter_offset(tap);
      for (Index m = 0; m < task.outs; ++m) out[m * out_.out] = rounded[m];
    }
  }
}

// The sums of one input channel and tap for all output channels of the task.
template <class T, class S>
void WeightEngine<T, S>::collect(Workspace& work, const WeightTask& task, Index in, Index tap) {
  S* const high = work.high.at_least(task.outs);
  S* const low = work.low.at_least(task.outs);
  const S* const sums = work.sums.at_least(1);
  if (!dot_) {
    const S* const row = sums + row_of(work, in, tap) * work.width;
    std::copy_n(row, task.outs, high);
    if (twofold_) std::copy_n(row + work.plane, task.outs, low);
    return;
  }
  for (Index m = 0; m < task.outs; ++m) {
    const S* const lanes = sums + ((m * task.ins + in) * taps_ + tap) * products_.width;
    if constexpr (std::is_same_v<S, double>) {
      if (twofold_) {
        TwoDoubles total{0, 0};
        for (Index lane = 0; lane < products_.width; ++lane) {
          const TwoDoubles sum = two_sum(total.high, lanes[lane]);
          total = {sum.high, total.low + sum.low};
        }
        for (Index lane = 0; lane < products_.width; ++lane) total.low += lanes[work.plane + lane];
        high[m] = total.high;
        low[m] = total.low;
        continue;
      }
    }
    high[m] = lanes[0];
    for (Index lane = 1; lane < products_.width; ++lane) high[m] += lanes[lane];
  }
}

// A sum that is not finite is formed again: an infinity may have met a zero that is no term, in the padding or beside
// the staged cells.
template <class T, class S>
void WeightEngine<T, S>::finish_fast(Workspace& work, const WeightTask& task, Index in, Index tap) {
  const S* const sums = work.high.at_least(1);
  T* const out = work.rounded.at_least(1);
  store_fast(sums, task.outs, out);
  for (Index m = 0; m < task.outs; ++m)
    if (!std::isfinite(sums[m]))
      out[m] = terms_.resolve(task.group, task.first_out + m, task.first_in + in, tap, static_cast<double>(sums[m]),
                              false);
}

template <class T, class S>
void WeightEngine<T, S>::finish_correct(Workspace& work, const WeightTask& task, Index in, Index tap) {
  const double reach = work.input_size[static_cast<std::size_t>(in)];
  const double* const sizes = work.output_size.data();
  // Zeros are never accepted as they are, for padding may have given them their sign.
  const double terms = static_cast<double>(g_.batch) * static_cast<double>(position_count(gather_)) + 2;
  double* const floors = work.floors.at_least(task.outs);
  std::fill_n(floors, task.outs, twofold_ ? terms * 0x1p-1070 : 0x1p-300);
  Acceptance a{task.outs, {sizes, nullptr}, {reach, 0}, 0, -0.0, floors, gamma_, exact_.now()};
  double* const high = work.high.at_least(1);
  T* const out = work.rounded.at_least(1);
  std::uint8_t* const bad = work.bad.at_least(task.outs);
  Index count = accept_sums(kernels_, high, work.low.at_least(1), a, out, bad);
  work.seen += task.outs;
  work.undecided += count;
  if (work.undecided >= 64 && work.undecided * 16 > work.seen && !exact_.known()) {
    exact_.find([&] { return find_exact_limit(); });
    a.exact = exact_.now();
    count = accept_sums(kernels_, high, work.low.at_least(1), a, out, bad);
  }
  if (count == 0 && work.finite) return;
  for (Index m = 0; m < task.outs; ++m) {
    if (bad[m] == 0 && work.finite) continue;
    const bool exact = reach == 0 || sizes[m] == 0 || reach * sizes[m] < a.exact;
    const double value = twofold_ ? high[m] + work.low.at_least(1)[m] : high[m];
    if (bad[m] != 0 || !std::isfinite(value))
      out[m] = terms_.resolve(task.group, task.first_out + m, task.first_in + in, tap, value, exact);
  }
}

template <class T, class S>
double WeightEngine<T, S>::find_exact_limit() const {
  Sizes in_shape{g_.batch, g_.groups * g_.in_channels}, in_strides{inputs_.batch, inputs_.channel};
  Sizes out_shape{g_.batch, g_.groups * g_.out_channels}, out_strides{outputs_.batch, outputs_.channel};
  for (std::size_t axis = 0; axis < g_.axes.size(); ++axis) {
    in_shape.push_back(g_.axes[axis].size);
    in_strides.push_back(inputs_.spatial[axis]);
    out_shape.push_back(g_.axes[axis].output);
    out_strides.push_back(outputs_.spatial[axis]);
  }
  const double in_bit = smallest_bit(inputs_.data, in_shape, in_strides);
  const double out_bit = smallest_bit(outputs_.data, out_shape, out_strides);
  return exact_limit(in_bit * out_bit, additions_, twofold_);
}

}  // namespace halfulp::conv
