// Norms with p = 2 and their derivatives in every float type, against long double with a bound of its error: what is
// decided must be one of the roundings that the bound allows, which is nearly always one.
#include "halfulp/norm2.hpp"

#include <algorithm>

#include "drawn.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

template <class T>
bool is_rounding(T found, long double value, long double error) {
  const long double margin = sizeof(T) == 8 ? error : error + std::fabs(value) * 0x1p-50L;
  const T low = round_to<T>(static_cast<double>(value - margin));
  const T high = round_to<T>(static_cast<double>(value + margin));
  if (value != 0 && same(low, high)) return same(found, low);
  return widened(low) <= widened(found) && widened(found) <= widened(high);
}

bool holds(const std::vector<Index>& list, Index i) { return std::find(list.begin(), list.end(), i) != list.end(); }

Index decided = 0, left_over = 0;  // of plain numbers

template <class T>
ArrayView view_of(std::vector<T>& items) {
  return {reinterpret_cast<char*>(items.data()), dtype_of<T>, {static_cast<Index>(items.size())},
          {static_cast<Index>(sizeof(T))}};
}

// A number of a window or cell that is being summed up: finite as long as all its parts are.
struct Sum {
  long double value = 0, size = 0;
  void add(long double term) {
    value += term;
    size += std::fabs(term);
  }
};

template <class T>
void check_case(std::uint64_t seed) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + seed % 3);
  std::vector<Axis> axes = drawn_axes(random, ndim, ndim == 1 ? 30 : ndim == 2 ? 5 : 3, false);
  if (random.one_in(6)) axes = global_axes(std::vector<Index>(2, random.between(1, 40)));
  std::vector<PatchAxis> patches;
  for (const Axis& a : axes) patches.push_back({a.size, a.kernel, a.stride, a.dilation, a.before, a.output});
  const auto kind = static_cast<Numbers>(random.below(kNumbers));
  const auto others = kind == Numbers::plain ? kind : static_cast<Numbers>(random.below(kNumbers));
  const Index planes = random.between(1, 4);
  const Index cells = product_of(axes, &Axis::size), outputs = product_of(axes, &Axis::output);
  describe_windows(axes, "seed", seed, "dtype", name_of(dtype_of<T>), "planes", planes, "numbers",
                   static_cast<int>(kind), "tangents", static_cast<int>(others));
  const auto n = static_cast<std::size_t>(planes * cells), m = static_cast<std::size_t>(planes * outputs);
  std::vector<T> x(n), t(n), g(m), y(m), again(m), kept(n), dy(m), dx(n);
  for (T& item : x) item = drawn<T>(random, kind);
  for (T& item : t) item = drawn<T>(random, others);
  for (T& item : g) item = drawn<T>(random, others);
  std::vector<double> inverse(norm2_wants_inverse(patches, dtype_of<T>) ? m : 0);
  const std::vector<Index> open = norm2_values(patches, planes, view_of(x), view_of(y));
  const std::vector<Index> open_again =
      norm2_keep(patches, planes, view_of(x), view_of(again), view_of(kept), view_of(inverse));
  CHECK(std::memcmp(kept.data(), x.data(), n * sizeof(T)) == 0);
  const auto [also_open, open_tangents] = norm2_tangents(patches, planes, view_of(x), view_of(t), view_of(again),
                                                         view_of(dy));
  const std::vector<Index> open_cells =
      norm2_cotangents(patches, planes, view_of(kept), view_of(inverse), view_of(g), view_of(dx));
  std::vector<Sum> pulled(n);
  const long double unit = static_cast<long double>(cells + outputs + 8) * 0x1p-62L;
  for (Index o = 0; o < planes * outputs; ++o) {
    const auto i = static_cast<std::size_t>(o);
    const Window window = window_at(axes, o % outputs);
    const auto cell = [&](Index c) { return static_cast<std::size_t>(o / outputs * cells + c); };
    long double squares = 0;
    Sum products;
    for (const Index c : window.cells) {
      const long double value = widened(x[cell(c)]);
      squares += value * value;
      if (value != 0) products.add(value * widened(t[cell(c)]));
    }
    const long double norm = std::sqrt(squares);
    for (const Index c : window.cells)
      if (widened(x[cell(c)]) != 0) pulled[cell(c)].add(widened(g[i]) / norm * widened(x[cell(c)]));
    if (kind == Numbers::plain) ++(holds(open, o) ? left_over : decided);
    if (std::isfinite(norm)) CHECK(holds(open, o) || is_rounding(y[i], norm, norm * unit));
    else CHECK(holds(open, o) || same(y[i], round_to<T>(static_cast<double>(norm))));
    CHECK(holds(open_again, o) || holds(also_open, o) || same(again[i], y[i]) || holds(open, o));
    if (!std::isfinite(products.size) || !std::isfinite(norm)) continue;  // Python's exact numbers know the rules
    const long double tangent = norm == 0 ? 0 : products.value / norm;
    CHECK(holds(open_tangents, o) || is_rounding(dy[i], tangent, norm == 0 ? 0 : products.size / norm * unit));
    if (kind == Numbers::plain) ++(holds(open_tangents, o) ? left_over : decided);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(pulled[i].size)) continue;
    const bool left = holds(open_cells, static_cast<Index>(i));
    CHECK(left || is_rounding(dx[i], pulled[i].value, pulled[i].size * unit));
    if (kind == Numbers::plain) ++(left ? left_over : decided);
  }
}

}  // namespace

int main() {
  everywhere([] {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      check_case<float>(seed);
      check_case<double>(seed);
      check_case<Float16>(seed);
      check_case<BFloat16>(seed);
    }
  });
  describe("decided", decided, "left over", left_over);
  CHECK(left_over * 50 < decided);
  CHECK(units_of(Engine::norm2) > 0);
  return failures() == 0 ? 0 : 1;
}
