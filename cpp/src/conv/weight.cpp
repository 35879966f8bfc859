// The weight product and the bias sum.
#include "conv/measure.hpp"
#include "conv/weight_engine.hpp"
#include "conv/weight_patches.hpp"
#include "halfulp/conv.hpp"
#include "halfulp/engines.hpp"

namespace halfulp::conv {

namespace {

void run_weight_product(const Geometry& geometry, const SourcePlanes& inputs, const SourcePlanes& outputs,
                        const OutputFilters& out, Precision precision);

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

void fill_with_zeros(const Geometry& geometry, const OutputFilters& out) {
  visit_float(out.data.type->dtype, [&]<class T>(T) {
    for (Index row = 0; row < geometry.groups * geometry.out_channels; ++row) {
      T* const first = (out.data + row * out.out).as<T>();
      for (Index channel = 0; channel < geometry.in_channels; ++channel) first[channel * out.in] = T{};
    }
  });
}

// One tap at a time, each over the outputs for which it meets real cells.
void run_tap_by_tap(const Geometry& geometry, const Gather& gather, const SourcePlanes& inputs,
                    const SourcePlanes& outputs, const OutputFilters& out, Precision precision) {
  for (Index number = 0; number < tap_count(gather); ++number) {
    Geometry single = geometry;
    SourcePlanes cells = inputs, terms = outputs;
    OutputFilters weight = out;
    Index left = number;
    bool empty = false;
    for (std::size_t i = gather.size(); i-- > 0;) {
      const GatherAxis& axis = gather[i];
      const auto t = static_cast<std::size_t>(left % static_cast<Index>(axis.tap.size()));
      left /= static_cast<Index>(axis.tap.size());
      weight.data = weight.data + axis.tap[t] * out.spatial[i];
      const auto [low, high] = real_positions(axis, t);
      const Index count = high - low;
      single.axes[i] = Axis{};
      empty = empty || count == 0;
      single.axes[i].size = (count - 1) * axis.step + 1;
      single.axes[i].output = count;
      single.axes[i].stride = axis.step;
      if (empty) continue;
      cells.data += (low * axis.step + axis.offset[t]) * inputs.spatial[i];
      terms.data += low * outputs.spatial[i];
    }
    if (empty) fill_with_zeros(geometry, weight);
    else run_weight_product(single, cells, terms, weight, precision);
  }
}

void run_weight_product(const Geometry& geometry, const SourcePlanes& inputs, const SourcePlanes& outputs,
                        const OutputFilters& out, Precision precision) {
  const Gather gather = output_gather(geometry);
  if (mostly_padding(gather)) return run_tap_by_tap(geometry, gather, inputs, outputs, out, precision);
  if (geometry.batch > 1 && geometry.axes.size() == 1) {
    const Axis& axis = geometry.axes.front();
    if (axis.size == 1 && axis.output == 1 && axis.kernel == 1 && axis.before == 0) {
      // Planes of one cell: the samples are the positions of one plane, whose products fill vectors.
      Geometry single = geometry;
      single.axes.front().size = single.axes.front().output = geometry.batch;
      single.axes.front().stride = single.batch = 1;
      return run_weight_product(single, {inputs.data, 0, inputs.channel, {inputs.batch}},
                                {outputs.data, 0, outputs.channel, {outputs.batch}}, out, precision);
    }
  }
  const ConvKernels& kernels = select_conv_kernels();
  const bool doubles = out.data.type->dtype == DType::f64;
  if (!doubles && precision == Precision::correct && WeightPatchEngine::fits(geometry) &&
      WeightPatchEngine(geometry, inputs, outputs, out, kernels).run()) {
    count_engine(Engine::conv_weight_winograd);
    return;
  }
  count_engine(Engine::conv_weight);
  const Mode mode = precision == Precision::fast ? Mode::fast : doubles ? Mode::twofold : Mode::wide;
  if (mode == Mode::fast && !doubles) WeightEngine<float>(geometry, inputs, outputs, out, mode, kernels).run();
  else WeightEngine<double>(geometry, inputs, outputs, out, mode, kernels).run();
}

// Both sums of a channel at once: of the terms, unless they are doubles, and of their magnitudes.
void sum_channel(Buffer<double>& line, Index batch, Index channel, const std::vector<Index>& sizes,
                 const SourcePlanes& planes, const Outputs& out) {
  const auto each_run = [&](const auto& f) {
    for (Index n = 0; n < batch; ++n)
      for_each_run(line, planes.data + n * planes.batch + channel * planes.channel, sizes, planes.spatial, f);
  };
  const auto sum_exactly = [&](auto sum) {
    each_run([&](const double* x, Index count) {
      for (Index i = 0; i < count; ++i) sum.add(x[i]);
    });
    store_exact(sum, out);
  };
  if (out.type->dtype == DType::f64) return sum_exactly(ExactSums<double>::terms{});
  LaneSums plain, magnitudes;
  Index terms = 0;
  each_run([&](const double* x, Index count) {
    plain.add(x, count, [](double v) { return v; });
    magnitudes.add(x, count, [](double v) { return std::abs(v); });
    terms += count;
  });
  const double value = plain.total();
  const double error = 1.001 * static_cast<double>(terms + 8) * 0x1p-53 * magnitudes.total();
  if (value != 0 && same_rounding_in(out.type->dtype, value - error, value + error)) return store(out, value);
  sum_exactly(ExactSums<float>::terms{});
}

}  // namespace

template <class T>
void weight_product(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
                    const Filters<T>& out, Precision precision) {
  const ConvKernels& kernels = select_conv_kernels();
  run_weight_product(geometry, source_planes(inputs, kernels), source_planes(outputs, kernels),
                     {conv::outputs(out.data, kernels), out.out, out.in, out.spatial}, precision);
}

template <class T>
void bias_sum(Index batch, Index channels, const std::vector<Index>& sizes, const Planes<const T>& planes, T* out,
              Index out_stride) {
  const ConvKernels& kernels = select_conv_kernels();
  const SourcePlanes source = source_planes(planes, kernels);
  const Outputs first = outputs(out, kernels);
  run_tasks<Buffer<double>>(channels, [&](Buffer<double>& line, Index channel) {
    sum_channel(line, batch, channel, sizes, source, first + channel * out_stride);
  });
}

#define HALFULP_INSTANTIATE(T)                                                                                        \
  template void weight_product<T>(const Geometry&, const Planes<const T>&, const Planes<const T>&, const Filters<T>&, \
                                  Precision);                                                                         \
  template void bias_sum<T>(Index, Index, const std::vector<Index>&, const Planes<const T>&, T*, Index);
HALFULP_INSTANTIATE(Float16)
HALFULP_INSTANTIATE(BFloat16)
HALFULP_INSTANTIATE(float)
HALFULP_INSTANTIATE(double)

}  // namespace halfulp::conv
