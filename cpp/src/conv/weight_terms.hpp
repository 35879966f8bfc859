// The terms of one weight: outputs times the input cells that a tap meets. Sums that were left undecided are formed
// from them again.
#pragma once

#include <cmath>

#include "conv/resolve.hpp"
#include "conv/stage.hpp"
#include "conv/weight_kernels.hpp"

namespace halfulp::conv {

// The cells of a channel that are not zero, if they are few, as where ReLU has left a channel nearly dead.
struct SparseChannel {
  bool known = false, few = false;
  std::vector<Index> places;  // of each: the sample, then the index along every axis
};

// Those of a task's channels that were asked for.
struct SparseChannels {
  std::vector<SparseChannel> inputs, outputs;

  void reset(Index ins, Index outs) {
    inputs.assign(static_cast<std::size_t>(ins), {});
    outputs.assign(static_cast<std::size_t>(outs), {});
  }
};

// A weight of a task: its channels in the group, and those counted from the task's first.
struct WeightPlace {
  Index group, out, in, tap;
  Index task_out, task_in;
};

template <class T>
class WeightTerms {
 public:
  WeightTerms(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
              const ConvKernels& kernels)
      : g_(geometry), gather_(output_gather(geometry)), inputs_(inputs), outputs_(outputs), kernels_(kernels) {}

  const Gather& gather() const { return gather_; }

  // The weight's correctly rounded sum. `value` is its undecided sum; `exact` says that a zero there is exact.
  T resolve(Index group, Index out, Index in, Index tap, double value, bool exact) const {
    const auto walk = [&](const auto& f) { return for_each_run(group, out, in, tap, f); };
    if (value == 0) {
      ZeroTerms zeros(exact, false, 0);
      walk(one_by_one<T>([&](double y, double x) { return zeros.look_at(y, x); }));
      if (zeros.known()) return round_to<T>(zeros.sum());
    }
    if constexpr (!std::is_same_v<T, double>) {
      T result;
      if (sum_twofold(walk, result)) return result;
    }
    return round_products<T>(walk, nullptr);
  }

  // The correctly rounded sum of finite terms, if one of the two channels has few cells that are not zero.
  bool resolve_sparse(SparseChannels& channels, const WeightPlace& at, T& result) const {
    const Index out_channel = at.group * g_.out_channels + at.out, in_channel = at.group * g_.in_channels + at.in;
    SparseChannel& outs = channels.outputs[static_cast<std::size_t>(at.task_out)];
    SparseChannel& ins = channels.inputs[static_cast<std::size_t>(at.task_in)];
    if (!outs.known) find_nonzero(outputs_, out_channel, false, outs);
    if (!ins.known) find_nonzero(inputs_, in_channel, true, ins);
    if (!outs.few && !ins.few) return false;
    const bool by_input = !outs.few || (ins.few && ins.places.size() < outs.places.size());
    const SparseChannel& sparse = by_input ? ins : outs;
    const T* const output = outputs_.data + out_channel * outputs_.channel;
    const T* const input = inputs_.data + in_channel * inputs_.channel;
    const auto walk = [&](const auto& f) { return walk_nonzero(sparse, by_input, at.tap, output, input, f); };
    const bool zero = walk(one_by_one<T>([](double y, double x) { return y == 0 || x == 0; }));
    result = zero ? resolve(at.group, at.out, at.in, at.tap, 0.0, true) : round_products<T>(walk, nullptr);
    return true;
  }

  // Whether all cells that meet a tap are zero, as where only the border of a channel is not: then every sum is zero.
  bool meets_zeros(Index group, Index in, Index tap) const {
    return for_each_run(group, 0, in, tap, [](const T*, Index, const T* input, Index step, Index count) {
      for (Index i = 0; i < count; ++i)
        if (as_double(input[i * step]) != 0) return false;
      return true;
    });
  }

 private:
  void find_nonzero(const Planes<const T>& planes, Index channel, bool input, SparseChannel& found) const {
    constexpr Index share = 8, least = 16;
    const std::size_t axes = gather_.size();
    const auto size = [&](std::size_t axis) { return input ? gather_[axis].source_size : gather_[axis].positions; };
    Index cells = g_.batch;
    for (std::size_t axis = 0; axis < axes; ++axis) cells *= size(axis);
    const std::size_t most = static_cast<std::size_t>(std::max(least, cells / share)) * (axes + 1);
    std::vector<Index> place(axes + 1, 0);
    found.known = true;
    const Index run = size(axes - 1), stride = planes.spatial.back();
    for (Index first = 0; first < cells; first += run) {
      Index rest = first / run;
      const T* line = planes.data + channel * planes.channel;
      for (std::size_t axis = axes - 1; axis-- > 0; rest /= size(axis)) {
        place[axis + 1] = rest % size(axis);
        line += place[axis + 1] * planes.spatial[axis];
      }
      place[0] = rest;
      line += rest * planes.batch;
      for (Index i = 0; i < run; ++i) {
        if (as_double(line[i * stride]) == 0) continue;
        if (found.places.size() >= most) {
          found.places = {};
          return;
        }
        place[axes] = i;
        found.places.insert(found.places.end(), place.begin(), place.end());
      }
    }
    found.few = true;
  }

