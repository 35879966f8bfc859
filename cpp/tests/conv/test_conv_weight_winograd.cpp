// Weight products by patches: they take what they should, refuse what they must, and have the bits of exact sums.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "conv/resolve.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/conv.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/isa.hpp"
#include "halfulp/parallel.hpp"

using namespace halfulp;
using namespace halfulp::conv;

namespace {

constexpr unsigned kSeed = 1;

struct Shape {
  Index batch, groups, ins, outs, height, width, before, after, dilation = 1;
};

template <class T>
struct Example {
  Shape shape;
  Geometry geometry;
  std::vector<T> x, y, w;

  explicit Example(const Shape& given) : shape(given) {
    geometry.batch = shape.batch, geometry.groups = shape.groups;
    geometry.in_channels = shape.ins, geometry.out_channels = shape.outs;
    for (const Index size : {shape.height, shape.width}) {
      Axis axis;
      axis.size = size, axis.kernel = 3, axis.before = shape.before, axis.after = shape.after;
      axis.dilation = shape.dilation;
      axis.output = size + shape.before + shape.after - 2 * shape.dilation;
      geometry.axes.push_back(axis);
    }
    x.resize(static_cast<std::size_t>(shape.batch * shape.groups * shape.ins * cells()));
    y.resize(static_cast<std::size_t>(shape.batch * shape.groups * shape.outs * positions()));
    w.resize(static_cast<std::size_t>(shape.groups * shape.outs * shape.ins * 9));
  }

  Index cells() const { return shape.height * shape.width; }
  Index positions() const { return geometry.axes[0].output * geometry.axes[1].output; }
  Planes<const T> inputs() const {
    return {x.data(), shape.groups * shape.ins * cells(), cells(), {shape.width, 1}};
  }
  Planes<const T> outputs() const {
    return {y.data(), shape.groups * shape.outs * positions(), positions(), {geometry.axes[1].output, 1}};
  }
  // Whether it went by patches.
  bool run() {
    reset_engine_counts();
    weight_product<T>(geometry, inputs(), outputs(), {w.data(), shape.ins * 9, 9, {3, 1}}, Precision::correct);
    return units_of(Engine::conv_weight) == 0 && units_of(Engine::conv_weight_winograd) == 1;
  }
  // The exact value of weight i.
  T exact(Index i) const {
    const Index tap = i % 9, in = i / 9 % shape.ins, out = i / 9 / shape.ins;
    const Index group = out / shape.outs, all_ins = shape.groups * shape.ins, all_outs = shape.groups * shape.outs;
    const Index rows = geometry.axes[0].output, columns = geometry.axes[1].output;
    typename ExactSums<T>::products sum;
    for (Index n = 0; n < shape.batch; ++n) {
      for (Index o = 0; o < rows * columns; ++o) {
        const Index r = o / columns + tap / 3 * shape.dilation - shape.before;
        const Index c = o % columns + tap % 3 * shape.dilation - shape.before;
        if (r < 0 || r >= shape.height || c < 0 || c >= shape.width) continue;
        const Index cell = ((n * all_ins + group * shape.ins + in) * shape.height + r) * shape.width + c;
        sum.add_product(as_double(y[static_cast<std::size_t>((n * all_outs + out) * rows * columns + o)]),
                        as_double(x[static_cast<std::size_t>(cell)]));
      }
    }
    return sum.template round<T>();
  }
};

template <class T>
Example<T> example(const Shape& shape, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Example<T> e(shape);
  for (T& value : e.x) value = round_to<T>(normal(random));
  for (T& value : e.y) value = round_to<T>(normal(random));
  return e;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void describe_example(const Example<T>& e) {
  const Shape& shape = e.shape;
  tests::describe("generator", kSeed, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "threads",
                  num_threads(), "batch", shape.batch, "groups", shape.groups, "in", shape.ins, "out", shape.outs,
                  "height", shape.height, "width", shape.width, "before", shape.before, "dilation", shape.dilation);
}

template <class T>
void check_shapes(std::mt19937& random) {
  // One chunk of patches, many chunks with totals; parts of vectors; several tasks; groups; padding of either side;
  // dilations: phases of one length, of two lengths, one of which ends a patch earlier, and of part of a patch.
  const Shape shapes[] = {{1, 1, 16, 16, 8, 8, 1, 1},      {2, 1, 130, 26, 13, 11, 2, 0},
                          {3, 2, 17, 18, 23, 14, 0, 2},    {1, 1, 16, 140, 9, 12, 1, 1},
                          {4, 1, 16, 17, 123, 118, 1, 1},  {2, 1, 16, 18, 16, 24, 2, 2, 2},
                          {1, 2, 17, 16, 17, 18, 2, 3, 2}, {2, 1, 16, 16, 20, 13, 0, 4, 3}};
  for (const Shape& shape : shapes) {
    Example<T> e = example<T>(shape, random);
    std::vector<T> once;  // the first answer, some weights of which are held against the exact ones
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 3}) {
        set_isa(name_of(isa));
        set_num_threads(threads);
        describe_example(e);
        std::fill(e.w.begin(), e.w.end(), T{});
        CHECK(e.run());
        if (once.empty()) {
          once = e.w;
          bool exact = true;
          const Index step = shape.height > 100 ? 97 : 7;  // exact sums are slow
          for (Index i = 0; i < static_cast<Index>(once.size()); i += step) {
            const T value = e.exact(i);
            exact = exact && std::memcmp(&value, &once[static_cast<std::size_t>(i)], sizeof(T)) == 0;
          }
          CHECK(exact);
        }
        CHECK(same_bits(once, e.w));
      }
    }
  }
}

