// The three products against exact sums, term by term, on every instruction set and several thread counts.
#include "halfulp/conv.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/isa.hpp"
#include "halfulp/parallel.hpp"

using namespace halfulp;
using namespace halfulp::conv;

namespace {

constexpr unsigned kSeed = 1;

double value_of(float x) { return x; }
double value_of(double x) { return x; }
double value_of(Float16 x) { return to_float(x); }
double value_of(BFloat16 x) { return to_float(x); }

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(value_of(a)) && std::isnan(value_of(b)));
}

// A two-dimensional convolution on contiguous arrays.
template <class T>
struct Example {
  Geometry geometry;
  std::vector<T> x, w, y, bias;

  Index cells() const { return geometry.axes[0].size * geometry.axes[1].size; }
  Index positions() const { return geometry.axes[0].output * geometry.axes[1].output; }
  Index taps() const { return geometry.axes[0].kernel * geometry.axes[1].kernel; }
  Index in_channels() const { return geometry.groups * geometry.in_channels; }
  Index out_channels() const { return geometry.groups * geometry.out_channels; }

  template <class U>
  Planes<U> planes(U* data, bool outputs) const {
    const Axis& last = geometry.axes[1];
    const Index plane = outputs ? positions() : cells(), channels = outputs ? out_channels() : in_channels();
    return {data, channels * plane, plane, {outputs ? last.output : last.size, 1}};
  }
  template <class U>
  Filters<U> filters(U* data) const {
    return {data, geometry.in_channels * taps(), taps(), {geometry.axes[1].kernel, 1}};
  }

  // Calls f(x index, w index, y index) for every triple of the convolution.
  template <class F>
  void for_each_triple(const F& f) const {
    const Axis &a = geometry.axes[0], &b = geometry.axes[1];
    for (Index n = 0; n < geometry.batch; ++n)
      for (Index m = 0; m < out_channels(); ++m)
        for (Index c = 0; c < geometry.in_channels; ++c)
          for (Index o = 0; o < positions(); ++o)
            for (Index t = 0; t < taps(); ++t) {
              const Index i = a.start(o / b.output) + t / b.kernel * a.dilation;
              const Index j = b.start(o % b.output) + t % b.kernel * b.dilation;
              if (i < 0 || i >= a.size || j < 0 || j >= b.size) continue;
              const Index channel = m / geometry.out_channels * geometry.in_channels + c;
              f((n * in_channels() + channel) * cells() + i * b.size + j,
                (m * geometry.in_channels + c) * taps() + t, (n * out_channels() + m) * positions() + o);
            }
  }
};

template <class T>
std::vector<T> numbers(std::mt19937& random, Index n, int kind) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> small(-2, 2), exponent(-30, 30);
  std::vector<T> values;
  for (Index i = 0; i < n; ++i) {
    const double x = kind == 0   ? normal(random)
                     : kind == 1 ? small(random)
                                 : std::ldexp(normal(random), exponent(random));
    values.push_back(round_to<T>(x));
  }
  return values;
}

// Fills in what follows from the geometry.
template <class T>
void fill(Example<T>& e, std::mt19937& random, int kind) {
  for (Axis& axis : e.geometry.axes) axis.output = (axis.padded() - axis.extent()) / axis.stride + 1;
  e.x = numbers<T>(random, e.geometry.batch * e.in_channels() * e.cells(), kind);
  e.w = numbers<T>(random, e.out_channels() * e.geometry.in_channels * e.taps(), kind);
  e.y = numbers<T>(random, e.geometry.batch * e.out_channels() * e.positions(), kind);
  e.bias = numbers<T>(random, e.out_channels(), kind);
}

template <class T>
Example<T> example(std::mt19937& random) {
  const auto pick = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); };
  Example<T> e;
  e.geometry.batch = pick(1, 2);
  e.geometry.groups = pick(1, 2);
  e.geometry.in_channels = pick(1, 20);
  e.geometry.out_channels = pick(1, 30);
  for (int i = 0; i < 2; ++i) {
    Axis axis;
    axis.kernel = pick(1, 3), axis.stride = pick(1, 3), axis.dilation = pick(1, 2);
    axis.before = pick(0, 2), axis.after = pick(0, 2);
    axis.size = axis.extent() + pick(0, 17);
    e.geometry.axes.push_back(axis);
  }
  fill(e, random, static_cast<int>(pick(0, 2)));
  return e;
}

// A square kernel on one or two samples of height x width.
template <class T>
Example<T> layer(std::mt19937& random, Index batch, Index groups, Index in, Index out, Index height, Index width,
                 Index kernel, Index stride, int kind) {
  Example<T> e;
  e.geometry.batch = batch;
  e.geometry.groups = groups;
  e.geometry.in_channels = in;
  e.geometry.out_channels = out;
  for (const Index size : {height, width}) {
    Axis axis;
    axis.size = size, axis.kernel = kernel, axis.stride = stride, axis.dilation = 1;
    axis.before = axis.after = kernel / 2;
    e.geometry.axes.push_back(axis);
  }
  fill(e, random, kind);
  return e;
}

// Calls f under every instruction set with one thread and with three. Exact sums are slow here: they are made once.
template <class F>
void everywhere(const F& f) {
  for (const Isa isa : available_isas())
    for (const int threads : {1, 3}) {
      set_isa(name_of(isa));
      set_num_threads(threads);
      f();
    }
}

template <class T, class Sum>
bool are_rounded(const std::vector<T>& values, const std::vector<Sum>& sums) {
  bool all = true;
  for (std::size_t i = 0; i < values.size(); ++i) all = all && same(values[i], sums[i].template round<T>());
  return all;
}

