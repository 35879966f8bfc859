// The pullback of hard max over small sliding windows, by cells: a row of cells gathers from the rows of windows that
// hold it. Cells that are a stride apart stand alike in their windows, so each such class is a vector sum over taps.
#include <array>
#include <bit>
#include <cstring>

#include "max/gather_kernels.hpp"
#include "base/stream_kernels.hpp"
#include "max/pullback.hpp"
#include "max/walk.hpp"
#include "base/row_buffer.hpp"

namespace halfulp {
namespace {

constexpr Index kMostTaps = kNobody;         // a code fits in a byte, and one is left over
constexpr Index kBandBytes = Index{24} << 10;  // of cells made at once: they and their terms stay in the nearest cache

// How the windows along an axis hold cells. Cell c is in class c % stride and has place c / stride; it is at `offset`
// of the window whose number is its place plus `shift`. Windows that do not exist are met, too.
struct Tap {
  Index offset;
  Index shift;
};
struct AxisTaps {
  explicit AxisTaps(const Axis& axis) : stride(axis.stride), size(axis.size), windows(axis.output) {
    classes.resize(static_cast<std::size_t>(stride));
    first_shift = axis.before / stride;
    last_shift = -first_shift;
    for (Index c = 0; c < stride; ++c) {
      for (Index k = 0; k < axis.kernel; ++k) {
        const Index distance = axis.before + c - k * axis.dilation;
        if (distance % stride != 0) continue;
        classes[static_cast<std::size_t>(c)].push_back({k, distance / stride});
        first_shift = std::min(first_shift, distance / stride);
        last_shift = std::max(last_shift, distance / stride);
      }
      most = std::max(most, static_cast<Index>(classes[static_cast<std::size_t>(c)].size()));
    }
    last_shift = std::max(first_shift, last_shift);
  }
  const std::vector<Tap>& of(Index cell) const noexcept { return classes[static_cast<std::size_t>(cell % stride)]; }
  Index place(Index cell) const noexcept { return cell / stride; }
  // The windows that cells [begin, end) may meet.
  Index first_window(Index begin) const noexcept { return place(begin) + first_shift; }
  Index stop_window(Index end) const noexcept { return place(end - 1) + last_shift + 1; }

  Index stride, size, windows;
  Index first_shift = 0, last_shift = 0;
  Index most = 0;  // taps of a class
  std::vector<std::vector<Tap>> classes;
};

template <class T>
class Gather final : public GatherEngine {
 public:
  static constexpr bool kDouble = std::is_same_v<T, double>;
  using C = std::conditional_t<kDouble, double, float>;  // sums are made in and for this

  Gather(const MaxPlan& plan, const PullbackPlane& prototype)
      : kernels_(select_gather_kernels()),
        code_bytes_(kDouble ? kernels_.code_bytes_f64 : kernels_.code_bytes_f32),
        last_(plan.ndim() - 1),
        lanes_(prototype.lanes),
        columns_(plan.axes.back()),
        rows_(last_ > 0 ? plan.axes[at(last_ - 1)] : Axis{.size = 1, .output = 1}),
        row_kernel_(last_ > 0 ? plan.axes[at(last_ - 1)].kernel : 1),
        column_kernel_(plan.axes.back().kernel) {
    most_terms_ = rows_.most * columns_.most;
    for (int a = 0; a + 1 < last_; ++a) {
      outer_.emplace_back(plan.axes[at(a)]);
      outer_kernels_.push_back(plan.axes[at(a)].kernel);
      most_terms_ *= outer_.back().most;
    }
    // Long rows are cut, short ones taken together.
    const Index fitting = kBandBytes / static_cast<Index>(sizeof(C)) / lanes_;
    band_columns_ = std::min(columns_.size, std::max<Index>(1, fitting / columns_.stride) * columns_.stride);
    const Index rows = std::max<Index>(1, fitting / band_columns_);
    const Index bands = (rows_.size + rows - 1) / rows;  // of about equal size
    band_rows_ = ((rows_.size + bands - 1) / bands + rows_.stride - 1) / rows_.stride * rows_.stride;
    sums_.assign(padded_length<C>(band_columns_ * lanes_) * band_rows_ + kRowSlack, C{});
    if (!std::is_same_v<T, C>) narrowed_.assign(band_columns_ * lanes_ * band_rows_ + kRowSlack, T{});
    ways_.resize(static_cast<std::size_t>(columns_.stride));
    const auto terms = static_cast<std::size_t>(columns_.stride * most_terms_);
    places_.resize(terms);
    ids_.resize(terms);
  }

