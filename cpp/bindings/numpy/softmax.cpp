// Softmax for Python. Arrays are dense and C-ordered, of one float type: the layer above sees to it.
#include "halfulp/softmax.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bindings.hpp"
#include "numpy/array.hpp"

namespace halfulp::bindings {
namespace {

// work: 0 value, 1 tangent, 2 cotangent; x and t are (outer, length, inner).
// (the output, the flat positions that are undecided as int64).
nb::tuple softmax_array(const std::string& name, int work, bool logarithm, nb::handle x, nb::handle t) {
  const InputArray input = take_float_input(x, name.c_str(), "input");
  SoftmaxProblem problem;
  problem.dtype = input.view.dtype;
  problem.outer = input.view.shape[0];
  problem.length = input.view.shape[1];
  problem.inner = input.view.shape[2];
  problem.logarithm = logarithm;
  problem.work = static_cast<SoftmaxWork>(work);
  problem.x = input.view.data;
  InputArray along;
  if (!t.is_none()) {
    along = take_float_input(t, name.c_str(), "tangent");
    problem.t = along.view.data;
  }
  const OutputArray out = new_output(input.view.shape, problem.dtype);
  problem.out = out.view.data;
  std::vector<Index> undecided;
  {
    const KernelScope scope;
    undecided = softmax(problem);
  }
  const OutputArray positions = new_output(Sizes{static_cast<Index>(undecided.size())}, DType::i64);
  std::copy(undecided.begin(), undecided.end(), positions.view.as<Index>());
  return nb::make_tuple(out.owner, positions.owner);
}

}  // namespace

void register_softmax(nb::module_& module) {
  module.def("softmax", &softmax_array, nb::arg("name"), nb::arg("work"), nb::arg("logarithm"), nb::arg("x"),
             nb::arg("t").none());
}

}  // namespace halfulp::bindings
