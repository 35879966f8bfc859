#include "halfulp/order_pool.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "average/axis_windows.hpp"
#include "exact/quotients.hpp"
#include "exact/round.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"
#include "order/order_kernels.hpp"

namespace halfulp {
namespace {

constexpr Index kColumns = 64;  // cells of a window that a network sorts

int width_of(Index item) { return item == 1 ? 0 : item == 2 ? 1 : item == 4 ? 2 : 3; }

std::uint64_t key_at(const void* keys, Index item, Index i) {
  const char* at = static_cast<const char*>(keys) + i * item;
  switch (item) {
    case 1: return static_cast<std::uint8_t>(*at);
    case 2: { std::uint16_t key; std::memcpy(&key, at, 2); return key; }
    case 4: { std::uint32_t key; std::memcpy(&key, at, 4); return key; }
    default: { std::uint64_t key; std::memcpy(&key, at, 8); return key; }
  }
}

// One window: its cells in row-major order as keys, and which of them give the value.
struct OneWindow {
  std::vector<std::uint64_t> keys;
  std::vector<Index> offsets;  // of the cells in the input, in bytes
  std::vector<Index> order;
  Index first = -1, second = -1;  // positions among the cells

  void gather(const OuterWindow& window, const AxisWindows& row, Index o, const ArrayView& in) {
    const Index item = static_cast<Index>(item_size(in.dtype));
    const auto to_keys = select_order_kernels().keys[static_cast<int>(in.dtype)];
    keys.clear();
    offsets.clear();
    for (const Index offset : window.rows)
      for (Index t = 0; t < row.count_of(o); ++t) {
        const Index at = offset + (row.first_of(o) + t * row.step) * row.in_stride;
        std::uint64_t bytes = 0;
        to_keys(in.data + at, item, &bytes, 1, true);
        offsets.push_back(at);
        keys.push_back(key_at(&bytes, item, 0));
      }
  }

  void choose(OrderKind kind, bool ignore_nan, DType dtype) {
    first = second = -1;
    const auto count = static_cast<Index>(keys.size());
    if (count == 0) return;
    const std::uint64_t nan = ~std::uint64_t{0} >> (64 - 8 * item_size(dtype));
    order.clear();
    Index found = -1;
    for (Index i = 0; i < count; ++i) {
      if (is_float(dtype) && keys[static_cast<std::size_t>(i)] == nan) found = found < 0 ? i : found;
      else order.push_back(i);
    }
    if (found >= 0 && (!ignore_nan || order.empty())) {
      first = second = found;
      return;
    }
    const auto key = [&](Index i) { return keys[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]; };
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
    });
    const auto numbers = static_cast<Index>(order.size());
    if (kind == OrderKind::median) {
      first = order[static_cast<std::size_t>((numbers - 1) / 2)];
      second = order[static_cast<std::size_t>(numbers / 2)];
      return;
    }
    Index best = 0, most = 0;
    for (Index i = 0; i < numbers;) {
      Index end = i + 1;
      while (end < numbers && key(end) == key(i)) ++end;
      if (end - i > most) most = end - i, best = i;
      i = end;
    }
    first = second = order[static_cast<std::size_t>(best)];
  }
};

template <class T>
double as_double(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, double>) return value;
  else return static_cast<double>(to_float(value));
}

// (a + b) / 2, rounded once.
template <class T>
T mean_of_two(double a, double b) {
  const double sum = a + b;
  const bool overflows = sum - sum != 0 && a - a == 0 && b - b == 0;
  return round_to<T>(overflows ? a * 0.5 + b * 0.5 : sum * 0.5);
}

void store_mean(DType dtype, const char* a, const char* b, char* out) {
  const auto item = static_cast<Index>(item_size(dtype));
  if (a == b) {
    std::memcpy(out, a, static_cast<std::size_t>(item));
  } else if (is_float(dtype)) {
    visit_float(dtype, [&]<class T>(T) {
      const T mean = mean_of_two<T>(as_double<T>(a), as_double<T>(b));
      std::memcpy(out, &mean, sizeof mean);
    });
  } else {
    std::uint64_t keys[2] = {0, 0};
    const OrderKernels& kernels = select_order_kernels();
    kernels.keys[static_cast<int>(dtype)](a, item, &keys[0], 1, false);
    kernels.keys[static_cast<int>(dtype)](b, item, &keys[1], 1, false);
    kernels.middle[static_cast<int>(dtype)](&keys[0], &keys[1], out, 1);
  }
}

