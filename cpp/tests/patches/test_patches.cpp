// Unfold, fold, cells placed by index, and norms, against loops over every window.
#include "halfulp/patches.hpp"
#include "halfulp/unpool.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/geometry.hpp"
#include "halfulp/norm2.hpp"

using namespace halfulp;

namespace {

template <class T>
ArrayView view_of(std::vector<T>& data, DType dtype) {
  ArrayView view;
  view.data = reinterpret_cast<char*>(data.data());
  view.dtype = dtype;
  view.shape = Sizes{static_cast<Index>(data.size())};
  view.strides = Sizes{static_cast<Index>(sizeof(T))};
  return view;
}

// A plane's rows and columns, strides, dilations and paddings that leave windows in the padding and cells in none.
const PatchAxis kAxes[][2] = {
    {{5, 3, 1, 1, 1, 5}, {7, 2, 2, 1, 0, 3}},
    {{4, 2, 3, 2, 2, 3}, {6, 3, 1, 2, 4, 9}},
    {{1, 1, 1, 1, 0, 1}, {3, 3, 2, 1, 5, 6}},
    {{6, 3, 2, 1, 1, 3}, {21, 3, 2, 1, 1, 11}},
    {{5, 3, 1, 1, 1, 5}, {13, 3, 1, 1, 1, 13}},
    {{4, 2, 2, 1, 0, 2}, {18, 2, 2, 1, 0, 9}},
    {{3, 2, 1, 1, 0, 2}, {90, 3, 2, 1, 1, 45}},
    {{3, 2, 1, 1, 0, 2}, {50, 3, 1, 1, 1, 50}},
    {{40, 40, 1, 1, 0, 1}, {31, 31, 1, 1, 0, 1}},
};

// The cell that offset w of window o is, or -1.
Index cell_of(const PatchAxis& axis, Index o, Index w) {
  const Index cell = o * axis.stride + w * axis.dilation - axis.before;
  return cell >= 0 && cell < axis.size ? cell : -1;
}

void describe_axes(const PatchAxis (&axes)[2]) {
  const auto pair = [&](Index PatchAxis::*member) {
    return tuple_text(std::vector{axes[0].*member, axes[1].*member});
  };
  tests::describe("size", pair(&PatchAxis::size), "kernel", pair(&PatchAxis::kernel), "stride",
                  pair(&PatchAxis::stride), "dilation", pair(&PatchAxis::dilation), "before",
                  pair(&PatchAxis::before));
}

// Calls f(entry, cell or -1) for every entry of the columns of one plane.
template <class F>
void entries(const PatchAxis (&axes)[2], const F& f) {
  Index entry = 0;
  for (Index v = 0; v < axes[0].kernel; ++v)
    for (Index w = 0; w < axes[1].kernel; ++w)
      for (Index o = 0; o < axes[0].outputs; ++o)
        for (Index p = 0; p < axes[1].outputs; ++p, ++entry) {
          const Index row = cell_of(axes[0], o, v), column = cell_of(axes[1], p, w);
          f(entry, row < 0 || column < 0 ? -1 : row * axes[1].size + column);
        }
}

// `spread`: of the terms' exponents. Sums of close ones are exact in double, the others are not.
template <class T>
void test_unfold_and_fold(DType dtype, int spread) {
  for (const auto& axes : kAxes) {
    describe_axes(axes);
    const Index cells = axes[0].size * axes[1].size, planes = 3;
    Index count = 0;
    entries(axes, [&](Index, Index) { ++count; });
    std::vector<T> x(static_cast<std::size_t>(planes * cells)), columns(static_cast<std::size_t>(planes * count));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<T>(std::ldexp(static_cast<double>(i % 7) - 3.5, static_cast<int>(i % 90)));
    unfold(axes, planes, view_of(x, dtype), view_of(columns, dtype));
    for (Index plane = 0; plane < planes; ++plane)
      entries(axes, [&](Index entry, Index cell) {
        const T found = columns[static_cast<std::size_t>(plane * count + entry)];
        CHECK(found == (cell < 0 ? T{0} : x[static_cast<std::size_t>(plane * cells + cell)]));
      });
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i] = static_cast<T>(
          std::ldexp(static_cast<double>(i * 37 % 11) - 5.0, static_cast<int>(i) * 13 % spread - spread / 2));
    columns[1] = std::numeric_limits<T>::infinity();
    std::vector<T> sums(x.size());
    fold(axes, planes, view_of(columns, dtype), view_of(sums, dtype));
    for (Index plane = 0; plane < planes; ++plane) {
      std::vector<typename ExactSums<T>::terms> exact(static_cast<std::size_t>(cells));
      entries(axes, [&](Index entry, Index cell) {
        if (cell >= 0)
          exact[static_cast<std::size_t>(cell)].add(
              static_cast<double>(columns[static_cast<std::size_t>(plane * count + entry)]));
      });
      for (Index cell = 0; cell < cells; ++cell)
        CHECK(sums[static_cast<std::size_t>(plane * cells + cell)] ==
              exact[static_cast<std::size_t>(cell)].template round<T>());
    }
  }
}

