// What tests of windows share: drawn numbers, arrays that end where their memory ends, drawn windows and their cells.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/array.hpp"
#include "halfulp/geometry.hpp"
#include "halfulp/isa.hpp"
#include "halfulp/parallel.hpp"

namespace halfulp::tests {

// splitmix64: the same numbers with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x2545f4914f6cdd1du) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  Index below(Index n) { return static_cast<Index>(bits() % static_cast<std::uint64_t>(n)); }
  Index between(Index low, Index high) { return low + below(high - low + 1); }
  bool one_in(Index n) { return below(n) == 0; }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1; }  // in [-1, 1)

 private:
  std::uint64_t state_;
};

template <class T>
inline constexpr bool is_real = is_float(dtype_of<T>);

template <class T>
double widened(T x) {
  if constexpr (std::is_same_v<T, Bool>) return x.value;
  else if constexpr (std::is_same_v<T, double> || !is_real<T>) return static_cast<double>(x);
  else return static_cast<double>(to_float(x));
}

template <class T>
bool is_nan(T x) {
  return std::isnan(widened(x));
}

// Equal bits; any NaN is as good as another.
template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (is_nan(a) && is_nan(b));
}

// few: small integers, so that cells tie, zeros of both signs. plain: no ties. ranging: every exponent, subnormals.
// The others have one special number in eight: NaN; infinities; both, subnormals and the largest numbers.
enum class Numbers { few, plain, ranging, with_nan, with_infinities, anything };
inline constexpr int kNumbers = 6;

template <class T>
T drawn(Random& random, Numbers kind) {
  if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<std::uint8_t>(random.below(2))};
  } else if constexpr (!is_real<T>) {
    if (kind != Numbers::few && random.one_in(8))
      return random.one_in(2) ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    if (kind == Numbers::plain || kind == Numbers::ranging) return static_cast<T>(random.bits());
    return static_cast<T>(random.below(7) - (std::is_signed_v<T> ? 3 : 0));
  } else {
    using F = format_of<T>;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double sign = random.one_in(2) ? 1 : -1;
    if (kind >= Numbers::with_nan && random.one_in(8)) {
      const Index which = kind == Numbers::anything ? random.below(4) : kind == Numbers::with_nan ? 0 : 1;
      if (which == 0) return round_to<T>(std::numeric_limits<double>::quiet_NaN());
      if (which == 1) return round_to<T>(sign * infinity);
      const auto bits = static_cast<typename F::bits_type>(which == 2 ? random.below(4) : F::infinity - 1);
      return round_to<T>(sign * widened(std::bit_cast<T>(bits)));
    }
    if (kind == Numbers::plain) return round_to<T>(random.unit());
    if (kind == Numbers::ranging) {
      const auto exponent = static_cast<int>(random.between(F::tiny_exponent, F::max_exponent - 8));
      return round_to<T>(std::ldexp(random.unit(), exponent));
    }
    return round_to<T>(sign * static_cast<double>(random.below(4)));
  }
}

// How an array lies in memory: in C order; its second axis innermost; backwards; with room between its items.
enum class Layout { dense, channels_last, reversed, spaced };
inline constexpr int kLayouts = 4;

// An array with exactly as much memory as it needs, its elements numbered in row-major order.
template <class T>
struct Array {
  std::vector<T> items;
  ArrayView view;

  explicit Array(const Sizes& shape, Layout layout = Layout::dense) {
    const int ndim = shape.size(), second = ndim > 2 ? 1 : 0;
    std::vector<int> order;  // from the innermost axis outwards
    if (layout == Layout::channels_last) order.push_back(second);
    for (int axis = ndim - 1; axis >= 0; --axis)
      if (layout != Layout::channels_last || axis != second) order.push_back(axis);
    Index step = layout == Layout::spaced ? 2 : 1, last = 0;
    view.dtype = dtype_of<T>;
    view.shape = view.strides = shape;
    const Index sign = layout == Layout::reversed ? -1 : 1;
    for (const int axis : order) {
      view.strides[axis] = sign * step * static_cast<Index>(sizeof(T));
      last += (shape[axis] - 1) * step;
      step *= shape[axis];
    }
    items.resize(view.count() == 0 ? 0 : static_cast<std::size_t>(last + 1));
    view.data = reinterpret_cast<char*>(items.data() + (layout == Layout::reversed && !items.empty() ? last : 0));
  }
  T& operator[](Index flat) const { return *reinterpret_cast<T*>(view.data + offset_of(view, flat, view.ndim())); }
  Index count() const { return view.count(); }
  void draw(Random& random, Numbers kind) {
    for (T& item : items) item = drawn<T>(random, kind);
  }
};

