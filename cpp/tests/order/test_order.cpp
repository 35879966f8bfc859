// Medians and modes in every element type against a sorted list of every window's cells: values, and for floats the
// cells that give them, tangents and cotangents.
#include "halfulp/order_pool.hpp"

#include <algorithm>

#include "drawn.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

// Two cells whose mean is the value; -1 without a cell.
struct Pair {
  Index first = -1, second = -1;
};

template <class T>
bool less(T a, T b) {
  if constexpr (is_real<T> || std::is_same_v<T, Bool>) return widened(a) < widened(b);
  else return a < b;
}

template <class T>
Pair chosen(const std::vector<Index>& cells, OrderKind kind, bool ignore_nan, const Array<T>& x) {
  std::vector<Index> numbers;
  Index nan = -1;
  for (const Index cell : cells) {
    if (!is_nan(x[cell])) numbers.push_back(cell);
    else if (nan < 0) nan = cell;
  }
  if (nan >= 0 && (!ignore_nan || numbers.empty())) return {nan, nan};
  if (numbers.empty()) return {};
  std::stable_sort(numbers.begin(), numbers.end(), [&](Index a, Index b) { return less(x[a], x[b]); });
  if (kind == OrderKind::median) return {numbers[(numbers.size() - 1) / 2], numbers[numbers.size() / 2]};
  std::size_t most = 0;
  Index best = -1;
  for (std::size_t i = 0, end = 0; i < numbers.size(); i = end) {
    while (end < numbers.size() && !less(x[numbers[i]], x[numbers[end]])) ++end;
    if (end - i > most) most = end - i, best = numbers[i];
  }
  return {best, best};
}

// (a + b) / 2 to nearest even.
template <class T>
T mean(T a, T b) {
  if constexpr (is_real<T>) {
    Terms<T> sum;
    sum.add(widened(a));
    sum.add(widened(b));
    return sum.template round_quotient<T>(2);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<std::uint8_t>(a.value & b.value)};
  } else {
    const T floor = static_cast<T>((a & b) + static_cast<T>((a ^ b) >> 1));  // without overflow
    return static_cast<T>(floor + ((a ^ b) & floor & 1));
  }
}

template <class T>
void check_derivatives(Random& random, std::span<const Axis> axes, OrderKind kind, bool ignore_nan, const Array<T>& x,
                       const std::vector<Pair>& expected, Layout layout) {
  const Index outputs = static_cast<Index>(expected.size());
  const Sizes leading{2, 3}, out = shape_of(leading, axes, &Axis::output);
  const std::vector<Index> picks = order_picks(axes, kind, ignore_nan, x.view);
  CHECK(static_cast<Index>(picks.size()) == 2 * outputs);
  Array<T> t(x.view.shape, layout), dx(x.view.shape, layout), dy(out, layout), g(out, layout);
  const auto numbers = static_cast<Numbers>(random.below(kNumbers));
  t.draw(random, numbers);
  g.draw(random, numbers);
  order_push(picks, t.view, dy.view);
  order_pull(picks, g.view, dx.view);
  std::vector<Terms<T>> sums(static_cast<std::size_t>(x.count()));
  for (Index o = 0; o < outputs; ++o) {
    const auto [first, second] = expected[static_cast<std::size_t>(o)];
    CHECK(picks[static_cast<std::size_t>(2 * o)] == first && picks[static_cast<std::size_t>(2 * o + 1)] == second);
    CHECK(same(dy[o], first < 0 ? T{} : first == second ? t[first] : mean(t[first], t[second])));
    if (first < 0) continue;
    const double value = widened(g[o]);
    sums[static_cast<std::size_t>(first)].add(value, first == second ? 2 : 1);
    if (first != second) sums[static_cast<std::size_t>(second)].add(value, 1);
  }
  for (Index i = 0; i < x.count(); ++i)
    CHECK(same(dx[i], sums[static_cast<std::size_t>(i)].template round_quotient<T>(2)));
}

template <class T>
void check_case(std::uint64_t seed) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + seed % 3);
  const std::vector<Axis> axes = drawn_axes(random, ndim, ndim == 1 ? 12 : ndim == 2 ? 4 : 3, true);
  const OrderKind kind = random.one_in(2) ? OrderKind::median : OrderKind::mode;
  const bool ignore_nan = random.one_in(2);
  const auto numbers = static_cast<Numbers>(random.below(kNumbers));
  const auto layout = static_cast<Layout>(random.below(kLayouts)), to = static_cast<Layout>(random.below(kLayouts));
  const Sizes leading{2, 3};
  Array<T> x(shape_of(leading, axes, &Axis::size), layout), y(shape_of(leading, axes, &Axis::output), to);
  x.draw(random, numbers);
  describe_windows(axes, "seed", seed, "dtype", name_of(dtype_of<T>), "mode", kind == OrderKind::mode, "ignore_nan",
                   ignore_nan, "numbers", static_cast<int>(numbers), "layout", static_cast<int>(layout), "to",
                   static_cast<int>(to));
  order_pool(axes, kind, ignore_nan, x.view, y.view);
  const Index cells = product_of(axes, &Axis::size), outputs = product_of(axes, &Axis::output);
  std::vector<Pair> expected;
  for (Index o = 0; o < y.count(); ++o) {
    std::vector<Index> own = window_at(axes, o % outputs).cells;
    for (Index& cell : own) cell += o / outputs * cells;
    expected.push_back(chosen(own, kind, ignore_nan, x));
    const auto [first, second] = expected.back();
    CHECK(same(y[o], first < 0 ? T{} : first == second ? x[first] : mean(x[first], x[second])));
  }
  if constexpr (is_real<T>) check_derivatives(random, axes, kind, ignore_nan, x, expected, to);
}

}  // namespace

int main() {
  everywhere([] {
    for (std::uint64_t seed = 1; seed <= 12; ++seed)
      for (int dtype = 0; dtype < kDTypeCount; ++dtype)
        visit(static_cast<DType>(dtype), [&](auto tag) {
          check_case<decltype(tag)>(seed * 100 + static_cast<std::uint64_t>(dtype));
        });
  });
  CHECK(units_of(Engine::order_block) > 0 && units_of(Engine::order_window) > 0);
  return failures() == 0 ? 0 : 1;
}