  bool run(const PullbackPlane& plane, Index begin, Index end) override {
    plane_ = &plane;
    if (last_ == 0) return bands(plane.dx.data, 0, 1, begin, end);
    if (last_ == 1) {
      met_.assign(1, {plane.cotangent.data, plane.winners.data, 0});
      return bands(plane.dx.data, begin, end, 0, columns_.size);
    }
    Index cell[kMaxRank] = {begin};
    while (cell[0] < end) {
      meet(cell);
      if (!bands(plane.dx.data + walk::position(cell, plane.dx.strides, last_ - 1), 0, rows_.size, 0, columns_.size))
        return false;
      for (int a = last_ - 2; a >= 0; --a) {
        if (++cell[a] < outer_[at(a)].size || a == 0) break;
        cell[a] = 0;
      }
    }
    return true;
  }

 private:
  // A slice of windows that holds the slice of cells: where it is, and what its outer axes contribute to the code.
  struct Slice {
    const char* g;
    const char* codes;
    Index code;
  };

  static std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }

  void meet(const Index* cell) {
    met_.assign(1, {plane_->cotangent.data, plane_->winners.data, 0});
    for (int a = 0; a + 1 < last_; ++a) {
      const AxisTaps& axis = outer_[at(a)];
      wider_.clear();
      for (const Slice& slice : met_) {
        for (const Tap& tap : axis.of(cell[a])) {
          const Index window = axis.place(cell[a]) + tap.shift;
          if (window < 0 || window >= axis.windows) continue;
          wider_.push_back({slice.g + window * plane_->cotangent.strides[a],
                            slice.codes + window * plane_->winners.strides[a],
                            slice.code * outer_kernels_[at(a)] + tap.offset});
        }
      }
      std::swap(met_, wider_);
    }
  }

  // The cells of rows [y0, y1) and columns [x0, x1) of a slice of dx, band by band.
  bool bands(char* dx, Index y0, Index y1, Index x0, Index x1) {
    if (last_ == 0) met_.assign(1, {plane_->cotangent.data, plane_->winners.data, 0});
    for (Index y = y0; y < y1; y += band_rows_)
      for (Index x = x0; x < x1; x += band_columns_)
        if (!band(dx, y, std::min(y + band_rows_, y1), x, std::min(x + band_columns_, x1))) return false;
    if (plane_->stream) select_stream_kernels().finish();
    return true;
  }

  bool band(char* dx, Index y0, Index y1, Index x0, Index x1) {
    if (!load(y0, y1, x0, x1)) return false;
    const Index step = row_stride(plane_->dx), stride = plane_->dx.strides[last_];
    const Index item = static_cast<Index>(sizeof(T)), n = (x1 - x0) * lanes_;
    char* target = dx + y0 * step + x0 * stride;
    const bool dense = stride == item * lanes_;
    if constexpr (std::is_same_v<T, C>) {
      const auto whole_lines = [&] {
        constexpr Index line = 64;
        const auto address = static_cast<Index>(reinterpret_cast<std::uintptr_t>(target) % line);
        return lanes_ == 1 && address == 0 && step % line == 0 && n * item % line == 0;
      };
      if (dense && step % item == 0 && (!plane_->stream || whole_lines())) {
        sum_rows(y0, y1, x0, x1, reinterpret_cast<C*>(target), step / item, plane_->stream);
        return true;
      }
    }
    sum_rows(y0, y1, x0, x1, sums_.data(), n, false);
    const T* finished = nullptr;
    if constexpr (std::is_same_v<T, C>) {
      finished = sums_.data();
    } else {
      narrow_run(sums_.data(), narrowed_.data(), (y1 - y0) * n);
      finished = narrowed_.data();
    }
    write(finished, target, y1 - y0, n, step, stride);
    return true;
  }

