// Hard max, min and largest magnitudes in every element type, under every tie rule and NaN rule, over every kind of
// window and layout, against a plain loop: the bits of values, indices, tangents and cotangents.
#include <algorithm>

#include "drawn.hpp"
#include "exact/quotients.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/error.hpp"
#include "halfulp/max_pool.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

constexpr Ties kTies[] = {Ties::first, Ties::last, Ties::all, Ties::split};
constexpr NanPolicy kNans[] = {NanPolicy::propagate, NanPolicy::ignore, NanPolicy::raise};

// Whether a comes before b in the order of the cells.
template <class T>
bool less(Cells cells, T a, T b) {
  if (cells == Cells::negated) std::swap(a, b);
  if constexpr (is_real<T>) {
    const double x = widened(a), y = widened(b);
    return cells == Cells::magnitude ? std::fabs(x) < std::fabs(y) : x < y;
  } else if constexpr (std::is_same_v<T, Bool>) {
    return a.value < b.value;
  } else {
    return a < b;
  }
}

// The winners among a window's cells.
template <class T>
std::vector<Index> winners_of(const MaxPlan& plan, const std::vector<Index>& cells, const Array<T>& x) {
  std::vector<Index> numbers, nans;
  for (const Index cell : cells) (is_nan(x[cell]) ? nans : numbers).push_back(cell);
  std::vector<Index> won;
  if (!nans.empty() && (plan.nan != NanPolicy::ignore || numbers.empty())) {
    won = nans;
  } else if (!numbers.empty()) {
    Index best = numbers[0];
    for (const Index cell : numbers)
      if (less(plan.cells, x[best], x[cell])) best = cell;
    for (const Index cell : numbers)
      if (!less(plan.cells, x[cell], x[best])) won.push_back(cell);
  }
  if (!won.empty() && plan.ties == Ties::first) won.resize(1);
  if (!won.empty() && plan.ties == Ties::last) won = {won.back()};
  return won;
}