void test_norms() {
  for (const auto& axes : kAxes) {
    describe_axes(axes);
    const Index cells = axes[0].size * axes[1].size, planes = 2, windows = axes[0].outputs * axes[1].outputs;
    std::vector<float> x(static_cast<std::size_t>(planes * cells)), out(static_cast<std::size_t>(planes * windows));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2.25f;
    norm2_values(axes, planes, view_of(x, DType::f32), view_of(out, DType::f32));
    std::vector<double> sums(out.size(), 0.0);
    for (Index plane = 0; plane < planes; ++plane)
      entries(axes, [&](Index entry, Index cell) {
        const double value = cell < 0 ? 0.0 : static_cast<double>(x[static_cast<std::size_t>(plane * cells + cell)]);
        sums[static_cast<std::size_t>(plane * windows + entry % windows)] += value * value;  // exact: few bits
      });
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == static_cast<float>(std::sqrt(sums[i])));
  }
}

// Norms and their derivatives against long double: at most half a unit away, and what that may be wrong by.
template <class T>
void check_near(T found, long double expected) {
  const T next = std::nextafter(std::abs(found), std::numeric_limits<T>::infinity());
  const long double half = (static_cast<long double>(next) - std::abs(found)) / 2;
  CHECK(std::abs(found - expected) <= half * (1 + 0x1p-6L));
}

// With T = float the rows of the quick engine, with double those in pairs.
template <class T>
void test_norms_and_derivatives(DType dtype) {
  for (const auto& axes : kAxes) {
    describe_axes(axes);
    const Index cells = axes[0].size * axes[1].size, windows = axes[0].outputs * axes[1].outputs;
    const auto n = static_cast<std::size_t>(cells), m = static_cast<std::size_t>(windows);
    std::vector<T> x(n), t(n), g(m), out(m), value(m), tangent(m), cotangent(n), kept(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<T>(0.1 + static_cast<double>(i * 7 % 5));
      t[i] = static_cast<T>(1.0 / (3.0 + static_cast<double>(i)));
    }
    for (std::size_t i = 0; i < m; ++i) g[i] = static_cast<T>(0.3 + static_cast<double>(i % 3));
    std::vector<double> inverse(norm2_wants_inverse(axes, dtype) ? m : 0);
    const ArrayView over = view_of(inverse, DType::f64);
    CHECK(norm2_keep(axes, 1, view_of(x, dtype), view_of(out, dtype), view_of(kept, dtype), over).empty());
    CHECK(kept == x);
    CHECK(norm2_values(axes, 1, view_of(x, dtype), view_of(value, dtype)).empty() && value == out);
    const auto [undecided, tangents] = norm2_tangents(axes, 1, view_of(x, dtype), view_of(t, dtype),
                                                      view_of(value, dtype), view_of(tangent, dtype));
    CHECK(undecided.empty() && value == out);
    for (const Index i : tangents) CHECK(out[static_cast<std::size_t>(i)] == 0);  // a window without cells
    CHECK(norm2_cotangents(axes, 1, view_of(x, dtype), over, view_of(g, dtype), view_of(cotangent, dtype)).empty());
    std::vector<long double> squares(m, 0), products(m, 0), pulled(n, 0);
    entries(axes, [&](Index entry, Index cell) {
      if (cell < 0) return;
      const auto at = static_cast<std::size_t>(entry % windows), c = static_cast<std::size_t>(cell);
      squares[at] += static_cast<long double>(x[c]) * static_cast<long double>(x[c]);
      products[at] += static_cast<long double>(x[c]) * static_cast<long double>(t[c]);
    });
    entries(axes, [&](Index entry, Index cell) {
      if (cell < 0) return;
      const auto at = static_cast<std::size_t>(entry % windows), c = static_cast<std::size_t>(cell);
      pulled[c] += static_cast<long double>(g[at]) / std::sqrt(squares[at]) * static_cast<long double>(x[c]);
    });
    for (std::size_t i = 0; i < m; ++i) {
      check_near(out[i], std::sqrt(squares[i]));
      check_near(tangent[i], squares[i] > 0 ? products[i] / std::sqrt(squares[i]) : 0.0L);
    }
    for (std::size_t i = 0; i < n; ++i) check_near(cotangent[i], pulled[i]);
  }
}