template <class T>
void describe_example(const Example<T>& e) {
  const Geometry& g = e.geometry;
  const Axis &a = g.axes[0], &b = g.axes[1];
  const auto pair = [](Index first, Index second) { return tuple_text(std::vector{first, second}); };
  tests::describe("generator", kSeed, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "threads",
                  num_threads(), "batch", g.batch, "groups", g.groups, "in", g.in_channels, "out", g.out_channels,
                  "size", pair(a.size, b.size), "kernel", pair(a.kernel, b.kernel), "stride",
                  pair(a.stride, b.stride), "dilation", pair(a.dilation, b.dilation), "before",
                  pair(a.before, b.before), "after", pair(a.after, b.after));
}

template <class T>
void check_products(const Example<T>& e) {
  using Sum = typename ExactSums<T>::products;
  std::vector<Sum> outputs(e.y.size()), inputs(e.x.size()), weights(e.w.size());
  e.for_each_triple([&](Index x, Index w, Index y) {
    const auto at = [](const std::vector<T>& v, Index i) { return value_of(v[static_cast<std::size_t>(i)]); };
    outputs[static_cast<std::size_t>(y)].add_product(at(e.w, w), at(e.x, x));
    inputs[static_cast<std::size_t>(x)].add_product(at(e.w, w), at(e.y, y));
    weights[static_cast<std::size_t>(w)].add_product(at(e.y, y), at(e.x, x));
  });
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i].add_product(value_of(e.bias[i / static_cast<std::size_t>(e.positions()) % e.bias.size()]), 1.0);

  const auto filters = e.template filters<const T>(e.w.data());
  const std::vector<Operand<T>> forward{{e.template planes<const T>(e.x.data(), false), filters}};
  const std::vector<Operand<T>> backward{{e.template planes<const T>(e.y.data(), true), filters}};
  everywhere([&] {
    describe_example(e);
    std::vector<T> y(e.y.size()), x(e.x.size()), w(e.w.size());
    const auto run = [&](Precision precision) {
      output_product<T>(e.geometry, forward, e.bias.data(), 1, e.planes(y.data(), true), precision);
      input_product<T>(e.geometry, backward, nullptr, 0, e.planes(x.data(), false), precision);
      weight_product<T>(e.geometry, forward[0].planes, backward[0].planes, e.filters(w.data()), precision);
    };
    run(Precision::correct);
    CHECK(are_rounded(y, outputs));
    CHECK(are_rounded(x, inputs));
    CHECK(are_rounded(w, weights));

    // The fast sums run over the same memory; here only their finiteness is asked for.
    run(Precision::fast);
    bool finite = true;
    if (!std::is_same_v<T, Float16>)  // whose sums may overflow
      for (const T value : y) finite = finite && std::isfinite(value_of(value));
    CHECK(finite);
  });
}

// Fast sums in float: within the bound of 200 roundings, which is more than any term of these layers passes through.
void check_fast(const Example<float>& e) {
  std::vector<double> exact(e.y.size()), size(e.y.size());
  e.for_each_triple([&](Index x, Index w, Index y) {
    const double product = double{e.w[static_cast<std::size_t>(w)]} * double{e.x[static_cast<std::size_t>(x)]};
    exact[static_cast<std::size_t>(y)] += product;
    size[static_cast<std::size_t>(y)] += std::abs(product);
  });
  const std::vector<Operand<float>> operands{
      {e.planes<const float>(e.x.data(), false), e.filters<const float>(e.w.data())}};
  everywhere([&] {
    describe_example(e);
    std::vector<float> y(e.y.size());
    output_product<float>(e.geometry, operands, nullptr, 0, e.planes(y.data(), true), Precision::fast);
    bool within = true;
    for (std::size_t i = 0; i < y.size(); ++i) within = within && std::abs(y[i] - exact[i]) <= 200 * 0x1p-24 * size[i];
    CHECK(within);
  });
}

// Layers that reach what small random ones do not: several groups of lines and of output channels in a stencil, lines
// that end within a vector, an output channel's weights in several pieces, output channels shared among threads,
// channels in several slabs, strided outputs longer than a vector.
void check_layers(std::mt19937& random) {
  for (const Example<float>& e :
       {layer<float>(random, 2, 5, 1, 1, 37, 61, 3, 1, 1), layer<float>(random, 1, 3, 1, 1, 60, 130, 5, 1, 0),
        layer<float>(random, 1, 3, 1, 1, 29, 7, 3, 2, 1), layer<float>(random, 1, 2, 1, 2, 15, 21, 7, 1, 2),
        layer<float>(random, 1, 2, 2, 6, 33, 40, 3, 2, 0), layer<float>(random, 1, 1, 3, 2, 9, 300, 3, 1, 2),
        layer<float>(random, 1, 1, 40, 70, 6, 7, 3, 1, 0),
        layer<float>(random, 1, 1, 300, 20, 18, 18, 1, 1, 0)}) {
    check_products(e);
    check_fast(e);
  }
}

template <class T>
void check_type(std::mt19937& random) {
  for (int i = 0; i < 6; ++i) check_products(example<T>(random));
}

}  // namespace

int main() {
  std::mt19937 random(kSeed);
  check_layers(random);
  check_type<float>(random);
  check_type<double>(random);
  check_type<Float16>(random);
  check_type<BFloat16>(random);
  return tests::failures() == 0 ? 0 : 1;
}
