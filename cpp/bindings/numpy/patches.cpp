// Unfold, fold, and cells placed by index, for Python. Arrays are dense and C-ordered: the layer above sees to it.
#include "halfulp/patches.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "halfulp/given_windows.hpp"
#include "halfulp/norm2.hpp"
#include "halfulp/unpool.hpp"
#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

using AxisRows = std::vector<std::vector<Index>>;

// Each axis as (size, kernel, stride, dilation, before, outputs).
std::vector<PatchAxis> patch_axes(const AxisRows& axes) {
  std::vector<PatchAxis> result;
  for (const std::vector<Index>& a : axes)
    result.push_back({a.at(0), a.at(1), a.at(2), a.at(3), a.at(4), a.at(5)});
  return result;
}

Index planes_of(const Sizes& shape, const std::vector<PatchAxis>& axes) {
  Index planes = 1;
  for (int i = 0; i < shape.size() - static_cast<int>(axes.size()); ++i) planes *= shape[i];
  return planes;
}

nb::object unfold_array(const std::string& name, const AxisRows& numbers, nb::handle input, std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_input(input, name.c_str(), "input");
  OutputArray out = new_output(Sizes(shape), x.view.dtype);
  run_kernels([&] { unfold(axes, planes_of(x.view.shape, axes), x.view, out.view); });
  return std::move(out.owner);
}

nb::object fold_array(const std::string& name, const AxisRows& numbers, nb::handle input, std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_float_input(input, name.c_str(), "input");
  OutputArray out = new_output(Sizes(shape), x.view.dtype);
  run_kernels([&] { fold(axes, planes_of(out.view.shape, axes), x.view, out.view); });
  return std::move(out.owner);
}

// The outputs of a placement, and the flat position of the first index that is out of range or -1.
nb::tuple place_array(const std::string& name, int ndim, nb::handle values, nb::handle indices,
                      std::vector<Index> shape) {
  const InputArray v = take_input(values, name.c_str(), "input");
  const InputArray i = take_input(indices, name.c_str(), "indices");
  const OutputArray out = new_output(Sizes(shape), v.view.dtype);
  const auto refused = run_kernels([&] { return place({ndim, v.view, i.view, out.view}); });
  return nb::make_tuple(out.owner, refused);
}

nb::tuple place_two(const std::string& name, int ndim, nb::handle values, nb::handle tangents, nb::handle indices,
                    std::vector<Index> shape) {
  const InputArray v = take_input(values, name.c_str(), "input");
  const InputArray t = take_matching(tangents, name.c_str(), "tangent", v.view.shape, v.view.dtype, "I4");
  const InputArray i = take_input(indices, name.c_str(), "indices");
  const OutputArray out = new_output(Sizes(shape), v.view.dtype), out_tangent = new_output(Sizes(shape), v.view.dtype);
  const auto refused = run_kernels([&] { return place({ndim, v.view, i.view, out.view, &t.view, &out_tangent.view}); });
  return nb::make_tuple(out.owner, out_tangent.owner, refused);
}

nb::tuple place_keep(const std::string& name, int ndim, nb::handle values, nb::handle indices,
                     std::vector<Index> shape) {
  const InputArray v = take_input(values, name.c_str(), "input");
  const InputArray i = take_input(indices, name.c_str(), "indices");
  const OutputArray out = new_output(Sizes(shape), v.view.dtype);
  auto placed = std::make_unique<Placed>();
  const auto refused = run_kernels([&] { return place({ndim, v.view, i.view, out.view}, placed.get()); });
  return nb::make_tuple(out.owner, std::move(placed), refused);
}

nb::object pick_array(const std::string& name, const Placed& placed, nb::handle cells) {
  const InputArray x = take_input(cells, name.c_str(), "cotangent");
  OutputArray out = new_output(placed.values, x.view.dtype);
  run_kernels([&] { pick(placed, x.view, out.view); });
  return std::move(out.owner);
}

nb::tuple norm2_array(const std::string& name, const AxisRows& numbers, nb::handle input, std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_float_input(input, name.c_str(), "input");
  const OutputArray out = new_output(Sizes(shape), x.view.dtype);
  return with_undecided(out, [&] { return norm2_values(axes, planes_of(x.view.shape, axes), x.view, out.view); });
}

// (norms, their undecided positions, a copy of the input, what else norm2_vjp takes).
nb::tuple norm2_keep_array(const std::string& name, const AxisRows& numbers, nb::handle input,
                           std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_float_input(input, name.c_str(), "input");
  const Sizes sizes(shape);
  const OutputArray out = new_output(sizes, x.view.dtype), kept = new_output(x.view.shape, x.view.dtype);
  const bool wanted = norm2_wants_inverse(axes, x.view.dtype);
  const OutputArray inverse = new_output(wanted ? sizes : Sizes(std::vector<Index>{0}), DType::f64);
  const auto undecided = run_kernels([&] {
    return norm2_keep(axes, planes_of(x.view.shape, axes), x.view, out.view, kept.view, inverse.view);
  });
  return nb::make_tuple(out.owner, as_array(undecided), kept.owner, inverse.owner);
}

// (norms, their undecided positions, tangents, their undecided positions).
nb::tuple norm2_jvp(const std::string& name, const AxisRows& numbers, nb::handle input, nb::handle tangent,
                    std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_float_input(input, name.c_str(), "input");
  const InputArray t = take_float_input(tangent, name.c_str(), "tangent");
  const OutputArray out = new_output(Sizes(shape), x.view.dtype), tangents = new_output(Sizes(shape), x.view.dtype);
  const auto undecided = run_kernels([&] {
    return norm2_tangents(axes, planes_of(x.view.shape, axes), x.view, t.view, out.view, tangents.view);
  });
  return nb::make_tuple(out.owner, as_array(undecided.first), tangents.owner, as_array(undecided.second));
}

