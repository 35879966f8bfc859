#include "halfulp/sum_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace halfulp {
namespace {

constexpr Index kLargestDivisor = Index{1} << 50;

// Greedy: runs of outputs `period` apart whose sources move by a fixed distance.
void add_segments(SumAxis& axis, Index period) {
  const Index n = axis.outputs();
  for (Index phase = 0; phase < std::min(period, n); ++phase) {
    Index o = phase;
    while (o < n) {
      const auto at = [&](Index i) { return axis.first[static_cast<std::size_t>(i)]; };
      const Index count = axis.count[static_cast<std::size_t>(o)];
      const Index shift = o + period < n ? at(o + period) - at(o) : 0;
      Index length = 1;
      while (o + length * period < n && axis.count[static_cast<std::size_t>(o + length * period)] == count &&
             at(o + length * period) == at(o) + length * shift && shift >= 0)
        ++length;
      if (count > 0) axis.segments.push_back({at(o), shift, count, axis.step, o, period, length});
      o += length * period;
    }
  }
}

void add_runs(SumAxis& axis) {
  for (Index o = 0; o < axis.outputs(); ++o) {
    const auto i = static_cast<std::size_t>(o);
    const SumRun run{o, o + 1, axis.divisor[i], axis.padded[i] != 0, axis.count[i] == 0};
    if (!axis.runs.empty()) {
      SumRun& last = axis.runs.back();
      if (last.divisor == run.divisor && last.padded == run.padded && last.empty == run.empty) {
        last.end = run.end;
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
  add_segments(result, 1);
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
  add_segments(result, axis.adaptive ? 1 : axis.stride);
  add_runs(result);
  return result;
}

// least common multiple, or kLargestDivisor if it is at least that
Index bounded_lcm(Index a, Index b) {
  if (b == 0) return a;
  const Index factor = b / std::gcd(a, b);
  return factor > kLargestDivisor / a ? kLargestDivisor : std::min(a * factor, kLargestDivisor);
}

// Gives window o the weight common / n(o), where common is the least common multiple of all n(o); false if it is too large.
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

}  // namespace halfulp
