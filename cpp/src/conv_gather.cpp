// The output product and the input product: one engine, two ways to say which source cells meet an output.
#include "conv/gather_engine.hpp"
#include "halfulp/conv.hpp"

namespace halfulp::conv {
namespace {

template <class T>
void run(GatherProblem<T>& problem, Precision precision) {
  const ConvKernels& kernels = select_conv_kernels();
  if (precision == Precision::fast) {
    problem.mode = Mode::fast;
    using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
    if (GatherEngine<T, Sum>(problem, kernels).run()) return;
  }
  problem.mode = std::is_same_v<T, double> ? Mode::twofold : Mode::wide;
  GatherEngine<T, double>(problem, kernels).run();
}

template <class T>
GatherProblem<T> common(const Geometry& geometry, const T* bias, Index bias_stride, const Planes<T>& out) {
  GatherProblem<T> problem;
  problem.batch = geometry.batch;
  problem.groups = geometry.groups;
  problem.bias = bias;
  problem.bias_stride = bias_stride;
  problem.out = out;
  return problem;
}

}  // namespace

template <class T>
void output_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                    const Planes<T>& out, Precision precision) {
  GatherProblem<T> problem = common(geometry, bias, bias_stride, out);
  problem.channels = geometry.in_channels;
  problem.rows = geometry.out_channels;
  problem.gather = output_gather(geometry);
  for (const Operand<T>& operand : operands) {
    const Filters<const T>& filters = operand.filters;
    problem.sources.push_back({operand.planes, filters.data, filters.out, filters.in,
                               geometry.out_channels * filters.out, filters.spatial});
  }
  run(problem, precision);
}

template <class T>
void input_product(const Geometry& geometry, const std::vector<Operand<T>>& operands, const T* bias, Index bias_stride,
                   const Planes<T>& out, Precision precision) {
  GatherProblem<T> problem = common(geometry, bias, bias_stride, out);
  problem.channels = geometry.out_channels;
  problem.rows = geometry.in_channels;
  for (const Operand<T>& operand : operands) {
    const Filters<const T>& filters = operand.filters;
    problem.sources.push_back({operand.planes, filters.data, filters.in, filters.out,
                               geometry.out_channels * filters.out, filters.spatial});
  }
  for (Gather& gather : input_gathers(geometry)) {
    problem.gather = std::move(gather);
    run(problem, precision);
  }
}

#define HALFULP_INSTANTIATE(T)                                                                                       \
  template void output_product<T>(const Geometry&, const std::vector<Operand<T>>&, const T*, Index, const Planes<T>&, \
                                  Precision);                                                                        \
  template void input_product<T>(const Geometry&, const std::vector<Operand<T>>&, const T*, Index, const Planes<T>&,  \
                                 Precision);
HALFULP_INSTANTIATE(Float16)
HALFULP_INSTANTIATE(BFloat16)
HALFULP_INSTANTIATE(float)
HALFULP_INSTANTIATE(double)

}  // namespace halfulp::conv
