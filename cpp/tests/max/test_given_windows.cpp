// Fractional max of single planes, and the largest magnitudes of windows (Lp with p = infinity) with their derivatives,
// against a plain loop and the exact accumulator.
#include "halfulp/given_windows.hpp"

#include <algorithm>

#include "drawn.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

template <class T>
const char* bytes_of(const std::vector<T>& items) {
  return reinterpret_cast<const char*>(items.data());
}
template <class T>
char* bytes_of(std::vector<T>& items) {
  return reinterpret_cast<char*>(items.data());
}

template <class T>
std::vector<T> drawn_items(Random& random, Index count, Numbers kind) {
  std::vector<T> items(static_cast<std::size_t>(count));
  for (T& item : items) item = drawn<T>(random, kind);
  return items;
}

std::vector<Index> drawn_starts(Random& random, Index size, Index kernel) {
  std::vector<Index> starts(static_cast<std::size_t>(random.between(1, 20)));
  for (Index& start : starts) start = random.between(0, size - kernel);
  starts.back() = size - kernel;
  std::sort(starts.begin(), starts.end());
  return starts;
}

// Sums of -0 and of what is not finite may be refused, and those whose addends range far.
bool refusal_is_allowed(Numbers kind) { return kind != Numbers::plain; }

template <class T>
void check_fractional(std::uint64_t seed) {
  Random random(seed);
  GivenWindows w{};
  std::vector<Index> starts[2];
  for (int a = 0; a < 2; ++a) {
    w.kernel[a] = random.between(1, a == 0 ? 5 : 9);
    w.size[a] = w.kernel[a] + random.below(a == 0 ? 9 : 60);
    starts[a] = drawn_starts(random, w.size[a], w.kernel[a]);
    w.outputs[a] = static_cast<Index>(starts[a].size());
    w.starts[a] = starts[a].data();
  }
  w.last = random.one_in(2);
  const auto kind = static_cast<Numbers>(random.below(kNumbers)), tangents = static_cast<Numbers>(random.below(3));
  describe("fractional, seed", seed, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "last", w.last,
           "numbers", static_cast<int>(kind), "tangents", static_cast<int>(tangents), "size",
           tuple_text(w.size), "kernel", tuple_text(w.kernel), "rows", tuple_text(starts[0]), "columns",
           tuple_text(starts[1]));
  const Index cells = w.size[0] * w.size[1], outputs = w.outputs[0] * w.outputs[1];
  const auto x = drawn_items<T>(random, cells, kind), t = drawn_items<T>(random, cells, tangents);
  const auto g = drawn_items<T>(random, outputs, tangents);
  std::vector<T> y(g.size()), again(g.size()), dy(g.size()), dx(x.size());
  std::vector<std::uint8_t> winners(g.size());
  GivenScratch scratch;
  CHECK(given_windows_apply(w, dtype_of<T>));
  const bool done = given_maxima(w, dtype_of<T>, bytes_of(x), nullptr, bytes_of(y), nullptr, nullptr, scratch);
  bool any_nan = false;  // in a row that a window has
  std::vector<Terms<T>> sums(x.size());
  for (Index o = 0; o < outputs; ++o) {
    const Index top = starts[0][static_cast<std::size_t>(o / w.outputs[1])];
    const Index left = starts[1][static_cast<std::size_t>(o % w.outputs[1])];
    Index best = 0;
    const auto cell = [&](Index k) { return (top + k / w.kernel[1]) * w.size[1] + left + k % w.kernel[1]; };
    const auto value = [&](Index k) { return x[static_cast<std::size_t>(cell(k))]; };
    for (Index k = 0; k < w.kernel[0] * w.kernel[1]; ++k)
      if (value(k) > value(best) || (w.last && value(k) == value(best))) best = k;
    for (Index i = top * w.size[1]; i < (top + w.kernel[0]) * w.size[1]; ++i)
      any_nan = any_nan || is_nan(x[static_cast<std::size_t>(i)]);
    const auto i = static_cast<std::size_t>(o), winner = static_cast<std::size_t>(cell(best));
    sums[winner].add(widened(g[i]));
    if (!done || any_nan) continue;
    if (o == 0) {  // the same with tangents and with winners
      CHECK(given_maxima(w, dtype_of<T>, bytes_of(x), bytes_of(t), bytes_of(again), bytes_of(dy), nullptr, scratch));
      CHECK(std::memcmp(again.data(), y.data(), y.size() * sizeof(T)) == 0);
      CHECK(given_maxima(w, dtype_of<T>, bytes_of(x), nullptr, bytes_of(again), nullptr, winners.data(), scratch));
      CHECK(std::memcmp(again.data(), y.data(), y.size() * sizeof(T)) == 0);
    }
    CHECK(same(y[i], x[winner]));
    CHECK(same(dy[i], t[winner]));
    CHECK(winners[i] == best);
  }
  CHECK(done == !any_nan);
  if (!done) return;
  const bool pulled = given_pullback(w, dtype_of<T>, winners.data(), bytes_of(g), bytes_of(dx), scratch);
  CHECK(pulled || refusal_is_allowed(tangents) || dtype_of<T> == DType::f64);
  for (std::size_t i = 0; i < dx.size() && pulled; ++i) CHECK(same(dx[i], sums[i].template round<T>()));
}