// What a maximum is: the bits of the winner, or its magnitude, or the quiet NaN.
template <class T>
T value_of(Cells cells, T winner) {
  if constexpr (is_real<T>) {
    using F = format_of<T>;
    if (is_nan(winner)) return std::bit_cast<T>(F::quiet_nan);
    auto bits = std::bit_cast<typename F::bits_type>(winner);
    if (cells == Cells::magnitude) bits = static_cast<typename F::bits_type>(bits & ~F::sign);
    return std::bit_cast<T>(bits);
  }
  return winner;
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// NaN of either sign with any payload.
template <class T>
void draw_cells(Random& random, Array<T>& x, Numbers kind) {
  x.draw(random, kind);
  if constexpr (is_real<T>) {
    using Bits = typename format_of<T>::bits_type;
    for (T& item : x.items)
      if (is_nan(item) && random.one_in(2))
        item = std::bit_cast<T>(static_cast<Bits>(format_of<T>::quiet_nan | (random.bits() & ~format_of<T>::infinity)));
  }
}

struct Layouts {
  Layout x, tangent, cotangent, out, dx;
};

template <class T>
void check_derivatives(Random& random, const MaxPlan& plan, const Array<T>& x, const Array<T>& y,
                       const std::vector<std::vector<Index>>& winners, const Layouts& layouts) {
  Array<T> t(x.view.shape, layouts.tangent), dx(x.view.shape, layouts.dx);
  Array<T> g(y.view.shape, layouts.cotangent), dy(y.view.shape, layouts.out), again(y.view.shape, layouts.out);
  const auto kind = static_cast<Numbers>(random.below(kNumbers));
  t.draw(random, kind);
  g.draw(random, kind);
  max_jvp(plan, x.view, t.view, again.view, dy.view);
  const auto equal = [&] { return std::memcmp(again.items.data(), y.items.data(), y.items.size() * sizeof(T)) == 0; };
  CHECK(y.items.empty() || equal());
  const Winners kept = max_winners(plan, x.view, again.view);
  CHECK(y.items.empty() || equal());
  max_pullback(plan, kept, g.view, dx.view);
  std::vector<std::vector<Quotient>> terms(static_cast<std::size_t>(x.count()));
  for (std::size_t o = 0; o < winners.size(); ++o) {
    Terms<T> sum;
    const auto count = static_cast<Index>(winners[o].size());
    for (const Index cell : winners[o]) {
      sum.add(widened(t[cell]));
      terms[static_cast<std::size_t>(cell)].push_back(
          {widened(g[static_cast<Index>(o)]), plan.ties == Ties::split ? count : 1});
    }
    const T expected = count == 0 ? T{} : sum.template round_quotient<T>(plan.ties == Ties::split ? count : 1);
    CHECK(same(dy[static_cast<Index>(o)], expected));
  }
  for (Index i = 0; i < x.count(); ++i)
    CHECK(same(dx[i], sum_of_quotients<T>(terms[static_cast<std::size_t>(i)])));
}

template <class T>
void check_raise(const MaxPlan& plan, Array<T>& x, const Array<T>& y) {
  if (std::none_of(x.items.begin(), x.items.end(), is_nan<T>)) return;
  bool any = false, raised = false;
  for (Index i = 0; i < x.count(); ++i) any = any || is_nan(x[i]);
  try {
    max_forward(plan, x.view, y.view);
  } catch (const Error& error) {
    raised = error.label == "P3";
  }
  CHECK(raised == any);
  for (T& item : x.items)
    if (is_nan(item)) item = T{};
}

template <class T>
void check_case(std::uint64_t seed, Ties ties, NanPolicy nan) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + random.below(4));
  const std::vector<Axis> axes = drawn_axes(random, ndim, ndim == 1 ? 20 : ndim == 2 ? 5 : 3, true);
  const auto cells = static_cast<Cells>(random.below(is_real<T> ? 3 : 2));
  const auto kind = static_cast<Numbers>(random.below(kNumbers));
  const auto any = [&](int n) { return static_cast<Layout>(random.below(n)); };
  Layouts layouts{any(kLayouts), any(kLayouts), any(kLayouts), any(2), any(2)};
  const bool interleaved = random.one_in(4);  // vectors of planes
  if (interleaved) layouts.x = layouts.out = Layout::channels_last;
  const Sizes leading{interleaved ? 1 : 2, interleaved ? random.between(16, 20) : 3};
  describe_windows(axes, "seed", seed, "dtype", name_of(dtype_of<T>), "ties", static_cast<int>(ties), "nan",
                   static_cast<int>(nan), "cells", static_cast<int>(cells), "numbers", static_cast<int>(kind), "x",
                   static_cast<int>(layouts.x), "tangent", static_cast<int>(layouts.tangent), "cotangent",
                   static_cast<int>(layouts.cotangent), "out", static_cast<int>(layouts.out), "dx",
                   static_cast<int>(layouts.dx), "leading", tuple_text(leading.span()));
  const MaxPlan plan("test", axes, ties, nan, cells);
  Array<T> x(shape_of(leading, axes, &Axis::size), layouts.x);
  Array<T> y(shape_of(leading, axes, &Axis::output), layouts.out);
  draw_cells(random, x, kind);
  if (nan == NanPolicy::raise) check_raise(plan, x, y);
  max_forward(plan, x.view, y.view);
  const Index plane = product_of(axes, &Axis::size), outputs = product_of(axes, &Axis::output);
  std::vector<std::vector<Index>> winners;
  for (Index o = 0; o < y.count(); ++o) {
    std::vector<Index> own = window_at(axes, o % outputs).cells;
    for (Index& cell : own) cell += o / outputs * plane;
    winners.push_back(winners_of(plan, own, x));
    CHECK(same_bits(y[o], winners.back().empty() ? T{} : value_of(cells, x[winners.back().front()])));
  }
  if (ties == Ties::first || ties == Ties::last) {
    Array<T> again(y.view.shape, layouts.out);
    Array<std::int64_t> indices(y.view.shape, layouts.out);
    max_indices(plan, x.view, again.view, indices.view);
    for (Index o = 0; o < y.count(); ++o) {
      const std::vector<Index>& own = winners[static_cast<std::size_t>(o)];
      CHECK(indices[o] == (own.empty() ? -1 : own[0] % plane));
      CHECK(same_bits(again[o], y[o]));
    }
  }
  if constexpr (is_real<T>) check_derivatives(random, plan, x, y, winners, layouts);
}

}  // namespace

int main() {
  std::uint64_t seed = 1;
  everywhere([&] {
    for (const Ties ties : kTies)
      for (const NanPolicy nan : kNans)
        for (int dtype = 0; dtype < kDTypeCount; ++dtype)
          for (int i = 0; i < 2; ++i)
            visit(static_cast<DType>(dtype), [&](auto tag) { check_case<decltype(tag)>(seed++, ties, nan); });
  });
  for (const Engine engine : {Engine::max_bins, Engine::max_channels_last, Engine::max_separable, Engine::max_walk,
                              Engine::max_pullback_gather, Engine::max_pullback_scatter}) {
    describe("engine", name_of(engine));
    CHECK(units_of(engine) > 0);
  }
  return failures() == 0 ? 0 : 1;
}
