// Averages and sums over every kind of window and layout, their transposes, and the same of magnitudes with the signs
// of the cells (Lp with p = 1): against the exact accumulator, bit by bit.
#include "halfulp/avg_pool.hpp"

#include "drawn.hpp"
#include "exact/quotients.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

// The cells of all windows of all planes, as numbers in the whole array.
struct Problem {
  std::vector<Axis> axes;
  Sizes cells, outputs;
  std::vector<Window> windows;
  bool include;
  Index divisor;

  Problem(Random& random, int ndim, Index most, bool others) : axes(drawn_axes(random, ndim, most, others)) {
    const Sizes leading{2, 3};
    cells = shape_of(leading, axes, &Axis::size);
    outputs = shape_of(leading, axes, &Axis::output);
    include = !axes.front().adaptive && random.one_in(2);
    divisor = random.one_in(3) ? (random.one_in(2) ? -1 : 1) * random.between(1, 12) : 0;
    const Index plane = product_of(axes, &Axis::size), all = product_of(axes, &Axis::output);
    for (Index o = 0; o < 6 * all; ++o) {
      windows.push_back(window_at(axes, o % all));
      for (Index& cell : windows.back().cells) cell += o / all * plane;
    }
  }

  Index real(const Window& window) const { return static_cast<Index>(window.cells.size()); }
  Index counted(const Window& window) const { return include ? window.counted : real(window); }
  // The mean of numbers of a window's cells.
  template <class T, class F>
  T mean(const Window& window, const F& number) const {
    Terms<T> sum;
    for (const Index cell : window.cells) sum.add(number(cell));
    const Index n = counted(window);
    if (n > real(window)) sum.add(0.0);
    return n == 0 ? T{} : sum.template round_quotient<T>(divisor != 0 ? divisor : n);
  }
  // For every cell the sum of its windows' shares, each times the sign of the cell.
  template <class T, class F>
  std::vector<T> pulled(const Array<T>& g, const F& sign) const {
    std::vector<std::vector<Quotient>> terms(static_cast<std::size_t>(2 * 3 * product_of(axes, &Axis::size)));
    for (std::size_t o = 0; o < windows.size(); ++o) {
      const Index n = divisor != 0 ? divisor : counted(windows[o]);
      const double share = widened(g[static_cast<Index>(o)]) * (n < 0 ? -1 : 1);
      for (const Index cell : windows[o].cells)
        terms[static_cast<std::size_t>(cell)].push_back({sign(cell, share), n < 0 ? -n : n});
    }
    std::vector<T> sums;
    for (const auto& own : terms) sums.push_back(sum_of_quotients<T>(own));
    return sums;
  }
};

template <class T, class... Parts>
void describe_problem(const Problem& p, const Parts&... parts) {
  describe_windows(p.axes, parts..., "dtype", name_of(dtype_of<T>), "include", p.include, "divisor", p.divisor);
}

template <class T>
void check_averages(std::uint64_t seed) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + seed % 4);
  const Problem p(random, ndim, ndim == 1 ? 30 : ndim == 2 ? 5 : 3, true);
  const auto numbers = static_cast<Numbers>(random.below(kNumbers));
  const auto layout = static_cast<Layout>(random.below(kLayouts)), to = static_cast<Layout>(random.below(2));
  describe_problem<T>(p, "averages, seed", seed, "numbers", static_cast<int>(numbers), "layout",
                      static_cast<int>(layout), "to", static_cast<int>(to));
  Array<T> x(p.cells, layout), y(p.outputs, to), g(p.outputs, layout), dx(p.cells, to);
  x.draw(random, numbers);
  g.draw(random, numbers);
  const AveragePlan plan = average_of(p.axes, p.include, p.divisor);
  sum_windows(plan.forward, x.view, y.view);
  for (std::size_t o = 0; o < p.windows.size(); ++o)
    CHECK(same(y[static_cast<Index>(o)], p.mean<T>(p.windows[o], [&](Index cell) { return widened(x[cell]); })));
  if (!plan.transpose) return;
  sum_windows(*plan.transpose, g.view, dx.view);
  const std::vector<T> expected = p.pulled(g, [](Index, double share) { return share; });
  for (Index i = 0; i < dx.count(); ++i) CHECK(same(dx[i], expected[static_cast<std::size_t>(i)]));
}

// A number times the sign of a cell: +0 where the cell is 0, NaN where it is NaN.
double times_sign(double number, double cell) {
  return cell > 0 ? number : cell < 0 ? -number : cell == 0 ? 0.0 : cell;
}

template <class T>
void check_magnitudes(std::uint64_t seed) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + seed % 3);
  Problem p(random, ndim, ndim == 1 ? 20 : ndim == 2 ? 5 : 3, false);
  p.divisor = 1;
  const auto numbers = static_cast<Numbers>(random.below(kNumbers));
  describe_problem<T>(p, "magnitudes, seed", seed, "numbers", static_cast<int>(numbers));
  Array<T> x(p.cells), t(p.cells), dx(p.cells), y(p.outputs), again(p.outputs), dy(p.outputs), g(p.outputs);
  x.draw(random, numbers);
  t.draw(random, random.one_in(2) ? numbers : Numbers::ranging);
  g.draw(random, random.one_in(2) ? numbers : Numbers::ranging);
  const AveragePlan plan = average_of(p.axes, p.include, p.divisor);
  std::vector<std::uint8_t> signs(sign_bytes(x.count()));
  sum_magnitudes(plan.forward, x.view, y.view, signs.data());
  sum_magnitudes_jvp(plan.forward, x.view, t.view, again.view, dy.view);
  sum_signed(plan.transpose.value(), signs.data(), g.view, dx.view);
  for (std::size_t i = 0; i < p.windows.size(); ++i) {
    const auto o = static_cast<Index>(i);
    CHECK(same(y[o], p.mean<T>(p.windows[i], [&](Index cell) { return std::fabs(widened(x[cell])); })));
    CHECK(same(again[o], y[o]));
    CHECK(same(dy[o], p.mean<T>(p.windows[i], [&](Index c) { return times_sign(widened(t[c]), widened(x[c])); })));
  }
  const std::vector<T> expected =
      p.pulled(g, [&](Index cell, double share) { return times_sign(share, widened(x[cell])); });
  for (Index i = 0; i < dx.count(); ++i) CHECK(same(dx[i], expected[static_cast<std::size_t>(i)]));
}

template <class T>
void check_type() {
  for (std::uint64_t seed = 1; seed <= 28; ++seed) check_averages<T>(seed);
  for (std::uint64_t seed = 1; seed <= 48; ++seed) check_magnitudes<T>(seed);
}

}  // namespace

int main() {
  everywhere([] {
    check_type<float>();
    check_type<double>();
    check_type<Float16>();
    check_type<BFloat16>();
  });
  CHECK(units_of(Engine::average_planes) > 0 && units_of(Engine::average_fast) > 0);
  CHECK(units_of(Engine::average_careful) > 0);
  return failures() == 0 ? 0 : 1;
}
