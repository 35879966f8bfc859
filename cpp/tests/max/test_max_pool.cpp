// Hard max against a plain loop over windows, on arrays that end where their memory ends: the sanitizers see every read
// and write beyond. Every instruction set, several shapes, element types and layouts.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "check.hpp"
#include "halfulp/isa.hpp"
#include "halfulp/max_pool.hpp"
#include "halfulp/parallel.hpp"

using namespace halfulp;

namespace {

// An array with exactly as much memory as it needs, its axes in the given order of memory.
template <class T>
struct Array {
  std::vector<T> items;
  ArrayView view;

  Array(const Sizes& shape, bool channels_last) {
    const int ndim = shape.size();
    Index strides[kMaxRank], step = sizeof(T), count = 1;
    for (int i = ndim - 1; i >= 0; --i) {
      // (n, c, h, w) in the order n, h, w, c
      const int axis = channels_last ? (i == ndim - 1 ? 1 : i == 0 ? 0 : i + 1) : i;
      strides[axis] = step;
      step *= shape[axis];
      count *= shape[axis];
    }
    items.resize(static_cast<std::size_t>(count));
    view.data = reinterpret_cast<char*>(items.data());
    view.dtype = dtype_of<T>;
    view.shape = shape;
    for (int i = 0; i < ndim; ++i) view.strides.push_back(strides[i]);
  }
  T& at(Index n, Index c, Index y, Index x) {
    const Sizes& s = view.strides;
    return *reinterpret_cast<T*>(view.data + n * s[0] + c * s[1] + y * s[2] + x * s[3]);
  }
};

std::mt19937 generator(5);
Index integer(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(generator); }

// Windows of any kind; windows that hardly overlap; windows along lines so long that they are cut into pieces; windows
// of few cells; windows of many cells of a row.
enum class Kind { any, apart, line, small, wide };

// How many cells a window has along an axis.
Index cells_of(Kind kind, int axis) {
  if (kind == Kind::line && axis == 0) return 1;  // a line is a plane of one row
  if (kind == Kind::small) return integer(1, 4);
  if (kind == Kind::wide) return axis == 0 ? integer(1, 3) : integer(9, 70);
  return integer(1, axis == 0 ? 12 : 20);
}

WindowParameters parameters_of(Kind kind) {
  WindowParameters p;
  for (int axis = 0; axis < 2; ++axis) {
    const bool one = kind == Kind::line && axis == 0;
    const Index padding = one ? 0 : kind == Kind::wide && axis == 1 ? 12 : 3;
    p.kernel.push_back(cells_of(kind, axis));
    p.stride.push_back(one ? 1 : kind == Kind::apart ? integer(4, 25) : integer(1, kind == Kind::any ? 4 : 2));
    p.dilation.push_back(one || (kind != Kind::any && kind != Kind::line) ? 1 : integer(1, 2));
    p.before.push_back(integer(0, padding));
    p.after.push_back(integer(0, padding));
  }
  p.ceil_mode = integer(0, 1) == 1;
  return p;
}

// A line's windows have one axis; all that stands before it is leading.
MaxPlan plan_of(WindowParameters p, std::span<const Index> sizes, Kind kind) {
  p.operator_name = "max_pool";
  if (kind == Kind::line) {
    for (auto* values : {&p.kernel, &p.stride, &p.dilation, &p.before, &p.after}) values->erase(values->begin());
    sizes = sizes.subspan(1);
  }
  return {p.operator_name, window_axes(p, sizes), Ties::first, NanPolicy::propagate};
}

template <class T>
void check_case(bool channels_last, Kind kind) {
  const WindowParameters p = parameters_of(kind);
  const bool line = kind == Kind::line, wide = kind == Kind::wide;
  const Index sizes[] = {line ? 1 : p.dilation[0] * p.kernel[0] + integer(0, wide ? 5 : 40),
                         line ? integer(17000, 30000) : p.dilation[1] * p.kernel[1] + integer(0, 60)};
  const MaxPlan plan = plan_of(p, sizes, kind);
  const Index channels = integer(kind == Kind::small ? 16 : 1, line || wide ? 2 : 20);  // enough for vectors of them
  const Sizes in{2, channels, sizes[0], sizes[1]};
  tests::describe("generator", 5, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "kind",
                  static_cast<int>(kind), "channels_last", channels_last, "shape", tuple_text(in.span()), "kernel",
                  tuple_text(p.kernel), "stride", tuple_text(p.stride), "dilation", tuple_text(p.dilation), "before",
                  tuple_text(p.before), "after", tuple_text(p.after), "ceil_mode", p.ceil_mode);
  const Sizes out{2, channels, line ? 1 : plan.axes[0].output, plan.axes.back().output};
  Array<T> x(in, channels_last), y(out, channels_last), dx(in, channels_last), y2(out, channels_last);
  const bool special = integer(0, 3) == 0;
  for (T& item : x.items) item = static_cast<T>(integer(-50, 50));
  if (special && std::is_floating_point_v<T>) x.items[x.items.size() / 2] = static_cast<T>(std::nan(""));
  max_forward(plan, x.view, y.view);
  const Winners winners = max_winners(plan, x.view, y2.view);
  max_pullback(plan, winners, y.view, dx.view);
  Array<std::int64_t> indices(out, channels_last);
  max_indices(plan, x.view, y2.view, indices.view);
  Array<T> t(out, channels_last);
  max_jvp(plan, x.view, x.view, y2.view, t.view);
  // The minimum of the negatives, through cells that are changed on the way in and out.
  MaxPlan smallest = plan;
  smallest.cells = Cells::negated;
  Array<T> negatives(in, channels_last), minima(out, channels_last);
  for (std::size_t i = 0; i < x.items.size(); ++i) negatives.items[i] = -x.items[i];
  max_forward(smallest, negatives.view, minima.view);
  for (std::size_t i = 0; i < y.items.size(); ++i)
    CHECK(minima.items[i] == -y.items[i] || (minima.items[i] != minima.items[i] && y.items[i] != y.items[i]));
  double total = 0, spread = 0;
  for (Index n = 0; n < 2; ++n)
    for (Index c = 0; c < channels; ++c)
      for (Index oy = 0; oy < out[2]; ++oy)
        for (Index ox = 0; ox < out[3]; ++ox) {
          T best{};
          Index where = -1;
          for (Index ky = 0; ky < p.kernel[0]; ++ky)
            for (Index kx = 0; kx < p.kernel[1]; ++kx) {
              const Index iy = oy * p.stride[0] - p.before[0] + ky * p.dilation[0];
              const Index ix = ox * p.stride[1] - p.before[1] + kx * p.dilation[1];
              if (iy < 0 || ix < 0 || iy >= sizes[0] || ix >= sizes[1]) continue;
              const T cell = x.at(n, c, iy, ix);
              if (where >= 0 && !(cell > best || (cell != cell && best == best))) continue;
              best = cell;
              where = iy * sizes[1] + ix;
            }
          const auto same = [](T a, T b) { return a == b || (a != a && b != b); };
          CHECK(same(y.at(n, c, oy, ox), best));
          CHECK(same(t.at(n, c, oy, ox), best));
          CHECK(indices.at(n, c, oy, ox) == where);
          if (!special) total += static_cast<double>(best);
        }
  for (const T item : dx.items) spread += static_cast<double>(item);
  if (!special) CHECK(total == spread);  // small integers: every cotangent arrives once
}

// Small windows of rows around the lengths of vectors, of integers of one and two bytes.
template <class T>
void check_rows(Index width) {
  WindowParameters p;
  for (int axis = 0; axis < 2; ++axis) {
    const Index kernel = integer(2, 3);
    p.kernel.push_back(kernel);
    p.stride.push_back(integer(1, 2));
    p.dilation.push_back(1);
    p.before.push_back(integer(0, kernel - 1));
    p.after.push_back(integer(0, kernel - 1));
  }
  const Index sizes[] = {integer(3, 14), width};
  const MaxPlan plan = plan_of(p, sizes, Kind::small);
  const Sizes in{1, 3, sizes[0], sizes[1]}, out{1, 3, plan.axes[0].output, plan.axes[1].output};
  tests::describe("generator", 5, "rows of", name_of(dtype_of<T>), "isa", name_of(current_isa()), "shape",
                  tuple_text(in.span()), "kernel", tuple_text(p.kernel), "stride", tuple_text(p.stride), "before",
                  tuple_text(p.before), "after", tuple_text(p.after));
  Array<T> x(in, false), y(out, false);
  for (T& item : x.items) item = static_cast<T>(generator());
  max_forward(plan, x.view, y.view);
  for (Index c = 0; c < 3; ++c)
    for (Index oy = 0; oy < out[2]; ++oy)
      for (Index ox = 0; ox < out[3]; ++ox) {
        T best = std::numeric_limits<T>::lowest();
        const Index top = oy * p.stride[0] - p.before[0], left = ox * p.stride[1] - p.before[1];
        for (Index iy = std::max<Index>(top, 0); iy < std::min(top + p.kernel[0], sizes[0]); ++iy)
          for (Index ix = std::max<Index>(left, 0); ix < std::min(left + p.kernel[1], width); ++ix)
            best = std::max(best, x.at(0, c, iy, ix));
        CHECK(y.at(0, c, oy, ox) == best);
      }
}

// Bins that start where a list says, in order, with the last one at the end of the axis.
Axis random_bins(Index size) {
  const Index kernel = integer(1, size);
  std::vector<Index> starts(static_cast<std::size_t>(integer(1, 9)));
  for (Index& start : starts) start = integer(0, size - kernel);
  starts.back() = size - kernel;
  std::sort(starts.begin(), starts.end());
  return bins_axis(size, kernel, std::move(starts));
}

template <class T>
void check_bins(bool channels_last) {
  const Index channels = integer(1, 20);
  const std::vector<Axis> axes{random_bins(integer(1, 40)), random_bins(integer(1, 90))};
  tests::describe("generator", 5, "bins of", name_of(dtype_of<T>), "isa", name_of(current_isa()), "sizes",
                  tuple_text(std::vector<Index>{channels, axes[0].size, axes[1].size}));
  const MaxPlan plan("fractional_max_pool", axes, Ties::first, NanPolicy::propagate);
  const Sizes in{2, channels, axes[0].size, axes[1].size}, out{2, channels, axes[0].output, axes[1].output};
  Array<T> x(in, channels_last), y(out, channels_last), y2(out, channels_last), dx(in, channels_last);
  for (T& item : x.items) item = static_cast<T>(integer(-50, 50));
  Array<std::int64_t> indices(out, channels_last);
  max_forward(plan, x.view, y.view);
  max_indices(plan, x.view, y2.view, indices.view);
  CHECK(y.items == y2.items);
  const Winners winners = max_winners(plan, x.view, y2.view);
  CHECK(y.items == y2.items);
  max_pullback(plan, winners, y.view, dx.view);
  double total = 0, spread = 0;
  for (Index n = 0; n < 2; ++n)
    for (Index c = 0; c < channels; ++c)
      for (Index oy = 0; oy < out[2]; ++oy)
        for (Index ox = 0; ox < out[3]; ++ox) {
          const Index top = (*axes[0].starts)[static_cast<std::size_t>(oy)];
          const Index left = (*axes[1].starts)[static_cast<std::size_t>(ox)];
          Index where = top * in[3] + left;
          for (Index iy = top; iy < top + axes[0].kernel; ++iy)
            for (Index ix = left; ix < left + axes[1].kernel; ++ix)
              if (x.at(n, c, iy, ix) > x.at(n, c, where / in[3], where % in[3])) where = iy * in[3] + ix;
          CHECK(indices.at(n, c, oy, ox) == where);
          CHECK(y.at(n, c, oy, ox) == x.at(n, c, where / in[3], where % in[3]));
          total += static_cast<double>(y.at(n, c, oy, ox));
        }
  for (const T item : dx.items) spread += static_cast<double>(item);
  CHECK(total == spread);
}

}  // namespace

int main() {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const Isa isa : available_isas()) {
      CHECK(set_isa(name_of(isa)));
      for (int i = 0; i < 30; ++i) {
        constexpr Kind kinds[] = {Kind::line, Kind::any,   Kind::small, Kind::apart, Kind::wide,
                                  Kind::any,  Kind::apart, Kind::small, Kind::any,   Kind::apart,
                                  Kind::wide, Kind::any,   Kind::small, Kind::apart, Kind::wide};
        const Kind kind = kinds[i % 15];
        check_case<float>(i % 2 == 0, kind);
        check_case<double>(i % 2 == 0, kind);
        check_bins<float>(i % 2 == 0);
        check_bins<double>(i % 2 == 0);
      }
      for (Index width = 20; width < 150; ++width) {
        check_rows<std::int8_t>(width);
        check_rows<std::uint8_t>(width);
        check_rows<std::int16_t>(width);
        check_rows<std::uint16_t>(width);
      }
    }
  }
  return tests::failures() == 0 ? 0 : 1;
}
