// Averages and their transposes, against the exact accumulator window by window.
#include "halfulp/window_sums.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/isa.hpp"
#include "halfulp/parallel.hpp"

namespace {

using namespace halfulp;

std::mt19937_64 generator(7);
Index integer(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(generator); }

template <class T>
T number(int kind) {
  std::normal_distribution<double> normal;
  const double x = normal(generator);
  switch (kind) {
    case 0: return round_to<T>(x);
    case 1: return round_to<T>(std::ldexp(x, static_cast<int>(integer(-140, 120))));
    case 2: return round_to<T>(integer(0, 9) == 0 ? -0.0 : static_cast<double>(integer(-3, 3)));
    case 3: return round_to<T>(integer(0, 20) == 0 ? INFINITY : x);
    default:
      return round_to<T>(integer(0, 40) == 0 ? std::ldexp(x, -40) : x);  // sums with errors, roundings without doubt
  }
}

template <class T>
double widened(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(to_float(x));
}

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(widened(a)) && std::isnan(widened(b)));
}

std::vector<Axis> random_axes(Sizes& spatial, int ndim) {
  WindowParameters p;
  p.operator_name = "test";
  p.ceil_mode = integer(0, 1) == 1;
  for (int a = 0; a < ndim; ++a) {
    p.kernel.push_back(integer(0, 5) == 0 ? integer(10, 90) : integer(1, 9));
    const bool apart = integer(0, 3) == 0;  // windows that share nothing
    p.stride.push_back(apart ? p.kernel.back() : integer(1, 3));
    p.dilation.push_back(integer(1, 2));
    p.before.push_back(integer(0, 4));
    p.after.push_back(integer(0, 4));
    spatial.push_back(p.dilation.back() * (p.kernel.back() - 1) + 1 + integer(0, 20) + (apart ? p.stride.back() : 0));
  }
  return window_axes(p, spatial.span());
}

// Brute force: visits the real cells of every window of a two-dimensional plane.
template <class T>
void check_plane(const std::vector<Axis>& axes, bool include, Index divisor, const T* in, const T* out) {
  const Axis &rows = axes[0], &columns = axes[1];
  for (Index r = 0; r < rows.output; ++r) {
    for (Index c = 0; c < columns.output; ++c) {
      typename ExactSums<T>::terms sum;
      Index real = 0;
      for (Index i = rows.first_real(r); i < rows.stop_real(r); ++i)
        for (Index j = columns.first_real(c); j < columns.stop_real(c); ++j, ++real)
          sum.add(widened(
              in[(rows.start(r) + i * rows.dilation) * columns.size + columns.start(c) + j * columns.dilation]));
      const Index counted = rows.counted(r) * columns.counted(c);
      if (include && counted > real) sum.add(0.0);
      const Index n = include ? counted : real;
      const T expected = n == 0 ? round_to<T>(0.0) : sum.template round_quotient<T>(divisor != 0 ? divisor : n);
      CHECK(same(out[r * columns.output + c], expected));
    }
  }
}

template <class T>
ArrayView view(std::vector<T>& data, Index planes, Index rows, Index columns) {
  const auto item = static_cast<Index>(sizeof(T));
  return {reinterpret_cast<char*>(data.data()),
          dtype_of<T>,
          {planes, rows, columns},
          {rows * columns * item, columns * item, item}};
}

// Every instruction set in turn.
void choose_isa(int round) {
  const auto isas = available_isas();
  CHECK(set_isa(name_of(isas[static_cast<std::size_t>(round) % isas.size()])));
}

template <class T>
void averages_match_the_accumulator() {
  for (int round = 0; round < 60; ++round) {
    choose_isa(round);
    Sizes spatial;
    const std::vector<Axis> axes = random_axes(spatial, 2);
    const bool include = integer(0, 1) == 1;
    const Index divisor = integer(0, 2) == 0 ? integer(1, 40) - 60 * integer(0, 1) : 0;
    const Index planes = 3, rows = axes[0].output, columns = axes[1].output;
    tests::describe("generator", 7, "round", round, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()),
                    "sizes", tuple_text(spatial.span()), "kernel",
                    tuple_text(std::vector{axes[0].kernel, axes[1].kernel}), "stride",
                    tuple_text(std::vector{axes[0].stride, axes[1].stride}), "before",
                    tuple_text(std::vector{axes[0].before, axes[1].before}), "include", include, "divisor", divisor);
    std::vector<T> x(static_cast<std::size_t>(planes * spatial[0] * spatial[1]));
    std::vector<T> y(static_cast<std::size_t>(planes * rows * columns));
    for (T& value : x) value = number<T>(round % 5);
    set_num_threads(round / 3 % 3 + 1);
    sum_windows(average_plan(axes, include, divisor), view(x, planes, spatial[0], spatial[1]),
                view(y, planes, rows, columns));
    for (Index p = 0; p < planes; ++p)
      check_plane(axes, include, divisor, x.data() + p * spatial[0] * spatial[1], y.data() + p * rows * columns);
  }
}

