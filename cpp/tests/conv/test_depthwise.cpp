// Convolutions with one source channel for each group, in float32: outputs and input cotangents against exact sums.
#include "drawn.hpp"
#include "halfulp/conv.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::conv;
using namespace halfulp::tests;

namespace {

using Sum = ExactSums<float>::products;

Planes<const float> planes_of(const Array<float>& array) {
  const auto step = [&](int axis) { return array.view.strides[axis] / static_cast<Index>(sizeof(float)); };
  return {array.view.as<const float>(), step(0), step(1), {step(2), step(3)}};
}
Planes<float> written_planes_of(Array<float>& array) {
  const Planes<const float> planes = planes_of(array);
  return {array.view.as<float>(), planes.batch, planes.channel, planes.spatial};
}

// Along an axis: windows that hold every kind of cell, padding of both sides.
Axis drawn_axis(Random& random, Index kernel, Index more) {
  Axis axis;
  axis.kernel = kernel;
  axis.stride = random.between(1, random.one_in(4) ? 4 : 2);
  axis.dilation = random.one_in(3) ? random.between(2, 3) : 1;
  axis.before = random.below(axis.extent() + 1);
  axis.after = random.below(axis.extent() + 1);
  axis.size = std::max<Index>(1, axis.extent() - axis.before - axis.after) + random.below(more);
  axis.output = (axis.padded() - axis.extent()) / axis.stride + 1;
  return axis;
}

void check_case(std::uint64_t seed) {
  Random random(seed);
  constexpr Index kernels[] = {1, 2, 3, 5, 7};
  Geometry g;
  g.batch = random.between(1, 2);
  g.groups = random.between(1, 5);
  const bool out_of_one = random.one_in(2);  // the outputs have one channel for each group, or the inputs
  g.in_channels = out_of_one ? 1 : random.between(1, 2);
  g.out_channels = out_of_one ? random.between(1, 3) : 1;
  g.axes = {drawn_axis(random, kernels[random.below(5)], 12), drawn_axis(random, random.between(1, 7), 70)};
  const auto kind = static_cast<Numbers>(random.below(kNumbers));
  const Layout layout = random.one_in(2) ? Layout::dense : Layout::channels_last;
  const auto &a = g.axes[0], &b = g.axes[1];
  describe_windows(g.axes, "seed", seed, "batch", g.batch, "groups", g.groups, "in", g.in_channels, "out",
                   g.out_channels, "numbers", static_cast<int>(kind), "layout", static_cast<int>(layout));
  const Sizes in{g.batch, g.groups * g.in_channels, a.size, b.size};
  const Sizes out{g.batch, g.groups * g.out_channels, a.output, b.output};
  Array<float> x(in, layout), y(out, layout), dx(in, layout), dy(out, layout);
  Array<float> w({out[1], g.in_channels, a.kernel, b.kernel}), bias({out[1]});
  for (Array<float>* array : {&x, &dy, &w, &bias}) array->draw(random, array == &w ? Numbers::plain : kind);
  const Index taps = a.kernel * b.kernel;
  const Filters<const float> filters{w.view.as<const float>(), g.in_channels * taps, taps, {b.kernel, 1}};
  output_product<float>(g, {{planes_of(x), filters}}, bias.view.as<const float>(), 1, written_planes_of(y),
                        Precision::correct);
  input_product<float>(g, {{planes_of(dy), filters}}, nullptr, 0, written_planes_of(dx), Precision::correct);
  std::vector<Sum> outputs(static_cast<std::size_t>(y.count())), inputs(static_cast<std::size_t>(x.count()));
  for (Index i = 0; i < y.count(); ++i) {
    Sum& sum = outputs[static_cast<std::size_t>(i)];
    const Index position = i % (a.output * b.output), m = i / (a.output * b.output) % out[1];
    const Index n = i / (a.output * b.output * out[1]), group = m / g.out_channels;
    sum.add_product(widened(bias[m]), 1.0);
    for (Index c = 0; c < g.in_channels; ++c)
      for (Index t = 0; t < taps; ++t) {
        const Index row = a.start(position / b.output) + t / b.kernel * a.dilation;
        const Index column = b.start(position % b.output) + t % b.kernel * b.dilation;
        if (row < 0 || row >= a.size || column < 0 || column >= b.size) continue;
        const Index cell = ((n * in[1] + group * g.in_channels + c) * a.size + row) * b.size + column;
        const double weight = widened(w[(m * g.in_channels + c) * taps + t]);
        sum.add_product(weight, widened(x[cell]));
        inputs[static_cast<std::size_t>(cell)].add_product(weight, widened(dy[i]));
      }
    CHECK(same(y[i], sum.round<float>()));
  }
  for (Index i = 0; i < x.count(); ++i) CHECK(same(dx[i], inputs[static_cast<std::size_t>(i)].round<float>()));
}

}  // namespace

int main() {
  everywhere([] {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) check_case(seed);
  });
  CHECK(units_of(Engine::conv_depthwise) > 0);
  return failures() == 0 ? 0 : 1;
}