template <class T>
ArrayView view_of(std::vector<T>& items) {
  return {bytes_of(items), dtype_of<T>, {static_cast<Index>(items.size())}, {static_cast<Index>(sizeof(T))}};
}

template <class T>
void check_magnitudes(std::uint64_t seed) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + seed % 2);
  const bool whole = random.one_in(4);
  const Index planes = random.between(1, 6);
  std::vector<Axis> axes = drawn_axes(random, ndim, ndim == 1 ? 12 : 5, false);
  if (whole) axes = global_axes(std::vector<Index>(1, random.between(1, 300)));
  std::vector<PatchAxis> patches;
  for (const Axis& a : axes) patches.push_back({a.size, a.kernel, a.stride, a.dilation, a.before, a.output});
  const auto kind = static_cast<Numbers>(random.below(kNumbers)), others = static_cast<Numbers>(random.below(kNumbers));
  describe_windows(axes, "magnitudes, seed", seed, "dtype", name_of(dtype_of<T>), "planes", planes, "numbers",
                   static_cast<int>(kind), "tangents", static_cast<int>(others));
  if (!magnitudes_apply(patches, dtype_of<T>)) return;
  const Index cells = product_of(axes, &Axis::size), outputs = product_of(axes, &Axis::output);
  auto x = drawn_items<T>(random, planes * cells, kind), t = drawn_items<T>(random, planes * cells, others);
  auto g = drawn_items<T>(random, planes * outputs, others);
  std::vector<T> y(g.size()), again(g.size()), dy(g.size()), dx(x.size());
  std::vector<std::uint8_t> bytes(g.size());
  std::vector<std::int64_t> positions(g.size());
  const ArrayView winners = winner_type(patches) == DType::i64 ? view_of(positions) : view_of(bytes);
  const std::vector<Index> left = magnitude_tangents(patches, planes, view_of(x), view_of(t), view_of(y), view_of(dy));
  CHECK(magnitude_winners(patches, planes, view_of(x), view_of(again), winners) == left);
  magnitude_pullback(patches, planes, winners, view_of(g), view_of(dx));
  for (Index plane = 0; plane < planes; ++plane) {
    bool single = true;  // no NaN, and no two cells of a window with its largest magnitude
    std::vector<Terms<T>> sums(static_cast<std::size_t>(cells));
    const bool skipped = std::binary_search(left.begin(), left.end(), plane);
    for (Index o = 0; o < outputs; ++o) {
      const auto i = static_cast<std::size_t>(plane * outputs + o);
      double best = 0, weight = 0, tangent = 0;
      Index where = -1, count = 0;
      for (const Index cell : window_at(axes, o).cells) {
        const double value = widened(x[static_cast<std::size_t>(plane * cells + cell)]), size = std::fabs(value);
        if (std::isnan(value)) single = false;
        count = size > best ? 1 : count + (size == best && size > 0 ? 1 : 0);
        if (!(size > best)) continue;
        best = size, where = cell, weight = value < 0 ? -1 : 1;
        tangent = weight * widened(t[static_cast<std::size_t>(plane * cells + cell)]);
      }
      single = single && count <= 1;
      if (skipped) continue;
      CHECK(same(y[i], round_to<T>(best)) && same(again[i], y[i]));
      CHECK(same(dy[i], round_to<T>(where < 0 ? 0.0 : tangent)));
      if (where >= 0) sums[static_cast<std::size_t>(where)].add(weight * widened(g[i]));
    }
    CHECK(skipped || single);
    CHECK(!skipped || kind != Numbers::plain);
    for (std::size_t i = 0; i < sums.size() && !skipped; ++i)
      CHECK(same(dx[static_cast<std::size_t>(plane * cells) + i], sums[i].template round<T>()));
  }
}

template <class T>
void check_type() {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) check_fractional<T>(seed);
  for (std::uint64_t seed = 1; seed <= 60; ++seed) check_magnitudes<T>(seed);
}

}  // namespace

int main() {
  everywhere([] {
    check_type<float>();
    check_type<double>();
  });
  CHECK(units_of(Engine::max_given) > 0);
  return failures() == 0 ? 0 : 1;
}
