// The products of convolution for Python. The Python layer has checked shapes, channels and element types; here arrays
// become planes and filters, and outputs are made.
#include "halfulp/conv.hpp"
#include "halfulp/geometry.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>

#include "bindings.hpp"
#include "numpy/array.hpp"

namespace halfulp::bindings {
namespace {

using conv::Filters;
using conv::Geometry;
using conv::Operand;
using conv::Planes;
using conv::Precision;

// size, kernel, stride, dilation, before, output
using AxisNumbers = std::array<Index, 6>;

std::vector<Index> strides_from(const ArrayView& view, int first) {
  std::vector<Index> strides;
  const auto size = static_cast<Index>(item_size(view.dtype));
  for (int i = first; i < view.ndim(); ++i) strides.push_back(view.strides[i] / size);
  return strides;
}

template <class T>
Planes<T> planes_of(const ArrayView& view, std::size_t ndim) {
  std::vector<Index> strides = strides_from(view, 0);
  const bool batched = strides.size() == ndim + 2;
  Planes<T> planes;
  planes.data = reinterpret_cast<T*>(view.data);
  planes.batch = batched ? strides.front() : 0;
  planes.channel = strides[batched ? 1 : 0];
  planes.spatial.assign(strides.end() - static_cast<std::ptrdiff_t>(ndim), strides.end());
  return planes;
}

template <class T>
Filters<T> filters_of(const ArrayView& view) {
  const std::vector<Index> strides = strides_from(view, 0);
  return {reinterpret_cast<T*>(view.data), strides[0], strides[1], {strides.begin() + 2, strides.end()}};
}

// `planes` is any array of planes of the call, `weight_shape` the shape (groups * out, in, kernel…).
Geometry geometry_of(const std::vector<AxisNumbers>& axes, Index groups, const ArrayView& planes,
                     const Sizes& weight_shape) {
  Geometry geometry;
  geometry.batch = planes.ndim() == static_cast<int>(axes.size()) + 2 ? planes.shape[0] : 1;
  geometry.groups = groups;
  geometry.out_channels = weight_shape[0] / groups;
  geometry.in_channels = weight_shape[1];
  for (const AxisNumbers& numbers : axes) {
    Axis axis;
    axis.size = numbers[0];
    axis.kernel = numbers[1];
    axis.stride = numbers[2];
    axis.dilation = numbers[3];
    axis.before = numbers[4];
    axis.output = numbers[5];
    geometry.axes.push_back(axis);
  }
  return geometry;
}

Precision precision_of(bool fast) { return fast ? Precision::fast : Precision::correct; }

// The output product, or the input product if `transposed`, of (planes, filters) pairs, plus a bias or None.
nb::object gather(const std::string& name, const std::vector<AxisNumbers>& axes, Index groups, bool transposed,
                  const std::vector<nb::object>& planes, const std::vector<nb::object>& filters, nb::handle bias,
                  const std::vector<Index>& output_shape, bool fast, nb::handle out_array) {
  std::vector<InputArray> sources, weights;
  for (const nb::object& array : planes) sources.push_back(take_float_input(array, name.c_str(), "input"));
  for (const nb::object& array : filters) weights.push_back(take_float_input(array, name.c_str(), "weight"));
  InputArray offset;
  if (!bias.is_none()) offset = take_float_input(bias, name.c_str(), "bias");
  const ArrayView& like = sources.front().view;
  if (!out_array || out_array.is_none())
    check_memory(name, "output", Sizes(std::span<const Index>(output_shape)), like.dtype);
  const OutputArray output = new_output(Sizes(std::span<const Index>(output_shape)), like.dtype, like, out_array);
  Geometry geometry = geometry_of(axes, groups, like, weights.front().view.shape);
  {
    const KernelScope scope;
    visit_float(like.dtype, [&](auto tag) {
      using T = decltype(tag);
      std::vector<Operand<T>> operands;
      for (std::size_t i = 0; i < sources.size(); ++i)
        operands.push_back({planes_of<const T>(sources[i].view, axes.size()), filters_of<const T>(weights[i].view)});
      Planes<T> out = planes_of<T>(output.view, axes.size());
      std::vector<std::vector<Index>*> strides{&out.spatial}, filter_strides;
      for (Operand<T>& operand : operands) {
        strides.push_back(&operand.planes.spatial);
        filter_strides.push_back(&operand.filters.spatial);
      }
      conv::merge_plain_axes(geometry, strides, filter_strides);
      const T* const bias_data = bias.is_none() ? nullptr : offset.view.as<const T>();
      const Index bias_stride = bias.is_none() ? 0 : strides_from(offset.view, 0)[0];
      const auto product = transposed ? conv::input_product<T> : conv::output_product<T>;
      product(geometry, operands, bias_data, bias_stride, out, precision_of(fast));
    });
  }
  return output.owner;
}

// The weight product: `inputs` are the convolution's input cells, `outputs` its outputs.
nb::object weight(const std::string& name, const std::vector<AxisNumbers>& axes, Index groups, nb::handle inputs,
                  nb::handle outputs, nb::handle like, bool fast) {
  const InputArray x = take_float_input(inputs, name.c_str(), "input");
  const InputArray y = take_float_input(outputs, name.c_str(), "cotangent");
  const InputArray w = take_float_input(like, name.c_str(), "weight");
  const OutputArray output = new_output(w.view.shape, w.view.dtype, w.view);
  Geometry geometry = geometry_of(axes, groups, x.view, w.view.shape);
  {
    const KernelScope scope;
    visit_float(x.view.dtype, [&](auto tag) {
      using T = decltype(tag);
      Planes<const T> cells = planes_of<const T>(x.view, axes.size());
      Planes<const T> results = planes_of<const T>(y.view, axes.size());
      Filters<T> out = filters_of<T>(output.view);
      conv::merge_plain_axes(geometry, {&cells.spatial, &results.spatial}, {&out.spatial});
      conv::weight_product<T>(geometry, cells, results, out, precision_of(fast));
    });
  }
  return output.owner;
}

// The sum over batch and space of every channel.
nb::object channel_sums(const std::string& name, Index ndim, nb::handle array) {
  const InputArray y = take_float_input(array, name.c_str(), "cotangent");
  const bool batched = y.view.ndim() == ndim + 2;
  const Index channels = y.view.shape[batched ? 1 : 0];
  const OutputArray output = new_output(Sizes{channels}, y.view.dtype);
  {
    const KernelScope scope;
    visit_float(y.view.dtype, [&](auto tag) {
      using T = decltype(tag);
      std::vector<Index> sizes(y.view.shape.end() - ndim, y.view.shape.end());
      conv::bias_sum<T>(batched ? y.view.shape[0] : 1, channels, sizes,
                        planes_of<const T>(y.view, static_cast<std::size_t>(ndim)), output.view.as<T>(), 1);
    });
  }
  return output.owner;
}

}  // namespace

void register_conv(nb::module_& module) {
  using namespace nb::literals;
  module.def("conv_gather", &gather, "name"_a, "axes"_a, "groups"_a, "transposed"_a, "planes"_a, "filters"_a,
             "bias"_a.none(), "output_shape"_a, "fast"_a, "out"_a = nb::none());
  module.def("conv_weight", &weight, "name"_a, "axes"_a, "groups"_a, "inputs"_a, "outputs"_a, "like"_a, "fast"_a);
  module.def("conv_channel_sums", &channel_sums, "name"_a, "ndim"_a, "array"_a);
}

}  // namespace halfulp::bindings