nb::tuple norm2_vjp(const std::string& name, const AxisRows& numbers, nb::handle input, nb::handle inverses,
                    nb::handle cotangent) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_float_input(input, name.c_str(), "input");
  const InputArray g = take_float_input(cotangent, name.c_str(), "cotangent");
  const InputArray inverse = take_float_input(inverses, name.c_str(), "inverse");
  const OutputArray out = new_output(x.view.shape, x.view.dtype);
  return with_undecided(out, [&] {
    return norm2_cotangents(axes, planes_of(x.view.shape, axes), x.view, inverse.view, g.view, out.view);
  });
}

// (largest magnitudes, tangents, the planes that are left out); None if this is not for such windows.
std::optional<nb::tuple> magnitude_jvp(const std::string& name, const AxisRows& numbers, nb::handle input,
                                       nb::handle tangent, std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_float_input(input, name.c_str(), "input");
  const InputArray t = take_float_input(tangent, name.c_str(), "tangent");
  if (!magnitudes_apply(axes, x.view.dtype)) return std::nullopt;
  const OutputArray out = new_output(Sizes(shape), x.view.dtype), tangents = new_output(Sizes(shape), x.view.dtype);
  const auto left = run_kernels([&] {
    return magnitude_tangents(axes, planes_of(x.view.shape, axes), x.view, t.view, out.view, tangents.view);
  });
  return nb::make_tuple(out.owner, tangents.owner, as_array(left));
}

// (largest magnitudes, their winners, the planes that are left out); None as above.
std::optional<nb::tuple> magnitude_keep(const std::string& name, const AxisRows& numbers, nb::handle input,
                                        std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray x = take_float_input(input, name.c_str(), "input");
  if (!magnitudes_apply(axes, x.view.dtype)) return std::nullopt;
  const OutputArray out = new_output(Sizes(shape), x.view.dtype), kept = new_output(Sizes(shape), winner_type(axes));
  const auto left = run_kernels([&] {
    return magnitude_winners(axes, planes_of(x.view.shape, axes), x.view, out.view, kept.view);
  });
  return nb::make_tuple(out.owner, kept.owner, as_array(left));
}

nb::object magnitude_vjp(const std::string& name, const AxisRows& numbers, nb::handle winners, nb::handle cotangent,
                         std::vector<Index> shape) {
  const std::vector<PatchAxis> axes = patch_axes(numbers);
  const InputArray kept = take_input(winners, name.c_str(), "winners");
  const InputArray g = take_float_input(cotangent, name.c_str(), "cotangent");
  OutputArray dx = new_output(Sizes(shape), g.view.dtype);
  run_kernels([&] { magnitude_pullback(axes, planes_of(dx.view.shape, axes), kept.view, g.view, dx.view); });
  return std::move(dx.owner);
}

// (the values times the signs of x, whether an x is NaN).
nb::tuple give_signs_array(const std::string& name, nb::handle input, nb::handle values, bool zeros) {
  const InputArray x = take_float_input(input, name.c_str(), "input");
  const InputArray v = take_float_input(values, name.c_str(), "values");
  const OutputArray out = new_output(x.view.shape, x.view.dtype);
  const auto nan = run_kernels([&] { return give_signs(x.view, v.view, out.view, zeros); });
  return nb::make_tuple(out.owner, nan);
}

}  // namespace

void register_patches(nb::module_& module) {
  module.def("unfold", &unfold_array, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("shape"));
  module.def("fold", &fold_array, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("shape"));
  nb::class_<Placed>(module, "Placed", "Where values were placed.");
  module.def("place", &place_array, nb::arg("name"), nb::arg("ndim"), nb::arg("values"), nb::arg("indices"),
             nb::arg("shape"));
  module.def("place_two", &place_two, nb::arg("name"), nb::arg("ndim"), nb::arg("values"), nb::arg("tangents"),
             nb::arg("indices"), nb::arg("shape"));
  module.def("place_keep", &place_keep, nb::arg("name"), nb::arg("ndim"), nb::arg("values"), nb::arg("indices"),
             nb::arg("shape"));
  module.def("norm2", &norm2_array, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("shape"));
  module.def("norm2_keep", &norm2_keep_array, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("shape"));
  module.def("norm2_jvp", &norm2_jvp, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("t"), nb::arg("shape"));
  module.def("norm2_vjp", &norm2_vjp, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("inverse"),
             nb::arg("g"));
  module.def("give_signs", &give_signs_array, nb::arg("name"), nb::arg("x"), nb::arg("values"), nb::arg("zeros"));
  module.def("magnitude_jvp", &magnitude_jvp, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("t"),
             nb::arg("shape"));
  module.def("magnitude_keep", &magnitude_keep, nb::arg("name"), nb::arg("axes"), nb::arg("x"), nb::arg("shape"));
  module.def("magnitude_vjp", &magnitude_vjp, nb::arg("name"), nb::arg("axes"), nb::arg("winners"), nb::arg("g"),
             nb::arg("shape"));
  module.def("pick", &pick_array, nb::arg("name"), nb::arg("placed"), nb::arg("cells"));
}

}  // namespace halfulp::bindings
