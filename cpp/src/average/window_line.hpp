// The last axis of a windowed sum: sums along lines, quotients, and the exact recomputation of what is undecided.
// Included by window_block.cpp only.
#pragma once

#include <algorithm>

#include "average/window_block.hpp"

namespace halfulp {
namespace {

constexpr Index kLargestDivisor = Index{1} << 50;  // of the fast quotients: exact in a double, remainders too

void fill_zero(const Sums& sums, Index n) {
  std::fill_n(sums.sum, n, 0.0);
  if (sums.low != nullptr) std::fill_n(sums.low, n, 0.0);
  if (sums.bound != nullptr) std::fill_n(sums.bound, n, 0.0);
}

}  // namespace

template <class T>
void WindowBlock<T>::line(const Sums& in, const Position& at) {
  const SumAxis& axis = *layout_.axes.back();
  if (!axis.weights.empty() && !at.empty)
    kernels_.scale[mode_base<T> + bounded_](in + margin_, axis.weights.data() + columns_.begin, lanes_,
                                            columns_.end - columns_.begin);
  if (pending_ + (outputs_range_.last_end - outputs_range_.last_begin) * lanes_ > capacity_) flush();
  sum_line(in, at.empty);
  add_padded_zeros(sums_ + pending_, at.padded);
  line_padded_ = at.padded;
  finish(at);
}

template <class T>
void WindowBlock<T>::sum_line(const Sums& in, bool empty) {
  const SumAxis& axis = *layout_.axes.back();
  const Index begin = outputs_range_.last_begin, end = outputs_range_.last_end;
  const Sums out = sums_ + pending_;
  if (empty) return fill_zero(out, (end - begin) * lanes_);
  const int mode = mode_base<T> + bounded_;
  const auto count = static_cast<Index>(segments_.size());
  if (lanes_ == 1) kernels_.add_along[mode]({segments_.data(), count, work_, out, 0, 0}, in);
  for (Index s = 0; s < count && lanes_ > 1; ++s) {
    const SumSegment& g = segments_[static_cast<std::size_t>(s)];
    row_offsets_.clear();
    for (Index j = 0; j < g.count; ++j) row_offsets_.push_back(j * g.step * lanes_);
    for (Index t = 0; t < g.length; ++t)
      kernels_.add_sums[mode](in + (g.first + t * g.first_step) * lanes_, row_offsets_.data(), nullptr, g.count, lanes_,
                              out + (g.output + t * g.output_step) * lanes_);
  }
  for (const SumRun& run : axis.runs) {
    const Index from = std::max(run.begin, begin), to = std::min(run.end, end);
    if (run.empty && from < to) fill_zero(out + (from - begin) * lanes_, (to - from) * lanes_);
  }
}

// A padded zero among the terms makes a negative zero positive and changes nothing else.
template <class T>
void WindowBlock<T>::add_padded_zeros(const Sums& sums, bool all) const {
  const SumAxis& axis = *layout_.axes.back();
  const Index begin = outputs_range_.last_begin, end = outputs_range_.last_end;
  const auto add = [&](Index o) {
    for (Index i = (o - begin) * lanes_; i < (o - begin + 1) * lanes_; ++i) sums.sum[i] += 0.0;
  };
  if (all) {
    for (Index o = begin; o < end; ++o) add(o);
    return;
  }
  // Not only at the two ends: with ceil_mode the last windows may reach beyond the padding and meet none of it.
  for (const Index o : axis.padded_outputs)
    if (o >= begin && o < end) add(o);
}

template <class T>
void WindowBlock<T>::finish(const Position& at) {
  const SumAxis& axis = *layout_.axes.back();
  const Index stride = layout_.out_strides.back(), begin = outputs_range_.last_begin, end = outputs_range_.last_end;
  const Index n = (end - begin) * lanes_;
  const bool contiguous = stride == lanes_ || end - begin == 1;
  T* out = at.out + begin * stride;
  const auto divisor = [&](const SumRun& run) {
    const Index counted = plan_.divisor != 0 ? plan_.divisor : at.divisor * run.divisor;
    return counted == 0 ? 1 : counted;  // an average over nothing is +0
  };
  if (contiguous && axis.runs.size() == 1 && !bounded_ && !at.empty && !axis.runs[0].empty) {
    const Index d = divisor(axis.runs[0]);
    if (pending_ > 0 && (out != pending_out_ + pending_ || d != pending_divisor_)) {
      // This line's sums stand after those that wait: take them along.
      const Index old = pending_;
      flush();
      std::copy_n(sums_.sum + old, n, sums_.sum);
      if (sums_.low != nullptr) std::copy_n(sums_.low + old, n, sums_.low);
    }
    if (pending_ == 0) pending_out_ = out;
    pending_divisor_ = d;
    pending_ += n;
    return;
  }
  const Sums line = sums_ + pending_;
  if (!contiguous && static_cast<Index>(staged_.size()) < n) staged_.resize(static_cast<std::size_t>(n));
  T* to = contiguous ? out : staged_.data();
  for (const SumRun& run : axis.runs) {
    const Index first = (std::max(run.begin, begin) - begin) * lanes_, last = (std::min(run.end, end) - begin) * lanes_;
    if (first >= last) continue;
    bool none = at.empty || run.empty;
    for (Index o = run.begin; o < run.end && none; ++o)
      none = !at.padded && axis.padded[static_cast<std::size_t>(o)] == 0;
    finish_run(line + first, last - first, none ? 1 : divisor(run), to + first, first);
  }
  if (contiguous) return;
  for (Index o = begin; o < end; ++o) std::copy_n(to + (o - begin) * lanes_, lanes_, at.out + o * stride);
}

template <class T>
void WindowBlock<T>::flush() {
  if (pending_ > 0) finish_run(sums_, pending_, pending_divisor_, pending_out_, 0);
  pending_ = 0;
}

template <class T>
Index WindowBlock<T>::round_sums(const Sums& in, Index n, const SumDivisor& divisor, T* out) {
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
void WindowBlock<T>::finish_run(const Sums& sums, Index n, Index divisor, T* out, Index line_offset) {
  if (divisor >= kLargestDivisor || divisor <= -kLargestDivisor) {
    for (Index i = 0; i < n; ++i) out[i] = resolve(sums + i, divisor, line_offset + i);
    return;
  }
  const Index undecided = round_sums(sums, n, sum_divisor(divisor), out);
  for (Index u = 0; u < undecided; ++u) {
    const Index i = undecided_[static_cast<std::size_t>(u)];
    out[i] = resolve(sums + i, divisor, line_offset + i);
  }
}

// A quotient, exactly: from the sum's parts if they are exact, else from the cells of output `line_index` of the line.
template <class T>
T WindowBlock<T>::resolve(const Sums& sum, Index divisor, Index line_index) {
  typename ExactSums<Source>::terms exact;
  if (!bounded_ || sum.bound[0] == 0.0) {
    exact.add(sum.sum[0]);
    if (sum.low != nullptr && sum.low[0] != 0.0) exact.add(sum.low[0]);
  } else {
    const Index output = outputs_range_.last_begin + line_index / lanes_;
    if (line_padded_ || layout_.axes.back()->padded[static_cast<std::size_t>(output)] != 0) exact.add(0.0);
    outputs_.back() = output;
    add_cells(exact, 0, source_ + line_index % lanes_, plan_.negated ? -1 : 1);
  }
  return exact.template round_quotient<T>(divisor);
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
    const auto factor =
        axis.weights.empty() ? 1 : static_cast<std::int64_t>(axis.weights[static_cast<std::size_t>(cell)]);
    add_cells(sum, axis_number + 1, at + (cell - base) * source_strides_[a], weight * factor);
  }
}

}  // namespace halfulp
