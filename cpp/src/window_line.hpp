// The last axis of a windowed sum: sums along lines, quotients, and the exact recomputation of what is undecided.
// Included by window_block.cpp only.
#pragma once

#include <algorithm>

#include "window_block.hpp"

namespace halfulp {
namespace {

constexpr Index kLargestDivisor = Index{1} << 50;  // of the fast quotients: exact in a double, remainders too

void fill_zero(Sums sums, Index n) {
  std::fill_n(sums.sum, n, 0.0);
  if (sums.low != nullptr) std::fill_n(sums.low, n, 0.0);
  if (sums.bound != nullptr) std::fill_n(sums.bound, n, 0.0);
}

SumDivisor divisor_of(Index n, bool padded) {
  const auto value = static_cast<double>(n);
  const Index magnitude = n < 0 ? -n : n;
  return {value, 1.0 / value, (magnitude & (magnitude - 1)) == 0, padded ? 0.0 : -0.0};
}

}  // namespace

template <class T>
void WindowBlock<T>::line(Sums in, const Position& at) {
  const SumAxis& axis = *layout_.axes.back();
  if (!axis.weights.empty() && !at.empty)
    kernels_.scale[mode_base<T> + bounded_](in, axis.weights.data() + columns_.begin, lanes_,
                                            columns_.end - columns_.begin);
  sum_line(in, at.empty);
  finish(at);
}

template <class T>
void WindowBlock<T>::sum_line(Sums in, bool empty) {
  const SumAxis& axis = *layout_.axes.back();
  const Index begin = range_.last_begin, end = range_.last_end;
  if (empty) return fill_zero(sums_, (end - begin) * lanes_);
  for (const SumRun& run : axis.runs) {
    const Index from = std::max(run.begin, begin), to = std::min(run.end, end);
    if (run.empty && from < to) fill_zero(sums_ + (from - begin) * lanes_, (to - from) * lanes_);
  }
  const int mode = mode_base<T> + bounded_;
  if (lanes_ == 1) {
    for (SumSegment g : axis.segments) {
      const Index skipped = g.output >= begin ? 0 : (begin - g.output + g.output_step - 1) / g.output_step;
      g.length = std::min(g.length, g.output >= end ? 0 : (end - g.output + g.output_step - 1) / g.output_step) - skipped;
      if (g.length <= 0) continue;
      g.first += skipped * g.first_step - columns_.begin;
      g.output += skipped * g.output_step - begin;
      kernels_.add_segment[mode](in, width_, g, work_, sums_);
    }
    return;
  }
  for (Index o = begin; o < end; ++o) {
    const auto i = static_cast<std::size_t>(o);
    if (axis.count[i] == 0) continue;
    row_offsets_.clear();
    for (Index r = 0; r < axis.count[i]; ++r)
      row_offsets_.push_back((axis.first[i] + r * axis.step - columns_.begin) * lanes_);
    kernels_.add_sums[mode](in, row_offsets_.data(), nullptr, axis.count[i], lanes_, sums_ + (o - begin) * lanes_);
  }
}

template <class T>
void WindowBlock<T>::finish(const Position& at) {
  const Index stride = layout_.out_strides.back(), begin = range_.last_begin, end = range_.last_end;
  const bool contiguous = stride == lanes_ || end - begin == 1;
  if (!contiguous && static_cast<Index>(staged_.size()) < (end - begin) * lanes_)
    staged_.resize(static_cast<std::size_t>((end - begin) * lanes_));
  T* out = contiguous ? at.out + begin * stride : staged_.data();
  for (const SumRun& run : layout_.axes.back()->runs) {
    const Index from = std::max(run.begin, begin), to = std::min(run.end, end);
    if (from >= to) continue;
    const bool padded = at.padded || run.padded, none = (at.empty || run.empty) && !padded;
    const Index counted = plan_.divisor != 0 ? plan_.divisor : at.divisor * run.divisor;
    const Index n = none || counted == 0 ? 1 : counted;  // an average over nothing is +0
    finish_run((from - begin) * lanes_, (to - begin) * lanes_, divisor_of(n, padded), n, out);
  }
  if (contiguous) return;
  for (Index o = begin; o < end; ++o) std::copy_n(staged_.data() + (o - begin) * lanes_, lanes_, at.out + o * stride);
}

template <class T>
Index WindowBlock<T>::round_sums(Sums in, Index n, const SumDivisor& divisor, T* out) {
  std::int32_t* undecided = undecided_.data();
  if constexpr (std::is_same_v<T, Float16>)
    return kernels_.finish_f16[bounded_](in, n, divisor, out, undecided);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return kernels_.finish_bf16[bounded_](in, n, divisor, out, undecided);
  else if constexpr (std::is_same_v<T, float>)
    return kernels_.finish_f32[bounded_](in, n, divisor, out, undecided);
  else
    return kernels_.finish_f64[bounded_](in, n, divisor, out, undecided);
}

template <class T>
void WindowBlock<T>::finish_run(Index begin, Index end, const SumDivisor& divisor, Index exact_divisor, T* out) {
  if (exact_divisor >= kLargestDivisor || exact_divisor <= -kLargestDivisor) {
    for (Index i = begin; i < end; ++i) out[i] = resolve(i, divisor, exact_divisor);
    return;
  }
  const Index undecided = round_sums(sums_ + begin, end - begin, divisor, out + begin);
  for (Index u = 0; u < undecided; ++u) {
    const Index i = begin + undecided_[static_cast<std::size_t>(u)];
    out[i] = resolve(i, divisor, exact_divisor);
  }
}

// The quotient of sum number `index` of the line, exactly: from the sum's parts if they are exact, else from the cells.
template <class T>
T WindowBlock<T>::resolve(Index index, const SumDivisor& divisor, Index exact_divisor) {
  typename ExactSums<Source>::terms sum;
  if (!bounded_ || sums_.bound[index] == 0.0) {
    sum.add(sums_.sum[index] + divisor.zero);
    if (sums_.low != nullptr && sums_.low[index] != 0.0) sum.add(sums_.low[index]);
  } else {
    if (!std::signbit(divisor.zero)) sum.add(0.0);
    const Index lane = index % lanes_, output = range_.last_begin + index / lanes_;
    outputs_.back() = output;
    add_cells(sum, 0, source_ + lane, plan_.negated ? -1 : 1);
  }
  return sum.template round_quotient<T>(exact_divisor);
}

template <class T>
template <class Sum>
void WindowBlock<T>::add_cells(Sum& sum, int axis_number, const Source* at, std::int64_t weight) const {
  if (axis_number == depth_) return sum.add(static_cast<double>(*at), weight);
  const auto a = static_cast<std::size_t>(axis_number);
  const SumAxis& axis = *layout_.axes[a];
  const auto o = static_cast<std::size_t>(outputs_[a]);
  const Index base = axis_number == 0 ? rows_.begin : axis_number == depth_ - 1 ? columns_.begin : 0;
  for (Index r = 0; r < axis.count[o]; ++r) {
    const Index cell = axis.first[o] + r * axis.step;
    const auto factor = axis.weights.empty() ? 1 : static_cast<std::int64_t>(axis.weights[static_cast<std::size_t>(cell)]);
    add_cells(sum, axis_number + 1, at + (cell - base) * source_strides_[a], weight * factor);
  }
}

}  // namespace halfulp
