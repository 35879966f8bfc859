#include "halfulp/sum_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "halfulp/avg_pool.hpp"

namespace halfulp {
namespace {

// The sources of every output when windows may reach into a margin.
struct Reach {
  std::vector<Index> first, count;
};

// Greedy: runs of outputs `period` apart whose sources move by a fixed distance.
void add_segments(SumAxis& axis, const Reach& reach, Index period) {
  const Index n = axis.outputs();
  for (Index phase = 0; phase < std::min(period, n); ++phase) {
    Index o = phase;
    while (o < n) {
      const auto at = [&](Index i) { return reach.first[static_cast<std::size_t>(i)]; };
      const Index count = reach.count[static_cast<std::size_t>(o)];
      const Index shift = o + period < n ? at(o + period) - at(o) : 0;
      Index length = 1;
      while (o + length * period < n && reach.count[static_cast<std::size_t>(o + length * period)] == count &&
             at(o + length * period) == at(o) + length * shift && shift >= 0)
        ++length;
      if (count > 0) axis.segments.push_back({at(o), shift, count, axis.step, o, period, length});
      o += length * period;
    }
  }
}

// A margin pays where it is small beside the row.
bool margin_pays(const Axis& axis) { return !axis.adaptive && axis.extent() <= axis.size + 16; }

void add_runs(SumAxis& axis) {
  for (Index o = 0; o < axis.outputs(); ++o) {
    const auto i = static_cast<std::size_t>(o);
    const SumRun run{o, o + 1, axis.divisor[i], axis.count[i] == 0, axis.padded[i] != 0};
    if (!axis.runs.empty()) {
      SumRun& last = axis.runs.back();
      if (last.divisor == run.divisor && last.empty == run.empty) {
        last.end = run.end;
        last.padded = last.padded || run.padded;
        continue;
      }
    }
    axis.runs.push_back(run);
  }
}

Index counted_cells(const Axis& axis, Index o, bool count_include_pad) {
  return count_include_pad ? axis.counted(o) : axis.stop_real(o) - axis.first_real(o);
}

SumAxis forward_axis(const Axis& axis, bool count_include_pad) {
  SumAxis result;
  result.sources = axis.size;
  result.step = axis.adaptive ? 1 : axis.dilation;
  const auto outputs = static_cast<std::size_t>(axis.output);
  result.first.resize(outputs);
  result.count.resize(outputs);
  result.divisor.resize(outputs);
  result.padded.resize(outputs);
  for (Index o = 0; o < axis.output; ++o) {
    const auto i = static_cast<std::size_t>(o);
    const Index real = axis.stop_real(o) - axis.first_real(o);
    result.count[i] = real;
    result.first[i] = real == 0 ? 0 : axis.start(o) + axis.first_real(o) * result.step;
    result.divisor[i] = counted_cells(axis, o, count_include_pad);
    result.padded[i] = result.divisor[i] > real;
  }
  Reach reach{result.first, result.count};
  if (margin_pays(axis) && axis.before <= axis.size + 16) {
    for (Index o = 0; o < axis.output; ++o) reach.first[static_cast<std::size_t>(o)] = axis.start(o);
    reach.count.assign(outputs, axis.kernel);
  }
  add_segments(result, reach, 1);
  add_runs(result);
  return result;
}

// The windows of every cell, by walking the cells of every window.
SumAxis transposed_axis(const Axis& axis) {
  SumAxis result;
  result.sources = axis.output;
  const auto cells = static_cast<std::size_t>(axis.size);
  result.first.assign(cells, 0);
  result.count.assign(cells, 0);
  result.divisor.assign(cells, 1);
  result.padded.assign(cells, 0);
  const Index dilation = axis.adaptive ? 1 : axis.dilation;
  result.step = axis.adaptive ? 1 : dilation / std::gcd(dilation, axis.stride);
  for (Index o = 0; o < axis.output; ++o) {
    for (Index w = axis.first_real(o); w < axis.stop_real(o); ++w) {
      const auto cell = static_cast<std::size_t>(axis.start(o) + w * dilation);
      if (result.count[cell]++ == 0) result.first[cell] = o;
    }
  }
  Reach reach{result.first, result.count};
  if (margin_pays(axis) && dilation == 1) {
    for (Index cell = 0; cell < axis.size; ++cell) {
      const auto i = static_cast<std::size_t>(cell);
      const Index last = (cell + axis.before) / axis.stride;
      const Index past = cell + axis.before - axis.kernel;  // the last coordinate that window `first` must start after
      reach.first[i] = past < 0 ? -((-past - 1) / axis.stride) : past / axis.stride + 1;
      reach.count[i] = std::max<Index>(0, last - reach.first[i] + 1);
    }
  }
  add_segments(result, reach, axis.adaptive ? 1 : axis.stride);
  add_runs(result);
  return result;
}

// least common multiple, or kLargestDivisor if it is at least that
Index bounded_lcm(Index a, Index b) {
  if (b == 0) return a;
  const Index factor = b / std::gcd(a, b);
  return factor > kLargestDivisor / a ? kLargestDivisor : std::min(a * factor, kLargestDivisor);
}

// Gives window o the weight common / n(o), where common is the least common multiple of all n(o); false if it is too
// large.
bool weigh(SumAxis& result, const Axis& axis, bool count_include_pad, Index& common) {
  common = 1;
  bool different = false;
  Index previous = 0;
  for (Index o = 0; o < axis.output; ++o) {
    const Index n = counted_cells(axis, o, count_include_pad);
    if (n == 0) continue;
    common = bounded_lcm(common, n);
    different = different || (previous != 0 && n != previous);
    previous = n;
  }
  if (common >= kLargestDivisor) return false;
  if (!different) return true;
  for (Index o = 0; o < axis.output; ++o) {
    const Index n = counted_cells(axis, o, count_include_pad);
    result.weights.push_back(n == 0 ? 1.0 : static_cast<double>(common / n));
  }
  return true;
}

}  // namespace

Index SumAxis::largest_count() const noexcept {
  return count.empty() ? 0 : *std::max_element(count.begin(), count.end());
}

double SumAxis::largest_weight() const noexcept {
  double largest = 1.0;
  for (const double weight : weights) largest = std::max(largest, std::abs(weight));
  return largest;
}

SumPlan average_plan(std::span<const Axis> axes, bool count_include_pad, Index divisor) {
  SumPlan plan;
  plan.divisor = divisor;
  for (const Axis& axis : axes) plan.axes.push_back(forward_axis(axis, count_include_pad));
  return plan;
}

std::optional<SumPlan> average_transpose_plan(std::span<const Axis> axes, bool count_include_pad, Index divisor) {
  SumPlan plan;
  plan.divisor = 1;
  for (const Axis& axis : axes) {
    plan.axes.push_back(transposed_axis(axis));
    if (divisor != 0) continue;
    Index common = 1;
    if (!weigh(plan.axes.back(), axis, count_include_pad, common)) return std::nullopt;
    if (common > kLargestDivisor / plan.divisor) return std::nullopt;
    plan.divisor *= common;
  }
  if (divisor == 0 || plan.axes.empty()) return plan;
  // A negative divisor changes the sign of every term before the sum, which matters where the sum is zero.
  plan.divisor = divisor < 0 ? -divisor : divisor;
  plan.negated = divisor < 0;
  return plan;
}

AveragePlan average_of(std::vector<Axis> axes, bool count_include_pad, Index divisor) {
  AveragePlan plan;
  plan.forward = average_plan(axes, count_include_pad, divisor);
  plan.transpose = average_transpose_plan(axes, count_include_pad, divisor);
  plan.axes = std::move(axes);
  return plan;
}

}  // namespace halfulp
