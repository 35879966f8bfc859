#include "average/window_lines.hpp"

#include <algorithm>
#include <type_traits>

#include "base/stream_kernels.hpp"

namespace halfulp {
namespace {

constexpr Index kMostRows = 16;   // of a line where they are all added for every line
constexpr Index kMostCells = 32;  // of a window whose cells are added one by one
constexpr Index kStageBytes = Index{1} << 12;   // of outputs that are streamed together
constexpr Index kSlabStageBytes = Index{1} << 16;  // the same where lines share slabs: all that share one
constexpr Index kMostExactBatch = 32;
constexpr Index kBatchValues = Index{1} << 10;  // of the rows of sums of a batch: they stay in the first cache

template <class T>
T exact_quotient(double sum, double low, Index divisor) {
  typename ExactSums<T>::terms exact;
  exact.add(sum);
  if (low != 0.0) exact.add(low);
  return exact.template round_quotient<T>(divisor);
}

// Whether adding what enters and subtracting what leaves is less work than new sums.
bool slides_along(const SumAxis& axis) {
  if (axis.outputs() < 2 || axis.step != 1) return false;
  const auto middle = static_cast<std::size_t>(axis.outputs() / 2);
  return axis.count[middle] > 2 * (axis.first[middle] - axis.first[middle - 1]) + 2;
}

}  // namespace

template <class T>
WindowLines<T>::WindowLines(const SumPlan& plan, const WindowLayout& layout, bool stream)
    : plan_(plan), layout_(layout), range_(plan, layout), applies_(suits()) {
  if (!applies_) return;
  slides_ = layout.lanes == 1 && layout.axes.size() == 2 && slides_along(*layout.axes[0]);
  list_lines();
  list_slab_rows();
  const Index stage = lines_per_output() * layout.axes.back()->outputs() * static_cast<Index>(sizeof(T));
  streams_ = stream && !slides_ && dense() && (lines_per_output() == 1 || stage <= 4 * kSlabStageBytes);
}

// Whether the lines of a plane follow each other in memory.
template <class T>
bool WindowLines<T>::dense() const {
  const Index width = layout_.axes.back()->outputs() * layout_.lanes;
  bool result = layout_.out_strides.back() == layout_.lanes;
  for (std::size_t l = 1; l < lines_.size(); ++l) result = result && lines_[l].out == lines_[l - 1].out + width;
  return result;
}

template <class T>
bool WindowLines<T>::suits() const {
  const SumAxis& last = *layout_.axes.back();
  if (plan_.negated || !range_.divides() || layout_.lanes > kBlockLanes) return false;
  if (last.sources > 1 && layout_.in_strides.back() != layout_.lanes) return false;
  if (layout_.lanes == 1 && last.outputs() > 1 && layout_.out_strides.back() != 1) return false;
  Index rows = 1;
  for (const SumAxis* axis : layout_.axes) {
    if (!axis->weights.empty() || axis->sources == 0 || axis->outputs() == 0) return false;
    if (axis != &last) rows *= std::max<Index>(1, axis->largest_count());
  }
  if (layout_.lanes > 1) return rows * std::max<Index>(1, last.largest_count()) <= kMostCells;
  return layout_.axes.size() == 2 || rows <= kMostRows;
}

template <class T>
Index WindowLines<T>::lines_per_output() const {
  Index lines = 1;
  for (std::size_t a = 1; a + 1 < layout_.axes.size(); ++a) lines *= layout_.axes[a]->outputs();
  return lines;
}

// Lines in the order of their outputs. Two axes whose windows move by whole rows share one list of all rows.
template <class T>
void WindowLines<T>::list_lines() {
  const SumAxis& first = *layout_.axes.front();
  lines_.resize(static_cast<std::size_t>(first.outputs() * lines_per_output()));
  const bool shared = layout_.axes.size() == 2 && first.step == 1;
  if (shared)
    for (Index r = 0; r < first.sources; ++r) rows_.push_back(r * layout_.in_strides[0]);
  std::vector<Index> offsets, wider;
  for (std::size_t l = 0; l < lines_.size(); ++l) {
    SumLine& line = lines_[l];
    line = {0, 0, 0, 0, 0, 1, 0, 0, false, 0, 0};
    offsets.assign(1, 0);
    auto rest = static_cast<Index>(l);
    for (std::size_t a = layout_.axes.size() - 1; a-- > 0;) {
      const SumAxis& axis = *layout_.axes[a];
      const auto o = static_cast<std::size_t>(rest % axis.outputs());
      rest /= axis.outputs();
      line.out += static_cast<Index>(o) * layout_.out_strides[a];
      line.divisor *= axis.divisor[o];
      line.padded = line.padded || axis.padded[o] != 0;
      wider.clear();
      for (const Index offset : offsets)
        for (Index c = 0; c < axis.count[o]; ++c)
          wider.push_back((axis.first[o] + c * axis.step) * layout_.in_strides[a] + offset);
      offsets.swap(wider);
      if (a > 0) continue;
      line.first_slab = axis.first[o];
      line.end_slab = axis.count[o] == 0 ? axis.first[o] : axis.first[o] + (axis.count[o] - 1) * axis.step + 1;
    }
    line.row_count = static_cast<Index>(offsets.size());
    line.row = shared ? line.first_slab : static_cast<Index>(rows_.size());
    if (!shared) rows_.insert(rows_.end(), offsets.begin(), offsets.end());
    if (l > 0) lines_[l - 1].sharing = line.shared = shared_rows(lines_[l - 1], line);
    if (!slides_ || l == 0 || line.row_count == 0 || lines_[l - 1].row_count == 0) continue;
    const SumLine& before = lines_[l - 1];
    if (line.first_slab < before.first_slab || line.end_slab < before.end_slab || line.first_slab >= before.end_slab)
      continue;
    line.leaving = line.first_slab - before.first_slab;
    line.entering = line.end_slab - before.end_slab;
  }
}

// How many of the last rows of one line are the first of the next one.
template <class T>
Index WindowLines<T>::shared_rows(const SumLine& line, const SumLine& next) const {
  if (line.row_count > kMostRows || next.row_count == 0) return 0;
  const Index* const end = rows_.data() + line.row + line.row_count;
  const Index* const found = std::find(rows_.data() + line.row, end, rows_[static_cast<std::size_t>(next.row)]);
  return end - found < next.row_count && std::equal(found, end, rows_.data() + next.row) ? end - found : 0;
}

template <class T>
void WindowLines<T>::list_slab_rows() {
  slab_rows_ = {0};
  for (std::size_t a = layout_.axes.size() - 2; a >= 1; --a) {
    std::vector<Index> wider;
    for (Index cell = 0; cell < layout_.axes[a]->sources; ++cell)
      for (const Index offset : slab_rows_) wider.push_back(cell * layout_.in_strides[a] + offset);
    slab_rows_ = std::move(wider);
  }
}

template <class T>
LineWorker<T>::LineWorker(const WindowLines<T>& shared) : shared_(shared), kernels_(line_kernels_of<T>()) {
  task_.rows = shared.rows_.data();
  task_.divisor = shared.plan_.divisor;
  task_.last_divisor = &last_divisor_;
  task_.resolve = exact_quotient<T>;
  task_.slab_stride = shared.layout_.in_strides[0];
  const SumAxis& last = *shared.layout_.axes.back();
  task_.first = last.first.data();
  task_.count = last.count.data();
  task_.cell_padded = last.padded.data();
  task_.step = last.step;
  task_.cell_stride = shared.layout_.in_strides.back();
  task_.output_stride = shared.layout_.out_strides.back();
}

template <class T>
bool LineWorker<T>::run(const T* in, T* out, const BlockRange& range) {
  choose_outputs(range);
  task_.source = in;
  unsure_.clear();
  const Index per_output = shared_.lines_per_output();
  const Index begin = range.first_begin * per_output, end = range.first_end * per_output;
  const bool whole = range.last_end - range.last_begin == shared_.layout_.axes.back()->outputs() &&
                     range.lanes == shared_.layout_.lanes;
  if (shared_.streams_ && whole) return stream_lines(out, begin, end);
  return run_lines(out + range.last_begin * shared_.layout_.out_strides.back(), begin, end);
}

template <class T>
bool LineWorker<T>::run_exact(Exact kernel, const T* in, T* out, const BlockRange& range) {
  if (kernel == nullptr || !shared_.applies_ || shared_.layout_.lanes > 1) return false;
  exact_ = kernel;
  const bool done = run(in, out, range);
  exact_ = nullptr;
  return done;
}

template <class T>
bool LineWorker<T>::run_sizes(const T* in, T* out, const BlockRange& range) {
  return run_exact(kernels_.exact_sizes, in, out, range);
}

template <class T>
bool LineWorker<T>::run_signed(const T* x, const T* in, T* out, const BlockRange& range) {
  task_.signs = x;
  return run_exact(kernels_.exact_signed, in, out, range);
}

template <class T>
bool LineWorker<T>::run_lines(T* out, Index begin, Index end) {
  task_.out = out;
  task_.lines = shared_.lines_.data() + begin;
  task_.line_count = end - begin;
  task_.slides = shared_.slides_;
  task_.error = 0.0;
  if (exact_ != nullptr) return exact_(task_);
  LineContents found = sum();
  if (found.negative_zero && shared_.range_.template exact<T>(found.range)) {
    // Sums that slide forget which zeros were negative.
    task_.slides = false;
    found = sum();
  }
  return shared_.range_.template exact<T>(found.range) || run_bounded(found.range);
}

// Exponents that range too far: the sums once more, now with a bound on their errors. A column goes through the
// additions of its rows and two for every line, a window through those of its columns; none is off by more than 2^-53
// of the largest sum there can be. False if that does not help.
template <class T>
bool LineWorker<T>::run_bounded(const MagnitudeRange& found) {
  if (!std::is_same_v<T, float> || shared_.layout_.lanes > 1 || found.largest >= format_of<T>::infinity) return false;
  Index rows = 0;
  for (Index l = 0; l < task_.line_count; ++l) rows = std::max(rows, task_.lines[l].row_count);
  const auto additions =
      static_cast<double>(rows + 2 * task_.line_count + shared_.layout_.axes.back()->largest_count());
  task_.error = 0x1p-52 * additions * shared_.range_.template largest_sum<T>(found);
  line_unsure_.assign(static_cast<std::size_t>(task_.line_count), 0);
  task_.unsure = line_unsure_.data();
  sum();
  Index left = 0;
  for (Index l = 0; l < task_.line_count; ++l) {
    if (line_unsure_[static_cast<std::size_t>(l)] == 0) continue;
    const Index output = (task_.lines - shared_.lines_.data() + l) / shared_.lines_per_output();
    if (unsure_.empty() || unsure_.back() != output) unsure_.push_back(output);
    ++left;
  }
  return 2 * left <= task_.line_count;
}

// Magnitudes are taken slab by slab: lines that share slabs stay together.
template <class T>
Index LineWorker<T>::stage_lines(Index width) const {
  const Index per_output = shared_.lines_per_output(), line = width * static_cast<Index>(sizeof(T));
  if (per_output == 1) return std::max<Index>(1, kStageBytes / line);
  return std::max<Index>(1, kSlabStageBytes / (line * per_output)) * per_output;
}

// A few lines at a time into a buffer that stays in the first cache, and from there past the caches, which saves
// reading what is overwritten.
template <class T>
bool LineWorker<T>::stream_lines(T* out, Index begin, Index end) {
  const Index width = shared_.layout_.axes.back()->outputs() * shared_.layout_.lanes;
  const Index step = stage_lines(width);
  if (stage_.data() == nullptr) stage_.assign(step * width, T{});
  for (Index l = begin; l < end; l += step) {
    const Index stop = std::min(l + step, end);
    const Index offset = shared_.lines_[static_cast<std::size_t>(l)].out;
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
LineWorker<T>::~LineWorker() {
  if (stage_.data() != nullptr) select_stream_kernels().finish();
}

template <class T>
LineContents LineWorker<T>::sum() const {
  return shared_.layout_.lanes == 1 ? kernels_.sum_lines(task_) : kernels_.sum_lanes(task_);
}

template <class T>
void LineWorker<T>::choose_outputs(const BlockRange& range) {
  if (range.last_begin == current_.last_begin && range.last_end == current_.last_end && range.lanes == current_.lanes)
    return;
  current_ = range;
  task_.lanes = range.lanes;
  task_.first_output = range.last_begin;
  choose_columns(range.last_begin, range.last_end);
  choose_runs(range.last_begin, range.last_end);
  if (shared_.layout_.lanes == 1) choose_zeros(range.last_begin, range.last_end);
  choose_slabs();
  reserve(shared_.layout_.lanes == 1 ? range.last_end - range.last_begin : 2 * range.lanes);  // two kept columns
}

// The columns that these outputs reach, and the margins of those that are not there.
template <class T>
void LineWorker<T>::choose_columns(Index begin, Index end) {
  const SumAxis& axis = *shared_.layout_.axes.back();
  const ColumnReach found = clipped_segments(axis, begin, end, segments_);
  task_.column = found.begin;
  task_.width = found.end - found.begin;
  task_.margin = found.margin;
  task_.reach = found.reach;
  task_.segments = segments_.data();
  task_.segment_count = static_cast<Index>(segments_.size());
}

template <class T>
void LineWorker<T>::choose_runs(Index begin, Index end) {
  const SumAxis& axis = *shared_.layout_.axes.back();
  runs_.clear();
  for (const SumRun& run : axis.runs) {
    const Index from = std::max(run.begin, begin) - begin, to = std::min(run.end, end) - begin;
    if (from < to) runs_.push_back({from, to, run.divisor, run.empty});
  }
  task_.runs = runs_.data();
  task_.run_count = static_cast<Index>(runs_.size());
}

// Windows with a padded zero mostly are those that reach into a margin: then the margin holds that zero. The others are
// listed.
template <class T>
void LineWorker<T>::choose_zeros(Index begin, Index end) {
  const SumAxis& axis = *shared_.layout_.axes.back();
  enum Margin : std::uint8_t { kBefore = 1, kAfter = 2 };
  std::vector<std::uint8_t> touched(static_cast<std::size_t>(end - begin), 0);
  for (const SumSegment& g : segments_) {
    for (Index t = 0; t < g.length; ++t) {
      const Index from = g.first + t * g.first_step, to = from + (g.count - 1) * g.step + 1;
      touched[static_cast<std::size_t>(g.output + t * g.output_step)] = static_cast<std::uint8_t>(
          (from < task_.margin ? kBefore : 0) | (to > task_.margin + task_.width ? kAfter : 0));
    }
  }
  const auto padded = [&](std::size_t o) { return axis.padded[static_cast<std::size_t>(begin) + o] != 0; };
  unsigned zeros = kBefore | kAfter;
  for (std::size_t o = 0; o < touched.size(); ++o)
    if (!padded(o)) zeros &= ~unsigned{touched[o]};
  task_.zero_before = (zeros & kBefore) != 0 ? 0.0 : -0.0;
  task_.zero_after = (zeros & kAfter) != 0 ? 0.0 : -0.0;
  padded_.clear();
  for (std::size_t o = 0; o < touched.size(); ++o) {
    const auto at = static_cast<Index>(o);
    if (!padded(o) || (touched[o] & zeros) != 0) continue;
    if (!padded_.empty() && padded_.back().end == at)
      ++padded_.back().end;
    else
      padded_.push_back({at, at + 1});
  }
  task_.padded = padded_.data();
  task_.padded_count = static_cast<Index>(padded_.size());
}

// What one step of the first axis brings in; one run if its rows follow each other.
template <class T>
void LineWorker<T>::choose_slabs() {
  const std::vector<Index>& rows = shared_.slab_rows_;
  task_.ahead = 0;
  task_.slab_rows = rows.data();
  task_.slab_row_count = static_cast<Index>(rows.size());
  task_.slab_column = task_.column * task_.cell_stride;
  task_.slab_width = task_.width * task_.lanes;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (rows[r] != static_cast<Index>(r) * task_.slab_width) return;
  task_.slab_width *= task_.slab_row_count;
  task_.slab_row_count = 1;
  const SumAxis& first = *shared_.layout_.axes.front();
  const Index bytes = first.sources * task_.slab_width * static_cast<Index>(sizeof(T));
  if (shared_.lines_per_output() > 1) task_.ahead = bytes / static_cast<Index>(shared_.lines_.size());
}

template <class T>
void LineWorker<T>::reserve(Index sums) {
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

template class WindowLines<Float16>;
template class WindowLines<BFloat16>;
template class WindowLines<float>;
template class WindowLines<double>;
template class LineWorker<Float16>;
template class LineWorker<BFloat16>;
template class LineWorker<float>;
template class LineWorker<double>;

}  // namespace halfulp
