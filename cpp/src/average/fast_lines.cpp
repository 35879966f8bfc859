#include "average/fast_lines.hpp"

#include <algorithm>
#include <type_traits>

#include "base/stream_kernels.hpp"

namespace halfulp {
namespace {

constexpr Index kStageBytes = Index{1} << 12;   // of outputs that are streamed together
constexpr Index kSlabStageBytes = Index{1} << 16;  // the same where lines share slabs: all that share one
constexpr Index kMostExactBatch = 32;
constexpr Index kBatchValues = Index{1} << 10;  // of the rows of sums of a batch: they stay in the first cache

}  // namespace

template <class T>
FastLines<T>::FastLines(const SumPlan& plan, const SumLayout& layout, const SumRange<T>& range, const SumLines& lines)
    : layout_(layout), range_(range), lines_(lines), kernels_(fast_kernels_of<T>()) {
  task_.rows = lines.rows.data();
  task_.divisor = plan.divisor;
  task_.last_divisor = &last_divisor_;
  task_.resolve = exact_quotient<T>;
  task_.slab_stride = layout_.in_strides[0];
  task_.slab_count = layout_.axes[0]->sources;
  const SumAxis& last = *layout_.axes.back();
  task_.first = last.first.data();
  task_.count = last.count.data();
  task_.cell_padded = last.padded.data();
  task_.step = last.step;
  task_.cell_stride = layout_.in_strides.back();
  task_.output_stride = layout_.out_strides.back();
}

template <class T>
bool FastLines<T>::run(const T* in, T* out, const BlockRange& range) {
  choose_outputs(range);
  task_.source = in;
  unsure_.clear();
  const Index per_output = lines_.per_output();
  const Index begin = range.first_begin * per_output, end = range.first_end * per_output;
  const bool whole = range.last_end - range.last_begin == layout_.axes.back()->outputs() &&
                     range.lanes == layout_.lanes;
  if (lines_.stream() && whole) return stream_lines(out, begin, end);
  return run_lines(out + range.last_begin * layout_.out_strides.back(), begin, end);
}

template <class T>
bool FastLines<T>::run_changed(const T* signs, const T* in, T* out, const BlockRange& range) {
  const auto kernel = signs == nullptr ? kernels_.exact_sizes : kernels_.exact_signed;
  if (kernel == nullptr || !lines_.apply() || layout_.lanes > 1) return false;
  task_.signs = signs;
  exact_ = kernel;
  const bool done = run(in, out, range);
  exact_ = nullptr;
  return done;
}

template <class T>
bool FastLines<T>::run_lines(T* out, Index begin, Index end) {
  task_.out = out;
  task_.lines = lines_.lines.data() + begin;
  task_.line_count = end - begin;
  task_.slides = lines_.slide();
  task_.error = 0.0;
  if (exact_ != nullptr) return exact_(task_);
  LineContents found = sum();
  if (found.negative_zero && range_.template exact<T>(found.range)) {
    // Sums that slide forget which zeros were negative.
    task_.slides = false;
    found = sum();
  }
  return range_.template exact<T>(found.range) || run_bounded(found.range);
}

// Exponents that range too far: the sums once more, now with a bound on their errors. A column goes through the
// additions of its rows and two for every line, a window through those of its columns; none is off by more than 2^-53
// of the largest sum there can be. False if that does not help.
template <class T>
bool FastLines<T>::run_bounded(const MagnitudeRange& found) {
  if (!std::is_same_v<T, float> || layout_.lanes > 1 || found.largest >= format_of<T>::infinity) return false;
  Index rows = 0;
  for (Index l = 0; l < task_.line_count; ++l) rows = std::max(rows, task_.lines[l].row_count);
  const auto additions =
      static_cast<double>(rows + 2 * task_.line_count + layout_.axes.back()->largest_count());
  task_.error = 0x1p-52 * additions * range_.template largest_sum<T>(found);
  line_unsure_.assign(static_cast<std::size_t>(task_.line_count), 0);
  task_.unsure = line_unsure_.data();
  sum();
  Index left = 0;
  for (Index l = 0; l < task_.line_count; ++l) {
    if (line_unsure_[static_cast<std::size_t>(l)] == 0) continue;
    const Index output = (task_.lines - lines_.lines.data() + l) / lines_.per_output();
    if (unsure_.empty() || unsure_.back() != output) unsure_.push_back(output);
    ++left;
  }
  return 2 * left <= task_.line_count;
}

// Magnitudes are taken slab by slab: lines that share slabs stay together.
template <class T>
Index FastLines<T>::stage_lines(Index width) const {
  const Index per_output = lines_.per_output(), line = width * static_cast<Index>(sizeof(T));
  if (per_output == 1) return std::max<Index>(1, kStageBytes / line);
  return std::max<Index>(1, kSlabStageBytes / (line * per_output)) * per_output;
}

// A few lines at a time into a buffer that stays in the first cache, and from there past the caches, which saves
// reading what is overwritten.
template <class T>
bool FastLines<T>::stream_lines(T* out, Index begin, Index end) {
  const Index width = layout_.axes.back()->outputs() * layout_.lanes;
  const Index step = stage_lines(width);
  if (stage_.data() == nullptr) stage_.assign(step * width, T{});
  for (Index l = begin; l < end; l += step) {
    const Index stop = std::min(l + step, end);
    const Index offset = lines_.lines[static_cast<std::size_t>(l)].out;
    if (!run_lines(stage_.data() - offset, l, stop)) {
      select_stream_kernels().finish();  // before what was streamed is written once more
      return false;
    }
    select_stream_kernels().copy(reinterpret_cast<const char*>(stage_.data()), reinterpret_cast<char*>(out + offset),
                                 (stop - l) * width * static_cast<Index>(sizeof(T)));
  }
  if (!unsure_.empty()) select_stream_kernels().finish();  // before these are written once more
  return true;
}

template <class T>
FastLines<T>::~FastLines() {
  if (stage_.data() != nullptr) select_stream_kernels().finish();
}

template <class T>
LineContents FastLines<T>::sum() const {
  return layout_.lanes == 1 ? kernels_.sum_lines(task_) : kernels_.sum_lanes(task_);
}

template <class T>
void FastLines<T>::choose_outputs(const BlockRange& range) {
  if (!outputs_.choose(*layout_.axes.back(), range.last_begin, range.last_end) && range.lanes == task_.lanes) return;
  task_.lanes = range.lanes;
  task_.first_output = range.last_begin;
  task_.column = outputs_.column;
  task_.width = outputs_.width;
  task_.margin = outputs_.margin;
  task_.reach = outputs_.reach;
  task_.zero_before = outputs_.zero_before;
  task_.zero_after = outputs_.zero_after;
  task_.segments = outputs_.segments.data();
  task_.segment_count = static_cast<Index>(outputs_.segments.size());
  task_.runs = outputs_.runs.data();
  task_.run_count = static_cast<Index>(outputs_.runs.size());
  task_.padded = outputs_.padded.data();
  task_.padded_count = static_cast<Index>(outputs_.padded.size());
  choose_slabs();
  reserve(layout_.lanes == 1 ? outputs_.count() : 2 * range.lanes);  // two kept columns
}

// What one step of the first axis brings in; one run if its rows follow each other.
template <class T>
void FastLines<T>::choose_slabs() {
  const std::vector<Index>& rows = lines_.slab_rows;
  task_.ahead = 0;
  task_.slab_rows = rows.data();
  task_.slab_row_count = static_cast<Index>(rows.size());
  task_.slab_column = task_.column * task_.cell_stride;
  task_.slab_width = task_.width * task_.lanes;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (rows[r] != static_cast<Index>(r) * task_.slab_width) return;
  task_.slab_width *= task_.slab_row_count;
  task_.slab_row_count = 1;
  const SumAxis& first = *layout_.axes.front();
  const Index bytes = first.sources * task_.slab_width * static_cast<Index>(sizeof(T));
  if (lines_.per_output() > 1) task_.ahead = bytes / static_cast<Index>(lines_.lines.size());
}

template <class T>
void FastLines<T>::reserve(Index sums) {
  const bool pairs = std::is_same_v<T, double>;
  constexpr Index kAligned = 8;  // doubles; all parts begin at cache lines, rows with their first column
  const auto up = [](Index n) { return (n + kAligned - 1) / kAligned * kAligned; };
  task_.row_pitch = up(task_.reach + kAligned + kLineSlack);
  task_.sums_pitch = up(sums + kLineSlack);
  task_.batch = std::clamp<Index>(kBatchValues / task_.row_pitch, 1, kMostBatch);
  constexpr bool exact = std::is_same_v<T, float>;
  task_.exact_batch = exact ? std::clamp<Index>(kBatchValues / task_.sums_pitch, 1, kMostExactBatch) : 0;
  const Index exact_values = exact ? task_.row_pitch + task_.exact_batch * task_.sums_pitch : 0;
  scratch_.assign((pairs ? 2 : 1) * task_.batch * (2 * task_.row_pitch + task_.sums_pitch) + exact_values, 0.0);
  double* free = scratch_.data();
  const auto take = [&](Index pitch) {
    const Index n = pitch * task_.batch;
    const Sums taken{free, pairs ? free + n : nullptr, nullptr};
    free += (pairs ? 2 : 1) * n;
    return taken;
  };
  task_.row = take(task_.row_pitch) + (up(task_.margin) - task_.margin);
  task_.work = take(task_.row_pitch);
  task_.sums = take(task_.sums_pitch);
  if constexpr (exact) {
    task_.kept = free + (up(task_.margin) - task_.margin);
    task_.exact = free + task_.row_pitch;
    nothing_.assign(static_cast<std::size_t>(task_.width + kLineSlack), -0.0f);
    task_.nothing = nothing_.data();
    positive_.assign(nothing_.size(), 1.0f);
    task_.positive = positive_.data();
  }
  for (Index k = 0; k < task_.batch; ++k) {
    double* row = task_.row.sum + k * task_.row_pitch;
    std::fill_n(row, task_.margin, task_.zero_before);
    std::fill_n(row + task_.margin + task_.width, task_.reach + kLineSlack - task_.margin - task_.width,
                task_.zero_after);
  }
  undecided_.resize(static_cast<std::size_t>(task_.sums_pitch));
  task_.undecided = undecided_.data();
  unused_.resize(static_cast<std::size_t>(task_.sums_pitch));
  task_.unused = unused_.data();
}

template class FastLines<Float16>;
template class FastLines<BFloat16>;
template class FastLines<float>;
template class FastLines<double>;

}  // namespace halfulp