  void write(const T* source, char* target, Index rows, Index n, Index step, Index stride) {
    const Index bytes = n * static_cast<Index>(sizeof(T));
    const bool dense = stride == static_cast<Index>(sizeof(T)) * lanes_;
    if (dense && step == bytes) return put(source, target, rows * bytes);
    for (Index r = 0; r < rows; ++r) {
      if (dense) put(source + r * n, target + r * step, bytes);
      for (Index place = 0; !dense && place < n / lanes_; ++place)
        std::memcpy(target + r * step + place * stride, source + r * n + place * lanes_,
                    static_cast<std::size_t>(lanes_) * sizeof(T));
    }
  }

  void put(const T* source, char* target, Index bytes) {
    if (plane_->stream) select_stream_kernels().copy(reinterpret_cast<const char*>(source), target, bytes);
    else std::memcpy(target, source, static_cast<std::size_t>(bytes));
  }

  // Loads the windows that these cells meet; false if their range is too wide.
  bool load(Index y0, Index y1, Index x0, Index x1) {
    first_row_ = rows_.first_window(y0);
    first_column_ = columns_.first_window(x0);
    loaded_rows_ = rows_.stop_window(y1) - first_row_;
    pitch_ = padded_length<C>((columns_.stop_window(x1) - first_column_) * lanes_);
    const Index items = pitch_ * loaded_rows_ * static_cast<Index>(met_.size()) + kRowSlack;
    if (items > capacity_) {
      g_.assign(items, C{});
      if (widens()) wide_g_.assign(items, 0.0);
      codes_.assign(items * code_bytes_, kNobody);
      capacity_ = items;
    }
    const Index top = std::max<Index>(first_row_, 0), bottom = std::min(first_row_ + loaded_rows_, rows_.windows);
    const Index left = std::max<Index>(first_column_, 0), right = std::min(columns_.stop_window(x1), columns_.windows);
    const bool any = top < bottom && left < right;
    mark_nobody(any ? std::array{pitch_, left - first_column_, right - first_column_} : std::array<Index, 3>{},
                top - first_row_, bottom - first_row_);
    if (!any) return true;
    ExponentRange range;
    Index to = (top - first_row_) * pitch_ + (left - first_column_) * lanes_;
    for (const Slice& slice : met_) {
      load_slice(slice, top, bottom - top, left, right - left, to, range);
      to += loaded_rows_ * pitch_;
    }
    return exact(range);
  }

  // Where no window is: everything if windows have moved along their rows, else the rows beside [top, bottom).
  void mark_nobody(const std::array<Index, 3>& columns, Index top, Index bottom) {
    if (columns != marked_ || columns[0] == 0) {
      marked_ = columns;
      std::fill_n(codes_.data(), capacity_ * code_bytes_, kNobody);
      return;
    }
    const Index row = pitch_ * code_bytes_;
    for (std::size_t slice = 0; slice < met_.size(); ++slice) {
      std::uint8_t* const codes = codes_.data() + static_cast<Index>(slice) * loaded_rows_ * row;
      std::fill_n(codes, top * row, kNobody);
      std::fill_n(codes + bottom * row, (loaded_rows_ - bottom) * row, kNobody);
    }
  }