// Channels that are zero but for a few cells: most of their sums are zeros of either sign.
template <class T>
void check_sparse(std::mt19937& random) {
  Example<T> e = example<T>({2, 1, 16, 17, 20, 20, 1, 1}, random);
  describe_example(e);
  const auto thin = [&](std::vector<T>& values, Index cells, unsigned one_in) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (static_cast<Index>(i) / cells % 3 != 0 && random() % one_in != 0)
        values[i] = round_to<T>(std::signbit(as_double(values[i])) ? -0.0 : 0.0);
  };
  thin(e.x, e.cells(), 100);
  thin(e.y, e.positions(), 25);
  for (Index i = 0; i < e.cells(); ++i) {  // one sum of nothing but -0
    e.x[static_cast<std::size_t>(i)] = e.x[static_cast<std::size_t>(16 * e.cells() + i)] = round_to<T>(-0.0);
    e.y[static_cast<std::size_t>(i)] = e.y[static_cast<std::size_t>(17 * e.positions() + i)] = round_to<T>(1.0);
  }
  CHECK(e.run());
  bool exact = true;
  for (Index i = 0; i < static_cast<Index>(e.w.size()); ++i) {
    const T value = e.exact(i);
    exact = exact && std::memcmp(&value, &e.w[static_cast<std::size_t>(i)], sizeof(T)) == 0;
  }
  CHECK(exact);
}

template <class T>
void check_refusals(std::mt19937& random) {
  const auto run = [&](const Shape& shape, const auto& change) {
    Example<T> e = example<T>(shape, random);
    describe_example(e);
    change(e);
    return e.run();
  };
  const Shape shape{1, 1, 16, 16, 20, 20, 1, 1};
  const T infinity = round_to<T>(std::numeric_limits<double>::infinity()), nan = round_to<T>(std::nan(""));
  CHECK(run(shape, [](Example<T>&) {}));
  CHECK(!run(shape, [&](Example<T>& e) { e.x[77] = infinity; }));
  CHECK(!run(shape, [&](Example<T>& e) { e.y[5] = nan; }));
  CHECK(run(shape, [&](Example<T>& e) { e.x.assign(e.x.size(), T{}); }));  // zeros are decided by one look
  CHECK(!run(shape, [&](Example<T>& e) {                                  // sums that are zero without zeros are not
    for (std::size_t i = 0; i < e.x.size(); ++i) e.x[i] = round_to<T>(i % 2 == 0 ? 1.0 : -1.0);
    e.y.assign(e.y.size(), round_to<T>(1.0));
  }));
  CHECK(!run({1, 1, 15, 16, 20, 20, 1, 1}, [](Example<T>&) {}));
  CHECK(!run({1, 1, 16, 16, 20, 1, 1, 1}, [](Example<T>&) {}));
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
    check_sparse<float>(random);
    check_sparse<Float16>(random);
    check_refusals<BFloat16>(random);
  }
  return tests::failures() == 0 ? 0 : 1;
}
