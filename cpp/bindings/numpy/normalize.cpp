// Normalisations for Python. Arrays are dense and C-ordered, of one float type: the layer above sees to it.
#include "halfulp/normalize.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.hpp"
#include "numpy/array.hpp"

namespace halfulp::bindings {
namespace {

nb::tuple with_positions(const OutputArray& out, const std::vector<Index>& undecided) {
  const OutputArray positions = new_output(Sizes{static_cast<Index>(undecided.size())}, DType::i64);
  std::copy(undecided.begin(), undecided.end(), positions.view.as<Index>());
  return nb::make_tuple(out.owner, positions.owner);
}

// work: 0 value, 1 tangent, 2 cotangent of x, 3 cotangent of the weights; sizes: blocks, groups, inner, channels.
// (the output, the flat positions that are undecided as int64).
nb::tuple normalize_arrays(const std::string& name, int work, const std::vector<Index>& sizes, bool joint,
                           bool per_cell, double eps, nb::handle x, nb::list arrays, std::vector<Index> shape) {
  const InputArray input = take_float_input(x, name.c_str(), "input");
  NormProblem problem;
  problem.dtype = input.view.dtype;
  problem.blocks = sizes.at(0);
  problem.groups = sizes.at(1);
  problem.inner = sizes.at(2);
  problem.channels = sizes.at(3);
  problem.joint = joint;
  problem.per_cell = per_cell;
  problem.eps = eps;
  problem.work = static_cast<NormWork>(std::min(work, 2));
  problem.x = input.view.data;
  std::vector<InputArray> held;
  const void** const places[] = {&problem.weight, &problem.bias,     &problem.mean,  &problem.variance,
                                 &problem.t,      &problem.d_weight, &problem.d_bias};
  for (std::size_t i = 0; i < std::size(places); ++i) {
    if (arrays[i].is_none()) continue;
    held.push_back(take_float_input(arrays[i], name.c_str(), "input"));
    *places[i] = held.back().view.data;
  }
  const OutputArray out = new_output(Sizes(shape), problem.dtype);
  problem.out = out.view.data;
  std::vector<Index> undecided;
  {
    const KernelScope scope;
    undecided = work == 3 ? normalize_weights(problem) : normalize(problem);
  }
  return with_positions(out, undecided);
}

// One statistic per group; `squares` for the variance over cells - correction.
nb::tuple statistics_array(const std::string& name, const std::vector<Index>& sizes, bool joint, nb::handle x,
                           nb::handle old, double momentum, bool squares, Index correction,
                           std::vector<Index> shape) {
  const InputArray input = take_float_input(x, name.c_str(), "input");
  NormProblem problem;
  problem.dtype = input.view.dtype;
  problem.blocks = sizes.at(0);
  problem.groups = sizes.at(1);
  problem.inner = sizes.at(2);
  problem.joint = joint;
  problem.x = input.view.data;
  InputArray before;
  if (!old.is_none()) {
    before = take_float_input(old, name.c_str(), "running statistics");
    problem.old = before.view.data;
  }
  problem.momentum = momentum;
  problem.squares = squares;
  problem.correction = correction;
  const OutputArray out = new_output(Sizes(shape), problem.dtype);
  problem.out = out.view.data;
  std::vector<Index> undecided;
  {
    const KernelScope scope;
    undecided = group_statistics(problem);
  }
  return with_positions(out, undecided);
}

}  // namespace

void register_normalize(nb::module_& module) {
  module.def("normalize", &normalize_arrays, nb::arg("name"), nb::arg("work"), nb::arg("sizes"), nb::arg("joint"),
             nb::arg("per_cell"), nb::arg("eps"), nb::arg("x"), nb::arg("arrays"), nb::arg("shape"));
  module.def("group_statistics", &statistics_array, nb::arg("name"), nb::arg("sizes"), nb::arg("joint"), nb::arg("x"),
             nb::arg("old").none(), nb::arg("momentum"), nb::arg("squares"), nb::arg("correction"), nb::arg("shape"));
}

}  // namespace halfulp::bindings
