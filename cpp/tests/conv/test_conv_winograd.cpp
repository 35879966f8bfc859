// Convolution by patches: it takes what it should, refuses what it must, and what it does has the bits of exact sums.
#include "conv/winograd_engine.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/parallel.hpp"

using namespace halfulp;
using namespace halfulp::conv;

namespace {

constexpr unsigned kSeed = 1;

struct Shape {
  Index batch, groups, channels, rows, height, width, before, after, dilation = 1;
};

template <class T>
struct Example {
  Shape shape;
  bool flipped;  // offsets fall, as they do in the product that gives input cotangents
  int sources;
  std::vector<T> x[2], w[2], bias, y;

  Index out(Index size) const { return size + shape.before + shape.after - 2 * shape.dilation; }
  Index positions() const { return out(shape.height) * out(shape.width); }
  Index cells() const { return shape.height * shape.width; }

  GatherProblem problem() {
    const ConvKernels& kernels = select_conv_kernels();
    GatherProblem p;
    p.batch = shape.batch, p.groups = shape.groups, p.channels = shape.channels, p.rows = shape.rows;
    for (const Index size : {shape.height, shape.width}) {
      GatherAxis axis;
      axis.positions = out(size);
      axis.source_size = size;
      axis.tap = {0, 1, 2};
      for (Index t = 0; t < 3; ++t) axis.offset.push_back((flipped ? 2 - t : t) * shape.dilation - shape.before);
      p.gather.push_back(axis);
    }
    const Index all = shape.groups * shape.channels;
    for (int s = 0; s < sources; ++s) {
      Source source;
      source.planes = {elements(x[s].data(), kernels), all * cells(), cells(), {shape.width, 1}};
      source.filters = elements(w[s].data(), kernels);
      source.row = flipped ? 9 : shape.channels * 9;
      source.channel = flipped ? shape.rows * 9 : 9;
      source.group = shape.rows * shape.channels * 9;
      source.spatial = {3, 1};
      p.sources.push_back(source);
    }
    p.bias = elements(bias.data(), kernels), p.bias_stride = 1;
    y.assign(static_cast<std::size_t>(shape.batch * shape.groups * shape.rows * positions()), T{});
    p.out = {outputs(y.data(), kernels), shape.groups * shape.rows * positions(), positions(), {out(shape.width), 1}};
    return p;
  }
};

template <class T>
Example<T> example(const Shape& shape, bool flipped, int sources, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const auto numbers = [&](Index n) {
    std::vector<T> values;
    for (Index i = 0; i < n; ++i) values.push_back(round_to<T>(normal(random)));
    return values;
  };
  Example<T> e{shape, flipped, sources, {}, {}, {}, {}};
  for (int s = 0; s < sources; ++s) {
    e.x[s] = numbers(shape.batch * shape.groups * shape.channels * e.cells());
    e.w[s] = numbers(shape.groups * shape.rows * shape.channels * 9);
  }
  e.bias = numbers(shape.groups * shape.rows);
  return e;
}

// Calls f(output, its exact value) for every fifth output, another fifth in each channel: exact sums are slow.
template <class T, class F>
void for_some_outputs(const Example<T>& e, const GatherProblem& p, const F& f) {
  std::size_t y = 0;
  for (Index n = 0; n < p.batch; ++n)
    for (Index row = 0; row < p.groups * p.rows; ++row)
      for (Index i = 0; i < e.positions(); ++i, ++y) {
        if ((i + row) % 5 != 0) continue;
        typename ExactSums<T>::products sum;
        sum.add_product(as_double(e.bias[static_cast<std::size_t>(row)]), 1.0);
        const Sizes position{i / e.out(e.shape.width), i % e.out(e.shape.width)};
        p.for_each_run(n, row / p.rows, row % p.rows, position, [&](const Pairs& pairs) {
          for (Index k = 0; k < pairs.n; ++k)
            sum.add_product(pairs.a[k * pairs.a_stride], pairs.b[k * pairs.b_stride]);
          return true;
        });
        f(y, sum.template round<T>());
      }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void describe_example(const Example<T>& e) {
  const Shape& shape = e.shape;
  tests::describe("generator", kSeed, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "threads",
                  num_threads(), "batch", shape.batch, "groups", shape.groups, "channels", shape.channels, "rows",
                  shape.rows, "height", shape.height, "width", shape.width, "before", shape.before, "dilation",
                  shape.dilation, "flipped", e.flipped);
}

template <class T>
void check_shapes(std::mt19937& random) {
  // One group of patches, several, parts of a block; several blocks of channels; groups; padding of either side;
  // dilations: phases of one length, of two lengths, one of which ends a patch earlier, and of part of a patch.
  const Shape shapes[] = {{1, 1, 16, 16, 12, 12, 1, 1},    {2, 1, 70, 26, 13, 11, 2, 0},
                          {3, 2, 17, 18, 23, 14, 0, 2},    {2, 1, 16, 18, 16, 24, 2, 2, 2},
                          {1, 2, 17, 16, 17, 18, 2, 3, 2}, {2, 1, 16, 16, 20, 13, 0, 4, 3}};
  for (const Shape& shape : shapes) {
    for (const bool flipped : {false, true}) {
      Example<T> e = example<T>(shape, flipped, flipped ? 1 : 2, random);
      std::vector<T> once;  // the first answer, in which every fifth output is held against the exact one
      for (const Isa isa : available_isas())
        for (const int threads : {1, 3}) {
          set_isa(name_of(isa));
          set_num_threads(threads);
          describe_example(e);
          const GatherProblem p = e.problem();  // with this instruction set's loops
          CHECK(run_winograd(p, select_conv_kernels()));
          if (once.empty()) {
            once = e.y;
            bool exact = true;
            for_some_outputs(e, p, [&](std::size_t y, T value) {
              exact = exact && std::memcmp(&value, &once[y], sizeof(T)) == 0;
            });
            CHECK(exact);
          }
          CHECK(same_bits(once, e.y));
        }
    }
  }
}

template <class T>
void check_refusals(std::mt19937& random) {
  const Shape shape{1, 1, 16, 16, 20, 20, 1, 1};
  const auto run = [&](const auto& change) {
    Example<T> e = example<T>(shape, false, 1, random);
    describe_example(e);
    change(e);
    return run_winograd(e.problem(), select_conv_kernels());
  };
  const T infinity = round_to<T>(std::numeric_limits<double>::infinity()), nan = round_to<T>(std::nan(""));
  CHECK(run([](Example<T>&) {}));
  CHECK(!run([&](Example<T>& e) { e.x[0][77] = infinity; }));
  CHECK(!run([&](Example<T>& e) { e.w[0][5] = nan; }));
  CHECK(!run([&](Example<T>& e) { e.x[0].assign(e.x[0].size(), T{}), e.bias.assign(e.bias.size(), T{}); }));
  CHECK(!run([](Example<T>& e) { e.shape.channels = 15; }));
  CHECK(!run([](Example<T>& e) { e.shape.height = 1; }));
}

}  // namespace

int main() {
  std::mt19937 random(kSeed);
  check_shapes<float>(random);
  check_shapes<Float16>(random);
  check_shapes<BFloat16>(random);
  for (const Isa isa : available_isas()) {
    set_isa(name_of(isa));
    check_refusals<float>(random);
    check_refusals<BFloat16>(random);
  }
  return tests::failures() == 0 ? 0 : 1;
}
