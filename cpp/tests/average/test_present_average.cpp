// Averages over the cells that are numbers, with tangents and cotangents, against the exact accumulator.
#include "halfulp/present_average.hpp"

#include "drawn.hpp"
#include "exact/quotients.hpp"
#include "halfulp/avg_pool.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

template <class T>
T not_a_number() {
  return round_to<T>(std::numeric_limits<double>::quiet_NaN());
}

// A window's numbers, and what their sum is divided by; 0 if nothing is counted.
struct Counted {
  std::vector<Index> numbers;
  bool padded;
  Index divisor;
};

template <class T>
struct Problem {
  std::vector<Axis> axes;
  Counting counting;
  Array<T> x;
  Sizes outputs;
  std::vector<Counted> windows;

  Problem(std::vector<Axis> own, Counting how, Layout layout, Numbers kind, Random& random)
      : axes(std::move(own)), counting(how), x(shape_of({2, 3}, axes, &Axis::size), layout),
        outputs(shape_of({2, 3}, axes, &Axis::output)) {
    x.draw(random, kind);
    const Index plane = product_of(axes, &Axis::size), all = product_of(axes, &Axis::output);
    for (Index o = 0; o < 6 * all; ++o) {
      const Window window = window_at(axes, o % all);
      Counted own_window{{}, false, 0};
      for (const Index cell : window.cells)
        if (!is_nan(x[cell + o / all * plane])) own_window.numbers.push_back(cell + o / all * plane);
      const Index padding = counting.include_pad ? window.counted - static_cast<Index>(window.cells.size()) : 0;
      own_window.padded = padding > 0;
      own_window.divisor = static_cast<Index>(own_window.numbers.size()) + padding;
      if (own_window.divisor != 0 && counting.divisor != 0) own_window.divisor = counting.divisor;
      if (window.cells.empty() && padding == 0) own_window.divisor = -1;  // no cells at all: 0
      windows.push_back(std::move(own_window));
    }
  }

  T mean(const Counted& window, const Array<T>& array, T otherwise) const {
    if (window.divisor == 0) return otherwise;
    Terms<T> sum;
    for (const Index cell : window.numbers) sum.add(widened(array[cell]));
    if (window.padded) sum.add(0.0);
    if (window.numbers.empty() && !window.padded) return T{};
    return sum.template round_quotient<T>(window.divisor);
  }
};

template <class T>
void check_derivatives(Random& random, const Problem<T>& p, Layout layout, Numbers kind) {
  Array<T> t(p.x.view.shape, layout), dx(p.x.view.shape, layout);
  Array<T> y(p.outputs, layout), dy(p.outputs, layout), g(p.outputs, layout);
  t.draw(random, kind);
  g.draw(random, kind);
  const AveragePlan plan = average_of(p.axes, p.counting.include_pad, p.counting.divisor);
  sum_windows(plan.forward, p.x.view, y.view);
  sum_windows(plan.forward, t.view, dy.view);
  average_present(p.axes, p.counting, p.x.view, y.view, &t.view, &dy.view);
  const std::vector<Index> divisors = present_divisors(p.axes, p.counting, p.x.view);
  const std::vector<char> numbers = numbers_of(p.x.view);
  spread_present(p.axes, divisors, numbers, g.view, dx.view);
  std::vector<std::vector<Quotient>> terms(static_cast<std::size_t>(p.x.count()));
  for (std::size_t i = 0; i < p.windows.size(); ++i) {
    const Counted& window = p.windows[i];
    const auto o = static_cast<Index>(i);
    CHECK(same(y[o], p.mean(window, p.x, not_a_number<T>())));
    CHECK(same(dy[o], p.mean(window, t, T{})));
    const double share = widened(g[o]) * (window.divisor < 0 ? -1 : 1);
    for (const Index cell : window.numbers)
      terms[static_cast<std::size_t>(cell)].push_back({share, std::abs(window.divisor)});
  }
  for (Index i = 0; i < p.x.count(); ++i) {
    CHECK((numbers[static_cast<std::size_t>(i)] != 0) == !is_nan(p.x[i]));
    CHECK(same(dx[i], sum_of_quotients<T>(terms[static_cast<std::size_t>(i)])));
  }
}

template <class T>
void check_case(std::uint64_t seed) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + seed % 3);
  const bool pairs = random.one_in(3);  // windows that are done in one pass
  std::vector<Axis> axes;
  if (pairs) {
    std::vector<Index> sizes, twos(static_cast<std::size_t>(ndim), 2), ones(twos.size(), 1), zeros(twos.size(), 0);
    for (int a = 0; a < ndim; ++a) sizes.push_back(random.between(2, a + 1 == ndim ? 1200 : 5));
    axes = window_axes({"test", twos, twos, ones, zeros, zeros, PaddingMode::given, false}, sizes);
  } else {
    axes = drawn_axes(random, ndim, ndim == 1 ? 12 : ndim == 2 ? 5 : 3, true);
  }
  const bool include = !axes.front().adaptive && random.one_in(2);
  const Index divisor = random.one_in(2) ? 0 : random.one_in(2) ? 1 : random.between(-9, -1);
  const Numbers kind = seed % 2 == 0 ? Numbers::with_nan : static_cast<Numbers>(random.below(kNumbers));
  const Layout layout = pairs ? Layout::dense : static_cast<Layout>(random.below(kLayouts));
  describe_windows(axes, "seed", seed, "dtype", name_of(dtype_of<T>), "include", include, "divisor", divisor, "pairs",
                   pairs, "numbers", static_cast<int>(kind), "layout", static_cast<int>(layout));
  const Problem<T> p(axes, {include, divisor}, layout, kind, random);
  const auto to = static_cast<Layout>(random.below(2));
  if (!pairs) check_derivatives(random, p, to, kind);
  Array<T> y(p.outputs, pairs ? Layout::dense : to);
  const bool done = average_present_pairs(axes, p.counting, p.x.view, y.view);
  CHECK(!done || dtype_of<T> == DType::f32);
  CHECK(done || !pairs || dtype_of<T> != DType::f32 || divisor < 0);
  if (!done) return;
  for (std::size_t o = 0; o < p.windows.size(); ++o)
    CHECK(same(y[static_cast<Index>(o)], p.mean(p.windows[o], p.x, not_a_number<T>())));
}

}  // namespace

int main() {
  everywhere([] {
    for (std::uint64_t seed = 1; seed <= 27; ++seed) {
      check_case<float>(seed);
      check_case<double>(seed);
      check_case<Float16>(seed);
      check_case<BFloat16>(seed);
    }
  });
  CHECK(units_of(Engine::average_present) > 0);
  return failures() == 0 ? 0 : 1;
}
