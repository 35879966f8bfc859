// The weight product and the bias sum.
#include "conv/measure.hpp"
#include "conv/weight_engine.hpp"
#include "conv/weight_patches.hpp"
#include "halfulp/conv.hpp"
#include "halfulp/engines.hpp"

namespace halfulp::conv {

template <class T>
void weight_product(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
                    const Filters<T>& out, Precision precision) {
  if (geometry.batch > 1 && geometry.axes.size() == 1) {
    const Axis& axis = geometry.axes.front();
    if (axis.size == 1 && axis.output == 1 && axis.kernel == 1 && axis.before == 0) {
      // Planes of one cell: the samples are the positions of one plane, whose products fill vectors.
      Geometry single = geometry;
      single.axes.front().size = single.axes.front().output = geometry.batch;
      single.axes.front().stride = single.batch = 1;
      return weight_product<T>(single, {inputs.data, 0, inputs.channel, {inputs.batch}},
                               {outputs.data, 0, outputs.channel, {outputs.batch}}, out, precision);
    }
  }
  const ConvKernels& kernels = select_conv_kernels();
  if constexpr (!std::is_same_v<T, double>) {
    if (precision == Precision::correct && WeightPatchEngine<T>::fits(geometry) &&
        WeightPatchEngine<T>(geometry, inputs, outputs, out, kernels).run()) {
      count_engine(Engine::conv_weight_winograd);
      return;
    }
  }
  count_engine(Engine::conv_weight);
  if (precision == Precision::fast) {
    using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
    WeightEngine<T, Sum>(geometry, inputs, outputs, out, Mode::fast, kernels).run();
    return;
  }
  const Mode mode = std::is_same_v<T, double> ? Mode::twofold : Mode::wide;
  WeightEngine<T, double>(geometry, inputs, outputs, out, mode, kernels).run();
}

namespace {

// Both sums of a channel at once: of the terms, twofold if they are doubles, and of their magnitudes.
template <class T>
T sum_channel(const ConvKernels& kernels, Buffer<double>& line, Index batch, Index channel,
              const std::vector<Index>& sizes, const Planes<const T>& planes) {
  LaneSums plain, magnitudes;
  Index terms = 0;
  const auto each_run = [&](const auto& f) {
    for (Index n = 0; n < batch; ++n)
      for_each_run(kernels, line, planes.data + n * planes.batch + channel * planes.channel, sizes, planes.spatial, f);
  };
  if constexpr (!std::is_same_v<T, double>) {
    each_run([&](const double* x, Index count) {
      plain.add(x, count, [](double v) { return v; });
      magnitudes.add(x, count, [](double v) { return std::abs(v); });
      terms += count;
    });
    const double value = plain.total();
    const double error = 1.001 * static_cast<double>(terms + 8) * 0x1p-53 * magnitudes.total();
    if (value != 0 && same_rounding<T>(value - error, value + error)) return round_to<T>(value);
  }
  typename ExactSums<T>::terms sum;
  each_run([&](const double* x, Index count) {
    for (Index i = 0; i < count; ++i) sum.add(x[i]);
  });
  return sum.template round<T>();
}

}  // namespace

template <class T>
void bias_sum(Index batch, Index channels, const std::vector<Index>& sizes, const Planes<const T>& planes, T* out,
              Index out_stride) {
  const ConvKernels& kernels = select_conv_kernels();
  run_tasks<Buffer<double>>(channels, [&](Buffer<double>& line, Index channel) {
    out[channel * out_stride] = sum_channel(kernels, line, batch, channel, sizes, planes);
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