class Worker {
 public:
  Worker(const Rows& lines, OrderKind kind, bool ignore_nan, const ArrayView& in, const ArrayView& out)
      : lines_(lines), kind_(kind), ignore_nan_(ignore_nan), in_(in), out_(out),
        item_(static_cast<Index>(item_size(in.dtype))) {}

  void run(Index flat) {
    const AxisWindows& row = lines_.row;
    outer_window(lines_.outer, flat, window_);
    const auto rows = static_cast<Index>(window_.rows.size());
    for (Index o = 0; o < row.outputs;) {
      const Index taps = row.count_of(o), cells = rows * taps;
      Index end = o + 1;
      const Index stride = end < row.outputs ? row.first_of(end) - row.first_of(o) : 1;
      while (end < row.outputs && end - o < kOrderBlock && row.count_of(end) == taps &&
             row.first_of(end) == row.first_of(o) + (end - o) * stride)
        ++end;
      if (cells == 0 || cells > kColumns || end - o < 4) {
        for (Index i = o; i < end; ++i) one(i);
      } else {
        block(o, end, stride, taps, cells);
      }
      o = end;
    }
  }

 private:
  char* target(Index o) const { return out_.data + window_.out_offset + o * lines_.row.out_stride; }

  void one(Index o) {
    tally_.add(Engine::order_window);
    one_.gather(window_, lines_.row, o, in_);
    one_.choose(kind_, ignore_nan_, in_.dtype);
    if (one_.first < 0) {
      std::memset(target(o), 0, static_cast<std::size_t>(item_));
      return;
    }
    const auto at = [&](Index i) { return in_.data + one_.offsets[static_cast<std::size_t>(i)]; };
    store_mean(in_.dtype, at(one_.first), at(one_.second), target(o));
  }

  // Windows of the same shape at equal distances: all are sorted at once. Those whose value is a zero of either sign or
  // has to do with NaN, and means of half-precision numbers, are done one by one.
  void block(Index begin, Index end, Index stride, Index taps, Index cells) {
    tally_.add(Engine::order_block);
    const AxisWindows& row = lines_.row;
    const OrderKernels& kernels = select_order_kernels();
    const int type = static_cast<int>(in_.dtype);
    const Index n = end - begin, column = kOrderBlock * item_;
    columns_.resize(static_cast<std::size_t>(column * kColumns));
    Index c = 0;
    for (const Index offset : window_.rows)
      for (Index t = 0; t < taps; ++t, ++c) {
        char* keys = columns_.data() + c * column;
        kernels.keys[type](in_.data + offset + (row.first_of(begin) + t * row.step) * row.in_stride,
                           stride * row.in_stride, keys, n, true);
        if (n < kOrderBlock) std::memset(keys + n * item_, 0, static_cast<std::size_t>((kOrderBlock - n) * item_));
      }
    const int width = width_of(item_);
    kernels.sort[width](columns_.data(), cells);
    const char* low = columns_.data() + (cells - 1) / 2 * column;
    const char* high = columns_.data() + cells / 2 * column;
    alignas(64) char chosen[kOrderBlock * 8];
    if (kind_ == OrderKind::mode) {
      kernels.mode[width](columns_.data(), cells, chosen);
      low = high = chosen;
    }
    alignas(64) char values[kOrderBlock * 8];
    kernels.middle[type](low, high, values, n);
    if (row.out_stride == item_) std::memcpy(target(begin), values, static_cast<std::size_t>(n * item_));
    else
      for (Index i = 0; i < n; ++i)
        std::memcpy(target(begin + i), values + i * item_, static_cast<std::size_t>(item_));
    if (is_float(in_.dtype)) revise(begin, n, low, high, values, columns_.data() + (cells - 1) * column);
  }

  void revise(Index begin, Index n, const char* low, const char* high, const char* values, const char* largest) {
    const std::uint64_t nan = ~std::uint64_t{0} >> (64 - 8 * item_);
    const bool half = item_ == 2;
    for (Index i = 0; i < n; ++i) {
      const std::uint64_t magnitude = key_at(values, item_, i) & (nan >> 1);
      const bool differ = half && key_at(low, item_, i) != key_at(high, item_, i);
      if (magnitude == 0 || differ || key_at(largest, item_, i) == nan) one(begin + i);
    }
  }

  const Rows& lines_;
  OrderKind kind_;
  bool ignore_nan_;
  const ArrayView &in_, &out_;
  Index item_;
  OuterWindow window_;
  OneWindow one_;
  std::vector<char> columns_;
  EngineTally tally_;
};

