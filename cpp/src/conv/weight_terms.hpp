// The terms of one weight: outputs times the input cells that a tap meets. Sums that were left undecided are formed
// from them again.
#pragma once

#include <cmath>

#include "conv/resolve.hpp"
#include "conv/stage.hpp"
#include "conv/weight_kernels.hpp"

namespace halfulp::conv {

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

  // Whether all cells that meet a tap are zero, as where only the border of a channel is not: then every sum is zero.
  bool meets_zeros(Index group, Index in, Index tap) const {
    return for_each_run(group, 0, in, tap, [](const T*, Index, const T* input, Index step, Index count) {
      for (Index i = 0; i < count; ++i)
        if (as_double(input[i * step]) != 0) return false;
      return true;
    });
  }

 private:
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
