// The weight product: tap by tap where most taps meet padding; else Winograd where it applies, then the general engine.
#include "conv/weight_engine.hpp"
#include "conv/weight_winograd_engine.hpp"
#include "halfulp/conv.hpp"
#include "halfulp/engines.hpp"

namespace halfulp::conv {

namespace {

void run(const WeightProblem& problem, Precision precision);

// Whether the taps meet padding for most outputs, as with a large dilation.
bool mostly_padding(const Gather& gather) {
  constexpr Index most_taps = 27;
  double share = 1;  // of the pairs of tap and output
  for (const GatherAxis& axis : gather) {
    Index real = 0;
    for (std::size_t t = 0; t < axis.tap.size(); ++t) {
      const auto [low, high] = real_positions(axis, t);
      real += high - low;
    }
    share *= static_cast<double>(real) / static_cast<double>(axis.positions * static_cast<Index>(axis.tap.size()));
  }
  return tap_count(gather) > 1 && tap_count(gather) <= most_taps && position_count(gather) > 0 && share < 0.5;
}

void fill_with_zeros(const WeightProblem& problem) {
  const OutputFilters& out = problem.out;
  visit_float(out.data.type->dtype, [&]<class T>(T) {
    for (Index row = 0; row < problem.groups * problem.out_channels; ++row) {
      T* const first = (out.data + row * out.out).as<T>();
      for (Index channel = 0; channel < problem.in_channels; ++channel) first[channel * out.in] = T{};
    }
  });
}

// One tap at a time, each over the outputs for which it meets real cells.
void run_tap_by_tap(const WeightProblem& problem, const Gather& gather, Precision precision) {
  for (Index number = 0; number < tap_count(gather); ++number) {
    WeightProblem single = problem;
    Index left = number;
    bool empty = false;
    for (std::size_t i = gather.size(); i-- > 0;) {
      const GatherAxis& axis = gather[i];
      const auto t = static_cast<std::size_t>(left % static_cast<Index>(axis.tap.size()));
      left /= static_cast<Index>(axis.tap.size());
      single.out.data += axis.tap[t] * problem.out.spatial[i];
      const auto [low, high] = real_positions(axis, t);
      const Index count = high - low;
      Axis& real = single.axes[i] = Axis{};
      empty = empty || count == 0;
      real.size = (count - 1) * axis.step + 1;
      real.output = count;
      real.stride = axis.step;
      if (empty) continue;
      single.inputs.data += (low * axis.step + axis.offset[t]) * problem.inputs.spatial[i];
      single.outputs.data += low * problem.outputs.spatial[i];
    }
    if (empty) fill_with_zeros(single);
    else run(single, precision);
  }
}

void run(const WeightProblem& problem, Precision precision) {
  const Gather gather = output_gather(problem);
  if (mostly_padding(gather)) return run_tap_by_tap(problem, gather, precision);
  if (problem.batch > 1 && problem.axes.size() == 1) {
    const Axis& axis = problem.axes.front();
    if (axis.size == 1 && axis.output == 1 && axis.kernel == 1 && axis.before == 0) {
      // Planes of one cell: the samples are the positions of one plane, whose products fill vectors.
      WeightProblem single = problem;
      Axis& positions = single.axes.front();
      positions.size = positions.output = problem.batch;
      positions.stride = single.batch = 1;
      single.inputs.spatial = {problem.inputs.batch};
      single.outputs.spatial = {problem.outputs.batch};
      return run(single, precision);
    }
  }
  const ConvKernels& kernels = select_conv_kernels();
  const bool doubles = problem.out.data.type->dtype == DType::f64;
  if (!doubles && precision == Precision::correct && WeightWinogradEngine::fits(problem) &&
      WeightWinogradEngine(problem, kernels).run()) {
    count_engine(Engine::conv_weight_winograd);
    return;
  }
  count_engine(Engine::conv_weight);
  const Mode mode = precision == Precision::fast ? Mode::fast : doubles ? Mode::twofold : Mode::wide;
  if (mode == Mode::fast && !doubles) WeightEngine<float>(problem, mode, kernels).run();
  else WeightEngine<double>(problem, mode, kernels).run();
}

}  // namespace

template <class T>
void weight_product(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
                    const Filters<T>& out, Precision precision) {
  const ConvKernels& kernels = select_conv_kernels();
  run({{geometry}, source_planes(inputs, kernels), source_planes(outputs, kernels),
       {conv::outputs(out.data, kernels), out.out, out.in, out.spatial}}, precision);
}

#define HALFULP_INSTANTIATE(T)                                                                                        \
  template void weight_product<T>(const Geometry&, const Planes<const T>&, const Planes<const T>&, const Filters<T>&, \
                                  Precision);
HALFULP_INSTANTIATE(Float16)
HALFULP_INSTANTIATE(BFloat16)
HALFULP_INSTANTIATE(float)
HALFULP_INSTANTIATE(double)

}  // namespace halfulp::conv
