#include "halfulp/present_average.hpp"

#include <cmath>
#include <limits>

#include "exact/exact_sum.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "average/present_kernels.hpp"
#include "exact/quotients.hpp"
#include "exact/round.hpp"
#include "average/axis_windows.hpp"
#include "base/stream_kernels.hpp"

namespace halfulp {
namespace {

template <class T>
double as_double(const char* at) {
  const T value = *reinterpret_cast<const T*>(at);
  if constexpr (std::is_same_v<T, double>) return value;
  else return static_cast<double>(to_float(value));
}

template <class T>
void store(char* at, T value) {
  *reinterpret_cast<T*>(at) = value;
}

// The sum over a divisor, rounded once. A sum of doubles without any rounding error is exact, and so is its quotient up
// to one rounding; the rest, zeros and infinities included, is the business of ExactSum.
template <class T>
T mean_of(std::span<const double> cells, bool padded, Index divisor) {
  double sum = 0, error = 0;
  for (const double cell : cells) {
    const TwoDoubles next = two_sum(sum, cell);
    sum = next.high;
    error += std::fabs(next.low);
  }
  const double d = static_cast<double>(divisor);
  if (error == 0 && sum != 0 && divisor > -(Index{1} << 53) && divisor < (Index{1} << 53)) {
    const double q = sum / d;
    if constexpr (std::is_same_v<T, double>) {
      return q;
    } else {
      const double low = std::nextafter(q, -std::numeric_limits<double>::infinity());
      const double high = std::nextafter(q, std::numeric_limits<double>::infinity());
      if (same_rounding<T>(low, high)) return round_to<T>(q);
    }
  }
  typename ExactSums<std::conditional_t<std::is_same_v<T, double>, double, float>>::terms exact;
  for (const double cell : cells) exact.add(cell);
  if (padded || cells.empty()) exact.add(0.0);
  return exact.template round_quotient<T>(divisor);
}

// The windows of one output row after the other.
template <class F>
void for_rows(const std::vector<AxisWindows>& outer, Index work, F f) {
  Index count = 1;
  for (const AxisWindows& line : outer) count *= line.outputs;
  parallel_for(count, std::max<Index>(1, (Index{1} << 14) / std::max<Index>(1, work)), [&](Index begin, Index end) {
    OuterWindow window;
    std::vector<double> cells, tangents;
    for (Index i = begin; i < end; ++i) {
      poll_interrupts();
      outer_window(outer, i, window);
      f(window, i, cells, tangents);
    }
  });
}

// How many cells a window has, and what its sum is divided by if `numbers` of them take part; 0: nothing is counted.
struct WindowCount {
  Index real, counted;
  Index divisor(Index numbers, const Counting& counting) const {
    const Index all = numbers + (counting.include_pad ? counted - real : 0);
    return all == 0 || counting.divisor == 0 ? all : counting.divisor;
  }
};

WindowCount count_of(const OuterWindow& window, const AxisWindows& row, Index o) {
  return {static_cast<Index>(window.rows.size()) * row.count_of(o), window.counted * row.counted_of(o)};
}

// The byte offset, in an array like `y` of other strides, of the outputs of the outer lines.
Index offset_in(const ArrayView& view, const std::vector<AxisWindows>& outer, Index flat) {
  Index offset = 0;
  for (std::size_t i = outer.size(); i-- > 0;) {
    offset += (flat % outer[i].outputs) * view.strides[static_cast<int>(i)];
    flat /= outer[i].outputs;
  }
  return offset;
}

template <class T>
void complete(const Rows& lines, Counting counting, const ArrayView& x, const ArrayView& y, const Rows* along,
              const ArrayView* t, const ArrayView* dy) {
  const AxisWindows& row = lines.row;
  for_rows(lines.outer, row.outputs, [&](const OuterWindow& window, Index flat, auto& cells, auto& tangents) {
    char* out = y.data + window.out_offset;
    OuterWindow other;
    for (Index o = 0; o < row.outputs; ++o) {
      const double value = as_double<T>(out + o * row.out_stride);
      if (value == value) continue;
      const WindowCount count = count_of(window, row, o);
      if (t != nullptr && other.rows.empty()) outer_window(along->outer, flat, other);
      cells.clear();
      tangents.clear();
      for (std::size_t r = 0; r < window.rows.size(); ++r) {
        const char* source = x.data + window.rows[r] + row.first_of(o) * row.in_stride;
        const char* moved =
            t == nullptr ? nullptr : t->data + other.rows[r] + row.first_of(o) * along->row.in_stride;
        for (Index i = 0; i < row.count_of(o); ++i) {
          const double cell = as_double<T>(source + i * row.step * row.in_stride);
          if (cell != cell) continue;
          cells.push_back(cell);
          if (t != nullptr) tangents.push_back(as_double<T>(moved + i * row.step * along->row.in_stride));
        }
      }
      if (static_cast<Index>(cells.size()) == count.real) continue;  // infinities of both signs
      const Index divisor = count.divisor(static_cast<Index>(cells.size()), counting);
      const bool padded = counting.include_pad && count.counted > count.real;
      if (divisor != 0) store<T>(out + o * row.out_stride, mean_of<T>(cells, padded, divisor));
      if (t != nullptr) {
        char* target = dy->data + offset_in(*dy, lines.outer, flat) + o * along->row.out_stride;
        store<T>(target, divisor == 0 ? T{} : mean_of<T>(tangents, padded, divisor));
      }
    }
  });
}

}  // namespace

void average_present(std::span<const Axis> axes, Counting counting, const ArrayView& x, const ArrayView& y,
                     const ArrayView* t, const ArrayView* dy) {
  if (y.count() == 0) return;
  count_engine(Engine::average_present);
  const Rows lines = rows_of(axes, counting.include_pad, x, y);
  const Rows along = t == nullptr ? Rows{} : rows_of(axes, counting.include_pad, *t, *dy);
  visit_float(x.dtype, [&]<class T>(T) { complete<T>(lines, counting, x, y, &along, t, dy); });
}

bool average_present_pairs(std::span<const Axis> axes, Counting counting, const ArrayView& x, const ArrayView& y) {
  if (x.dtype != DType::f32 || axes.empty() || y.count() == 0 || (counting.divisor != 0 && counting.divisor != 1))
    return false;
  Index cells = 1;
  for (const Axis& axis : axes) {
    const bool within = !axis.adaptive && axis.before == 0 && axis.after == 0 && axis.dilation == 1;
    if (!within || axis.start(axis.output - 1) + axis.kernel > axis.size) return false;
    cells *= axis.kernel;
  }
  if (axes.back().kernel != 2 || axes.back().stride != 2 || (cells != 2 && cells != 4 && cells != 8)) return false;
  const Rows lines = rows_of(axes, counting.include_pad, x, y);
  const AxisWindows& row = lines.row;
  if (row.in_stride != 4 || row.out_stride != 4) return false;
  count_engine(Engine::average_present);
  const bool sum = counting.divisor == 1, streams = x.count() * 4 >= kStreamBytes;
  const auto pairs = select_present_kernels().pairs[sum ? 1 : 0];
  for_rows(lines.outer, row.outputs * cells, [&](const OuterWindow& window, Index, auto& numbers, auto&) {
    constexpr Index block = 256;
    const float* rows[4];
    std::uint32_t unsure[block];
    for (Index o = 0; o < row.outputs; o += block) {
      const Index n = std::min(block, row.outputs - o);
      float* out = reinterpret_cast<float*>(y.data + window.out_offset) + o;
      for (std::size_t r = 0; r < window.rows.size(); ++r)
        rows[r] = reinterpret_cast<const float*>(x.data + window.rows[r]) + 2 * o;
      const auto count = static_cast<Index>(window.rows.size());
      if (!pairs(rows, count, out, unsure, n, streams)) continue;
      for (Index i = 0; i < n; ++i) {
        if (unsure[i] == 0) continue;
        numbers.clear();
        for (Index r = 0; r < count; ++r)
          for (Index t = 0; t < 2; ++t)
            if (const float cell = rows[r][2 * i + t]; cell == cell) numbers.push_back(static_cast<double>(cell));
        out[i] = mean_of<float>(numbers, false, sum ? 1 : static_cast<Index>(numbers.size()));
      }
    }
    if (streams) select_stream_kernels().finish();
  });
  return true;
}

std::vector<char> numbers_of(const ArrayView& x) {
  std::vector<char> numbers(static_cast<std::size_t>(x.count()));
  const Index row = x.ndim() == 0 ? 1 : x.shape[x.ndim() - 1];
  const Index stride = x.ndim() == 0 ? 0 : x.strides[x.ndim() - 1];
  if (numbers.empty()) return numbers;
  visit_float(x.dtype, [&]<class T>(T) {
    parallel_for(x.count() / row, std::max<Index>(1, (Index{1} << 15) / row), [&](Index begin, Index end) {
      for (Index r = begin; r < end; ++r) {
        const char* source = x.data + offset_of(x, r, x.ndim() - 1);
        char* target = numbers.data() + r * row;
        for (Index i = 0; i < row; ++i) {
          const double value = as_double<T>(source + i * stride);
          target[i] = value == value ? 1 : 0;
        }
      }
    });
  });
  return numbers;
}

std::vector<Index> present_divisors(std::span<const Axis> axes, Counting counting, const ArrayView& x) {
  Sizes shape = x.shape;
  const int leading = x.ndim() - static_cast<int>(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) shape[leading + static_cast<int>(i)] = axes[i].output;
  ArrayView outputs;
  outputs.shape = shape;
  outputs.strides = shape;
  std::vector<Index> divisors(static_cast<std::size_t>(outputs.count()));
  if (divisors.empty()) return divisors;
  const Rows lines = rows_of(axes, counting.include_pad, x, outputs);
  const AxisWindows& row = lines.row;
  visit_float(x.dtype, [&]<class T>(T) {
    for_rows(lines.outer, row.outputs, [&](const OuterWindow& window, Index flat, auto&, auto&) {
      for (Index o = 0; o < row.outputs; ++o) {
        const WindowCount count = count_of(window, row, o);
        Index numbers = 0;
        for (const Index offset : window.rows) {
          const char* source = x.data + offset + row.first_of(o) * row.in_stride;
          for (Index i = 0; i < row.count_of(o); ++i) {
            const double cell = as_double<T>(source + i * row.step * row.in_stride);
            numbers += cell == cell ? 1 : 0;
          }
        }
        divisors[static_cast<std::size_t>(flat * row.outputs + o)] = count.divisor(numbers, counting);
      }
    });
  });
  return divisors;
}

void spread_present(std::span<const Axis> axes, std::span<const Index> divisors, std::span<const char> numbers,
                    const ArrayView& g, const ArrayView& dx) {
  // The windows of every cell: an axis the other way round.
  Rows lines = rows_of(axes, true, g, dx);
  std::vector<Index> window_strides(static_cast<std::size_t>(dx.ndim()), 1);
  for (int i = dx.ndim() - 2; i >= 0; --i)
    window_strides[static_cast<std::size_t>(i)] = window_strides[static_cast<std::size_t>(i) + 1] * g.shape[i + 1];
  std::vector<std::vector<std::vector<Index>>> holders(axes.size());  // axis, cell -> windows
  for (std::size_t a = 0; a < axes.size(); ++a) {
    holders[a].resize(static_cast<std::size_t>(axes[a].size));
    for (Index o = 0; o < axes[a].output; ++o)
      for (Index w = axes[a].first_real(o); w < axes[a].stop_real(o); ++w)
        holders[a][static_cast<std::size_t>(axes[a].start(o) + w * axes[a].dilation)].push_back(o);
  }
  const int leading = dx.ndim() - static_cast<int>(axes.size());
  const Index cells = dx.count();
  visit_float(dx.dtype, [&]<class T>(T) {
    parallel_for(cells, Index{1} << 12, [&](Index begin, Index end) {
      std::vector<Quotient> terms;
      std::vector<std::pair<Index, Index>> found, next;  // (flat window, byte offset in g)
      unsigned calls = 0;
      for (Index cell = begin; cell < end; ++cell) {
        poll_interrupts_seldom(calls);
        char* target = dx.data + offset_of(dx, cell, dx.ndim());
        if (numbers[static_cast<std::size_t>(cell)] == 0) {
          store<T>(target, T{});
          continue;
        }
        found.assign(1, {0, 0});
        Index rest = cell;
        for (int i = dx.ndim() - 1; i >= 0; --i) {
          const Index position = rest % dx.shape[i];
          rest /= dx.shape[i];
          const Index stride = window_strides[static_cast<std::size_t>(i)];
          next.clear();
          if (i < leading) {
            for (const auto& [flat, offset] : found)
              next.push_back({flat + position * stride, offset + position * g.strides[i]});
          } else {
            for (const Index o : holders[static_cast<std::size_t>(i - leading)][static_cast<std::size_t>(position)])
              for (const auto& [flat, offset] : found) next.push_back({flat + o * stride, offset + o * g.strides[i]});
          }
          found.swap(next);
        }
        terms.clear();
        for (const auto& [flat, offset] : found) {
          const Index divisor = divisors[static_cast<std::size_t>(flat)];
          const double value = as_double<T>(g.data + offset);
          terms.push_back({divisor < 0 ? -value : value, divisor < 0 ? -divisor : divisor});
        }
        if (terms.size() == 1 && terms[0].divisor < (Index{1} << 26))
          store<T>(target, round_to<T>(terms[0].value / static_cast<double>(terms[0].divisor)));
        else
          store<T>(target, sum_of_quotients<T>(terms));
      }
    });
  });
}

}  // namespace halfulp
