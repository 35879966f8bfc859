// Shared exponentials against every window by itself in long double: what the block decides is right, and it decides
// nearly everything.
#include "smooth/block.hpp"

#include <cmath>
#include <cstdlib>
#include <random>

#include "check.hpp"

namespace {

using namespace halfulp;

constexpr unsigned kSeed = 11;
std::mt19937_64 generator(kSeed);
Index integer(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(generator); }
double normal() { return std::normal_distribution<double>()(generator); }

template <class T>
ArrayView view_of(std::vector<T>& data, const std::vector<Index>& shape) {
  ArrayView view{reinterpret_cast<char*>(data.data()), DTypeOf<T>::value, {}, {}};
  Index stride = static_cast<Index>(data.size() * sizeof(T));
  for (const Index size : shape) {
    stride /= size;
    view.shape.push_back(size);
    view.strides.push_back(stride);
  }
  return view;
}

SmoothPlan random_plan(int ndim, double beta) {
  WindowParameters p;
  p.operator_name = "test";
  p.ceil_mode = integer(0, 1) == 1;
  std::vector<Index> sizes;
  for (int a = 0; a < ndim; ++a) {
    p.kernel.push_back(integer(1, 4));
    p.stride.push_back(integer(1, 3));
    p.dilation.push_back(integer(1, 2));
    p.before.push_back(integer(0, 2));
    p.after.push_back(integer(0, 2));
    sizes.push_back(p.dilation.back() * (p.kernel.back() - 1) + 1 + integer(3, 20));
  }
  return smooth_plan(window_axes(p, sizes), {std::fabs(beta), 0.0, beta < 0.0});
}

// The exact results in long double, which is as good as exact at the outputs that these seeds give.
struct Reference {
  std::vector<long double> value, tangent, cotangent;
};
template <class T>
Reference reference(const SmoothPlan& plan, const std::vector<T>& x, const std::vector<T>& t, const std::vector<T>& g) {
  Reference out;
  out.cotangent.assign(x.size(), 0.0L);
  const long double beta = plan.beta.negative ? -plan.beta.high : plan.beta.high;
  for (Index o = 0; o < output_count(plan); ++o) {
    WindowCells window;
    window.find(plan, o);
    long double top = window.padded > 0 ? 0.0L : -INFINITY;
    for (const Index i : window.cells) top = std::max(top, beta * x[static_cast<std::size_t>(i)]);
    long double total = static_cast<long double>(window.padded) * std::exp(-top), sum = 0.0L;
    for (const Index i : window.cells) {
      const long double e = std::exp(beta * x[static_cast<std::size_t>(i)] - top);
      total += e;
      sum += e * t[static_cast<std::size_t>(i)];
    }
    out.value.push_back((top + std::log(total)) / beta);
    out.tangent.push_back(sum / total);
    for (const Index i : window.cells)
      out.cotangent[static_cast<std::size_t>(i)] +=
          std::exp(beta * x[static_cast<std::size_t>(i)] - top) / total * g[static_cast<std::size_t>(o)];
  }
  return out;
}

// Equal for float32; for float64, which the reference is hardly wider than, within a few roundings.
bool near(float found, long double expected) { return found == static_cast<float>(expected); }
bool near(double found, long double expected) {
  return std::fabs(static_cast<long double>(found) - expected) <= std::fabs(expected) * 0x1p-50L + 0x1p-52L;
}

bool several_cells(const SmoothPlan& plan, Index output) {
  WindowCells window;
  window.find(plan, output);
  return !window.cells.empty() && static_cast<Index>(window.cells.size()) + window.padded > 1;
}

template <class T>
void check_plane(const SmoothPlan& plan) {
  std::vector<Index> cells, outputs;
  for (const Axis& axis : plan.axes) {
    cells.push_back(axis.size);
    outputs.push_back(axis.output);
  }
  const auto n = static_cast<std::size_t>(cell_count(plan)), m = static_cast<std::size_t>(output_count(plan));
  std::vector<T> x(n), t(n), g(m), y(m), dy(m), dx(n, T{7});
  for (T& v : x) v = static_cast<T>(normal());
  for (T& v : t) v = static_cast<T>(normal());
  for (T& v : g) v = static_cast<T>(normal());
  const ArrayView input = view_of(x, cells), along = view_of(t, cells), value = view_of(y, outputs);
  const ArrayView derivative = view_of(dy, outputs), cotangent = view_of(g, outputs), result = view_of(dx, cells);
  const Reference expected = reference(plan, x, t, g);
  SmoothBlock<T> block(plan);
  std::vector<Index> undecided, tangents_undecided;
  const Index rows = plan.axes.front().output, middle = rows / 2;
  for (const SmoothBand& band : {SmoothBand{0, 0, middle}, SmoothBand{0, middle, rows}}) {
    if (band.begin == band.end) continue;
    CHECK(block.forward(band, input, value, undecided));
    CHECK(block.tangent(along, derivative, tangents_undecided));
  }
  // Windows without a real cell or with but one are zero or that cell; all others are hardly ever close to a boundary.
  // Shared exponentials of float64 have 70 bits: of derivatives, whose terms cancel, a few in a hundred are left.
  const auto left = [&](const std::vector<Index>& list) {
    return std::count_if(list.begin(), list.end(), [&](Index o) { return several_cells(plan, o); });
  };
  const auto few = [](std::size_t all) { return 1 + (sizeof(T) == 8 ? static_cast<Index>(all) / 32 : 0); };
  CHECK(left(undecided) <= 1);
  CHECK(left(tangents_undecided) <= few(m));
  const auto missing = [](const std::vector<Index>& list, std::size_t i) {
    return std::find(list.begin(), list.end(), static_cast<Index>(i)) != list.end();
  };
  for (std::size_t i = 0; i < m; ++i) {
    CHECK(missing(undecided, i) || near(y[i], expected.value[i]));
    CHECK(missing(tangents_undecided, i) || near(dy[i], expected.tangent[i]));
  }
  std::vector<Index> cells_undecided;
  CHECK(block.vjp(0, input, cotangent, result, cells_undecided));
  CHECK(static_cast<Index>(cells_undecided.size()) <= few(n));
  for (std::size_t i = 0; i < n; ++i) CHECK(missing(cells_undecided, i) || near(dx[i], expected.cotangent[i]));
}

// What shared exponentials cannot tell is left undecided, and nothing else.
void check_special_cells() {
  using List = std::vector<Index>;
  const SmoothPlan plan = smooth_plan(window_axes({"test", {2}, {1}, {1}, {0}, {0}, PaddingMode::given, false},
                                                  std::vector<Index>{6}),
                                      {1.0, 0.0, false});
  std::vector<float> x(6), t(6), g(5), y(5), dx(6);
  const ArrayView input = view_of(x, {6}), value = view_of(y, {5}), along = view_of(t, {6});
  const ArrayView cotangent = view_of(g, {5}), result = view_of(dx, {6});
  SmoothBlock<float> block(plan);
  const auto values = [&] {
    List undecided;
    return block.forward({0, 0, 5}, input, value, undecided) ? undecided : List{-1};
  };
  const auto tangents = [&] {
    List undecided;
    return block.tangent(along, value, undecided) ? undecided : List{-1};
  };
  const auto cells = [&] {
    List undecided;
    const bool known = block.vjp(0, input, cotangent, result, undecided);
    std::sort(undecided.begin(), undecided.end());
    return known ? undecided : List{-1};
  };
  x = {0.0F, 1.0F, 2.0F, 3.0F, -INFINITY, -INFINITY};
  t.assign(6, 0.3F);
  g.assign(5, 0.3F);
  CHECK(values() == List{4} && y[3] == 3.0F);  // a window without any weight; one with a single cell that has some
  CHECK(tangents() == List{4});
  CHECK(cells() == (List{4, 5}));
  x = {0.0F, 1.0F, -400.0F, -400.0F, 2.0F, 3.0F};
  CHECK(values() == List{2} && y[1] == 1.0F);
  CHECK(tangents() == List{2});
  CHECK(cells() == (List{2, 3}));
  x = {0.0F, 1.0F, NAN, 0.5F, 2.0F, INFINITY};
  CHECK(values() == (List{1, 2, 4}));
  CHECK(tangents() == (List{1, 2, 4}));
  CHECK(cells() == (List{1, 2, 3, 4, 5}));
  x.assign(6, -INFINITY);
  CHECK(values() == List{-1} && cells() == List{-1});
  x = {0.0F, 1.0F, 0.5F, 0.25F, 2.0F, 3.0F};
  t = {INFINITY, 1.1F, 1.2F, NAN, 1.3F, 1.4F};
  CHECK(values().empty() && tangents() == (List{0, 2, 3}));
  t.assign(6, 0.0F);
  CHECK(tangents() == List{-1});
  g = {0.0F, 0.0F, -0.0F, 1.1F, INFINITY};
  CHECK(cells() == (List{0, 1, 2, 4, 5}));  // zeros of both signs, which the sums do not tell
  g[2] = 0.0F;
  CHECK(cells() == (List{4, 5}) && dx[0] == 0.0F && !std::signbit(dx[2]));
}

}  // namespace

int main() {
  for (int i = 0; i < 30; ++i) {
    const double beta = (i % 3 == 0 ? -1.0 : 1.0) * (0.25 + 0.5 * (i % 7));
    tests::describe("generator", kSeed, "round", i, "beta", beta);
    check_plane<float>(random_plan(1 + i % 3, beta));
    check_plane<double>(random_plan(1 + i % 3, beta));
  }
  tests::describe("special cells", "no random numbers");
  check_special_cells();
  return halfulp::tests::failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