ArrayView planes_view(auto& items, DType dtype, std::initializer_list<Index> shape) {
  ArrayView view = view_of(items, dtype);
  view.shape = Sizes(std::vector<Index>(shape));
  return view;
}

void test_place_and_pick() {
  std::vector<float> values{1, 2, 3, 4, 5, 6}, out(8), tangents(8), picked(6);
  std::vector<std::int64_t> indices{3, 0, 3, -1, 2, 2};
  const ArrayView v = planes_view(values, DType::f32, {2, 3}), i = planes_view(indices, DType::i64, {2, 3});
  const ArrayView o = planes_view(out, DType::f32, {2, 4}), t = planes_view(tangents, DType::f32, {2, 4});
  Placed placed;
  CHECK(place({1, v, i, o, &v, &t}, &placed) == -1);
  CHECK((out == std::vector<float>{2, 0, 0, 3, 0, 0, 6, 0}));
  CHECK(tangents == out);
  std::vector<float> g{10, 20, 30, 40, 50, 60, 70, 80};
  pick(placed, planes_view(g, DType::f32, {2, 4}), planes_view(picked, DType::f32, {2, 3}));
  CHECK((picked == std::vector<float>{0, 10, 40, 0, 0, 70}));
  for (const std::int64_t wrong : {std::int64_t{4}, std::int64_t{-2}, std::numeric_limits<std::int64_t>::min()}) {
    indices[4] = wrong;
    CHECK(place({1, v, i, o}) == 4);
  }
}

// Windows of two by two cells: the second plane leaves them.
void test_place_in_pairs() {
  for (const Index columns : {1, 3, 7, 8, 16, 21, 40}) {
    tests::describe("columns", columns);
    const Index rows = 2, height = 5, width = 2 * columns + columns % 2, positions = rows * columns;
    const auto count = static_cast<std::size_t>(2 * positions), cells = static_cast<std::size_t>(2 * height * width);
    std::vector<float> values(count), picked(count), out(cells), expected(cells, 0.0F);
    std::vector<std::int64_t> indices(count);
    for (std::size_t k = 0; k < count; ++k) {
      const auto plane = static_cast<Index>(k) / positions, at = static_cast<Index>(k) % positions;
      const auto code = static_cast<Index>(k * 7 % 5 % 4);
      values[k] = static_cast<float>(k + 1);
      indices[k] = (at / columns * 2 + code / 2) * width + at % columns * 2 + code % 2;
      if (plane == 1 && at == positions - 1) indices[k] = height * width - 1;
      expected[static_cast<std::size_t>(plane * height * width + indices[k])] = values[k];
    }
    const ArrayView v = planes_view(values, DType::f32, {2, rows, columns});
    const ArrayView o = planes_view(out, DType::f32, {2, height, width});
    Placed placed;
    CHECK(place({2, v, planes_view(indices, DType::i64, {2, rows, columns}), o}, &placed) == -1);
    CHECK(out == expected);
    CHECK(placed.cells[0].empty() && !placed.cells[1].empty());
    pick(placed, o, planes_view(picked, DType::f32, {2, rows, columns}));
    CHECK(picked == values);
  }
}

}  // namespace

int main() {
  test_unfold_and_fold<double>(DType::f64, 200);
  test_unfold_and_fold<float>(DType::f32, 200);
  test_unfold_and_fold<float>(DType::f32, 8);
  test_norms();
  test_norms_and_derivatives<float>(DType::f32);
  test_norms_and_derivatives<double>(DType::f64);
  test_place_and_pick();
  test_place_in_pairs();
  return tests::failures() == 0 ? 0 : 1;
}