  // Calls f with the terms whose output or, if `by_input`, whose input cell is in the list.
  template <class F>
  bool walk_nonzero(const SparseChannel& sparse, bool by_input, Index tap, const T* output, const T* input,
                    const F& f) const {
    const std::size_t axes = gather_.size();
    Index offset[kMaxRank], rest = tap;
    for (std::size_t axis = axes; axis-- > 0;) {
      const Index taps = static_cast<Index>(gather_[axis].tap.size());
      offset[axis] = gather_[axis].offset[static_cast<std::size_t>(rest % taps)];
      rest /= taps;
    }
    for (std::size_t i = 0; i < sparse.places.size(); i += axes + 1) {
      const Index* const place = sparse.places.data() + i;
      Index y = place[0] * outputs_.batch, x = place[0] * inputs_.batch;
      bool real = true;
      for (std::size_t axis = 0; axis < axes && real; ++axis) {
        const GatherAxis& one = gather_[axis];
        const Index start = by_input ? place[axis + 1] - offset[axis] : place[axis + 1] * one.step;
        const Index q = by_input ? start / one.step : place[axis + 1];
        const Index cell = by_input ? place[axis + 1] : start + offset[axis];
        real = start >= 0 && q * one.step == start && q < one.positions && cell >= 0 && cell < one.source_size;
        y += q * outputs_.spatial[axis];
        x += cell * inputs_.spatial[axis];
      }
      if (real && !f(output + y, 0, input + x, 0, 1)) return false;
    }
    return true;
  }

  template <class F>
  bool for_each_run(Index group, Index out, Index in, Index tap, const F& f) const {
    for (Index n = 0; n < g_.batch; ++n) {
      const T* const output = outputs_.data + n * outputs_.batch + (group * g_.out_channels + out) * outputs_.channel;
      const T* const input = inputs_.data + n * inputs_.batch + (group * g_.in_channels + in) * inputs_.channel;
      if (!walk_axis(0, tap, output, input, f)) return false;
    }
    return true;
  }

  template <class F>
  bool walk_axis(std::size_t axis, Index tap, const T* output, const T* input, const F& f) const {
    Index inner = 1;
    for (std::size_t later = axis + 1; later < gather_.size(); ++later)
      inner *= static_cast<Index>(gather_[later].tap.size());
    const GatherAxis& one = gather_[axis];
    const Index offset = one.offset[static_cast<std::size_t>(tap / inner)];
    // The positions that meet a real cell: [begin, end).
    const Index begin = offset >= 0 ? 0 : ceil_div(-offset, one.step);
    const Index room = one.source_size - offset;
    const Index end = room <= 0 ? 0 : std::min(one.positions, ceil_div(room, one.step));
    if (begin >= end) return true;
    output += begin * outputs_.spatial[axis];
    input += (begin * one.step + offset) * inputs_.spatial[axis];
    const Index step = one.step * inputs_.spatial[axis];
    if (axis + 1 == gather_.size()) return f(output, outputs_.spatial[axis], input, step, end - begin);
    for (Index q = begin; q < end; ++q, output += outputs_.spatial[axis], input += step)
      if (!walk_axis(axis + 1, tap % inner, output, input, f)) return false;
    return true;
  }

  // A twofold sum in vectors, with its own bound; false if that does not decide either.
  template <class Walk>
  bool sum_twofold(const Walk& walk, T& result) const {
    constexpr Index most = 512;
    poll_interrupts();
    const auto load = load_kernel<T, double>(kernels_);
    const auto add = select_weight_kernels().add_twofold;
    double a[most], b[most], lanes[3 * kTwofoldLanes] = {};
    Index waiting = 0, steps = 0;
    const auto flush = [&] {
      add(a, b, waiting, lanes);
      steps += ceil_div(waiting, kTwofoldLanes);
      waiting = 0;
    };
    walk([&](const T* y, Index y_stride, const T* x, Index x_stride, Index n) {
      for (Index done = 0; done < n;) {
        const Index count = std::min(n - done, most - waiting);
        load(y + done * y_stride, y_stride, count, a + waiting);
        load(x + done * x_stride, x_stride, count, b + waiting);
        waiting += count;
        done += count;
        if (waiting == most) flush();
      }
      return true;
    });
    flush();
    double high = 0, low = 0, size = 0;
    for (Index lane = 0; lane < kTwofoldLanes; ++lane) {
      const TwoDoubles sum = two_sum(high, lanes[lane]);
      high = sum.high;
      low += sum.low + lanes[kTwofoldLanes + lane];
      size += lanes[2 * kTwofoldLanes + lane];
    }
    return round_twofold(high, low, size, static_cast<double>(steps + 2 * kTwofoldLanes + 2), result);
  }

  const Geometry& g_;
  const Gather gather_;
  const Planes<const T>& inputs_;
  const Planes<const T>& outputs_;
  const ConvKernels& kernels_;
};

}  // namespace halfulp::conv
