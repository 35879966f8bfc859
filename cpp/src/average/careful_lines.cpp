#include "average/careful_lines.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/convert_kernels.hpp"

namespace halfulp {
namespace {

constexpr Index kBatch = Index{1} << 12;  // sums that are divided together

void fill(const Sums& sums, Index n, double value) {
  std::fill_n(sums.sum, n, value);
  if (sums.low != nullptr) std::fill_n(sums.low, n, 0.0);
  if (sums.bound != nullptr) std::fill_n(sums.bound, n, 0.0);
}

// A padded zero among the terms makes a negative zero positive and changes nothing else.
void add_zeros(double* sums, Index n) {
  for (Index i = 0; i < n; ++i) sums[i] += 0.0;
}

}  // namespace

template <class T>
CarefulLines<T>::CarefulLines(const SumPlan& plan, const SumLayout& layout, const SumRange<T>& range)
    : plan_(plan), layout_(layout), range_(range), kernels_(select_careful_kernels()), depth_(layout.axes.size()) {
  position_.resize(depth_);
  slabs_.resize(depth_);
  storage_.resize(depth_);
  axis_sums_.resize(depth_);
  bool weighted = plan.negated;
  for (const SumAxis* axis : layout.axes) weighted = weighted || !axis->weights.empty();
  for (std::size_t a = 0; a + 1 < depth_ && !weighted; ++a) may_slide_ = may_slide_ || slides_along(*layout.axes[a]);
}

template <class T>
auto CarefulLines<T>::source_kernels() const -> const SourceKernels<Source>& {
  if constexpr (std::is_same_v<Source, double>)
    return kernels_.f64;
  else
    return kernels_.f32;
}

template <class T>
void CarefulLines<T>::run(const T* in, T* out, const BlockRange& range) {
  block_ = range;
  lanes_ = range.lanes;
  outputs_.choose(*layout_.axes.back(), range.last_begin, range.last_end);
  rows_ = sources_of(*layout_.axes.front(), range.first_begin, range.first_end);
  width_ = outputs_.width * lanes_;
  margin_ = outputs_.margin * lanes_;
  reach_ = outputs_.reach * lanes_;
  take_source(in);
  choose_mode();
  reserve_sums();
  sum_axis(0, {}, {out, 1, false, false});
  flush();
}

// Views the source where its rows are contiguous numbers that kernels can read, else copies the block's part of it.
template <class T>
void CarefulLines<T>::take_source(const T* in) {
  const Index stride = layout_.in_strides.back();
  const T* const from = in + rows_.begin * layout_.in_strides[0] + outputs_.column * stride;
  const bool contiguous = stride == lanes_ || outputs_.width <= 1;
  source_strides_ = layout_.in_strides;
  source_strides_.back() = lanes_;
  slab_rows_ = slab_rows(layout_);
  if constexpr (std::is_same_v<T, Source>) {
    if (contiguous) {
      source_ = from;
      return;
    }
  }
  Index dense = width_;
  for (std::size_t a = depth_ - 1; a-- > 0; dense *= layout_.axes[a]->sources) source_strides_[a] = dense;
  copy_.resize(static_cast<std::size_t>(std::max<Index>(1, (rows_.end - rows_.begin) * source_strides_[0])));
  std::vector<T> gathered(contiguous ? 0 : static_cast<std::size_t>(width_));
  Source* to = copy_.data();
  for (Index r = 0; r < rows_.end - rows_.begin; ++r) {
    for (const Index offset : slab_rows_) {
      const T* row = from + r * layout_.in_strides[0] + offset;
      if (!contiguous) {
        for (Index c = 0; c < outputs_.width; ++c) std::copy_n(row + c * stride, lanes_, gathered.data() + c * lanes_);
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
  for (std::size_t i = 0; i < slab_rows_.size(); ++i) slab_rows_[i] = static_cast<Index>(i) * width_;
}

// f(row, values) for the block's part of the source, in one piece if its rows follow each other.
template <class T>
template <class F>
void CarefulLines<T>::for_each_row(F f) const {
  const Index rows = rows_.end - rows_.begin;
  if (slab_rows_.size() == 1 && source_strides_[0] == width_) return f(source_, rows * width_);
  for (Index r = 0; r < rows; ++r)
    for (const Index offset : slab_rows_) f(source_ + r * source_strides_[0] + offset, width_);
}

template <class T>
void CarefulLines<T>::choose_mode() {
  MagnitudeRange found;
  for_each_row([&](const Source* row, Index n) {
    const MagnitudeRange range = source_kernels().scan(row, n);
    found = {std::min(found.smallest, range.smallest), std::max(found.largest, range.largest)};
  });
  bounded_ = !range_.template exact<Source>(found);
  slides_ = may_slide_ && !bounded_ && !has_negative_zero();
}

// Sums that slide forget which zeros were negative, so they are kept away from them.
template <class T>
bool CarefulLines<T>::has_negative_zero() const {
  bool found = false;
  for_each_row([&](const Source* row, Index n) {
    bool here = false;
    for (Index i = 0; i < n; ++i) here |= (row[i] == 0) & std::signbit(row[i]);
    found = found || here;
  });
  return found;
}

template <class T>
Sums CarefulLines<T>::reserve(std::vector<double>& storage, Index n) const {
  n += kLineSlack;
  if (static_cast<Index>(storage.size()) < 3 * n) storage.resize(static_cast<std::size_t>(3 * n));
  double* const data = storage.data();
  return {data, std::is_same_v<T, double> ? data + n : nullptr, bounded_ ? data + 2 * n : nullptr};
}

template <class T>
void CarefulLines<T>::reserve_sums() {
  Index slab = reach_;
  for (std::size_t a = depth_ - 1; a-- > 0; slab *= layout_.axes[a]->sources) {
    slabs_[a] = slab;
    axis_sums_[a] = reserve(storage_[a], slab);
  }
  if (reach_ != width_) fill_margins();
  capacity_ = std::max(kBatch, outputs_.count() * lanes_);
  sums_ = reserve(sums_storage_, capacity_);
  work_ = reserve(work_storage_, reach_);
  if (static_cast<Index>(undecided_.size()) < capacity_) undecided_.resize(static_cast<std::size_t>(capacity_));
}

template <class T>
void CarefulLines<T>::fill_margins() {
  Sums row = axis_sums_[0];
  for (std::size_t r = 0; r < slab_rows_.size(); ++r, row = row + reach_) {
    fill(row, margin_, outputs_.zero_before);
    fill(row + (margin_ + width_), reach_ - margin_ - width_, outputs_.zero_after);
  }
}

// Sums `in`, or the source, along axis a, and what comes of that along the axes after it.
template <class T>
void CarefulLines<T>::sum_axis(std::size_t a, const Sums& in, const Position& at) {
  if (a + 1 == depth_) return sum_line(in, at);
  const SumAxis& axis = *layout_.axes[a];
  const Index begin = a == 0 ? block_.first_begin : 0, end = a == 0 ? block_.first_end : axis.outputs();
  for (Index o = begin; o < end; ++o) {
    const auto i = static_cast<std::size_t>(o);
    const bool empty = at.empty || axis.count[i] == 0;
    position_[a] = o;
    if (!empty && (o == begin || !slide(a, o, in))) add_cells(a, o, in);
    const bool padded = at.padded || axis.padded[i] != 0;
    sum_axis(a + 1, axis_sums_[a],
             {at.out + o * layout_.out_strides[a], at.divisor * axis.divisor[i], padded, empty});
  }
}

template <class T>
void CarefulLines<T>::add_cells(std::size_t a, Index o, const Sums& in) {
  const SumAxis& axis = *layout_.axes[a];
  const Index count = axis.count[static_cast<std::size_t>(o)], first = axis.first[static_cast<std::size_t>(o)];
  const Index origin = a == 0 ? rows_.begin : 0, pitch = a == 0 ? source_strides_[0] : slabs_[a];
  const bool negated = a == 0 && plan_.negated;
  offsets_.clear();
  weights_.clear();
  for (Index cell = first; cell < first + count * axis.step; cell += axis.step) {
    offsets_.push_back((cell - origin) * pitch);
    if (negated || !axis.weights.empty())
      weights_.push_back(axis.weights.empty() ? 1.0 : axis.weights[static_cast<std::size_t>(cell)]);
    if (negated) weights_.back() = -weights_.back();
  }
  const double* const weights = weights_.empty() ? nullptr : weights_.data();
  if (a > 0) return kernels_.add_sums[mode()](in, offsets_.data(), weights, count, slabs_[a], axis_sums_[a]);
  Sums to = axis_sums_[0] + margin_;
  for (const Index offset : slab_rows_) {
    source_kernels().add_rows[bounded_](source_ + offset, offsets_.data(), weights, count, width_, to);
    to = to + reach_;
  }
}

// Moves the sums of an axis from window o - 1 to window o; false if they must start afresh.
template <class T>
bool CarefulLines<T>::slide(std::size_t a, Index o, const Sums& in) {
  const SumAxis& axis = *layout_.axes[a];
  const auto i = static_cast<std::size_t>(o);
  if (!slides_ || axis.count[i - 1] == 0 || !slides_along(axis)) return false;
  const Index before = axis.first[i - 1], old_end = before + axis.count[i - 1] * axis.step;
  const Index first = axis.first[i], end = first + axis.count[i] * axis.step;
  if (first < before || (first - before) % axis.step != 0 || end < old_end || first >= old_end) return false;
  for (Index leaving = before, entering = old_end; leaving < first || entering < end;
       leaving += axis.step, entering += axis.step)
    slide_cells(a, leaving < first ? leaving : -1, entering < end ? entering : -1, in);
  return true;
}

// One of the cells, or both; -1: none.
template <class T>
void CarefulLines<T>::slide_cells(std::size_t a, Index leaving, Index entering, const Sums& in) {
  if (a > 0) {
    const auto cells = [&](Index cell) { return cell < 0 ? Sums{} : in + cell * slabs_[a]; };
    return kernels_.slide_sums[std::is_same_v<T, double>](cells(leaving), cells(entering), slabs_[a], axis_sums_[a]);
  }
  Sums to = axis_sums_[0] + margin_;
  for (const Index offset : slab_rows_) {
    const auto row = [&](Index cell) {
      return cell < 0 ? nullptr : source_ + offset + (cell - rows_.begin) * source_strides_[0];
    };
    source_kernels().slide(row(leaving), row(entering), width_, to);
    to = to + reach_;
  }
}

template <class T>
Index CarefulLines<T>::divisor_of(const Position& at, const SumRun& run) const {
  const bool nothing = (at.empty || run.empty) && !at.padded && !run.padded;
  const Index counted = nothing ? 1 : plan_.divisor != 0 ? plan_.divisor : at.divisor * run.divisor;
  return counted == 0 ? 1 : counted;  // an average over nothing is +0
}

// Lines of exact sums wait for their neighbours in memory, as long as all have one divisor.
template <class T>
void CarefulLines<T>::sum_line(const Sums& in, const Position& at) {
  const Index stride = layout_.out_strides.back(), n = outputs_.count() * lanes_;
  T* const out = at.out + outputs_.begin() * stride;
  const SumRun& run = outputs_.runs[0];
  const bool waits = !bounded_ && (stride == lanes_ || outputs_.count() == 1) && outputs_.runs.size() == 1 &&
                     !at.empty && !run.empty;
  const Index divisor = waits ? divisor_of(at, run) : 0;
  if (pending_ > 0 && (out != pending_out_ + pending_ || divisor != pending_divisor_ || pending_ + n > capacity_))
    flush();
  const Sums sums = sums_ + pending_;
  sum_along(in, at, sums);
  if (!waits) return divide_line(sums, at, out);
  if (pending_ == 0) pending_out_ = out;
  pending_divisor_ = divisor;
  pending_ += n;
}

template <class T>
void CarefulLines<T>::sum_along(const Sums& in, const Position& at, const Sums& out) {
  const Index n = outputs_.count() * lanes_;
  if (at.empty) return fill(out, n, 0.0);
  const SumAxis& axis = *layout_.axes.back();
  if (!axis.weights.empty())
    kernels_.scale[mode()](in + margin_, axis.weights.data() + outputs_.column, lanes_, outputs_.width);
  const auto segments = static_cast<Index>(outputs_.segments.size());
  if (lanes_ == 1) kernels_.add_along[mode()]({outputs_.segments.data(), segments, work_, out, 0, 0}, in);
  for (Index s = 0; s < segments && lanes_ > 1; ++s) {
    const SumSegment& g = outputs_.segments[static_cast<std::size_t>(s)];
    offsets_.clear();
    for (Index j = 0; j < g.count; ++j) offsets_.push_back(j * g.step * lanes_);
    for (Index t = 0; t < g.length; ++t)
      kernels_.add_sums[mode()](in + (g.first + t * g.first_step) * lanes_, offsets_.data(), nullptr, g.count, lanes_,
                                out + (g.output + t * g.output_step) * lanes_);
  }
  for (const SumRun& run : outputs_.runs)
    if (run.empty) fill(out + run.begin * lanes_, (run.end - run.begin) * lanes_, 0.0);
  if (at.padded) return add_zeros(out.sum, n);
  for (const OutputRange& range : outputs_.padded)
    add_zeros(out.sum + range.begin * lanes_, (range.end - range.begin) * lanes_);
}

template <class T>
void CarefulLines<T>::divide_line(const Sums& sums, const Position& at, T* out) {
  const Index stride = layout_.out_strides.back(), count = outputs_.count();
  const bool contiguous = stride == lanes_ || count == 1;
  if (!contiguous) staged_.resize(std::max(staged_.size(), static_cast<std::size_t>(count * lanes_)));
  T* const to = contiguous ? out : staged_.data();
  line_padded_ = at.padded;
  for (const SumRun& run : outputs_.runs) {
    const Index first = run.begin * lanes_;
    divide(sums + first, (run.end - run.begin) * lanes_, divisor_of(at, run), to + first, first);
  }
  for (Index o = 0; o < count && !contiguous; ++o) std::copy_n(to + o * lanes_, lanes_, out + o * stride);
}

template <class T>
void CarefulLines<T>::flush() {
  if (pending_ > 0) divide(sums_, pending_, pending_divisor_, pending_out_, 0);
  pending_ = 0;
}

template <class T>
void CarefulLines<T>::divide(const Sums& sums, Index n, Index divisor, T* out, Index line_offset) {
  if (std::abs(divisor) >= kLargestDivisor) {
    for (Index i = 0; i < n; ++i) out[i] = resolve(sums + i, divisor, line_offset + i);
    return;
  }
  const Index undecided = round_sums(sums, n, sum_divisor(divisor), out);
  for (Index u = 0; u < undecided; ++u) {
    const Index i = undecided_[static_cast<std::size_t>(u)];
    out[i] = resolve(sums + i, divisor, line_offset + i);
  }
}

template <class T>
Index CarefulLines<T>::round_sums(const Sums& in, Index n, const SumDivisor& divisor, T* out) {
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

// A quotient, exactly: from the sum's parts if they are exact, else from the cells of output `line_index` of the line.
template <class T>
T CarefulLines<T>::resolve(const Sums& sum, Index divisor, Index line_index) {
  if (!bounded_ || sum.bound[0] == 0.0)
    return exact_quotient<T>(sum.sum[0], sum.low == nullptr ? 0.0 : sum.low[0], divisor);
  typename ExactSums<Source>::terms exact;
  position_.back() = outputs_.begin() + line_index / lanes_;
  if (line_padded_ || layout_.axes.back()->padded[static_cast<std::size_t>(position_.back())] != 0) exact.add(0.0);
  add_exactly(exact, 0, source_ + line_index % lanes_, plan_.negated ? -1 : 1);
  return exact.template round_quotient<T>(divisor);
}

template <class T>
template <class Exact>
void CarefulLines<T>::add_exactly(Exact& sum, std::size_t a, const Source* at, std::int64_t weight) const {
  if (a == depth_) return sum.add(static_cast<double>(*at), weight);
  const SumAxis& axis = *layout_.axes[a];
  const auto o = static_cast<std::size_t>(position_[a]);
  const Index origin = a == 0 ? rows_.begin : a + 1 == depth_ ? outputs_.column : 0;
  for (Index r = 0; r < axis.count[o]; ++r) {
    const Index cell = axis.first[o] + r * axis.step;
    const auto factor =
        axis.weights.empty() ? 1 : static_cast<std::int64_t>(axis.weights[static_cast<std::size_t>(cell)]);
    add_exactly(sum, a + 1, at + (cell - origin) * source_strides_[a], weight * factor);
  }
}

template class CarefulLines<Float16>;
template class CarefulLines<BFloat16>;
template class CarefulLines<float>;
template class CarefulLines<double>;

}  // namespace halfulp