// Windows of two or three one apart: lines share sums of rows.
template <class T>
void lines_in_step_match_the_accumulator() {
  for (int round = 0; round < 90; ++round) {
    choose_isa(round);
    const Index planes = 2, height = integer(3, 12), width = integer(3, 40), side = integer(2, 3);
    WindowParameters p;
    p.operator_name = "test";
    Sizes spatial;
    for (const Index size : {height, width}) {
      p.kernel.push_back(side);
      p.stride.push_back(1);
      p.dilation.push_back(1);
      p.before.push_back(integer(0, 1));
      p.after.push_back(integer(0, 1));
      spatial.push_back(size);
    }
    const std::vector<Axis> axes = window_axes(p, spatial.span());
    const bool include = integer(0, 1) == 1;
    const Index rows = axes[0].output, columns = axes[1].output;
    tests::describe("generator", 7, "in step, round", round, "dtype", name_of(dtype_of<T>), "isa",
                    name_of(current_isa()), "height", height, "width", width, "side", side, "include", include);
    std::vector<T> x(static_cast<std::size_t>(planes * height * width));
    std::vector<T> y(static_cast<std::size_t>(planes * rows * columns));
    for (T& value : x) value = number<T>(round / 3 % 5);
    // One cell of another magnitude anywhere: the row that holds it must have been looked at.
    x[static_cast<std::size_t>(integer(0, planes * height * width - 1))] = round_to<T>(0x1.000002p-60);
    sum_windows(average_plan(axes, include, 0), view(x, planes, height, width), view(y, planes, rows, columns));
    for (Index k = 0; k < planes; ++k)
      check_plane(axes, include, 0, x.data() + k * height * width, y.data() + k * rows * columns);
  }
}

template <class T>
void whole_planes_match_the_accumulator() {
  for (int round = 0; round < 40; ++round) {
    choose_isa(round);
    const Index planes = round < 30 ? 300 : 20, longest = round < 30 ? 12 : 60;
    const Index height = integer(1, longest), width = integer(1, longest);
    const std::vector<Axis> axes = global_axes(std::vector<Index>{height, width});
    tests::describe("generator", 7, "whole planes, round", round, "dtype", name_of(dtype_of<T>), "isa",
                    name_of(current_isa()), "height", height, "width", width);
    std::vector<T> x(static_cast<std::size_t>(planes * height * width)), y(static_cast<std::size_t>(planes));
    for (T& value : x) value = number<T>(round % 5);
    sum_windows(average_plan(axes, false, 0), view(x, planes, height, width), view(y, planes, 1, 1));
    for (Index p = 0; p < planes; ++p) check_plane(axes, false, 0, x.data() + p * height * width, y.data() + p);
  }
}

// <A x, g> = <x, A^T g> in exact arithmetic, tested where both sides are exact: small integers and power-of-two
// divisors.
void transposes_are_adjoint() {
  for (int round = 0; round < 100; ++round) {
    choose_isa(round);
    Sizes spatial;
    const std::vector<Axis> axes = random_axes(spatial, 2);
    tests::describe("generator", 7, "transposes, round", round, "sizes", tuple_text(spatial.span()));
    std::vector<double> x(static_cast<std::size_t>(spatial[0] * spatial[1]));
    std::vector<double> g(static_cast<std::size_t>(axes[0].output * axes[1].output));
    std::vector<double> y(g.size()), dx(x.size());
    for (double& value : x) value = static_cast<double>(integer(-9, 9));
    for (double& value : g) value = static_cast<double>(integer(-9, 9));
    const Index divisor = round % 2 == 0 ? 4 : -8;
    sum_windows(average_plan(axes, true, divisor), view(x, 1, spatial[0], spatial[1]),
                view(y, 1, axes[0].output, axes[1].output));
    sum_windows(*average_transpose_plan(axes, true, divisor), view(g, 1, axes[0].output, axes[1].output),
                view(dx, 1, spatial[0], spatial[1]));
    double left = 0.0, right = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) left += y[i] * g[i];
    for (std::size_t i = 0; i < x.size(); ++i) right += x[i] * dx[i];
    CHECK(left == right);
  }
}

}  // namespace

int main() {
  averages_match_the_accumulator<float>();
  averages_match_the_accumulator<double>();
  averages_match_the_accumulator<Float16>();
  averages_match_the_accumulator<BFloat16>();
  whole_planes_match_the_accumulator<float>();
  whole_planes_match_the_accumulator<double>();
  whole_planes_match_the_accumulator<Float16>();
  whole_planes_match_the_accumulator<BFloat16>();
  lines_in_step_match_the_accumulator<float>();
  lines_in_step_match_the_accumulator<double>();
  transposes_are_adjoint();
  return halfulp::tests::failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
