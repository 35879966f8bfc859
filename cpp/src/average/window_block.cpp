#include "average/window_block.hpp"

#include <algorithm>

#include "average/window_line.hpp"

namespace halfulp {
namespace {

constexpr Index kBatch = Index{1} << 12;  // sums that are divided together

}  // namespace

template <class T>
WindowBlock<T>::WindowBlock(const SumPlan& plan, const WindowLayout& layout)
    : plan_(plan),
      layout_(layout),
      range_(plan, layout),
      kernels_(select_sum_kernels()),
      depth_(static_cast<int>(layout.axes.size())) {
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
  n += kLineSlack;
  if (static_cast<Index>(storage.size()) < parts * n) storage.resize(static_cast<std::size_t>(parts * n));
  const bool low = std::is_same_v<T, double>;
  double* data = storage.data();
  return {data, low ? data + n : nullptr, bounded_ ? data + 2 * n : nullptr};
}

template <class T>
void WindowBlock<T>::run(const T* in, T* out, const BlockRange& range) {
  outputs_range_ = range;
  lanes_ = range.lanes;
  rows_ = cells_of(*layout_.axes.front(), range.first_begin, range.first_end);
  find_columns();
  take_source(in);
  choose_mode();
  compute(out);
  flush();
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
  capacity_ = std::max(kBatch, (outputs_range_.last_end - outputs_range_.last_begin) * lanes_);
  sums_ = reserve(sums_storage_, capacity_);
  work_ = reserve(work_storage_, reach_);
  if (static_cast<Index>(undecided_.size()) < capacity_) undecided_.resize(static_cast<std::size_t>(capacity_));
  first_level(out);
}

// The columns that the block's windows reach, and the margins of those that are not there.
template <class T>
void WindowBlock<T>::find_columns() {
  const ColumnReach found =
      clipped_segments(*layout_.axes.back(), outputs_range_.last_begin, outputs_range_.last_end, segments_);
  columns_ = {found.begin, found.end};
  width_ = (found.end - found.begin) * lanes_;
  margin_ = found.margin * lanes_;
  reach_ = found.reach * lanes_;
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

template <class T>
void WindowBlock<T>::scan_rows(MagnitudeRange& range) const {
  const Index rows = rows_.end - rows_.begin;
  const auto merge = [&](const MagnitudeRange& found) {
    range.smallest = std::min(range.smallest, found.smallest);
    range.largest = std::max(range.largest, found.largest);
  };
  if (slab_rows_.size() == 1 && source_strides_[0] == width_)
    return merge(source_kernels().scan(source_, rows * width_));
  for (Index r = 0; r < rows; ++r)
    for (const Index offset : slab_rows_)
      merge(source_kernels().scan(source_ + r * source_strides_[0] + offset, width_));
}

template <class T>
void WindowBlock<T>::choose_mode() {
  MagnitudeRange range;
  scan_rows(range);
  bounded_ = !range_.template exact<Source>(range);
  bool weighted = plan_.negated, wide = false;
  const bool several = outputs_range_.first_end - outputs_range_.first_begin > 1;
  for (int a = several ? 0 : 1; a + 1 < depth_; ++a) wide = wide || slides(a);
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
  for (Index o = outputs_range_.first_begin; o < outputs_range_.first_end; ++o) {
    outputs_[0] = o;
    if (axis.count[static_cast<std::size_t>(o)] > 0 && !slide_source_rows(o)) sum_source_rows(o);
    level(1, levels_[0], inner({out, 1, false, false}, 0, o));
  }
}

template <class T>
void WindowBlock<T>::sum_source_rows(Index o) {
  const SumAxis& axis = *layout_.axes[0];
  const Index count = axis.count[static_cast<std::size_t>(o)], first = axis.first[static_cast<std::size_t>(o)];
  row_offsets_.resize(static_cast<std::size_t>(count));
  for (Index r = 0; r < count; ++r)
    row_offsets_[static_cast<std::size_t>(r)] = (first + r * axis.step - rows_.begin) * source_strides_[0];
  row_weights_.assign(axis.weights.empty() && !plan_.negated ? 0 : static_cast<std::size_t>(count),
                      plan_.negated ? -1.0 : 1.0);
  for (std::size_t r = 0; r < row_weights_.size() && !axis.weights.empty(); ++r)
    row_weights_[r] *= axis.weights[static_cast<std::size_t>(first + static_cast<Index>(r) * axis.step)];
  const double* weights = row_weights_.empty() ? nullptr : row_weights_.data();
  Sums to = levels_[0] + margin_;
  for (const Index offset : slab_rows_) {
    source_kernels().add_rows[bounded_](source_ + offset, row_offsets_.data(), weights, count, width_, to);
    to = to + reach_;
  }
}

// Moves the sums of a level from window o - 1 to window o; false if they must start afresh. `step` is called with the
// cells that leave and enter, in pairs, or -1.
template <class T>
template <class Step>
bool WindowBlock<T>::slide(int level, Index o, Index first_output, const Step& step) const {
  const SumAxis& axis = *layout_.axes[static_cast<std::size_t>(level)];
  const auto i = static_cast<std::size_t>(o);
  if (!slide_allowed_ || o == first_output || !slides(level) || axis.count[i - 1] == 0) return false;
  if ((axis.first[i] - axis.first[i - 1]) % axis.step != 0 || axis.first[i] < axis.first[i - 1]) return false;
  const Index old_end = axis.first[i - 1] + axis.count[i - 1] * axis.step,
              end = axis.first[i] + axis.count[i] * axis.step;
  if (end < old_end || axis.first[i] >= old_end) return false;
  Index leaving = axis.first[i - 1], entering = old_end;
  for (; leaving < axis.first[i] || entering < end; leaving += axis.step, entering += axis.step)
    step(leaving < axis.first[i] ? leaving : -1, entering < end ? entering : -1);
  return true;
}

template <class T>
bool WindowBlock<T>::slide_source_rows(Index o) {
  return slide(0, o, outputs_range_.first_begin, [&](Index leaving, Index entering) {
    Sums to = levels_[0] + margin_;
    for (const Index offset : slab_rows_) {
      const Source* base = source_ + offset - rows_.begin * source_strides_[0];
      const auto row = [&](Index cell) { return cell < 0 ? nullptr : base + cell * source_strides_[0]; };
      source_kernels().slide(row(leaving), row(entering), width_, to);
      to = to + reach_;
    }
  });
}

template <class T>
bool WindowBlock<T>::slide_slabs(int level, Index o, const Sums& in, const Sums& out) {
  return slide(level, o, 0, [&](Index leaving, Index entering) {
    const auto row = [&](Index cell) { return cell < 0 ? Sums{} : in + cell * slab(level); };
    kernels_.slide_sums[std::is_same_v<T, double>](row(leaving), row(entering), slab(level), out);
  });
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
      kernels_.add_sums[mode_base<T> + bounded_](in, row_offsets_.data(), weights, axis.count[i], slab(level),
                                                 levels_[l]);
    }
    this->level(level + 1, levels_[l], inner(at, level, o));
  }
}

template class WindowBlock<Float16>;
template class WindowBlock<BFloat16>;
template class WindowBlock<float>;
template class WindowBlock<double>;

}  // namespace halfulp