template <class F>
void for_outer(const Rows& lines, F make) {
  Index outer = 1, cells = std::max<Index>(1, lines.row.outputs * lines.row.most());
  for (const AxisWindows& line : lines.outer) outer *= line.outputs;
  parallel_for(outer, std::max<Index>(1, (Index{1} << 13) / cells), [&](Index begin, Index end) {
    auto work = make();
    for (Index i = begin; i < end; ++i) {
      poll_interrupts();
      work(i);
    }
  });
}

}  // namespace

void order_pool(std::span<const Axis> axes, OrderKind kind, bool ignore_nan, const ArrayView& in,
                const ArrayView& out) {
  if (out.count() == 0) return;
  const Rows lines = rows_of(axes, false, in, out);
  for_outer(lines, [&] {
    return [worker = Worker(lines, kind, ignore_nan, in, out)](Index i) mutable { worker.run(i); };
  });
}

std::vector<Index> order_picks(std::span<const Axis> axes, OrderKind kind, bool ignore_nan, const ArrayView& in) {
  // Offsets in elements of the row-major array that has the shape of `in`.
  ArrayView outputs, flat = in;
  outputs.shape = in.shape;
  const int leading = in.ndim() - static_cast<int>(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) outputs.shape[leading + static_cast<int>(i)] = axes[i].output;
  outputs.strides = outputs.shape;
  std::vector<Index> picks(static_cast<std::size_t>(2 * outputs.count()));
  if (picks.empty()) return picks;
  Index stride = 1;
  for (int i = in.ndim() - 1; i >= 0; --i) {
    flat.strides[i] = stride;
    stride *= in.shape[i];
  }
  const Rows lines = rows_of(axes, false, in, outputs), elements = rows_of(axes, false, flat, outputs);
  for_outer(lines, [&] {
    return [&, one = OneWindow{}, window = OuterWindow{}, numbers = OuterWindow{}](Index i) mutable {
      const AxisWindows& row = lines.row;
      outer_window(lines.outer, i, window);
      outer_window(elements.outer, i, numbers);
      for (Index o = 0; o < row.outputs; ++o) {
        one.gather(window, row, o, in);
        one.choose(kind, ignore_nan, in.dtype);
        const auto index = [&](Index cell) {
          if (cell < 0) return Index{-1};
          const Index taps = row.count_of(o);
          return numbers.rows[static_cast<std::size_t>(cell / taps)] + row.first_of(o) + (cell % taps) * row.step;
        };
        const auto at = static_cast<std::size_t>(2 * (i * row.outputs + o));
        picks[at] = index(one.first);
        picks[at + 1] = index(one.second);
      }
    };
  });
  return picks;
}

void order_push(std::span<const Index> picks, const ArrayView& t, const ArrayView& dy) {
  const auto item = item_size(t.dtype);
  parallel_for(dy.count(), Index{1} << 12, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      char* out = dy.data + offset_of(dy, i, dy.ndim());
      const Index a = picks[static_cast<std::size_t>(2 * i)], b = picks[static_cast<std::size_t>(2 * i + 1)];
      if (a < 0) std::memset(out, 0, item);
      else store_mean(t.dtype, t.data + offset_of(t, a, t.ndim()), t.data + offset_of(t, b, t.ndim()), out);
    }
  });
}

void order_pull(std::span<const Index> picks, const ArrayView& g, const ArrayView& dx) {
  struct Term {
    Index cell, output, divisor;
  };
  std::vector<Term> terms;
  for (Index i = 0; i < g.count(); ++i) {
    const Index a = picks[static_cast<std::size_t>(2 * i)], b = picks[static_cast<std::size_t>(2 * i + 1)];
    if (a < 0) continue;
    terms.push_back({a, i, a == b ? 1 : 2});
    if (a != b) terms.push_back({b, i, 2});
  }
  std::sort(terms.begin(), terms.end(), [](const Term& p, const Term& q) { return p.cell < q.cell; });
  visit_float(dx.dtype, [&]<class T>(T) {
    const Index cells = dx.count();
    std::size_t at = 0;
    std::vector<Quotient> parts;
    unsigned calls = 0;
    for (Index cell = 0; cell < cells; ++cell) {
      poll_interrupts_seldom(calls);
      T value{};
      parts.clear();
      for (; at < terms.size() && terms[at].cell == cell; ++at)
        parts.push_back({as_double<T>(g.data + offset_of(g, terms[at].output, g.ndim())), terms[at].divisor});
      if (parts.size() == 1) value = round_to<T>(parts[0].value / static_cast<double>(parts[0].divisor));
      else if (!parts.empty()) value = sum_of_quotients<T>(parts);
      std::memcpy(dx.data + offset_of(dx, cell, dx.ndim()), &value, sizeof value);
    }
  });
}

}  // namespace halfulp