  void load_slice(const Slice& slice, Index row, Index rows, Index column, Index positions, Index to,
                  ExponentRange& range) {
    const Index g_step = row_stride(plane_->cotangent), g_stride = plane_->cotangent.strides[last_];
    const Index code_step = row_stride(plane_->winners), code_stride = plane_->winners.strides[last_];
    const char* g = slice.g + row * g_step + column * g_stride;
    const char* codes = slice.codes + row * code_step + column * code_stride;
    if (code_stride == lanes_) put_codes(codes, to, {rows, positions * lanes_, code_step, pitch_});
    for (Index r = 0; r < rows && code_stride != lanes_; ++r)
      put_codes(codes + r * code_step, to + r * pitch_, {positions, lanes_, code_stride, lanes_});
    if (plane_->stream) {  // what the next band will need, if nothing lies between
      prefetch_bytes(codes + rows * code_step, rows * positions * lanes_);
      prefetch_bytes(g + rows * g_step, rows * positions * lanes_ * static_cast<Index>(sizeof(T)));
    }
    const RowRun inside{rows, positions * lanes_, pitch_, pitch_};
    if constexpr (std::is_same_v<T, C>) {
      constexpr Index item = sizeof(T);
      if (g_stride == item * lanes_ && g_step % item == 0)
        return negate(reinterpret_cast<const C*>(g), to, {rows, positions * lanes_, g_step / item, pitch_}, range);
    }
    for (Index r = 0; r < rows; ++r) read_row<T>(g + r * g_step, g_stride, positions, g_.data() + to + r * pitch_);
    negate(g_.data() + to, to, inside, range);
  }

  Index row_stride(const Plane& plane) const noexcept { return last_ > 0 ? plane.strides[last_ - 1] : 0; }

  template <class From, class To>
  void read_row(const char* source, Index stride, Index positions, To* target) const {
    const auto run = [](const char* from, To* to, Index n) {
      if constexpr (is_half_pair<From, To>) widen_run(reinterpret_cast<const From*>(from), to, n);
      else std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
    };
    if (stride == static_cast<Index>(sizeof(From)) * lanes_) return run(source, target, positions * lanes_);
    for (Index o = 0; o < positions; ++o) run(source + o * stride, target + o * lanes_, lanes_);
  }

  void negate(const C* source, Index to, const RowRun& rows, ExponentRange& range) const {
    double* const wide = widens() ? wide_g_.data() + to : nullptr;
    if constexpr (kDouble) kernels_.negate_f64(source, g_.data() + to, wide, rows, range);
    else kernels_.negate_f32(source, g_.data() + to, wide, rows, range);
  }
  void put_codes(const char* source, Index to, const RowRun& rows) const {
    const auto kernel = kDouble ? kernels_.codes_f64 : kernels_.codes_f32;
    kernel(reinterpret_cast<const std::uint8_t*>(source), codes_.data() + to * code_bytes_, rows);
  }
  bool widens() const noexcept { return !kDouble && most_terms_ > 2; }

  // Whether every sum of these terms is exact in double, or else (always for double terms) in two doubles, which
  // `wide_` then says: the bits of all terms and sums lie in a window that fits.
  bool exact(const ExponentRange& range) noexcept {
    wide_ = false;
    // Two terms are rounded to C at once, which has more than twice the bits of a half-precision T; and the bits of all
    // float16 numbers fit.
    if (range.largest == 0 || most_terms_ <= 2 || std::is_same_v<T, Float16>) return true;
    constexpr int fraction = kDouble ? 52 : 23;
    constexpr Index special = kDouble ? 2047 : 255;
    const auto high = static_cast<Index>(range.largest >> fraction);
    const auto low = static_cast<Index>((range.smallest + 1) >> fraction);
    if (high == special) return false;  // an infinity or NaN
    const Index growth = std::bit_width(static_cast<std::uint64_t>(most_terms_));
    // Errors of the first double, from 2^(high + 2 growth - 53) down to the last bit of the smallest term, fit in the
    // second. Nor may a partial sum overflow.
    constexpr Index precision = format_of<T>::precision;
    if constexpr (kDouble) return high - low + 2 * growth <= 48 && high + growth < special;
    wide_ = high - low + growth + precision > 53;
    return high - low + 2 * growth + precision <= 104;
  }

