#include "window_block.hpp"

#include <algorithm>

#include "window_line.hpp"

namespace halfulp {
namespace {

// The exponent of a magnitude given as bits: |x| lies in [2^e, 2^(e+1)), or below 2^(e+1) if it is subnormal.
template <class Source>
int exponent_of(std::uint64_t bits) {
  using F = format_of<Source>;
  const int field = static_cast<int>(bits >> (F::precision - 1));
  return std::max(field, 1) - F::max_exponent;
}

constexpr Index kBatch = Index{1} << 12;  // sums that are divided together

}  // namespace

template <class T>
WindowBlock<T>::WindowBlock(const SumPlan& plan, const WindowLayout& layout)
    : plan_(plan), layout_(layout), kernels_(select_sum_kernels()), depth_(static_cast<int>(layout.axes.size())) {
  terms_log2_ = 0.0;
  for (const SumAxis* axis : layout.axes)
    terms_log2_ += std::log2(static_cast<double>(axis->largest_count() + 1) * axis->largest_weight());
  divisor_log2_ = plan.divisor != 0 ? std::log2(std::abs(static_cast<double>(plan.divisor))) : 0.0;
  for (const SumAxis* axis : layout.axes)
    if (plan.divisor == 0)
      divisor_log2_ += std::log2(1.0 + static_cast<double>(*std::max_element(axis->divisor.begin(), axis->divisor.end())));
  const auto depth = static_cast<std::size_t>(depth_);
  outputs_.resize(depth);
  slabs_.resize(depth);
  storage_.resize(depth);
  levels_.resize(depth);
}

template <class T>
const SourceKernels<source_type<T>>& WindowBlock<T>::source_kernels() const {
  if constexpr (std::is_same_v<Source, double>)
    return kernels_.f64;
  else
    return kernels_.f32;
}

template <class T>
typename WindowBlock<T>::Cells WindowBlock<T>::cells_of(const SumAxis& axis, Index begin, Index end) {
  Cells cells{axis.sources, 0};
  for (Index o = begin; o < end; ++o) {
    const auto i = static_cast<std::size_t>(o);
    if (axis.count[i] == 0) continue;
    cells.begin = std::min(cells.begin, axis.first[i]);
    cells.end = std::max(cells.end, axis.first[i] + (axis.count[i] - 1) * axis.step + 1);
  }
  return cells.begin < cells.end ? cells : Cells{0, 0};
}

template <class T>
Sums WindowBlock<T>::reserve(std::vector<double>& storage, Index n) const {
  const Index parts = 3;
  if (static_cast<Index>(storage.size()) < parts * n) storage.resize(static_cast<std::size_t>(parts * n));
  const bool low = std::is_same_v<T, double>;
  double* data = storage.data();
  return {data, low ? data + n : nullptr, bounded_ ? data + 2 * n : nullptr};
}

template <class T>
void WindowBlock<T>::run(const T* in, T* out, const BlockRange& range) {
  range_ = range;
  lanes_ = range.lanes;
  rows_ = cells_of(*layout_.axes.front(), range.first_begin, range.first_end);
  find_columns();
  take_source(in);
  scanning_ = scans_as_it_sums();
  if (scanning_) {
    // Hope for exact sums and look at the magnitudes on the way: the source is read once.
    smallest_.assign(static_cast<std::size_t>(width_), static_cast<magnitude_bits<Source>>(~magnitude_bits<Source>{0}));
    largest_.assign(static_cast<std::size_t>(width_), 0);
    bounded_ = false;
    slide_allowed_ = false;
    compute(out);
    MagnitudeRange found;
    for (const auto bits : smallest_)
      if (bits != static_cast<magnitude_bits<Source>>(~magnitude_bits<Source>{0}))
        found.smallest = std::min<std::uint64_t>(found.smallest, bits);
    for (const auto bits : largest_) found.largest = std::max<std::uint64_t>(found.largest, bits);
    scanning_ = false;
    bounded_ = !exact_range(found);
    if (bounded_) {
      pending_ = 0;
      compute(out);
    }
  } else {
    choose_mode();
    compute(out);
  }
  flush();
}

// Where every row is added once or twice and there are no weights.
template <class T>
bool WindowBlock<T>::scans_as_it_sums() const {
  if (slab_rows_.size() > 1 || plan_.negated) return false;
  for (const SumAxis* axis : layout_.axes)
    if (!axis->weights.empty()) return false;
  const SumAxis& axis = *layout_.axes[0];
  Index added = 0;
  for (Index o = range_.first_begin; o < range_.first_end; ++o) added += axis.count[static_cast<std::size_t>(o)];
  return added <= 2 * (rows_.end - rows_.begin);
}

template <class T>
void WindowBlock<T>::compute(T* out) {
  for (int a = depth_ - 2; a >= 0; --a) {
    const auto i = static_cast<std::size_t>(a);
    slabs_[i] = a == depth_ - 2 ? reach_ : slabs_[i + 1] * layout_.axes[i + 1]->sources;
    levels_[i] = reserve(storage_[i], slabs_[i]);
  }
  if (reach_ != width_) {  // -0.0 changes no sum, whatever its sign
    std::fill_n(levels_[0].sum, slabs_[0], -0.0);
    if (levels_[0].low != nullptr) std::fill_n(levels_[0].low, slabs_[0], 0.0);
    if (levels_[0].bound != nullptr) std::fill_n(levels_[0].bound, slabs_[0], 0.0);
  }
  capacity_ = std::max(kBatch, (range_.last_end - range_.last_begin) * lanes_);
  sums_ = reserve(sums_storage_, capacity_);
  work_ = reserve(work_storage_, reach_);
  if (static_cast<Index>(undecided_.size()) < capacity_) undecided_.resize(static_cast<std::size_t>(capacity_));
  first_level(out);
}

// The part of a segment whose outputs lie in [begin, end); false if there is none.
template <class T>
bool WindowBlock<T>::clip(SumSegment& g, Index begin, Index end) {
  const Index skipped = g.output >= begin ? 0 : (begin - g.output + g.output_step - 1) / g.output_step;
  g.length = std::min(g.length, g.output >= end ? 0 : (end - g.output + g.output_step - 1) / g.output_step) - skipped;
  g.first += skipped * g.first_step;
  g.output += skipped * g.output_step;
  return g.length > 0;
}

// The columns that the block's windows reach, and the margins of those that are not there.
template <class T>
void WindowBlock<T>::find_columns() {
  const SumAxis& axis = *layout_.axes.back();
  Cells reach{axis.sources, 0};
  bool any = false;
  segments_.clear();
  for (SumSegment g : axis.segments) {
    if (!clip(g, range_.last_begin, range_.last_end)) continue;
    segments_.push_back(g);
    const Index end = g.first + (g.length - 1) * g.first_step + (g.count - 1) * g.step + 1;
    reach = any ? Cells{std::min(reach.begin, g.first), std::max(reach.end, end)} : Cells{g.first, end};
    any = true;
  }
  columns_ = {std::clamp<Index>(reach.begin, 0, axis.sources), std::clamp<Index>(reach.end, 0, axis.sources)};
  if (!any || columns_.begin >= columns_.end) columns_ = {0, 0};
  if (!any) reach = {0, 0};
  width_ = (columns_.end - columns_.begin) * lanes_;
  margin_ = (columns_.begin - reach.begin) * lanes_;
  reach_ = (reach.end - reach.begin) * lanes_;
  for (SumSegment& g : segments_) {
    g.first -= reach.begin;
    g.output -= range_.last_begin;
  }
}

// Views the source where its rows are contiguous numbers that kernels can read, else copies the block's part of it.
template <class T>
void WindowBlock<T>::take_source(const T* in) {
  const auto last = static_cast<std::size_t>(depth_ - 1);
  const T* from = in + rows_.begin * layout_.in_strides[0] + columns_.begin * layout_.in_strides[last];
  const bool contiguous = layout_.in_strides[last] == lanes_ || columns_.end - columns_.begin <= 1;
  source_strides_ = layout_.in_strides;
  source_strides_[last] = lanes_;
  std::vector<Index> from_rows = {0};  // offsets of the rows of a slab in the array
  slab_rows_ = {0};
  Index dense = 1;
  for (int a = depth_ - 2; a >= 1; --a) {
    const auto i = static_cast<std::size_t>(a);
    const Index size = layout_.axes[i]->sources;
    std::vector<Index> wider;
    for (Index cell = 0; cell < size; ++cell)
      for (const Index offset : from_rows) wider.push_back(cell * layout_.in_strides[i] + offset);
    from_rows = std::move(wider);
    source_strides_[i] = dense * width_;
    dense *= size;
  }
  if constexpr (std::is_same_v<T, Source>) {
    if (contiguous) {
      source_ = from;
      source_strides_ = layout_.in_strides;
      source_strides_[last] = lanes_;
      slab_rows_ = std::move(from_rows);
      return;
    }
  }
  source_strides_[0] = dense * width_;
  const Index rows = rows_.end - rows_.begin;
  copy_.resize(static_cast<std::size_t>(std::max<Index>(1, rows * dense * width_)));
  std::vector<T> gathered(contiguous ? 0 : static_cast<std::size_t>(width_));
  Source* to = copy_.data();
  for (Index r = 0; r < rows; ++r) {
    for (const Index offset : from_rows) {
      const T* row = from + r * layout_.in_strides[0] + offset;
      if (!contiguous) {
        for (Index c = 0; c < columns_.end - columns_.begin; ++c)
          std::copy_n(row + c * layout_.in_strides[last], lanes_, gathered.data() + c * lanes_);
        row = gathered.data();
      }
      if constexpr (std::is_same_v<T, Float16>)
        select_convert_kernels().from_f16(row, to, width_);
      else if constexpr (std::is_same_v<T, BFloat16>)
        select_convert_kernels().from_bf16(row, to, width_);
      else
        std::copy_n(row, width_, to);
      to += width_;
    }
  }
  source_ = copy_.data();
  slab_rows_.resize(static_cast<std::size_t>(dense));
  for (Index i = 0; i < dense; ++i) slab_rows_[static_cast<std::size_t>(i)] = i * width_;
}

// Whether sum and low together are exact: low collects at most 2 N errors of at most 2^-53 N 2^top each and must stay
// below 2^53 steps of the grid.
template <class T>
bool WindowBlock<T>::exact_pair(const MagnitudeRange& range) const {
  using F = format_of<T>;
  if (range.largest == 0) return true;
  if (range.largest >= format_of<Source>::infinity) return false;
  const int top = exponent_of<Source>(range.largest) + 1;
  const int grid = std::max(exponent_of<Source>(range.smallest + 1) - F::precision + 1, F::tiny_exponent);
  return top + 2 * terms_log2_ + 1 - 53 <= 53 + grid && grid > -900 && top + terms_log2_ < 1000;
}

// Whether all sums of the block are exact, given the magnitudes of its sources: below 2^(e+1), multiples of 2^grid.
template <class T>
bool WindowBlock<T>::exact_range(const MagnitudeRange& range) const {
  using F = format_of<T>;
  if (range.largest == 0) return true;
  if (range.largest >= format_of<Source>::infinity) return false;
  const int top = exponent_of<Source>(range.largest) + 1;
  const int grid = std::max(exponent_of<Source>(range.smallest + 1) - F::precision + 1, F::tiny_exponent);
  if constexpr (std::is_same_v<T, double>) {
    return exact_pair(range);
  } else {
    if (std::is_same_v<T, Float16>) return top + terms_log2_ <= std::min(27, 53 + grid);
    return top + terms_log2_ <= 53 + grid && grid - divisor_log2_ >= F::min_exponent;
  }
}

template <class T>
void WindowBlock<T>::scan_rows(MagnitudeRange& range) const {
  const Index rows = rows_.end - rows_.begin;
  const auto merge = [&](const MagnitudeRange& found) {
    range.smallest = std::min(range.smallest, found.smallest);
    range.largest = std::max(range.largest, found.largest);
  };
  if (slab_rows_.size() == 1 && source_strides_[0] == width_) return merge(source_kernels().scan(source_, rows * width_));
  for (Index r = 0; r < rows; ++r)
    for (const Index offset : slab_rows_) merge(source_kernels().scan(source_ + r * source_strides_[0] + offset, width_));
}

template <class T>
void WindowBlock<T>::choose_mode() {
  MagnitudeRange range;
  scan_rows(range);
  bounded_ = !exact_range(range);
  bool weighted = plan_.negated, wide = false;
  for (int a = 0; a + 1 < depth_; ++a) wide = wide || slides(a);
  for (const SumAxis* axis : layout_.axes) weighted = weighted || !axis->weights.empty();
  slide_allowed_ = wide && !bounded_ && !weighted && !has_negative_zero();
}

// Sums that slide forget which zeros were negative, so they are kept away from them.
template <class T>
bool WindowBlock<T>::has_negative_zero() const {
  for (Index r = 0; r < rows_.end - rows_.begin; ++r) {
    for (const Index offset : slab_rows_) {
      const Source* row = source_ + r * source_strides_[0] + offset;
      bool found = false;
      for (Index i = 0; i < width_; ++i) found |= (row[i] == 0) & std::signbit(row[i]);
      if (found) return true;
    }
  }
  return false;
}

// Whether adding what enters and subtracting what leaves is less work than a new sum.
template <class T>
bool WindowBlock<T>::slides(int level) const {
  const SumAxis& axis = *layout_.axes[static_cast<std::size_t>(level)];
  if (axis.outputs() < 2) return false;
  const auto middle = static_cast<std::size_t>(axis.outputs() / 2);
  const Index moved = std::abs(axis.first[middle] - axis.first[middle - 1]) / axis.step;
  return axis.count[middle] > 2 * moved + 2;
}

template <class T>
typename WindowBlock<T>::Position WindowBlock<T>::inner(const Position& at, int level, Index o) const {
  const auto l = static_cast<std::size_t>(level);
  const auto i = static_cast<std::size_t>(o);
  const SumAxis& axis = *layout_.axes[l];
  return {at.out + o * layout_.out_strides[l], at.divisor * axis.divisor[i], at.padded || axis.padded[i] != 0,
          at.empty || axis.count[i] == 0};
}

template <class T>
void WindowBlock<T>::first_level(T* out) {
  const SumAxis& axis = *layout_.axes[0];
  if (takes_lines()) return sum_lines(out);
  for (Index o = range_.first_begin; o < range_.first_end; ++o) {
    outputs_[0] = o;
    if (axis.count[static_cast<std::size_t>(o)] > 0 && !slide_source_rows(o)) sum_source_rows(o);
    level(1, levels_[0], inner({out, 1, false, false}, 0, o));
  }
}

// Whether lines can be left to one kernel: exact sums of two axes, in place, that no rule treats apart.
template <class T>
bool WindowBlock<T>::takes_lines() const {
  const SumAxis &first = *layout_.axes[0], &last = *layout_.axes[1];
  if (depth_ != 2 || lanes_ != 1 || bounded_ || slide_allowed_ || plan_.negated) return false;
  if (layout_.out_strides[1] != 1 && range_.last_end - range_.last_begin > 1) return false;
  if (!first.weights.empty() || !last.weights.empty() || last.runs.size() != 1 || last.runs[0].empty) return false;
  for (Index o = range_.first_begin; o < range_.first_end; ++o)
    if (first.count[static_cast<std::size_t>(o)] == 0) return false;
  return true;
}

template <class T>
void WindowBlock<T>::sum_lines(T* out) {
  const SumAxis &first = *layout_.axes[0], &last = *layout_.axes[1];
  const Index line = range_.last_end - range_.last_begin;
  const bool padding = !last.padded_outputs.empty();
  LineBlock<Source> b{};
  b.source = source_ - rows_.begin * source_strides_[0];
  b.row_stride = source_strides_[0];
  b.width = width_;
  b.first = first.first.data();
  b.count = first.count.data();
  b.step = first.step;
  b.margin = margin_;
  b.reach = reach_;
  b.segments = segments_.data();
  b.segment_count = static_cast<Index>(segments_.size());
  b.line = line;
  b.row = levels_[0];
  b.work = work_;
  b.smallest = scanning_ ? smallest_.data() : nullptr;
  b.largest = scanning_ ? largest_.data() : nullptr;
  flush();
  b.out = sums_;
  for (b.begin = range_.first_begin; b.begin < range_.first_end; b.begin = b.end) {
    b.end = std::min(range_.first_end, b.begin + capacity_ / line);
    source_kernels().sum_lines(b);
    for (Index o = b.begin; o < b.end; ++o) {
      const bool all = first.padded[static_cast<std::size_t>(o)] != 0;
      if (padding || all) add_padded_zeros(sums_ + (o - b.begin) * line, all);
    }
    divide_lines(out, b.begin, b.end);
  }
}

// Lines that are neighbours in memory and have one divisor are divided together.
template <class T>
void WindowBlock<T>::divide_lines(T* out, Index begin, Index end) {
  const SumAxis &first = *layout_.axes[0], &last = *layout_.axes[1];
  const Index line = range_.last_end - range_.last_begin;
  const auto divisor = [&](Index o) {
    return plan_.divisor != 0 ? plan_.divisor : first.divisor[static_cast<std::size_t>(o)] * last.runs[0].divisor;
  };
  for (Index o = begin, next; o < end; o = next) {
    next = o + 1;
    while (next < end && layout_.out_strides[0] == line && divisor(next) == divisor(o)) ++next;
    T* to = out + o * layout_.out_strides[0] + range_.last_begin * layout_.out_strides[1];
    finish_run(sums_ + (o - begin) * line, (next - o) * line, divisor(o), to, 0);
  }
}

template <class T>
void WindowBlock<T>::sum_source_rows(Index o) {
  const SumAxis& axis = *layout_.axes[0];
  const Index count = axis.count[static_cast<std::size_t>(o)], first = axis.first[static_cast<std::size_t>(o)];
  row_pointers_.resize(static_cast<std::size_t>(count));
  row_weights_.assign(axis.weights.empty() && !plan_.negated ? 0 : static_cast<std::size_t>(count),
                      plan_.negated ? -1.0 : 1.0);
  for (std::size_t r = 0; r < row_weights_.size() && !axis.weights.empty(); ++r)
    row_weights_[r] *= axis.weights[static_cast<std::size_t>(first + static_cast<Index>(r) * axis.step)];
  const double* weights = row_weights_.empty() ? nullptr : row_weights_.data();
  Sums to = levels_[0] + margin_;
  for (const Index offset : slab_rows_) {
    for (Index r = 0; r < count; ++r)
      row_pointers_[static_cast<std::size_t>(r)] =
          source_ + (first + r * axis.step - rows_.begin) * source_strides_[0] + offset;
    source_kernels().add_rows[bounded_](row_pointers_.data(), weights, count, width_, to);
    if (scanning_)
      source_kernels().scan_columns(row_pointers_.data(), count, width_, smallest_.data(), largest_.data());
    to = to + reach_;
  }
}

// Moves the sums from window o - 1 to window o; false if they must start afresh.
template <class T>
bool WindowBlock<T>::slide_source_rows(Index o) {
  const SumAxis& axis = *layout_.axes[0];
  const auto i = static_cast<std::size_t>(o);
  if (!slide_allowed_ || o == range_.first_begin || !slides(0) || axis.count[i - 1] == 0) return false;
  if ((axis.first[i] - axis.first[i - 1]) % axis.step != 0 || axis.first[i] < axis.first[i - 1]) return false;
  const Index old_end = axis.first[i - 1] + axis.count[i - 1] * axis.step, end = axis.first[i] + axis.count[i] * axis.step;
  if (end < old_end || axis.first[i] >= old_end) return false;
  Index leaving = axis.first[i - 1], entering = old_end;
  while (leaving < axis.first[i] || entering < end) {
    const bool leaves = leaving < axis.first[i], enters = entering < end;
    Sums to = levels_[0] + margin_;
    for (const Index offset : slab_rows_) {
      const Source* base = source_ + offset - rows_.begin * source_strides_[0];
      source_kernels().slide(leaves ? base + leaving * source_strides_[0] : nullptr,
                             enters ? base + entering * source_strides_[0] : nullptr, width_, to);
      to = to + reach_;
    }
    leaving += axis.step;
    entering += axis.step;
  }
  return true;
}

template <class T>
void WindowBlock<T>::level(int level, const Sums& in, const Position& at) {
  if (level == depth_ - 1) return line(in, at);
  const auto l = static_cast<std::size_t>(level);
  const SumAxis& axis = *layout_.axes[l];
  for (Index o = 0; o < axis.outputs(); ++o) {
    outputs_[l] = o;
    const auto i = static_cast<std::size_t>(o);
    if (!at.empty && axis.count[i] > 0 && !slide_slabs(level, o, in, levels_[l])) {
      row_offsets_.clear();
      row_weights_.clear();
      for (Index r = 0; r < axis.count[i]; ++r) {
        const Index cell = axis.first[i] + r * axis.step;
        row_offsets_.push_back(cell * slab(level));
        if (!axis.weights.empty()) row_weights_.push_back(axis.weights[static_cast<std::size_t>(cell)]);
      }
      const double* weights = row_weights_.empty() ? nullptr : row_weights_.data();
      kernels_.add_sums[mode_base<T> + bounded_](in, row_offsets_.data(), weights, axis.count[i], slab(level), levels_[l]);
    }
    this->level(level + 1, levels_[l], inner(at, level, o));
  }
}

template <class T>
bool WindowBlock<T>::slide_slabs(int level, Index o, const Sums& in, const Sums& out) {
  const SumAxis& axis = *layout_.axes[static_cast<std::size_t>(level)];
  const auto i = static_cast<std::size_t>(o);
  if (!slide_allowed_ || o == 0 || !slides(level) || axis.count[i - 1] == 0) return false;
  if ((axis.first[i] - axis.first[i - 1]) % axis.step != 0 || axis.first[i] < axis.first[i - 1]) return false;
  const Index old_end = axis.first[i - 1] + axis.count[i - 1] * axis.step, end = axis.first[i] + axis.count[i] * axis.step;
  if (end < old_end || axis.first[i] >= old_end) return false;
  Index leaving = axis.first[i - 1], entering = old_end;
  while (leaving < axis.first[i] || entering < end) {
    kernels_.slide_sums[mode_base<T>](leaving < axis.first[i] ? in + leaving * slab(level) : Sums{},
                                      entering < end ? in + entering * slab(level) : Sums{}, slab(level), out);
    leaving += axis.step;
    entering += axis.step;
  }
  return true;
}

template class WindowBlock<Float16>;
template class WindowBlock<BFloat16>;
template class WindowBlock<float>;
template class WindowBlock<double>;

}  // namespace halfulp
