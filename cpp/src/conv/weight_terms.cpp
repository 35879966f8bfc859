#include "conv/weight_terms.hpp"

namespace halfulp::conv {

void WeightTerms::resolve(const WeightPlace& at, double value, bool exact, const Outputs& result) const {
  const auto walk = [&](const auto& f) { return for_each_run(at, f); };
  if (value == 0) {
    ZeroTerms zeros(exact, false, 0);
    walk([&](const Pairs& pairs) {
      return pairs.one_by_one([&](double y, double x) { return zeros.look_at(y, x); });
    });
    if (zeros.known()) return store(result, zeros.sum());
  }
  if (result.type->dtype != DType::f64 && sum_twofold(walk, result)) return;
  round_products(walk, nullptr, result);
}

bool WeightTerms::resolve_sparse(SparseChannels& channels, const WeightPlace& at, const Outputs& result) const {
  const Index out_channel = at.group * p_.out_channels + at.out, in_channel = at.group * p_.in_channels + at.in;
  SparseChannel& outs = channels.outputs[static_cast<std::size_t>(at.task_out)];
  SparseChannel& ins = channels.inputs[static_cast<std::size_t>(at.task_in)];
  if (!outs.known) find_nonzero(p_.outputs, out_channel, false, outs);
  if (!ins.known) find_nonzero(p_.inputs, in_channel, true, ins);
  if (!outs.few && !ins.few) return false;
  const bool by_input = !outs.few || (ins.few && ins.positions.size() < outs.positions.size());
  const SparseChannel& sparse = by_input ? ins : outs;
  const Elements output = p_.outputs.data + out_channel * p_.outputs.channel;
  const Elements input = p_.inputs.data + in_channel * p_.inputs.channel;
  const auto walk = [&](const auto& f) { return walk_nonzero(sparse, by_input, at.tap, output, input, f); };
  const bool zero = walk([](const Pairs& pairs) {
    return pairs.one_by_one([](double y, double x) { return y == 0 || x == 0; });
  });
  if (zero) resolve(at, 0.0, true, result);
  else round_products(walk, nullptr, result);
  return true;
}

bool WeightTerms::meets_zeros(const WeightPlace& at) const {
  return for_each_run(at, [](const Pairs& pairs) {
    return pairs.one_by_one([](double, double x) { return x == 0; });
  });
}

void WeightTerms::find_nonzero(const SourcePlanes& planes, Index channel, bool input, SparseChannel& found) const {
  constexpr Index share = 8, least = 16;
  const std::size_t axes = gather_.size();
  const auto size = [&](std::size_t axis) { return input ? gather_[axis].source_size : gather_[axis].positions; };
  Index cells = p_.batch;
  for (std::size_t axis = 0; axis < axes; ++axis) cells *= size(axis);
  const std::size_t most = static_cast<std::size_t>(std::max(least, cells / share)) * (axes + 1);
  std::vector<Index> position(axes + 1, 0);
  std::vector<double> values;
  found.known = true;
  const Index run = size(axes - 1), stride = planes.spatial.back();
  for (Index first = 0; first < cells; first += run) {
    Index rest = first / run;
    Elements line = planes.data + channel * planes.channel;
    for (std::size_t axis = axes - 1; axis-- > 0; rest /= size(axis)) {
      position[axis + 1] = rest % size(axis);
      line += position[axis + 1] * planes.spatial[axis];
    }
    position[0] = rest;
    line += rest * planes.batch;
    values.resize(static_cast<std::size_t>(run));
    line.load(stride, run, values.data());
    for (Index i = 0; i < run; ++i) {
      if (values[static_cast<std::size_t>(i)] == 0) continue;
      if (found.positions.size() >= most) {
        found.positions = {};
        return;
      }
      position[axes] = i;
      found.positions.insert(found.positions.end(), position.begin(), position.end());
    }
  }
  found.few = true;
}

template <class F>
bool WeightTerms::walk_nonzero(const SparseChannel& sparse, bool by_input, Index tap, Elements output, Elements input,
                  const F& f) const {
  const std::size_t axes = gather_.size();
  Index offset[kMaxRank], rest = tap;
  for (std::size_t axis = axes; axis-- > 0;) {
    const Index taps = static_cast<Index>(gather_[axis].tap.size());
    offset[axis] = gather_[axis].offset[static_cast<std::size_t>(rest % taps)];
    rest /= taps;
  }
  for (std::size_t i = 0; i < sparse.positions.size(); i += axes + 1) {
    const Index* const position = sparse.positions.data() + i;
    Index y = position[0] * p_.outputs.batch, x = position[0] * p_.inputs.batch;
    bool real = true;
    for (std::size_t axis = 0; axis < axes && real; ++axis) {
      const GatherAxis& one = gather_[axis];
      const Index start = by_input ? position[axis + 1] - offset[axis] : position[axis + 1] * one.step;
      const Index q = by_input ? start / one.step : position[axis + 1];
      const Index cell = by_input ? position[axis + 1] : start + offset[axis];
      real = start >= 0 && q * one.step == start && q < one.positions && cell >= 0 && cell < one.source_size;
      y += q * p_.outputs.spatial[axis];
      x += cell * p_.inputs.spatial[axis];
    }
    if (real && !f(Pairs{output + y, 0, input + x, 0, 1})) return false;
  }
  return true;
}

template <class F>
bool WeightTerms::for_each_run(const WeightPlace& at, const F& f) const {
  const Index output_channel = at.group * p_.out_channels + at.out;
  const Index input_channel = at.group * p_.in_channels + at.in;
  for (Index n = 0; n < p_.batch; ++n) {
    const Elements output = p_.outputs.data + n * p_.outputs.batch + output_channel * p_.outputs.channel;
    const Elements input = p_.inputs.data + n * p_.inputs.batch + input_channel * p_.inputs.channel;
    if (!walk_axis(0, at.tap, output, input, f)) return false;
  }
  return true;
}

template <class F>
bool WeightTerms::walk_axis(std::size_t axis, Index tap, Elements output, Elements input, const F& f) const {
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
  output += begin * p_.outputs.spatial[axis];
  input += (begin * one.step + offset) * p_.inputs.spatial[axis];
  const Index step = one.step * p_.inputs.spatial[axis];
  if (axis + 1 == gather_.size()) return f(Pairs{output, p_.outputs.spatial[axis], input, step, end - begin});
  for (Index q = begin; q < end; ++q, output += p_.outputs.spatial[axis], input += step)
    if (!walk_axis(axis + 1, tap % inner, output, input, f)) return false;
  return true;
}

template <class Walk>
bool WeightTerms::sum_twofold(const Walk& walk, const Outputs& result) const {
  constexpr Index most = 512;
  poll_interrupts();
  const auto add = select_weight_kernels().add_twofold;
  double a[most], b[most], lanes[3 * kTwofoldLanes] = {};
  Index waiting = 0, steps = 0;
  const auto flush = [&] {
    add(a, b, waiting, lanes);
    steps += ceil_div(waiting, kTwofoldLanes);
    waiting = 0;
  };
  walk([&](const Pairs& pairs) {
    for (Index done = 0; done < pairs.n;) {
      const Index count = std::min(pairs.n - done, most - waiting);
      (pairs.a + done * pairs.a_stride).load(pairs.a_stride, count, a + waiting);
      (pairs.b + done * pairs.b_stride).load(pairs.b_stride, count, b + waiting);
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

}  // namespace halfulp::conv
