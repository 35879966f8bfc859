// Means and sums of integers of every type, rounded to every type, against exact sums: which outputs fit, and their
// bits.
#include "halfulp/integer_average.hpp"

#include "drawn.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

using Exact = ExactSums<double>::terms;

// An integer as the sum of two doubles, times a factor.
template <class T>
void add_integer(Exact& sum, T value, Index times) {
  if constexpr (std::is_same_v<T, Bool>) {
    sum.add(value.value, times);
  } else {
    const T high = static_cast<T>(value / (T{1} << (4 * sizeof(T) - 1)));
    const T low = static_cast<T>(value % (T{1} << (4 * sizeof(T) - 1)));
    sum.add(static_cast<double>(high) * std::ldexp(1.0, static_cast<int>(4 * sizeof(T) - 1)), times);
    sum.add(static_cast<double>(low), times);
  }
}

// Twice the sum of a window's cells.
template <class T>
Exact doubled_sum(const std::vector<Index>& cells, const Array<T>& x) {
  Exact sum;
  for (const Index cell : cells) add_integer(sum, x[cell], 2);
  sum.add(0.0);
  return sum;
}

// Whether out is the number of its type nearest to sum / (2 n), to even if there are two.
template <class To>
bool is_nearest(const Exact& doubled, Index n, To out) {
  if constexpr (is_real<To>) {
    return same(out, doubled.template round_quotient<To>(2 * n));
  } else {
    Exact rest = doubled;
    add_integer(rest, out, -2 * n);
    const double distance = std::fabs(rest.template round<double>()), half = std::fabs(static_cast<double>(n));
    return distance < half || (distance == half && std::fmod(widened(out), 2) == 0);
  }
}

// Whether the quotient, rounded, is a number of the type.
template <class To>
bool fits(const Exact& doubled, Index n) {
  if constexpr (is_real<To>) {
    return true;
  } else if constexpr (std::is_same_v<To, Bool>) {
    return is_nearest<Bool>(doubled, n, {0}) || is_nearest<Bool>(doubled, n, {1});
  } else {
    using Limits = std::numeric_limits<To>;
    // Beyond a limit by less than half, or by half if that is rounded towards it.
    Exact above = doubled, below = doubled;
    const Index m = n < 0 ? -n : n, sign = n < 0 ? -1 : 1;
    add_integer(above, Limits::max(), -2 * n);
    add_integer(below, Limits::min(), -2 * n);
    const double over = sign * above.template round<double>(), under = sign * below.template round<double>();
    const auto half = static_cast<double>(m);
    return over < half && (under > -half || under == -half);  // the largest is odd, the smallest even
  }
}

template <class From, class To>
void check_case(std::uint64_t seed) {
  Random random(seed);
  const auto ndim = static_cast<int>(1 + seed % 3);
  const std::vector<Axis> axes = drawn_axes(random, ndim, ndim == 1 ? 20 : ndim == 2 ? 5 : 3, true);
  const bool include = !axes.front().adaptive && random.one_in(2);
  const Index divisor = random.one_in(3) ? (random.one_in(2) ? -1 : 1) * random.between(1, 12) : 0;
  const auto numbers = random.one_in(2) ? Numbers::few : random.one_in(2) ? Numbers::plain : Numbers::anything;
  const auto layout = static_cast<Layout>(random.below(kLayouts)), to = static_cast<Layout>(random.below(2));
  const Sizes leading{2, 3};
  Array<From> x(shape_of(leading, axes, &Axis::size), layout);
  Array<To> y(shape_of(leading, axes, &Axis::output), to);
  x.draw(random, numbers);
  describe_windows(axes, "seed", seed, "from", name_of(dtype_of<From>), "to", name_of(dtype_of<To>), "include",
                   include, "divisor", divisor, "numbers", static_cast<int>(numbers), "layout",
                   static_cast<int>(layout), "out", static_cast<int>(to));
  const Index wrong = average_integers("test", axes, include, divisor, x.view, y.view);
  const Index cells = product_of(axes, &Axis::size), outputs = product_of(axes, &Axis::output);
  Index expected = -1;
  for (Index o = 0; o < y.count(); ++o) {
    Window window = window_at(axes, o % outputs);
    for (Index& cell : window.cells) cell += o / outputs * cells;
    const Index counted = include ? window.counted : static_cast<Index>(window.cells.size());
    if (counted == 0) {
      CHECK(same(y[o], To{}));
      continue;
    }
    const Index n = divisor != 0 ? divisor : counted;
    const Exact sum = doubled_sum(window.cells, x);
    if (!fits<To>(sum, n)) expected = expected < 0 ? o : expected;
    else CHECK(is_nearest(sum, n, y[o]));
  }
  CHECK(wrong == expected);
}

template <class From>
void check_type(std::uint64_t seed) {
  for (int to = 0; to < kDTypeCount; ++to)
    visit(static_cast<DType>(to), [&]<class To>(To) { check_case<From, To>(seed * 100 + static_cast<unsigned>(to)); });
}

}  // namespace

int main() {
  everywhere([] {
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      for (int from = 0; from < kDTypeCount; ++from)
        if (!is_float(static_cast<DType>(from)))
          visit(static_cast<DType>(from), [&](auto tag) {
            if constexpr (!is_real<decltype(tag)>) check_type<decltype(tag)>(seed);
          });
  });
  CHECK(units_of(Engine::average_integers) > 0);
  return failures() == 0 ? 0 : 1;
}
