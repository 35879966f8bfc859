// Sums with fixed weights for Python. Arrays are dense and C-ordered: the layer above sees to it.
#include "halfulp/interpolate.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>

#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

// x is (planes, n0, n1, n2). `axes` has for each of the three the arrays counts (int64), cells (int64), high, low
// (float64) and numerators (int64), all but the first of shape (most, outputs).
// (the output, the flat positions that are undecided as int64).
nb::tuple weighted_taps_array(const std::string& name, nb::handle x, nb::sequence axes, std::int64_t divisor, int bits,
                              double reach, bool negative) {
  const InputArray input = take_float_input(x, name.c_str(), "input");
  TapProblem problem;
  problem.dtype = input.view.dtype;
  problem.planes = input.view.shape[0];
  problem.divisor = divisor;
  problem.bits = bits;
  problem.reach = reach;
  problem.negative = negative;
  problem.x = input.view.data;
  std::array<InputArray, 5 * TapProblem::kAxes> held;
  Sizes shape{problem.planes, 1, 1, 1};
  for (int i = 0; i < TapProblem::kAxes; ++i) {
    const nb::sequence tables = nb::cast<nb::sequence>(axes[static_cast<std::size_t>(i)]);
    InputArray* const own = &held[static_cast<std::size_t>(5 * i)];
    for (int k = 0; k < 5; ++k) own[k] = take_input(tables[static_cast<std::size_t>(k)], name.c_str(), "taps");
    TapAxis& axis = problem.axis[i];
    axis.size = input.view.shape[i + 1];
    axis.outputs = own[0].view.shape[0];
    axis.most = own[1].view.shape[0];
    axis.counts = own[0].view.as<std::int64_t>();
    axis.cells = own[1].view.as<std::int64_t>();
    axis.high = own[2].view.as<double>();
    axis.low = own[3].view.as<double>();
    axis.numerators = own[4].view.as<std::int64_t>();
    shape.data()[i + 1] = axis.outputs;
  }
  const OutputArray out = new_output(shape, problem.dtype);
  problem.out = out.view.data;
  return with_undecided(out, [&] { return weighted_taps(problem); });
}

}  // namespace

void register_interpolate(nb::module_& module) {
  module.def("weighted_taps", &weighted_taps_array, nb::arg("name"), nb::arg("x"), nb::arg("axes"), nb::arg("divisor"),
             nb::arg("bits"), nb::arg("reach"), nb::arg("negative"));
}

}  // namespace halfulp::bindings