inline Index product_of(std::span<const Axis> axes, Index Axis::*size) {
  Index product = 1;
  for (const Axis& axis : axes) product *= axis.*size;
  return product;
}

// (leading..., spatial...) of the cells or of the outputs.
inline Sizes shape_of(const Sizes& leading, std::span<const Axis> axes, Index Axis::*size) {
  Sizes shape = leading;
  for (const Axis& axis : axes) shape.push_back(axis.*size);
  return shape;
}

// The cells of a window in row-major order, by their numbers in the plane, and how many an average counts with padding.
struct Window {
  std::vector<Index> cells{0};
  Index counted = 1;
};

inline Window window_at(std::span<const Axis> axes, Index output) {
  Window window;
  std::vector<Index> places(axes.size());
  for (std::size_t a = axes.size(); a-- > 0;) {
    places[a] = output % axes[a].output;
    output /= axes[a].output;
  }
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const Axis& axis = axes[a];
    const Index o = places[a];
    Index begin = o * axis.stride - axis.before, count = axis.kernel, counted = 0;
    if (axis.adaptive) {
      begin = axis.starts ? (*axis.starts)[static_cast<std::size_t>(o)] : o * axis.size / axis.output;
      if (!axis.starts) count = ((o + 1) * axis.size + axis.output - 1) / axis.output - begin;
    }
    std::vector<Index> cells;
    for (const Index before : window.cells)
      for (Index w = 0; w < count; ++w) {
        const Index cell = begin + w * axis.dilation;
        if (cell >= 0 && cell < axis.size) cells.push_back(before * axis.size + cell);
      }
    for (Index w = 0; w < count; ++w) counted += begin + w * axis.dilation < axis.size + axis.after ? 1 : 0;
    window.cells = std::move(cells);
    window.counted *= counted;
  }
  return window;
}

// Sliding windows with at most `most` cells along an axis; or, if `others` are wanted, adaptive or global ones too.
inline std::vector<Axis> drawn_axes(Random& random, int ndim, Index most, bool others) {
  std::vector<Index> sizes, outputs;
  WindowParameters p;
  p.operator_name = "test";
  p.ceil_mode = random.one_in(2);
  const bool apart = random.one_in(3);  // windows that share no cell
  for (int a = 0; a < ndim; ++a) {
    p.kernel.push_back(random.between(1, most));
    p.stride.push_back(apart ? p.kernel.back() : random.between(1, 3));
    p.dilation.push_back(apart || random.one_in(2) ? 1 : random.between(1, 3));
    p.before.push_back(random.one_in(2) ? 0 : random.below(p.kernel.back() + 2));
    p.after.push_back(random.one_in(2) ? 0 : random.below(p.kernel.back() + 2));
    const Index extent = p.dilation.back() * (p.kernel.back() - 1) + 1;
    const Index more = ndim == 1 ? 90 : a + 1 < ndim ? 12 / ndim : ndim == 2 ? 40 : 9;
    sizes.push_back(extent + random.below(more));
    outputs.push_back(random.between(1, sizes.back()));
  }
  const Index kind = others ? random.below(5) : 0;
  return kind == 4 ? global_axes(sizes) : kind == 3 ? adaptive_axes(sizes, outputs) : window_axes(p, sizes);
}

template <Index Axis::*member>
std::string listed(std::span<const Axis> axes) {
  std::vector<Index> values;
  for (const Axis& axis : axes) values.push_back(axis.*member);
  return tuple_text(values);
}

// describe() with the windows, the instruction set and the number of threads.
template <class... Parts>
void describe_windows(std::span<const Axis> axes, const Parts&... parts) {
  describe(parts..., "isa", name_of(current_isa()), "threads", num_threads(), "size", listed<&Axis::size>(axes),
           "adaptive", axes.front().adaptive, "kernel", listed<&Axis::kernel>(axes), "stride",
           listed<&Axis::stride>(axes), "dilation", listed<&Axis::dilation>(axes), "before",
           listed<&Axis::before>(axes), "after", listed<&Axis::after>(axes), "output", listed<&Axis::output>(axes));
}

// Calls f() under every instruction set of the machine, with one thread and with two.
template <class F>
void everywhere(const F& f) {
  for (const Isa isa : available_isas())
    for (const int threads : {1, 2}) {
      CHECK(set_isa(name_of(isa)));
      set_num_threads(threads);
      f();
    }
}

// The accumulator for terms of a type.
template <class T>
using Terms = typename ExactSums<std::conditional_t<std::is_same_v<T, double>, double, float>>::terms;

}  // namespace halfulp::tests