  // The sums of the cells of rows [y0, y1) and columns [x0, x1), `step` items from row to row.
  void sum_rows(Index y0, Index y1, Index x0, Index x1, C* out, Index step, bool past_caches) {
    for (Index y = y0; y < std::min(y0 + rows_.stride, y1); ++y) {
      const Index count = (y1 - y + rows_.stride - 1) / rows_.stride;
      C* const target = out + (y - y0) * step;
      if (lanes_ == 1 || columns_.stride == 1) {
        for (Index x = x0; x < x0 + columns_.stride; ++x) collect(x - x0, y, 0, x, x1);
        sum(ways_.data(), columns_.stride, target, {count, (x1 - x0) * lanes_, pitch_, rows_.stride * step},
            past_caches);
        continue;
      }
      for (Index r = 0; r < count; ++r) {
        for (Index x = x0; x < std::min(x0 + columns_.stride, x1); ++x) {
          collect(0, y, r * pitch_, x, x1);
          const Index positions = (x1 - x + columns_.stride - 1) / columns_.stride;
          sum(ways_.data(), 1, target + r * rows_.stride * step + (x - x0) * lanes_,
              {positions, lanes_, lanes_, columns_.stride * lanes_}, false);
        }
      }
    }
  }

  void sum(const GatherTerms<C>* ways, Index count, C* out, const RowRun& rows, bool past_caches) const {
    const int n = static_cast<int>(count);
    if constexpr (kDouble) {
      kernels_.f64(ways, n, out, rows, past_caches);
    } else {
      constexpr bool odd = !std::is_same_v<T, float>;
      const auto narrow = odd ? kernels_.f32_odd : kernels_.f32, wide = odd ? kernels_.f32_wide_odd : kernels_.f32_wide;
      (wide_ ? wide : narrow)(ways, n, out, rows, past_caches);
    }
  }

  // The terms of cell (y, x) and those of its class, as number `way`; none if x is not below `end`.
  void collect(Index way, Index y, Index offset, Index x, Index end) {
    Index t = way * most_terms_;
    GatherTerms<C>& terms = ways_[static_cast<std::size_t>(way)];
    terms = {g_.data(), wide_g_.data(), codes_.data(), places_.data() + t, ids_.data() + t, 0};
    if (x >= end) return;
    const Index top = rows_.place(y) - first_row_, left = columns_.place(x) - first_column_;
    for (const Slice& slice : met_) {
      const Index slot = (&slice - met_.data()) * loaded_rows_;
      for (const Tap& down : rows_.of(y)) {
        const Index row = offset + (slot + top + down.shift) * pitch_;
        const Index code = (slice.code * row_kernel_ + down.offset) * column_kernel_;
        for (const Tap& along : columns_.of(x)) {
          const auto i = static_cast<std::size_t>(t++);
          places_[i] = row + (left + along.shift) * lanes_;
          ids_[i] = static_cast<std::uint8_t>(code + along.offset);
          ++terms.count;
        }
      }
    }
  }

  const GatherKernels& kernels_;
  Index code_bytes_;
  int last_;
  Index lanes_;
  AxisTaps columns_, rows_;
  std::vector<AxisTaps> outer_;
  Index row_kernel_, column_kernel_;
  std::vector<Index> outer_kernels_;
  Index most_terms_ = 1, band_rows_ = 1, band_columns_ = 1;
  const PullbackPlane* plane_ = nullptr;
  bool wide_ = false;
  std::vector<Slice> met_, wider_;
  // The loaded windows: their rows, from first_row_ and first_column_ on, slice after slice.
  Index first_row_ = 0, first_column_ = 0, loaded_rows_ = 0, pitch_ = 0, capacity_ = 0;
  RowBuffer<C> g_;
  RowBuffer<double> wide_g_;
  RowBuffer<std::uint8_t> codes_;
  std::array<Index, 3> marked_{};  // the pitch of codes_, and the windows in its rows
  RowBuffer<C> sums_;
  RowBuffer<T> narrowed_;
  std::vector<GatherTerms<C>> ways_;
  std::vector<Index> places_;
  std::vector<std::uint8_t> ids_;
};

}  // namespace

std::unique_ptr<GatherEngine> make_gather(const MaxPlan& plan, const PullbackPlane& plane) {
  if (plan.many_winners() || plan.window_cells > kMostTaps) return nullptr;
  for (const Axis& axis : plan.axes)
    if (axis.adaptive || axis.output == 0 || axis.padded() > 4 * axis.size + 4096) return nullptr;
  return visit_float(plane.dtype, [&](auto tag) -> std::unique_ptr<GatherEngine> {
    return std::make_unique<Gather<decltype(tag)>>(plan, plane);
  });
}

}  // namespace halfulp
